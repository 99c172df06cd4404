"""Supersession: which hits of a recall say otherwise than a later hit about the same subject.

Only the best hits are compared, by the rules of ``lukasa.text.statements`` and by links that name what a record supersedes. An
author who is trusted clearly less does not supersede another, and what an assistant says supersedes only with an express
word of change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from lukasa.freshness import last_affirmed_at
from lukasa.recall.query import ASSISTANT_ROLES
from lukasa.recall.ranking import RankedCandidate
from lukasa.record import Record
from lukasa.text.statements import Statement, parse_statements, statement_changes

MIN_COMPARED, MAX_COMPARED = 20, 50
"""How many of the best hits are compared with each other: as many as are asked for, within these limits."""
_MAX_TRUST_GAP = 0.2


@dataclass(frozen=True, slots=True)
class Supersession:
    """The other record of a supersession, and when it was last stated or confirmed."""

    record: Record
    at: datetime

    @classmethod
    def from_record(cls, record: Record) -> Supersession:
        return cls(record, last_affirmed_at(record))

    @property
    def id(self) -> str:
        return self.record.id


class _DatedHit(NamedTuple):
    """A hit with its statements; hits are sorted by time."""

    seq: int
    record: Record
    trust: float
    statements: tuple[Statement, ...]


def find_superseded(hits: Sequence[RankedCandidate], records: Mapping[int, Record], k: int) -> dict[int, int]:
    """Return for the position of each superseded record that of the newest record that supersedes it."""
    best = hits[: min(max(k, MIN_COMPARED), MAX_COMPARED)]
    compared = [hit for hit in best if hit.repeats is None]
    dated = [
        _DatedHit(hit.candidate.seq, record, hit.candidate.trust, parse_statements(hit.candidate.text, record.author))
        for hit in compared
        for record in [records[hit.candidate.seq]]
    ]
    dated.sort(key=lambda hit: (last_affirmed_at(hit.record), hit.seq))
    newest: dict[int, int] = {}
    for index in range(len(dated) - 2, -1, -1):  # from the newest to the oldest, so that chains end at their newest
        older = dated[index]
        superseding = [newer.seq for newer in dated[index + 1 :] if _supersedes(newer, older)]
        if superseding:
            newest[older.seq] = newest.get(superseding[-1], superseding[-1])
    return newest


def _supersedes(newer: _DatedHit, older: _DatedHit) -> bool:
    if newer.trust < older.trust - _MAX_TRUST_GAP:
        return False
    if any(link.relation == "supersedes" and link.to == older.record.key for link in newer.record.links):
        return True
    if any(link.relation == "superseded_by" and link.to == newer.record.key for link in older.record.links):
        return True
    is_assistant = newer.record.author.lower() in ASSISTANT_ROLES
    return any(
        statement_changes(before, after)
        for after in newer.statements
        if not is_assistant or after.says_now or after.replaces
        for before in older.statements
        if (after.changes or after.values or after.negated or before.negated)
        and not before.stems.isdisjoint(after.stems)
    )


def put_newest_first(
    hits: Sequence[RankedCandidate], records: Mapping[int, Record], newest_by_seq: Mapping[int, int]
) -> list[RankedCandidate]:
    """Reorder the hits of each supersession among their own places: the newest takes the best place, and so on."""
    ordered = list(hits)
    superseding = set(newest_by_seq.values())
    places: dict[int, list[int]] = {}
    for place, hit in enumerate(ordered):
        seq = hit.candidate.seq
        if seq in newest_by_seq or seq in superseding:
            places.setdefault(newest_by_seq.get(seq, seq), []).append(place)
    for group in places.values():
        members = sorted(
            (ordered[place] for place in group),
            key=lambda hit: (last_affirmed_at(records[hit.candidate.seq]), hit.candidate.seq),
            reverse=True,
        )
        for place, hit in zip(group, members, strict=True):
            ordered[place] = hit
    return ordered
