"""The signals of recall: pure functions from a question and its candidates to one number per candidate.

All values lie between 0 and 1, so that a weight says how much a signal can matter. Text features, which do not depend on
the question, come first.

A long text is represented by its lead passage, because people say first what they write about. Facts that lie deeper in
the text are found by their words (see ``coverage``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import compress
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lukasa.core.text_cache import BoundedCache, cache_texts
from lukasa.recall.query import (
    ASSISTANT_ROLES,
    ParsedQuestion,
    QuestionKind,
    TimeOrder,
    asks_for_several,
    asks_for_summary,
)
from lukasa.text.dates import find_periods
from lukasa.text.patterns import compile_on_use
from lukasa.text.terms import extract_keywords, find_related_offsets, find_term_offsets, fold_text, terms_from_words

Values = NDArray[np.float64]

MAX_WHOLE_LENGTH = 450
"""A text of up to this many characters is its own lead passage."""
MAX_PART_LENGTH = 400
"""The length limit of the lead passage of a longer text."""
_SENTENCE_SPAN = 100  # words of one sentence usually lie within this many characters
_MAX_WINDOW_LENGTH = 600  # adjacent passages join a window while their total length stays within this
_K1, _B = 1.2, 0.75  # the usual constants of BM25
_UNSEEN_TEXTS = 20  # few texts say little about how rare a word is, so that many others without it are assumed
_MIN_MATCH_SHARE = 0.3  # a best match below this share of the question does not count as a full match
_ANSWER_SHARE = 0.8  # the share of the nearness of a question to which an answer is raised
_MIN_COSINE_SPREAD = 0.4  # a few hundred candidates span more; among fewer, cosines are not stretched beyond this
_MIN_SCORE_SPREAD = 0.8  # the same for scores
MAX_DEDUCTION = 0.25
"""The deduction from a turn that stands between two better turns, if the question asks for several things."""
_DAYS_SOON_AFTER = 10  # people still talk about an event within this many days
_MAX_RULES = 5  # more would crowd out the answer
_SEARCHED_FOR_DATES = 30  # a text below these would not be among the best with a date either
_MAX_PERIOD_DAYS = 100  # a text about a whole year says little about one day in it
_TOPIC_HITS, _TOPIC_SEARCHED = 20, 150  # so many of the best name the topic, and so many are searched for it
_MIN_SHARING, _ADDED_TERMS = 3, 10  # hits that share a word of the topic; how many such words count
_MAX_BRIEF_LENGTH = 100  # a longer question usually also states something

_OTHER_QUESTION_MARKS = ("\uff1f", "؟", "՞", "፧", "\u037e")
_SENTENCE_ENDS = (". ", "! ", "? ", "\n")
_RULE = compile_on_use(r"(?:^|[.!?:\n]\s*)(?:always|never) (?!been\b)[a-z]+|\bfrom now on\b", re.IGNORECASE)
_RULE_HINTS = ("always", "never", "from now on")
_PREFERENCE = compile_on_use(
    r"\bI(?:['’]d| would)? prefer\b|\bmy preference\b|\bI(?:['’]ve| have)? (?:chosen|decided)\b|\bI like to\b"
    r"|\bI['’]m trying to keep\b",
    re.IGNORECASE,
)
# Each of these patterns begins with what it looks for first, because that is found fastest, and then looks back.
_FIRST_PERSON = compile_on_use(r"[IMWOmwo](?:(?<=\bI)|(?<=\b[Mm])y|(?<=\b[Ww])e|(?<=\b[Oo])ur)\b")
_SECOND_PERSON = compile_on_use(r"[Yy](?<=\b[Yy])ou(?:rs?)?\b")
_SENTENCE = compile_on_use(r"[^.!?\n]+[.!?]*")
_NAME = compile_on_use(r" (?<=[a-z,] )[A-Z][a-z](?: [A-Z][a-z])?")  # "Al Bo" is one name
_WORD, _LOWER, _UPPER, _NUMERAL, _PRONOUN, _BEFORE_NAME = (1 << bit for bit in range(6))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CLASSES = {
    _WORD: f"{_LETTERS}{_LETTERS.upper()}0123456789_",
    _LOWER: _LETTERS,
    _UPPER: _LETTERS.upper(),
    _NUMERAL: "0123456789",
    _PRONOUN: "IMWOmwoYy",
    _BEFORE_NAME: f"{_LETTERS},",
}
_CLASSES_OF_BYTE = bytes(sum(bit for bit, letters in _CLASSES.items() if chr(byte) in letters) for byte in range(256))


class TextFeatures(NamedTuple):
    """Features of texts that do not depend on the question, one value per text; each lies between 0 and 1."""

    personal: Values
    """How much the author speaks of themselves."""
    question_share: Values
    """The share of the text that is brief questions."""
    specific: Values
    """How many names and numbers the text has; 1 from two on."""
    about_speaker: Values
    """How much it is about its speaker rather than its listener: "I" against "you"; two thirds without either."""


class RecallCandidate(NamedTuple):
    """A record that might answer the question, with what the indexes know about it."""

    seq: int
    text: str
    author: str = ""
    speaker: str = ""
    """Whose words they are; the author's if empty."""
    moment: datetime | None = None
    session: str | None = None
    before: str | None = None
    """The text of the previous turn of its session."""
    after: str | None = None
    """The text of the next turn of its session."""
    cosine: float | None = None
    """The cosine between its lead passage and the question; ``None`` without a vector."""
    tier: float = 0.0
    """How settled it is, between 0 and 1: canon is 1."""
    trust: float = 0.0
    """The trust in its author, between 0 and 1."""
    links: frozenset[int] = frozenset()
    """The positions of the records that it links to or that link to it."""
    asked_cosine: float | None = None
    """The cosine of the previous turn, if that turn asks something and is a candidate too."""

    @property
    def name(self) -> str:
        """The speaker, or else the author."""
        return self.speaker or self.author


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Figures of the text index: the number of texts, and how many of them hold each term."""

    text_count: int
    texts_with_term: Mapping[str, int] = field(default_factory=dict)

    def term_weight(self, term: str) -> float:
        """Return the inverse document frequency of a term: the rarer, the higher; in a small store all are nearly alike."""
        holding = min(self.texts_with_term.get(term, 0), self.text_count)
        return log(1 + (self.text_count + _UNSEEN_TEXTS - holding + 0.5) / (holding + 0.5))


def lead_passage(text: str) -> str:
    """Return the part of a text that represents it: all of a short text, the first sentences of a long one."""
    if len(text) <= MAX_WHOLE_LENGTH:
        return text
    stripped = text.lstrip()
    end = max(stripped.rfind(mark, 0, MAX_PART_LENGTH + 1) for mark in _SENTENCE_ENDS)
    return stripped[: end + 1 if end > 0 else MAX_PART_LENGTH].rstrip()


def asks_something(text: str) -> bool:
    """Tell whether a text has a question mark of any script."""
    return "?" in text or (not text.isascii() and any(mark in text for mark in _OTHER_QUESTION_MARKS))


def speaks_of_self(text: str) -> bool:
    """Tell whether the author speaks of themselves."""
    return _FIRST_PERSON.search(text) is not None


def states_rule(passage: str) -> bool:
    """Return whether a text states a standing rule."""
    lowered = passage.lower()
    return any(hint in lowered for hint in _RULE_HINTS) and _RULE.search(passage) is not None


def _count_mentions_together(passages: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """Count the words of the first and the second person and the names of many ASCII texts, and tell which have a digit.

    All texts are joined, and searched byte by byte.
    """
    joined = "\n".join(("", *passages, *[""] * 6)).encode()  # a search looks one byte back and up to five ahead
    data = np.frombuffer(joined, np.uint8)
    classes = np.frombuffer(joined.translate(_CLASSES_OF_BYTE), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, passages), np.int64, len(passages)) + 1)

    def count_by_text(offsets: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.bincount(np.searchsorted(ends, offsets), minlength=len(passages))

    is_inside = (classes & _WORD).view(np.bool_)
    begins = np.flatnonzero((classes[1:] & _PRONOUN > 0) & ~is_inside[:-1]) + 1
    second, third, fourth, fifth = (data[begins + place] for place in range(1, 5))
    ends_1, ends_2, ends_3, ends_4, ends_5 = (~is_inside[begins + place] for place in range(1, 6))
    first, lowered = data[begins], data[begins] | 32
    is_first_person = (first == ord("I")) & ends_1
    is_first_person |= (lowered == ord("m")) & (second == ord("y")) & ends_2
    is_first_person |= (lowered == ord("w")) & (second == ord("e")) & ends_2
    is_first_person |= (lowered == ord("o")) & (second == ord("u")) & (third == ord("r")) & ends_3
    is_second_person = (lowered == ord("y")) & (second == ord("o")) & (third == ord("u"))
    is_second_person &= ends_3 | ((fourth == ord("r")) & (ends_4 | ((fifth == ord("s")) & ends_5)))
    is_name = (classes[2:-1] & _UPPER > 0) & (classes[3:] & _LOWER > 0)
    is_name &= (data[1:-2] == ord(" ")) & (classes[:-3] & _BEFORE_NAME > 0)
    names = np.flatnonzero(is_name) + 1
    places = np.arange(len(names))
    is_near = np.diff(names, prepend=-9) == 3  # of two names in three letters each the second is part of the first
    in_run = places - np.maximum.accumulate(np.where(is_near, 0, places))
    return (
        count_by_text(begins[is_first_person]),
        count_by_text(begins[is_second_person]),
        count_by_text(names[in_run % 2 == 0]),
        count_by_text(np.flatnonzero(classes & _NUMERAL > 0)) > 0,
    )


def compute_features(passages: Sequence[str]) -> TextFeatures:
    """Compute the features of some texts."""
    is_ascii = np.fromiter(map(str.isascii, passages), np.bool_, len(passages))
    mentions = np.zeros((4, len(passages)), dtype=np.int64)
    mentions[:, is_ascii] = _count_mentions_together(list(compress(passages, is_ascii)))
    for index in np.flatnonzero(~is_ascii).tolist():
        counts = [len(pattern.findall(passages[index])) for pattern in (_FIRST_PERSON, _SECOND_PERSON, _NAME)]
        mentions[:, index] = (*counts, any(map(str.isdecimal, passages[index])))
    first_person, second_person, names, has_digit = mentions
    shares_of_questions = np.zeros(len(passages))
    for index, passage in enumerate(passages):
        if "?" in passage:
            sentences = [sentence for found in _SENTENCE.findall(passage) if (sentence := found.strip())]
            brief = (len(text) for text in sentences if text.endswith("?") and len(text) <= _MAX_BRIEF_LENGTH)
            shares_of_questions[index] = sum(brief) / (sum(map(len, sentences)) or 1)
    return TextFeatures(
        personal=np.minimum(1.0, first_person / 3),
        question_share=shares_of_questions,
        specific=np.minimum(1.0, (names + has_digit) / 2),
        about_speaker=(first_person + 1) / (first_person + second_person + 1.5),
    )


_FEATURE_BYTES = 500


def _cached_features(passages: Sequence[str]) -> TextFeatures:
    """Return the features of some texts; those of new texts are computed together."""
    known = {passage: _features.get(passage) for passage in passages}
    if missing := [passage for passage, features in known.items() if features is None]:
        for passage, *features in zip(missing, *(row.tolist() for row in compute_features(missing)), strict=True):
            known[passage] = tuple(features)
            _features.keep(passage, tuple(features), _FEATURE_BYTES + len(passage))
    return TextFeatures(*np.array([known[passage] for passage in passages]).reshape(-1, len(TextFeatures._fields)).T)


_features: BoundedCache[str, tuple[float, ...]] = BoundedCache(16_000_000)


_cached_periods = cache_texts(1 << 13, 8_000_000)(find_periods)


@dataclass(frozen=True, slots=True)
class TermMatches:
    """Matches of the question's terms in many texts; each text is searched once."""

    row_by_text: Mapping[str, int]
    """The row of each distinct text."""
    lead_lengths: Sequence[int]
    """The length of each text's lead passage."""
    counts_in_lead: Values
    """The number of occurrences of each term in the lead passage of each text."""
    presence_in_text: Values
    """1 where a term occurs anywhere in a text."""
    term_offsets: Mapping[int, Sequence[tuple[int, int]]]
    """For each long text, the offsets of matches with the index of the term found there."""

    @classmethod
    def from_texts(
        cls,
        candidate_texts: Sequence[str],
        adjacent_texts: Sequence[str],
        terms: Sequence[str],
        find_offsets: Callable[[str, str], list[int]] = find_term_offsets,
    ) -> TermMatches:
        """Search whole candidate texts, and the lead passages of texts that are only adjacent to one.

        All texts are joined, so that one search per term covers them all.
        """
        candidates = dict.fromkeys(candidate_texts)
        searched = list(candidates | dict.fromkeys(adjacent_texts))
        row_by_text = {text: row for row, text in enumerate(searched)}
        lengths = list(map(len, searched))
        is_long = np.array(lengths) > MAX_WHOLE_LENGTH
        for row in np.flatnonzero(is_long).tolist():
            lead = lead_passage(searched[row])
            lengths[row] = len(lead)
            if row >= len(candidates):
                searched[row] = lead
        joined = "\n".join(searched)
        if joined.isascii():
            joined = joined.lower()
        else:
            searched = list(map(fold_text, searched))
            joined = "\n".join(searched)
        starts = np.zeros(len(searched) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, searched), np.int64, len(searched)) + 1, out=starts[1:])
        lead_ends = starts[:-1] + lengths
        in_lead = np.zeros((len(searched), len(terms)))
        in_text = np.zeros((len(searched), len(terms)))
        term_offsets: dict[int, list[tuple[int, int]]] = {}
        for index, term in enumerate(terms):
            offsets = np.array(find_offsets(joined, term), dtype=np.int64)
            rows = np.searchsorted(starts, offsets, side="right") - 1
            in_text[rows, index] = 1.0
            in_lead[:, index] = np.bincount(rows[offsets < lead_ends[rows]], minlength=len(searched))
            in_long = is_long[rows]
            for row, offset in zip(rows[in_long].tolist(), offsets[in_long].tolist(), strict=True):
                term_offsets.setdefault(row, []).append((offset, index))
        return cls(row_by_text, lengths, in_lead, in_text, term_offsets)

    def count_in_windows(self, candidates: Sequence[RecallCandidate]) -> tuple[Values, Values]:
        """Count each term in the window of each candidate; return the counts and the window lengths.

        A window is the candidate's lead passage with those of the turns before and after it, as far as they fit; the
        turn before is tried first.
        """
        rows: dict[str | None, int] = {None: len(self.lead_lengths)}
        rows.update(self.row_by_text)
        own = np.array([rows[candidate.text] for candidate in candidates])
        before = np.array([rows[candidate.before] for candidate in candidates])
        after = np.array([rows[candidate.after] for candidate in candidates])
        length = np.array([*self.lead_lengths, _MAX_WINDOW_LENGTH + 1])  # a missing turn is too long to fit
        space = _MAX_WINDOW_LENGTH - length[own]
        before_fits = length[before] <= space
        after_fits = length[after] <= space - np.where(before_fits, length[before], 0)
        counts, lengths = self.counts_in_lead[own], length[own].astype(np.float64)
        for adjacent, fits in ((before, before_fits), (after, after_fits)):
            counts[fits] += self.counts_in_lead[adjacent[fits]]
            lengths[fits] += length[adjacent[fits]]
        return counts, lengths


