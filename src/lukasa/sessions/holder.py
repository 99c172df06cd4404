"""The process that has a session open, and whether it is still running.

A file next to the checkpoints names the holder of a session while the session is open. A holder of this machine is alive
while the process with its number and its time of start runs, and in this process while the session itself is open. The
machine is stored as a hash of its name. Nothing is known of a process on another machine, so its sessions never count as
alive here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_open_tokens: set[str] = set()
"""The tokens of the sessions that this process has open."""


def register_holder() -> dict[str, Any]:
    """Return a new holder in this process, alive until ``release_holder``."""
    token = secrets.token_hex(8)
    _open_tokens.add(token)
    return {"machine": _machine(), "pid": os.getpid(), "started": _start_time(os.getpid()), "token": token}


def release_holder(holder: Mapping[str, Any]) -> None:
    """Note that a holder of this process no longer has its session open."""
    _open_tokens.discard(holder["token"])


def is_holder_alive(holder: Any) -> bool:
    """Return whether a holder, as a record has it, is known to have its session open."""
    if not isinstance(holder, Mapping) or holder.get("machine") != _machine():
        return False
    pid = holder.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    if pid == os.getpid():
        return holder.get("token") in _open_tokens
    if _start_time(pid) != holder.get("started"):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16]


def _start_time(pid: int) -> str:
    """Return when a process started, in the units of the system; "" where the system does not tell, or without one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
