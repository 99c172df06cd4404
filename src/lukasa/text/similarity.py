"""How alike two texts are: two exact measures, and marks by which texts that are alike find each other.

``overlap`` is the Jaccard index of their words: how many they share, out of all they have. ``sequence`` is
``2 · LCS / (|a| + |b|)``, where LCS is the length of their longest common subsequence of characters (the normalised
Indel similarity of ``rapidfuzz``). Python's ``SequenceMatcher.ratio`` takes greedy blocks instead of the longest
subsequence, depends on the order of its arguments and ignores frequent letters of long texts; it is never higher.

Marks: each text bears a mark for every pair of its telling words. Put the words of a text in one order that holds for
all texts, longest first. Two texts whose overlap is at least ``LEAST_OVERLAP`` share so many words that the first two
they share stand within the first ``n - ceil(LEAST_OVERLAP · n) + 2`` words of each. So the pairs of those words are
enough to find every such text, and a pair of long words is so rare that it finds little else. Texts of more than
``COMPLETE_UP_TO`` different words bear the pairs of their first twelve. Marks are numbers; those of another place (a
scope and a kind of record) are other numbers, so that texts meet only where they are compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import combinations
from zlib import crc32

MIN_OVERLAP = 0.60
MAX_COMPLETE_WORDS = 27
_MAX_PAIRED_WORDS = 12
_MAX_CACHED_LENGTH = 2_000
_KEY_OFFSET = 2**31  # a mark is a signed number of 32 bits, which every database has
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_UNSPACED_SCRIPT = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_COMMON_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could did do does doing done
    each for from had has have he her here his how i if in into is it its itself just like made make may me more most my
    new no nor not now of off on once one only or other our out over own same say she should so some such than that the
    their them then there these they this those through to too under until up us use used uses user users very was way we
    well were what when where which while who why will with would you your""".split()  # noqa: SIM905 - a list of words reads best as words
)


def normalise_text(text: str) -> str:
    """The text as it is compared: compatibility forms, letter case and runs of blanks do not count."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def distinct_words(text: str) -> frozenset[str]:
    """The different words of a folded text. Scripts that are written without spaces give their characters."""
    if text.isascii():
        return frozenset(_WORD.findall(text))
    found: set[str] = set()
    for word in _WORD.findall(text):
        single = _UNSPACED_SCRIPT.findall(word) if not word.isascii() else ()
        if single:
            found.update(single)
            found.update(_WORD.findall(_UNSPACED_SCRIPT.sub(" ", word)))
        else:
            found.add(word)
    return frozenset(found)


def word_overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of their words that two texts have in common; texts without words have nothing in common."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def sequence_similarity(a: str, b: str, *, floor: float = 0.0) -> float:
    """How much of two folded texts is one and the same sequence of characters; 0 when that is below the floor."""
    return float(_indel_scorer()(a, b, score_cutoff=floor))


def sequence_similarities(text: str, others: Sequence[str], floor: float) -> dict[int, float]:
    """The same between a folded text and many: by its place, each other one that reaches the floor."""
    scorer, extract = _indel_scorer(), _bulk_extractor()
    found = extract(text, others, scorer=scorer, processor=None, score_cutoff=floor, limit=None)
    return {at: score for _, score, at in found}


@cache
def _indel_scorer() -> Callable[..., float]:
    """Loaded when first needed: it takes longer than all the rest of opening a store."""
    from rapidfuzz.distance import Indel

    return Indel.normalized_similarity


@cache
def _bulk_extractor() -> Callable[..., list[tuple[str, float, int]]]:
    from rapidfuzz import process

    return process.extract


def query_coverage(query_words: frozenset[str], text_words: frozenset[str]) -> float:
    """The share of the words of a question that a text has."""
    return len(query_words & text_words) / len(query_words) if query_words else 0.0


def text_pair_keys(text: str, *namespace: str) -> tuple[int, ...]:
    """The marks of a text in a place. The last few are remembered: who looks for a text often keeps it next."""
    return (_cached_pair_keys if len(text) <= _MAX_CACHED_LENGTH else _cached_pair_keys.__wrapped__)(text, namespace)


@lru_cache(maxsize=2_048)
def _cached_pair_keys(text: str, namespace: tuple[str, ...]) -> tuple[int, ...]:
    return pair_keys(distinct_words(normalise_text(text)), *namespace)


def pair_keys(text_words: frozenset[str], *namespace: str) -> tuple[int, ...]:
    """The marks of a text with these words; see above for what they promise.

    A mark is made of the checksums of two words, the first in its upper half: marks with the same first word stand
    side by side in an index. Pairs that meet by chance only bring one more text to compare with.
    """
    ordered = sorted(text_words, key=_word_sort_key)[: _count_paired_words(len(text_words))]
    start = crc32("\n".join(namespace).encode("utf-8", "surrogatepass"))
    sums = [crc32(word.encode("utf-8", "surrogatepass"), start) for word in ordered]
    if len(sums) < 2:
        return tuple(number - _KEY_OFFSET for number in sums)
    return tuple({(first & 0xFFFF) * 0x10000 + (second >> 16) - _KEY_OFFSET for first, second in combinations(sums, 2)})


def _count_paired_words(count: int) -> int:
    """How many of so many words, the first in the order, are paired."""
    return min(count - -(-3 * count // 5) + 2, _MAX_PAIRED_WORDS)


def _word_sort_key(word: str) -> tuple[bool, int, str]:
    return word in _COMMON_WORDS, -len(word), word