class RankingEvidence:
    """A question with its candidates; whatever several signals need is computed once."""

    def __init__(
        self, question: ParsedQuestion, candidates: Sequence[RecallCandidate], corpus: CorpusStatistics
    ) -> None:
        self.question = question
        self.candidates = candidates
        self.corpus = corpus
        self.asks_for_several = asks_for_several(question)
        self.term_weights = np.array([corpus.term_weight(term) for term in question.terms])
        self.asked_weights = np.where([term in question.names for term in question.terms], 0.0, self.term_weights)
        """The weights of the question's terms; names of speakers have none."""
        self.cosines: Values = np.array([candidate.cosine for candidate in candidates], dtype=np.float64)
        """The cosine of each candidate; not a number where it has none."""

    @property
    def zeros(self) -> Values:
        """The value of a signal that does not apply to the question."""
        return np.zeros(len(self.candidates))

    @cached_property
    def term_matches(self) -> TermMatches:
        texts = [candidate.text for candidate in self.candidates]
        adjacent = [
            text for candidate in self.candidates for text in (candidate.before, candidate.after) if text is not None
        ]
        names = self.question.names

        def find_offsets(text: str, term: str) -> list[int]:
            return find_term_offsets(text, term) if term in names else find_related_offsets(text, term)

        return TermMatches.from_texts(texts, adjacent, self.question.terms, find_offsets)

    @cached_property
    def leads(self) -> list[str]:
        """The lead passage of each candidate."""
        return [
            text if len(text) <= MAX_WHOLE_LENGTH else lead_passage(text)
            for candidate in self.candidates
            for text in (candidate.text,)
        ]

    @cached_property
    def features(self) -> TextFeatures:
        return _cached_features(self.leads)

    @cached_property
    def word_scores(self) -> Values:
        if not self.candidates or not self.question.terms:
            return self.zeros
        counts, lengths = self.term_matches.count_in_windows(self.candidates)
        saturation = _K1 * (1 - _B + _B * lengths / (lengths.mean() or 1.0))
        scores: Values = (counts * (_K1 + 1) / (counts + saturation[:, None])) @ self.term_weights
        return scores / (max(float(scores.max()), _MIN_MATCH_SHARE * float(self.term_weights.sum())) or 1.0)

    @cached_property
    def presence(self) -> Values:
        """1 where a term of the question occurs in the text of a candidate."""
        rows = self.term_matches.row_by_text
        return self.term_matches.presence_in_text[[rows[candidate.text] for candidate in self.candidates]]

    @cached_property
    def covered_shares(self) -> Values:
        """The share of the question, rare words counting more, that one passage of each text holds.

        Names of speakers do not count. A question without words is covered by every text.
        """
        weights = self.asked_weights
        total = float(weights.sum())
        if not total:
            return self.zeros + 1.0
        is_asked = np.sign(weights).tolist()
        matches = self.term_matches
        share: Values = (self.presence @ weights) / total
        for index in np.flatnonzero(share > 0.5).tolist():
            if len(text := self.candidates[index].text) > MAX_WHOLE_LENGTH:
                row = matches.row_by_text[text]
                passage = _max_weight_within(MAX_PART_LENGTH, matches.term_offsets[row], weights.tolist()) / total
                sentence = _max_weight_within(_SENTENCE_SPAN, matches.term_offsets[row], is_asked) / sum(is_asked)
                share[index] = (passage + sentence) / 2
        return share

    @property
    def shares_with_question(self) -> Values:
        """The covered shares, where a short turn and the question it follows are one passage."""
        answers = [
            (index, before)
            for index, candidate in enumerate(self.candidates)
            if (before := candidate.before)
            and asks_something(before)
            and len(candidate.text) + len(before) <= _MAX_WINDOW_LENGTH
        ]
        total = float(self.asked_weights.sum())
        if not answers or not total:
            return self.covered_shares
        indexes, rows = [index for index, _ in answers], self.term_matches.row_by_text
        asked = self.term_matches.presence_in_text[[rows[before] for _, before in answers]]
        together = np.maximum(asked, self.presence[indexes]) @ self.asked_weights / total
        shares = self.covered_shares.copy()
        shares[indexes] = np.maximum(shares[indexes], together)
        return shares

    @property
    def vector_scores(self) -> Values:
        cosines = self.cosines
        is_unknown = np.isnan(cosines)
        if is_unknown.all():
            return self.zeros
        cosines = np.where(is_unknown, np.nanmin(cosines), cosines)
        asked = np.array([candidate.asked_cosine for candidate in self.candidates], dtype=np.float64)
        return _scale_to_unit(np.fmax(cosines, cosines + _ANSWER_SHARE * (asked - cosines)), _MIN_COSINE_SPREAD)

    @property
    def subject_matches(self) -> Values:
        """1 for authors the question is about; 1 for all when it is about no one in particular."""
        wanted = self.question.subject
        if not wanted:
            return self.zeros + 1.0
        return _to_array([float(candidate.name in wanted) for candidate in self.candidates])

    @cached_property
    def time_scores(self) -> Values:
        asked = self.question.periods
        if not asked:
            return self.zeros

        def days_since(day: date | None) -> int:
            gaps = [] if day is None else [gap for period in asked if (gap := period.days_since(day)) is not None]
            return min(gaps, default=_DAYS_SOON_AFTER + 1)

        def score_candidate(candidate: RecallCandidate) -> float:
            day = _candidate_day(candidate)
            shortest = days_since(day)
            if not shortest:
                return 1.0
            mentioned = _cached_periods(lead_passage(candidate.text), day)
            if any(
                wanted.overlaps(period) for period in mentioned if period.length <= _MAX_PERIOD_DAYS for wanted in asked
            ):
                return 1.0
            return 0.5 if shortest <= _DAYS_SOON_AFTER else 0.0

        return _to_array(map(score_candidate, self.candidates))


