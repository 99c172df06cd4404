"""How well recall finds the right memory: public sets of conversations, with questions whose evidence is known.

    {"set": "...", "conversations": [
      {"id": "...",
       "turns":     [{"id", "session", "time", "speaker", "text"}, ...],      in order
       "questions": [{"id", "question", "category", "evidence": [turn ids]}, ...]}]}

Each conversation goes into a fresh store as turns; each question is one recall over them. Baselines answer the same
questions over the same stores in the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import log2
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from lukasa import canonical
from lukasa.benchmarks.databases import Databases
from lukasa.clock import from_iso
from lukasa.engine import Query
from lukasa.errors import FormatError, InvalidInput
from lukasa.memory import Memory, open_memory
from lukasa.record import Draft

BASELINES = ("vector", "bm25", "rrf")
APART = "adversarial"
"""Questions of this category have no answer in the conversation and are told apart."""
_K = 10
_DEEP = 100
_RRF = 60
_TIMES = ("%I:%M %p on %d %B, %Y", "%B-%d-%Y")
_TURNS = Query(kinds=("turn",))

Progress = Callable[[str, int, int], None]
Answer = Callable[[Memory, str], list[str]]
"""The ids of the ten turns found for a question, best first."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over questions: recall among the first five and ten, nDCG at ten, sessions found among the first five."""

    questions: int
    recall_5: float
    recall_10: float
    ndcg_10: float
    session_recall_5: float


@dataclass(slots=True)
class Standing:
    """How one way of answering did on one set."""

    way: str
    figures: Figures
    by_category: Mapping[str, Figures]
    query_ms: float
    query_ms_p99: float


