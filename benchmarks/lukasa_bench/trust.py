"""A benchmark of trust: how well it separates simulated agents of known quality, and what it costs.

Ten agents work for a thousand rounds. In each round a devil's advocate, drawn by trust, and three other agents object to one
agent's output. A dissenter that is right changes the output; how often it is right is the agent's quality.

    honest       five of them, right in 90, 80, 70, 60 and 50 % of cases
    shallow      right in 20 %, but its remarks of a few words are so small that most are taken over
    contrarian   right in 5 %, at great length
    colluding    two, right in 30 %; each takes over whatever the other says
    turncoat     right in 85 % until the middle of the run, then in 5 %

Then one bad writer floods a store of clean memories, and the clean questions are asked again. For comparison, an honest
newcomer writes as much about other subjects, and its loss until it is judged is measured too.
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

from lukasa.core.clock import Clock, SortableIds
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft
from lukasa.core.scope import SYSTEM
from lukasa.memory import Memory, open_memory
from lukasa.models.embedders import best_installed_embedder
from lukasa.recall.ranking import MAX_AUTHOR_SHARE
from lukasa.trust import Trust
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.dissents import encode_vector
from lukasa.trust.records import DISSENT, ORIGIN, TrustChanges, agent_draft, event_labels
from lukasa.trust.score import CountedDissent, TrustSums
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
    """An agent of the simulation: how often it is right, and how much it writes."""

    name: str
    kind: str
    quality: float
    word_range: tuple[int, int] = (20, 40)
    max_citations: int = 2
    acceptance_rate: float | None = None
    """The share of its dissents that change the output, if that differs from its quality."""


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
    """The limit that a figure must reach: ``at`` least or ``at`` most."""

    at: str
    limit: float


@dataclass(frozen=True, slots=True)
class TrustFigure:
    """One measurement: its value for each seed, and the bar it must reach."""

    case: str
    values: tuple[float, ...]
    unit: str = ""
    bar: TrustBar | None = None
    worst: bool = True
    """Whether the worst seed must reach the bar, not only the mean."""

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
    """The figures of a whole run."""

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
    """Run the simulation, the flood and the timing.

    ``question_count`` clean questions are asked before and after a flood of ``flood_size`` records.
    """
    started = perf_counter()
    report_progress = progress or _ignore_progress
    model = embedder or best_installed_embedder()
    report = TrustBenchmarkReport(seeds, rounds, model)
    results, results_alone = [], []
    for seed in range(seeds):
        report_progress("simulating", seed, seeds)
        results.append(_Simulation(seed, rounds, collude=True).simulate())
        results_alone.append(_Simulation(seed, rounds, collude=False).simulate(until=rounds // 2))
    report_progress("simulating", seeds, seeds)
    report.figures += _simulation_figures(results, results_alone)
    floods = []
    for seed in range(seeds):
        report_progress("flooding", seed, seeds)
        floods.append(_simulate_flood(seed, model, question_count, flood_size))
    report_progress("flooding", seeds, seeds)
    report.figures += _flood_figures(floods)
    report.figures += _cost_figures(sizes, report_progress)
    report.seconds = perf_counter() - started
    return report


# The simulation


class _SimulationClock(Clock):
    """A clock that the simulation sets: six hours pass from one round to the next."""

    def __init__(self) -> None:
        self.moment = _START

    def now(self) -> datetime:
        return self.moment


@dataclass(slots=True)
class _SimulationResult:
    """The measurements of one simulation."""

    early_correlation: float = 0.0
    late_correlation: float = 0.0
    separated_after: int | None = None
    lost_after: int | None = None
    halfway_trust: dict[str, float] = field(default_factory=dict)
    final_trust: dict[str, float] = field(default_factory=dict)
    advocate_counts: dict[str, int] = field(default_factory=dict)


class _Simulation:
    """One run of the simulation with one seed."""

    def __init__(self, seed: int, rounds: int, *, collude: bool) -> None:
        self._seed = seed
        self._rounds = rounds
        self._collude = collude
        self._clock = _SimulationClock()
        self._turning_round = rounds // 2

    def _make_rng(self, *purpose: object) -> random.Random:
        """Return a generator that depends on the seed and the purpose alone, so that two runs draw the same numbers."""
        return random.Random(f"{self._seed} {purpose}")  # noqa: S311 - a simulation, no secret

    def simulate(self, until: int | None = None) -> _SimulationResult:
        result = _SimulationResult()
        ids = SortableIds(self._clock, random.Random(1))  # noqa: S311 - a simulation, no secret
        with open_memory("memory:", clock=self._clock, new_id=ids, embedder="hash") as memory:
            for number in range(until or self._rounds):
                if number == self._turning_round:
                    result.halfway_trust = self._trust_scores(memory)
                self._run_round(memory, number, result)
                if number % 10 == 9:
                    self._record_correlation(memory, number + 1, result)
                self._clock.moment += timedelta(hours=6)
            result.final_trust = self._trust_scores(memory)
            result.halfway_trust = result.halfway_trust or result.final_trust
        return result

    @staticmethod
    def _trust_scores(memory: Memory) -> dict[str, float]:
        return {agent.name: memory.trust.score(agent.name).adjusted_score for agent in AGENTS}

    def _quality(self, agent: SimulatedAgent, number: int) -> float:
        return _TURNED_QUALITY if agent.kind == "turncoat" and number >= self._turning_round else agent.quality

    def _run_round(self, memory: Memory, number: int, result: _SimulationResult) -> None:
        trust, rng, round_id = memory.trust, self._make_rng(number), f"round-{number}"
        author, *others = rng.sample(AGENTS, len(AGENTS))
        drawn = trust.assign_devils_advocate(
            [agent.name for agent in others], seed=rng.getrandbits(32), round_id=round_id
        )
        assert not isinstance(drawn, Refused)
        kind = next(agent.kind for agent in AGENTS if agent.name == drawn.chosen)
        result.advocate_counts[kind] = result.advocate_counts.get(kind, 0) + 1
        dissenters = {drawn.chosen: True} | {agent.name: True for agent in others[:_PEER_COUNT]}
        for agent in AGENTS:
            if agent.name in dissenters:
                self._log_dissent(memory, agent, author, number)
        trust.participate([author.name, *dissenters], round_id)
        if rng.random() < 0.3:
            outcome = trust.log_override(author.name, "output", "decision", round_id=round_id, by="person")
            if rng.random() < 0.5 * (1 - self._quality(author, number)):
                trust.revert(outcome.records[0].id, by="another")  # type: ignore[union-attr]  # always accepted
        if result.lost_after is None and number >= self._turning_round and not trust.eligibility("turncoat").viable:
            result.lost_after = number - self._turning_round + 1

    def _log_dissent(self, memory: Memory, agent: SimulatedAgent, author: SimulatedAgent, number: int) -> None:
        rng = self._make_rng(number, agent.name)
        rate = self._quality(agent, number) if agent.acceptance_rate is None else agent.acceptance_rate
        impact = rng.random() < rate
        if self._collude and agent.kind == author.kind == "colluding":
            impact = True
        text = " ".join(rng.choices(_VOCABULARY, k=rng.randint(*agent.word_range)))
        memory.trust.log_dissent(
            agent.name, text, round_id=f"round-{number}", impact=impact, of=author.name,
            rubric_citations=rng.sample(_CRITERIA, rng.randint(min(1, agent.max_citations), agent.max_citations)),
        )  # fmt: skip

    def _record_correlation(self, memory: Memory, rounds: int, result: _SimulationResult) -> None:
        """Record the rank correlation of trust with true quality."""
        trust = list(self._trust_scores(memory).values())
        correlation = rank_correlation(trust, [self._quality(agent, rounds - 1) for agent in AGENTS])
        if result.separated_after is None and correlation >= 0.8:
            result.separated_after = rounds
        if rounds == EARLY_ROUNDS:
            result.early_correlation = correlation
        result.late_correlation = correlation


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share their ranks."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(value) + len(ordered) - 1 - ordered[::-1].index(value)) / 2 for value in values]


def _simulation_figures(
    results: Sequence[_SimulationResult], results_alone: Sequence[_SimulationResult]
) -> Iterator[TrustFigure]:
    yield TrustFigure(
        f"rank correlation after {EARLY_ROUNDS} rounds",
        tuple(result.early_correlation for result in results),
        bar=TrustBar("least", 0.8),
    )
    yield TrustFigure("rank correlation at the end", tuple(result.late_correlation for result in results))
    yield TrustFigure(
        "rounds until it is 0.8", tuple(float(result.separated_after or ROUNDS) for result in results), "rounds"
    )
    lost = tuple(float(result.lost_after or ROUNDS) for result in results)
    yield TrustFigure("turncoat not viable after", lost, "rounds", TrustBar("most", 30))
    gains = tuple(
        _mean_trust(together.halfway_trust, "colluding") - _mean_trust(alone.halfway_trust, "colluding")
        for together, alone in zip(results, results_alone, strict=True)
    )
    yield TrustFigure("colluders' gain over working alone", gains, "trust", TrustBar("most", 0.05))
    for kind in dict.fromkeys(agent.kind for agent in AGENTS):
        yield TrustFigure(
            f"trust at the end, {kind}", tuple(_mean_trust(result.final_trust, kind) for result in results), "trust"
        )
    for kind in dict.fromkeys(agent.kind for agent in AGENTS):
        agents = sum(agent.kind == kind for agent in AGENTS)
        shares = tuple(
            result.advocate_counts.get(kind, 0) / sum(result.advocate_counts.values()) / agents for result in results
        )
        yield TrustFigure(f"advocate roles per agent, {kind}", shares, "share")


def _mean_trust(trust: Mapping[str, float], kind: str) -> float:
    return statistics.fmean(trust[agent.name] for agent in AGENTS if agent.kind == kind)


# The flood

_WRITER_COUNT, _FACT_COUNT = 9, 200


@dataclass(frozen=True, slots=True)
class _FloodResult:
    """Shares of clean questions with the right answer first, and the largest share of an answer the flood took."""

    before: float
    after_judged: float
    after_unjudged: float
    flood_share: float
    newcomer_loss: float


def _simulate_flood(seed: int, embedder: str, question_count: int = 60, flood_size: int = 1_000) -> _FloodResult:
    """Ask clean questions before and after one writer's flood of false records on the same subjects."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, no secret
    with open_memory("memory:", embedder=embedder) as memory:
        subjects = _write_clean_facts(memory, rng)
        questions = _make_questions(subjects[:question_count], "fact")
        before, _ = _ask_questions(memory, questions)
        memory.journal.append(
            Draft("note", _make_claim(rng, rng.choice(subjects)), id=f"false-{number}", author="flood")
            for number in range(flood_size)
        )
        unjudged, _ = _ask_questions(memory, questions)
        _log_judgements(memory, "flood", good=False)
        judged, share = _ask_questions(memory, questions)
    return _FloodResult(
        before, judged, unjudged, share, _measure_newcomer_loss(seed, embedder, question_count, flood_size)
    )


