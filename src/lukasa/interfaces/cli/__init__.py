"""The command line: parses arguments, calls the library, prints the answer.

``app`` registers the commands and reports errors, ``options`` holds what commands share, ``render`` prints. Every other
module holds the commands of its name.
"""


def main() -> None:
    """Run the command line. Hooks of coding agents take a shortcut that loads almost nothing."""
    import sys

    from lukasa.interfaces.hooks.client import parse_hook_call, run_hook

    if (call := parse_hook_call(sys.argv[1:])) is not None:
        sys.exit(run_hook(call))
    from lukasa.interfaces.cli.app import app

    app()
