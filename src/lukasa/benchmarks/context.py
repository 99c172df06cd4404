"""What sessions cost as they grow, and what is still found of what was folded.

Costs: one store per size, each with one session of so many turns. The sizes take turns, round by round, and every figure
stands beside the same at the smallest size: what does not depend on the length of a session stays near 1.

Finding: conversations with questions whose evidence is known, each one session, compacted to a tenth of its tokens. Of
the questions whose evidence was folded, how many find it in the compacted view alone, and how many with recall?
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from lukasa.benchmarks.databases import Databases
from lukasa.benchmarks.notes import Notes
from lukasa.benchmarks.recall import load
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import Comparison, compare, settled
from lukasa.benchmarks.store import Progress
from lukasa.context import Context, Contexts, Turn, summarise
from lukasa.context.sentences import sentences
from lukasa.context.state import DEFAULTS, NO_SUMMARY
from lukasa.memory import Memory, open_memory
from lukasa.prompt import open_counter

SIZES = (100, 10_000, 100_000)
ROUNDS = 3
SEED = 2026
SESSION = "bench"
FOLDED = 51
BUDGET = 4_000
_SUMMARISED = 600
_KEPT = 30
_TENTH = 0.1
_K = 10

GROWTH_BAR = Bar("ratio", "most", 1.3)
LOAD_BAR = Bar("lukasa", "most", 0.002)
COMPACT_BAR = Bar("lukasa", "most", 0.010)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done in one round."""

    appends: int = 42
    loads: int = 40
    compactions: int = 4
    assemblies: int = 3


@dataclass(slots=True)
class _Subject:
    size: int
    memory: Memory
    sessions: Contexts
    notes: Notes
    numbers: Any


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    effort: Effort | None = None,
    server: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measures every case at every size."""
    began, tell = perf_counter(), progress or _silent
    effort = effort or Effort()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-")))
        machine = Machine.here(folder)
        databases = None if server is None else stack.enter_context(Databases(server))
        subjects = [_built(stack, folder, size, databases, tell) for size in sorted(sizes)]
        rows: list[Row] = []
        for case in (_append, _load, _append_and_load, _compact, _compact_all, _assemble):
            tell("measuring", len(rows), 6 * len(subjects))
            rows += case(subjects, rounds, effort)
        tell("measuring", 1, 1)
    return Report("context", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _built(stack: ExitStack, folder: Path, size: int, databases: Databases | None, tell: Progress) -> _Subject:
    """A store with one session of so many turns, all but the newest folded."""
    place = folder / f"{size}.db" if databases is None else databases.new(f"context{size}").lukasa
    memory = stack.enter_context(open_memory(place, embedder="hash"))
    notes = Notes(SEED)
    sessions = memory.context.using(None)
    subject = _Subject(size, memory, sessions, notes, count())
    tell(f"building {size:,} turns", 0, size)
    summary = summarise(
        NO_SUMMARY, [_turn(subject) for _ in range(_SUMMARISED)], DEFAULTS.summary_tokens, open_counter()
    )
    turns = [_turn(subject) for _ in range(size)]
    context = Context(SESSION, long_term_summary=summary.text, recent_history=list(turns[-_KEPT:]))
    sessions.restore(context, turns[:-_KEPT])
    memory.recall.index.catch_up()
    tell(f"building {size:,} turns", size, size)
    return subject


def _turn(subject: _Subject) -> Turn:
    (note,) = subject.notes.take(1)
    return Turn("user" if next(subject.numbers) % 2 else "assistant", note.text)


def _append(subjects: Sequence[_Subject], rounds: int, effort: Effort) -> list[Row]:
    def work(subject: _Subject) -> float:
        return statistics.median(_timed(lambda: _say(subject), effort.appends))

    return _rows("append, with its commit", subjects, rounds, work, GROWTH_BAR)


def _load(subjects: Sequence[_Subject], rounds: int, effort: Effort) -> list[Row]:
    def work(subject: _Subject) -> float:
        return statistics.median(_timed(lambda: subject.sessions.load(SESSION), effort.loads, process_time))

    return _rows("load the recent view, own time", subjects, rounds, work, LOAD_BAR)


def _append_and_load(subjects: Sequence[_Subject], rounds: int, effort: Effort) -> list[Row]:
    """The mean, so that the compactions on the way count; processor time, so that the disk's moods do not."""

    def both(subject: _Subject) -> None:
        _say(subject)
        subject.sessions.load(SESSION)

    def work(subject: _Subject) -> float:
        return statistics.fmean(_timed(lambda: both(subject), effort.appends, process_time))

    return _rows("append and load, own time", subjects, rounds, work, GROWTH_BAR)


