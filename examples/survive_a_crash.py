"""Stop a program in the middle of its work and go on where it stopped.

Prints:
    first run stopped at step 3
    second run starts at step 3
    second run finished: 5 steps
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lukasa


def work(store: str, crash_at: int) -> None:
    """Do five steps; every finished step is durable before the next one starts."""
    with lukasa.open(store) as memory:
        session = memory.sessions.start("import-job")  # resumes the session if there is one
        done = session.state()["configuration"].get("steps_done", 0)
        print(f"{'second' if done else 'first'} run {'starts' if done else 'stopped'} at step {done or crash_at}")
        for step in range(done, 5):
            if step == crash_at:
                sys.stdout.flush()
                os._exit(1)  # no clean-up of any kind
            session.update("/configuration/steps_done", step + 1)
        print(f"second run finished: {session.state()['configuration']['steps_done']} steps")


if len(sys.argv) > 1:
    work(sys.argv[1], crash_at=int(sys.argv[2]))
else:
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "agent.db")
        for crash_at in ("3", "-1"):
            subprocess.run([sys.executable, __file__, store, crash_at], check=False)
