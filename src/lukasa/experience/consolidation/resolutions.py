"""Comparison of solved errors: whether two episodes solved the same problem in the same way.

Two solved errors are the same if their words or their meanings are close, and neither says the opposite of the other.

    words     the Jaccard index of the stems of the resolutions, or of messages and resolutions together, whichever is
              less, from 0.35 on
    meaning   (cosine of the resolutions + cosine of goal, message and resolution) / 2, from 0.5 on, if the resolutions
              reach 0.35 and the errors 0.2, and are not the same sentence with other words in it: words then decide

Meaning is a second opinion of the store's own embedder. Vectors are rounded to eight bits before they are compared, so a
stored one gives the same result as a new one. The embedder ``hash`` knows no meaning, and the scale of an unknown embedder
is unknown: the first compares words alone, the second needs 0.8.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from rapidfuzz.distance import Indel, Levenshtein

from lukasa.core.text_cache import cache_texts
from lukasa.text.lexicon import STOP_WORDS, WORDS
from lukasa.text.terms import find_words, fold_text, stem_word

if TYPE_CHECKING:
    from lukasa.models.embedder import Embedder

MIN_SIMILARITY = 0.5
MAX_DIFFERENT_SIMILARITY = 0.35
"""Below this, two solved errors have nothing in common, even if the goals of their episodes do."""
_MIN_WORD_SIMILARITY = 0.35
_MIN_FRAME_SIMILARITY, _MAX_FRAME_OVERLAP = 0.5, _MIN_WORD_SIMILARITY
_MIN_RESOLUTION_COSINE, _MIN_ERROR_COSINE = 0.35, 0.2
_KNOWN_SCALE = "minilm"
_UNKNOWN_SCALE_FACTOR = MIN_SIMILARITY / 0.8
_MIN_ALIGNED_SIMILARITY = 0.7
_MAX_REPLACED_WORDS = 3
_MAX_NEAREST = 24
_DAYS = {"yesterday", "today", "tomorrow"} | WORDS["weekdays"].keys()
_PUNCTUATION = ".,;:!?()[]{}<>\"'`“”‘’"
_SPECIFIC = re.compile(r"\d|[^\W_][_./\\:@=#][^\W_]|[a-z][A-Z]|^[A-Z]{2,}$|^[`\"'$/#@-]")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
REPEATED_GAPS = re.compile(r"…(?:[\s,;:/._-]*…)+")
_NEGATIONS = frozenset(WORDS["advice_negations"])


def _stem_all(words: str) -> frozenset[str]:
    return frozenset(map(stem_word, words.split()))


_OPPOSITES = (
    (_stem_all("enable enabled enables activate activated"), _stem_all("disable disabled deactivate deactivated")),
    (_stem_all("increase increased raise raised higher"), _stem_all("decrease decreased lower lowered reduce reduced")),
    (_stem_all("longer"), _stem_all("shorter")),
    (_stem_all("more"), _stem_all("less fewer")),
    (_stem_all("larger bigger"), _stem_all("smaller")),
    (_stem_all("allow allowed permit permitted"), _stem_all("deny denied forbid forbade forbidden block blocked")),
    (_stem_all("upgrade upgraded"), _stem_all("downgrade downgraded")),
    (_stem_all("encrypt encrypted"), _stem_all("decrypt decrypted")),
)
_CHANGES = (
    _stem_all("add added create created insert inserted install installed open opened start started"),
    _stem_all("remove removed delete deleted drop dropped uninstall uninstalled close closed stop stopped"),
)
"""Opposite changes of the same thing; of different things they may be two names for one change."""


class SolvedError(NamedTuple):
    """An error of one episode with the resolution of the same episode."""

    goal: str
    type: str
    message: str
    resolution: str


class ResolutionComparison:
    """Compares solved errors by words, and by meaning where the embedder knows any.

    A text is embedded when a comparison needs it: most solved errors need the vector of their resolution alone.
    """

    def __init__(self, open_embedder: Callable[[], Embedder] | None = None) -> None:
        self._open_embedder = open_embedder
        self._embedder: Embedder | None = None
        self._vectors: dict[str, Any] = {}

    @property
    def embedder(self) -> Embedder | None:
        """The embedder, or None if it knows no meaning."""
        if self._open_embedder is not None:
            self._embedder, self._open_embedder = self._open_embedder(), None
            if self._embedder.name.startswith("hash-"):
                self._embedder = None
        return self._embedder

    def similarity(self, a: SolvedError, b: SolvedError) -> float:
        """Return how similar two solved errors are; they are the same from ``MIN_SIMILARITY`` on."""
        words = self._similarity_by_words(a, b)
        return words if self._do_words_decide(words, a, b) else max(words, self._similarity_by_meaning(a, b))

    def may_be_same(self, a: SolvedError, b: SolvedError) -> bool:
        """Return False if the words and the resolutions alone show that two solved errors are not the same."""
        words = self._similarity_by_words(a, b)
        if self._do_words_decide(words, a, b):
            return words >= MIN_SIMILARITY
        first, second = self.vectors((a.resolution, b.resolution))
        return float(first @ second) >= _MIN_RESOLUTION_COSINE

    def _similarity_by_words(self, a: SolvedError, b: SolvedError) -> float:
        if a[1:] == b[1:]:
            return 1.0
        if are_opposite(a.resolution, b.resolution):
            return 0.0
        return min(1.0, word_similarity(a, b) * MIN_SIMILARITY / _MIN_WORD_SIMILARITY)

    def _do_words_decide(self, words: float, a: SolvedError, b: SolvedError) -> bool:
        """Return whether the similarity by words decides, so that meanings need not be compared."""
        return (
            words >= MIN_SIMILARITY
            or self.embedder is None
            or have_same_frame(a.resolution, b.resolution)
            or are_opposite(a.resolution, b.resolution)
        )

    def _similarity_by_meaning(self, a: SolvedError, b: SolvedError) -> float:
        vectors = self.vectors((*_embedded_texts(a), *_embedded_texts(b)))
        resolution, error, whole = (float(one @ other) for one, other in zip(vectors[:3], vectors[3:], strict=True))
        score = (resolution + whole) / 2
        if self.embedder is not None and not self.embedder.name.startswith(_KNOWN_SCALE):
            score *= _UNKNOWN_SCALE_FACTOR
        is_related = resolution >= _MIN_RESOLUTION_COSINE and error >= _MIN_ERROR_COSINE
        return score if is_related else min(score, MAX_DIFFERENT_SIMILARITY)

    def vectors(self, texts: Sequence[str]) -> list[Any]:
        """Return the vectors of texts, rounded to eight bits; unknown ones are computed together."""
        import numpy as np

        embedder = self.embedder
        assert embedder is not None
        if missing := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors.update(
                zip(missing, np.rint(embedder.embed(missing) * 127).astype(np.float32) / 127, strict=True)
            )
        return [self._vectors[text] for text in texts]

    def load(self, solved: SolvedError, stored: Mapping[str, str]) -> None:
        """Take over the stored vectors of a solved error if the same embedder computed them."""
        import numpy as np

        if self.embedder is not None and stored.get("embedder") == self.embedder.name:
            with suppress(KeyError, TypeError, ValueError):  # what cannot be read is computed again
                values = np.frombuffer(b64decode(stored["values"]), dtype=np.int8).reshape(-1, self.embedder.length)
                for text, vector in zip(_embedded_texts(solved), values.astype(np.float32) / 127, strict=False):
                    self._vectors.setdefault(text, vector)

    def stored(self, solved: SolvedError) -> dict[str, str]:
        """Return the vectors of a solved error in the form that ``load`` takes; empty if none were computed."""
        import numpy as np

        known = [self._vectors[text] for text in takewhile(self._vectors.__contains__, _embedded_texts(solved))]
        if not known or self.embedder is None:
            return {}
        values = np.rint(np.stack(known) * 127).astype(np.int8)
        return {"embedder": self.embedder.name, "values": b64encode(values.tobytes()).decode()}


class SolvedErrorIndex:
    """Solved errors by name, to find those that may be the same as another one."""

    def __init__(self, comparison: ResolutionComparison) -> None:
        self._comparison = comparison
        self._solved: list[tuple[SolvedError, str]] = []
        self._names_by_stem: dict[str, list[str]] = {}
        self._names_by_error: dict[tuple[str, ...], str] = {}
        self._rows: Any = None
        self._row_count = 0

    def add(self, solved: SolvedError, name: str) -> None:
        self._solved.append((solved, name))
        self._names_by_error.setdefault(solved[1:], name)
        for stem in _stems(solved.resolution):
            self._names_by_stem.setdefault(stem, []).append(name)

    def find_nearest(self, solved: SolvedError) -> list[str]:
        """Return the names of the solved errors that share most words with this one, and of those nearest in meaning.

        If one is the same to the letter, return that one alone. Where all are the same sentence with other words in it, words
        alone decide and nothing is embedded.
        """
        if solved[1:] in self._names_by_error:
            return [self._names_by_error[solved[1:]]]
        shared = Counter(name for stem in _stems(solved.resolution) for name in self._names_by_stem.get(stem, ()))
        found = sorted(shared, key=lambda name: (-shared[name], name))[:_MAX_NEAREST]
        if self._comparison.embedder is not None and not all(
            have_same_frame(solved.resolution, other.resolution) for other, _ in self._solved
        ):
            cosines = self._cosines(solved)
            near = [row for row, cosine in enumerate(cosines) if cosine >= _MIN_RESOLUTION_COSINE]
            near.sort(key=lambda row: (-cosines[row], row))
            found += [self._solved[row][1] for row in near[:_MAX_NEAREST]]
        return list(dict.fromkeys(found))

    def _cosines(self, solved: SolvedError) -> list[float]:
        """Return the cosines of all resolutions with this one; new ones get their row in the matrix first."""
        import numpy as np

        new = [item.resolution for item, _ in self._solved[self._row_count :]]
        *rows, vector = self._comparison.vectors([*new, solved.resolution])
        if self._rows is None or self._row_count + len(rows) > len(self._rows):
            grown = np.zeros((2 * (self._row_count + len(rows)), len(vector)), dtype=np.float32)
            if self._row_count:
                grown[: self._row_count] = self._rows[: self._row_count]
            self._rows = grown
        if rows:
            self._rows[self._row_count : self._row_count + len(rows)] = rows
        self._row_count += len(rows)
        cosines: list[float] = (self._rows[: self._row_count] @ vector).tolist()
        return cosines


def _embedded_texts(solved: SolvedError) -> tuple[str, str, str]:
    problem = solved.message or solved.type
    return (
        solved.resolution,
        f"{solved.type}: {solved.message}" if solved.message else solved.type,
        ". ".join(text.rstrip(".") for text in (solved.goal, problem, solved.resolution) if text),
    )


def own_objects(solved: SolvedError, others: Sequence[SolvedError]) -> frozenset[str]:
    """Return the stems of the words that a solved error shares with its own goal, and with no other solved error."""
    own = _stems(solved.goal) & (_stems(solved.message) | _stems(solved.resolution))
    return own.difference(*(_stems(text) for other in others if other != solved for text in other))


@cache_texts(1 << 14, 16_000_000, per_character=10)
def _stems(text: str) -> frozenset[str]:
    words = find_words(fold_text(text))
    return frozenset(stem_word(word) or word for word in words if word not in STOP_WORDS and not word.isdigit())


def word_similarity(a: SolvedError, b: SolvedError) -> float:
    """Return the smaller overlap of words: that of the resolutions, or that of the messages with the resolutions."""
    overlaps = []
    for one, other in ((a.resolution, b.resolution), (f"{a.message} {a.resolution}", f"{b.message} {b.resolution}")):
        stems, others = _stems(one), _stems(other)
        overlaps.append(len(stems & others) / len(stems | others) if stems or others else 0.0)
    return min(overlaps)


def have_same_frame(a: str, b: str) -> bool:
    """Return whether two texts put other words into the same sentence; an embedder takes them for the same."""
    stems, others = _stems(a), _stems(b)
    if len(stems & others) >= _MAX_FRAME_OVERLAP * len(stems | others):
        return False
    return float(Indel.normalized_similarity(fold_text(a).split(), fold_text(b).split())) >= _MIN_FRAME_SIMILARITY


def are_opposite(a: str, b: str) -> bool:
    """Return whether one text asks for the opposite change, or says in nearly the same words that something is not so."""
    words, others = (find_words(fold_text(text)) for text in (a, b))
    stems, other_stems = (frozenset(map(stem_word, group)) for group in (words, others))
    for one, other in _OPPOSITES:
        for mine, theirs in ((stems, other_stems), (other_stems, stems)):
            if mine & one and not mine & other and theirs & other and not theirs & one:
                return True
    rest, other_rest = (_stems(text) - _CHANGES[0] - _CHANGES[1] for text in (a, b))
    if 2 * len(rest & other_rest) < min(len(rest), len(other_rest)):
        return False
    if bool(_NEGATIONS.intersection(words)) != bool(_NEGATIONS.intersection(others)):
        return True
    verbs = {stem_word(group[0]) for group in (words, others) if group}
    return all(len(verbs & side) == 1 for side in _CHANGES)


def mask_differences(text: str, others: Sequence[str], objects: Container[str] = ()) -> str:
    """Return a text with ``…`` for what differs in the other texts.

    In a text that is nearly the same, the replaced words differ. Beyond that, numbers differ unless every text with
    numbers has them, and names, paths and identifiers differ unless another text has them. Words whose stems are in
    ``objects`` differ in any case.
    """
    words = text.split()
    plain = [_plain_word(word) for word in words]
    different = {other: [_plain_word(word) for word in other.split()] for other in others if other != text}
    if not different:
        return text
    gaps: set[int] = set()
    for theirs in different.values():
        if Indel.normalized_similarity(plain, theirs) >= _MIN_ALIGNED_SIMILARITY:
            for block in Levenshtein.opcodes(plain, theirs):
                if block.tag == "replace" and block.src_end - block.src_start <= _MAX_REPLACED_WORDS:
                    replaced = range(max(1, block.src_start), block.src_end)
                    gaps.update(index for index in replaced if plain[index] not in STOP_WORDS)
    with_numbers = [numbers for other in different if (numbers := frozenset(_NUMBER.findall(other)))]
    known = {word for theirs in different.values() for word in theirs}
    for index, (word, bare) in enumerate(zip(words, plain, strict=True)):
        starts_sentence = index == 0 or words[index - 1].endswith((".", ":", "!", "?"))
        is_name = not starts_sentence and word.strip(_PUNCTUATION)[:1].isupper()
        is_name = is_name or fold_text(word.strip(_PUNCTUATION)) in _DAYS
        if numbers := frozenset(_NUMBER.findall(word)):
            if not with_numbers or not all(numbers <= theirs for theirs in with_numbers):
                gaps.add(index)
        elif bare in objects or (
            bare not in known and (is_name or (_SPECIFIC.search(word) and bare not in STOP_WORDS))
        ):
            gaps.add(index)
    return REPEATED_GAPS.sub("…", " ".join(_mask_word(w) if i in gaps else w for i, w in enumerate(words)))


def _mask_word(word: str) -> str:
    """Return the gap for a word with the punctuation after it."""
    return "…" + word[len(word.rstrip(".,;:!?)")) :] if word.endswith((",", ";", ":", ")")) else "…"


def _plain_word(word: str) -> str:
    """Return a word without punctuation, letter case and ending."""
    folded = fold_text(word.strip(_PUNCTUATION))
    return (stem_word(folded) or folded) if folded.isalpha() else folded
