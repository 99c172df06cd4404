"""Do what a newcomer does with the README alone, in an empty environment, and print how long each step took.

    python tools/newcomer.py

Clones the repository into an empty folder, installs Lukasa into an empty virtual environment, remembers and recalls a fact, adds
the memory to a coding agent, and recalls the fact as that agent does: through the configured MCP server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAX_SECONDS = 300
ASK = """
import json, sys
import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

async def ask():
    server = json.load(open(".mcp.json"))["mcpServers"]["lukasa"]
    parameters = StdioServerParameters(command=server["command"], args=server["args"], env=server.get("env") or None)
    async with Client(parameters) as client:
        answer = await client.call_tool("recall", {"query": "when do we deploy?"})
        print(answer.model_dump_json())

anyio.run(ask)
"""


def main() -> None:
    """Run the steps, print their times, and fail if they take too long."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        project, venv, clone = home / "project", home / "venv", home / "lukasa"
        project.mkdir()
        keep = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
        environment = keep | {"HOME": str(home), "PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin"}

        def run(*words: str, cwd: Path = project) -> str:
            done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
            return done.stdout

        def ask() -> None:
            answer = run(str(venv / "bin" / "python"), "-c", ASK)
            if "Tuesday" not in json.dumps(json.loads(answer)):
                sys.exit(f"The coding agent did not get the memory: {answer}")

        steps: dict[str, Callable[[], object]] = {
            "git clone": lambda: run("git", "clone", "--quiet", str(ROOT), str(clone), cwd=home),
            "python -m venv venv": lambda: run(sys.executable, "-m", "venv", str(venv)),
            "pip install './lukasa[mcp]'": lambda: run("pip", "install", "--quiet", f"{clone}[mcp]"),
            "lukasa install claude-code": lambda: run("lukasa", "install", "claude-code", "--yes"),
            "lukasa remember": lambda: run("lukasa", "remember", "Deploys run on Tuesday, after the smoke tests."),
            "lukasa recall": lambda: run("lukasa", "recall", "when do we deploy?"),
            "recall in the coding agent": ask,
        }
        for name, step in steps.items():
            started = time.monotonic()
            step()
            print(f"{time.monotonic() - started:6.1f} s  {name}")
    total = time.monotonic() - began
    print(f"{total:6.1f} s  in all; at most {MAX_SECONDS} s")
    sys.exit(total > MAX_SECONDS)


if __name__ == "__main__":
    main()
