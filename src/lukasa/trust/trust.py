"""Trust for one caller: who has been right, who may object, and whose memory to believe."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import ClassVar

from lukasa.clock import Clock, IdMaker, to_utc
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.models.embedder import Embedder
from lukasa.outcome import Outcome, Refused
from lukasa.record import Draft, Record
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Finding, Query, Reader
from lukasa.trust import analytics
from lukasa.trust.agent_view import AgentMemory
from lukasa.trust.aggregate import TrustAggregate, window_start
from lukasa.trust.base import check_name
from lukasa.trust.dissents import TrustDissents
from lukasa.trust.importer import TrustImporter
from lukasa.trust.lookup import TrustLookup
from lukasa.trust.overrides import TrustOverrides
from lukasa.trust.records import (
    AGENT,
    DISSENT,
    OVERRIDE,
    PARTICIPATION,
    PERSON,
    TRUST_CHANGE,
    TrustChanges,
    agent_draft,
    agent_events_query,
    trust_key,
)
from lukasa.trust.results import TrustMetrics
from lukasa.trust.roles import TrustRoles
from lukasa.trust.rubric import Rubrics
from lukasa.trust.score import TrustScore, TrustSums, compute_score


class Trust(TrustDissents, TrustOverrides, TrustRoles, TrustImporter):
    """Keeps dissents and overrides, and draws from them how far each agent is trusted.

    The books are the owner's: only a caller that reaches everything writes and reads them. An agent may file a dissent
    of its own, for the owner to judge, and see its own score.
    """

    SERVICES: ClassVar[frozenset[str]] = frozenset({"rubric"})
    """The attributes that have methods of their own."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        rng: random.Random,
        embedder: Callable[[], Embedder],
        lookup: TrustLookup,
    ) -> None:
        super().__init__(journal, clock, new_id, rng, embedder, lookup)
        self.rubric = Rubrics(journal, clock, new_id)

    # Agents

    def agent(self, name: str) -> AgentMemory:
        """The document's agent memory: everything kept of one agent, as of now whenever it is asked."""
        self._require_owner()
        if (refused := check_name("agent", name)) is not None:
            raise InvalidInput(refused.reason)
        return AgentMemory(name, self, self._journal, self._clock)

    def agents(self) -> list[str]:
        """Everybody who has been met, by name."""
        self._require_owner()
        return sorted(record.id for record in self._journal.read(Query(kinds=(AGENT,), scopes=(SYSTEM,))))

    def register(self, agent: str, *, model: str | None = None, primary_role: str | None = None) -> Outcome:
        """Says which model an agent uses and what its role is. Both may change over time; the old ones stay in history."""
        if (refused := self._check_owner_and_names(agent=agent)) is not None:
            return refused
        told = {name: value for name, value in (("model", model), ("primary_role", primary_role)) if value is not None}

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            known = reader.get(trust_key(AGENT, agent))
            return [agent_draft(agent, **(dict(known.body) if known is not None else {}) | told)]

        return self._journal.append_if(build_drafts)

    # Scores

    def score(self, agent: str, *, at: datetime | None = None) -> TrustScore:
        """An agent's trust with its parts; with ``at``, as it was known at that time, recomputed from the events."""
        own = bool(agent) and agent == self._journal.author
        if not own:
            self._require_owner()
        if at is None:
            now = self._clock.now()
            if own and not self._journal.reach.unlimited:
                known = self._lookup.get_aggregate(agent)
                return (known or TrustAggregate(agent, now.date())).score(now)
            return self._read_aggregate(agent, today=now.date()).score(now)
        self._require_owner()
        moment = to_utc(at)
        window, total = self._recompute_sums(agent, moment)
        return compute_score(agent, window, total, moment, self._read_aggregate(agent).initial)

    def history(self, agent: str, *, limit: int | None = None) -> list[Record]:
        """How an agent's trust has changed, oldest first: each with its reason and its inputs."""
        self._require_owner()
        return list(self._journal.read(agent_events_query(agent, TRUST_CHANGE, newest_first=True, limit=limit)))[::-1]

    # Proof

    def _recompute_sums(self, agent: str, moment: datetime) -> tuple[TrustSums, TrustSums]:
        """The sums of window and history, from the events themselves as they were known at a time."""
        first = window_start(moment.date())
        window, total = TrustSums(), TrustSums()
        for record in chain.from_iterable(
            self._journal.read(agent_events_query(agent, kind, as_of=moment)) for kind in (DISSENT, OVERRIDE)
        ):
            sums = event_sums(record)
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
            kept = self._read_aggregate(name).advance_to(now.date())
            window, total = self._recompute_sums(name, now)
            rounds = kept.rounds_before + sum(1 for _ in self._journal.read(agent_events_query(name, PARTICIPATION)))
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

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            books = TrustChanges(reader, self._clock.now())
            blank = replace(
                books.get_aggregate(agent), today=TrustSums(), window=TrustSums(), total=TrustSums(), days={}, rounds=0
            )
            for record in [
                *reader.read(agent_events_query(agent, DISSENT)),
                *reader.read(agent_events_query(agent, OVERRIDE)),
            ]:
                blank = blank.with_sums(event_sums(record), record.moment.date())
            blank = replace(
                blank, rounds=blank.rounds_before + len(reader.read(agent_events_query(agent, PARTICIPATION)))
            )
            books.set_aggregate(blank)
            books.record_trust_change(agent, "rebuilt", None)
            return books.collect_drafts()

        return self._journal.append_if(build_drafts)

    # Insight

    def metrics(self, agent: str | None = None) -> TrustMetrics:
        """Dissent impact, regret rate and escalation usefulness, of one agent or of all together."""
        self._require_owner()
        names = self.agents() if agent is None else [agent]
        today = self._clock.now().date()
        standings = [self._read_aggregate(name).advance_to(today) for name in names]
        window = TrustSums.sum_all(standing.window for standing in standings)
        return TrustMetrics(len(names), window, TrustSums.sum_all(standing.total for standing in standings))

    def diversity(self, agent: str) -> analytics.CitationDiversity:
        """How various an agent's citations are, and whether that has fallen while trust stayed high."""
        standing = self.standing(agent)
        return analytics.measure_diversity(standing, standing.score(self._clock.now()).trust)

    def influence(self) -> analytics.InfluenceMatrices:
        """Whose dissents changed whose output, and whose overrides were reverted by whom."""
        self._require_owner()
        on = {name: self._read_aggregate(name).on for name in self.agents()}
        persons = list(self._journal.read(Query(kinds=(PERSON,), scopes=(SYSTEM,))))
        return analytics.InfluenceMatrices(
            {dissenter: dict(pairs) for dissenter, pairs in on.items() if pairs},
            {record.id: dict(record.body["reverted_by"]) for record in persons if record.body["reverted_by"]},
        )

    def predict(self, topic: str, candidates: Iterable[str] | None = None) -> analytics.DissentForecast:
        """Who is likely to dissent effectively on a topic, best first, with the evidence and how often this was right."""
        self._require_owner()
        if not topic.strip():
            raise InvalidInput("A topic says something.")
        names = list(dict.fromkeys(candidates)) if candidates is not None else self.agents()
        vector = self._dissent_vectors.embed([topic])[0]
        with self._journal.snapshot() as look:
            voices = {
                name: analytics.JudgedDissents.from_records(*self._dissent_vectors.latest_dissents(look, name))
                for name in names
            }
        return analytics.forecast_dissents(topic, vector, voices)

    # Quarantine

    def quarantine(self, agent: str, *, since: datetime | None = None, reason: str = "") -> Outcome:
        """Hides what an agent wrote, and what was derived from it, at once; and keeps it from critical roles."""
        return self._journal.quarantine(agent, since=since, reason=reason)

    def release(self, agent: str) -> Outcome:
        """Brings back what a quarantine hid."""
        return self._journal.release(agent)


def event_sums(record: Record) -> TrustSums:
    """What an event counts, as it was decided when it came in."""
    body = record.body
    if record.kind == DISSENT:
        counted = body["counted"]
        return (
            TrustSums() if counted is None else TrustSums.from_dissent(impact=counted["impact"], depth=counted["depth"])
        )
    regret = bool(body["event"]["regret"])
    return TrustSums(overrides=1, regrets=int(regret), useful=int(body["useful"] and not regret))
