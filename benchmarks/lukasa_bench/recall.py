"""Benchmark of recall's quality, on public sets of conversations with questions whose evidence is known.

    {"set": "...", "conversations": [
      {"id": "...",
       "turns":     [{"id", "session", "time", "speaker", "text"}, ...],      in order
       "questions": [{"id", "question", "category", "evidence": [turn ids]}, ...]}]}

Each conversation is written into a new store as turns; each question is one recall over them. Baselines answer the same
questions from the same stores in the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import log2
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from lukasa.core.record import Draft
from lukasa.errors import InvalidInput
from lukasa.memory import Memory, open_memory
from lukasa.recall import WEIGHTS
from lukasa.storage.engine import Query
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.question_sets import ADVERSARIAL_CATEGORY, load_question_set

BASELINES = ("vector", "bm25", "rrf")
TUNED_ON = (
    "The weights and the cut-off of relevance were chosen by hand on five conversations of LoCoMo and ten of BEAM 100K."
)
"""What the figures of these conversations do not show: they run about four points high."""
_TOP_K = 10
_FUSION_DEPTH = 100
_RRF_CONSTANT = 60
_RESAMPLES = 1_000
_TURN_QUERY = Query(kinds=("turn",))

Progress = Callable[[str, int, int], None]
AnswerFunction = Callable[[Memory, str], list[str]]
"""Returns the ids of the ten turns found for a question, best first."""


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """Means over questions: recall among the first five and ten, nDCG at ten, sessions found among the first five."""

    questions: int
    recall_5: float
    recall_10: float
    ndcg_10: float
    session_recall_5: float
    interval: tuple[float, float] = (0.0, 0.0)
    """Where the recall among the first ten lies in 95 of 100 samples of the same questions, drawn with repetition."""


@dataclass(slots=True)
class RecallMethodReport:
    """The figures of one method on one set."""

    way: str
    figures: RecallFigures
    by_category: Mapping[str, RecallFigures]
    query_ms: float
    query_ms_p99: float


@dataclass(slots=True)
class QuestionSetReport:
    """One set: its size, the cost of storing a turn, and the figures of each method."""

    name: str
    conversations: int
    turns: int
    questions: int
    ingest_ms: float
    embed_ms: float
    embedder: str
    engine: str
    ways: list[RecallMethodReport] = field(default_factory=list)
    tuned_on: str = TUNED_ON

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run(
    files: Sequence[Path],
    *,
    embedder: str | None = None,
    server: str | None = None,
    baselines: Sequence[str] = (),
    ablate: bool = False,
    progress: Progress | None = None,
) -> list[QuestionSetReport]:
    """Measure each file or folder; with ``ablate`` also without each signal in turn."""
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise InvalidInput(f"There is no baseline {unknown[0]!r}.", hint=f"Use {', '.join(BASELINES)} or all.")
    return [
        _measure_set(load_question_set(file), embedder, server, baselines, progress or _ignore_progress, ablate=ablate)
        for file in files
    ]


def _measure_set(
    question_set: Mapping[str, Any],
    embedder: str | None,
    server: str | None,
    baselines: Sequence[str],
    progress: Progress,
    *,
    ablate: bool = False,
) -> QuestionSetReport:
    ways: dict[str, AnswerFunction] = {"lukasa": _answer_by_recall} | {
        name: _BASELINE_FUNCTIONS[name] for name in baselines
    }
    if ablate:
        ways |= {f"without {signal}": partial(_answer_without, signal) for signal in WEIGHTS}
    scores: dict[str, list[tuple[str, tuple[float, ...]]]] = {way: [] for way in ways}
    timings: dict[str, list[float]] = {way: [] for way in ways}
    conversations = question_set["conversations"]
    ingested, embedded, turns, name = 0.0, 0.0, 0, ""
    for number, conversation in enumerate(conversations):
        progress(question_set["set"], number, len(conversations))
        with _open_store(server, embedder) as memory:
            began = perf_counter()
            sessions = _ingest_turns(memory, conversation["turns"])
            ingested += perf_counter() - began
            began = perf_counter()
            memory.recall.index.catch_up()
            embedded += perf_counter() - began
            turns += len(sessions)
            name = memory.recall.index.embedder.name
            for question in conversation["questions"]:
                evidence = [id for id in question["evidence"] if id in sessions]
                if not evidence:
                    continue
                for way, answer in ways.items():
                    began = perf_counter()
                    ids = answer(memory, question["question"])
                    timings[way].append(perf_counter() - began)
                    scores[way].append((question["category"], _score_answer(ids, evidence, sessions)))
    progress(question_set["set"], len(conversations), len(conversations))
    report = QuestionSetReport(
        question_set["set"], len(conversations), turns, len(scores["lukasa"]), 1000 * ingested / max(turns, 1),
        1000 * embedded / max(turns, 1), name, "postgresql" if server else "sqlite",
    )  # fmt: skip
    report.ways = [_method_report(way, scores[way], timings[way]) for way in ways]
    return report


@contextmanager
def _open_store(server: str | None, embedder: str | None) -> Iterator[Memory]:
    with ExitStack() as stack:
        if server is not None:
            place: Path | str = stack.enter_context(BenchmarkDatabases(server)).create_pair("recall").lukasa
        else:
            place = Path(stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-"))) / "recall.db"
        yield stack.enter_context(open_memory(place, embedder=embedder))


def _ingest_turns(memory: Memory, turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write the turns and return the session of each."""
    memory.journal.append(
        Draft(
            "turn", turn["text"], id=turn["id"], author=turn["speaker"], labels=(f"session={turn['session']}",),
            happened_at=turn["moment"],
        )
        for turn in turns
    )  # fmt: skip
    return {turn["id"]: turn["session"] for turn in turns}


