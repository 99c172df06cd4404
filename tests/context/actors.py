"""Parts that the tests of sessions start in processes of their own: ``python actors.py PART JSON``."""

import json
import sys

import lukasa


def talk(place, name, turns, session="s", **settings):
    """Appends turns and tells each one once it is kept."""
    with lukasa.open(place, embedder="hash") as memory:
        for number in range(turns):
            assert memory.context.append(session, "user", f"{name} says {number}")
            sys.stdout.write(f"{name} says {number}\n")
            sys.stdout.flush()


def compact(place, times, session="s"):
    """Compacts again and again."""
    with lukasa.open(place, embedder="hash") as memory:
        for _ in range(times):
            memory.context.compact(session, keep=2)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
