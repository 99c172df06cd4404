"""A job of the cluster's tests: ``lukasa worker --jobs noted_jobs``."""

import time

from lukasa.jobs import job


@job("note-once")
def note_once(memory, number):
    """Write a note with a fixed id, so that a second run changes nothing."""
    time.sleep(0.05)
    memory.journal.write("job_note", f"Job {number} ran.", id=f"job-{number}", key=f"job-{number}")