def _answer_by_recall(memory: Memory, question: str) -> list[str]:
    return [record.id for record in memory.recall(question, _TOP_K, kinds=("turn",)).records]


def _answer_without(signal: str, memory: Memory, question: str) -> list[str]:
    """Answer without one signal of the ranking."""
    memory.recall.weights = {name: weight for name, weight in WEIGHTS.items() if name != signal}
    try:
        return _answer_by_recall(memory, question)
    finally:
        memory.recall.weights = WEIGHTS


def _answer_by_vector(memory: Memory, question: str, limit: int = _TOP_K) -> list[str]:
    """Answer like a plain vector store: the turns nearest to the question."""
    index = memory.recall.index
    with memory.journal.snapshot() as reader:
        matches = reader.match_vector(
            index.embedder.name, index.question_vector(question), Query(kinds=("turn",), limit=limit)
        )
    return [match.record.id for match in matches]


def _answer_by_words(memory: Memory, question: str, limit: int = _TOP_K) -> list[str]:
    """Answer like a plain text index: any of the words, ranked by BM25."""
    return [match.record.id for match in memory.journal.find(question, Query(kinds=("turn",), limit=limit))]


def _answer_by_fusion(memory: Memory, question: str) -> list[str]:
    """Answer like a usual hybrid: both, fused by reciprocal rank."""
    scores: dict[str, float] = {}
    for ids in (_answer_by_vector(memory, question, _FUSION_DEPTH), _answer_by_words(memory, question, _FUSION_DEPTH)):
        for rank, id in enumerate(ids, 1):
            scores[id] = scores.get(id, 0.0) + 1 / (_RRF_CONSTANT + rank)
    return sorted(scores, key=lambda turn: -scores[turn])[:_TOP_K]


_BASELINE_FUNCTIONS: Mapping[str, AnswerFunction] = {
    "vector": _answer_by_vector,
    "bm25": _answer_by_words,
    "rrf": _answer_by_fusion,
}


def _score_answer(ids: Sequence[str], evidence: Sequence[str], sessions: Mapping[str, str]) -> tuple[float, ...]:
    wanted = set(evidence)
    hits = [id in wanted for id in ids[:_TOP_K]]
    gain = sum(hit / log2(place + 2) for place, hit in enumerate(hits))
    ideal = sum(1 / log2(place + 2) for place in range(min(_TOP_K, len(wanted))))
    places = {sessions[id] for id in wanted}
    found = {sessions[id] for id in ids[:5]} & places
    return sum(hits[:5]) / len(wanted), sum(hits) / len(wanted), gain / ideal, len(found) / len(places)


def _method_report(
    method: str, scores: Sequence[tuple[str, tuple[float, ...]]], timings: Sequence[float]
) -> RecallMethodReport:
    categories = sorted({category for category, _ in scores})
    by_category = {
        name: _mean_figures([figures for category, figures in scores if category == name]) for name in categories
    }
    counted = _mean_figures([figures for category, figures in scores if category != ADVERSARIAL_CATEGORY])
    ordered = sorted(timings) or [0.0]
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return RecallMethodReport(method, counted, by_category, 1000 * statistics.median(ordered), 1000 * p99)


def _mean_figures(scores: Sequence[tuple[float, ...]]) -> RecallFigures:
    if not scores:
        return RecallFigures(0, 0.0, 0.0, 0.0, 0.0)
    recall_5, recall_10, ndcg_10, sessions = (statistics.fmean(column) for column in zip(*scores, strict=True))
    return RecallFigures(
        len(scores), recall_5, recall_10, ndcg_10, sessions, _bootstrap_interval([score[1] for score in scores])
    )


def _bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    means = rng.choice(np.array(values), (_RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _ignore_progress(what: str, done: int, total: int) -> None: ...
