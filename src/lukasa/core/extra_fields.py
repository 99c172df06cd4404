"""Further fields of the caller's own: kept as they are given, unless one is a known field, or looks like one misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lukasa.core.outcome import Refused

_OWN_ARGUMENTS = ("author", "extra", "id", "key", "origin", "scope")


def refuse_known_fields(extra: Mapping[str, Any] | None, known: Iterable[str]) -> Refused | None:
    """Refuse further fields that are known, since each has its own argument, or that look like a known one."""
    from difflib import get_close_matches

    names = [*known, *_OWN_ARGUMENTS]
    for name in extra or ():
        if name in names:
            return Refused("bad_field", f"{name!r:.60} is no further field: give it by its own name, or leave it out.")
        if found := get_close_matches(str(name)[:60], names, 1, 0.8):
            return Refused("bad_field", f"{name!r:.60} looks like {found[0]!r}, which has an argument of its own.")
    return None
