"""Statements of a text, and whether a later one changes an earlier one, by rules and without a language model.

A statement has a subject (the stems of its content words) and values: a day, a time of day, a number, a state such as on
and off, or a name. "Deploys run on Tuesday" and "we moved deploys to Thursday" have the same subject, {deploy}, and another
day: the later one changes the earlier one. Both texts must give evidence: the same subject, and values of the same type that
differ. A change word ("moved", "now", "no longer", "jetzt") allows other verbs than before. Questions, wishes, reports of
proposals and exceptions for one week change nothing. The rules know English and German; in other languages they find little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import takewhile
from operator import eq
from typing import NamedTuple

from lukasa.core.text_cache import cache_texts
from lukasa.text.lexicon import STOP_WORDS, WORDS, read_groups, read_values
from lukasa.text.patterns import compile_on_use
from lukasa.text.sentences import split_sentences
from lukasa.text.terms import contains_phrase, find_words, fold_text, leave_out_phrases, stem_word

_MAX_CHARACTERS = 1_200
_MAX_SENTENCES = 10
_MAX_WORDS = 22  # a longer sentence says several things


class ValueType(StrEnum):
    """The attribute that a value belongs to."""

    WEEKDAY = "weekday"
    DATE = "date"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    CLOCK = "clock"
    NUMBER = "number"
    STATE = "state"
    NAME = "name"
    PERSON = "person"


class StatedValue(NamedTuple):
    """A value in a statement: its type, its normalised form, and its unit, its group of states or its preposition."""

    type: ValueType
    value: str
    unit: str = ""


class Statement(NamedTuple):
    """One sentence that states something."""

    subject: frozenset[str]
    """Stems of the content words outside values, without words that only say that something is, runs or changes."""
    verbs: frozenset[str]
    """Stems of the words that only say that something is, runs or changes, change words aside."""
    words: tuple[str, ...]
    """Stems of all content words in order, values included, change words aside."""
    values: tuple[StatedValue, ...]
    replaced: tuple[StatedValue, ...]
    """Values that the sentence itself calls former ones: "instead of Tuesday"."""
    replaced_words: frozenset[str]
    """Stems of the words that the sentence calls former ones: "from Jenkins to …"."""
    replacing_words: frozenset[str]
    """Stems of the words that take their place: "from … to GitHub Actions"."""
    changes: bool
    """Whether it has a word of change."""
    replaces: bool
    """Whether it has a verb of replacing: moved, switched, instead."""
    says_now: bool
    """Whether it says that something holds from now on: now, since May."""
    ends: bool
    """Whether it says that something is no longer so."""
    negated: bool
    adds: bool
    """Whether it adds to what was so before: also, too, another."""
    past: bool
    has_verb: bool
    """Whether it has a known verb of the present (is, runs, lives), or any verb of a habit: we deploy on Tuesdays."""
    lasting: bool
    """Whether it speaks of what holds and not of an event in the past."""
    indefinite: bool
    """Whether it speaks of one of several things: a meeting."""
    group: bool
    """Whether it speaks of the speaker's group: we, our."""
    possessive: bool
    """Whether it speaks of a thing or person that belongs to somebody: Anna's brother."""
    names: frozenset[str]
    """Stems of the words of its names."""
    capitals: tuple[bool, ...]
    """Whether each of its words has a capital letter."""
    stems: frozenset[str]
    """Stems of all its words."""
    head: int
    """How many of its words stand before the verb."""


def _read_lists(*names: str) -> Iterator[frozenset[str]]:
    return (frozenset(WORDS[name]) for name in names)


