"""Functions that the conversation tests run in separate processes: ``python process_parts.py FUNCTION JSON``."""

import json
import sys

import lukasa


def append_turns(location: str, name: str, turns: int) -> None:
    """Append turns and print each one once it is stored."""
    with lukasa.open(location, embedder="hash") as memory:
        for number in range(turns):
            assert memory.context.append("s", "user", f"{name} says {number}")
            sys.stdout.write(f"{name} says {number}\n")
            sys.stdout.flush()


def compact(location: str, times: int) -> None:
    """Compact the conversation again and again."""
    with lukasa.open(location, embedder="hash") as memory:
        for _ in range(times):
            memory.context.compact("s", keep=2)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
