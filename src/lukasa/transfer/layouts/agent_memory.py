"""The file of an agent's memory, ``memory/{agent}.json``, as the document of dissent and trust lays it out.

Events come in as they stand in the file: their depth is the one that was given, and they count by their own time. What
the file says of older events (``long_term_stats``) is given back until something new happens. An agent that is already
known is refused: two histories of one agent cannot be told apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any

import orjson

from lukasa import canonical_json
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Refused
from lukasa.storage.files import atomic_write
from lukasa.trust import AgentMemory, Trust
from lukasa.trust.agent_memory import validate_agent_memory

MAX_FILE_BYTES = 64 * 1024 * 1024
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_RESERVED_NAME = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)")


@dataclass(frozen=True, slots=True)
class AgentImportResult:
    """What came of a file: whose it is, how many events it held, or why it was not taken."""

    file: str
    agent: str
    dissents: int = 0
    overrides: int = 0
    refused: str = ""


def file_name(agent: str) -> str:
    """The name of an agent's file: its own name where every system can hold it, else a slug with a hash."""
    if _SAFE_NAME.fullmatch(agent) and not _RESERVED_NAME.fullmatch(agent):
        return f"{agent}.json"
    slug = re.sub(r"[^A-Za-z0-9]+", "-", agent).strip("-")[:40]
    return f"{slug or 'agent'}-{hashlib.sha256(agent.encode()).hexdigest()[:12]}.json"


def export_agents(trust: Trust, folder: Path, agents: Sequence[str] | None = None) -> list[Path]:
    """Writes one file per agent; each is replaced only once the new one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for agent in trust.agents() if agents is None else agents:
        path = folder / file_name(agent)
        with atomic_write(path) as file:
            file.write(encode_agent(trust.agent(agent)))
        written.append(path)
    return written


def encode_agent(memory: AgentMemory) -> bytes:
    """An agent's memory as the document's JSON."""
    return orjson.dumps(memory.as_json(), option=orjson.OPT_INDENT_2) + b"\n"


def import_file(trust: Trust, file: Path) -> AgentImportResult:
    """Takes in one file."""
    if not file.exists():
        raise FileNotFoundError(ENOENT, "There is no such file", str(file))
    if file.is_symlink() or not file.is_file():
        raise FormatError(f"{file} is not a plain file.")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise FormatError(f"{file} is larger than {MAX_FILE_BYTES:,} bytes.")
    told = parse_agent(file.read_bytes(), str(file))
    outcome = trust.adopt(told)
    name = told["agent_name"]
    if isinstance(outcome, Refused):
        return AgentImportResult(str(file), name, refused=outcome.reason)
    return AgentImportResult(str(file), name, len(told["dissent_history"]), len(told["override_history"]))


def parse_agent(data: bytes, source: str = "The file") -> dict[str, Any]:
    """An agent's memory from the document's JSON, strictly; what may be left out is filled in."""
    try:
        told = canonical_json.decode(data)
    except InvalidInput as error:
        raise FormatError(f"{source} is not JSON: {error.message}") from error
    return validate_agent_memory(told, source)