_CHANGE_WORDS, _NOW_WORDS, _REPLACING_VERBS, _GENERIC_WORDS, _WORK_WORDS, _SELF_WORDS = _read_lists(
    "change", "now", "replacing_verbs", "generic", "work", "self"
)
_GROUP_WORDS, _UNRESOLVED, _INDEFINITE, _ROLE_WORDS, _ADDITIVE_VERBS, _LASTING_WORDS = _read_lists(
    "group", "unresolved", "indefinite", "role", "additive_verbs", "lasting"
)
_PASSIVE_WORDS, _ENDING_WORDS, _NEGATION_WORDS, _TRAILING_HINTS, _FROM_HINTS, _TIME_ADVERBS = _read_lists(
    "passive", "ending", "statement_negation", "trailing_hints", "from_hints", "time_adverbs"
)
_DOUBT_PHRASES, _NEGATION_PHRASES, _ADDING_PHRASES, _PAST_PHRASES = _read_lists(
    "doubt_phrases", "negation_phrases", "adding_phrases", "past_phrases"
)
_DOUBT_WORDS, _REPLACED_BEFORE, _DETERMINERS, _TO_WORDS, _AUXILIARIES, _ADDING_HINTS = _read_lists(
    "doubt", "replaced_before", "determiners", "to", "auxiliaries", "adding_hints"
)
_PAST_HINTS, _PRESENT_WORDS, _PAST_VERBS, _GERMAN_PERFECT, _CHANGE_ADVERBS, _SKIPPED_BEFORE_NAME = _read_lists(
    "past_hints", "present", "past_verbs", "german_perfect", "change_adverbs", "skipped_before_name"
)
_TO_VERBS, _BEFORE_PERSON = _read_lists("to_verbs", "before_person")
_FUNCTION_WORDS = STOP_WORDS | frozenset(WORDS["function"])
_WEEKDAYS = read_groups("weekdays")
_MONTHS = {
    fold_text(form): f"{number:02}"
    for number, names in enumerate(WORDS["months"].items(), 1)
    for form in (names[0], *names[1])
}
_NUMBER_WORDS = {fold_text(word): str(number) for number in range(2, 13) for word in WORDS["numbers"][str(number)][:2]}
_UNITS, _NAME_MARKERS, _ROLE_STEMS, _CLOCK_WORDS = map(read_values, ("units", "name_markers", "role_stems", "clock"))
_STATES = {word: (group, pole) for word, (group, pole) in WORDS["states"].items()}
_FROM_THEN = compile_on_use(
    r",?\s*\b(?:starting|effective|beginning|as of|since|from|ab|seit)\b(?: from| on| dem| der| den| the)?"
    r"(?: (?:next|last|this|now|nächste[rnm]?|letzte[rnm]?|diese[rnm]?|sofort|heute|today|yesterday|week|month|year|woche|monat|jahr|"
    r"spring|summer|autumn|winter|"
    + "|".join((*_WEEKDAYS, *_MONTHS, "märz"))
    + r"|(?:19|20)\d\d\b|\d{1,2}\b(?:st|nd|rd|th|\.)?))+(?: on\b| onwards?\b| an\b)?(?! to\b| auf\b| nach\b| →| ->)",
    re.IGNORECASE,
)
_HABIT_SUBJECTS = frozenset({"we", "i", "they", "you", "wir", "ich"})
_HABIT_WORDS = frozenset({"every", "each", "always", "jeden", "jede", "immer"}) | {
    word for word in _WEEKDAYS if word.endswith("s")
}
_QUARTERS = frozenset({"q1", "q2", "q3", "q4"})
_MAY = frozenset({"may", "mai"})
_HALVES = frozenset({"am", "pm", "uhr", "o'clock"})
_NO_WORDS: frozenset[str] = frozenset()
_FORMER_MARKS = frozenset({"from", "von", "vom", "of", "statt", "anstatt"})
_LEADING_CLAUSE = compile_on_use(
    r"^(?:after|since|as of|from|starting|due to|because of|because|following|in|on|by|until|for|when|nach|seit|ab|wegen|aufgrund|update|"
    r"correction|fyi|heads[- ]up|note|news|by the way|ok|okay|hey|hi|so|well|also|actually|oh|yes|yeah|right|quick update)\b[^,:]{0,60}[,:]\s+",
    re.IGNORECASE,
)
_TRAILING_CLAUSE = compile_on_use(
    r"\s*[;(].*$|,? \b(?:because|due to|so that|since (?:the|we|it|he|she|they|i|our|my)|as (?:we|it|our)|after (?:the|we|it|our|a)|"
    r"weil|damit|wegen|aufgrund|denn)\b.*$|, (?:so|which|as|and|to|da|um|und|was)\b.*$|[,]? to (?:avoid|make|give|have|allow|let|"
    r"save|reduce|keep|get|match|fit|help|ensure|free|prevent|accommodate|meet|better|be|leave)\b.*$| [–—] .*$|, (?:not|nicht) .*$",
    re.IGNORECASE,
)
_TOKEN = compile_on_use(r"[€$£]?\d[\d.,:/]*\d?[a-z%]*|[#@]?[^\W_]+(?:[-_./@’'&][^\W_]+)*|→|->|[€$£%]")
_CLOCK = compile_on_use(r"(\d{1,2})[:.](\d\d)(am|pm)?$|(\d{1,2})(am|pm)$", re.IGNORECASE)
_ORDINAL_DAY = compile_on_use(r"\b(\d{1,2})\. (?=(?:Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w*\b)")
_NUMBER = compile_on_use(r"[€$£]?(v?\d[\d.,]*?)(k|m|st|nd|rd|th|%|gb|mb|kb|ms|s|kg|mg|h|min)?$", re.IGNORECASE)


