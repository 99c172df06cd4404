"""How well trust tells agents apart: a simulation with agents of known quality, and what trust costs.

Ten agents work for a thousand rounds. In each one an agent's output is objected to by a devil's advocate, drawn by trust,
and by three others; whoever is right, which happens as often as the agent's quality says, changes the output.

    honest       five of them, right in 90, 80, 70, 60 and 50 % of cases
    shallow      right in 20 %, but its remarks of a few words are so small that most are taken over
    contrarian   right in 5 %, at great length
    colluding    two, right in 30 %; each takes over whatever the other says
    turncoat     right in 85 % until the middle of the run, then in 5 %

Then one bad writer floods a store of clean memories, and the clean questions are asked again. Beside it stands what an
honest newcomer pays who writes as much about matters of its own.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from lukasa.clock import Clock, SortableIds
from lukasa.memory import Memory, open_memory
from lukasa.models.embedders import best_installed_embedder
from lukasa.outcome import Refused
from lukasa.recall.ranking import MAX_AUTHOR_SHARE
from lukasa.record import Draft
from lukasa.scope import SYSTEM
from lukasa.trust import Trust
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.records import DISSENT, ORIGIN, TrustChanges, agent_draft
from lukasa.trust.score import TrustSums
from lukasa.trust.vectors import encode_vector
from lukasa_bench.interleave import compare, run_interleaved, time_each

Progress = Callable[[str, int, int], None]

ROUNDS = 1_000
EARLY_ROUNDS = 200
_START = datetime(2026, 1, 1, tzinfo=UTC)
_PEER_COUNT = 3
_BATCH_SIZE = 5_000
_TIMING_ROUNDS = 5
_CRITERIA = ("Accuracy", "Completeness", "Clarity", "Safety", "Cost", "Style")
_VOCABULARY = tuple(f"{first}{last}" for first in "bcdfghklmnprstvw" for last in
               ("adar", "elin", "oris", "umet", "iral", "anto", "espe", "olun", "ikra", "ubel"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class SimulatedAgent:
    """An agent of the simulation: how often it is right, and how it talks."""

    name: str
    kind: str
    quality: float
    word_range: tuple[int, int] = (20, 40)
    max_citations: int = 2
    acceptance_rate: float | None = None
    """How often its remarks are taken over, if that is not how often it is right."""


AGENTS = (
    *(SimulatedAgent(f"honest-{percent}", "honest", percent / 100) for percent in (90, 80, 70, 60, 50)),
    SimulatedAgent("shallow", "shallow", 0.2, (2, 6), 0, acceptance_rate=0.8),
    SimulatedAgent("contrarian", "contrarian", 0.05, (50, 80)),
    SimulatedAgent("colluding-1", "colluding", 0.3),
    SimulatedAgent("colluding-2", "colluding", 0.3),
    SimulatedAgent("turncoat", "turncoat", 0.85),
)
_TURNED_QUALITY = 0.05


@dataclass(frozen=True, slots=True)
class TrustBar:
    """What a figure must reach."""

    at: str
    limit: float


@dataclass(frozen=True, slots=True)
class TrustFigure:
    """One thing that was measured: the mean over the seeds, with the lowest and the highest."""

    case: str
    values: tuple[float, ...]
    unit: str = ""
    bar: TrustBar | None = None
    worst: bool = True
    """Whether the bar holds for the worst seed, not only for the mean."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def is_met(self) -> bool | None:
        if self.bar is None:
            return None
        if self.bar.at == "most":
            return (max(self.values) if self.worst else self.mean) <= self.bar.limit
        return (min(self.values) if self.worst else self.mean) >= self.bar.limit

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "mean": self.mean,
            "lowest": min(self.values),
            "highest": max(self.values),
            "met": self.is_met,
        }


@dataclass(slots=True)
class TrustBenchmarkReport:
    """A whole run."""

    seeds: int
    rounds: int
    embedder: str
    seconds: float = 0.0
    figures: list[TrustFigure] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": "trust", "seeds": self.seeds, "rounds": self.rounds, "embedder": self.embedder,
            "seconds": self.seconds, "figures": [figure.as_json() for figure in self.figures],
        }  # fmt: skip


