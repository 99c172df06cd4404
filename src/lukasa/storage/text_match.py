"""What a record says anywhere in it, and which texts a store could hold at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lukasa import canonical_json

_TIME_FIELDS = frozenset({"created_at", "recorded_at", "happened_at"})


def contains_text(line: str, piece: str) -> bool:
    """Whether a record has a piece of text anywhere in what it says, letter case aside."""
    folded = piece.casefold()
    if folded.isascii() and folded.isalnum() and folded not in line.casefold():
        return False  # plain letters and digits are spelled in JSON as they are
    fields = canonical_json.parse(line)
    left = [value for name, value in fields.items() if name not in _TIME_FIELDS | {"links"}]
    left += [part for link in fields.get("links", ()) for part in link.values()]
    while left:
        value = left.pop()
        if isinstance(value, str):
            if folded in value.casefold():
                return True
        elif isinstance(value, dict):
            left += value.keys()
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def split_query_words(query: str, limit: int = 1000) -> list[str]:
    """The distinct words of a question, as they were written. Any string at all has some, or none."""
    clean = query.encode("utf-8", "replace").decode().replace("\0", " ")
    return list(dict.fromkeys(clean.split()))[:limit]


def is_storable(values: Iterable[Any]) -> bool:
    """Whether every text could be in a store at all; what could not is simply not there."""
    return all(
        value.isascii() or not canonical_json.SURROGATES.search(value) for value in values if isinstance(value, str)
    )
