"""The command line: it reads what a person typed, calls the library, and shows what came back.

``app`` names the commands, ``outcome`` holds the one table of exit codes, ``show`` turns records into tables and JSON
that hostile text cannot break. Everything else is one command after the other.
"""


def main() -> None:
    """Starts the command line."""
    from lukasa.doors.cli.app import app

    app()
