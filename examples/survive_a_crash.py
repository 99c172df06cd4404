"""Stop a program in the middle of its work and continue where it stopped.

Prints:
    start at step 0
    crash before step 3
    start at step 3
    all 5 steps are done
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lukasa

STEPS = 5


def work(store: str, crash_before: int) -> None:
    """Do the steps that are left; every finished step is durable before the next one starts."""
    with lukasa.open(store) as memory:
        session = memory.sessions.start("import-job")  # resumes the session if there is one
        done = session.state["configuration"].get("steps_done", 0)
        print(f"start at step {done}", flush=True)
        for step in range(done, STEPS):
            if step == crash_before:
                print(f"crash before step {step}", flush=True)
                os._exit(1)  # the process ends at once, without any clean-up
            session.update("/configuration/steps_done", step + 1)
        print(f"all {STEPS} steps are done")


if len(sys.argv) > 1:
    work(sys.argv[1], int(sys.argv[2]))
else:  # run this file twice on the same store: the first run crashes, the second continues
    with tempfile.TemporaryDirectory() as folder:
        for crash_before in ("3", "-1"):
            subprocess.run([sys.executable, __file__, str(Path(folder) / "agent.db"), crash_before], check=False)
