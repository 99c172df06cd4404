"""Query analysis by rules: keywords, subject, dates and kind of a question, and the words to send to the text index.

No language model is involved: each rule is a pattern of the few words people use. Where no pattern matches, the question
is a plain one, and only its words and its vector decide.

A question may come with conditions on records that the indexes do not know: several authors or conversations, any or none of
some labels, fields of the body. The indexes propose their best records; a ``RecordFilter`` keeps those that meet it. If few are
left, the indexes are asked for more.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple

from lukasa.core.record import Record
from lukasa.errors import InvalidInput
from lukasa.text.dates import Period, find_periods
from lukasa.text.lexicon import WORDS
from lukasa.text.patterns import compile_on_use
from lukasa.text.terms import contains_phrase, extract_keywords, fold_text, plain_text, starts_with, terms_from_words

USER_ROLES = frozenset({"user", "human", "customer"})
ASSISTANT_ROLES = frozenset({"assistant", "agent", "ai", "bot", "model", "system", "tool"})
MAX_MATCHED_TEXTS = 5_000
"""Words that match more texts than this in all count as common; a store of at most this many texts counts as small."""
_MAX_WORDS, _MAX_PHRASES, _MAX_PHRASE_LENGTH = 256, 32, 200
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class QuestionKind(StrEnum):
    """The kind of answer a question wants."""

    FACT = "fact"
    TIME = "time"
    ADVICE = "advice"
    ASSENT = "assent"
    THREAD = "thread"


class TimeOrder(StrEnum):
    """The end of the timeline a question asks for."""

    NONE = "none"
    NEWEST = "newest"
    OLDEST = "oldest"


_SEVERAL = ("how many", "what kind of", "what type of", "likely", "might")
_NO_PLURAL = frozenset({"is", "was", "does", "has", "us"})
_FRAMING = compile_on_use(
    r"\b(?:can you|give me|order in which)\b"
    r"|\bdifferent aspects?\b(?: of)?"
    r"|\b(?:throughout|across) our (?:conversations?|discussions?|chats?|sessions?)\b"
    r"|\bmention only\b.*$"
    r"|\b(?:a )?(?:(?:clear|brief|complete) )?summary\b(?: of)?|\bsummari[sz]e\b"
    r"|\bover time\b|\b(?:developed|progressed)\b",
    re.IGNORECASE,
)
_QUOTED = compile_on_use(r"[\"“”«]([^\"“”«»]{2,80})[\"“”»]|`([^`]{2,80})`")
_IDENTIFIER = compile_on_use(r"\b\w+(?:[-_./:#@]\w+)+(?:\(\))?|\b\w+\(\)")


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question and everything the rules found in it."""

    text: str
    kind: QuestionKind
    topic: str
    """The question without framing such as "give me a summary of"."""
    words: tuple[str, ...]
    """Its keywords as written, for the text index."""
    terms: tuple[str, ...]
    """The tokens of the keywords, for term frequencies."""
    names: frozenset[str]
    """The terms that are names of known speakers."""
    for_vector: str
    """The text to embed: the topic without names of known speakers, because texts rarely name their speaker."""
    phrases: tuple[str, ...]
    """Quotations and identifiers, folded; they are matched literally."""
    subject: frozenset[str]
    """The authors whose own words are wanted most; empty when any author's are."""
    periods: tuple[Period, ...]
    order: TimeOrder
    standing: bool
    """True for a request that standing rules and preferences apply to, False for a question about the past."""


class SelectedTerms(NamedTuple):
    """The words to search for: any of some words, or all of some others together."""

    any_of: tuple[str, ...]
    together: tuple[str, ...] = ()