def _to_array(numbers: Iterable[float]) -> Values:
    return np.fromiter(numbers, np.float64)


def _candidate_day(candidate: RecallCandidate) -> date | None:
    return None if candidate.moment is None else candidate.moment.date()


def _scale_to_unit(values: Values, min_spread: float) -> Values:
    """Scale values so that the lowest is 0, and the highest 1 where they differ by ``min_spread`` or more.

    Smaller differences stay small: a little difference must not decide between two records that are nearly alike.
    """
    if not values.size:
        return values
    low, high = float(values.min()), float(values.max())
    return (values - low) / max(high - low, min_spread)


def words(evidence: RankingEvidence) -> Values:
    """Score the words of the lead passage and the adjacent turns by BM25; the best is 1 unless it matches little."""
    return evidence.word_scores


def meaning(evidence: RankingEvidence) -> Values:
    """Score the lead passage by the cosine of its vector with the question's.

    A turn that follows a question says little without it ("Sushi!"), so that it is nearly as near as that question, if
    that is nearer.
    """
    return evidence.vector_scores


def coverage(evidence: RankingEvidence) -> Values:
    """Score how much of the question one passage of the text covers; half of it or less scores 0.

    Names of speakers do not count. In a long text, half of the score is the share of keywords, rare or not, that occur
    within one sentence: words that merely meet in a passage say little. A short turn and the question that it follows
    are one passage. The score is squared, so that covering nearly everything counts and covering little more than half
    hardly does. Authors the question is not about get a quarter. If the question asks for several things the score is
    halved: few of them are in a text that has all of its words.
    """
    if evidence.question.names.issuperset(evidence.question.terms):
        return evidence.zeros
    share, highest = evidence.shares_with_question, 0.5 if evidence.asks_for_several else 1.0
    return np.clip(2 * share - 1, 0.0, 1.0) ** 2 * np.where(evidence.subject_matches > 0, highest, highest / 4)


