"""What each hook of a coding agent means: what it is told, and what is kept of what it tells."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lukasa.canonical_json import decode, encode
from lukasa.config import locate_store, read_profile
from lukasa.errors import InvalidInput, StoreClosed, StoreUnavailable
from lukasa.gate import PiiHandling
from lukasa.memory import Memory, open_memory
from lukasa.outcome import Accepted, Refused
from lukasa.recall.recall import RecallHit, build_prompt_block
from lukasa.transfer.layouts import claude_code
from lukasa.transfer.layouts.claude_code import Transcript, read_transcript
from lukasa.vault import VaultSettings

SNAPSHOT_TOKENS, BRIEFING_TOKENS, RESUME_TOKENS, RECALL_TOKENS = 1_000, 800, 2_000, 800
"""Tokens that each piece may cost an agent."""
_MAX_HITS = 6
_MAX_PROMPT_LENGTH = 4_000
_MIN_COVERAGE, _MIN_COSINE = 0.5, 0.35
_RECALL_TIMEOUT = 0.05
_CHUNK_SIZE = 100
_MAX_SESSIONS = 200
_PII_DEFAULTS: Mapping[str, PiiHandling] = {"turn": "redact", "episode": "redact", "fact": "redact"}


@dataclass(slots=True)
class DeliveredContext:
    """What one session of an agent has been told so far."""

    has_snapshot: bool = False
    record_positions: set[int] = field(default_factory=set)

    def record_delivery(self, positions: frozenset[int]) -> None:
        self.has_snapshot = True
        self.record_positions |= positions


class HookAnswer(NamedTuple):
    """An answer, and what to do once it has arrived: only then has the agent been told."""

    text: bytes
    on_delivered: Callable[[], None] = lambda: None


class HookHandlers:
    """Answers questions and does errands on one store, for one agent.

    Personal data and secrets in transcripts are redacted before anything is kept, unless the profile says otherwise.
    """

    def __init__(self, store: str | None, agent: str, scopes: Sequence[str] = ()) -> None:
        rules = read_profile(None) or VaultSettings()
        rules = replace(rules, pii={**_PII_DEFAULTS, **rules.pii})
        self._location = locate_store(store)
        self._open_memory: Callable[[], Memory] = lambda: open_memory(
            store, agent=agent, scopes=tuple(scopes) or None, timeout=5.0, profile=rules
        )
        self._memory: Memory | None = None
        self._lock = threading.Lock()
        self._delivered: OrderedDict[str, DeliveredContext] = OrderedDict()

    def warm_up(self) -> None:
        """Loads what the first question will need. A store that is not there yet is left so."""
        if self._store_exists():
            self._get_memory().recall("warming up", 1)

    def close(self) -> None:
        with self._lock:
            memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def _store_exists(self) -> bool:
        return self._location.path is None or self._location.path.exists()

    def _get_memory(self) -> Memory:
        with self._lock:
            if self._memory is None:
                self._memory = self._open_memory()
            return self._memory

    # Questions

    def answer(self, event: str, payload: bytes) -> HookAnswer:
        """What the agent gets to read, as Claude Code wants it said; empty when there is nothing to say."""
        told = _parse_payload(payload)
        if not self._store_exists():
            return HookAnswer(b"")
        asked = {"session-start": self._answer_session_start, "user-prompt-submit": self._answer_prompt}[event]
        known = self._delivered_to(_text_field(told, "session_id"))
        try:
            parts, telling = asked(told, known)
        except (StoreClosed, StoreUnavailable):
            self.close()  # the next one opens the store anew
            raise
        text = "\n\n".join(part for part in parts if part)
        if not text:
            return HookAnswer(b"")
        name = {"session-start": "SessionStart", "user-prompt-submit": "UserPromptSubmit"}[event]
        said = encode({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})
        return HookAnswer(said, lambda: known.record_delivery(telling))

    def _answer_session_start(
        self, fields: Mapping[str, Any], delivered: DeliveredContext
    ) -> tuple[list[str], frozenset[int]]:
        memory, session = self._get_memory(), _text_field(fields, "session_id")
        delivered.record_positions = set()  # whatever it was told before may be gone from its context
        parts = [memory.vault.build_snapshot_block(budget=SNAPSHOT_TOKENS).text]
        ledger = memory.ledgers.get() if memory.journal.author else None
        if ledger is not None and ledger.current_task:
            parts.append(memory.before_task(ledger.current_task).block(BRIEFING_TOKENS).text)
        if (
            fields.get("source") in ("compact", "resume")
            and session
            and memory.context.load(session).origin.state_version
        ):
            parts.append(memory.context.assemble(session, RESUME_TOKENS).text)
        waiting = len(memory.handoffs.inbox()) if memory.journal.author else 0
        if waiting:
            parts.append(f"Lukasa: {waiting} handoffs wait for you; call the tool `handoff` with action `inbox`.")
        return parts, frozenset()

    def _answer_prompt(
        self, fields: Mapping[str, Any], delivered: DeliveredContext
    ) -> tuple[list[str], frozenset[int]]:
        memory, session, prompt = self._get_memory(), _text_field(fields, "session_id"), _text_field(fields, "prompt")
        parts = []
        if not delivered.has_snapshot:  # the session began before this process was ready
            parts.append(memory.vault.build_snapshot_block(budget=SNAPSHOT_TOKENS).text)
        if len(prompt.split()) < 2 or prompt.startswith("/"):
            return parts, frozenset()
        found = memory.recall(prompt[:_MAX_PROMPT_LENGTH], 3 * _MAX_HITS, patience=_RECALL_TIMEOUT)
        fresh = [hit for hit in found.hits if is_relevant(hit) and hit.record.seq not in delivered.record_positions]
        hits = [hit for hit in fresh if session not in _source_sessions(hit)][:_MAX_HITS]
        if hits:
            parts.append(build_prompt_block(replace(found, hits=tuple(hits)), RECALL_TOKENS).text)
        return parts, frozenset(hit.record.seq for hit in hits)

    def _delivered_to(self, session: str) -> DeliveredContext:
        with self._lock:
            known = self._delivered.setdefault(session, DeliveredContext())
            self._delivered.move_to_end(session)
            if len(self._delivered) > _MAX_SESSIONS:
                self._delivered.popitem(last=False)
            return known

    # Errands

    def process_event(self, event: str, payload: bytes) -> None:
        """Keeps what the agent tells. Done twice, it is kept once."""
        told = _parse_payload(payload)
        session, path = _text_field(told, "session_id"), _text_field(told, "transcript_path")
        if not session or not path or not Path(path).is_file():
            return
        transcript = read_transcript(Path(path))
        try:
            memory = self._get_memory()
            save_turns(memory, session, transcript.turns)
            if event != "pre-compact" and transcript.goal:
                ended = event == "session-end"
                save_episode(memory, session, transcript, ended=ended)
                update_ledger(memory, session, transcript, _text_field(told, "cwd"), ended=ended)
                update_continuity(memory, _text_field(told, "cwd"), transcript.goal)
        except (StoreClosed, StoreUnavailable):
            self.close()
            raise


def is_relevant(hit: RecallHit) -> bool:
    """Whether a hit speaks of what was asked, and is not just the best of what there is."""
    coverage = next((signal.value for signal in hit.signals if signal.name == "coverage"), 0.0)
    return coverage >= _MIN_COVERAGE or (hit.hit.candidate.cosine or 0.0) >= _MIN_COSINE


def _source_sessions(hit: RecallHit) -> set[str | None]:
    """The session that a record was said in, or is the episode of."""
    return {hit.record.label("session"), hit.record.label("task")} - {None}


def save_turns(memory: Memory, session: str, turns: Sequence[claude_code.TranscriptTurn]) -> int:
    """Adds the turns of a transcript that are not kept yet; how many there were."""
    kept = {
        turn.extra.get("uuid") for turn in memory.context.transcript(session, newest_first=True, limit=len(turns) + 50)
    }
    fresh = [{**said.turn, "uuid": said.uuid} for said in turns if said.uuid not in kept and said.turn["content"]]
    for at in range(0, len(fresh), _CHUNK_SIZE):
        chunk = fresh[at : at + _CHUNK_SIZE]
        key = f"{chunk[0]['uuid']}..{chunk[-1]['uuid']}"
        if isinstance(memory.context.extend(session, chunk, key=key), Refused):
            for turn in chunk:  # one bad turn must not cost the others
                memory.context.extend(session, [turn], key=str(turn["uuid"]))
    return len(fresh)


def save_episode(memory: Memory, session: str, transcript: Transcript, *, ended: bool) -> None:
    """The episode of a session: going on until it ends, then completed or, when cut short, abandoned."""
    known = memory.episodes.by_task(session, archived=True)
    began, last = transcript.started_at, transcript.ended_at
    body: dict[str, Any] = {
        "task_id": session,
        "timestamp": None if began is None else began.isoformat(),
        "duration_seconds": 0 if began is None or last is None else round((last - began).total_seconds()),
        "agent": memory.journal.author,
        "context": {"goal": transcript.goal},
        "action_log": [dict(step) for step in transcript.actions[-500:]],
        "outcome": "running" if not ended else "completed" if transcript.is_finished else "abandoned",
        "errors_encountered": [dict(error) for error in transcript.errors[-50:]],
        "artifacts_produced": list(transcript.artifacts[-500:]),
    }
    if known:
        body["id"] = known[-1].id
    _require_accepted(memory.episodes.add([body], origin="tool"))


def update_ledger(memory: Memory, session: str, transcript: Transcript, folder: str, *, ended: bool) -> None:
    """Where the agent stands."""
    if not memory.journal.author:
        return
    state = {"session": session, "folder": folder, "status": "ended" if ended else "waiting"}
    done = memory.ledgers.get()
    fresh = ended and transcript.is_finished and (done is None or done.state.get("ended") != session)
    if ended:
        state["ended"] = session
    _require_accepted(
        memory.ledgers.checkpoint(
            current_task=transcript.goal, completed=int(fresh), state=state, context={"current_goal": transcript.goal}
        )
    )


def update_continuity(memory: Memory, folder: str, goal: str) -> None:
    """CONTINUITY.md, where the project has one or has a ``.lukasa/`` to put it into."""
    if not folder or not Path(folder).is_dir():
        return
    here = Path(folder)
    places = [here / "CONTINUITY.md"] if (here / "CONTINUITY.md").is_file() else []
    places += [each / ".lukasa" / "CONTINUITY.md" for each in (here, *here.parents) if (each / ".lukasa").is_dir()]
    if places:
        memory.continuity.update(places[0], goal=goal)


def _require_accepted(outcome: Any) -> None:
    if not isinstance(outcome, Accepted):
        raise InvalidInput(outcome.reason)


def _parse_payload(payload: bytes) -> Mapping[str, Any]:
    told = decode(payload) if payload.strip() else {}
    if not isinstance(told, dict):
        raise InvalidInput("A hook is told a JSON object.")
    return told


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""
