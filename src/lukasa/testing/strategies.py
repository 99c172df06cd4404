"""Hypothesis strategies for drafts that the gate accepts, and for drafts that it refuses with a known code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from lukasa.core.record import DERIVED_FROM, Draft, Key, Link
from lukasa.journal.gate import DEFAULT_LIMITS
from lukasa.storage.engine import RESERVED_KINDS
from lukasa.testing.optional import require_package

if TYPE_CHECKING:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
else:
    require_package("hypothesis")
    from hypothesis import strategies as st

_PRINTABLE_CATEGORIES: tuple[Literal["L", "M", "N", "P", "S", "Z", "Cf", "Co", "Cn"], ...]
_PRINTABLE_CATEGORIES = ("L", "M", "N", "P", "S", "Z", "Cf", "Co", "Cn")
MAX_NAME_LENGTH = DEFAULT_LIMITS.name_characters
LONE_SURROGATE = "\ud800"

_TRICKY_TEXTS = (
    "",
    "\0",
    "before\0after",
    "e\u0301 and \u00e9",  # one letter in two forms
    "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe\u202c",  # right to left, and an override
    "\U0001f469\u200d\U0001f680 \U0001d54a",  # joined and astral
    "\ufeff\u200b\u2028\u2029\x85",
    "multi-agent CVE-2025-64439 foo_bar() 100% don't",
    '{"not": "a body"}\\u0000 \\',
    "line\r\nline\ttab\x7f",
)


def texts(max_size: int = 60) -> SearchStrategy[str]:
    """Return a strategy for Unicode text: astral, combining, bidirectional and control characters, NUL."""
    anything = st.text(st.characters(codec="utf-8"), max_size=max_size)
    return st.one_of(
        anything, st.sampled_from(_TRICKY_TEXTS), st.tuples(anything, st.sampled_from(_TRICKY_TEXTS)).map("".join)
    )


def ids(max_size: int = MAX_NAME_LENGTH) -> SearchStrategy[str]:
    """Return a strategy for names and ids that the gate accepts: any script, and names that look like paths or SQL."""
    letters = st.characters(codec="utf-8", categories=_PRINTABLE_CATEGORIES)
    tricky = (
        "../../etc/passwd",
        "a/b",
        "CON",
        "user:agent:123",
        "e\u0301",
        "\u00e9",
        "%",
        "_",
        "'; --",
        "x" * max_size,
    )
    return st.one_of(st.text(letters, min_size=1, max_size=min(max_size, 20)), st.sampled_from(tricky))


def json_values(max_leaves: int = 10) -> SearchStrategy[Any]:
    """Return a strategy for nested JSON within the limits of the canonical form."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.sampled_from([-(2**63), 2**63, 2**64 - 1, 0, -1]),
        st.floats(allow_nan=False, allow_infinity=False),
        texts(20),
    )
    return st.recursive(
        scalars,
        lambda deeper: st.one_of(st.lists(deeper, max_size=4), st.dictionaries(texts(12), deeper, max_size=4)),
        max_leaves=max_leaves,
    )


