"""``python -m lukasa.doors.cli`` is ``lukasa`` where no script was installed."""

from lukasa.doors.cli.app import app

app(prog_name="lukasa")
