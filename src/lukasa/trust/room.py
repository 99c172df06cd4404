"""Trust for one caller: who has been right, who may object, and whose memory to believe."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import ClassVar

from lukasa.clock import Clock, IdMaker, aware
from lukasa.embedder import Embedder
from lukasa.engine import Finding, Query, Reader
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.record import Draft, Record
from lukasa.scope import SYSTEM
from lukasa.trust import insight
from lukasa.trust.adopting import Adopting
from lukasa.trust.agent import AgentMemory
from lukasa.trust.belief import Belief
from lukasa.trust.books import (
    AGENT,
    CHANGE,
    DISSENT,
    OVERRIDE,
    PARTICIPATION,
    PERSON,
    Books,
    about,
    agent_draft,
    key_of,
)
from lukasa.trust.desk import bad_name
from lukasa.trust.dissents import Dissents
from lukasa.trust.overrides import Overrides
from lukasa.trust.roles import Roles
from lukasa.trust.rubric import Rubrics
from lukasa.trust.score import Score, Sums, score
from lukasa.trust.standing import Standing, first_day
from lukasa.trust.values import Metrics


class Trust(Dissents, Overrides, Roles, Adopting):
    """Keeps dissents and overrides, and draws from them how far each agent is trusted.

    The books are the owner's: only a caller that reaches everything writes and reads them. An agent may file a dissent
    of its own, for the owner to judge, and see its own score.
    """

    ROOMS: ClassVar[frozenset[str]] = frozenset({"rubric"})
    """The attributes that have methods of their own."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        chance: random.Random,
        embedder: Callable[[], Embedder],
        belief: Belief,
    ) -> None:
        super().__init__(journal, clock, new_id, chance, embedder, belief)
        self.rubric = Rubrics(journal, clock, new_id)

    # Agents

    def agent(self, name: str) -> AgentMemory:
        """The document's agent memory: everything kept of one agent, as of now whenever it is asked."""
        self._require_owner()
        if (refused := bad_name("agent", name)) is not None:
            raise InvalidInput(refused.reason)
        return AgentMemory(name, self, self._journal, self._clock)

    def agents(self) -> list[str]:
        """Everybody who has been met, by name."""
        self._require_owner()
        return sorted(record.id for record in self._journal.read(Query(kinds=(AGENT,), scopes=(SYSTEM,))))

    def register(self, agent: str, *, model: str | None = None, primary_role: str | None = None) -> Outcome:
        """Says which model an agent uses and what its role is. Both may change over time; the old ones stay in history."""
        if (refused := self._objection(agent=agent)) is not None:
            return refused
        told = {name: value for name, value in (("model", model), ("primary_role", primary_role)) if value is not None}

        def registering(reader: Reader) -> Sequence[Draft] | Refused:
            known = reader.get(key_of(AGENT, agent))
            return [agent_draft(agent, **(dict(known.body) if known is not None else {}) | told)]

        return self._journal.decide(registering)

    # Scores

    def score(self, agent: str, *, at: datetime | None = None) -> Score:
        """An agent's trust with its parts; with ``at``, as it was known at that time, recomputed from the events."""
        own = bool(agent) and agent == self._journal.author
        if not own:
            self._require_owner()
        if at is None:
            now = self._clock.now()
            if own and not self._journal.reach.unlimited:
                known = self._belief.standing(agent)
                return (known or Standing(agent, now.date())).score(now)
            return self._standing(agent, today=now.date()).score(now)
        self._require_owner()
        moment = aware(at)
        window, total = self._resummed(agent, moment)
        return score(agent, window, total, moment, self._standing(agent).initial)

    def history(self, agent: str, *, limit: int | None = None) -> list[Record]:
        """How an agent's trust has changed, oldest first: each with its reason and its inputs."""
        self._require_owner()
        return list(self._journal.read(about(agent, CHANGE, newest_first=True, limit=limit)))[::-1]

    # Proof

    def _resummed(self, agent: str, moment: datetime) -> tuple[Sums, Sums]:
        """The sums of window and history, from the events themselves as they were known at a time."""
        first = first_day(moment.date())
        window, total = Sums(), Sums()
        for record in chain.from_iterable(
            self._journal.read(about(agent, kind, as_of=moment)) for kind in (DISSENT, OVERRIDE)
        ):
            sums = counted_sums(record)
            total = total.plus(sums)
            if record.moment.date() >= first:
                window = window.plus(sums)
        return window, total

    def check(self, agent: str | None = None) -> list[Finding]:
        """Recomputes the running state from the events; tells where the two differ."""
        self._require_owner()
        findings = []
        for name in self.agents() if agent is None else [agent]:
            now = self._clock.now()
            kept = self._standing(name).at(now.date())
            window, total = self._resummed(name, now)
            rounds = kept.rounds_before + sum(1 for _ in self._journal.read(about(name, PARTICIPATION)))
            for what, own, true in (
                ("window", kept.window, window), ("total", kept.total, total), ("rounds", kept.rounds, rounds)
            ):  # fmt: skip
                if own != true:
                    where = f"trust of {name!r}"
                    findings.append(Finding(where, f"{what} is {own}, the events say {true}", repairable=True))
        return findings

    def rebuild(self, agent: str) -> Outcome:
        """Makes the sums of an agent's running state anew from its events."""
        self._require_owner()

        def rebuilding(reader: Reader) -> Sequence[Draft] | Refused:
            books = Books(reader, self._clock.now())
            blank = replace(books.standing(agent), today=Sums(), window=Sums(), total=Sums(), days={}, rounds=0)
            for record in [*reader.read(about(agent, DISSENT)), *reader.read(about(agent, OVERRIDE))]:
                blank = blank.adding(counted_sums(record), record.moment.date())
            blank = replace(blank, rounds=blank.rounds_before + len(reader.read(about(agent, PARTICIPATION))))
            books.put(blank)
            books.note(agent, "rebuilt", None)
            return books.drafts()

        return self._journal.decide(rebuilding)

    # Insight

    def metrics(self, agent: str | None = None) -> Metrics:
        """Dissent impact, regret rate and escalation usefulness, of one agent or of all together."""
        self._require_owner()
        names = self.agents() if agent is None else [agent]
        today = self._clock.now().date()
        standings = [self._standing(name).at(today) for name in names]
        window = Sums.all(standing.window for standing in standings)
        return Metrics(len(names), window, Sums.all(standing.total for standing in standings))

    def diversity(self, agent: str) -> insight.Diversity:
        """How various an agent's citations are, and whether that has fallen while trust stayed high."""
        standing = self.standing(agent)
        return insight.diversity(standing, standing.score(self._clock.now()).trust)

    def influence(self) -> insight.Influence:
        """Whose dissents changed whose output, and whose overrides were reverted by whom."""
        self._require_owner()
        on = {name: self._standing(name).on for name in self.agents()}
        persons = list(self._journal.read(Query(kinds=(PERSON,), scopes=(SYSTEM,))))
        return insight.Influence(
            {dissenter: dict(pairs) for dissenter, pairs in on.items() if pairs},
            {record.id: dict(record.body["reverted_by"]) for record in persons if record.body["reverted_by"]},
        )

    def predict(self, topic: str, candidates: Iterable[str] | None = None) -> insight.Forecast:
        """Who is likely to dissent effectively on a topic, best first, with the evidence and how often this was right."""
        self._require_owner()
        if not topic.strip():
            raise InvalidInput("A topic says something.")
        names = list(dict.fromkeys(candidates)) if candidates is not None else self.agents()
        vector = self._nearness.embed([topic])[0]
        with self._journal.looking() as look:
            voices = {name: insight.Voice.of(*self._nearness.past(look, name)) for name in names}
        return insight.forecast(topic, vector, voices)

    # Quarantine

    def quarantine(self, agent: str, *, since: datetime | None = None, reason: str = "") -> Outcome:
        """Hides what an agent wrote, and what was derived from it, at once; and keeps it from critical roles."""
        return self._journal.quarantine(agent, since=since, reason=reason)

    def release(self, agent: str) -> Outcome:
        """Brings back what a quarantine hid."""
        return self._journal.release(agent)


def counted_sums(record: Record) -> Sums:
    """What an event counts, as it was decided when it came in."""
    body = record.body
    if record.kind == DISSENT:
        counted = body["counted"]
        return Sums() if counted is None else Sums.of_dissent(impact=counted["impact"], depth=counted["depth"])
    regret = bool(body["event"]["regret"])
    return Sums(overrides=1, regrets=int(regret), useful=int(body["useful"] and not regret))
