"""Canonical JSON: equal values have equal bytes, so a hash of the bytes is a hash of the value.

UTF-8, no spaces, object keys sorted, integers of at most 64 bits, shortest floats. Decoding is strict:
input on which JSON parsers disagree (duplicate keys, NaN, huge numbers, deep nesting, lone surrogates) is refused.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, NoReturn

import orjson

from lukasa.errors import InvalidInput

MAX_DEPTH = 64
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
SURROGATES = re.compile("[\ud800-\udfff]")
"""Lone surrogates: a Python string can hold them, UTF-8 cannot."""
TOO_LONG_FAULT = "its strings are too long in all; split it, or keep the large part outside and refer to it."
_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_INFINITY = float("inf")
_MAX_CONTAINERS = 1_000_000
_FIRST_MATCHES = 2_000
_MAX_RUN = 2_000


def encode(value: Any) -> bytes:
    """Encode a plain JSON value (see ``find_json_fault``) canonically."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        message = str(error)
        raise InvalidInput(f"{message[:1].lower()}{message[1:]}.") from error


def encode_text(value: Any) -> str:
    """Encode a value like ``encode``, as text."""
    return encode(value).decode()


def decode(data: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """Decode JSON from outside strictly; raise ``InvalidInput`` for anything ambiguous."""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at byte {error.start}.") from error
    if (fault := find_bracket_fault(text, max_depth)) is not None:
        raise InvalidInput(fault)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_reject_duplicate_keys,
            parse_constant=_reject_constant,
            parse_int=_parse_integer,
            parse_float=_parse_float,
        )
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}.") from error
    try:
        has_surrogate = SURROGATES.search(text) is not None or ("\\u" in text and not orjson.dumps(value))
    except TypeError:  # orjson's answer to a lone surrogate
        has_surrogate = True
    if has_surrogate:
        raise InvalidInput("a string has a lone surrogate, which is not valid Unicode.")
    return value


parse = orjson.loads
"""Parse JSON that Lukasa wrote, without checks."""


def find_json_fault(value: Any, *, max_characters: int | None = None) -> str | None:
    """Return why ``value`` is not plain JSON within the limits, or ``None`` when it is.

    ``max_characters`` limits the total length of its strings.
    """
    level, length = [value], 0
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                length += len(item)
                if max_characters is not None and length > max_characters:
                    return TOO_LONG_FAULT
                if not item.isascii() and SURROGATES.search(item):
                    return "a string has a lone surrogate, which is not valid Unicode."
            elif kind is dict:
                for name in item:
                    if type(name) is not str:
                        return f"an object key is {type(name).__name__}, not a string."
                    if not name.isascii() and SURROGATES.search(name):
                        return "an object key has a lone surrogate, which is not valid Unicode."
                deeper.extend(item.values())
            elif kind is list or kind is tuple:
                deeper.extend(item)
            elif kind is float:
                if item != item or item in (_INFINITY, -_INFINITY):
                    return "a number is NaN or infinite, which JSON cannot hold."
            elif kind is int:
                if not MIN_INTEGER <= item <= MAX_INTEGER:
                    return "an integer does not fit in 64 bits; store it as a string."
            elif item is not None and kind is not bool:
                return f"a value is {kind.__name__}, which is not JSON."
        if not deeper:
            return None
        level = deeper
    return f"nested deeper than {MAX_DEPTH} levels."


_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STRING_OR_BRACKETS = re.compile(_STRING.pattern + r"|[\[\]{}]+", re.DOTALL)
_NON_BRACKETS = re.compile(_STRING.pattern + r'|[^\[\]{}"]+', re.DOTALL)


def find_bracket_fault(text: str, max_depth: int = MAX_DEPTH) -> str | None:
    """Return why JSON, or YAML in the style of JSON, is refused before it is parsed: too deep or too many containers."""
    if _count_containers(text) <= MAX_DEPTH:
        return None
    too_deep = f"nested deeper than {max_depth} levels."
    # A flood of brackets shows in its first matches; the rest is then not looked at.
    starts = ((match.start(), match.end()) for match in _STRING_OR_BRACKETS.finditer(text) if match[0][0] != '"')
    runs = (text[start : min(end, start + _MAX_RUN)] for start, end in starts)  # a longer one is too deep anyway
    if _is_deeper("".join(islice(runs, _FIRST_MATCHES)), max_depth):
        return too_deep
    if _count_containers(text) > _MAX_CONTAINERS:
        text = _STRING.sub("", text)
        if _count_containers(text) > _MAX_CONTAINERS:
            return f"it has more than {_MAX_CONTAINERS:,} lists and objects."
    return too_deep if _is_deeper(_NON_BRACKETS.sub("", text), max_depth) else None


def _count_containers(text: str) -> int:
    return text.count("[") + text.count("{")


def _is_deeper(brackets: str, max_depth: int) -> bool:
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in "[{" else -1
        if depth > max_depth:
            return True
    return False


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # set.add returns None, which is false
        raise InvalidInput(f"the key {twice[:60]!r} occurs twice in one object.")
    return found


def _reject_constant(word: str) -> NoReturn:
    raise InvalidInput(f"{word} is not JSON.")


def _parse_integer(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= (value := int(digits)) < 2**64:
        raise InvalidInput("an integer does not fit in 64 bits; write it as a string.")
    return value


def _parse_float(digits: str) -> float:
    value = float(digits)
    if value in (_INFINITY, -_INFINITY):
        raise InvalidInput("a number is too large for a 64-bit float.")
    return value
