"""Benchmark of the memory of coding agents: sessions are replayed through the real hook handlers and scored against labels.

A replay asks what a client asks: the start of the session, each prompt that a person typed, each tool before it runs, and
the end. The labels name for each prompt whether something said earlier was needed and which words it must carry, what an
ideal start says, and what an ideal reader learns of the session. Keywords are an estimate: read the shown notes too.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import lukasa
from lukasa.interfaces.hooks.handlers import HookHandlers
from lukasa.models.token_counter import open_token_counter
from lukasa.transfer.layouts.agent_transcripts import read_transcript
from lukasa_bench.store import Progress

_NOTE = re.compile(r"^• (.*) \([\w-]+(?:, [^()]*)?\)$", re.MULTILINE)
_KEYWORDS, _KEYWORDS_OF_LONG, _LONG = 2, 3, 600
"""The keywords that a note must carry to count, more in a note of more characters."""
_NUMBERED = re.compile(r"^\d+[_-]")


@dataclass(frozen=True, slots=True)
class AgentFigure:
    """One figure of a replay, with its goal."""

    name: str
    value: float | None
    goal: str
    unit: str = "%"


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """What a memory said to one event of a session, or what it kept at the end."""

    session: str
    event: str
    prompt: int
    uuid: str
    notes: tuple[str, ...]
    tokens: int
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The figures of a replay and its events."""

    sessions: int
    labelled_prompts: int
    figures: tuple[AgentFigure, ...]
    events: tuple[AgentEvent, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "sessions": self.sessions,
            "labelled_prompts": self.labelled_prompts,
            "figures": [asdict(figure) for figure in self.figures],
        }


def run(
    folder: Path, labels: Path | None, *, first: int | None = None, progress: Progress | None = None
) -> AgentReport:
    """Replay the transcripts of a folder; each folder in it that has transcripts is a project with a store of its own."""
    events: list[AgentEvent] = []
    projects = [part for part in (folder, *sorted(folder.iterdir())) if part.is_dir() and any(part.glob("*.jsonl"))]
    for project in projects:
        with tempfile.TemporaryDirectory() as work:
            events += replay(sorted(project.glob("*.jsonl"))[:first], Path(work), progress)
    truth = json.loads(labels.read_text("utf-8")) if labels is not None else {}
    return score(events, truth)


def replay(paths: Sequence[Path], work: Path, progress: Progress | None = None) -> Iterator[AgentEvent]:
    """Replay the sessions of one project in the order of their names."""
    store = work / "memory.db"
    lukasa.open(store).close()
    handlers, count_tokens, position = HookHandlers(str(store), "agent"), open_token_counter(), 0
    handlers.warm_up()  # as the daemon does
    try:
        for number, path in enumerate(paths):
            if progress is not None:
                progress("sessions", number, len(paths))
            session, transcript = _NUMBERED.sub("", path.stem), read_transcript(path)
            base = {"session_id": session, "transcript_path": str(path.resolve()), "cwd": str(work)}

            def ask(
                event: str, fields: Mapping[str, Any], prompt: int = -1, uuid: str = "", base: Mapping[str, str] = base
            ) -> AgentEvent:
                began = process_time()
                answer = handlers.answer(event, json.dumps({**base, **fields}).encode())
                spent = 1_000 * (process_time() - began)
                answer.on_delivered()
                block = json.loads(answer.text)["hookSpecificOutput"]["additionalContext"] if answer.text else ""
                tokens = count_tokens(block) if block else 0
                return AgentEvent(base["session_id"], event, prompt, uuid, tuple(_NOTE.findall(block)), tokens, spent)

            yield ask("session-start", {"source": "startup"})
            requests = [item for item in transcript.turns if item.turn["role"] == "user"]
            asked = [exchange for exchange in transcript.exchanges if exchange.request]
            for index, (item, exchange) in enumerate(zip(requests, asked, strict=False)):
                yield ask("user-prompt-submit", {"prompt": exchange.request}, index, item.uuid)
                for call in exchange.calls:
                    yield ask(
                        "pre-tool-use", {"tool_name": call.name, "tool_input": dict(call.fields)}, index, item.uuid
                    )
            began = process_time()
            handlers.process_event("session-end", json.dumps({**base, "reason": "exit"}).encode())
            spent = 1_000 * (process_time() - began)
            with lukasa.open(store, create=False, read_only=True) as memory:
                records = list(memory.journal.read(lukasa.Query(after=position)))
            position = max((record.seq for record in records), default=position)
            kept = tuple(record.text for record in records if record.kind in ("lesson", "episode", "memory"))
            yield AgentEvent(session, "session-end", -1, "", kept, 0, spent)
    finally:
        handlers.close()