def _max_weight_within(length: int, term_offsets: Sequence[tuple[int, int]], weights: Sequence[float]) -> float:
    """Return the highest total weight of distinct terms within any span of ``length`` characters."""
    best = inside = 0.0
    counts = [0] * len(weights)
    first = 0
    ordered = sorted(term_offsets)
    for offset, term in ordered:
        if not counts[term]:
            inside += weights[term]
        counts[term] += 1
        while offset - ordered[first][0] > length:
            dropped = ordered[first][1]
            counts[dropped] -= 1
            if not counts[dropped]:
                inside -= weights[dropped]
            first += 1
        best = max(best, inside)
    return best


def phrases(evidence: RankingEvidence) -> Values:
    """Return the share of the question's quotations and identifiers that occur literally in the text."""
    wanted = evidence.question.phrases
    if not wanted:
        return evidence.zeros
    folded = (fold_text(candidate.text) for candidate in evidence.candidates)
    return _to_array(sum(phrase in text for phrase in wanted) / len(wanted) for text in folded)


def subject(evidence: RankingEvidence) -> Values:
    """Return 1 for texts by the authors the question is about."""
    return evidence.subject_matches if evidence.question.subject else evidence.zeros


def time(evidence: RankingEvidence) -> Values:
    """Return 1 for texts from or about the time the question names, 0.5 for texts from soon after."""
    return evidence.time_scores


