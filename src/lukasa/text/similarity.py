"""Similarity of two texts: two exact measures, and keys by which similar texts find each other.

``word_overlap`` is the Jaccard index of their words. ``sequence_similarity`` is ``2 · LCS / (|a| + |b|)``, where LCS is the
length of their longest common subsequence of characters (the normalised Indel similarity of ``rapidfuzz``). Python's
``SequenceMatcher.ratio`` takes greedy blocks instead of the longest subsequence, depends on the order of its arguments
and ignores frequent letters of long texts; it is never higher.

Pair keys: a text has one key for every pair of its leading words. All texts put their words into the same order, rare and
long words first. Two texts whose overlap is at least ``MIN_OVERLAP`` share so many words that the first two shared words
are among the first ``n - ceil(MIN_OVERLAP · n) + 2`` words of each. So the pairs of those words find every such text, and
a pair of long words is so rare that it finds little else. A text of more than ``MAX_COMPLETE_WORDS`` different words has
the pairs of its first twelve only. Keys are numbers. Each namespace (a scope and a kind of record) has other numbers, so
that only texts of one namespace meet.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cache, lru_cache
from itertools import combinations
from typing import Literal
from zlib import crc32

from lukasa.text.stopwords import COMMON_WORDS

MIN_OVERLAP = 0.60
MAX_COMPLETE_WORDS = 27
_MAX_PAIRED_WORDS = 12
_MAX_CACHED_LENGTH = 2_000
_KEY_OFFSET = 2**31  # a key is a signed number of 32 bits, which every database has
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_UNSPACED_SCRIPT = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def normalise_text(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Return the text in one Unicode form, without letter case, with single blanks."""
    plain = text if text.isascii() else unicodedata.normalize(form, text)
    return " ".join(plain.casefold().split())


def distinct_words(text: str) -> frozenset[str]:
    """Return the different words of a normalised text. Scripts without spaces give their characters."""
    words = _WORD.findall(text)
    if text.isascii():
        return frozenset(words)
    found: set[str] = set()
    for word in words:
        characters = _UNSPACED_SCRIPT.findall(word) if not word.isascii() else ()
        if characters:
            found.update(characters)
            found.update(_WORD.findall(_UNSPACED_SCRIPT.sub(" ", word)))
        else:
            found.add(word)
    return frozenset(found)


def word_overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of all their words that two texts have in common; 0 for texts without words."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def sequence_similarity(a: str, b: str, *, floor: float = 0.0) -> float:
    """Return the similarity of two normalised texts as sequences of characters; 0 when it is below the floor."""
    return float(_rapidfuzz()[0](a, b, score_cutoff=floor))


def sequence_similarities(text: str, others: Sequence[str], floor: float) -> dict[int, float]:
    """Return the similarity to each other text that reaches the floor, by its index."""
    scorer, extract = _rapidfuzz()
    found = extract(text, others, scorer=scorer, processor=None, score_cutoff=floor, limit=None)
    return {index: score for _, score, index in found}


@cache
def _rapidfuzz() -> tuple[Callable[..., float], Callable[..., list[tuple[str, float, int]]]]:
    """Import the scorer and the bulk search on first use: the import takes longer than opening a store."""
    from rapidfuzz import process
    from rapidfuzz.distance import Indel

    return Indel.normalized_similarity, process.extract


def query_coverage(query_words: frozenset[str], text_words: frozenset[str]) -> float:
    """Return the share of the words of a query that a text has."""
    return len(query_words & text_words) / len(query_words) if query_words else 0.0


def text_pair_keys(text: str, *namespace: str) -> tuple[int, ...]:
    """Return the pair keys of a text in a namespace. The last few are cached: a text is often searched, then stored."""
    return (_cached_pair_keys if len(text) <= _MAX_CACHED_LENGTH else _cached_pair_keys.__wrapped__)(text, namespace)


@lru_cache(maxsize=2_048)
def _cached_pair_keys(text: str, namespace: tuple[str, ...]) -> tuple[int, ...]:
    return pair_keys(distinct_words(normalise_text(text)), *namespace)


def pair_keys(words: frozenset[str], *namespace: str) -> tuple[int, ...]:
    """Return the pair keys of a text with these words; the module says what they guarantee.

    A key is made of the checksums of two words, the first in its upper half, so that keys with the same first word are
    neighbours in an index. Pairs with the same key by chance only add one text to compare with.
    """
    limit = min(len(words) - -(-3 * len(words) // 5) + 2, _MAX_PAIRED_WORDS)
    start = crc32("\n".join(namespace).encode("utf-8", "surrogatepass"))
    sums = [crc32(word.encode("utf-8", "surrogatepass"), start) for word in leading_words(words, COMMON_WORDS)[:limit]]
    if len(sums) < 2:
        return tuple(number - _KEY_OFFSET for number in sums)
    return tuple({(first & 0xFFFF) * 0x10000 + (second >> 16) - _KEY_OFFSET for first, second in combinations(sums, 2)})


def leading_words(words: Iterable[str], common: Container[str]) -> list[str]:
    """Sort words so that those that say most come first: common words last, long words before short ones."""
    return sorted(words, key=lambda word: (word in common, -len(word), word))
