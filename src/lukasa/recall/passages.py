"""What stands for a text: its head for its meaning, and its head among its neighbours for its words.

A short text is its own head. A long one is cut at the ends of sentences, and its first part is its head: people say
first what they write about. What lies deeper is found by its words (see ``signals.coverage``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WHOLE = 450
"""Up to this many characters a text stays whole."""
PART = 400
"""How long a part of a longer text may be."""
SENTENCE = 100
"""How far apart words of one sentence usually stand."""
WINDOW = 600
"""Neighbours join a head's window while all together stay within this many characters."""

_SENTENCE_ENDS = (". ", "! ", "? ", "\n")


def head(text: str) -> str:
    """The part of a text that stands for it: all of a short one, the first sentences of a long one."""
    if len(text) <= WHOLE:
        return text
    bare = text.lstrip()
    end = max(bare.rfind(mark, 0, PART + 1) for mark in _SENTENCE_ENDS)
    return bare[: end + 1 if end > 0 else PART].rstrip()


def window(
    own: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which heads before and after join a head's window, by their lengths; short ones do, the one before first."""
    room = WINDOW - own
    first = before <= room
    return first, after <= room - np.where(first, before, 0)