def rule(evidence: RankingEvidence) -> Values:
    """Return 1 for the few standing rules nearest to the question, when it is a request that rules apply to."""
    if not evidence.question.standing:
        return evidence.zeros
    stated = _to_array(
        [
            float(states_rule(lead) and candidate.name.lower() not in ASSISTANT_ROLES)
            for candidate, lead in zip(evidence.candidates, evidence.leads, strict=True)
        ]
    )
    if np.count_nonzero(stated) <= _MAX_RULES:
        return stated
    nearness = np.where(stated > 0, evidence.word_scores + evidence.vector_scores, -1.0)
    values = evidence.zeros
    values[np.argsort(-nearness, kind="stable")[:_MAX_RULES]] = 1.0
    return values


def preference(evidence: RankingEvidence) -> Values:
    """Return 1 for texts in which people state a preference or a decision, when the question asks for advice."""
    if not evidence.question.standing or evidence.question.kind is not QuestionKind.ADVICE:
        return evidence.zeros
    return _to_array(
        float(candidate.name.lower() not in ASSISTANT_ROLES and bool(_PREFERENCE.search(lead_passage(candidate.text))))
        for candidate in evidence.candidates
    )


def personal(evidence: RankingEvidence) -> Values:
    """Score how much the author speaks of themselves, when the question is about someone."""
    if not evidence.question.subject:
        return evidence.zeros
    return evidence.features.personal


