"""Run ``lukasa`` as ``python -m lukasa.interfaces.cli``, without an installed script."""

from lukasa.interfaces.cli.app import app

app(prog_name="lukasa")
