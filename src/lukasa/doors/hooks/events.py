"""What each hook of a coding agent means: what it is told, and what is kept of what it tells."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lukasa.canonical import decode, encode
from lukasa.config import locate, read_profile
from lukasa.errors import InvalidInput, StoreClosed, StoreUnavailable
from lukasa.formats import claude_code
from lukasa.formats.claude_code import Transcript, read_transcript
from lukasa.gate import Handling
from lukasa.memory import Memory, open_memory
from lukasa.outcome import Accepted, Refused
from lukasa.recall.room import Recollection, block
from lukasa.vault import Rules

SNAPSHOT, BRIEFING, RESUMED, RECALLED = 1_000, 800, 2_000, 800
"""Tokens that each piece may cost an agent."""
_HITS = 6
_LONGEST_PROMPT = 4_000
_LEAST_WORDS, _LEAST_MEANING = 0.5, 0.35
_PATIENCE = 0.05
_CHUNK = 100
_KNOWN_SESSIONS = 200
_REDACTED: Mapping[str, Handling] = {"turn": "redact", "episode": "redact", "fact": "redact"}


@dataclass(slots=True)
class _Told:
    """What one session of an agent has been told so far."""

    snapshot: bool = False
    records: set[int] = field(default_factory=set)

    def learn(self, records: frozenset[int]) -> None:
        self.snapshot = True
        self.records |= records


class Said(NamedTuple):
    """An answer, and what to do once it has arrived: only then has the agent been told."""

    text: bytes
    arrived: Callable[[], None] = lambda: None


class Hooks:
    """Answers questions and does errands on one store, for one agent.

    Personal data and secrets in transcripts are redacted before anything is kept, unless the profile says otherwise.
    """

    def __init__(self, store: str | None, agent: str, scopes: Sequence[str] = ()) -> None:
        rules = read_profile(None) or Rules()
        rules = replace(rules, pii={**_REDACTED, **rules.pii})
        self._place = locate(store)
        self._open: Callable[[], Memory] = lambda: open_memory(
            store, agent=agent, scopes=tuple(scopes) or None, patience=5.0, profile=rules
        )
        self._memory: Memory | None = None
        self._turn = threading.Lock()
        self._sessions: OrderedDict[str, _Told] = OrderedDict()

    def warm(self) -> None:
        """Loads what the first question will need. A store that is not there yet is left so."""
        if self._there():
            self._opened().recall("warming up", 1)

    def close(self) -> None:
        with self._turn:
            memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def _there(self) -> bool:
        return self._place.path is None or self._place.path.exists()

    def _opened(self) -> Memory:
        with self._turn:
            if self._memory is None:
                self._memory = self._open()
            return self._memory

    # Questions

    def answer(self, event: str, payload: bytes) -> Said:
        """What the agent gets to read, as Claude Code wants it said; empty when there is nothing to say."""
        told = _payload(payload)
        if not self._there():
            return Said(b"")
        asked = {"session-start": self._session_start, "user-prompt-submit": self._prompt}[event]
        known = self._known(_text(told, "session_id"))
        try:
            parts, telling = asked(told, known)
        except (StoreClosed, StoreUnavailable):
            self.close()  # the next one opens the store anew
            raise
        text = "\n\n".join(part for part in parts if part)
        if not text:
            return Said(b"")
        name = {"session-start": "SessionStart", "user-prompt-submit": "UserPromptSubmit"}[event]
        said = encode({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})
        return Said(said, lambda: known.learn(telling))

    def _session_start(self, told: Mapping[str, Any], known: _Told) -> tuple[list[str], frozenset[int]]:
        memory, session = self._opened(), _text(told, "session_id")
        known.records = set()  # whatever it was told before may be gone from its context
        parts = [memory.vault.build_snapshot_block(budget=SNAPSHOT).text]
        ledger = memory.ledgers.get() if memory.journal.author else None
        if ledger is not None and ledger.current_task:
            parts.append(memory.before_task(ledger.current_task).block(BRIEFING).text)
        if told.get("source") in ("compact", "resume") and session and memory.context.load(session).origin.head:
            parts.append(memory.context.assemble(session, RESUMED).text)
        waiting = len(memory.handoffs.inbox()) if memory.journal.author else 0
        if waiting:
            parts.append(f"Lukasa: {waiting} handoffs wait for you; call the tool `handoff` with action `inbox`.")
        return parts, frozenset()

    def _prompt(self, told: Mapping[str, Any], known: _Told) -> tuple[list[str], frozenset[int]]:
        memory, session, prompt = self._opened(), _text(told, "session_id"), _text(told, "prompt")
        parts = []
        if not known.snapshot:  # the session began before this process was ready
            parts.append(memory.vault.build_snapshot_block(budget=SNAPSHOT).text)
        if len(prompt.split()) < 2 or prompt.startswith("/"):
            return parts, frozenset()
        found = memory.recall(prompt[:_LONGEST_PROMPT], 3 * _HITS, patience=_PATIENCE)
        fresh = [hit for hit in found.hits if speaks_of(hit) and hit.record.seq not in known.records]
        hits = [hit for hit in fresh if session not in _sessions_of(hit)][:_HITS]
        if hits:
            parts.append(block(replace(found, hits=tuple(hits)), RECALLED).text)
        return parts, frozenset(hit.record.seq for hit in hits)

    def _known(self, session: str) -> _Told:
        with self._turn:
            known = self._sessions.setdefault(session, _Told())
            self._sessions.move_to_end(session)
            if len(self._sessions) > _KNOWN_SESSIONS:
                self._sessions.popitem(last=False)
            return known

    # Errands

    def do(self, event: str, payload: bytes) -> None:
        """Keeps what the agent tells. Done twice, it is kept once."""
        told = _payload(payload)
        session, path = _text(told, "session_id"), _text(told, "transcript_path")
        if not session or not path or not Path(path).is_file():
            return
        transcript = read_transcript(Path(path))
        try:
            memory = self._opened()
            keep_turns(memory, session, transcript.turns)
            if event != "pre-compact" and transcript.goal:
                ended = event == "session-end"
                keep_episode(memory, session, transcript, ended=ended)
                keep_ledger(memory, session, transcript, _text(told, "cwd"), ended=ended)
                keep_continuity(memory, _text(told, "cwd"), transcript.goal)
        except (StoreClosed, StoreUnavailable):
            self.close()
            raise


def speaks_of(hit: Recollection) -> bool:
    """Whether a hit speaks of what was asked, and is not just the best of what there is."""
    coverage = next((signal.value for signal in hit.signals if signal.name == "coverage"), 0.0)
    return coverage >= _LEAST_WORDS or (hit.hit.candidate.cosine or 0.0) >= _LEAST_MEANING


def _sessions_of(hit: Recollection) -> set[str | None]:
    """The session that a record was said in, or is the episode of."""
    return {hit.record.label("session"), hit.record.label("task")} - {None}


def keep_turns(memory: Memory, session: str, turns: Sequence[claude_code.Said]) -> int:
    """Adds the turns of a transcript that are not kept yet; how many there were."""
    kept = {
        turn.extra.get("uuid") for turn in memory.context.transcript(session, newest_first=True, limit=len(turns) + 50)
    }
    fresh = [{**said.turn, "uuid": said.uuid} for said in turns if said.uuid not in kept and said.turn["content"]]
    for at in range(0, len(fresh), _CHUNK):
        chunk = fresh[at : at + _CHUNK]
        key = f"{chunk[0]['uuid']}..{chunk[-1]['uuid']}"
        if isinstance(memory.context.extend(session, chunk, key=key), Refused):
            for turn in chunk:  # one bad turn must not cost the others
                memory.context.extend(session, [turn], key=str(turn["uuid"]))
    return len(fresh)


def keep_episode(memory: Memory, session: str, transcript: Transcript, *, ended: bool) -> None:
    """The episode of a session: going on until it ends, then completed or, when cut short, abandoned."""
    known = memory.episodes.by_task(session, archived=True)
    began, last = transcript.began, transcript.ended
    body: dict[str, Any] = {
        "task_id": session,
        "timestamp": None if began is None else began.isoformat(),
        "duration_seconds": 0 if began is None or last is None else round((last - began).total_seconds()),
        "agent": memory.journal.author,
        "context": {"goal": transcript.goal},
        "action_log": [dict(step) for step in transcript.actions[-500:]],
        "outcome": "running" if not ended else "completed" if transcript.finished else "abandoned",
        "errors_encountered": [dict(error) for error in transcript.errors[-50:]],
        "artifacts_produced": list(transcript.artifacts[-500:]),
    }
    if known:
        body["id"] = known[-1].id
    _met(memory.episodes.add([body], origin="tool"))


def keep_ledger(memory: Memory, session: str, transcript: Transcript, folder: str, *, ended: bool) -> None:
    """Where the agent stands."""
    if not memory.journal.author:
        return
    state = {"session": session, "folder": folder, "status": "ended" if ended else "waiting"}
    done = memory.ledgers.get()
    fresh = ended and transcript.finished and (done is None or done.state.get("ended") != session)
    if ended:
        state["ended"] = session
    _met(
        memory.ledgers.checkpoint(
            current_task=transcript.goal, completed=int(fresh), state=state, context={"current_goal": transcript.goal}
        )
    )


def keep_continuity(memory: Memory, folder: str, goal: str) -> None:
    """CONTINUITY.md, where the project has one or has a ``.lukasa/`` to put it into."""
    if not folder or not Path(folder).is_dir():
        return
    here = Path(folder)
    places = [here / "CONTINUITY.md"] if (here / "CONTINUITY.md").is_file() else []
    places += [each / ".lukasa" / "CONTINUITY.md" for each in (here, *here.parents) if (each / ".lukasa").is_dir()]
    if places:
        memory.continuity.update(places[0], goal=goal)


def _met(outcome: Any) -> None:
    if not isinstance(outcome, Accepted):
        raise InvalidInput(outcome.reason)


def _payload(payload: bytes) -> Mapping[str, Any]:
    told = decode(payload) if payload.strip() else {}
    if not isinstance(told, dict):
        raise InvalidInput("A hook is told a JSON object.")
    return told


def _text(told: Mapping[str, Any], name: str) -> str:
    found = told.get(name)
    return found if isinstance(found, str) else ""
