"""The living rubric: criteria with weights that change when people keep overriding agents on the same criterion.

A rubric is one record; its versions are the record's. Three overrides about the same criterion within the window, from
different rounds or artifacts and by persons whose overrides mostly stand, propose a quarter more weight for it. A named
person or policy applies or rejects the proposal. Both decisions are recorded, with links to the overrides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Link, Record, draft_from
from lukasa.core.scope import SYSTEM
from lukasa.storage.engine import Query
from lukasa.trust.records import (
    OVERRIDE,
    PERSON,
    RUBRIC,
    RUBRIC_PROPOSAL,
    TrustChanges,
    TrustRecords,
    trust_draft,
    trust_key,
)
from lukasa.trust.score import INITIAL_TRUST, WINDOW_DAYS

DEFAULT_RUBRIC = "default"
MIN_SUBJECTS = 3
WEIGHT_FACTOR = 1.25
HIGH_TRUST = INITIAL_TRUST
_MAX_OVERRIDES_READ = 500
_MAX_EVIDENCE = 100
_MAX_CRITERIA = 200


@dataclass(frozen=True, slots=True)
class Rubric:
    """Criteria and their weights, which add up to 1."""

    name: str
    version: int
    criteria: Mapping[str, float]
    changed_by: str = ""


@dataclass(frozen=True, slots=True)
class RubricEffect:
    """The number of overrides about a criterion in equally many days before and after a change."""

    criterion: str
    days: int
    before: int
    after: int


@check_arguments
class Rubrics:
    """The rubrics of a store and the proposals to change them. Only the owner may use it."""

    def __init__(self, records: TrustRecords) -> None:
        self._records = records

    def __repr__(self) -> str:
        return f"<Rubrics of {self._records.journal}>"

    def get(self, name: str = DEFAULT_RUBRIC, *, version: int | None = None) -> Rubric | None:
        """Return a rubric, or one version of it; None when there is none.

        Args:
            name: The name of the rubric.
            version: The number of a version; default: the newest.

        Example:
            memory.trust.rubric.set({"Accuracy": 2, "Style": 1}, by="anna")
            memory.trust.rubric.get()
        """
        record = self._records.require_owner().journal.get(trust_key(RUBRIC, name), version=version)
        return None if record is None else _parse_rubric(record)

    def versions(self, name: str = DEFAULT_RUBRIC) -> list[Rubric]:
        """List the versions of a rubric, oldest first.

        Args:
            name: The name of the rubric.

        Example:
            memory.trust.rubric.set({"Accuracy": 2, "Style": 1}, by="anna")
            memory.trust.rubric.versions()
        """
        history = self._records.require_owner().journal.history(trust_key(RUBRIC, name))
        return [_parse_rubric(record) for record in history if not record.deleted]

    def set(self, criteria: Mapping[str, float], *, by: str, name: str = DEFAULT_RUBRIC) -> Outcome:
        """Write a rubric. Weights are scaled so that they add up to 1.

        Args:
            criteria: The weight of each criterion.
            by: The person or rule that decides.
            name: The name of the rubric.

        Example:
            memory.trust.rubric.set({"Accuracy": 2, "Style": 1}, by="anna")
        """
        records = self._records.require_owner()
        if not by.strip():
            return Refused("no_person", "Only a named person or policy may change a rubric: say who with by=…")
        if not criteria or len(criteria) > _MAX_CRITERIA:
            return Refused("bad_rubric", f"A rubric has 1 to {_MAX_CRITERIA} criteria.")
        if any(not str(criterion).strip() or len(criterion) > 200 for criterion in criteria):
            return Refused("bad_rubric", "A criterion has a name of at most 200 characters.")
        if any(not isfinite(weight) or weight < 0 for weight in criteria.values()) or not sum(criteria.values()) > 0:
            return Refused("bad_rubric", "Weights are numbers, none negative, and not all 0.")
        return records.journal.append(_rubric_draft(name, criteria, by))

    def propose(self, name: str = DEFAULT_RUBRIC) -> list[Record]:
        """Write the proposals that recent overrides call for, and return the new ones.

        Args:
            name: The name of the rubric.

        Example:
            memory.trust.rubric.propose()
        """

        def plan(changes: TrustChanges) -> None:
            rubric = changes.reader.get(trust_key(RUBRIC, name))
            if rubric is None:
                return
            for criterion, weight in rubric.body["criteria"].items():
                overrides = _supporting_overrides(changes, criterion)
                subjects = set()  # several overrides about one artifact or round count once
                for override in overrides:
                    artifact = override.body["artifact"]
                    subjects.add("/".join(artifact[:3]) if artifact else override.label("round") or override.id)
                if len(subjects) < MIN_SUBJECTS:
                    continue
                since = to_iso(overrides[-1].moment)[:10]
                reason = f"{len(overrides)} overrides about {criterion} since {since}"
                body = {
                    "rubric": rubric.id, "rubric_version": rubric.version, "criterion": criterion, "weight": weight,
                    "proposed": weight * WEIGHT_FACTOR, "state": "open", "by": "", "reason": reason, "decided_at": None,
                }  # fmt: skip
                links = tuple(Link(DERIVED_FROM, override.key) for override in overrides[:_MAX_EVIDENCE])
                labels = (f"criterion={criterion}",)
                changes.add_draft(
                    trust_draft(RUBRIC_PROPOSAL, body, self._records.new_id(), labels=labels, links=links)
                )

        outcome = self._records.require_owner().change(plan)
        return list(outcome.records) if isinstance(outcome, Accepted) else []

    def proposals(self, *, state: str | None = None) -> list[Record]:
        """List the proposals, oldest first; with ``state`` only those that are open, applied or rejected.

        Args:
            state: ``open``, ``applied`` or ``rejected``; default: all.

        Example:
            memory.trust.rubric.proposals(state="open")
        """
        found = self._records.require_owner().journal.read(Query(kinds=(RUBRIC_PROPOSAL,), scopes=(SYSTEM,)))
        return [record for record in found if state in (None, record.body["state"])]

    def apply(self, id: str, *, by: str) -> Outcome:
        """Apply a proposal in the name of a person or policy; writes a new version of the rubric.

        Args:
            id: The id of the proposal.
            by: The person or rule that decides.

        Example:
            rubric = memory.trust.rubric
            rubric.set({"Accuracy": 2, "Style": 1}, by="anna")
            for proposal in rubric.propose():
                rubric.apply(proposal.id, by="anna")
        """
        return self._decide_proposal(id, "applied", by)

    def reject(self, id: str, *, by: str) -> Outcome:
        """Reject a proposal in the name of a person or policy.

        Args:
            id: The id of the proposal.
            by: The person or rule that decides.

        Example:
            for proposal in memory.trust.rubric.propose():
                memory.trust.rubric.reject(proposal.id, by="anna")
        """
        return self._decide_proposal(id, "rejected", by)

    def _decide_proposal(self, id: str, state: str, by: str) -> Outcome:
        records = self._records.require_owner()
        if not by.strip():
            return Refused("no_person", "Only a named person or policy may decide a proposal: say who with by=…")

        def plan(changes: TrustChanges) -> Refused | None:
            record = changes.reader.get(trust_key(RUBRIC_PROPOSAL, id))
            if record is None:
                return Refused("not_found", f"There is no proposal {id!r:.80}.")
            if record.body["state"] != "open":
                return Refused("already_decided", f"The proposal {id!r:.80} was {record.body['state']} already.")
            decision = {"state": state, "by": by, "decided_at": to_iso(changes.now)}
            changes.add_draft(draft_from(record, body=dict(record.body) | decision, expected=record.version))
            rubric = changes.reader.get(trust_key(RUBRIC, record.body["rubric"]))
            if state == "applied" and rubric is not None:
                criteria, criterion = rubric.body["criteria"], record.body["criterion"]
                draft = _rubric_draft(
                    rubric.id, criteria | {criterion: criteria.get(criterion, 0.0) * WEIGHT_FACTOR}, by
                )
                changes.add_draft(draft._replace(links=(Link("applies", record.key),)))
            return None

        return records.change(plan)

    def effect(self, id: str) -> RubricEffect | None:
        """Count the overrides about an applied proposal's criterion before and after; None if it was not applied.

        Args:
            id: The id of the proposal.

        Example:
            memory.trust.rubric.effect("proposal-1")
        """
        record = self._records.require_owner().journal.get(trust_key(RUBRIC_PROPOSAL, id))
        if record is None or record.body["state"] != "applied" or record.body["decided_at"] is None:
            return None
        decided = from_iso(record.body["decided_at"])
        span = min(self._records.clock.now() - decided, timedelta(days=WINDOW_DAYS))
        labels = (f"criterion={record.body['criterion']}",)
        query = Query(kinds=(OVERRIDE,), scopes=(SYSTEM,), labels=labels, since=decided - span, until=decided + span)
        moments = [override.moment for override in self._records.journal.read(query)]
        after = sum(moment > decided for moment in moments)
        return RubricEffect(record.body["criterion"], span.days, len(moments) - after, after)


def _supporting_overrides(changes: TrustChanges, criterion: str) -> list[Record]:
    """List the overrides about a criterion since its last proposal, newest first.

    Only overrides that stand count, and only those by persons of high trust.
    """
    reader, labels = changes.reader, (f"criterion={criterion}",)
    last = reader.read(Query(kinds=(RUBRIC_PROPOSAL,), scopes=(SYSTEM,), labels=labels, newest_first=True, limit=1))
    used = {link.to.id for record in last for link in record.links}
    after = max((record.recorded_at for record in last), default=None)
    found = reader.read(
        Query(
            kinds=(OVERRIDE,), scopes=(SYSTEM,), labels=labels, since=changes.now - timedelta(days=WINDOW_DAYS),
            newest_first=True, limit=_MAX_OVERRIDES_READ,
        )
    )  # fmt: skip
    trust: dict[str, float] = {}  # of persons: the share of their overrides that stand, starting from 3 of 5
    for person in {override.body["by"] for override in found}:
        tally = reader.get(trust_key(PERSON, person))
        made, reverted = (0, 0) if tally is None else (tally.body["overrides"], tally.body["reverted"])
        trust[person] = (made - reverted + 3) / (made + 5)
    return [
        override
        for override in found
        if not override.body["event"]["regret"]
        and override.id not in used
        and (after is None or override.created_at > after)
        and trust[override.body["by"]] >= HIGH_TRUST
    ]


def _rubric_draft(name: str, criteria: Mapping[str, float], by: str) -> Draft:
    total = sum(criteria.values())
    body: dict[str, Any] = {"criteria": {criterion: weight / total for criterion, weight in criteria.items()}, "by": by}
    return trust_draft(RUBRIC, body, name)


def _parse_rubric(record: Record) -> Rubric:
    return Rubric(record.id, record.version, record.body["criteria"], record.body["by"])
