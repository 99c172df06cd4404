"""The state of a session: checks of known fields, unknown fields, upgrades, and changes in JSON Patch."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lukasa.errors import InvalidInput, StoreNewer
from lukasa.sessions import state as states
from lukasa.sessions.patch import apply_changes, build_set_change, format_pointer, parse_pointer, resolve_and_apply
from lukasa.sessions.state import SECTIONS, fill_missing_sections, find_state_fault, fresh_state, upgrade_state
from support.narrow import present

pytestmark = pytest.mark.requirement("CHK-1")
NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc/~0-", max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def test_a_fresh_state_has_eight_sections_and_no_fault():
    state = fresh_state("s", "a", NOON)
    assert list(state) == list(SECTIONS)
    assert len(SECTIONS) == 8
    assert find_state_fault(state) is None


def test_the_documents_example_state_has_no_fault(make):
    assert find_state_fault(make.state()) is None


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_section_is_named(make, section):
    state = make.state()
    del state[section]
    assert section in str(find_state_fault(state))


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("/active_predictions/0/probability", 1.5, "active_predictions/0/probability must be a number from 0 to 1"),
        ("/active_predictions/0/probability", True, "must be a number"),
        ("/active_predictions/0/probability", "0.5", "must be a number"),
        ("/active_predictions/0/status", "won", "must be one of active, resolved, expired, recovering"),
        ("/active_predictions/0/confidence_interval", [0.7, 0.6], "must be [lower, upper]"),
        ("/active_predictions/0/confidence_interval", [0.7], "must be [lower, upper]"),
        ("/active_predictions/0/created_at", "yesterday", "must be a time"),
        ("/active_predictions/0/num_updates", -1, "must be a whole number"),
        ("/active_predictions/0/prediction_id", "", "must be text of 1 to 200"),
        ("/active_predictions/0/prediction_id", "pred-1", "twice"),
        ("/active_predictions/0", 7, "must be an object"),
        ("/active_predictions", {}, "must be a list"),
        ("/signal_history/0/broadcast", 1, "must be true or false"),
        ("/reasoning_cache/market-pred-0/base_rate", 2, "must be a number from 0 to 1"),
        ("/reasoning_cache/market-pred-0/key_factors", [{"factor": 1}], "must be text"),
        ("/performance_metrics/by_confidence_bucket", {"high": {"count": -1}}, "high"),
        ("/network_state/api_usage", {"requests_this_hour": "many"}, "requests_this_hour"),
        ("/network_state/peer_agents", [{"trust_score": 1}], "agent_id"),
        ("/configuration/checkpoint_interval_minutes", 0, "must be above 0"),
        ("/metadata/version", "one", "must be a version"),
        ("/learning_state/performance_trend", "sideways", "must be one of"),
        ("/checkpoint", {}, "that name is taken"),
    ],
)
def test_a_bad_field_is_named_by_a_full_and_by_a_partial_check(make, path, value, fault):
    before = make.state()
    state, _, touched = resolve_and_apply(before, [build_set_change(before, path, value)])
    assert fault in str(find_state_fault(state))
    assert fault in str(find_state_fault(state, touched))


@pytest.mark.requirement("CHK-4")
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
def test_a_partial_check_of_any_changes_finds_a_fault_where_a_full_check_does(make, data):
    before = state = make.state()
    pointers = st.sampled_from([format_pointer(path) for path in paths_in(before)] + ["/active_predictions/-"])
    values = st.sampled_from([0.5, 7, "pred-1", "new", "", None, True, [], {}, *before["active_predictions"]])
    changes: list[dict[str, Any]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        change = {"op": data.draw(st.sampled_from(["add", "replace", "remove", "move", "copy"]))}
        change |= {"path": data.draw(pointers), "from": data.draw(pointers), "value": data.draw(values)}
        try:
            state = apply_changes(state, [change])
        except InvalidInput:
            continue
        changes.append(change)
    after, _, touched = resolve_and_apply(before, changes)
    assert after == state
    assert (find_state_fault(after, touched) is None) == (find_state_fault(after) is None), changes


def test_changes_that_move_items_of_a_list_are_checked_where_the_items_are_then(make):
    before = make.state()
    first, second = before["active_predictions"][1], {**before["active_predictions"][0], "prediction_id": "new"}
    changes = [{"op": "add", "path": "/active_predictions/0", "value": value} for value in (first, second)]
    state, _, touched = resolve_and_apply(before, changes)
    assert "twice" in str(find_state_fault(state, touched))


def test_items_of_a_list_may_be_named_by_their_ids(make):
    state = make.state()
    changed = apply_changes(state, [build_set_change(state, "/active_predictions/pred-2/probability", 0.9)])
    assert [item["probability"] for item in changed["active_predictions"]] == [0.6, 0.6, 0.9]
    assert (
        build_set_change(state, "configuration.confidence_threshold", 1)["path"]
        == "/configuration/confidence_threshold"
    )


@given(st.dictionaries(st.sampled_from([*SECTIONS, "mine", "x/y~"]), JSON, max_size=3), JSON)
def test_any_json_is_checked_and_unknown_fields_are_kept(parts, more):
    whole = fill_missing_sections({**parts, "unknown": more}, "s", "a", NOON)
    assert find_state_fault(whole) is None or present(find_state_fault(whole)).startswith("The state")
    assert whole["unknown"] == more
    for name, value in parts.items():
        assert whole[name] == value or name == "metadata"


def test_a_state_of_an_older_schema_is_upgraded_and_a_newer_one_refused(make, monkeypatch):
    monkeypatch.setattr(states, "SCHEMA", 3)
    monkeypatch.setattr(
        states, "UPGRADES", {1: lambda state: {**state, "two": 2}, 2: lambda state: {**state, "three": 3}}
    )
    assert {"two", "three"} <= set(upgrade_state(make.state(), 1))
    with pytest.raises(StoreNewer, match="schema 4"):
        upgrade_state(make.state(), 4)


# Changes


def paths_in(value, path=()):
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from paths_in(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths_in(item, (*path, str(index)))


def apply_simply(state, change):
    """Apply a change to a copy, as simply as possible."""
    root = [deepcopy(state)]
    steps = [step.replace("~1", "/").replace("~0", "~") for step in change["path"].split("/")[1:]]
    parent, last = root, 0
    for step in steps:
        parent = parent[last]
        last = int(step) if isinstance(parent, list) else step
    if change["op"] == "remove":
        del parent[last]
    elif change["op"] == "add" and isinstance(parent, list) and parent is not root:
        parent.insert(last, deepcopy(change["value"]))
    else:
        parent[last] = deepcopy(change["value"])
    return root[0]


@given(st.lists(st.text("ab/~01", max_size=4)))
def test_a_pointer_names_any_steps(steps):
    escaped = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    assert format_pointer(steps) == escaped
    assert parse_pointer(escaped) == steps


@given(st.data())
@pytest.mark.requirement("CHK-4")
def test_a_change_has_the_effect_of_json_patch_and_leaves_the_given_state_alone(data):
    state = {"a": data.draw(JSON), "l": data.draw(st.lists(JSON, max_size=3)), "d": {"x/y": [1, {"~": 2}]}}
    before = deepcopy(state)
    path = data.draw(st.sampled_from([path for path in paths_in(state) if path]))
    pointer = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
    change = {"op": data.draw(st.sampled_from(["add", "replace", "remove"])), "path": pointer, "value": data.draw(JSON)}
    after, resolved, _ = resolve_and_apply(state, [change])
    assert after == apply_simply(before, change)
    assert state == before
    assert apply_changes(before, resolved) == after


@pytest.mark.parametrize(
    "change",
    [
        {},
        [],
        "add",
        {"op": "add", "path": "/configuration/x"},
        {"op": "burn", "path": "/configuration"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/no/such/place"},
        {"op": "replace", "path": "/configuration/none", "value": 1},
        {"op": "add", "path": "/active_predictions/99", "value": 1},
        {"op": "add", "path": "/active_predictions/01", "value": 1},
        {"op": "add", "path": "/active_predictions/nobody/probability", "value": 1},
        {"op": "add", "path": "/metadata/version/deeper", "value": 1},
        {"op": "move", "path": "/configuration/x"},
        {"op": "move", "from": "/configuration", "path": "/configuration/x"},
        {"op": "test", "path": "/metadata/version", "value": "9.9.9"},
        {"op": "test", "path": "/network_state/connected", "value": 1},
        {"op": "add", "path": 5, "value": 1},
        {"op": "replace", "path": "", "value": [1]},
    ],
)
def test_a_change_that_cannot_be_made_is_refused(make, change):
    with pytest.raises(InvalidInput):
        resolve_and_apply(make.state(), [change])


def test_values_can_be_moved_copied_and_tested(make):
    state = make.state()
    after = apply_changes(
        state,
        [
            {"op": "test", "path": "/metadata/version", "value": "1.0.0"},
            {"op": "copy", "from": "/signal_history/0", "path": "/first"},
            {"op": "move", "from": "/first", "path": "/second"},
        ],
    )
    assert after["second"] == state["signal_history"][0]
    assert "first" not in after
