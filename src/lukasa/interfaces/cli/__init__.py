"""The command line: it reads what a person typed, calls the library, and shows what came back.

``app`` names the commands, ``outcome`` holds the one table of exit codes, ``show`` turns records into tables and JSON
that hostile text cannot break. Everything else is one command after the other.
"""


def main() -> None:
    """Starts the command line. What a coding agent waits for goes a shorter way, which loads next to nothing."""
    import sys

    from lukasa.interfaces.hooks.client import parse_hook_call, run_hook

    if (call := parse_hook_call(sys.argv[1:])) is not None:
        sys.exit(run_hook(call))
    from lukasa.interfaces.cli.app import app

    app()