def telling(evidence: RankingEvidence) -> Values:
    """Return the share of the text that states something instead of asking."""
    return 1.0 - evidence.features.question_share


def specific(evidence: RankingEvidence) -> Values:
    """Score whether the text has names or numbers."""
    return evidence.features.specific


def opening(evidence: RankingEvidence) -> Values:
    """Return 1 for the first turn of a session and for records outside one: there people say what it is about."""
    return _to_array([float(candidate.before is None) for candidate in evidence.candidates])


def recency(evidence: RankingEvidence) -> Values:
    """Score by date among all candidates, when the question asks for the newest or the oldest."""
    if evidence.question.order is TimeOrder.NONE:
        return evidence.zeros
    days = [day for candidate in evidence.candidates if (day := _candidate_day(candidate)) is not None]
    if not days:
        return evidence.zeros
    first, last = min(days), max(days)
    span = (last - first).days or 1
    newest = evidence.question.order is TimeOrder.NEWEST

    def score_candidate(candidate: RecallCandidate) -> float:
        if (day := _candidate_day(candidate)) is None:
            return 0.0
        return (day - first if newest else last - day).days / span

    return _to_array(score_candidate(candidate) for candidate in evidence.candidates)


def tier(evidence: RankingEvidence) -> Values:
    """Score how settled the record is."""
    return np.clip(_to_array([candidate.tier for candidate in evidence.candidates]), 0.0, 1.0)


