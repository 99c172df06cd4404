"""The command line."""


def main() -> None:
    """Starts the command line."""
