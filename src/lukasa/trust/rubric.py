"""The living rubric: criteria with weights that change when people keep deciding against the agents on the same ground.

Every rubric is one record; its versions are the record's. Three overrides about the same criterion within the window,
by persons whose overrides stand, from different rounds or artifacts, propose to weigh the criterion a quarter more. A
named person or a policy applies the proposal or rejects it; both stay on record with the overrides behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

from lukasa.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.errors import NotAllowed
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.record import DERIVED_FROM, Draft, Link, Record, draft_from
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Query, Reader
from lukasa.trust.records import ORIGIN, OVERRIDE, PERSON, RUBRIC, RUBRIC_PROPOSAL, person_trust, trust_key
from lukasa.trust.score import INITIAL_TRUST, WINDOW_DAYS

DEFAULT_RUBRIC = "default"
MIN_SUBJECTS = 3
WEIGHT_FACTOR = 1.25
HIGH_TRUST = INITIAL_TRUST
_MAX_OVERRIDES_READ = 500
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
    """How often people decided against the agents on a criterion, in as many days before a change as after it."""

    criterion: str
    days: int
    before: int
    after: int


class Rubrics:
    """Keeps rubrics, proposes changes to them and carries them out. The owner's, like all books of trust."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id

    def get(self, name: str = DEFAULT_RUBRIC, *, version: int | None = None) -> Rubric | None:
        """A rubric as it is, or as it was in one version."""
        self._require_owner()
        record = self._journal.get(trust_key(RUBRIC, name), version=version)
        return None if record is None else _parse_rubric(record)

    def versions(self, name: str = DEFAULT_RUBRIC) -> list[Rubric]:
        """Every version of a rubric, oldest first."""
        self._require_owner()
        return [
            _parse_rubric(record) for record in self._journal.history(trust_key(RUBRIC, name)) if not record.deleted
        ]

    def set(self, criteria: Mapping[str, float], *, by: str, name: str = DEFAULT_RUBRIC) -> Outcome:
        """Writes a rubric. Weights are scaled so that they add up to 1."""
        self._require_owner()
        if not by.strip():
            return Refused("no_person", "A rubric is changed by a named person or policy: say by=…")
        if not criteria or len(criteria) > _MAX_CRITERIA:
            return Refused("bad_rubric", f"A rubric has 1 to {_MAX_CRITERIA} criteria.")
        if any(not str(each).strip() or len(each) > 200 for each in criteria):
            return Refused("bad_rubric", "A criterion has a name of at most 200 characters.")
        if any(not isfinite(weight) or weight < 0 for weight in criteria.values()) or not sum(criteria.values()) > 0:
            return Refused("bad_rubric", "Weights are numbers, none negative, and not all 0.")
        return self._journal.append(_rubric_draft(name, criteria, by))

    # Proposals

    def propose(self, name: str = DEFAULT_RUBRIC) -> list[Record]:
        """Makes the proposals that recent overrides call for; answers with the new ones."""
        self._require_owner()

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(trust_key(RUBRIC, name))
            if record is None:
                return []
            now = self._clock.now()
            drafts = []
            for criterion in record.body["criteria"]:
                evidence = self._supporting_overrides(reader, criterion, now)
                if len({_override_subject(each) for each in evidence}) >= MIN_SUBJECTS:
                    drafts.append(self._proposal_draft(record, criterion, evidence))
            return drafts

        outcome = self._journal.append_if(build_drafts)
        return list(outcome.records) if outcome else []  # type: ignore[union-attr]  # only Accepted is true

    def _supporting_overrides(self, reader: Reader, criterion: str, now: datetime) -> list[Record]:
        """Overrides about a criterion that stand, by persons of high trust, since it was last proposed to change it."""
        since = now - timedelta(days=WINDOW_DAYS)
        last = reader.read(
            Query(
                kinds=(RUBRIC_PROPOSAL,),
                scopes=(SYSTEM,),
                labels=(f"criterion={criterion}",),
                newest_first=True,
                limit=1,
            )
        )
        used = {link.to.id for record in last for link in record.links}
        found = reader.read(
            Query(
                kinds=(OVERRIDE,), scopes=(SYSTEM,), labels=(f"criterion={criterion}",), since=since,
                newest_first=True, limit=_MAX_OVERRIDES_READ,
            )
        )  # fmt: skip
        after = max((record.recorded_at for record in last), default=None)
        persons = {each.body["by"]: person_trust(reader.get(trust_key(PERSON, each.body["by"]))) for each in found}
        return [
            each
            for each in found
            if not each.body["event"]["regret"]
            and each.id not in used
            and (after is None or each.created_at > after)
            and persons[each.body["by"]] >= HIGH_TRUST
        ]

    def _proposal_draft(self, rubric: Record, criterion: str, evidence: Sequence[Record]) -> Draft:
        weight = rubric.body["criteria"][criterion]
        body = {
            "rubric": rubric.id,
            "rubric_version": rubric.version,
            "criterion": criterion,
            "weight": weight,
            "proposed": weight * WEIGHT_FACTOR,
            "state": "open",
            "by": "",
            "reason": f"{len(evidence)} overrides about {criterion} since {to_iso(evidence[-1].moment)[:10]}",
            "decided_at": None,
        }
        links = tuple(Link(DERIVED_FROM, each.key) for each in evidence[:100])
        return Draft(
            RUBRIC_PROPOSAL, body=body, id=self._new_id(), scope=SYSTEM, origin=ORIGIN, links=links,
            labels=(f"criterion={criterion}",),
        )  # fmt: skip

    def proposals(self, *, state: str | None = None) -> list[Record]:
        """All proposals, oldest first; with ``state``, those that are open, applied or rejected."""
        self._require_owner()
        found = self._journal.read(Query(kinds=(RUBRIC_PROPOSAL,), scopes=(SYSTEM,)))
        return [record for record in found if state in (None, record.body["state"])]

    def apply(self, id: str, *, by: str) -> Outcome:
        """Carries out a proposal in the name of a person or a policy: a new version of the rubric."""
        return self._decide_proposal(id, "applied", by)

    def reject(self, id: str, *, by: str) -> Outcome:
        """Turns a proposal down in the name of a person or a policy."""
        return self._decide_proposal(id, "rejected", by)

    def _decide_proposal(self, id: str, state: str, by: str) -> Outcome:
        self._require_owner()
        if not by.strip():
            return Refused("no_person", "A proposal is decided by a named person or policy: say by=…")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(trust_key(RUBRIC_PROPOSAL, id))
            if record is None:
                return Refused("not_found", f"There is no proposal {id!r:.80}.")
            if record.body["state"] != "open":
                return Refused("already_decided", f"The proposal {id!r:.80} was {record.body['state']} already.")
            decided = {"state": state, "by": by, "decided_at": to_iso(self._clock.now())}
            drafts = [draft_from(record, body=dict(record.body) | decided, expected=record.version)]
            rubric = reader.get(trust_key(RUBRIC, record.body["rubric"]))
            if state == "applied" and rubric is not None:
                criteria = rubric.body["criteria"]
                changed = criteria | {
                    record.body["criterion"]: criteria.get(record.body["criterion"], 0.0) * WEIGHT_FACTOR
                }
                drafts.append(_rubric_draft(rubric.id, changed, by)._replace(links=(Link("applies", record.key),)))
            return drafts

        return self._journal.append_if(build_drafts)

    def effect(self, id: str) -> RubricEffect | None:
        """What an applied proposal came to: overrides about its criterion before and after, in equal spans of time."""
        self._require_owner()
        record = self._journal.get(trust_key(RUBRIC_PROPOSAL, id))
        if record is None or record.body["state"] != "applied":
            return None
        decided = from_iso(record.body["decided_at"])
        span = min(self._clock.now() - decided, timedelta(days=WINDOW_DAYS))
        labels = (f"criterion={record.body['criterion']}",)
        about = Query(kinds=(OVERRIDE,), scopes=(SYSTEM,), labels=labels, since=decided - span, until=decided + span)
        moments = [each.moment for each in self._journal.read(about)]
        after = sum(moment > decided for moment in moments)
        return RubricEffect(record.body["criterion"], span.days, len(moments) - after, after)

    def _require_owner(self) -> None:
        if not self._journal.reach.unlimited:
            raise NotAllowed("The rubric is the owner's.")


def _rubric_draft(name: str, criteria: Mapping[str, float], by: str) -> Draft:
    whole = sum(criteria.values())
    body: dict[str, Any] = {"criteria": {each: weight / whole for each, weight in criteria.items()}, "by": by}
    return Draft(RUBRIC, body=body, id=name, scope=SYSTEM, origin=ORIGIN)


def _parse_rubric(record: Record) -> Rubric:
    return Rubric(record.id, record.version, record.body["criteria"], record.body["by"])


def _override_subject(override: Record) -> str:
    """What an override was about: many about the same are one."""
    artifact = override.body["artifact"]
    return "/".join(artifact[:3]) if artifact else override.label("round") or override.id
