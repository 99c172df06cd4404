"""One bad body harms nothing but itself: the gate refuses it, and where it is in the log no read stumbles over it."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

import lukasa
from lukasa import Draft
from lukasa.core.body_shape import DAY, TIME, BodyShape, FixedList, MapOf, NumberBetween, OneOf
from lukasa.core.outcome import Refused
from lukasa.core.record import Record, draft_from
from lukasa.journal.gate import Gate, KindSpec
from lukasa.memory import declared_kinds
from lukasa.storage.engine import RESERVED_KINDS, Query
from lukasa.testing import FrozenClock
from support.narrow import refusal_of
from support.store_reads import GOLDEN_LOG, NOW, list_reads, write_unchecked

OTHER_BODIES = {
    "directive": {"set_by": "ada"},
    "proposal": {
        "state": "open",
        "by": "ada",
        "changes": [{"kind": "note", "scope": "shared", "text": "x"}],
        "why": "not ada's",
    },
    "injection": {"event": "session-start", "session": "s1", "notes": [["shared", "lesson", "x"]], "tokens": 5},
    "lesson": {"about": "remedy", "sessions": ["s1"], "files": ["a.py"], "command": "make", "failure": "command make"},
    "job_result": {"name": "lukasa.export", "result": {"file": "x"}},
    "network_cursor": {"agent_id": "nobody", "last": "x", "upto": 1, "seen": 1, "open": ["x"]},
    "session_archive": {"section": "signal_history", "items": [1], "at": "2025-03-10T09:00:00Z", "why": "old"},
    "session_incident": {"damaged": [{"number": 1}], "lost_changes": [1], "why": "lost", "at": "2025-03-10T09:00:00Z"},
    "skill_sync": {"synced": {"api": "digest"}},
    "verdicts": {"refused": {"noise": 2}},
}
"""Bodies of kinds that the golden log lacks."""
WRONG_VALUES: list[Any] = [
    None,
    5,
    -1,
    1e300,
    True,
    "",
    "x",
    [],
    ["x"],
    [5],
    [[]],
    [None],
    {},
    {"a": 5},
    {"x": {}},
    {"x": None},
]


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize(
    ("type_", "value", "fault"),
    [
        (str, 5, "field must be text"),
        (int, True, "field must be a whole number"),
        (float, "1", "field must be a number"),
        (bool, 1, "field must be true or false"),
        (dict, [], "field must be an object"),
        (list, {}, "field must be a list"),
        ([str], ["a", 5], "field[1] must be text"),
        ([int, 2], [1, 2, 3], "field must have at most 2 entries"),
        ({"goal": str}, {"goal": 5}, "field.goal must be text"),
        ((str, None), 5, "field must be text or null"),
        (MapOf(int), {"a": "b"}, "field.a must be a whole number"),
        (MapOf(int, DAY), {"a": 1}, "field has the name 'a', which must be a day such as 2026-02-03"),
        (FixedList(str, int), ["a"], "field must be a list of 2 entries"),
        (FixedList(str, int), ["a", "b"], "field[1] must be a whole number"),
        (NumberBetween(0, 1), 2, "field must be a number from 0 to 1"),
        (OneOf(("a", "b")), "c", "field must be one of a, b"),
        (TIME, "noon", "field must be a time such as 2026-02-03T12:00:00Z"),
        (BodyShape({}, "name"), {}, "field.name is missing"),
    ],
)
def test_the_gate_refuses_a_body_that_its_kind_does_not_declare(type_, value, fault):
    gate = Gate({"thing": KindSpec(body=BodyShape({"field": type_}))})
    refused = gate.validate(Draft("thing", body={"field": value}), "id")
    assert isinstance(refused, Refused)
    assert (refused.code, fault in refused.reason) == ("bad_body", True), refused.reason


@pytest.mark.requirement("LOG-5")
def test_a_missing_field_is_refused_and_others_are_left_alone():
    gate = Gate({"thing": KindSpec(body=BodyShape({"name": str}, "name"))})
    assert "name is missing" in refusal_of(gate.validate(Draft("thing"), "id")).reason
    assert not isinstance(gate.validate(Draft("thing", body={"name": "a", "other": [1]}), "id"), Refused)
    assert not isinstance(gate.validate(Draft("thing", deleted=True), "id"), Refused)


@pytest.mark.requirement("LOG-5")
def test_a_bad_episode_of_another_program_breaks_no_briefing(tmp_path):
    """The body was accepted by an earlier version, and broke every briefing, consolidation and CONTINUITY.md."""
    with lukasa.open(tmp_path / "store.db", embedder="hash") as memory:
        refused = memory.journal.write("episode", "Fix the build", {"context": 5})
        assert (refused.code, "context must be an object" in refused.reason) == ("bad_body", True)
        memory.episodes.record("Fix the build of the todo service")
        write_unchecked(memory, Draft("episode", "Fix the build of the service", {"context": 5}, id="bad"))
        assert memory.before_task("Fix the build").task["context"]["relevant_patterns"]
        memory.consolidate(dry_run=True)
        memory.continuity.update(tmp_path / "CONTINUITY.md")
        assert [episode.goal for episode in memory.episodes.list()] == ["Fix the build of the todo service"]
        assert memory.journal.list_damaged() == ["shared/episode/bad version 1 (position 2)"]
        assert "1 damaged" in memory.recall("build of the service").note
        assert [record.id for record in memory.journal.read(Query(kinds=("episode",)))][-1] == "bad"  # the log is whole


def list_paths(body, depth=2):
    """Yield the places of a body: its fields, and those of the objects and first entries in them."""
    for name, value in body.items():
        yield (name,)
        inner = value[0] if isinstance(value, list) and value else value
        if depth > 1 and isinstance(inner, dict):
            prefix = (name,) if inner is value else (name, 0)
            yield from (prefix + path for path in list_paths(inner, depth - 1))
        elif inner is not value:
            yield (name, 0)


def list_bad_bodies(body):
    """Yield copies of a body with each place removed, and with each wrong value in its place."""
    for path in list_paths(body):
        for value in [..., *WRONG_VALUES]:
            changed = holder = copy.deepcopy(dict(body))
            for part in path[:-1]:
                holder = holder[part]
            if value is ...:
                holder.pop(path[-1]) if isinstance(holder, dict) else holder.clear()
            else:
                holder[path[-1]] = value
            yield changed


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request, tmp_path):
    """Open a store on either engine that holds the golden log, with at least one record of every kind."""
    place = tmp_path / "store.db" if request.param == "sqlite" else request.getfixturevalue("url")
    with lukasa.open(place, embedder="hash", clock=FrozenClock(NOW)) as memory, GOLDEN_LOG.open("rb") as log:
        assert not memory.import_(log).refused
        yield memory


@pytest.mark.requirement("LOG-5")
def test_no_read_stumbles_over_a_bad_body_of_any_kind(filled, tmp_path):
    """Each kind gets wrong values in every place: in new records, and as the newest version of its richest record."""
    rng, gate, kinds = random.Random(17), Gate(declared_kinds()), declared_kinds()
    events = next(record for record in filled.journal.read(Query(kinds=("session_event",))))
    for kind, body in OTHER_BODIES.items():
        assert filled.valid_journal.write(kind, "", body, labels=events.labels if kind.startswith("session") else ())
    samples: dict[str, Record] = {}
    for record in filled.journal.read():
        if record.body and len(str(record.body)) > len(
            str(samples[record.kind].body if record.kind in samples else "")
        ):
            samples[record.kind] = record
    assert {kind for kind, spec in kinds.items() if spec.body is not None} == set(samples) & set(kinds)
    reads = list_reads(filled, tmp_path)
    for call in reads.values():
        call()
    for round_number in range(2):
        drafts, refused = list[Draft](), 0
        for kind, record in sorted(samples.items()):
            if kind in RESERVED_KINDS:
                continue
            bodies = list(list_bad_bodies(record.body))
            for body in rng.sample(bodies, min(6, len(bodies))):
                draft = draft_from(record, body=body)
                refused += isinstance(gate.validate(draft), Refused)
                drafts += [draft, draft._replace(id=f"bad-{round_number}-{len(drafts)}")]
        write_unchecked(filled, *drafts)
        assert refused > 20
        for name, call in reads.items():
            try:
                call()
            except Exception as error:
                error.add_note(f"{name} stumbled")
                raise
    assert filled.journal.damaged
    assert filled.journal.list_damaged()
