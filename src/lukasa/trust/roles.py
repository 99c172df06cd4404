"""Rounds and roles: who took part, who may take a critical role, who is drawn as devil's advocate."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lukasa.clock import to_utc
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.record import Draft
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Reader
from lukasa.trust.agent_view import AgentMemory
from lukasa.trust.base import TrustBase, event_labels
from lukasa.trust.records import ADVOCATE, ORIGIN, PARTICIPATION, TrustChanges, hash_id, trust_key
from lukasa.trust.results import AdvocateAssignment, AdvocateCandidate, Eligibility, WeightedFeedback
from lukasa.trust.score import weighted_mean


class TrustRoles(TrustBase):
    """Lets trust decide who does what."""

    def participate(self, agents: str | Iterable[str], round_id: str) -> Outcome:
        """Counts a round for one or more agents that took part in it; the same round counts once."""
        names = list(dict.fromkeys([agents] if isinstance(agents, str) else agents))
        for name in names:
            if (refused := self._check_owner_and_names(agent=name, round=round_id)) is not None:
                return refused
        if not round_id:
            return Refused("bad_round", "A round has a name.")
        self._require_owner()

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            books = TrustChanges(reader, self._clock.now())
            for name in names:
                id = hash_id(name, round_id)
                if reader.get(trust_key(PARTICIPATION, id)) is None:
                    standing = books.get_aggregate(name)
                    books.set_aggregate(replace(standing, rounds=standing.rounds + 1))
                    body, labels = {"agent": name, "round_id": round_id}, event_labels(PARTICIPATION, name, round_id)
                    books.add_draft(Draft(PARTICIPATION, body=body, id=id, scope=SYSTEM, origin=ORIGIN, labels=labels))
            return books.collect_drafts()

        return self._journal.append_if(build_drafts)

    def set_probation(self, agent: str, until: datetime | None, *, reason: str = "", by: str = "owner") -> Outcome:
        """Keeps an agent from critical roles until a time, or no longer."""
        if (refused := self._check_owner_and_names(agent=agent, by=by)) is not None:
            return refused

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            books = TrustChanges(reader, self._clock.now())
            why = f"{reason} (by {by})" if reason else f"set by {by}"
            moment = None if until is None else to_utc(until)
            standing = books.get_aggregate(agent)
            books.set_aggregate(replace(standing, probation_until=moment, probation_reason=why if moment else ""))
            return books.collect_drafts()

        return self._journal.append_if(build_drafts)

    def eligibility(self, agent: str) -> Eligibility:
        """Whether an agent may take a critical role, and if not, why."""
        self._require_owner()
        return self._list_eligibility([agent])[0]

    def _list_eligibility(self, agents: Sequence[str]) -> list[Eligibility]:
        now, hidden = self._clock.now(), self._journal.quarantined()
        found = []
        for agent in agents:
            standing = self._read_aggregate(agent, today=now.date())
            why = (*standing.ineligibility_reasons(now), *(("in quarantine",) if agent in hidden else ()))
            found.append(Eligibility(agent, standing.score(now).trust, standing.rounds, why))
        return found

    def assign_devils_advocate(
        self, candidates: Iterable[str | AgentMemory], *, seed: int | str | None = None, round_id: str = ""
    ) -> AdvocateAssignment | Refused:
        """Draws the devil's advocate: among the viable, or among all when none is, the more trusted the likelier.

        The same seed draws the same agent from the same candidates. What was drawn, from whom and why is recorded.
        """
        named = (each.agent_name if isinstance(each, AgentMemory) else each for each in candidates)
        names = list(dict.fromkeys(named))
        if (refused := self._check_owner_and_names(round=round_id)) is not None:
            return refused
        if not names:
            return Refused("no_candidates", "A devil's advocate is drawn from at least one candidate.")
        found = self._list_eligibility(names)
        viable = [each for each in found if each.viable] or found
        drawn_by = self._rng.getrandbits(48) if seed is None else seed
        weights = [each.trust for each in viable]
        if not any(weights):
            weights = [1.0] * len(viable)
        chosen = random.Random(drawn_by).choices(viable, weights=weights, k=1)[0]  # noqa: S311 - a fair draw, no secret
        told = tuple(AdvocateCandidate(each.agent, each.trust, each.rounds, each.why) for each in found)
        assignment = AdvocateAssignment(chosen.agent, drawn_by, not any(each.viable for each in found), told, round_id)
        outcome = self._journal.append(
            Draft(
                ADVOCATE,
                body=assignment.as_json(),
                scope=SYSTEM,
                origin=ORIGIN,
                labels=event_labels(ADVOCATE, chosen.agent, round_id),
            )
        )
        if isinstance(outcome, Accepted):
            return assignment
        return outcome if isinstance(outcome, Refused) else Refused("conflict", outcome.reason)

    def weigh(self, feedback: Mapping[str, float]) -> WeightedFeedback:
        """The mean of what agents say, each weighed by trust."""
        self._require_owner()
        trust = {each.agent: each.trust for each in self._list_eligibility(list(feedback))}
        return WeightedFeedback(weighted_mean(feedback, trust), trust)
