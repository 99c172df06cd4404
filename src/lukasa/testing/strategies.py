"""Hypothesis strategies for what a writer may propose, and for what must be refused, each with its code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lukasa.gate import DEFAULT_LIMITS
from lukasa.record import DERIVED_FROM, Draft, Key, Link
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
    "e\u0301 and \u00e9",  # one letter, spelled in two ways
    "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe\u202c",  # right to left, and an override
    "\U0001f469\u200d\U0001f680 \U0001d54a",  # joined and astral
    "\ufeff\u200b\u2028\u2029\x85",
    "multi-agent CVE-2025-64439 foo_bar() 100% don't",
    '{"not": "a body"}\\u0000 \\',
    "line\r\nline\ttab\x7f",
)


def texts(max_size: int = 60) -> SearchStrategy[str]:
    """Any Unicode text that UTF-8 can hold: astral, combining, bidirectional, control characters, NUL."""
    anything = st.text(st.characters(codec="utf-8"), max_size=max_size)
    return st.one_of(
        anything, st.sampled_from(_TRICKY_TEXTS), st.tuples(anything, st.sampled_from(_TRICKY_TEXTS)).map("".join)
    )


def ids(max_size: int = MAX_NAME_LENGTH) -> SearchStrategy[str]:
    """Names and ids that the gate lets through: anything printable in any script, and paths that mean mischief."""
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


def _json_scalars() -> SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.sampled_from([-(2**63), 2**63, 2**64 - 1, 0, -1]),
        st.floats(allow_nan=False, allow_infinity=False),
        texts(20),
    )


def json_values(max_leaves: int = 10) -> SearchStrategy[Any]:
    """Nested JSON within the limits of the canonical form."""
    return st.recursive(
        _json_scalars(),
        lambda deeper: st.one_of(st.lists(deeper, max_size=4), st.dictionaries(texts(12), deeper, max_size=4)),
        max_leaves=max_leaves,
    )


def bodies(max_leaves: int = 10) -> SearchStrategy[dict[str, Any]]:
    """JSON objects, now and then nested as deep as is allowed."""
    plain = st.dictionaries(texts(12), json_values(max_leaves), max_size=4)
    return st.one_of(plain, plain, plain, st.integers(30, 64).map(nested_object))


def nested_object(depth: int) -> dict[str, Any]:
    """An object with so many levels of brackets, a number in the innermost."""
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 and level != depth - 1 else {"d": value}
    return dict(value)


def moments() -> SearchStrategy[datetime]:
    """Aware moments anywhere on the calendar."""
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
    """Drafts that the gate lets through."""
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
    """A draft with one fault, and the code it must be refused with."""

    fault: str
    code: str
    draft: Draft

    def __repr__(self) -> str:
        return f"<{self.fault}: {self.code}>"  # some faults cannot be printed, others fill a screen


_EXAMPLE_LINK = Link("about", Key("shared", "note", "target"))


def _bad_field(field: str, fault: str, code: str, value: Callable[[], Any]) -> tuple[str, str, str, Callable[[], Any]]:
    return field, f"{field}: {fault}", code, value


def _bad_name_faults() -> list[tuple[str, str, str, Callable[[], Any]]]:
    faults: list[tuple[str, str, str, Callable[[], Any]]] = []
    for field in ("kind", "scope", "origin", "author", "id"):
        code = f"bad_{field}"
        faults += [
            _bad_field(field, "10 KB", code, lambda: "x" * 10_000),
            _bad_field(field, "one character too long", code, lambda: "x" * (MAX_NAME_LENGTH + 1)),
            _bad_field(field, "NUL", code, lambda: "a\0b"),
            _bad_field(field, "line break", code, lambda: "a\nb"),
            _bad_field(field, "control character", code, lambda: "a\x9fb"),
            _bad_field(field, "lone surrogate", code, lambda: f"a{LONE_SURROGATE}"),
            _bad_field(field, "not text", code, lambda: 7),
            _bad_field(field, "nothing", code, lambda: None),
            _bad_field(field, "bytes", code, lambda: b"note"),
            _bad_field(field, "unhashable", code, lambda: ["note"]),
        ]
        if field in ("kind", "scope", "origin"):
            faults.append(_bad_field(field, "empty", code, str))
    faults += [
        _bad_field("kind", f"reserved {kind}", "reserved_kind", partial(str, kind)) for kind in sorted(RESERVED_KINDS)
    ]
    return faults


_FAULT_TABLE: tuple[tuple[str, str, str, Callable[[], Any]], ...] = (
    *_bad_name_faults(),
    _bad_field("text", "lone surrogate", "bad_unicode", lambda: f"half a pair {LONE_SURROGATE}"),
    _bad_field("text", "not text", "bad_text", lambda: 7),
    _bad_field("text", "nothing", "bad_text", lambda: None),
    _bad_field("text", "bytes", "bad_text", lambda: b"text"),
    _bad_field("text", "too large", "too_large", lambda: "x" * (DEFAULT_LIMITS.record_bytes + 1)),
    _bad_field(
        "text", "too large in bytes only", "too_large", lambda: "\U0001f600" * (DEFAULT_LIMITS.record_bytes // 4)
    ),
    _bad_field("body", "too large", "too_large", lambda: {"blob": "x" * DEFAULT_LIMITS.record_bytes}),
    _bad_field("body", "not an object", "bad_json", lambda: [1]),
    _bad_field("body", "nothing", "bad_json", lambda: None),
    _bad_field("body", "text", "bad_json", lambda: "{}"),
    _bad_field("body", "NaN", "bad_json", lambda: {"x": float("nan")}),
    _bad_field("body", "infinite", "bad_json", lambda: {"x": [float("-inf")]}),
    _bad_field("body", "more than 64 bits", "bad_json", lambda: {"x": 2**64}),
    _bad_field("body", "less than 64 bits", "bad_json", lambda: {"x": -(2**63) - 1}),
    _bad_field("body", "5000 digits", "bad_json", lambda: {"x": 10**5000}),
    _bad_field("body", "lone surrogate", "bad_json", lambda: {"x": LONE_SURROGATE}),
    _bad_field("body", "lone surrogate in a key", "bad_json", lambda: {LONE_SURROGATE: 1}),
    _bad_field("body", "too deep", "bad_json", lambda: nested_object(65)),
    _bad_field("body", "far too deep", "bad_json", lambda: nested_object(5000)),
    _bad_field("body", "number as a key", "bad_json", lambda: {1: "x"}),
    _bad_field("body", "nothing as a key", "bad_json", lambda: {None: "x"}),
    _bad_field("body", "a set", "bad_json", lambda: {"x": {1}}),
    _bad_field("body", "bytes", "bad_json", lambda: {"x": b"x"}),
    _bad_field("body", "a time", "bad_json", lambda: {"x": datetime(2026, 1, 1, tzinfo=UTC)}),
    _bad_field("body", "a decimal", "bad_json", lambda: {"x": Decimal(1)}),
    _bad_field("body", "an object of ours", "bad_json", lambda: {"x": _EXAMPLE_LINK}),
    _bad_field("links", "too many", "too_many_links", lambda: (_EXAMPLE_LINK,) * (DEFAULT_LIMITS.links + 1)),
    _bad_field("links", "no relation", "bad_link", lambda: (replace(_EXAMPLE_LINK, relation=""),)),
    _bad_field("links", "no id", "bad_link", lambda: (replace(_EXAMPLE_LINK, to=Key("shared", "note", "")),)),
    _bad_field(
        "links",
        "lone surrogate",
        "bad_link",
        lambda: (replace(_EXAMPLE_LINK, to=Key("shared", "note", LONE_SURROGATE)),),
    ),
    _bad_field("links", "10 KB", "bad_link", lambda: (replace(_EXAMPLE_LINK, to=Key("shared", "note", "x" * 10_000)),)),
    _bad_field("links", "NUL", "bad_link", lambda: (replace(_EXAMPLE_LINK, relation="a\0b"),)),
    _bad_field("links", "number for a scope", "bad_link", lambda: (Link("about", Key(7, "note", "x")),)),  # type: ignore[arg-type]
    _bad_field("links", "text for a key", "bad_link", lambda: (Link("about", "shared/note/x"),)),  # type: ignore[arg-type]
    _bad_field("links", "text for a link", "bad_link", lambda: ("shared/note/x",)),
    _bad_field("links", "text for all", "bad_link", lambda: "about"),
    _bad_field("links", "nothing", "bad_link", lambda: None),
    _bad_field(
        "labels", "too many", "too_many_labels", lambda: tuple(f"n={n}" for n in range(DEFAULT_LIMITS.labels + 1))
    ),
    _bad_field("labels", "empty", "bad_label", lambda: ("",)),
    _bad_field("labels", "10 KB", "bad_label", lambda: ("x" * 10_000,)),
    _bad_field("labels", "line break", "bad_label", lambda: ("a\nb",)),
    _bad_field("labels", "lone surrogate", "bad_label", lambda: (LONE_SURROGATE,)),
    _bad_field("labels", "a number", "bad_label", lambda: (7,)),
    _bad_field("labels", "text for all", "bad_label", lambda: "session=s1"),
    _bad_field("labels", "nothing", "bad_label", lambda: None),
    _bad_field("happened_at", "text", "bad_happened_at", lambda: "yesterday"),
    _bad_field("happened_at", "a number", "bad_happened_at", lambda: 1_700_000_000),
    _bad_field("deleted", "text", "bad_deleted", lambda: "yes"),
    _bad_field("expected", "text", "bad_expected", lambda: "1"),
    _bad_field("expected", "negative", "bad_expected", lambda: -1),
)

FAULT_NAMES = tuple(fault for _, fault, _, _ in _FAULT_TABLE)
"""Every fault there is, by name."""


def bad_draft(fault: str, good: Draft) -> BadDraft:
    """A good draft with one fault put in."""
    field, name, code, value = next(row for row in _FAULT_TABLE if row[1] == fault)
    return BadDraft(name, code, good._replace(**{field: value()}))


def bad_drafts() -> SearchStrategy[BadDraft]:
    """Drafts with one fault each, and the code it must be refused with."""
    return st.builds(bad_draft, st.sampled_from(FAULT_NAMES), drafts())
