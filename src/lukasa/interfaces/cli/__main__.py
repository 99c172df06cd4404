"""Run ``lukasa`` as ``python -m lukasa.interfaces.cli``, without an installed script."""

from lukasa.config import limit_numpy_threads

limit_numpy_threads()

from lukasa.interfaces.cli.app import app  # noqa: E402 - it may import numpy

app(prog_name="lukasa")