@cache_texts(1 << 12, 16_000_000, per_character=30)
def parse_statements(text: str, speaker: str = "") -> tuple[Statement, ...]:
    """Return the statements of a text; the subject "I" is the speaker."""
    sentences = split_sentences(_ORDINAL_DAY.sub(r"\1 ", text[:_MAX_CHARACTERS]))[:_MAX_SENTENCES]
    found = (_parse_sentence(sentence, speaker) for sentence in sentences)
    return tuple(statement for statement in found if statement is not None)


def text_changes(older: str, newer: str, *, older_speaker: str = "", newer_speaker: str = "") -> bool:
    """Return whether a later text changes what an earlier text states."""
    earlier = parse_statements(older, older_speaker)
    return any(statement_changes(one, other) for other in parse_statements(newer, newer_speaker) for one in earlier)


def statement_changes(older: Statement, newer: Statement) -> bool:
    """Return whether a later statement is about the same subject and attribute as an earlier one and says otherwise."""
    if newer.adds or (newer.past and not newer.changes):
        return False
    return (
        _changes_value(older, newer)
        or _names_replaced(older, newer)
        or _negates(older, newer)
        or _changes_phrase(older, newer)
    )


def _is_same_subject(said: frozenset[str], says: frozenset[str], newer: Statement) -> bool:
    """Return whether two subjects are the same; with a change word the later one may have one word less."""
    if said == says:
        return bool(says)
    if not newer.changes or newer.possessive or len(says) < 2:
        return False
    return says < said and len(said - says) == 1 and said - says != {"old"}


def _changes_value(older: Statement, newer: Statement) -> bool:
    """Return whether both give the same subject a value of the same type, and the values differ."""
    if not older.values or not newer.values or (newer.negated and not newer.ends):
        return False
    is_definite = all(each.lasting and each.has_verb and not each.indefinite for each in (older, newer))
    if not newer.changes and not (is_definite and older.verbs == newer.verbs):
        return False
    for type in {value.type for value in older.values}:
        before = [value for value in older.values if value.type is type]
        after = [value for value in newer.values if value.type is type]
        if not before or len(before) != len(after):
            continue
        different = [(one, other) for one, other in zip(before, after, strict=True) if one.value != other.value]
        if len(different) != 1:
            continue
        ((one, other),) = different
        if type is ValueType.PERSON and not newer.changes:
            continue
        if type is ValueType.STATE and one.unit != other.unit:
            continue
        if type is ValueType.NAME and not newer.changes and one.value.islower() and not newer.possessive:
            continue
        if type is ValueType.NAME and "to" not in (one.unit, other.unit) and one.unit != other.unit:
            continue
        if type is ValueType.NUMBER and one.unit != other.unit and one.unit and other.unit:
            continue
        unit_is_subject = (
            type is ValueType.NUMBER and not older.subject and not newer.subject and one.unit == other.unit != ""
        )
        said, says = (
            (older.subject, newer.subject)
            if type is ValueType.NAME
            else (older.subject | older.names, newer.subject | newer.names)  # a name is part of the subject here
        )
        if _is_same_subject(said, says, newer) or (unit_is_subject and newer.changes):
            return True
    days = {ValueType.WEEKDAY, ValueType.DATE, ValueType.MONTH}
    before_types = {value.type for value in older.values} & days
    after_types = {value.type for value in newer.values} & days
    return (
        newer.changes
        and bool(before_types and after_types)
        and not before_types & after_types
        and _is_same_subject(older.subject | older.names, newer.subject | newer.names, newer)
    )