def parse_question(text: str, *, speakers: Iterable[str] = (), now: date | None = None) -> ParsedQuestion:
    """Analyse a question; any string is accepted.

    ``speakers`` are the known authors; ``now`` resolves dates such as "last week".
    """
    known = sorted(set(speakers))
    name_patterns = {name: _name_pattern(name) for name in known if name.lower() not in USER_ROLES | ASSISTANT_ROLES}
    named = [name for name, pattern in name_patterns.items() if pattern.search(text)]
    kind = _classify_kind(text)
    topic = text
    if kind is QuestionKind.THREAD:
        unframed = " ".join(_FRAMING.sub(" ", text).split()).strip(" ,.?!")
        topic = unframed if extract_keywords(unframed) else text
    for_vector = topic
    for name in named:
        for_vector = name_patterns[name].sub(" ", for_vector)
    words = tuple(extract_keywords(topic)[:_MAX_WORDS])
    terms = terms_from_words(words)
    quoted = [double or backtick for double, backtick in _QUOTED.findall(text)]
    phrases = [fold_text(phrase.strip()) for phrase in [*quoted, *_IDENTIFIER.findall(text)]]
    plain = plain_text(text)
    newest, oldest = _says(plain, "newest"), _says(plain, "oldest")
    order = TimeOrder.NONE
    if bool(newest) != bool(oldest):
        order = TimeOrder.NEWEST if newest else TimeOrder.OLDEST
    return ParsedQuestion(
        text=text,
        kind=kind,
        topic=topic,
        words=words,
        terms=terms,
        names=frozenset(terms_from_words(named)).intersection(terms),
        for_vector=" ".join(for_vector.split()) or topic,
        phrases=tuple(dict.fromkeys(phrase for phrase in phrases if 2 < len(phrase) <= _MAX_PHRASE_LENGTH))[
            :_MAX_PHRASES
        ],
        subject=_find_subject(text, kind, named, known),
        periods=find_periods(text, now),
        order=order,
        standing=kind in {QuestionKind.FACT, QuestionKind.TIME, QuestionKind.ADVICE}
        and not named
        and not _says(plain, "past_reference")
        and not (kind is QuestionKind.FACT and _says(plain, "quantity") and _says(plain, "first_person")),
    )


def asks_for_summary(text: str) -> bool:
    """Return whether a question asks for a summary of a topic."""
    return any(word.startswith("summar") or word in ("overview", "recap") for word in plain_text(text).split())


def asks_for_several(question: ParsedQuestion) -> bool:
    """Return whether a question asks for several things, such as activities or books, or for their number.

    What someone would or might do is concluded from several things too.
    """
    if question.kind is not QuestionKind.FACT:
        return False
    plain = plain_text(question.text)
    first, *others = plain.split() or [""]
    noun = next((word for word in others if word not in ("other", "new")), "")
    is_plural = noun.endswith("s") and not noun.endswith(("ss", "'s")) and noun not in _NO_PLURAL
    return first == "would" or (first in ("what", "which") and is_plural) or contains_phrase(plain, _SEVERAL)


def _classify_kind(text: str) -> QuestionKind:
    plain = plain_text(text)
    if asks_for_summary(text) or _says(plain, "order") or "chronological" in plain:
        return QuestionKind.THREAD
    if starts_with(plain, WORDS["assent"]):
        return QuestionKind.ASSENT
    if _says(plain, "advice"):
        return QuestionKind.ADVICE
    return QuestionKind.TIME if starts_with(plain, WORDS["time_questions"]) else QuestionKind.FACT


def _says(plain: str, name: str) -> bool:
    """Tell whether a plain text has one of the phrases of a list of the lexicon."""
    return contains_phrase(plain, WORDS[name])


