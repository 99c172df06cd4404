"""Draw ``recall.svg``: the terminal output of the commands below, run in a temporary store.

make pictures
"""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

COLUMNS = 120
COMMANDS = (
    'lukasa --agent ada remember "We deploy to Hetzner on Fridays, never before the smoke test."',
    'lukasa --agent ben remember "The smoke test runs in CI and takes under five minutes."',
    'lukasa --agent ben remember "tick marker for burst 5"',
    'lukasa recall "when do we deploy?" --explain -k 2',
    'lukasa --agent ada recall "when do we deploy?" --budget 200',
)
PICTURE = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: {char_height}px; \
line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def run_in_terminal(command: str, folder: Path) -> str:
    """Run a command in a terminal of ``COLUMNS`` columns and return its output."""
    ours, theirs = pty.openpty()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "LUKASA_STORE": str(folder / "agents.db"),
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    with subprocess.Popen(  # noqa: S603 - the commands above
        shlex.split(command), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, cwd=folder
    ):
        os.close(theirs)
        output = bytearray()
        while piece := _read(ours):
            output += piece
    os.close(ours)
    return output.decode().replace("\r\n", "\n").replace(str(folder), "~")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the command has ended and closed its side of the terminal
        return b""


def main() -> None:
    """Run the commands and write the picture."""
    with TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        screen = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        run_in_terminal('lukasa remember "Pull requests are small and come with a test."', Path(folder))
        for command in COMMANDS:
            screen.print(Text(f"$ {command}", style="bold"))
            screen.print(Text.from_ansi(run_in_terminal(command, Path(folder)).rstrip()))
        picture = screen.export_svg(title="lukasa", code_format=PICTURE, unique_id="lukasa")
    Path(__file__).with_name("recall.svg").write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n")


if __name__ == "__main__":
    main()