def trust(evidence: RankingEvidence) -> Values:
    """Score the trust in the author."""
    return np.clip(_to_array([candidate.trust for candidate in evidence.candidates]), 0.0, 1.0)


def linked(evidence: RankingEvidence, scores: Values) -> Values:
    """Return the scaled score of the best candidate that each one is linked with."""
    candidates = evidence.candidates
    if not any(candidate.links for candidate in candidates):
        return evidence.zeros
    scaled = _scale_to_unit(scores, _MIN_SCORE_SPREAD)
    by_seq = {candidate.seq: float(score) for candidate, score in zip(candidates, scaled, strict=True)}
    return _to_array(max((by_seq.get(seq, 0.0) for seq in candidate.links), default=0.0) for candidate in candidates)


def session(evidence: RankingEvidence, scores: Values) -> Values:
    """Return the best score of each candidate's session, itself included, scaled over all sessions."""
    candidates = evidence.candidates
    groups = [candidate.seq if candidate.session is None else candidate.session for candidate in candidates]
    best: dict[int | str, float] = {}
    for group, score in zip(groups, scores.tolist(), strict=True):
        if score >= best.get(group, score):
            best[group] = score
    return _scale_to_unit(_to_array([best[group] for group in groups]), _MIN_SCORE_SPREAD)


