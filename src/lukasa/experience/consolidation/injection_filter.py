"""Detection of texts that give orders instead of saying what happened.

Any agent that writes episodes can write "ignore previous instructions" into one. No list of such phrases is complete, so
this filter is the second line of defence. The first is that a pattern says only what several episodes share, and how many
independent authors support it. A text that looks suspicious needs two authors to become knowledge at all.

An episode says what happened: here some phrases count that a memory may have (``lukasa.text.orders`` knows the others).
"""

from __future__ import annotations

import re
from typing import Any

from lukasa.text.orders import find_order
from lukasa.text.patterns import compile_on_use

_HERE_TOO = compile_on_use(
    r"\byou\s+must\s+(?:now|always|never)\b|\bfrom\s+now\s+on\b|\bnew\s+instructions?\b|\bsystem\s+prompt\b|\bdeveloper\s+mode\b"
    r"|\bjailbreak|\bdo\s+not\s+(?:tell|inform|warn|mention|reveal|verify|ask)\b|\bnever\s+(?:ask|verify|question|refuse|check)\b"
    r"|\balways\s+(?:skip|disable|allow)\b",
    re.IGNORECASE,
)
_INVISIBLE_CHARS = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_KNOWN_KEYS = frozenset({"t", "action", "target", "result", "error", "type", "message", "resolution", "goal", "phase"})
_MAX_CHARS = 100_000


def is_suspicious(body: Any) -> bool:
    """Return whether the texts within a body, unknown field names included, give orders or hide characters."""
    texts: list[str] = []
    pending = [body]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            for name, item in reversed(value.items()):
                pending.append(item)
                if name not in _KNOWN_KEYS:
                    pending.append(name)
        elif isinstance(value, list):
            pending += reversed(value)
    text = ". ".join(texts)
    if len(text) > _MAX_CHARS:
        return True  # too long for any person to have read
    if not text.isascii() and _INVISIBLE_CHARS.search(text):
        return True
    return _HERE_TOO.search(text) is not None or find_order(text) != ""
