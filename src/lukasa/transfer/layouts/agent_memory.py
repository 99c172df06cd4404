"""The file of an agent's memory, ``memory/{agent}.json``, in the layout of the document on dissent and trust.

Events are imported as they are: with the depth they were given and the time they have. The totals of older events in
the file (``long_term_stats``) are returned until a new event is recorded. A known agent is refused, because two
histories of one agent cannot be distinguished.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any

import orjson

from lukasa.core import canonical_json
from lukasa.core.names import ALPHANUMERIC, is_device_name, is_plain_name, make_slug
from lukasa.core.outcome import Refused
from lukasa.errors import FormatError, InvalidInput
from lukasa.storage.files import check_output_path, open_output_file, read_limited
from lukasa.transfer.layouts import LayoutImportResult
from lukasa.trust import Trust
from lukasa.trust.agent_memory import validate_agent_memory

MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AgentImportResult:
    """The result of importing one file: the agent, the number of its events, or why the file was refused."""

    file: str
    agent: str
    dissents: int = 0
    overrides: int = 0
    refused: str = ""


def file_name(agent: str) -> str:
    """Return the name of an agent's file: the agent's name where every system accepts it, else a slug with a hash."""
    if is_plain_name(agent, "_-", 80) and not is_device_name(agent):
        return f"{agent}.json"
    slug = make_slug(agent, letters=ALPHANUMERIC)[:40]
    return f"{slug or 'agent'}-{hashlib.sha256(agent.encode()).hexdigest()[:12]}.json"


def export_agents(
    trust: Trust, folder: Path, agents: Sequence[str] | None = None, *, replace: bool = True
) -> list[Path]:
    """Write one file per agent. A plain file is replaced atomically, unless forbidden; then nothing is written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {agent: folder / file_name(agent) for agent in (trust.agents() if agents is None else agents)}
    for path in paths.values():
        check_output_path(path, replace=replace)
    for agent, path in paths.items():
        with open_output_file(path, replace=replace) as file:
            file.write(orjson.dumps(trust.agent(agent).as_json(), option=orjson.OPT_INDENT_2) + b"\n")
    return list(paths.values())


def import_file(trust: Trust, file: Path) -> AgentImportResult:
    """Import one file."""
    if not file.exists():
        raise FileNotFoundError(ENOENT, "There is no such file", str(file))
    if file.is_symlink() or not file.is_file():
        raise FormatError(f"{file} is not a plain file.")
    memory = parse_agent(read_limited(file, MAX_FILE_BYTES), str(file))
    outcome, agent = trust.adopt(memory), memory["agent_name"]
    if isinstance(outcome, Refused):
        return AgentImportResult(str(file), agent, refused=outcome.reason)
    return AgentImportResult(str(file), agent, len(memory["dissent_history"]), len(memory["override_history"]))


def parse_agent(data: bytes, source: str = "The file") -> dict[str, Any]:
    """Parse and validate an agent's memory; optional fields are filled in."""
    try:
        fields = canonical_json.decode(data)
    except InvalidInput as error:
        raise FormatError(f"{source} is not JSON: {error.message}") from error
    return validate_agent_memory(fields, source)


def read_folder(trust: Trust, source: Path, scope: str) -> LayoutImportResult:  # noqa: ARG001 - agents have no scope
    """Import the agents of a folder ``memory``, or of one file. A known agent is left as it is."""
    result, known = LayoutImportResult(), set(trust.agents())
    for file in sorted(source.glob("*.json")) if source.is_dir() else [source]:
        try:
            if parse_agent(read_limited(file, MAX_FILE_BYTES), str(file))["agent_name"] in known:
                result.present += 1
                continue
            done = import_file(trust, file)
        except (FormatError, InvalidInput, FileNotFoundError) as error:
            result.refused.append((str(file), str(error)))
            continue
        if done.refused:
            result.refused.append((str(file), done.refused))
        else:
            result.added += 1
    return result


def write_folder(trust: Trust, target: Path, scope: str) -> int:  # noqa: ARG001 - agents have no scope
    """Write one file per agent into a folder; return their number."""
    return len(export_agents(trust, target))
