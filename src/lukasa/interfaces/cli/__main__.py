"""``python -m lukasa.interfaces.cli`` is ``lukasa`` where no script was installed."""

from lukasa.interfaces.cli.app import app

app(prog_name="lukasa")
