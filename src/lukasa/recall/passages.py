"""What stands for a text: its head for its meaning, and its head among its neighbours for its words.

A short text is its own head. A long one is cut at the ends of sentences, and its first part is its head: people say
first what they write about. What lies deeper is found by its words (see ``signals.coverage``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_WHOLE_LENGTH = 450
"""Up to this many characters a text stays whole."""
MAX_PART_LENGTH = 400
"""How long a part of a longer text may be."""
SENTENCE_SPAN = 100
"""How far apart words of one sentence usually stand."""
MAX_WINDOW_LENGTH = 600
"""Neighbours join a head's window while all together stay within this many characters."""

_SENTENCE_ENDS = (". ", "! ", "? ", "\n")


def lead_passage(text: str) -> str:
    """The part of a text that stands for it: all of a short one, the first sentences of a long one."""
    if len(text) <= MAX_WHOLE_LENGTH:
        return text
    bare = text.lstrip()
    end = max(bare.rfind(mark, 0, MAX_PART_LENGTH + 1) for mark in _SENTENCE_ENDS)
    return bare[: end + 1 if end > 0 else MAX_PART_LENGTH].rstrip()


def neighbours_in_window(
    own_lengths: NDArray[np.int64], before_lengths: NDArray[np.int64], after_lengths: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which heads before and after join a head's window, by their lengths; short ones do, the one before first."""
    room = MAX_WINDOW_LENGTH - own_lengths
    first = before_lengths <= room
    return first, after_lengths <= room - np.where(first, before_lengths, 0)