def _compact(subjects: Sequence[_Subject], rounds: int, effort: Effort) -> list[Row]:
    """What happens by itself at 51 turns: 21 are folded, 30 stay. In processor time: the wait for the disk aside."""
    return _folding(f"compact a view of {FOLDED} turns, own time", subjects, rounds, effort, _KEPT, COMPACT_BAR)


def _compact_all(subjects: Sequence[_Subject], rounds: int, effort: Effort) -> list[Row]:
    return _folding(f"fold all {FOLDED} turns, own time", subjects, rounds, effort, 0, None)


def _folding(
    case: str, subjects: Sequence[_Subject], rounds: int, effort: Effort, keep: int, bar: Bar | None
) -> list[Row]:
    def work(subject: _Subject) -> float:
        subject.sessions.configure(SESSION, automatic=False)
        subject.sessions.compact(SESSION, keep=keep)
        took = []
        for _ in range(effort.compactions):
            subject.sessions.extend(SESSION, [_turn(subject) for _ in range(FOLDED - keep)])
            took += _timed(lambda: subject.sessions.compact(SESSION, keep=keep), 1, process_time)
        return statistics.median(took)

    return _rows(case, subjects, rounds, work, bar)


def _assemble(subjects: Sequence[_Subject], rounds: int, effort: Effort) -> list[Row]:
    def work(subject: _Subject) -> float:
        questions = iter(subject.notes.questions(effort.assemblies))
        return statistics.median(
            _timed(lambda: subject.sessions.assemble(SESSION, BUDGET, question=next(questions)), effort.assemblies)
        )

    return _rows(f"assemble {BUDGET:,} tokens", subjects, rounds, work, None)


def _say(subject: _Subject) -> None:
    turn = _turn(subject)
    subject.sessions.append(SESSION, turn.role, turn.content)


def _timed(deed: Callable[[], object], times: int, clock: Callable[[], float] = perf_counter) -> list[float]:
    took = []
    for _ in range(times):
        began = clock()
        deed()
        took.append(clock() - began)
    return took


def _rows(
    case: str, subjects: Sequence[_Subject], rounds: int, work: Callable[[_Subject], float], bar: Bar | None
) -> list[Row]:
    """The case at every size beside the smallest; the sizes take turns in beginning, and a first round warms all up."""
    figures: list[list[float]] = [[] for _ in subjects]
    for turn in range(rounds + 1):
        for at in range(len(subjects)) if turn % 2 else reversed(range(len(subjects))):
            with settled():
                took = work(subjects[at])
            if turn:
                figures[at].append(took)
    compared: list[Comparison] = [compare(own, figures[0]) for own in figures]
    return [
        row(case, subject.size, "s", found, bar if bar is None or bar.of == "lukasa" or at else None)
        for at, (subject, found) in enumerate(zip(subjects, compared, strict=True))
    ]


# What is still found