def _names_replaced(older: Statement, newer: Statement) -> bool:
    """Return whether the later statement calls the earlier one's value a former one and has the same subject."""
    if not newer.replaces or not (newer.replaced_words or newer.replaced):
        return False
    if newer.replaced and not set(newer.replaced) & set(older.values):
        return False
    if newer.replaced_words and not newer.replaced_words <= set(older.words):
        return False
    rest = newer.subject - newer.replaced_words - newer.replacing_words
    if not rest:
        return bool(newer.replaced_words) and older.lasting and older.group == newer.group
    return rest <= older.subject or (bool(rest & older.subject) and len(rest - older.subject) <= 1 and older.lasting)


def _negates(older: Statement, newer: Statement) -> bool:
    """Return whether one statement affirms what the other denies, or the later one says that it has ended."""
    if older.negated == newer.negated or not older.words or not (older.lasting and newer.lasting):
        return False
    if not (older.has_verb and newer.has_verb):
        return False
    said, says = set(older.words), set(newer.words)
    return older.words == newer.words or (newer.ends and len(said) >= 2 and said <= says and len(says - said) <= 1)


def _count_common(words: Sequence[str], others: Sequence[str]) -> int:
    """Count the words that two texts have in common at their start."""
    return sum(takewhile(bool, map(eq, words, others)))


def _changes_phrase(older: Statement, newer: Statement) -> bool:
    """Return whether the two differ in one phrase after the verb only, and the later one has a change word."""
    if not (newer.says_now and older.lasting):
        return False
    if any(value.type is ValueType.PERSON for value in (*older.values, *newer.values)):
        return False
    if newer.negated or older.negated or newer.indefinite != older.indefinite:
        return False
    if older.words == newer.words or len(older.words) < 2 or older.words[:1] != newer.words[:1]:
        return False
    if (set(older.words) | set(newer.words)) & _ADDITIVE_STEMS or newer.verbs & _ADDITIVE_STEMS:
        return False
    prefix = _count_common(older.words, newer.words)
    before, after = older.words[prefix:], newer.words[prefix:]
    suffix = _count_common(before[::-1], after[::-1])
    before, after = before[: len(before) - suffix], after[: len(after) - suffix]
    if not 1 <= len(before) <= 3 or not 1 <= len(after) <= 3 or prefix + suffix < 2:
        return False
    if prefix < max(older.head, newer.head) or older.capitals[prefix] != newer.capitals[prefix]:
        return False
    if {value.type for value in older.values} != {value.type for value in newer.values}:
        return False
    return older.verbs == newer.verbs


_ADDITIVE_STEMS = frozenset(stem_word(word) for word in _ADDITIVE_VERBS)


def _parse_sentence(sentence: str, speaker: str) -> Statement | None:
    """Return the statement of a sentence; ``None`` for questions, wishes, conditions and sentences that are too long.

    The words of the sentence decide which of the slower patterns can match at all.
    """
    if sentence.rstrip("\"'”’)").endswith("?") or sentence.count(" ") > 2 * _MAX_WORDS:
        return None
    found = frozenset(find_words(fold_text(sentence).replace("’", "'")))
    if not found.isdisjoint(_DOUBT_WORDS) or contains_phrase(sentence.lower(), _DOUBT_PHRASES):
        return None
    main, starts_now = sentence, False
    if "," in sentence or ":" in sentence:
        main = _LEADING_CLAUSE.sub("", sentence)
        starts_now = main != sentence and sentence.lower().startswith(_STARTS)
    if (
        not found.isdisjoint(_TRAILING_HINTS)
        or ";" in sentence
        or "(" in sentence
        or (not sentence.isascii() and ("–" in sentence or "—" in sentence))
    ):
        main = _TRAILING_CLAUSE.sub("", main)
    if not found.isdisjoint(_FROM_HINTS):
        without_start = _FROM_THEN.sub("", main)
        starts_now = starts_now or without_start != main
        main = without_start
    main = leave_out_phrases(main, _TIME_ADVERBS)
    tokens = _TOKEN.findall(main.rstrip(" .!…"))
    if not 2 <= len(tokens) <= _MAX_WORDS:
        return None
    return _Parser(tokens, speaker, found).build_statement(main, sentence, starts_now=starts_now)