@dataclass(slots=True)
class SetReport:
    """One set: its size, what taking in a turn cost, and how each way of answering did."""

    name: str
    conversations: int
    turns: int
    questions: int
    ingest_ms: float
    embed_ms: float
    embedder: str
    engine: str
    ways: list[Standing] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run(
    files: Sequence[Path],
    *,
    embedder: str | None = None,
    server: str | None = None,
    baselines: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[SetReport]:
    """Measures each file."""
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise InvalidInput(f"There is no baseline {unknown[0]!r}.", hint=f"Use {', '.join(BASELINES)} or all.")
    return [_measured(load(file), embedder, server, baselines, progress or _silent) for file in files]


def load(file: Path) -> Mapping[str, Any]:
    """Reads a set, strictly."""
    try:
        found = canonical.decode(file.read_bytes())
        for conversation in found["conversations"]:
            for turn in conversation["turns"]:
                turn["moment"] = moment_of(turn["time"])
            for question in conversation["questions"]:
                question["question"], question["category"], question["evidence"]
        found["set"]
    except (InvalidInput, KeyError, TypeError) as error:
        raise FormatError(f"{file} is not a set of conversations with questions ({error}).") from error
    return found  # type: ignore[no-any-return]  # JSON


def moment_of(text: str) -> datetime:
    """When a turn was said: ISO 8601, or one of the two spellings that the public sets use."""
    for spelling in _TIMES:
        try:
            return datetime.strptime(text, spelling).replace(tzinfo=UTC)
        except ValueError:
            continue
    return from_iso(text)


def _measured(
    found: Mapping[str, Any], embedder: str | None, server: str | None, baselines: Sequence[str], progress: Progress
) -> SetReport:
    ways: dict[str, Answer] = {"lukasa": _recall} | {name: _BASELINES[name] for name in baselines}
    scores: dict[str, list[tuple[str, tuple[float, ...]]]] = {way: [] for way in ways}
    took: dict[str, list[float]] = {way: [] for way in ways}
    conversations = found["conversations"]
    ingested, embedded, turns, name = 0.0, 0.0, 0, ""
    for number, conversation in enumerate(conversations):
        progress(found["set"], number, len(conversations))
        with _store(server, embedder) as memory:
            began = perf_counter()
            sessions = _ingest(memory, conversation["turns"])
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
                    took[way].append(perf_counter() - began)
                    scores[way].append((question["category"], _score(ids, evidence, sessions)))
    progress(found["set"], len(conversations), len(conversations))
    report = SetReport(
        found["set"], len(conversations), turns, len(scores["lukasa"]), 1000 * ingested / max(turns, 1),
        1000 * embedded / max(turns, 1), name, "postgresql" if server else "sqlite",
    )  # fmt: skip
    report.ways = [_standing(way, scores[way], took[way]) for way in ways]
    return report


@contextmanager
def _store(server: str | None, embedder: str | None) -> Iterator[Memory]:
    with ExitStack() as stack:
        if server is not None:
            place: Path | str = stack.enter_context(Databases(server)).new("recall").lukasa
        else:
            place = Path(stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-"))) / "recall.db"
        yield stack.enter_context(open_memory(place, embedder=embedder))


def _ingest(memory: Memory, turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Writes the turns; returns the session of each."""
    memory.journal.append(
        Draft(
            "turn", turn["text"], id=turn["id"], author=turn["speaker"], labels=(f"session={turn['session']}",),
            happened_at=turn["moment"],
        )
        for turn in turns
    )  # fmt: skip
    return {turn["id"]: turn["session"] for turn in turns}


def _recall(memory: Memory, question: str) -> list[str]:
    return [record.id for record in memory.recall(question, _K, kinds=("turn",)).records]


def _by_vector(memory: Memory, question: str, limit: int = _K) -> list[str]:
    """What a plain vector store does: the nearest turns to the question as it stands."""
    index = memory.recall.index
    with memory.journal.looking() as look:
        matches = look.match_vector(index.embedder.name, index.vector(question), Query(kinds=("turn",), limit=limit))
    return [match.record.id for match in matches]


def _by_words(memory: Memory, question: str, limit: int = _K) -> list[str]:
    """What a plain text index does: any of the words, ranked by BM25."""
    return [match.record.id for match in memory.journal.find(question, Query(kinds=("turn",), limit=limit))]


def _fused(memory: Memory, question: str) -> list[str]:
    """The usual hybrid: both, fused by reciprocal rank."""
    scores: dict[str, float] = {}
    for ids in (_by_vector(memory, question, _DEEP), _by_words(memory, question, _DEEP)):
        for rank, id in enumerate(ids, 1):
            scores[id] = scores.get(id, 0.0) + 1 / (_RRF + rank)
    return sorted(scores, key=lambda turn: -scores[turn])[:_K]


_BASELINES: Mapping[str, Answer] = {"vector": _by_vector, "bm25": _by_words, "rrf": _fused}


def _score(ids: Sequence[str], evidence: Sequence[str], sessions: Mapping[str, str]) -> tuple[float, ...]:
    wanted = set(evidence)
    hits = [id in wanted for id in ids[:_K]]
    gain = sum(hit / log2(place + 2) for place, hit in enumerate(hits))
    ideal = sum(1 / log2(place + 2) for place in range(min(_K, len(wanted))))
    places = {sessions[id] for id in wanted}
    found = {sessions[id] for id in ids[:5]} & places
    return sum(hits[:5]) / len(wanted), sum(hits) / len(wanted), gain / ideal, len(found) / len(places)


def _standing(way: str, scores: Sequence[tuple[str, tuple[float, ...]]], took: Sequence[float]) -> Standing:
    categories = sorted({category for category, _ in scores})
    by_category = {name: _figures([figures for category, figures in scores if category == name]) for name in categories}
    counted = _figures([figures for category, figures in scores if category != APART])
    ordered = sorted(took) or [0.0]
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Standing(way, counted, by_category, 1000 * statistics.median(ordered), 1000 * p99)


def _figures(scores: Sequence[tuple[float, ...]]) -> Figures:
    if not scores:
        return Figures(0, 0.0, 0.0, 0.0, 0.0)
    columns = [statistics.fmean(column) for column in zip(*scores, strict=True)]
    return Figures(len(scores), *columns)


def _silent(what: str, done: int, total: int) -> None: ...