def bodies(max_leaves: int = 10) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for JSON objects, some of them nested as deep as is allowed."""
    plain = st.dictionaries(texts(12), json_values(max_leaves), max_size=4)
    return st.one_of(plain, plain, plain, st.integers(30, 64).map(nested_object))


def nested_object(depth: int) -> dict[str, Any]:
    """Return an object with that many levels of brackets around a number."""
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 and level != depth - 1 else {"d": value}
    return dict(value)


def moments() -> SearchStrategy[datetime]:
    """Return a strategy for aware times anywhere on the calendar."""
    return st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - the zone is added by the strategy


def links() -> SearchStrategy[Link]:
    relations = st.sampled_from((DERIVED_FROM, "supersedes", "\u00fcber"))
    return st.builds(Link, relations, st.builds(Key, ids(30), ids(30), ids(30)))


def drafts(
    *,
    kinds: Sequence[str] = ("note", "turn"),
    scopes: Sequence[str] = ("shared", "ada", "ben"),
    authors: Sequence[str] = ("", "ada", "ben"),
) -> SearchStrategy[Draft]:
    """Return a strategy for drafts that the gate accepts."""
    return st.builds(
        Draft,
        kind=st.sampled_from(tuple(kinds)),
        text=texts(),
        body=bodies(),
        id=st.one_of(st.just(""), ids()),
        scope=st.sampled_from(tuple(scopes)),
        author=st.sampled_from(tuple(authors)),
        origin=st.sampled_from(("manual", "chat", "import")),
        links=st.lists(links(), max_size=3).map(tuple),
        labels=st.lists(ids(30), max_size=3).map(tuple),
        happened_at=st.one_of(st.none(), moments()),
        deleted=st.just(False),
        expected=st.none(),
    )


@dataclass(frozen=True, slots=True, repr=False)
class BadDraft:
    """A draft with one fault, and the code of its refusal."""

    fault: str
    code: str
    draft: Draft

    def __repr__(self) -> str:
        return f"<{self.fault}: {self.code}>"  # some faults cannot be printed, others fill a screen


_EXAMPLE_LINK = Link("about", Key("shared", "note", "target"))


_BAD_NAMES: dict[str, Any] = {
    "10 KB": "x" * 10_000,
    "one character too long": "x" * (MAX_NAME_LENGTH + 1),
    "NUL": "a\0b",
    "line break": "a\nb",
    "control character": "a\x9fb",
    "lone surrogate": f"a{LONE_SURROGATE}",
    "not text": 7,
    "nothing": None,
    "bytes": b"note",
    "unhashable": ["note"],
}


def _link_to(id: str) -> tuple[Link]:
    return (replace(_EXAMPLE_LINK, to=Key("shared", "note", id)),)


_BAD_VALUES: dict[tuple[str, str], dict[str, Any]] = {
    **{(field, f"bad_{field}"): _BAD_NAMES for field in ("author", "id")},
    **{(field, f"bad_{field}"): {**_BAD_NAMES, "empty": ""} for field in ("kind", "scope", "origin")},
    ("kind", "reserved_kind"): {f"reserved {kind}": kind for kind in sorted(RESERVED_KINDS)},
    ("text", "bad_unicode"): {"lone surrogate": f"half a pair {LONE_SURROGATE}"},
    ("text", "bad_text"): {"not text": 7, "nothing": None, "bytes": b"text"},
    ("text", "too_large"): {
        "too large": "x" * (DEFAULT_LIMITS.record_bytes + 1),
        "too large in bytes only": "\U0001f600" * (DEFAULT_LIMITS.record_bytes // 4),
    },
    ("body", "too_large"): {"too large": {"blob": "x" * DEFAULT_LIMITS.record_bytes}},
    ("body", "bad_json"): {
        "not an object": [1],
        "nothing": None,
        "text": "{}",
        "NaN": {"x": float("nan")},
        "infinite": {"x": [float("-inf")]},
        "more than 64 bits": {"x": 2**64},
        "less than 64 bits": {"x": -(2**63) - 1},
        "5000 digits": {"x": 10**5000},
        "lone surrogate": {"x": LONE_SURROGATE},
        "lone surrogate in a key": {LONE_SURROGATE: 1},
        "too deep": nested_object(65),
        "far too deep": nested_object(5000),
        "number as a key": {1: "x"},
        "nothing as a key": {None: "x"},
        "a set": {"x": {1}},
        "bytes": {"x": b"x"},
        "a time": {"x": datetime(2026, 1, 1, tzinfo=UTC)},
        "a decimal": {"x": Decimal(1)},
        "an object of Lukasa": {"x": _EXAMPLE_LINK},
    },
    ("links", "too_many_links"): {"too many": (_EXAMPLE_LINK,) * (DEFAULT_LIMITS.links + 1)},
    ("links", "bad_link"): {
        "no relation": (replace(_EXAMPLE_LINK, relation=""),),
        "no id": _link_to(""),
        "lone surrogate": _link_to(LONE_SURROGATE),
        "10 KB": _link_to("x" * 10_000),
        "NUL": (replace(_EXAMPLE_LINK, relation="a\0b"),),
        "number for a scope": (Link("about", Key(7, "note", "x")),),  # type: ignore[arg-type]
        "text for a key": (Link("about", "shared/note/x"),),  # type: ignore[arg-type]
        "text for a link": ("shared/note/x",),
        "text for all": "about",
        "nothing": None,
    },
    ("labels", "too_many_labels"): {"too many": tuple(f"n={n}" for n in range(DEFAULT_LIMITS.labels + 1))},
    ("labels", "bad_label"): {
        "empty": ("",),
        "10 KB": ("x" * 10_000,),
        "line break": ("a\nb",),
        "lone surrogate": (LONE_SURROGATE,),
        "a number": (7,),
        "text for all": "session=s1",
        "nothing": None,
    },
    ("happened_at", "bad_happened_at"): {"text": "yesterday", "a number": 1_700_000_000},
    ("deleted", "bad_deleted"): {"text": "yes"},
    ("expected", "bad_expected"): {"text": "1", "negative": -1},
}
"""Bad values by field, code of the refusal, and name of the fault."""

_FAULTS: dict[str, tuple[str, str, Any]] = {
    f"{field}: {fault}": (field, code, value)
    for (field, code), values in _BAD_VALUES.items()
    for fault, value in values.items()
}

FAULT_NAMES = tuple(_FAULTS)
"""The names of all faults."""


def bad_draft(fault: str, good: Draft) -> BadDraft:
    """Return a good draft with one fault put in."""
    field, code, value = _FAULTS[fault]
    return BadDraft(fault, code, good._replace(**{field: value}))


def bad_drafts() -> SearchStrategy[BadDraft]:
    """Return a strategy for drafts with one fault each."""
    return st.builds(bad_draft, st.sampled_from(FAULT_NAMES), drafts())