class _Parser:
    """Reads the values and the words of one sentence."""

    def __init__(self, tokens: Sequence[str], speaker: str, found: frozenset[str]) -> None:
        self.tokens = tokens
        self.found = found
        joined = " ".join(tokens)
        self.has_digit = any(map(str.isdigit, joined))
        if joined.isascii():
            self.joined = joined.lower()
            self.lower = self.joined.split(" ")
        else:
            self.lower = [fold_text(token).replace("’", "'") for token in tokens]
            self.joined = " ".join(self.lower)
        self.present = frozenset(self.lower)
        self.taken = [False] * len(tokens)
        self.speaker = stem_word(fold_text(speaker).split()[0]) if speaker.split() else "i"
        self.values: list[tuple[int, StatedValue]] = []
        verbs = (i for i, word in enumerate(self.lower) if i and word in _VERB_WORDS)
        known_verb = next(verbs, None)
        self.has_known_verb = known_verb is not None
        self.verb = known_verb or 1

    def build_statement(self, main: str, sentence: str, *, starts_now: bool) -> Statement | None:
        if self.has_digit or not self.found.isdisjoint(_TIME_WORDS):
            self._find_times()
        if self.has_digit or not self.found.isdisjoint(_NUMBER_WORDS):
            self._find_numbers()
        if len(self.values) > 1:
            self._join_ranges()
        negated = "n't" in main or "n’t" in main or not self.present.isdisjoint(_NEGATION_WORDS)
        negated = negated or contains_phrase(main.lower(), _NEGATION_PHRASES)
        ends = not self.found.isdisjoint(_ENDING_WORDS) or ("mehr" in self.found and negated)
        if not self.present.isdisjoint(_STATES):
            self._find_states(negated=negated)
        self._find_names()
        changes = starts_now or not self.present.isdisjoint(_CHANGE_WORDS)
        is_new_state = any(value.type is ValueType.STATE for _, value in self.values) and not self.found.isdisjoint(
            _PASSIVE_WORDS
        )
        changes = changes or is_new_state
        replaced_words, replacing_words = _NO_WORDS, _NO_WORDS
        if not self.present.isdisjoint(_FORMER_MARKS):
            replaced_words, replacing_words = self._find_replaced_words()
        replaced: list[StatedValue] = []
        values: list[StatedValue] = []
        for index, value in self.values:
            (replaced if self._is_replaced(index) else values).append(value)
        subject: set[str] = set()
        verbs: set[str] = set()
        words: list[str] = []
        capitals: list[bool] = []
        is_unresolved = False
        head = 0
        for index, word in enumerate(self.lower):
            if word in _SELF_WORDS:
                subject.add(self.speaker)
                words.append(self.speaker)
                capitals.append(True)
                continue
            if word in _UNRESOLVED:
                is_unresolved = True
                continue
            if not head and self.has_known_verb and index == self.verb:
                head = len(words) or 1
            if word in _FUNCTION_WORDS or word in _CHANGE_WORDS:
                continue
            bare = word.removesuffix("'s").removesuffix("n't") if "'" in word else word
            stem = stem_word(bare)
            if not stem or bare in _FUNCTION_WORDS or (word in {"old", "alt"} and index and self.taken[index - 1]):
                continue
            if bare in _WORK_WORDS:
                stem = "work"
            is_role = bare in _ROLE_WORDS
            if self.taken[index] or (bare in _GENERIC_WORDS and not is_role):
                if not self.taken[index] and bare not in _AUXILIARIES:
                    verbs.add(stem)
                if self.taken[index] or bare not in _AUXILIARIES:
                    words.append(stem)
                    capitals.append(self.tokens[index][0].isupper())
                continue
            words.append(stem)
            capitals.append(self.tokens[index][0].isupper())
            subject.add(_ROLE_STEMS.get(bare, stem) if is_role else stem)
        if is_unresolved and not subject:
            return None
        about = frozenset(subject)
        stems = about if about.issuperset(words) else about.union(words)  # one set if equal: a cache keeps thousands
        return Statement(
            subject=about,
            verbs=frozenset(verbs),
            words=tuple(words),
            values=tuple(values),
            replaced=tuple(replaced),
            replaced_words=replaced_words,
            replacing_words=replacing_words,
            changes=changes or ends,
            replaces=not self.present.isdisjoint(_REPLACING_VERBS),
            says_now=starts_now or not self.present.isdisjoint(_NOW_WORDS),
            ends=ends,
            negated=negated,
            adds=not self.present.isdisjoint(_ADDING_HINTS) or contains_phrase(main.lower(), _ADDING_PHRASES),
            past=not self.found.isdisjoint(_PAST_HINTS) or contains_phrase(sentence.lower(), _PAST_PHRASES),
            has_verb=not _LASTING_WORDS.isdisjoint(self.found) or self._states_habit(),
            lasting=not self._is_past_event() and (changes or self.found.isdisjoint(_PASSIVE_WORDS)),
            indefinite=not self.present.isdisjoint(_INDEFINITE),
            group=not self.present.isdisjoint(_GROUP_WORDS),
            possessive="'s" in main or "’s" in main or not self.present.isdisjoint(_SELF_WORDS),
            names=frozenset(
                stem_word(fold_text(part))
                for value in values
                if value.type is ValueType.NAME
                for part in value.value.split()
            ),
            capitals=tuple(capitals),
            stems=stems,
            head=head or 2,
        )

    def _states_habit(self) -> bool:
        """Return whether any verb after "we" or "I" is one of a habit: we deploy on Tuesdays."""
        return self.lower[0] in _HABIT_SUBJECTS and not self.present.isdisjoint(_HABIT_WORDS)

    def _is_past_event(self) -> bool:
        """Return whether the sentence reports an event: "we met", "I have finished", "ich habe gekauft"."""
        if not self.found.isdisjoint(_PRESENT_WORDS):
            return False
        if not self.found.isdisjoint(_PAST_VERBS) or not self.found.isdisjoint(_GERMAN_PERFECT):
            return True
        return "ed" in self.joined and any(
            len(word) > 4 and word.endswith("ed") and word not in _CHANGE_WORDS for word in self.lower
        )

    def _add(self, first: int, last: int, type: ValueType, value: str, unit: str = "") -> None:
        for index in range(first, last):
            self.taken[index] = True
        self.values.append((first, StatedValue(type, value, unit)))

    def _find_times(self) -> None:
        for index, (token, word) in enumerate(zip(self.tokens, self.lower, strict=True)):
            if self.taken[index]:
                continue
            following = self.lower[index + 1] if index + 1 < len(self.lower) else ""
            if word in _WEEKDAYS:
                self._add(index, index + 1, ValueType.WEEKDAY, _WEEKDAYS[word])
            elif word in _MONTHS and token[0].isupper() and (len(word) > 3 or word in _MAY or _is_day(following)):
                self._add_month(index)
            elif len(word) == 10 and word[4] == word[7] == "-" and word.replace("-", "").isdecimal():
                self._add(index, index + 1, ValueType.DATE, word[5:])
            elif word in _QUARTERS:
                self._add(index, index + 1, ValueType.QUARTER, word)
            elif (
                len(word) == 4
                and word.isdecimal()
                and word[:2] in ("19", "20")
                and (not following or following in _FUNCTION_WORDS)
            ):
                self._add(index, index + 1, ValueType.YEAR, word)
            elif word in _CLOCK_WORDS:
                self._add(index, index + 1, ValueType.CLOCK, _CLOCK_WORDS[word])
            elif (match := _CLOCK.match(word)) and (":" in word or match[5] or match[3] or following == "uhr"):
                self._add_clock(index, int(match[1] or match[4]), match[2] or "00", match[3] or match[5] or following)
            elif word.isdecimal() and len(word) <= 2 and int(word) <= 24 and self._is_hour(index, following):
                self._add_clock(index, int(word), "00", following)

    def _is_hour(self, index: int, following: str) -> bool:
        """Return whether a number is a time of the day: 10 am, 10 Uhr, "at 10" before nothing that it could count."""
        if following in _HALVES:
            return True
        return self.lower[index - 1 : index] in (["at"], ["um"]) and (not following or following in _FUNCTION_WORDS)

    def _add_month(self, index: int) -> None:
        month = _MONTHS[self.lower[index]]
        if index + 1 < len(self.lower) and _is_day(self.lower[index + 1]):
            self._add(index, index + 2, ValueType.DATE, f"{month}-{_day_number(self.lower[index + 1])}")
        elif index and _is_day(self.lower[index - 1]) and not self.taken[index - 1]:
            self._add(index - 1, index + 1, ValueType.DATE, f"{month}-{_day_number(self.lower[index - 1])}")
        else:
            self._add(index, index + 1, ValueType.MONTH, month)

    def _add_clock(self, index: int, hour: int, minute: str, half: str) -> None:
        half = half.lower()
        hour = hour % 12 + 12 if half == "pm" else 0 if half == "am" and hour == 12 else hour
        end = index + 1 + any(word in _HALVES for word in self.lower[index + 1 : index + 2])
        self._add(index, end, ValueType.CLOCK, f"{hour:02}:{minute}")

    def _find_numbers(self) -> None:
        for index, word in enumerate(self.lower):
            if self.taken[index] or index < self.verb:  # a number before the verb is part of the subject: build 41
                continue
            following = self.lower[index + 1] if index + 1 < len(self.lower) else ""
            is_noun = bool(following) and following[0].isalpha() and following not in _NO_NOUNS
            match = _NUMBER.match(word)
            if match:
                number, suffix = match[1].rstrip(".,"), match[2] or ""
                groups = number.replace(",", ".").split(".")
                if len(groups) > 1 and 0 < len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:]):
                    number = "".join(groups)
                is_version = "." in number or number.startswith("v")
                number = number.removeprefix("v")
                if suffix in {"k", "m"}:
                    number += "000" if suffix == "k" else "000000"
                unit = "money" if word[0] in "€$£" else _UNITS.get(suffix, "")
            elif word in _NUMBER_WORDS and is_noun:
                number, is_version, unit = _NUMBER_WORDS[word], False, ""
            else:
                continue
            end = index + 1
            symbol = self.tokens[index + 1] if index + 1 < len(self.tokens) else ""
            detail = ""
            if not unit and symbol in {"€", "$", "£", "%"}:
                unit, end = _UNITS[symbol], index + 2
            elif not unit and not is_version and is_noun and not self.taken[index + 1]:
                unit, end = _UNITS.get(following) or stem_word(following), index + 2
                detail = following if unit == "duration" else ""
            if end + 1 < len(self.lower) and self.lower[end] in {"per", "pro", "a", "an"}:
                end += 2
            self._add(index, end, ValueType.NUMBER, f"{number} {stem_word(detail)}".strip(), unit)

    def _join_ranges(self) -> None:
        """Join two values of one type to a range: 9 to 5, Monday to Friday."""
        joined: list[tuple[int, StatedValue]] = []
        for index, value in sorted(self.values, key=lambda found: found[0]):
            before = joined[-1] if joined else None
            if (
                before is not None
                and before[1].type is value.type
                and index - before[0] in (2, 3)
                and self.lower[index - 1] in {"to", "bis", "until", "through"}
                and not (before[0] and self.lower[before[0] - 1] in {"from", "von", "vom"})
            ):
                joined[-1] = (before[0], StatedValue(value.type, f"{before[1].value} to {value.value}", value.unit))
            else:
                joined.append((index, value))
        self.values = joined

    def _find_states(self, *, negated: bool) -> None:
        for index, word in enumerate(self.lower):
            state = _STATES.get(word)
            if state is None or self.taken[index]:
                continue
            following = self.lower[index + 1 : index + 2]
            if word in {"on", "off", "an", "aus", "up", "down"} and not (
                index
                and self.lower[index - 1] in {"is", "are", "now", "switched", "turned", "ist", "jetzt", "back"}
                and (not following or following[0] in {"by", "now", "again", "for", "in", "standardmassig"})
            ):
                continue
            group, pole = state
            self._add(index, index + 1, ValueType.STATE, f"{pole}{'!' if negated else ''}", group)

    def _find_names(self) -> None:
        """Find persons in statements about roles, and names or words after "is", "in", "to" and "called"."""
        is_role = not self.present.isdisjoint(_ROLE_WORDS) or (
            "'s" in self.joined and any(word.removesuffix("'s") in _ROLE_WORDS for word in self.lower)
        )
        for index, token in enumerate(self.tokens):
            if self.taken[index] or not token[0].isupper():
                continue
            before, end = self._word_before(index), self._end_of_name(index)
            if is_role and self._is_person(index, before):
                self._add(index, end, ValueType.PERSON, " ".join(self.lower[index:end]))
            elif not is_role and index > self.verb and before in _NAME_MARKERS:
                marker = "to" if self._follows_to(before) else _NAME_MARKERS[before]
                self._add(index, end, ValueType.NAME, " ".join(self.tokens[index:end]), marker)
        if not self.values:
            self._find_complement()

    def _follows_to(self, before: str) -> bool:
        return before in _TO_WORDS and not self.present.isdisjoint(_TO_VERBS)

    def _is_person(self, index: int, before: str) -> bool:
        word = self.lower[index].removesuffix("'s")
        if word in _ROLE_WORDS or word in _FUNCTION_WORDS or self.tokens[index].endswith("'s"):
            return False
        return not index or before in _BEFORE_PERSON

    def _end_of_name(self, index: int) -> int:
        end = index + 1
        while (
            end < len(self.tokens)
            and not self.taken[end]
            and (self.tokens[end][0].isupper() or self.tokens[end] == "&")
        ):
            end += 1
        return end

    def _word_before(self, index: int) -> str:
        """Return the word before a token, adverbs of change aside."""
        while index and self.lower[index - 1] in _SKIPPED_BEFORE_NAME:
            index -= 1
        return self.lower[index - 1] if index else ""

    def _find_complement(self) -> None:
        """Find a word without a capital letter at the end of the sentence, after "is", "called" or "to"."""
        last = len(self.lower) - 1
        while last > 0 and self.lower[last] in _SKIPPED_AT_END:
            last -= 1
        if last < 2 or self.taken[last] or self.lower[last] in _FUNCTION_WORDS or not self.lower[last][0].isalpha():
            return
        before = self._word_before(last)
        is_to = self._follows_to(before)
        if is_to or (before in _NAME_MARKERS and _NAME_MARKERS[before] == "is"):
            self._add(last, last + 1, ValueType.NAME, self.lower[last], "to" if is_to else "is")

    def _is_replaced(self, index: int) -> bool:
        """Return whether the value at an index is a former one: "instead of Tuesday", "from Tuesday to", "Tuesday →"."""
        position = index
        while position and self.lower[position - 1] in _SKIPPED_BEFORE_VALUE:
            position -= 1
        before = self.lower[position - 1] if position else ""
        if before in {"from", "von", "vom", "was", "war"}:
            return any(
                word in _TO_WORDS or word in {"→", "->", "now", "jetzt"} for word in self.lower[index + 1 :]
            ) or (
                self.values[0][0] != index
                and any(word in {"took", "over", "ubernommen", "ubernimmt"} for word in self.lower)
            )
        if before in {"not", "nicht"}:
            return len(self.values) > 1
        if index + 1 < len(self.lower) and self.lower[index + 1] in {"→", "->"}:
            return True
        return before in _REPLACED_BEFORE

    def _find_replaced_words(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the stems between "from" and "to" or after "instead of", outside typed values, and those after "to"."""
        found: list[str] = []
        replacing: list[str] = []
        for index, word in enumerate(self.lower):
            if word in {"from", "von", "vom"} and any(
                later in _TO_WORDS for later in self.lower[index + 2 : index + 7]
            ):
                end = next(i for i in range(index + 2, len(self.lower)) if self.lower[i] in _TO_WORDS)
                for later in self.lower[end + 1 : end + 5]:
                    if later in {"for", "in", "on", "fur", "im", "bei", "as"}:
                        break
                    replacing.append(stem_word(later))
            elif (word == "of" and index and self.lower[index - 1] == "instead") or word in {"statt", "anstatt"}:
                end = len(self.lower)
                if index + 1 >= end:
                    continue
            else:
                continue
            span = range(index + 1, min(end, index + 5))
            names = (ValueType.NAME, ValueType.PERSON)
            if all(start not in span or value.type in names for start, value in self.values):
                words = (self.lower[i] for i in span)
                found += [stem for word in words if word not in _FUNCTION_WORDS and (stem := stem_word(word))]
        return frozenset(found), frozenset(replacing)


_NO_NOUNS = _FUNCTION_WORDS | _CHANGE_WORDS
_SKIPPED_AT_END = _CHANGE_WORDS | {"again"}
_SKIPPED_BEFORE_VALUE = _DETERMINERS | {"on", "at", "in", "am", "um", "den", "dem"}
_TIME_WORDS = frozenset((*_WEEKDAYS, *_MONTHS, *_CLOCK_WORDS))
_STARTS = ("as of", "since", "starting", "ab ", "seit", "update", "correction")
_VERB_WORDS = (_CHANGE_WORDS - _NOW_WORDS - _CHANGE_ADVERBS) | _GENERIC_WORDS | _AUXILIARIES | _LASTING_WORDS


def _is_day(word: str) -> bool:
    digits = word.removesuffix("st").removesuffix("nd").removesuffix("rd").removesuffix("th").removesuffix(".")
    return digits.isdecimal() and 1 <= int(digits) <= 31


def _day_number(word: str) -> str:
    return f"{int(''.join(filter(str.isdecimal, word))):02}"
