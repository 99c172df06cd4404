"""The trust service: dissents, overrides, the scores that follow from them, and the roles that scores decide."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, IdMaker, Time, to_iso, to_utc
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput
from lukasa.journal import CallerService, Journal
from lukasa.models.embedder import Embedder
from lukasa.storage.engine import Finding, Query
from lukasa.trust import analytics
from lukasa.trust.agent_memory import AgentMemory, import_agent, validate_agent_memory
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.dissents import DissentLog, DissentVectors, dissent_event
from lukasa.trust.overrides import (
    AUTO_CHECK_DELAY,
    Controversy,
    add_override,
    list_reverted,
    mark_artifacts,
    mark_round,
    revert_override,
)
from lukasa.trust.records import (
    ADVOCATE,
    AGENT,
    CONTESTED_LABEL,
    CONTROVERSY,
    DISSENT,
    ORIGIN,
    OVERRIDE,
    PARTICIPATION,
    PERSON,
    TRUST_CHANGE,
    TrustChanges,
    TrustLookup,
    TrustRecords,
    agent_draft,
    check_name,
    event_labels,
    hash_id,
    read_aggregate,
    recompute_aggregate,
    trust_draft,
    trust_key,
)
from lukasa.trust.roles import AdvocateAssignment, Eligibility, WeightedFeedback, draw_advocate
from lukasa.trust.rubric import Rubrics
from lukasa.trust.rules import TrustSettings
from lukasa.trust.score import TrustScore, TrustSums, compute_depth, weighted_mean

_OVERRIDES = Query(kinds=(OVERRIDE,), scopes=(SYSTEM,))


@check_arguments
class Trust(CallerService):
    """Records dissents and overrides, and computes from them how far each agent is trusted.

    Only the owner, a caller with full reach, may use it. An agent may file its own dissents, for the owner to judge, and
    read its own score.
    """

    rubric: Rubrics
    """The criteria by which agents are judged."""

    SERVICES: ClassVar[frozenset[str]] = frozenset({"rubric"})
    """The attributes that are services themselves."""

    def __init__(
        self, journal: Journal, clock: Clock, new_id: IdMaker, rng: random.Random, embedder: Callable[[], Embedder],
        lookup: TrustLookup, settings: TrustSettings | None = None,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._clock = clock
        self._rng = rng
        self._lookup = lookup
        self._records = TrustRecords(journal, clock, new_id)
        self._vectors = DissentVectors(embedder)
        self._settings = settings or TrustSettings()
        self._dissents = DissentLog(self._records, self._vectors, self._settings)
        self.rubric = Rubrics(self._records)

    @property
    def _owned(self) -> TrustRecords:
        return self._records.require_owner()

    def agent(self, name: str) -> AgentMemory:
        """Return the document's agent memory: a live view of everything recorded about one agent.

        Args:
            name: The name of the agent.

        Example:
            memory.trust.agent("critic").trust_score
        """
        if (refused := self._owned.check_names(agent=name)) is not None:
            raise InvalidInput(refused.reason)
        return AgentMemory(name, self, self._records, self._settings)

    def agents(self) -> list[str]:
        """List the names of all known agents.

        Example:
            memory.trust.agents()
        """
        return sorted(record.id for record in self._owned.journal.read(Query(kinds=(AGENT,), scopes=(SYSTEM,))))

    def register(self, agent: str, *, model: str | None = None, primary_role: str | None = None) -> Outcome:
        """Set an agent's model and role. Earlier ones stay in its history.

        Args:
            agent: The name of the agent.
            model: The model that the agent runs on.
            primary_role: The role that the agent has, such as ``critic``.

        Example:
            memory.trust.register("critic", model="local", primary_role="critic")
        """
        if (refused := self._owned.check_names(agent=agent)) is not None:
            return refused
        given = {name: value for name, value in (("model", model), ("primary_role", primary_role)) if value is not None}

        def plan(changes: TrustChanges) -> None:
            known = changes.reader.get(trust_key(AGENT, agent))
            changes.add_draft(agent_draft(agent, **(dict(known.body) if known is not None else {}) | given))

        return self._records.change(plan)

    def adopt(self, document: Mapping[str, Any]) -> Outcome:
        """Import an agent with its past from the document's JSON; refused when the agent is known already.

        Args:
            document: The JSON of the document.

        Example:
            memory.trust.adopt({"agent_name": "critic", "trust_score": 0.7})
        """
        records, memory = self._owned, validate_agent_memory(dict(document), "The agent's memory")
        vectors = self._vectors.encode_texts([event["dissent_text"] for event in memory["dissent_history"]])
        return records.change(lambda changes: import_agent(changes, memory, vectors, records.new_id, self._settings))

    def standing(self, agent: str) -> TrustAggregate:
        """Return an agent's running aggregate.

        Args:
            agent: The name of the agent.

        Example:
            memory.trust.standing("critic")
        """
        return self._owned.aggregate(agent)

    def score(self, agent: str, *, at: Time | None = None) -> TrustScore:
        """Return an agent's two scores with their parts; with ``at``, recompute them from the events known then.

        Args:
            agent: The name of the agent.
            at: An earlier time; default: now.

        Example:
            memory.trust.score("critic").adjusted_score
        """
        if at is not None or not agent or agent != self._journal.author:
            self._records.require_owner()
        if at is None:
            return self._lookup.score(agent)
        moment = to_utc(at)
        empty = TrustAggregate(agent, moment.date(), imported=self._records.aggregate(agent).imported)
        with self._journal.snapshot() as snapshot:
            return recompute_aggregate(snapshot, empty, moment).score(moment)

    def history(self, agent: str, *, limit: int | None = None) -> list[Record]:
        """List the changes of an agent's trust, oldest first, each with its reason and its inputs.

        Args:
            agent: The name of the agent.
            limit: How many to return at most.

        Example:
            memory.trust.history("critic", limit=10)
        """
        return self._owned.events(agent, TRUST_CHANGE, newest_first=True, limit=limit)[::-1]

    def check(self, agent: str | None = None) -> list[Finding]:
        """Compare the running sums with those recomputed from the events, and list the differences.

        Args:
            agent: Only this agent; default: all.

        Example:
            assert memory.trust.check() == []
        """
        records, findings = self._owned, []
        for name in self.agents() if agent is None else [agent]:
            aggregate = records.aggregate(name).advance_to(self._clock.now().date())
            with self._journal.snapshot() as snapshot:
                recomputed = recompute_aggregate(snapshot, aggregate)
            for what in ("window", "total", "rounds"):
                stored, expected = getattr(aggregate, what), getattr(recomputed, what)
                if stored != expected:
                    text = f"{what} is {stored}, the events say {expected}"
                    findings.append(Finding(f"trust of {name!r}", text, repairable=True))
        return findings

    def rebuild(self, agent: str) -> Outcome:
        """Recompute the sums of an agent's aggregate from its events, and write them.

        Args:
            agent: The name of the agent.

        Example:
            memory.trust.register("critic")
            memory.trust.rebuild("critic")
        """

        def plan(changes: TrustChanges) -> Refused | None:
            if read_aggregate(changes.reader, agent) is None and changes.reader.get(trust_key(AGENT, agent)) is None:
                return Refused("not_found", f"There is no agent {agent[:80]!r}.")
            changes.set_aggregate(recompute_aggregate(changes.reader, changes.get_aggregate(agent)))
            changes.record_trust_change(agent, "rebuilt", None)
            return None

        return self._owned.change(plan)

    def dissent_depth(
        self, text: str, rubric_citations: Sequence[str] = (), previous_dissents: Sequence[str] | None = None
    ) -> float:
        """Compute the depth of a dissent by the document's formula, with its novelty among earlier ones.

        Args:
            text: The dissent, in plain words.
            rubric_citations: The criteria of the rubric that the dissent cites.
            previous_dissents: Earlier dissents to compare with; default: those in the store.

        Example:
            memory.trust.dissent_depth("The figure is wrong, because it counts twice.", ["Accuracy"])
        """
        novelty = 0.0
        if previous_dissents:
            own, *previous = self._vectors.embed([text, *previous_dissents])
            novelty = 1 - max(float(own @ vector) for vector in previous)
        return compute_depth(text, rubric_citations, novelty)

    def log_dissent(
        self, agent: str, text: str, *, round_id: str = "", rubric_citations: Sequence[str] = (),
        impact: bool | None = None, feedback_incorporated: bool | None = None,
        context: Mapping[str, Any] | None = None, of: str = "", timestamp: Time | None = None,
        key: str | None = None,
    ) -> Outcome:  # fmt: skip
        """Write a dissent with its depth, and the trust that follows from it.

        ``impact`` says whether it changed the final output. With ``None`` the dissent does not count until ``judge``
        says so. ``of`` is the agent whose output it was about. A repeated ``key`` writes nothing.

        Args:
            agent: The name of the agent.
            text: The dissent, in plain words.
            round_id: The id of the round.
            rubric_citations: The criteria of the rubric that the dissent cites.
            impact: Whether it changed the final output; ``None`` if that is not known yet.
            feedback_incorporated: Whether the dissent was used; default: the same as ``impact``.
            context: Further fields of the context, as JSON.
            of: The agent whose output the dissent is about.
            timestamp: When it happened, if that is not now.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            memory.trust.log_dissent("critic", "The figure is wrong.", rubric_citations=["Accuracy"], impact=True)
        """
        if (refused := self._owned.check_names(agent=agent, round=round_id, of=of)) is not None:
            return refused
        if not text.strip():
            return Refused("empty_dissent", "The dissent has no text.")
        if any(check_name("criterion", name) is not None for name in rubric_citations):
            return Refused("bad_citation", "Citations are names of rubric criteria.")
        when = to_utc(timestamp) if timestamp is not None else self._clock.now()
        incorporated = bool(impact) if feedback_incorporated is None else feedback_incorporated
        event = dissent_event(text, when, round_id, rubric_citations, context, impact, incorporated)
        return self._dissents.log(agent, event, of=of, happened_at=when, key=key)

    def judge(self, id: str, *, impact: bool, feedback_incorporated: bool | None = None) -> Outcome:
        """Record whether a dissent changed the final output, if that was unknown when it was logged or filed.

        Args:
            id: The id of the dissent or the override.
            impact: Whether the dissent changed the final output.
            feedback_incorporated: Whether the dissent was used; default: the same as ``impact``.

        Example:
            kept = memory.trust.log_dissent("critic", "The figure is wrong.")
            memory.trust.judge(kept.unwrap_all()[0].id, impact=True)
        """
        return self._dissents.judge(id, impact, impact if feedback_incorporated is None else feedback_incorporated)

    def file_dissent(
        self, text: str, *, round_id: str = "", rubric_citations: Sequence[str] = (),
        context: Mapping[str, Any] | None = None, of: str = "",
    ) -> Outcome:  # fmt: skip
        """Write a dissent as the calling agent, for all to read. It counts for nothing until the owner judges it.

        Args:
            text: The dissent, in plain words.
            round_id: The id of the round.
            rubric_citations: The criteria of the rubric that the dissent cites.
            context: Further fields of the context, as JSON.
            of: The agent whose output the dissent is about.

        Example:
            memory.as_agent("critic").trust.file_dissent("The figure is wrong.", rubric_citations=["Accuracy"])
        """
        author = self._journal.author
        if not author:
            return Refused("no_author", "Only an agent files a dissent; the owner logs it: log_dissent.")
        if not text.strip():
            return Refused("empty_dissent", "The dissent has no text.")
        event = dissent_event(text, self._clock.now(), round_id, rubric_citations, context, None, False)
        body, labels = {"agent": author, "of": of, "event": event}, event_labels(DISSENT, author, round_id)
        return self._journal.append(Draft(DISSENT, text, body, origin=ORIGIN, labels=labels))

    def filed(self, *, limit: int = 1_000) -> list[Record]:
        """List the dissents that agents filed and that are not judged yet, oldest first.

        Args:
            limit: How many to return at most.

        Example:
            memory.trust.filed()
        """
        return self._dissents.list_filed(limit)

    def log_override(
        self, agent: str, agent_output: str, human_decision: str, *, round_id: str = "", by: str = "human",
        context: Mapping[str, Any] | None = None, artifact: Key | None = None, criteria: Sequence[str] = (),
        timestamp: Time | None = None, key: str | None = None,
    ) -> Outcome:  # fmt: skip
        """Write a person's decision against an agent's output, to be checked for a revert after a day.

        ``artifact`` is the record that holds the decision: putting it back to what it was reverts the override.
        ``criteria`` are those of the rubric that the decision was about. A repeated ``key`` writes nothing.

        Args:
            agent: The name of the agent.
            agent_output: What the agent said.
            human_decision: What the person decided instead.
            round_id: The id of the round.
            by: The person or rule that decides.
            context: Further fields of the context, as JSON.
            artifact: The record that holds the decision; putting it back to what it was reverts the override.
            criteria: The criteria of the rubric that the decision was about.
            timestamp: When it happened, if that is not now.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            memory.trust.log_override("writer", "Ship on Friday", "Ship on Monday", by="anna")
        """
        if (refused := self._owned.check_names(agent=agent, round=round_id, by=by)) is not None:
            return refused
        if by == agent or not by:
            return Refused("self_judged", "An agent cannot override its own output: say who decided with by=…")
        when = to_utc(timestamp) if timestamp is not None else self._clock.now()
        event = {
            "round_id": round_id, "timestamp": to_iso(when), "context": dict(context or {}),
            "agent_output": agent_output, "human_decision": human_decision, "regret": False,
            "auto_check_deadline": to_iso(when + AUTO_CHECK_DELAY), "reverted_by": None,
        }  # fmt: skip
        id = self._records.new_id()

        def plan(changes: TrustChanges) -> Refused | None:
            return add_override(changes, id, agent, by, event, artifact=artifact, criteria=criteria, happened_at=when)

        return self._records.change(plan, key=key)

    def check_reverts(
        self, round_id: str | None = None, final_output: str | None = None, *, agent: str = "", by: str = "system"
    ) -> Outcome:
        """Mark overrides that were reverted as regretted; the outcome holds the records that were written.

        With a round and its final output, as in the document: every override of the round whose decision differs from
        the output once its day has passed. Without: the versions of every override's artifact are compared. One that was
        put back to what it was is marked at once, with the author who did it; one that differs otherwise, once its day
        has passed.

        Args:
            round_id: The id of the round; default: compare the artifacts.
            final_output: What the round ended with.
            agent: Only overrides of this agent; default: all.
            by: The person or rule that decides.

        Example:
            memory.trust.check_reverts("round-1", "Ship on Monday")
        """
        records = self._owned
        if round_id is not None and final_output is not None:
            round_name, output = round_id, final_output
            return records.change(lambda changes: mark_round(changes, round_name, output, agent=agent, by=by))
        if round_id is not None or final_output is not None:
            raise InvalidInput("A round is checked against its final output: give both or neither.")
        overrides = [record for record in self._journal.read(_OVERRIDES) if record.body["artifact"] is not None]
        with self._journal.snapshot() as snapshot:  # the slow reads come before the write lock
            found = list_reverted(snapshot, overrides, self._clock.now(), agent=agent)
        return records.change(lambda changes: mark_artifacts(changes, found, agent=agent))

    def revert(self, id: str, *, by: str) -> Outcome:
        """Mark an override as regretted at once, because a person reverted it.

        Args:
            id: The id of the dissent or the override.
            by: The person or rule that decides.

        Example:
            kept = memory.trust.log_override("writer", "Ship on Friday", "Ship on Monday")
            memory.trust.revert(kept.unwrap_all()[0].id, by="anna")
        """
        if (refused := self._owned.check_names(by=by)) is not None:
            return refused
        if not by.strip():
            return Refused("no_person", "Only a named person may revert an override: say who with by=…")
        return self._records.change(lambda changes: revert_override(changes, id, by))

    def controversy(self, *, limit: int = 100) -> list[Controversy]:
        """List the rounds and artifacts with repeated overrides and reverts, the most disputed first.

        Args:
            limit: How many to return at most.

        Example:
            memory.trust.controversy(limit=10)
        """
        query = Query(kinds=(CONTROVERSY,), scopes=(SYSTEM,), labels=(CONTESTED_LABEL,))
        found = [Controversy(**record.body) for record in self._owned.journal.read(query)]
        return sorted(found, key=lambda subject: (-subject.reverts, -subject.overrides, subject.name))[:limit]

    def participate(self, agents: str | Iterable[str], round_id: str) -> Outcome:
        """Count a round for the agents that took part in it; the same round counts once per agent.

        Args:
            agents: One agent or several.
            round_id: The id of the round.

        Example:
            memory.trust.participate(["critic", "writer"], "round-1")
        """
        records = self._owned
        names = list(dict.fromkeys([agents] if isinstance(agents, str) else agents))
        for name in names:
            if (refused := records.check_names(agent=name, round=round_id)) is not None:
                return refused
        if not round_id:
            return Refused("bad_round", "The round has no name.")

        def plan(changes: TrustChanges) -> None:
            for name in names:
                id = hash_id(name, round_id)
                if changes.reader.get(trust_key(PARTICIPATION, id)) is None:
                    aggregate = changes.get_aggregate(name)
                    changes.set_aggregate(replace(aggregate, rounds=aggregate.rounds + 1))
                    body, labels = {"agent": name, "round_id": round_id}, event_labels(PARTICIPATION, name, round_id)
                    changes.add_draft(trust_draft(PARTICIPATION, body, id, labels=labels))

        return records.change(plan)

    def set_probation(self, agent: str, until: Time | None, *, reason: str = "", by: str = "owner") -> Outcome:
        """Keep an agent from critical roles until a time; ``None`` ends the probation.

        Args:
            agent: The name of the agent.
            until: Until when; ``None`` ends it.
            reason: Why, in a few words.
            by: The person or rule that decides.

        Example:
            memory.trust.set_probation("critic", datetime(2027, 1, 1, tzinfo=UTC), reason="three reverts")
        """
        if (refused := self._owned.check_names(agent=agent, by=by)) is not None:
            return refused
        moment = None if until is None else to_utc(until)
        why = "" if moment is None else f"{reason} (by {by})" if reason else f"set by {by}"

        def plan(changes: TrustChanges) -> None:
            aggregate = changes.get_aggregate(agent)
            changes.set_aggregate(replace(aggregate, probation_until=moment, probation_reason=why))

        return self._records.change(plan)

    def eligibility(self, agent: str) -> Eligibility:
        """Return whether an agent may take a critical role, and the reasons if not.

        Args:
            agent: The name of the agent.

        Example:
            memory.trust.eligibility("critic")
        """
        return self._list_eligibility([agent])[0]

    def _list_eligibility(self, agents: Sequence[str]) -> list[Eligibility]:
        records, now, quarantined = self._owned, self._clock.now(), self._journal.quarantined()
        found = []
        for agent in agents:
            aggregate = records.aggregate(agent, today=now.date())
            why = (*aggregate.ineligibility_reasons(now), *(("in quarantine",) if agent in quarantined else ()))
            found.append(Eligibility(agent, aggregate.score(now).trust, aggregate.rounds, why))
        return found

    def assign_devils_advocate(
        self, candidates: Iterable[str | AgentMemory], *, seed: int | str | None = None, round_id: str = ""
    ) -> AdvocateAssignment | Refused:
        """Draw the devil's advocate from the viable candidates, or from all when none is, weighted by trust.

        The same seed draws the same agent from the same candidates. The draw is recorded with its candidates.

        Args:
            candidates: The agents to choose from.
            seed: The same seed draws the same agent from the same candidates.
            round_id: The id of the round.

        Example:
            memory.trust.register("critic")
            memory.trust.assign_devils_advocate(["critic", "writer"], seed=7)
        """
        if (refused := self._owned.check_names(round=round_id)) is not None:
            return refused
        named = (agent.agent_name if isinstance(agent, AgentMemory) else agent for agent in candidates)
        names = list(dict.fromkeys(named))
        if not names:
            return Refused("no_candidates", "A devil's advocate is drawn from at least one candidate.")
        used_seed = self._rng.getrandbits(48) if seed is None else seed
        assignment = draw_advocate(self._list_eligibility(names), used_seed, round_id)
        labels = event_labels(ADVOCATE, assignment.chosen, round_id)
        outcome = self._journal.append(trust_draft(ADVOCATE, assignment.as_json(), labels=labels))
        if isinstance(outcome, Accepted):
            return assignment
        return outcome if isinstance(outcome, Refused) else Refused("conflict", outcome.reason)

    def weigh(self, feedback: Mapping[str, float]) -> WeightedFeedback:
        """Return the mean of agents' values, weighted by their trust.

        Args:
            feedback: The value that each agent gave.

        Example:
            memory.trust.weigh({"critic": 0.4, "writer": 0.9}).value
        """
        trust = {found.agent: found.trust for found in self._list_eligibility(list(feedback))}
        return WeightedFeedback(weighted_mean(feedback, trust), trust)

    def metrics(self, agent: str | None = None) -> analytics.TrustMetrics:
        """Compute dissent impact, regret rate and escalation usefulness of one agent, or of all together.

        Args:
            agent: One agent; default: all together.

        Example:
            memory.trust.metrics("critic")
        """
        records, today = self._owned, self._clock.now().date()
        names = self.agents() if agent is None else [agent]
        aggregates = [records.aggregate(name).advance_to(today) for name in names]
        return analytics.TrustMetrics(
            len(names),
            TrustSums.sum_all(aggregate.window for aggregate in aggregates),
            TrustSums.sum_all(aggregate.total for aggregate in aggregates),
        )

    def diversity(self, agent: str) -> analytics.CitationDiversity:
        """Measure the diversity of an agent's citations; flagged when it is low while trust is high.

        Args:
            agent: The name of the agent.

        Example:
            memory.trust.diversity("critic")
        """
        aggregate = self.standing(agent)
        return analytics.measure_diversity(aggregate, aggregate.score(self._clock.now()).trust)

    def influence(self) -> analytics.InfluenceMatrices:
        """Count how often each agent's dissents changed another's output, and how often it reverted another's overrides.

        Example:
            memory.trust.influence()
        """
        dissents = {name: dict(self._owned.aggregate(name).on) for name in self.agents()}
        persons = self._journal.read(Query(kinds=(PERSON,), scopes=(SYSTEM,)))
        return analytics.InfluenceMatrices(
            {dissenter: pairs for dissenter, pairs in dissents.items() if pairs},
            {record.id: dict(record.body["reverted_by"]) for record in persons if record.body["reverted_by"]},
        )

    def predict(self, topic: str, candidates: Iterable[str] | None = None) -> analytics.DissentForecast:
        """Rank agents by the expected impact of a dissent on a topic, with evidence and the method's hit rate.

        Args:
            topic: What the dissent would be about.
            candidates: The agents to choose from.

        Example:
            memory.trust.predict("database", ["critic", "writer"])
        """
        journal = self._owned.journal
        if not topic.strip():
            raise InvalidInput("The topic is empty.")
        names = list(dict.fromkeys(candidates)) if candidates is not None else self.agents()
        vector = self._vectors.embed([topic])[0]
        with journal.snapshot() as snapshot:
            dissents = {
                name: analytics.JudgedDissents.from_records(*self._vectors.latest_dissents(snapshot, name))
                for name in names
            }
        return analytics.forecast_dissents(topic, vector, dissents)

    def quarantine(self, agent: str, *, since: Time | None = None, reason: str = "") -> Outcome:
        """Hide what an agent wrote and what was derived from it, and keep the agent from critical roles.

        Args:
            agent: The name of the agent.
            since: Only what was written at this time or later.
            reason: Why, in a few words.

        Example:
            memory.trust.quarantine("critic", reason="wrong facts")
        """
        return self._journal.quarantine(agent, since=since, reason=reason)

    def release(self, agent: str) -> Outcome:
        """End a quarantine and show what it hid.

        Args:
            agent: The name of the agent.

        Example:
            memory.trust.quarantine("critic")
            memory.trust.release("critic")
        """
        return self._journal.release(agent)
