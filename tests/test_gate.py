"""The gate: every draft is accepted whole or refused with a stable code and a sentence."""

import copy
import itertools
import pickle
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Draft, Key, Link, Refused
from lukasa.core.body_shape import BodyShape
from lukasa.core.record import ValidatedDraft
from lukasa.journal.gate import RULES, Gate, KindSpec, RecordLimits, all_fields_pass, check_fields
from lukasa.storage.engine import RESERVED_KINDS
from lukasa.testing import strategies
from support.narrow import present, refusal_of


@pytest.fixture
def gate():
    return Gate()


def deep(levels):
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


AnyDraft: Any = Draft  # takes values of the wrong type
TO_NOWHERE = Link("about", Key("shared", "note", ""))

BAD = {
    "an empty kind": (Draft(""), "bad_kind"),
    "a kind that is no text": (AnyDraft(7), "bad_kind"),
    "a kind that cannot be hashed": (AnyDraft(["note"]), "bad_kind"),
    "an id of 10 KB": (Draft("note", id="x" * 10_240), "bad_id"),
    "an id with NUL": (Draft("note", id="a\0b"), "bad_id"),
    "an id with a newline": (Draft("note", id="a\nb"), "bad_id"),
    "an id with a lone surrogate": (Draft("note", id="\ud800"), "bad_id"),
    "an id that is no text": (AnyDraft("note", id=5), "bad_id"),
    "an empty scope": (Draft("note", scope=""), "bad_scope"),
    "a long author": (Draft("note", author="a" * 201), "bad_author"),
    "no origin": (Draft("note", origin=""), "bad_origin"),
    "text that is no text": (AnyDraft("note", text=b"bytes"), "bad_text"),
    "text with a lone surrogate": (Draft("note", text="half \ud83d"), "bad_unicode"),
    "a text of more than a megabyte": (Draft("note", text="x" * 1_000_001), "too_large"),
    "a body that is no object": (AnyDraft("note", body=[1]), "bad_json"),
    "NaN": (Draft("note", body={"n": float("nan")}), "bad_json"),
    "infinity, deep down": (Draft("note", body={"a": [{"b": float("-inf")}]}), "bad_json"),
    "an integer beyond 64 bits": (Draft("note", body={"n": 2**64}), "bad_json"),
    "a 5000-digit integer": (Draft("note", body={"n": 10**4999}), "bad_json"),
    "a key that is no text": (AnyDraft("note", body={1: "x"}), "bad_json"),
    "a date object": (Draft("note", body={"at": datetime(2026, 1, 1, tzinfo=UTC)}), "bad_json"),
    "a set": (Draft("note", body={"s": {1}}), "bad_json"),
    "a surrogate in the body": (Draft("note", body={"s": "\udfff"}), "bad_json"),
    "a surrogate in a key": (Draft("note", body={"\udfff": 1}), "bad_json"),
    "65 levels": (Draft("note", body=deep(65)), "bad_json"),
    "a body of a megabyte": (Draft("note", body={"s": "x" * 1_000_000}), "too_large"),
    "a link to nowhere": (Draft("note", links=(TO_NOWHERE,)), "bad_link"),
    "too many links": (Draft("note", links=(Link("about", Key("s", "k", "i")),) * 1001), "too_many_links"),
    "an empty label": (Draft("note", labels=("",)), "bad_label"),
    "too many labels": (Draft("note", labels=tuple(f"n={n}" for n in range(101))), "too_many_labels"),
    "a reserved kind": (Draft("erasure"), "reserved_kind"),
}