def dated(evidence: RankingEvidence, scores: Values) -> Values:
    """Return 1 for those of the best texts that name a date, such as "last week", when the question asks for one."""
    values = evidence.zeros
    if evidence.question.kind is QuestionKind.TIME:
        for index in np.argsort(-scores, kind="stable")[:_SEARCHED_FOR_DATES].tolist():
            candidate = evidence.candidates[index]
            values[index] = bool(_cached_periods(lead_passage(candidate.text), _candidate_day(candidate)))
    return values


def adjacent(evidence: RankingEvidence, scores: Values) -> Values:
    """Return 0.5 for each better turn next to a turn, when the question asks for several things: both tell of the same thing.

    A turn that is no longer better, because of its own neighbours, does not count.
    """
    values = evidence.zeros
    if not evidence.asks_for_several:
        return values
    known: dict[tuple[str, str | None], float] = {}
    for index in np.argsort(-scores, kind="stable").tolist():
        candidate, score = evidence.candidates[index], float(scores[index])
        if (group := candidate.session) is not None:
            better = [known.get((group, text), score) > score for text in (candidate.before, candidate.after)]
            values[index] = sum(better) / 2
            known.setdefault((group, candidate.text), score - MAX_DEDUCTION * values[index])
    return values


def topic(evidence: RankingEvidence, scores: Values) -> Values:
    """Score how many words of the topic each lead passage has, when the question asks for a summary.

    A request for a summary names a topic in a word or two, and most of what was said about it uses other words. Words of the
    topic are those that some of the best hits share; the rarer among the candidates, the more they count.
    """
    if not asks_for_summary(evidence.question.text) or len(scores) <= _TOPIC_HITS:
        return evidence.zeros
    best = np.argsort(-scores, kind="stable")[:_TOPIC_SEARCHED].tolist()
    leads = [lead_passage(evidence.candidates[index].text) for index in best]
    weights: Counter[str] = Counter()
    sharing: Counter[str] = Counter()
    known = {*evidence.question.terms, *terms_from_words({candidate.name for candidate in evidence.candidates})}
    for index, lead in zip(best[:_TOPIC_HITS], leads, strict=False):
        for term in set(terms_from_words(extract_keywords(lead))) - known:
            weights[term] += scores[index]
            sharing[term] += 1
    terms = sorted(term for term, count in sharing.items() if count >= _MIN_SHARING)
    matches = TermMatches.from_texts(leads, (), terms)
    presence = matches.presence_in_text[[matches.row_by_text[lead] for lead in leads]]
    worth = np.array([weights[term] for term in terms]) * np.log(1 + len(leads) / presence.sum(axis=0))
    worth[np.argsort(-worth, kind="stable")[_ADDED_TERMS:]] = 0.0
    found: Values = presence @ worth
    values = evidence.zeros
    values[best] = found / (float(found.max(initial=0.0)) or 1.0)
    return values


SIGNALS: Mapping[str, Callable[[RankingEvidence], Values]] = {
    signal.__name__: signal
    for signal in (
        words, meaning, coverage, phrases, subject, time, rule, preference, personal, telling, specific, opening,
        recency, tier, trust,
    )
}  # fmt: skip
"""The signals that score each candidate separately, by name."""

JOINT_SIGNALS: Mapping[str, Callable[[RankingEvidence, Values], Values]] = {
    signal.__name__: signal for signal in (topic, dated, session, linked, adjacent)
}
"""The signals that depend on the other candidates."""
JOINT_GROUPS = (("topic",), ("dated",), ("session", "linked"), ("adjacent",))
"""Their order; those of a group start from the sum of all signals before the group."""