def _name_pattern(name: str) -> re.Pattern[str]:
    """Match a name or its first word, with or without a possessive ending."""
    first = name.split()[0] if name.split() else name
    forms = {name, first} if len(first) > 2 else {name}
    alternatives = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?:['’]s)?(?!\w)", re.IGNORECASE)


def _find_subject(
    text: str, kind: QuestionKind, named_speakers: Sequence[str], known_speakers: Sequence[str]
) -> frozenset[str]:
    if named_speakers:
        return frozenset(named_speakers)
    if kind is QuestionKind.THREAD and asks_for_summary(text):
        return frozenset()
    if _says(plain_text(text), "assistant_said"):
        return frozenset(name for name in known_speakers if name.lower() in ASSISTANT_ROLES)
    if _says(plain_text(text), "first_person"):
        return frozenset(name for name in known_speakers if name.lower() in USER_ROLES)
    return frozenset()


def select_terms(words: Sequence[str], texts_with_word: Mapping[str, int], text_count: int) -> SelectedTerms:
    """Choose the words to search for, by the number of texts that hold each word.

    A small store is searched for all of them. In a large store a common word matches tens of thousands of texts: scoring
    those is what makes a search slow, and the word says little. So rare words are searched for one by one while they
    match few texts in all, and common words only together. The result is never empty when there are words.
    """
    if text_count <= MAX_MATCHED_TEXTS or len(words) <= 1:
        return SelectedTerms(tuple(words))
    rarest = sorted(words, key=lambda word: texts_with_word.get(word, 0))
    rare, matched = 0, 0
    for word in rarest:
        matched += texts_with_word.get(word, 0)
        if matched > MAX_MATCHED_TEXTS:
            break
        rare += 1
    common = rarest[rare:]
    together, expected = common[:2], float(text_count)
    for word in together:
        expected *= texts_with_word.get(word, 0) / text_count
    for word in common[2:]:
        if expected <= MAX_MATCHED_TEXTS:
            break
        together.append(word)
        expected *= texts_with_word.get(word, 0) / text_count
    if len(together) == 1:
        return SelectedTerms(tuple(rarest[:rare])) if rare else SelectedTerms(tuple(together))
    return SelectedTerms(tuple(rarest[:rare]), tuple(together))


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on a record; empty ones do not limit."""

    authors: Collection[str] = ()
    conversations: Collection[str] = ()
    any_labels: Collection[str] = ()
    exclude: Collection[str] = ()
    where: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, wanted in self.where.items():
            unknown = [sign for sign in wanted if sign not in _COMPARISONS] if isinstance(wanted, Mapping) else ()
            if unknown:
                raise InvalidInput(
                    f"{unknown[0]!r:.40} is no comparison for the field {name!r:.60}.",
                    hint=f"Use {', '.join(_COMPARISONS)}, or a plain value for equality.",
                )

    @property
    def is_empty(self) -> bool:
        return not (self.authors or self.conversations or self.any_labels or self.exclude or self.where)

    def accepts(self, record: Record) -> bool:
        """Return whether a record meets all conditions."""
        labels = set(record.labels)
        return (
            (not self.authors or record.author in self.authors)
            and (not self.conversations or record.label("session") in self.conversations)
            and (not self.any_labels or not labels.isdisjoint(self.any_labels))
            and labels.isdisjoint(self.exclude)
            and all(_meets(record.body, name, wanted) for name, wanted in self.where.items())
        )


def list_values(name: str, values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the values of a filter that takes several; raise ``InvalidInput`` for a string, which is not a list of letters."""
    if isinstance(values, str):
        raise InvalidInput(f"{name} takes a list, not a string.", hint=f"Write {name}=[{values!r:.60}].")
    return tuple(values or ())


def one_or_more(values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the values of a filter that takes one or several."""
    return (values,) if isinstance(values, str) else tuple(values or ())


def _meets(body: Mapping[str, Any], path: str, wanted: Any) -> bool:
    """Return whether a field of a body meets conditions, or one item of its list; ``a.b`` names a field inside another."""
    value: Any = body
    for part in (path,) if path in body else path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    conditions = wanted if isinstance(wanted, Mapping) else {"eq": wanted}
    values = value if isinstance(value, list | tuple) else (value,)
    return any(all(_compare(sign, item, limit) for sign, limit in conditions.items()) for item in values)


def _compare(sign: str, value: Any, limit: Any) -> bool:
    """Compare two values, numbers with numbers and texts with texts; other values are neither larger nor smaller."""
    if sign not in ("eq", "ne") and not (
        (isinstance(value, str) and isinstance(limit, str))
        or all(isinstance(item, int | float) and not isinstance(item, bool) for item in (value, limit))
    ):
        return False
    is_same_type = isinstance(value, bool) == isinstance(limit, bool)
    return _COMPARISONS[sign](value, limit) if is_same_type else sign == "ne"
