"""How well trust tells agents apart: a simulation with agents of known quality, and what trust costs.

Ten agents work for a thousand rounds. In each one an agent's output is objected to by a devil's advocate, drawn by trust,
and by three others; whoever is right, which happens as often as the agent's quality says, changes the output.

    honest       five of them, right in 90, 80, 70, 60 and 50 % of cases
    shallow      right in 20 %, but its remarks of a few words are so small that most are taken over
    contrarian   right in 5 %, at great length
    colluding    two, right in 30 %; each takes over whatever the other says
    turncoat     right in 85 % until the middle of the run, then in 5 %

Then one bad writer floods a store of clean memories, and the clean questions are asked again.
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

from lukasa.benchmarks.rounds import alternate, compare, seconds_each
from lukasa.clock import Clock, SortableIds
from lukasa.embedders import best_installed
from lukasa.memory import Memory, open_memory
from lukasa.outcome import Refused
from lukasa.recall.ranking import SHARE
from lukasa.record import Draft
from lukasa.scope import SYSTEM
from lukasa.trust import Trust
from lukasa.trust.books import DISSENT, ORIGIN, Books, agent_draft
from lukasa.trust.nearness import spelled
from lukasa.trust.score import Sums
from lukasa.trust.standing import Standing

Progress = Callable[[str, int, int], None]

ROUNDS = 1_000
EARLY = 200
_START = datetime(2026, 1, 1, tzinfo=UTC)
_PEERS = 3
_BATCH = 5_000
_TURNS = 5
_CRITERIA = ("Accuracy", "Completeness", "Clarity", "Safety", "Cost", "Style")
_WORDS = tuple(f"{first}{last}" for first in "bcdfghklmnprstvw" for last in
               ("adar", "elin", "oris", "umet", "iral", "anto", "espe", "olun", "ikra", "ubel"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cast:
    """An agent of the simulation: how often it is right, and how it talks."""

    name: str
    kind: str
    quality: float
    words: tuple[int, int] = (20, 40)
    citations: int = 2
    taken_over: float | None = None
    """How often its remarks are taken over, if that is not how often it is right."""


AGENTS = (
    *(Cast(f"honest-{percent}", "honest", percent / 100) for percent in (90, 80, 70, 60, 50)),
    Cast("shallow", "shallow", 0.2, (2, 6), 0, taken_over=0.8),
    Cast("contrarian", "contrarian", 0.05, (50, 80)),
    Cast("colluding-1", "colluding", 0.3),
    Cast("colluding-2", "colluding", 0.3),
    Cast("turncoat", "turncoat", 0.85),
)
_TURNED = 0.05


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must reach."""

    at: str
    limit: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured: the mean over the seeds, with the lowest and the highest."""

    case: str
    values: tuple[float, ...]
    unit: str = ""
    bar: Bar | None = None
    worst: bool = True
    """Whether the bar holds for the worst seed, not only for the mean."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def met(self) -> bool | None:
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
            "met": self.met,
        }


