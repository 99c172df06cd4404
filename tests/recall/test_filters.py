"""The filters of recall: several authors and sessions, any or none of some labels, fields of the body."""

import pytest

import lukasa
from lukasa.core.record import Draft
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.recall import _parse_conditions

TICKETS = {
    "t1": ("ada", "s1", ("tag=red", "tag=urgent"), {"status": "open", "price": 10, "owner": {"team": "blue"}}),
    "t2": ("ben", "s2", ("tag=red",), {"status": "closed", "price": 20, "parts": ["bolt", "nut"]}),
    "t3": ("eve", "s3", ("tag=green",), {"status": "open", "price": 30.5, "done": True}),
}


@pytest.fixture(params=["memory:", "postgresql"])
def memory(request):
    location = request.getfixturevalue("url") if request.param == "postgresql" else request.param
    with lukasa.open(location, embedder="hash") as opened:
        opened.journal.append(
            [
                Draft(
                    "ticket",
                    f"The pump ticket {id}",
                    id=id,
                    author=author,
                    labels=(f"session={session}", *labels),
                    body=body,
                )
                for id, (author, session, labels, body) in TICKETS.items()
            ]
        )
        yield opened


@pytest.mark.requirement("RCL-9")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({"author": "ada"}, "t1"),
        ({"author": ["ada", "eve"]}, "t1 t3"),
        ({"conversation": ["s2", "s3"]}, "t2 t3"),
        ({"conversation": "s2"}, "t2"),
        ({"labels": ["tag=red", "tag=urgent"]}, "t1"),
        ({"any_labels": ["tag=urgent", "tag=green"]}, "t1 t3"),
        ({"exclude": ["tag=red"]}, "t3"),
        ({"exclude": ["session=s1", "session=s3"]}, "t2"),
        ({"where": {"status": "open"}}, "t1 t3"),
        ({"where": {"status": {"ne": "open"}}}, "t2"),
        ({"where": {"price": {"gte": 10, "lt": 30}}}, "t1 t2"),
        ({"where": {"price": {"gt": 20}}}, "t3"),
        ({"where": {"price": {"gt": "20"}}}, ""),
        ({"where": {"owner.team": "blue"}}, "t1"),
        ({"where": {"parts": "nut"}}, "t2"),
        ({"where": {"done": True}}, "t3"),
        ({"where": {"done": 1}}, ""),
        ({"where": {"nothing": 1}}, ""),
        ({"author": ["ada", "ben"], "where": {"status": "open"}}, "t1"),
    ],
)
def test_filters_keep_the_records_that_meet_them(memory, filters, ids):
    assert sorted(record.id for record in memory.recall("pump ticket", **filters).records) == ids.split()


@pytest.mark.requirement("RCL-9")
@pytest.mark.parametrize("name", ["kinds", "scopes", "labels", "any_labels", "exclude"])
def test_a_string_for_a_list_is_refused(memory, name):
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        memory.recall("pump", **{name: "ticket"})


@pytest.mark.requirement("RCL-9")
def test_an_unknown_comparison_is_refused(memory):
    with pytest.raises(InvalidInput, match="no comparison"):
        memory.recall("pump", where={"price": {"above": 3}})


@pytest.mark.requirement("RCL-9")
def test_a_filter_that_accepts_few_records_looks_at_more_matches():
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.journal.append(
            [Draft("note", f"The pump is green, number {n}", body={"rare": n == 1_500}) for n in range(3_000)]
        )
        assert len(memory.recall("The pump is green", where={"rare": True}).hits) == 1


@pytest.mark.requirement("RCL-9")
def test_conditions_on_the_command_line():
    assert _parse_conditions(["price>=10", "price<20", "status=open", "done=true", "name!=a=b"]) == {
        "price": {"gte": 10, "lt": 20},
        "status": {"eq": "open"},
        "done": {"eq": True},
        "name": {"ne": "a=b"},
    }
    with pytest.raises(InvalidInput):
        _parse_conditions(["price"])