def score(events: Sequence[AgentEvent], labels: Mapping[str, Any]) -> AgentReport:
    """Compare what was said with the labels."""
    prompts = [event for event in events if event.event == "user-prompt-submit"]
    spoken = [event for event in prompts if event.notes]
    starts = {event.session: event for event in events if event.event == "session-start"}
    ends = {event.session: event for event in events if event.event == "session-end"}
    by_uuid = {(event.session, event.uuid): event for event in prompts}
    known: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for label in labels.get("sessions", ()):
        known.setdefault(label["project"], []).extend((label["n"], lesson) for lesson in label["learnings"])
    for label in labels.get("prompts", ()):
        known.setdefault(label["project"], []).extend((gold["n"], gold) for gold in label.get("gold") or ())
    count: Counter[str] = Counter()
    for label in labels.get("prompts", ()):
        event = by_uuid.get((label["session"], label["uuid"]))
        if event is None:
            continue
        golds = label.get("gold") or []
        before = [lesson for number, lesson in known.get(label["project"], ()) if number < label["n"]]
        beside = [starts[label["session"]], *_tools_of(events, event)] if label["need"] else []
        is_met = any(_is_match(note, gold) for each in (event, *beside) for note in each.notes for gold in golds)
        kind = "convention" if any(gold.get("kind") == "convention" for gold in golds) else "topic"
        lasting = [
            any(_is_match(note, hint) for hint in (*golds, *(label.get("helpful") or ()), *before))
            for note in event.notes
        ]
        stale = [wrong for wrong in label.get("must_not") or () for note in event.notes if _fold(wrong) in _fold(note)]
        count.update({"labelled": 1, "quiet": not label["need"], "silent": not label["need"] and not event.notes})
        count.update({"need": label["need"], "met": label["need"] and is_met, "stale": len(stale)})
        count.update({f"need {kind}": label["need"], f"met {kind}": label["need"] and is_met})
        count.update(
            {"notes": len(lasting), "lasting": sum(lasting), "tokens": event.tokens, "spoke": bool(event.notes)}
        )
    for label in labels.get("starts", ()):
        if (event := starts.get(label["session"])) is not None:
            count.update({"starts": 1, "right starts": any(_is_match(note, label) for note in event.notes)})
    for label in labels.get("sessions", ()):
        if (event := ends.get(label["session"])) is not None:
            learned = sum(any(_is_match(note, lesson) for note in event.notes) for lesson in label["learnings"])
            count.update({"lessons": len(label["learnings"]), "learned": learned})

    def share(part: str, whole: str) -> float | None:
        return 100 * count[part] / count[whole] if count[whole] else None

    figures = (
        AgentFigure("silent where nothing is needed", share("silent", "quiet"), "≥ 85"),
        AgentFigure("needs met at prompt, start or tool", share("met", "need"), "≥ 60"),
        AgentFigure("conventions met", share("met convention", "need convention"), "≥ 50"),
        AgentFigure("shown notes that carry something durable", share("lasting", "notes"), "≥ 50"),
        AgentFigure("stale notes shown", float(count["stale"]) if labels else None, "0", "notes"),
        AgentFigure("tokens per block at a prompt", _mean([event.tokens for event in spoken]), "≤ 200", "tokens"),
        AgentFigure(
            "tokens at prompts per need met",
            count["tokens"] / count["met"] if count["met"] else None,
            "≤ 1000",
            "tokens",
        ),
        AgentFigure("starts that say where things stand", share("right starts", "starts"), "≥ 60"),
        AgentFigure("tokens of a start", _mean([event.tokens for event in starts.values()]), "≤ 300", "tokens"),
        AgentFigure("lessons learned", share("learned", "lessons"), "≥ 30"),
        AgentFigure("prompts that were shown something", 100 * len(spoken) / len(prompts) if prompts else None, ""),
        AgentFigure("CPU of a prompt, 95th percentile", _percentile([event.cpu_ms for event in prompts]), "≤ 60", "ms"),
    )
    return AgentReport(len(starts), count["labelled"], figures, tuple(events))


def _tools_of(events: Sequence[AgentEvent], prompt: AgentEvent) -> list[AgentEvent]:
    return [
        event
        for event in events
        if event.event == "pre-tool-use"
        and (event.session, event.uuid) == (prompt.session, prompt.uuid)
        and event.notes
    ]


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


def _is_match(note: str, gold: Mapping[str, Any]) -> bool:
    """Return whether a note has the words of a gold, or enough of its keywords."""
    folded, fragment = _fold(note), _fold(gold.get("fragment") or "")
    found = sum(word in folded for word in {_fold(word) for word in gold["keywords"]})
    return (bool(fragment) and fragment in folded) or found >= (
        _KEYWORDS if len(folded) <= _LONG else _KEYWORDS_OF_LONG
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _percentile(values: Sequence[float]) -> float | None:
    return sorted(values)[int(0.95 * (len(values) - 1))] if values else None