def _measure_newcomer_loss(seed: int, embedder: str, question_count: int, records: int) -> float:
    """Measure how many questions about its own subjects an honest writer loses until it is judged."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, no secret
    with open_memory("memory:", embedder=embedder) as memory:
        taken = _write_clean_facts(memory, rng)
        drawn = (f"{rng.choice(_VOCABULARY)} {rng.choice(_VOCABULARY)}" for _ in range(records))
        subjects = [name for name in dict.fromkeys(drawn) if name not in taken]
        memory.journal.append(
            Draft("note", _make_claim(rng, name), id=f"own-{number}", author="newcomer")
            for number, name in enumerate(subjects)
        )
        questions = _make_questions(subjects[:question_count], "own")
        unjudged, _ = _ask_questions(memory, questions)
        _log_judgements(memory, "newcomer", good=True)
        return _ask_questions(memory, questions)[0] - unjudged


def _write_clean_facts(memory: Memory, rng: random.Random) -> list[str]:
    """Write facts by writers that are judged as good, and return the subjects of the facts."""
    subjects = [f"{rng.choice(_VOCABULARY)} {rng.choice(_VOCABULARY)}" for _ in range(_FACT_COUNT)]
    memory.journal.append(
        Draft("note", _make_claim(rng, name), id=f"fact-{number}", author=f"writer-{number % _WRITER_COUNT}")
        for number, name in enumerate(subjects)
    )
    for writer in range(_WRITER_COUNT):
        _log_judgements(memory, f"writer-{writer}", good=True)
    return subjects


def _make_questions(subjects: Sequence[str], answers: str) -> list[tuple[str, str]]:
    return [(f"Who owns the {name} project?", f"{answers}-{number}") for number, name in enumerate(subjects)]


def _make_claim(rng: random.Random, subject: str) -> str:
    return f"The {subject} project is owned by team {rng.choice(_VOCABULARY)} since {rng.randint(2001, 2026)}"


def _log_judgements(memory: Memory, agent: str, *, good: bool) -> None:
    """Give an agent a short past: good with impacts, or bad without any and with a reverted override."""
    for number in range(12):
        text = " ".join(f"{agent}{number}x{index}" for index in range(25))
        memory.trust.log_dissent(agent, text, impact=good and number % 4 > 0, rubric_citations=[_CRITERIA[number % 6]])
    if not good:
        outcome = memory.trust.log_override(agent, "output", "decision", by="person")
        memory.trust.revert(outcome.records[0].id, by="another")  # type: ignore[union-attr]  # always accepted


def _ask_questions(memory: Memory, questions: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Return the share of questions with their answer first, and the flood's largest share of an answer."""
    first, flood_hits = 0, 0
    for question, answer in questions:
        records = memory.recall(question, 10, kinds=("note",), patience=60).records
        first += records[0].id == answer
        flood_hits = max(flood_hits, sum(record.author == "flood" for record in records))
    return first / len(questions), flood_hits / 10