@pytest.mark.requirement("LOG-1")
@pytest.mark.parametrize(("draft", "code"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_a_sentence_and_nothing_is_written(draft, code):
    with lukasa.open("memory:") as memory:
        refused = memory.journal.append([Draft("note", "good"), draft])
        assert isinstance(refused, Refused)
        assert refused.code == code
        assert refused.reason[0].isupper()
        assert refused.reason.rstrip().endswith(".")
        assert len(refused.reason) < 300
        assert refused.details["at"] == 1
        assert memory.journal.tip() == 0


@pytest.mark.requirement("LOG-1")
@pytest.mark.parametrize(("draft", "code"), BAD.values(), ids=BAD.keys())
def test_bad_input_in_a_large_batch_is_refused_and_named(draft, code):
    with lukasa.open("memory:") as memory:
        good = [Draft("note", f"good {number}") for number in range(30)]
        refused = memory.journal.append([*good[:20], draft, *good[20:]])
        assert isinstance(refused, Refused)
        assert (refused.code, refused.details["at"]) == (code, 20)
        assert memory.journal.tip() == 0


@given(st.lists(strategies.drafts(kinds=("note",)), min_size=1, max_size=20), st.sampled_from(("", "ada")))
def test_many_drafts_are_validated_as_each_alone(drafts, author):
    numbers = itertools.count()
    together = Gate().validate_all(drafts, lambda: f"new-{next(numbers)}", author)
    if together is not None:
        numbers = itertools.count()
        alone = [Gate().validate(draft, draft.id or f"new-{next(numbers)}", author) for draft in drafts]
        assert together == alone


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    strategies.texts(),
)
USUAL_DRAFTS = st.builds(
    lambda text, body: Draft("note", text, body),
    strategies.texts(),
    st.dictionaries(strategies.texts(8), SCALARS, max_size=4),
)


@given(st.lists(USUAL_DRAFTS, min_size=1, max_size=20), st.sampled_from(("", "ada")))
def test_drafts_of_the_usual_form_are_validated_together(drafts, author):
    together = Gate().validate_all(drafts, lambda: "id", author)
    assert together == [Gate().validate(draft, "id", author) for draft in drafts]


@given(strategies.bad_drafts(), strategies.drafts(kinds=("note",)))
def test_a_bad_draft_is_never_validated_together_with_others(bad, good):
    assert Gate().validate_all([good, bad.draft], lambda: "id", "") is None


@given(
    st.lists(
        st.one_of(
            strategies.drafts(kinds=("note",)),
            strategies.bad_drafts().map(lambda bad: bad.draft),
            st.builds(
                lambda draft, field, value: draft._replace(**{field: value}),
                strategies.drafts(kinds=("note",)),
                st.sampled_from(Draft._fields),
                st.sampled_from((None, 0, 1, 1.0, True, "", "x", b"x", (), [], {}, ("x",), ["x"], {"x": float("nan")})),
            ),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_the_rules_of_the_fields_hold_for_many_drafts_as_for_each_alone(drafts):
    limits = RecordLimits()
    assert all_fields_pass(drafts, limits) is all(check_fields(draft, limits) is None for draft in drafts)


def test_every_field_of_a_draft_has_a_rule():
    assert RULES.keys() == {*Draft._fields}


def test_drafts_of_a_kind_with_checks_are_validated_as_each_alone():
    def no_shouting(draft, limits):
        return Refused("shouting", "Please lower your voice.") if draft.text.isupper() else None

    shape = BodyShape({"to": str})
    gate = Gate(
        {"quiet": KindSpec(checks=(no_shouting,)), "letter": KindSpec(body=shape), "card": KindSpec(pii="redact")}
    )
    quiet = [Draft("quiet", text) for text in ("fine", "well", "LOUD")]
    assert gate.validate_all(quiet[:2], lambda: "i", "") == [gate.validate(draft, "i") for draft in quiet[:2]]
    assert gate.validate_all(quiet, lambda: "i", "") is None
    letters = [Draft("letter", "a"), Draft("letter", "b", {"to": "Ada"})]
    assert gate.validate_all(letters, lambda: "i", "") == [gate.validate(draft, "i") for draft in letters]
    assert gate.validate_all([*letters, Draft("letter", "c", {"to": 7})], lambda: "i", "") is None
    cards = [Draft("card", "call me"), Draft("card", "pay with 4111 1111 1111 1111")]
    redacted = gate.validate_all(cards, lambda: "i", "")
    assert redacted == [gate.validate(draft, "i") for draft in cards]
    assert b"4111" not in redacted[1].content


@pytest.mark.parametrize(
    "draft",
    [
        Draft("note", id="../../etc/passwd"),
        Draft("note", id="user:agent:123"),
        Draft("note", id="CON"),
        Draft("note", id="/etc/passwd"),
        Draft("note", id="é"),
        Draft("note", id="e\u0301"),
        Draft("note", id="x" * 200),
        Draft("note", text="NUL \0, tab \t, bell \a, bidi \u202e, astral 𝔏 and a family 👨‍👩‍👧"),
        Draft("note", text="x" * 900_000),
        Draft("note", body={"null": None, "empty": {}, "list": [], "float": 0.1, "max": 2**64 - 1, "min": -(2**63)}),
        Draft("note", body=deep(60)),
        Draft("note", body={"\0": "\0"}),
        Draft("note", labels=("tag=ünïcode",), links=(Link("about", Key("s", "k", "dangling")),)),
    ],
    ids=lambda draft: draft.id[:20] or draft.text[:20] or str(draft.body)[:20] or "labels and links",
)
@pytest.mark.requirement("LOG-1")
def test_odd_but_good_input_survives_the_round_trip(draft):
    with lukasa.open("memory:") as memory:
        record = memory.journal.append([draft]).unwrap()
        back = memory.journal.get(record.key)
        assert (present(back).text, present(back).body, present(back).labels, present(back).links) == (
            draft.text,
            draft.body,
            draft.labels,
            draft.links,
        )
        assert not draft.id or present(back).id == draft.id
        assert memory.verify().findings == ()


def test_a_tuple_in_a_body_comes_back_as_a_list(gate):
    sealed = gate.validate(Draft("note", body={"pair": (1, 2)}), "i")
    assert b'"pair":[1,2]' in sealed.content


def test_the_empty_body_of_a_draft_survives_copying_and_pickling_and_cannot_be_changed():
    draft = Draft("note", "hello")
    assert pickle.loads(pickle.dumps(draft)) == copy.deepcopy(draft) == draft
    assert draft.body == {}
    assert repr(draft.body) == "{}"
    with pytest.raises(TypeError):
        cast("dict[str, Any]", draft.body)["topic"] = "another"


def test_ids_that_look_alike_are_different_records():
    with lukasa.open("memory:") as memory:
        memory.journal.append([Draft("note", "composed", id="é"), Draft("note", "decomposed", id="e\u0301")])
        assert present(memory.journal.get(Key("shared", "note", "é"))).text == "composed"
        assert present(memory.journal.get(Key("shared", "note", "e\u0301"))).text == "decomposed"


def test_a_kind_has_the_limits_and_checks_of_its_policy():
    def no_shouting(draft, limits):
        return Refused("shouting", "Please lower your voice.") if draft.text.isupper() else None

    gate = Gate({"quiet": KindSpec(RecordLimits(record_bytes=200), checks=(no_shouting,))})
    assert isinstance(gate.validate(Draft("quiet", "fine"), "i"), ValidatedDraft)
    assert refusal_of(gate.validate(Draft("quiet", "LOUD"), "i")).code == "shouting"
    assert refusal_of(gate.validate(Draft("quiet", "x" * 190), "i")).code == "too_large"
    assert isinstance(gate.validate(Draft("other", "LOUD"), "i"), ValidatedDraft)


def test_the_fast_path_of_validate_misses_no_fault(gate):
    gate.validate(Draft("note"), "i")  # the names are known from here on
    assert gate.validate(Draft("note", body={"n": float("nan")}), "i").code == "bad_json"
    assert gate.validate(Draft("note", body={"n": 2**64}), "i").code == "bad_json"
    assert gate.validate(AnyDraft("note", body={3: "x"}), "i").code == "bad_json"
    assert gate.validate(Draft("note", "\ud800"), "i").code == "bad_unicode"
    assert gate.validate(Draft("note", body={"a": [{"n": float("nan")}]}), "i").code == "bad_json"
    assert gate.validate(Draft("note", body={"a": {"b": {"n": float("inf")}}}), "i").code == "bad_json"
    assert gate.validate(Draft("note", body={"a": {"b": {"n": -(2**63) - 1}}}), "i").code == "bad_json"
    assert gate.validate(AnyDraft("note", body={"a": {3: "x"}}), "i").code == "bad_json"
    assert gate.validate(Draft("note", body={"a": {"b": "\ud800"}}), "i").code == "bad_json"
    assert gate.validate(Draft("note", body={"a": {"\ud800": "b"}}), "i").code == "bad_json"
    deep: dict[str, Any] = {}
    for _ in range(65):
        deep = {"a": deep}
    assert gate.validate(Draft("note", body=deep), "i").code == "bad_json"
    assert isinstance(gate.validate(Draft("note", body=deep["a"]["a"]), "i"), ValidatedDraft)
    circular: dict[str, Any] = {}
    circular["a"] = circular
    assert gate.validate(Draft("note", body=circular), "i").code == "bad_json"
    many = {str(number): {"n": 1} for number in range(200)}
    assert isinstance(gate.validate(Draft("note", body=many), "i"), ValidatedDraft)
    assert gate.validate(Draft("note", body={"a": {"s": "x" * 999_999}, "b": "xx"}), "i").code == "too_large"
    assert gate.validate(Draft("note", id="x" * 201)).code == "bad_id"
    assert gate.validate(Draft("note", id="a\nb")).code == "bad_id"
    assert gate.validate(Draft("note", expected=-1), "i").code == "bad_expected"
    assert gate.validate(AnyDraft("note", expected=False), "i").code == "bad_expected"
    assert gate.validate(Draft("note", labels=("",)), "i").code == "bad_label"
    assert gate.validate(Draft("note", labels=("a\0b",)), "i").code == "bad_label"
    assert gate.validate(Draft("note", labels=("x",) * 101), "i").code == "too_many_labels"
    assert isinstance(gate.validate(Draft("note", body={"a": [1]}, id="n", labels=("x=y",))), ValidatedDraft)


def test_callers_cannot_write_system_records(gate):
    for kind in RESERVED_KINDS:
        assert gate.validate(Draft(kind), "i").code == "reserved_kind"
        body = {"author": "x", "by": "x", "source": "", "digests": []}
        assert isinstance(gate.validate(Draft(kind, body=body), "i", allow_reserved=True), ValidatedDraft)