@dataclass(frozen=True, slots=True)
class Found:
    """Of the questions whose evidence was folded: how many still find it, and by which means."""

    name: str
    conversations: int
    turns: int
    tokens: int
    compacted_tokens: int
    questions: int
    folded: int
    in_view: float
    """The share whose evidence is quoted in the summary: all there is without recall."""
    by_recall: float
    """The share with an evidence turn among the first ten recalled."""
    all_by_recall: float
    """The mean share of a question's evidence among the first ten recalled."""
    assembled: float
    """The share with an evidence turn in a prompt of ``BUDGET`` tokens."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def find(files: Sequence[Path], *, embedder: str | None = None, progress: Progress | None = None) -> list[Found]:
    """Measures what is found of folded turns, per file."""
    return [_found(load(file), embedder, progress or _silent) for file in files]


def _found(given: Any, embedder: str | None, tell: Progress) -> Found:
    counter = open_counter()
    conversations = given["conversations"]
    totals = {"turns": 0, "tokens": 0, "compacted": 0, "questions": 0}
    scores: list[tuple[float, float, float, float]] = []
    for number, conversation in enumerate(conversations):
        tell(given["set"], number, len(conversations))
        with (
            TemporaryDirectory(prefix="lukasa-bench-") as folder,
            open_memory(Path(folder) / "c.db", embedder=embedder) as memory,
        ):
            sessions = memory.context.using(None)
            names = _taken_in(sessions, conversation["turns"])
            tokens = sum(counter(turn["text"]) for turn in conversation["turns"])
            _to_a_tenth(sessions, tokens)
            memory.recall.index.catch_up()
            context = sessions.load(SESSION)
            recent = {turn.id for turn in context.turns}
            totals["turns"] += len(names)
            totals["tokens"] += tokens
            totals["compacted"] += context.tokens + counter(context.long_term_summary)
            for question in conversation["questions"]:
                evidence = [names[id] for id in question["evidence"] if id in names]
                totals["questions"] += bool(evidence)
                if evidence and not any(turn.id in recent for turn in evidence):
                    scores.append(_score(memory, sessions, question["question"], evidence, context.long_term_summary))
    tell(given["set"], len(conversations), len(conversations))
    means = [statistics.fmean(column) for column in zip(*scores, strict=True)] if scores else [0.0] * 4
    return Found(
        given["set"], len(conversations), totals["turns"], totals["tokens"], totals["compacted"], totals["questions"],
        len(scores), *means,
    )  # fmt: skip


def _taken_in(sessions: Contexts, turns: Sequence[Any]) -> dict[str, Turn]:
    """Keeps a conversation as one session; the turns by the names that the questions know them by."""
    sessions.configure(SESSION, automatic=False)
    sessions.extend(
        SESSION,
        [Turn("user", turn["text"], speaker=turn["speaker"], timestamp=turn["moment"]) for turn in turns],
    )
    return {turn["id"]: kept for turn, kept in zip(turns, sessions.transcript(SESSION), strict=True)}


def _to_a_tenth(sessions: Contexts, tokens: int) -> None:
    """Folds until summary and recent view together have a tenth of the tokens, half of it each."""
    half = int(tokens * _TENTH / 2)
    sessions.configure(SESSION, summary_tokens=half)
    turns, keep, spent = sessions.load(SESSION).turns, 0, 0
    for turn in reversed(turns):
        spent += turn.tokens
        if spent > half:
            break
        keep += 1
    while len(sessions.load(SESSION).turns) > keep:  # round by round, as a session would live through it
        sessions.compact(SESSION, keep=max(keep, len(sessions.load(SESSION).turns) - 21))


def _score(
    memory: Memory, sessions: Contexts, question: str, evidence: Sequence[Turn], summary: str
) -> tuple[float, float, float, float]:
    ids = {turn.id for turn in evidence}
    quoted = any(sentence in summary for turn in evidence for sentence in sentences(turn.content) if len(sentence) > 20)
    hits = {record.id for record in memory.recall(question, _K, kinds=("turn",), session=SESSION).records} & ids
    made = sessions.assemble(SESSION, BUDGET, question=question)
    there = ids & {*made.older, *made.recent}
    return float(quoted), float(bool(hits)), len(hits) / len(ids), float(bool(there))


def _silent(what: str, done: int, total: int) -> None: ...
