"""Keep what a session leaves behind: its turns, its episode, its lessons and the agent's ledger.

Keeping a session again, with more of its transcript or the same, changes only what is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lukasa.agents.distil import (
    THING_NAME,
    SessionOutcome,
    describe_outcome,
    find_learnings,
    find_places,
    propose_learnings,
)
from lukasa.agents.failures import ORDERS, find_failures
from lukasa.config import find_nearest_store, open_configured_model
from lukasa.core.outcome import Refused
from lukasa.core.record import Key, draft_from
from lukasa.core.scope import SHARED
from lukasa.experience.episodes import EPISODE
from lukasa.experience.gain import INJECTION
from lukasa.experience.lessons import LessonDraft
from lukasa.memory import Memory
from lukasa.models.llm import LanguageModel
from lukasa.own_stores import is_noted
from lukasa.storage.engine import Query
from lukasa.transfer.layouts.agent_transcripts import OWN_TOOL_PREFIX, Transcript, TranscriptTurn

REMEMBERING_TOOLS = frozenset({f"{OWN_TOOL_PREFIX}remember", f"{OWN_TOOL_PREFIX}record_episode"})
"""The tools with which an agent writes notes of its own."""
_CHUNK_SIZE = 100
_MAX_STEPS, _MAX_ERRORS, _MAX_LESSONS = 500, 50, 8


def project_or_shared(memory: Memory) -> str:
    """Return the scope that all agents of a project read."""
    return memory.journal.reach.project or SHARED


def keep_session(
    memory: Memory, session: str, transcript: Transcript, folder: str, path: str, *, is_ended: bool
) -> None:
    """Keep the turns, the episode and the ledger of a session, and its lessons once it has ended."""
    keep_turns(memory, session, transcript.turns)
    if not transcript.goal:
        return
    outcome = describe_outcome(transcript)
    episode = keep_episode(memory, session, transcript, outcome, is_ended=is_ended)
    if is_ended:
        keep_lessons(memory, session, transcript, episode, open_configured_model())
        mark_used_notes(memory, session, transcript)
    keep_ledger(memory, session, transcript, folder, path, is_ended=is_ended)
    keep_continuity(memory, folder, outcome.asked)


def keep_turns(memory: Memory, session: str, turns: Sequence[TranscriptTurn]) -> int:
    """Add the turns of a transcript that are not stored yet. Return their number.

    No facts are drawn from them: what an agent is asked and says is about the work of the moment, and lessons say what lasts.
    """
    stored = memory.context.transcript(session, newest_first=True, limit=len(turns) + 50)
    known = {turn.extra.get("uuid") for turn in stored}
    new = [{**entry.turn, "uuid": entry.uuid} for entry in turns if entry.uuid not in known and entry.turn["content"]]
    if new and not known:
        memory.context.configure(session, extracting=False)
    for start in range(0, len(new), _CHUNK_SIZE):
        chunk = new[start : start + _CHUNK_SIZE]
        key = f"{chunk[0]['uuid']}..{chunk[-1]['uuid']}"
        if isinstance(memory.context.extend(session, chunk, key=key), Refused):
            for turn in chunk:  # a refused turn must not prevent the others
                memory.context.extend(session, [turn], key=str(turn["uuid"]))
    return len(new)


def keep_episode(
    memory: Memory, session: str, transcript: Transcript, outcome: SessionOutcome, *, is_ended: bool
) -> Key:
    """Store the episode of a session: running until it ends, then completed or, if it was cut short, abandoned."""
    known = memory.episodes.list(task_id=session, archived=True)
    start, end = transcript.times
    context: dict[str, Any] = {
        "goal": outcome.asked or transcript.goal,
        "done": outcome.done,
        "open": outcome.open,
        "branch": transcript.branch,
        "title": transcript.title,
        "commits": [f"{name} {subject}" for name, subject in transcript.commits[-20:]],
        "pull_requests": list(transcript.pull_requests[-10:]),
    }
    steps: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    for call in transcript.calls:
        step = {"action": call.name, "target": call.target}
        if call.is_failed:
            step["error"] = call.output[:300]
            errors.append({"type": f"{call.name} failed", "message": call.output[:1_000]})
        steps.append(step)
    body: dict[str, Any] = {
        "task_id": session,
        "timestamp": None if start is None else start.isoformat(),
        "duration_seconds": 0 if start is None or end is None else round((end - start).total_seconds()),
        "agent": memory.journal.author,
        "context": {name: value for name, value in context.items() if value},
        "action_log": steps[-_MAX_STEPS:],
        "outcome": "running" if not is_ended else "completed" if transcript.is_finished else "abandoned",
        "errors_encountered": errors[-_MAX_ERRORS:],
        "artifacts_produced": list(transcript.files[-_MAX_STEPS:]),
    }
    if known:
        body["id"] = known[-1].id
    scope = project_or_shared(memory)
    records = memory.episodes.add([body], origin="tool", scope=scope).unwrap_all()
    return records[0].key if records else Key(scope, EPISODE, known[-1].id)


def keep_lessons(
    memory: Memory, session: str, transcript: Transcript, episode: Key, model: LanguageModel | None
) -> None:
    """Add what a session learned: remedies of failures, sentences of the final answers."""
    drafts = []
    for failure in find_failures(transcript.calls):
        if failure.remedy:
            is_order = not ORDERS.isdisjoint(failure.command.split())
            key = "" if is_order else failure.signature  # a commit fails for several reasons
            drafts.append(LessonDraft(failure.remedy, "remedy", (), failure.command, key))
    learnings = find_places(transcript)
    if REMEMBERING_TOOLS.isdisjoint(call.name for call in transcript.calls):  # else the agent wrote its own notes
        learnings += (propose_learnings(transcript, model) if model is not None else []) or find_learnings(transcript)
    drafts += [LessonDraft(learning.text, learning.about, learning.files, learning.command) for learning in learnings]
    if drafts:
        memory.lessons.extend(
            drafts[:_MAX_LESSONS], session=session, source=episode, scope=project_or_shared(memory)
        ).unwrap_all()


def mark_used_notes(memory: Memory, session: str, transcript: Transcript) -> None:
    """Note in the records of what a session was shown which notes it used: it named a thing that only the note had named."""
    asked = " ".join(exchange.request for exchange in transcript.exchanges)
    done = " ".join([*(each.answer for each in transcript.exchanges), *(call.target for call in transcript.calls)])
    for record in memory.valid_journal.read(Query(kinds=(INJECTION,), labels=(f"task={session}",))):
        used = []
        for key in record.body["notes"]:
            note = memory.journal.get(Key(*key))
            names = {name.strip("`") for name in THING_NAME.findall(note.text)} if note is not None else set()
            if any(name in done and name not in asked for name in names):
                used.append(str(Key(*key)))
        if used and not record.body.get("held_out"):
            memory.journal.append(draft_from(record, body={**record.body, "used": used}, expected=record.version))


def keep_ledger(
    memory: Memory, session: str, transcript: Transcript, folder: str, path: str, *, is_ended: bool
) -> None:
    """Write the current task and its state to the agent's ledger."""
    if not memory.journal.author:
        return
    scope = project_or_shared(memory)
    ledger = memory.ledgers.get(scope=scope)
    is_counted = ledger is not None and ledger.state.get("ended") == session
    state = {"session": session, "folder": folder, "transcript": path, "status": "ended" if is_ended else "waiting"}
    if is_ended:
        state["ended"] = session
    memory.ledgers.checkpoint(
        current_task=transcript.goal,
        completed=int(is_ended and transcript.is_finished and not is_counted),
        state=state,
        context={"current_goal": transcript.goal},
        scope=scope,
    ).unwrap_all()


def keep_continuity(memory: Memory, folder: str, goal: str) -> None:
    """Update CONTINUITY.md in a project that has this file, or in its ``.lukasa/`` folder if the user made or allowed it."""
    if not folder or not Path(folder).is_dir():
        return
    project = Path(folder)
    if (project / "CONTINUITY.md").is_file():
        memory.continuity.update(project / "CONTINUITY.md", goal=goal)
    elif (store := find_nearest_store(project)) is not None and (store == memory.place.path or is_noted(store)):
        memory.continuity.update(store.with_name("CONTINUITY.md"), goal=goal)
