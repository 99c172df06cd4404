"""The bare reference of the vault's gate: the least work that judges a text among many.

It looks for the words of noise, and compares the text with those that share two of its longest words, by both measures
of the document. It has no scopes, no versions, no scan for secrets, no settings and no comparison of facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from zlib import crc32

import apsw
from rapidfuzz.distance import Indel

_SCHEMA = """
CREATE TABLE memory (seq INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE pair (pair_key INTEGER, seq INTEGER, PRIMARY KEY (pair_key, seq)) WITHOUT ROWID;
"""
_PAIRED_WORDS = 6


class BareGate:
    """Texts in a SQLite database in memory, by pairs of their longest words."""

    def __init__(self, noise: Iterable[str]) -> None:
        self._noise = tuple(noise)
        self._database = apsw.Connection(":memory:")
        self._database.execute(_SCHEMA)

    def fill(self, texts: Iterable[str]) -> None:
        """Hold these texts instead of those before."""
        rows = [(seq, text.lower()) for seq, text in enumerate(texts)]
        with self._database:
            self._database.execute("DELETE FROM pair; DELETE FROM memory")
            self._database.executemany("INSERT INTO memory VALUES (?, ?)", rows)
            self._database.executemany(
                "INSERT INTO pair VALUES (?, ?)", ((key, seq) for seq, text in rows for key in _pair_keys(text))
            )

    def judge(self, text: str) -> bool:
        """Return whether the text may be kept."""
        lower = text.lower()
        if any(signal in lower for signal in self._noise):
            return False
        words, keys = set(lower.split()), str(_pair_keys(lower))
        near = self._database.execute(
            "SELECT DISTINCT text FROM json_each(?) AS wanted JOIN pair ON pair_key = wanted.value JOIN memory USING (seq)",
            (keys,),
        )
        for (other,) in near:
            others = set(other.split())
            if len(words & others) >= 0.6 * len(words | others) or Indel.normalized_similarity(lower, other) >= 0.7:
                return False
        return True


def _pair_keys(text: str) -> list[int]:
    longest = sorted(set(text.split()), key=lambda word: (-len(word), word))[:_PAIRED_WORDS]
    return sorted({crc32(f"{one} {other}".encode()) for one, other in combinations(longest, 2)})
