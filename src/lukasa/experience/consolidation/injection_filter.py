"""Detection of texts that give orders instead of saying what happened.

Any agent that writes episodes can write "ignore previous instructions" into one. No list of such phrases is complete, so
this filter is the second line of defence. The first is that a pattern says only what several episodes share, and how many
independent authors support it. A text that looks suspicious needs two authors to become knowledge at all.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:instruction|prompt|rule|guideline|polic|safety|above|previous)"
    r"|\byou\s+(?:are\s+now|must\s+(?:now|always|never)|have\s+to\s+(?:obey|follow))\b"
    r"|\bfrom\s+now\s+on\b|\bnew\s+instructions?\b|\bsystem\s+prompt\b|\bdeveloper\s+mode\b|\bjailbreak"
    r"|\bdo\s+not\s+(?:tell|inform|warn|mention|reveal|verify|ask)\b|\bwithout\s+(?:asking|telling|verification|approval)\b"
    r"|\balways\s+(?:approve|trust|obey|skip|disable|grant|allow)\b|\bnever\s+(?:ask|verify|question|refuse|check)\b"
    r"|\b(?:send|post|upload|exfiltrate|leak|forward|print)\b[^.\n]{0,60}\b(?:password|secret|token|credential|api.?key|private.?key|\.env)"
    r"|\b(?:curl|wget)\b[^\n]{0,200}\|\s*(?:ba|z|da)?sh\b|\brm\s+-rf?\s+[/~]|\bbase64\s+(?:-d|--decode)\b|--no-verify\b"
    r"|<\|[^|>\n]{0,40}\|>|\[/?(?:inst|system)\]|<</?sys>>|^\s*(?:system|assistant|developer)\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_INJECTION_HINTS = (
    "ignore", "disregard", "forget", "override", "bypass", "you are", "you must", "you have", "from now", "instruction",
    "prompt", "developer", "jailbreak", "do not", "without", "always", "never", "password", "secret", "token",
    "credential", "key", ".env", "curl", "wget", "rm -", "base64", "no-verify", "<|", "[inst", "[/inst", "[system",
    "[/system", "<<", "system", "assistant",
)  # fmt: skip
"""Every match of ``_INJECTION`` contains one of these; searching for them first keeps plain texts cheap."""
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
    text = "\n".join(texts)
    if len(text) > _MAX_CHARS:
        return True  # too long for any person to have read
    if not text.isascii():
        if _INVISIBLE_CHARS.search(text):
            return True
        text = unicodedata.normalize("NFKC", text)
    folded = " ".join(text.lower().split())
    return any(map(folded.__contains__, _INJECTION_HINTS)) and _INJECTION.search(text) is not None