def run(
    seeds: int = 10,
    *,
    rounds: int = ROUNDS,
    sizes: Sequence[int] = (1_000, 100_000),
    embedder: str | None = None,
    question_count: int = 60,
    flood_size: int = 1_000,
    progress: Progress | None = None,
) -> TrustBenchmarkReport:
    """Simulates, floods and times. ``asked`` clean questions are put before and after a ``flood`` of records."""
    began = perf_counter()
    tell = progress or _ignore_progress
    model = embedder or best_installed_embedder()
    report = TrustBenchmarkReport(seeds, rounds, model)
    lives, apart = [], []
    for seed in range(seeds):
        tell("simulating", seed, seeds)
        lives.append(_Simulation(seed, rounds, collude=True).simulate())
        apart.append(_Simulation(seed, rounds, collude=False).simulate(until=rounds // 2))
    tell("simulating", seeds, seeds)
    report.figures += _simulation_figures(lives, apart)
    floods = []
    for seed in range(seeds):
        tell("flooding", seed, seeds)
        floods.append(_simulate_flood(seed, model, question_count, flood_size))
    tell("flooding", seeds, seeds)
    report.figures += _flood_figures(floods)
    report.figures += _cost_figures(sizes, tell)
    report.seconds = perf_counter() - began
    return report


# The simulation


class _SimulationClock(Clock):
    """Six hours from one round to the next."""

    def __init__(self) -> None:
        self.moment = _START

    def now(self) -> datetime:
        return self.moment


@dataclass(slots=True)
class _SimulationResult:
    """What one run came to."""

    early_correlation: float = 0.0
    late_correlation: float = 0.0
    separated_after: int | None = None
    lost_after: int | None = None
    halfway_trust: dict[str, float] = field(default_factory=dict)
    final_trust: dict[str, float] = field(default_factory=dict)
    advocate_counts: dict[str, int] = field(default_factory=dict)


class _Simulation:
    """One run of the simulation."""

    def __init__(self, seed: int, rounds: int, *, collude: bool) -> None:
        self._seed = seed
        self._rounds = rounds
        self._collude = collude
        self._clock = _SimulationClock()
        self._turning_round = rounds // 2

    def _make_rng(self, *purpose: object) -> random.Random:
        """Chance that depends on what it is about alone: two runs differ only by what they do differently."""
        return random.Random(f"{self._seed} {purpose}")  # noqa: S311 - a simulation, no secret

    def simulate(self, until: int | None = None) -> _SimulationResult:
        found = _SimulationResult()
        ids = SortableIds(self._clock, random.Random(1))  # noqa: S311 - likewise
        with open_memory("memory:", clock=self._clock, new_id=ids, embedder="hash") as memory:
            for number in range(until or self._rounds):
                if number == self._turning_round:
                    found.halfway_trust = self._trust_scores(memory)
                self._run_round(memory, number, found)
                if number % 10 == 9:
                    self._record_correlation(memory, number + 1, found)
                self._clock.moment += timedelta(hours=6)
            found.final_trust = self._trust_scores(memory)
            found.halfway_trust = found.halfway_trust or found.final_trust
        return found

    @staticmethod
    def _trust_scores(memory: Memory) -> dict[str, float]:
        return {each.name: memory.trust.score(each.name).trust for each in AGENTS}

    def _quality(self, agent: SimulatedAgent, number: int) -> float:
        return _TURNED_QUALITY if agent.kind == "turncoat" and number >= self._turning_round else agent.quality

    def _run_round(self, memory: Memory, number: int, result: _SimulationResult) -> None:
        trust, chance, round_id = memory.trust, self._make_rng(number), f"round-{number}"
        author, *others = chance.sample(AGENTS, len(AGENTS))
        drawn = trust.assign_devils_advocate(
            [each.name for each in others], seed=chance.getrandbits(32), round_id=round_id
        )
        assert not isinstance(drawn, Refused)
        kind = next(each.kind for each in AGENTS if each.name == drawn.chosen)
        result.advocate_counts[kind] = result.advocate_counts.get(kind, 0) + 1
        dissenters = {drawn.chosen: True} | {each.name: True for each in others[:_PEER_COUNT]}
        for each in AGENTS:
            if each.name in dissenters:
                self._log_dissent(memory, each, author, number)
        trust.participate([author.name, *dissenters], round_id)
        if chance.random() < 0.3:
            held = trust.log_override(author.name, "output", "decision", round_id=round_id, by="person")
            if chance.random() < 0.5 * (1 - self._quality(author, number)):
                trust.revert(held.records[0].id, by="another")  # type: ignore[union-attr]  # the owner's are accepted
        if result.lost_after is None and number >= self._turning_round and not trust.eligibility("turncoat").viable:
            result.lost_after = number - self._turning_round + 1

    def _log_dissent(self, memory: Memory, agent: SimulatedAgent, author: SimulatedAgent, number: int) -> None:
        chance = self._make_rng(number, agent.name)
        rate = self._quality(agent, number) if agent.acceptance_rate is None else agent.acceptance_rate
        impact = chance.random() < rate
        if self._collude and agent.kind == author.kind == "colluding":
            impact = True
        text = " ".join(chance.choices(_VOCABULARY, k=chance.randint(*agent.word_range)))
        memory.trust.log_dissent(
            agent.name, text, round_id=f"round-{number}", impact=impact, of=author.name,
            rubric_citations=chance.sample(_CRITERIA, chance.randint(min(1, agent.max_citations), agent.max_citations)),
        )  # fmt: skip

    def _record_correlation(self, memory: Memory, rounds: int, result: _SimulationResult) -> None:
        """How trust stands beside true quality."""
        trust = [memory.trust.score(each.name).trust for each in AGENTS]
        agreement = rank_correlation(trust, [self._quality(each, rounds - 1) for each in AGENTS])
        if result.separated_after is None and agreement >= 0.8:
            result.separated_after = rounds
        if rounds == EARLY_ROUNDS:
            result.early_correlation = agreement
        result.late_correlation = agreement


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: how far two lists put things in the same order; equal ones share their ranks."""
    return (
        statistics.correlation(_ranks(first), _ranks(second)) if len(set(first)) > 1 and len(set(second)) > 1 else 0.0
    )


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(value) + len(ordered) - 1 - ordered[::-1].index(value)) / 2 for value in values]


def _simulation_figures(
    results: Sequence[_SimulationResult], results_alone: Sequence[_SimulationResult]
) -> Iterator[TrustFigure]:
    yield TrustFigure(
        f"rank correlation after {EARLY_ROUNDS} rounds",
        tuple(life.early_correlation for life in results),
        bar=TrustBar("least", 0.8),
    )
    yield TrustFigure("rank correlation at the end", tuple(life.late_correlation for life in results))
    yield TrustFigure(
        "rounds until it is 0.8", tuple(float(life.separated_after or ROUNDS) for life in results), "rounds"
    )
    lost = tuple(float(life.lost_after or ROUNDS) for life in results)
    yield TrustFigure("turncoat not viable after", lost, "rounds", TrustBar("most", 30))
    gains = tuple(
        _mean_trust(one.halfway_trust, "colluding") - _mean_trust(other.halfway_trust, "colluding")
        for one, other in zip(results, results_alone, strict=True)
    )
    yield TrustFigure("colluders' gain over working alone", gains, "trust", TrustBar("most", 0.05))
    for kind in dict.fromkeys(each.kind for each in AGENTS):
        yield TrustFigure(
            f"trust at the end, {kind}", tuple(_mean_trust(life.final_trust, kind) for life in results), "trust"
        )
    for kind in dict.fromkeys(each.kind for each in AGENTS):
        many = sum(each.kind == kind for each in AGENTS)
        shares = tuple(
            life.advocate_counts.get(kind, 0) / sum(life.advocate_counts.values()) / many for life in results
        )
        yield TrustFigure(f"advocate roles per agent, {kind}", shares, "share")


def _mean_trust(trust: Mapping[str, float], kind: str) -> float:
    return statistics.fmean(trust[each.name] for each in AGENTS if each.kind == kind)


# The flood

_WRITER_COUNT, _FACT_COUNT = 9, 200


@dataclass(frozen=True, slots=True)
class _FloodResult:
    before: float
    after_judged: float
    after_unjudged: float
    flood_share: float
    newcomer_loss: float


def _simulate_flood(seed: int, embedder: str, question_count: int = 60, flood_size: int = 1_000) -> _FloodResult:
    """Top-1 of clean questions before and after one writer's flood of false records on the same subjects."""
    chance = random.Random(seed)  # noqa: S311 - a simulation, no secret
    with open_memory("memory:", embedder=embedder) as memory:
        subjects = _write_clean_facts(memory, chance)
        questions = _make_questions(subjects[:question_count], "fact")
        before, _ = _ask_questions(memory, questions)
        memory.journal.append(
            Draft("note", _make_claim(chance, chance.choice(subjects)), id=f"false-{at}", author="flood")
            for at in range(flood_size)
        )
        unjudged, _ = _ask_questions(memory, questions)
        _log_judgements(memory, "flood", good=False)
        judged, share = _ask_questions(memory, questions)
    return _FloodResult(
        before, judged, unjudged, share, _measure_newcomer_loss(seed, embedder, question_count, flood_size)
    )


def _measure_newcomer_loss(seed: int, embedder: str, question_count: int, records: int) -> float:
    """What a writer nobody has judged loses of its own subjects, until it is judged as good as the others."""
    chance = random.Random(seed)  # noqa: S311
    with open_memory("memory:", embedder=embedder) as memory:
        taken = _write_clean_facts(memory, chance)
        drawn = (f"{chance.choice(_VOCABULARY)} {chance.choice(_VOCABULARY)}" for _ in range(records))
        subjects = [name for name in dict.fromkeys(drawn) if name not in taken]
        memory.journal.append(
            Draft("note", _make_claim(chance, name), id=f"own-{at}", author="newcomer")
            for at, name in enumerate(subjects)
        )
        questions = _make_questions(subjects[:question_count], "own")
        unjudged, _ = _ask_questions(memory, questions)
        _log_judgements(memory, "newcomer", good=True)
        return _ask_questions(memory, questions)[0] - unjudged


def _write_clean_facts(memory: Memory, rng: random.Random) -> list[str]:
    """Facts by writers who have been judged as good; the subjects they speak of."""
    subjects = [f"{rng.choice(_VOCABULARY)} {rng.choice(_VOCABULARY)}" for _ in range(_FACT_COUNT)]
    memory.journal.append(
        Draft("note", _make_claim(rng, name), id=f"fact-{at}", author=f"writer-{at % _WRITER_COUNT}")
        for at, name in enumerate(subjects)
    )
    for writer in range(_WRITER_COUNT):
        _log_judgements(memory, f"writer-{writer}", good=True)
    return subjects


def _make_questions(subjects: Sequence[str], answers: str) -> list[tuple[str, str]]:
    return [(f"Who owns the {name} project?", f"{answers}-{at}") for at, name in enumerate(subjects)]


def _make_claim(rng: random.Random, subject: str) -> str:
    return f"The {subject} project is owned by team {rng.choice(_VOCABULARY)} since {rng.randint(2001, 2026)}"


def _log_judgements(memory: Memory, agent: str, *, good: bool) -> None:
    """A short past: a good one whose dissents are heeded, or a bad one whose are not."""
    for at in range(12):
        text = " ".join(f"{agent}{at}x{nr}" for nr in range(25))
        memory.trust.log_dissent(agent, text, impact=good and at % 4 > 0, rubric_citations=[_CRITERIA[at % 6]])
    if not good:
        held = memory.trust.log_override(agent, "output", "decision", by="person")
        memory.trust.revert(held.records[0].id, by="another")  # type: ignore[union-attr]  # the owner's are accepted


def _ask_questions(memory: Memory, questions: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Which share of the questions had their answer first, and the largest share the flood had of an answer."""
    first, most = 0, 0
    for question, answer in questions:
        records = memory.recall(question, 10, kinds=("note",), patience=60).records
        first += records[0].id == answer
        most = max(most, sum(record.author == "flood" for record in records))
    return first / len(questions), most / 10


def _flood_figures(floods: Sequence[_FloodResult]) -> Iterator[TrustFigure]:
    yield TrustFigure("clean questions: answer first, before", tuple(each.before for each in floods), "share")
    lost = tuple(100 * (each.before - each.after_judged) for each in floods)
    yield TrustFigure("lost to a flood by a writer known as bad", lost, "points", TrustBar("most", 2))
    lost = tuple(100 * (each.before - each.after_unjudged) for each in floods)
    yield TrustFigure("lost to a flood by a writer nobody has judged", lost, "points")
    lost = tuple(100 * each.newcomer_loss for each in floods)
    yield TrustFigure("lost by an honest newcomer until it is judged", lost, "points")
    yield TrustFigure(
        "largest share of an answer the flood had",
        tuple(each.flood_share for each in floods),
        "share",
        TrustBar("most", MAX_AUTHOR_SHARE),
    )


# What it costs


def _cost_figures(sizes: Sequence[int], progress: Progress) -> list[TrustFigure]:
    """A score and a dissent, in stores of different sizes that take turns in one run."""
    with ExitStack() as stack:
        rooms: dict[int, Trust] = {}
        for size in dict.fromkeys(sizes):
            folder = stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-"))
            memory = stack.enter_context(open_memory(Path(folder) / "t.db", embedder="hash"))
            _write_backlog(memory, "agent", size, progress)
            rooms[size] = memory.trust
        texts = (f"objection {at} about {_VOCABULARY[at % len(_VOCABULARY)]}" for at in count())
        scored = run_interleaved(_TIMING_ROUNDS, list(rooms.values()), lambda: ["agent"] * 40, _time_scores)
        logged = run_interleaved(_TIMING_ROUNDS, list(rooms.values()), lambda: list(islice(texts, 40)), _time_dissents)
    figures = []
    for size, scores, dissents in zip(rooms, scored, logged, strict=True):
        milliseconds = 1000 * statistics.median(scores)
        figures.append(
            TrustFigure(f"score of an agent with {size:,} events", (milliseconds,), "ms", TrustBar("most", 5))
        )
        took = 1000 * statistics.median(wall for wall, _ in dissents)
        figures.append(TrustFigure(f"logging a dissent after {size:,}", (took,), "ms"))
    if len(rooms) > 1:
        least, most = min(rooms), max(rooms)
        many, few = ([work for _, work in logged[list(rooms).index(size)]] for size in (most, least))
        ratio = compare(many, few).ratio
        figures.append(
            TrustFigure(f"work of logging after {most:,} over {least:,}", (ratio,), "×", TrustBar("most", 1.5))
        )
    return figures


def _time_scores(trust: Trust, agents: Sequence[str]) -> float:
    return _lower_quartile(time_each(trust.score, agents))


def _time_dissents(trust: Trust, texts: Sequence[str]) -> tuple[float, float]:
    """What a dissent takes by the clock, disk included, and of the processor."""
    before = process_time()
    took = time_each(lambda text: trust.log_dissent("agent", text, impact=True), texts)
    return _lower_quartile(took), (process_time() - before) / len(texts)


def _lower_quartile(timings: Sequence[float]) -> float:
    """The lower quartile: what the work takes where others do not take the processor away."""
    return statistics.quantiles(timings, n=4)[0]


def _write_backlog(memory: Memory, agent: str, size: int, progress: Progress) -> None:
    """So many judged dissents of the last two hundred days, written in large batches."""
    chance = random.Random(size)  # noqa: S311 - a benchmark, no secret
    nearness = memory.recall.index.embedder.embedder
    vectors = [encode_vector(vector) for vector in nearness.embed([f"{_VOCABULARY[at]} {at}" for at in range(100)])]
    now = datetime.now(UTC)
    standing = TrustAggregate(agent, (now - timedelta(days=200)).date())
    new_id = SortableIds(_FixedClock(now), chance)
    for first in range(0, size, _BATCH_SIZE):
        progress(f"{size:,} events", first, size)
        drafts = []
        for at in range(first, min(first + _BATCH_SIZE, size)):
            when = now - timedelta(days=200 * (1 - at / size))
            impact, depth = chance.random() < 0.6, round(chance.uniform(0.2, 1.6), 6)
            standing = standing.advance_to(when.date()).with_sums(
                TrustSums.from_dissent(impact=impact, depth=depth), when.date()
            )
            event = {"round_id": f"r{at}", "dissent_text": f"{_VOCABULARY[at % 100]} {at}", "rubric_citations": [],
                     "impact": impact, "depth_score": depth}  # fmt: skip
            body = {"agent": agent, "event": event, "of": "", "novelty": 0.0, "why": "", "judged_by": "owner",
                    "counted": {"impact": impact, "depth": depth},
                    "vector": {"model": nearness.name, "numbers": vectors[at % 100]}}  # fmt: skip
            labels = (f"{DISSENT}={agent}", f"round=r{at}")
            drafts.append(
                Draft(DISSENT, body=body, id=new_id(), scope=SYSTEM, origin=ORIGIN, labels=labels, happened_at=when)
            )
        memory.journal.append(drafts)
    with memory.journal.snapshot() as look:
        books = TrustChanges(look, now)
        books.add_imported(standing)
        drafts = books.collect_drafts()
    memory.journal.append([agent_draft(agent), *drafts])
    progress(f"{size:,} events", size, size)


class _FixedClock:
    """A clock that stands still."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


def _ignore_progress(what: str, done: int, total: int) -> None: ...
