"""The command line: parses arguments, calls the library, prints the answer.

``app`` lists the commands and reports errors. ``build`` makes those of the table ``lukasa.operations`` from their methods, and
``answers`` prints what these return. ``options`` holds what commands share, ``render`` prints. Every other module holds the
commands of its name that are written by hand, because they are no single operation.
"""

_ALLOCATED_OBJECTS = 50_000  # more than the imports of most commands leave; 700 by default


def main() -> None:
    """Run the command line. Hooks of coding agents take a shortcut that loads almost nothing.

    What is loaded stays until the end, so the search for unused objects begins late and is left out at the end.
    """
    import atexit
    import gc
    import sys

    from lukasa.interfaces.hooks.client import parse_hook_call, run_hook

    if (call := parse_hook_call(sys.argv[1:])) is not None:
        sys.exit(run_hook(call))
    gc.set_threshold(_ALLOCATED_OBJECTS)
    atexit.register(gc.freeze)
    from lukasa.config import limit_numpy_threads

    limit_numpy_threads()
    from lukasa.interfaces.cli.app import app

    app()
