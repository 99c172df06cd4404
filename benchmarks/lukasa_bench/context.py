"""Benchmark of conversations: the cost of their operations as they grow, and how much of the folded turns is still found.

Cost: there is one store per size, with one conversation of that many turns. The sizes alternate, round by round, and every
figure is compared with that at the smallest size: a ratio near 1 means that the length of a conversation does not matter.

Folded turns: conversations with questions whose evidence is known are compacted to a tenth of their tokens. Of the questions
whose evidence was folded, it counts how many find it in the compacted view alone, and how many with recall.
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

from lukasa.context import Context, Conversations, Turn, summarise
from lukasa.context.state import DEFAULT_SETTINGS, NO_SUMMARY
from lukasa.memory import Memory, open_memory
from lukasa.models.token_counter import open_token_counter
from lukasa.text.sentences import split_sentences
from lukasa_bench.corpus import NoteCorpus
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.interleave import Comparison, compare, freeze_garbage
from lukasa_bench.question_sets import load_question_set
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row
from lukasa_bench.store import Progress

SIZES = (100, 10_000, 100_000)
ROUNDS = 3
SEED = 2026
SESSION = "bench"
VIEW_TURNS = 51
TOKEN_BUDGET = 4_000
_SUMMARISED_TURNS = 600
_KEPT_TURNS = 30
_COMPACTED_SHARE = 0.1
_TOP_K = 10

GROWTH_BAR = BenchmarkBar("ratio", "most", 1.3)
LOAD_BAR = BenchmarkBar("lukasa", "most", 0.002)
COMPACT_BAR = BenchmarkBar("lukasa", "most", 0.010)


@dataclass(frozen=True, slots=True)
class ContextEffort:
    """The number of operations in one round."""

    appends: int = 42
    loads: int = 40
    compactions: int = 4
    assemblies: int = 3


@dataclass(slots=True)
class _ConversationStore:
    size: int
    memory: Memory
    conversations: Conversations
    notes: NoteCorpus
    numbers: Any


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    effort: ContextEffort | None = None,
    server: str | None = None,
    progress: Progress | None = None,
) -> BenchmarkReport:
    """Measure every case at every size."""
    began, report_progress = perf_counter(), progress or _ignore_progress
    effort = effort or ContextEffort()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-")))
        machine = MachineInfo.measure(folder)
        databases = None if server is None else stack.enter_context(BenchmarkDatabases(server))
        subjects = [_build_store(stack, folder, size, databases, report_progress) for size in sorted(sizes)]
        rows: list[BenchmarkRow] = []
        for case in (
            _measure_append,
            _measure_load,
            _measure_append_and_load,
            _measure_compact,
            _measure_compact_all,
            _measure_assemble,
        ):
            report_progress("measuring", len(rows), 6 * len(subjects))
            rows += case(subjects, rounds, effort)
        report_progress("measuring", 1, 1)
    return BenchmarkReport("context", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _build_store(
    stack: ExitStack, folder: Path, size: int, databases: BenchmarkDatabases | None, progress: Progress
) -> _ConversationStore:
    """Build a store with one conversation of ``size`` turns, all but the newest folded."""
    place = folder / f"{size}.db" if databases is None else databases.create_pair(f"context{size}").lukasa
    memory = stack.enter_context(open_memory(place, embedder="hash"))
    notes = NoteCorpus(SEED)
    conversations = memory.context.using(None)
    subject = _ConversationStore(size, memory, conversations, notes, count())
    progress(f"building {size:,} turns", 0, size)
    summary = summarise(
        NO_SUMMARY,
        [_next_turn(subject) for _ in range(_SUMMARISED_TURNS)],
        DEFAULT_SETTINGS.summary_tokens,
        open_token_counter(),
    )
    turns = [_next_turn(subject) for _ in range(size)]
    context = Context(SESSION, long_term_summary=summary.text, recent_history=list(turns[-_KEPT_TURNS:]))
    conversations.restore(context, turns[:-_KEPT_TURNS])
    memory.recall.index.catch_up()
    progress(f"building {size:,} turns", size, size)
    return subject


def _next_turn(subject: _ConversationStore) -> Turn:
    (note,) = subject.notes.take(1)
    return Turn("user" if next(subject.numbers) % 2 else "assistant", note.text)


def _measure_append(subjects: Sequence[_ConversationStore], rounds: int, effort: ContextEffort) -> list[BenchmarkRow]:
    def work(subject: _ConversationStore) -> float:
        return statistics.median(_time_repeated(lambda: _append_turn(subject), effort.appends))

    return _rows_by_size("append, with its commit", subjects, rounds, work, GROWTH_BAR)


def _measure_load(subjects: Sequence[_ConversationStore], rounds: int, effort: ContextEffort) -> list[BenchmarkRow]:
    def work(subject: _ConversationStore) -> float:
        return statistics.median(
            _time_repeated(lambda: subject.conversations.load(SESSION), effort.loads, process_time)
        )

    return _rows_by_size("load the recent view, own time", subjects, rounds, work, LOAD_BAR)


def _measure_append_and_load(
    subjects: Sequence[_ConversationStore], rounds: int, effort: ContextEffort
) -> list[BenchmarkRow]:
    """Measure the mean, which includes compactions, of CPU time, which excludes the disk."""

    def both(subject: _ConversationStore) -> None:
        _append_turn(subject)
        subject.conversations.load(SESSION)

    def work(subject: _ConversationStore) -> float:
        return statistics.fmean(_time_repeated(lambda: both(subject), effort.appends, process_time))

    return _rows_by_size("append and load, own time", subjects, rounds, work, GROWTH_BAR)


def _measure_compact(subjects: Sequence[_ConversationStore], rounds: int, effort: ContextEffort) -> list[BenchmarkRow]:
    """Measure the CPU time of the automatic compaction at 51 turns: 21 are folded, 30 stay."""
    return _compaction_rows(
        f"compact a view of {VIEW_TURNS} turns, own time", subjects, rounds, effort, _KEPT_TURNS, COMPACT_BAR
    )


def _measure_compact_all(
    subjects: Sequence[_ConversationStore], rounds: int, effort: ContextEffort
) -> list[BenchmarkRow]:
    return _compaction_rows(f"fold all {VIEW_TURNS} turns, own time", subjects, rounds, effort, 0, None)


def _compaction_rows(
    case: str,
    subjects: Sequence[_ConversationStore],
    rounds: int,
    effort: ContextEffort,
    keep: int,
    bar: BenchmarkBar | None,
) -> list[BenchmarkRow]:
    def work(subject: _ConversationStore) -> float:
        subject.conversations.configure(SESSION, automatic=False)
        subject.conversations.compact(SESSION, keep=keep)
        timings = []
        for _ in range(effort.compactions):
            subject.conversations.extend(SESSION, [_next_turn(subject) for _ in range(VIEW_TURNS - keep)])
            timings += _time_repeated(lambda: subject.conversations.compact(SESSION, keep=keep), 1, process_time)
        return statistics.median(timings)

    return _rows_by_size(case, subjects, rounds, work, bar)


def _measure_assemble(subjects: Sequence[_ConversationStore], rounds: int, effort: ContextEffort) -> list[BenchmarkRow]:
    def work(subject: _ConversationStore) -> float:
        questions = iter(subject.notes.questions(effort.assemblies))
        return statistics.median(
            _time_repeated(
                lambda: subject.conversations.assemble(SESSION, TOKEN_BUDGET, query=next(questions)), effort.assemblies
            )
        )

    return _rows_by_size(f"assemble {TOKEN_BUDGET:,} tokens", subjects, rounds, work, None)


def _append_turn(subject: _ConversationStore) -> None:
    turn = _next_turn(subject)
    role: Any = turn.role
    subject.conversations.append(SESSION, role, turn.content)


def _time_repeated(action: Callable[[], object], times: int, clock: Callable[[], float] = perf_counter) -> list[float]:
    timings = []
    for _ in range(times):
        began = clock()
        action()
        timings.append(clock() - began)
    return timings


def _rows_by_size(
    case: str,
    subjects: Sequence[_ConversationStore],
    rounds: int,
    work: Callable[[_ConversationStore], float],
    bar: BenchmarkBar | None,
) -> list[BenchmarkRow]:
    """Measure a case at every size, compared with the smallest. The sizes alternate in starting; a first round warms up."""
    figures: list[list[float]] = [[] for _ in subjects]
    for turn in range(rounds + 1):
        for index in range(len(subjects)) if turn % 2 else reversed(range(len(subjects))):
            with freeze_garbage():
                seconds = work(subjects[index])
            if turn:
                figures[index].append(seconds)
    compared: list[Comparison] = [compare(own, figures[0]) for own in figures]
    return [
        comparison_row(case, subject.size, "s", found, bar if bar is None or bar.of == "lukasa" or index else None)
        for index, (subject, found) in enumerate(zip(subjects, compared, strict=True))
    ]


# Recall of folded turns


@dataclass(frozen=True, slots=True)
class FoldedRecallReport:
    """The questions whose evidence was folded, and the shares that still find it, by method."""

    name: str
    conversations: int
    turns: int
    tokens: int
    compacted_tokens: int
    questions: int
    folded: int
    in_view: float
    """The share whose evidence is quoted in the summary, which is all that is left without recall."""
    by_recall: float
    """The share with an evidence turn among the first ten recalled."""
    all_by_recall: float
    """The mean share of a question's evidence among the first ten recalled."""
    assembled: float
    """The share with an evidence turn in a prompt of ``TOKEN_BUDGET`` tokens."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_folded_recall(
    files: Sequence[Path], *, embedder: str | None = None, progress: Progress | None = None
) -> list[FoldedRecallReport]:
    """Measure how much of the folded turns is found, per file."""
    return [_measure_set(load_question_set(file), embedder, progress or _ignore_progress) for file in files]


def _measure_set(question_set: Any, embedder: str | None, progress: Progress) -> FoldedRecallReport:
    counter = open_token_counter()
    conversations = question_set["conversations"]
    totals = {"turns": 0, "tokens": 0, "compacted": 0, "questions": 0}
    scores: list[tuple[float, float, float, float]] = []
    for number, conversation in enumerate(conversations):
        progress(question_set["set"], number, len(conversations))
        with (
            TemporaryDirectory(prefix="lukasa-bench-") as folder,
            open_memory(Path(folder) / "c.db", embedder=embedder) as memory,
        ):
            sessions = memory.context.using(None)
            names = _import_turns(sessions, conversation["turns"])
            tokens = sum(counter(turn["text"]) for turn in conversation["turns"])
            _compact_to_tenth(sessions, tokens)
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
                    scores.append(
                        _score_question(memory, sessions, question["question"], evidence, context.long_term_summary)
                    )
    progress(question_set["set"], len(conversations), len(conversations))
    means = [statistics.fmean(column) for column in zip(*scores, strict=True)] if scores else [0.0] * 4
    return FoldedRecallReport(
        question_set["set"], len(conversations), totals["turns"], totals["tokens"], totals["compacted"], totals["questions"],
        len(scores), *means,
    )  # fmt: skip


def _import_turns(conversations: Conversations, turns: Sequence[Any]) -> dict[str, Turn]:
    """Store the turns as one conversation and return them by the ids that the questions use."""
    conversations.configure(SESSION, automatic=False)
    conversations.extend(
        SESSION, [Turn("user", turn["text"], speaker=turn["speaker"], timestamp=turn["moment"]) for turn in turns]
    )
    return {turn["id"]: stored for turn, stored in zip(turns, conversations.transcript(SESSION), strict=True)}


def _compact_to_tenth(conversations: Conversations, tokens: int) -> None:
    """Fold turns until summary and recent view have a tenth of the tokens together, half of it each."""
    half = int(tokens * _COMPACTED_SHARE / 2)
    conversations.configure(SESSION, summary_tokens=half)
    turns, keep, spent = conversations.load(SESSION).turns, 0, 0
    for turn in reversed(turns):
        spent += turn.tokens
        if spent > half:
            break
        keep += 1
    while len(conversations.load(SESSION).turns) > keep:  # step by step, as in a real conversation
        conversations.compact(SESSION, keep=max(keep, len(conversations.load(SESSION).turns) - 21))


def _score_question(
    memory: Memory, conversations: Conversations, question: str, evidence: Sequence[Turn], summary: str
) -> tuple[float, float, float, float]:
    ids = {turn.id for turn in evidence}
    quoted = any(
        sentence in summary for turn in evidence for sentence in split_sentences(turn.content) if len(sentence) > 20
    )
    hits = {
        record.id for record in memory.recall(question, _TOP_K, kinds=("turn",), conversation=SESSION).records
    } & ids
    prompt = conversations.assemble(SESSION, TOKEN_BUDGET, query=question)
    in_prompt = ids & {*prompt.older, *prompt.recent}
    return float(quoted), float(bool(hits)), len(hits) / len(ids), float(bool(in_prompt))


def _ignore_progress(what: str, done: int, total: int) -> None: ...
