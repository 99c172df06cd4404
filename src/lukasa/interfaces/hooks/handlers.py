"""The handlers of hook events: the context that an agent is given, and the records that are made of its transcript."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lukasa.config import find_nearest_store, read_profile
from lukasa.core.canonical_json import decode, encode
from lukasa.core.outcome import Refused
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput, LukasaError
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.journal.gate import PiiHandling
from lukasa.memory import Memory
from lukasa.own_stores import is_noted
from lukasa.recall.recall import build_prompt_block
from lukasa.recall.unconfirmed_orders import ORDERS
from lukasa.transfer.layouts.agent_transcripts import Transcript, TranscriptTurn, read_transcript
from lukasa.vault import VaultSettings

SNAPSHOT_TOKENS, BRIEFING_TOKENS, RESUME_TOKENS, RECALL_TOKENS = 1_000, 800, 2_000, 800
"""The token budgets of the parts of an answer."""
_MAX_HITS = 6
_MAX_PROMPT_LENGTH = 4_000
_MIN_RELEVANCE = 0.3
_CATCH_UP_SECONDS, _DEADLINE = 0.05, 1.0
_WRITE_TIMEOUT = 5.0
_CHUNK_SIZE = 100
_MAX_SESSIONS = 200
_PII_DEFAULTS: Mapping[str, PiiHandling] = {"turn": "redact", "episode": "redact", "fact": "redact"}


@dataclass(slots=True)
class DeliveredContext:
    """The context that one session of an agent has received so far."""

    has_snapshot: bool = False
    record_positions: set[int] = field(default_factory=set)

    def record_delivery(self, positions: frozenset[int]) -> None:
        """Note that the snapshot and these records were delivered."""
        self.has_snapshot = True
        self.record_positions |= positions


class HookAnswer(NamedTuple):
    """An answer, and the function to call once the client has received it."""

    text: bytes
    on_delivered: Callable[[], None] = lambda: None


class HookHandlers:
    """The handlers for one store and agent.

    Personal data and secrets in transcripts are redacted before anything is stored, unless the profile says otherwise.
    A store that was found by its folder (``is_found``) is used only if the user made or allowed it.
    """

    def __init__(self, store: str | None, agent: str, scopes: Sequence[str] = (), *, is_found: bool = False) -> None:
        settings = read_profile(None) or VaultSettings()
        settings = replace(settings, pii={**_PII_DEFAULTS, **settings.pii})
        caller = Caller(agent, tuple(scopes) or None)
        self._stores = CallerStores(store, caller, is_found=is_found, timeout=_WRITE_TIMEOUT, profile=settings)
        self._lock = threading.Lock()
        self._delivered: OrderedDict[str, DeliveredContext] = OrderedDict()

    def warm_up(self) -> None:
        """Open the store if it exists, so that the first request is answered in time."""
        self._stores.warm_up()

    def close(self) -> None:
        """Close the store."""
        self._stores.close()

    def answer(self, event: str, payload: bytes) -> HookAnswer:
        """Return the context for the agent in the format of Claude Code; empty if there is none."""
        fields = _parse_payload(payload)
        if not self._stores.store_exists():
            return HookAnswer(b"")
        name, build_parts = {
            "session-start": ("SessionStart", self._build_start_context),
            "user-prompt-submit": ("UserPromptSubmit", self._build_prompt_context),
        }[event]
        delivered = self._delivered_to(_text_field(fields, "session_id"))
        try:
            parts, positions = build_parts(self._stores.for_request(None), fields, delivered)
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise
        text = "\n\n".join(part for part in parts if part)
        if not text:
            return HookAnswer(b"")
        answer = encode({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})
        return HookAnswer(answer, lambda: delivered.record_delivery(positions))

    def _build_start_context(
        self, memory: Memory, fields: Mapping[str, Any], delivered: DeliveredContext
    ) -> tuple[list[str], frozenset[int]]:
        session = _text_field(fields, "session_id")
        delivered.record_positions = set()  # the agent's context may have lost what was delivered before
        parts = [memory.vault.build_snapshot_block(budget=SNAPSHOT_TOKENS).text]
        is_agent = bool(memory.journal.author)
        ledger = memory.ledgers.get(scope=project_or_shared(memory)) if is_agent else None
        if ledger is not None and ledger.current_task:
            parts.append(memory.before_task(ledger.current_task).block(BRIEFING_TOKENS).text)
        is_resumed = bool(session) and fields.get("source") in ("compact", "resume")
        if is_resumed and memory.context.load(session).origin.state_version:
            parts.append(memory.context.assemble(session, RESUME_TOKENS).text)
        waiting = len(memory.handoffs.inbox()) if is_agent else 0
        if waiting:
            parts.append(f"Lukasa: {waiting} handoffs wait for you; call the tool `handoff` with action `inbox`.")
        return parts, frozenset()

    def _build_prompt_context(
        self, memory: Memory, fields: Mapping[str, Any], delivered: DeliveredContext
    ) -> tuple[list[str], frozenset[int]]:
        session, prompt = _text_field(fields, "session_id"), _text_field(fields, "prompt")
        parts = []
        if not delivered.has_snapshot:  # the session started before the daemon was ready
            parts.append(memory.vault.build_snapshot_block(budget=SNAPSHOT_TOKENS).text)
        if len(prompt.split()) < 2 or prompt.startswith("/"):
            return parts, frozenset()
        result = memory.recall(
            prompt[:_MAX_PROMPT_LENGTH],
            3 * _MAX_HITS,
            min_relevance=_MIN_RELEVANCE,
            patience=_CATCH_UP_SECONDS,
            deadline=_DEADLINE,
        ).without_orders()
        result = replace(result, left_out=tuple(entry for entry in result.left_out if entry.reason != ORDERS))
        hits = [
            hit
            for hit in result.hits
            if hit.record.seq not in delivered.record_positions
            and (not session or session not in (hit.record.label("session"), hit.record.label("task")))
        ][:_MAX_HITS]
        if hits:
            parts.append(build_prompt_block(replace(result, hits=tuple(hits)), RECALL_TOKENS).text)
        return parts, frozenset(hit.record.seq for hit in hits)

    def _delivered_to(self, session: str) -> DeliveredContext:
        with self._lock:
            delivered = self._delivered.setdefault(session, DeliveredContext())
            self._delivered.move_to_end(session)
            if len(self._delivered) > _MAX_SESSIONS:
                self._delivered.popitem(last=False)
            return delivered

    def process_event(self, event: str, payload: bytes) -> None:
        """Store the turns, the episode and the ledger of a session. Repeating an event changes nothing."""
        fields = _parse_payload(payload)
        session, path = _text_field(fields, "session_id"), _text_field(fields, "transcript_path")
        if not session or not path or not Path(path).is_file():
            return
        transcript = read_transcript(Path(path))
        try:
            memory = self._stores.for_request(None)
            save_turns(memory, session, transcript.turns)
            if event != "pre-compact" and transcript.goal:
                folder, ended = _text_field(fields, "cwd"), event == "session-end"
                save_episode(memory, session, transcript, ended=ended)
                update_ledger(memory, session, transcript, folder, ended=ended)
                update_continuity(memory, folder, transcript.goal)
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise


def project_or_shared(memory: Memory) -> str:
    """Return the scope that all agents of a project read."""
    return memory.journal.reach.project or SHARED


def save_turns(memory: Memory, session: str, turns: Sequence[TranscriptTurn]) -> int:
    """Add the turns of a transcript that are not stored yet. Return their number."""
    stored = memory.context.transcript(session, newest_first=True, limit=len(turns) + 50)
    known = {turn.extra.get("uuid") for turn in stored}
    new = [{**entry.turn, "uuid": entry.uuid} for entry in turns if entry.uuid not in known and entry.turn["content"]]
    for start in range(0, len(new), _CHUNK_SIZE):
        chunk = new[start : start + _CHUNK_SIZE]
        key = f"{chunk[0]['uuid']}..{chunk[-1]['uuid']}"
        if isinstance(memory.context.extend(session, chunk, key=key), Refused):
            for turn in chunk:  # a refused turn must not prevent the others
                memory.context.extend(session, [turn], key=str(turn["uuid"]))
    return len(new)


def save_episode(memory: Memory, session: str, transcript: Transcript, *, ended: bool) -> None:
    """Store the episode of a session: running until it ends, then completed or, if it was cut short, abandoned."""
    known = memory.episodes.list(task_id=session, archived=True)
    start, end = transcript.started_at, transcript.ended_at
    body: dict[str, Any] = {
        "task_id": session,
        "timestamp": None if start is None else start.isoformat(),
        "duration_seconds": 0 if start is None or end is None else round((end - start).total_seconds()),
        "agent": memory.journal.author,
        "context": {"goal": transcript.goal},
        "action_log": [dict(step) for step in transcript.actions[-500:]],
        "outcome": "running" if not ended else "completed" if transcript.is_finished else "abandoned",
        "errors_encountered": [dict(error) for error in transcript.errors[-50:]],
        "artifacts_produced": list(transcript.artifacts[-500:]),
    }
    if known:
        body["id"] = known[-1].id
    memory.episodes.add([body], origin="tool", scope=project_or_shared(memory)).unwrap_all()


def update_ledger(memory: Memory, session: str, transcript: Transcript, folder: str, *, ended: bool) -> None:
    """Write the current task and its state to the agent's ledger."""
    if not memory.journal.author:
        return
    scope = project_or_shared(memory)
    ledger = memory.ledgers.get(scope=scope)
    is_counted = ledger is not None and ledger.state.get("ended") == session
    state = {"session": session, "folder": folder, "status": "ended" if ended else "waiting"}
    if ended:
        state["ended"] = session
    memory.ledgers.checkpoint(
        current_task=transcript.goal,
        completed=int(ended and transcript.is_finished and not is_counted),
        state=state,
        context={"current_goal": transcript.goal},
        scope=scope,
    ).unwrap_all()


def update_continuity(memory: Memory, folder: str, goal: str) -> None:
    """Update CONTINUITY.md in a project that has this file, or in its ``.lukasa/`` folder if the user made or allowed it."""
    if not folder or not Path(folder).is_dir():
        return
    project = Path(folder)
    if (project / "CONTINUITY.md").is_file():
        memory.continuity.update(project / "CONTINUITY.md", goal=goal)
    elif (store := find_nearest_store(project)) is not None and (store == memory.place.path or is_noted(store)):
        memory.continuity.update(store.with_name("CONTINUITY.md"), goal=goal)


def _parse_payload(payload: bytes) -> Mapping[str, Any]:
    fields = decode(payload) if payload.strip() else {}
    if not isinstance(fields, dict):
        raise InvalidInput("The payload of a hook is not a JSON object.")
    return fields


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