@dataclass(slots=True)
class Report:
    """A whole run."""

    seeds: int
    rounds: int
    embedder: str
    seconds: float = 0.0
    figures: list[Figure] = field(default_factory=list)

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
    asked: int = 60,
    flood: int = 1_000,
    progress: Progress | None = None,
) -> Report:
    """Simulates, floods and times. ``asked`` clean questions are put before and after a ``flood`` of records."""
    began = perf_counter()
    tell = progress or _silent
    model = embedder or best_installed()
    report = Report(seeds, rounds, model)
    lives, apart = [], []
    for seed in range(seeds):
        tell("simulating", seed, seeds)
        lives.append(_Life(seed, rounds, collude=True).lived())
        apart.append(_Life(seed, rounds, collude=False).lived(until=rounds // 2))
    tell("simulating", seeds, seeds)
    report.figures += _of_simulation(lives, apart)
    floods = []
    for seed in range(seeds):
        tell("flooding", seed, seeds)
        floods.append(_flood(seed, model, asked, flood))
    tell("flooding", seeds, seeds)
    report.figures += _of_floods(floods)
    report.figures += _costs(sizes, tell)
    report.seconds = perf_counter() - began
    return report


# The simulation


class _Calendar(Clock):
    """Six hours from one round to the next."""

    def __init__(self) -> None:
        self.moment = _START

    def now(self) -> datetime:
        return self.moment


@dataclass(slots=True)
class _Lived:
    """What one run came to."""

    early: float = 0.0
    late: float = 0.0
    separated: int | None = None
    lost_after: int | None = None
    halfway: dict[str, float] = field(default_factory=dict)
    trust: dict[str, float] = field(default_factory=dict)
    advocates: dict[str, int] = field(default_factory=dict)


class _Life:
    """One run of the simulation."""

    def __init__(self, seed: int, rounds: int, *, collude: bool) -> None:
        self._seed = seed
        self._rounds = rounds
        self._collude = collude
        self._clock = _Calendar()
        self._turning = rounds // 2

    def _chance(self, *about: object) -> random.Random:
        """Chance that depends on what it is about alone: two runs differ only by what they do differently."""
        return random.Random(f"{self._seed} {about}")  # noqa: S311 - a simulation, no secret

    def lived(self, until: int | None = None) -> _Lived:
        found = _Lived()
        ids = SortableIds(self._clock, random.Random(1))  # noqa: S311 - likewise
        with open_memory("memory:", clock=self._clock, new_id=ids, embedder="hash") as memory:
            for number in range(until or self._rounds):
                if number == self._turning:
                    found.halfway = self._trust(memory)
                self._round(memory, number, found)
                if number % 10 == 9:
                    self._look(memory, number + 1, found)
                self._clock.moment += timedelta(hours=6)
            found.trust = self._trust(memory)
            found.halfway = found.halfway or found.trust
        return found

    @staticmethod
    def _trust(memory: Memory) -> dict[str, float]:
        return {each.name: memory.trust.score(each.name).trust for each in AGENTS}

    def _quality(self, agent: Cast, number: int) -> float:
        return _TURNED if agent.kind == "turncoat" and number >= self._turning else agent.quality

    def _round(self, memory: Memory, number: int, found: _Lived) -> None:
        trust, chance, round_id = memory.trust, self._chance(number), f"round-{number}"
        author, *others = chance.sample(AGENTS, len(AGENTS))
        drawn = trust.assign_devils_advocate(
            [each.name for each in others], seed=chance.getrandbits(32), round_id=round_id
        )
        assert not isinstance(drawn, Refused)
        kind = next(each.kind for each in AGENTS if each.name == drawn.chosen)
        found.advocates[kind] = found.advocates.get(kind, 0) + 1
        dissenters = {drawn.chosen: True} | {each.name: True for each in others[:_PEERS]}
        for each in AGENTS:
            if each.name in dissenters:
                self._dissent(memory, each, author, number)
        trust.participate([author.name, *dissenters], round_id)
        if chance.random() < 0.3:
            held = trust.log_override(author.name, "output", "decision", round_id=round_id, by="person")
            if chance.random() < 0.5 * (1 - self._quality(author, number)):
                trust.revert(held.records[0].id, by="another")  # type: ignore[union-attr]  # the owner's are accepted
        if found.lost_after is None and number >= self._turning and not trust.eligibility("turncoat").viable:
            found.lost_after = number - self._turning + 1

    def _dissent(self, memory: Memory, agent: Cast, author: Cast, number: int) -> None:
        chance = self._chance(number, agent.name)
        rate = self._quality(agent, number) if agent.taken_over is None else agent.taken_over
        impact = chance.random() < rate
        if self._collude and agent.kind == author.kind == "colluding":
            impact = True
        text = " ".join(chance.choices(_WORDS, k=chance.randint(*agent.words)))
        memory.trust.log_dissent(
            agent.name, text, round_id=f"round-{number}", impact=impact, of=author.name,
            rubric_citations=chance.sample(_CRITERIA, chance.randint(min(1, agent.citations), agent.citations)),
        )  # fmt: skip

    def _look(self, memory: Memory, rounds: int, found: _Lived) -> None:
        """How trust stands beside true quality."""
        trust = [memory.trust.score(each.name).trust for each in AGENTS]
        agreement = rank_correlation(trust, [self._quality(each, rounds - 1) for each in AGENTS])
        if found.separated is None and agreement >= 0.8:
            found.separated = rounds
        if rounds == EARLY:
            found.early = agreement
        found.late = agreement


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: how far two lists put things in the same order; equal ones share their ranks."""
    return statistics.correlation(_ranks(one), _ranks(other)) if len(set(one)) > 1 and len(set(other)) > 1 else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(value) + len(ordered) - 1 - ordered[::-1].index(value)) / 2 for value in values]


def _of_simulation(lives: Sequence[_Lived], apart: Sequence[_Lived]) -> Iterator[Figure]:
    yield Figure(f"rank correlation after {EARLY} rounds", tuple(life.early for life in lives), bar=Bar("least", 0.8))
    yield Figure("rank correlation at the end", tuple(life.late for life in lives))
    yield Figure("rounds until it is 0.8", tuple(float(life.separated or ROUNDS) for life in lives), "rounds")
    lost = tuple(float(life.lost_after or ROUNDS) for life in lives)
    yield Figure("turncoat not viable after", lost, "rounds", Bar("most", 30))
    gains = tuple(
        _mean(one.halfway, "colluding") - _mean(other.halfway, "colluding")
        for one, other in zip(lives, apart, strict=True)
    )
    yield Figure("colluders' gain over working alone", gains, "trust", Bar("most", 0.05))
    for kind in dict.fromkeys(each.kind for each in AGENTS):
        yield Figure(f"trust at the end, {kind}", tuple(_mean(life.trust, kind) for life in lives), "trust")
    for kind in dict.fromkeys(each.kind for each in AGENTS):
        many = sum(each.kind == kind for each in AGENTS)
        shares = tuple(life.advocates.get(kind, 0) / sum(life.advocates.values()) / many for life in lives)
        yield Figure(f"advocate roles per agent, {kind}", shares, "share")


def _mean(trust: Mapping[str, float], kind: str) -> float:
    return statistics.fmean(trust[each.name] for each in AGENTS if each.kind == kind)


# The flood

_WRITERS, _FACTS = 9, 200


@dataclass(frozen=True, slots=True)
class _Flooded:
    before: float
    judged: float
    unjudged: float
    share: float


def _flood(seed: int, embedder: str, asked: int = 60, flood: int = 1_000) -> _Flooded:
    """Top-1 of clean questions before and after one writer's flood of false records on the same subjects."""
    chance = random.Random(seed)  # noqa: S311 - a simulation, no secret
    with open_memory("memory:", embedder=embedder) as memory:
        subjects = [f"{chance.choice(_WORDS)} {chance.choice(_WORDS)}" for _ in range(_FACTS)]
        questions = [(f"Who owns the {name} project?", f"fact-{at}") for at, name in enumerate(subjects[:asked])]
        memory.journal.append(
            Draft("note", _claim(chance, name), id=f"fact-{at}", author=f"writer-{at % _WRITERS}")
            for at, name in enumerate(subjects)
        )
        for writer in range(_WRITERS):
            _judge(memory, f"writer-{writer}", good=True)
        before, _ = _asked(memory, questions)
        memory.journal.append(
            Draft("note", _claim(chance, chance.choice(subjects)), id=f"false-{at}", author="flood")
            for at in range(flood)
        )
        unjudged, _ = _asked(memory, questions)
        _judge(memory, "flood", good=False)
        judged, share = _asked(memory, questions)
    return _Flooded(before, judged, unjudged, share)


def _claim(chance: random.Random, subject: str) -> str:
    return f"The {subject} project is owned by team {chance.choice(_WORDS)} since {chance.randint(2001, 2026)}"


def _judge(memory: Memory, agent: str, *, good: bool) -> None:
    """A short past: a good one whose dissents are heeded, or a bad one whose are not."""
    for at in range(12):
        text = " ".join(f"{agent}{at}x{nr}" for nr in range(25))
        memory.trust.log_dissent(agent, text, impact=good and at % 4 > 0, rubric_citations=[_CRITERIA[at % 6]])
    if not good:
        held = memory.trust.log_override(agent, "output", "decision", by="person")
        memory.trust.revert(held.records[0].id, by="another")  # type: ignore[union-attr]  # the owner's are accepted


def _asked(memory: Memory, questions: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Which share of the questions had their answer first, and the largest share the flood had of an answer."""
    first, most = 0, 0
    for question, answer in questions:
        records = memory.recall(question, 10, kinds=("note",), patience=60).records
        first += records[0].id == answer
        most = max(most, sum(record.author == "flood" for record in records))
    return first / len(questions), most / 10


def _of_floods(floods: Sequence[_Flooded]) -> Iterator[Figure]:
    yield Figure("clean questions: answer first, before", tuple(each.before for each in floods), "share")
    lost = tuple(100 * (each.before - each.judged) for each in floods)
    yield Figure("lost to a flood by a writer known as bad", lost, "points", Bar("most", 2))
    lost = tuple(100 * (each.before - each.unjudged) for each in floods)
    yield Figure("lost to a flood by a writer nobody has judged", lost, "points")
    yield Figure(
        "largest share of an answer the flood had", tuple(each.share for each in floods), "share", Bar("most", SHARE)
    )


# What it costs


def _costs(sizes: Sequence[int], tell: Progress) -> list[Figure]:
    """A score and a dissent, in stores of different sizes that take turns in one run."""
    with ExitStack() as stack:
        rooms: dict[int, Trust] = {}
        for size in dict.fromkeys(sizes):
            folder = stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-"))
            memory = stack.enter_context(open_memory(Path(folder) / "t.db", embedder="hash"))
            _backlog(memory, "agent", size, tell)
            rooms[size] = memory.trust
        texts = (f"objection {at} about {_WORDS[at % len(_WORDS)]}" for at in count())
        scored = alternate(_TURNS, list(rooms.values()), lambda: ["agent"] * 40, _scored)
        logged = alternate(_TURNS, list(rooms.values()), lambda: list(islice(texts, 40)), _logged)
    figures = []
    for size, scores, dissents in zip(rooms, scored, logged, strict=True):
        milliseconds = 1000 * statistics.median(scores)
        figures.append(Figure(f"score of an agent with {size:,} events", (milliseconds,), "ms", Bar("most", 5)))
        took = 1000 * statistics.median(wall for wall, _ in dissents)
        figures.append(Figure(f"logging a dissent after {size:,}", (took,), "ms"))
    if len(rooms) > 1:
        least, most = min(rooms), max(rooms)
        many, few = ([work for _, work in logged[list(rooms).index(size)]] for size in (most, least))
        ratio = compare(many, few).ratio
        figures.append(Figure(f"work of logging after {most:,} over {least:,}", (ratio,), "×", Bar("most", 1.5)))
    return figures


def _scored(trust: Trust, agents: Sequence[str]) -> float:
    return _undisturbed(seconds_each(trust.score, agents))


def _logged(trust: Trust, texts: Sequence[str]) -> tuple[float, float]:
    """What a dissent takes by the clock, disk included, and of the processor."""
    before = process_time()
    took = seconds_each(lambda text: trust.log_dissent("agent", text, impact=True), texts)
    return _undisturbed(took), (process_time() - before) / len(texts)


def _undisturbed(took: Sequence[float]) -> float:
    """The lower quartile: what the work takes where others do not take the processor away."""
    return statistics.quantiles(took, n=4)[0]


def _backlog(memory: Memory, agent: str, size: int, tell: Progress) -> None:
    """So many judged dissents of the last two hundred days, written in large batches."""
    chance = random.Random(size)  # noqa: S311 - a benchmark, no secret
    nearness = memory.recall.index.embedder.embedder
    vectors = [spelled(vector) for vector in nearness.embed([f"{_WORDS[at]} {at}" for at in range(100)])]
    now = datetime.now(UTC)
    standing = Standing(agent, (now - timedelta(days=200)).date())
    new_id = SortableIds(_Now(now), chance)
    for first in range(0, size, _BATCH):
        tell(f"{size:,} events", first, size)
        drafts = []
        for at in range(first, min(first + _BATCH, size)):
            when = now - timedelta(days=200 * (1 - at / size))
            impact, depth = chance.random() < 0.6, round(chance.uniform(0.2, 1.6), 6)
            standing = standing.at(when.date()).adding(Sums.of_dissent(impact=impact, depth=depth), when.date())
            event = {"round_id": f"r{at}", "dissent_text": f"{_WORDS[at % 100]} {at}", "rubric_citations": [],
                     "impact": impact, "depth_score": depth}  # fmt: skip
            body = {"agent": agent, "event": event, "of": "", "novelty": 0.0, "why": "", "judged_by": "owner",
                    "counted": {"impact": impact, "depth": depth},
                    "vector": {"model": nearness.name, "numbers": vectors[at % 100]}}  # fmt: skip
            labels = (f"{DISSENT}={agent}", f"round=r{at}")
            drafts.append(
                Draft(DISSENT, body=body, id=new_id(), scope=SYSTEM, origin=ORIGIN, labels=labels, happened_at=when)
            )
        memory.journal.append(drafts)
    with memory.journal.looking() as look:
        books = Books(look, now)
        books.adopt(standing)
        drafts = books.drafts()
    memory.journal.append([agent_draft(agent), *drafts])
    tell(f"{size:,} events", size, size)


class _Now:
    """A clock that stands still."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


def _silent(what: str, done: int, total: int) -> None: ...