def _flood_figures(floods: Sequence[_FloodResult]) -> Iterator[TrustFigure]:
    yield TrustFigure("clean questions: answer first, before", tuple(flood.before for flood in floods), "share")
    lost = tuple(100 * (flood.before - flood.after_judged) for flood in floods)
    yield TrustFigure("lost to a flood by a writer known as bad", lost, "points", TrustBar("most", 2))
    lost = tuple(100 * (flood.before - flood.after_unjudged) for flood in floods)
    yield TrustFigure("lost to a flood by an unjudged writer", lost, "points")
    lost = tuple(100 * flood.newcomer_loss for flood in floods)
    yield TrustFigure("lost by an honest newcomer until it is judged", lost, "points")
    yield TrustFigure(
        "largest share of an answer the flood had",
        tuple(flood.flood_share for flood in floods),
        "share",
        TrustBar("most", MAX_AUTHOR_SHARE),
    )


# What it costs


def _cost_figures(sizes: Sequence[int], progress: Progress) -> list[TrustFigure]:
    """Time a score and a dissent, in stores of different sizes that take turns in one run."""
    with ExitStack() as stack:
        services: dict[int, Trust] = {}
        for size in dict.fromkeys(sizes):
            folder = stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-"))
            memory = stack.enter_context(open_memory(Path(folder) / "t.db", embedder="hash"))
            _write_backlog(memory, "agent", size, progress)
            services[size] = memory.trust
        subjects = list(services.values())
        texts = (f"objection {number} about {_VOCABULARY[number % len(_VOCABULARY)]}" for number in count())
        scored = run_interleaved(_TIMING_ROUNDS, subjects, lambda: ["agent"] * 40, _time_scores)
        logged = run_interleaved(_TIMING_ROUNDS, subjects, lambda: list(islice(texts, 40)), _time_dissents)
    figures = []
    for size, scores, dissents in zip(services, scored, logged, strict=True):
        milliseconds = 1000 * statistics.median(scores)
        figures.append(
            TrustFigure(f"score of an agent with {size:,} events", (milliseconds,), "ms", TrustBar("most", 5))
        )
        milliseconds = 1000 * statistics.median(wall for wall, _ in dissents)
        figures.append(TrustFigure(f"logging a dissent after {size:,}", (milliseconds,), "ms"))
    if len(services) > 1:
        small, large = min(services), max(services)
        in_large, in_small = ([work for _, work in logged[list(services).index(size)]] for size in (large, small))
        ratio = compare(in_large, in_small).ratio
        figures.append(
            TrustFigure(f"work of logging after {large:,} over {small:,}", (ratio,), "×", TrustBar("most", 1.5))
        )
    return figures


def _time_scores(trust: Trust, agents: Sequence[str]) -> float:
    return _lower_quartile(time_each(trust.score, agents))


def _time_dissents(trust: Trust, texts: Sequence[str]) -> tuple[float, float]:
    """Return the wall time of a dissent, disk included, and its processor time."""
    before = process_time()
    timings = time_each(lambda text: trust.log_dissent("agent", text, impact=True), texts)
    return _lower_quartile(timings), (process_time() - before) / len(texts)


def _lower_quartile(timings: Sequence[float]) -> float:
    """Return the lower quartile, which other processes on the machine disturb least."""
    return statistics.quantiles(timings, n=4)[0]


def _write_backlog(memory: Memory, agent: str, size: int, progress: Progress) -> None:
    """Write ``size`` judged dissents of the last two hundred days in large batches."""
    rng = random.Random(size)  # noqa: S311 - a benchmark, no secret
    embedder = memory.recall.index.embedder.embedder
    texts = [f"{_VOCABULARY[number]} {number}" for number in range(100)]
    vectors = [encode_vector(vector) for vector in embedder.embed(texts)]
    now = datetime.now(UTC)
    aggregate = TrustAggregate(agent, (now - timedelta(days=200)).date())
    new_id = SortableIds(_FixedClock(now), rng)
    for first in range(0, size, _BATCH_SIZE):
        progress(f"{size:,} events", first, size)
        drafts = []
        for number in range(first, min(first + _BATCH_SIZE, size)):
            when = now - timedelta(days=200 * (1 - number / size))
            impact, depth = rng.random() < 0.6, round(rng.uniform(0.2, 1.6), 6)
            sums = TrustSums.from_dissent(impact=impact, depth=depth, counted=CountedDissent(impact, depth))
            aggregate = aggregate.advance_to(when.date()).with_sums(sums, when.date())
            text = f"{_VOCABULARY[number % 100]} {number}"
            event = {"round_id": f"r{number}", "dissent_text": text, "rubric_citations": [],
                     "impact": impact, "depth_score": depth}  # fmt: skip
            body = {"agent": agent, "event": event, "of": "", "novelty": 0.0, "why": "", "judged_by": "owner",
                    "counted": {"impact": impact, "depth": depth},
                    "vector": {"model": embedder.name, "numbers": vectors[number % 100]}}  # fmt: skip
            labels = event_labels(DISSENT, agent, f"r{number}")
            drafts.append(
                Draft(DISSENT, body=body, id=new_id(), scope=SYSTEM, origin=ORIGIN, labels=labels, happened_at=when)
            )
        memory.journal.append(drafts)
    with memory.journal.snapshot() as snapshot:
        changes = TrustChanges(snapshot, now)
        changes.add_imported(aggregate)
        drafts = changes.collect_drafts()
    memory.journal.append([agent_draft(agent), *drafts])
    progress(f"{size:,} events", size, size)


class _FixedClock:
    """A clock that always returns one time."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


def _ignore_progress(what: str, done: int, total: int) -> None: ...
