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
    negated: bool
    adds: bool
    """Whether it adds to what was so before: also, too, another."""
    has_verb: bool
    """Whether it has a known verb of the present (is, runs, lives), or any verb of a habit: we deploy on Tuesdays."""
    lasting: bool
    """Whether it speaks of what holds and not of an event in the past."""
    indefinite: bool
    """Whether it speaks of one of several things: a meeting."""
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
_ROLE_WORDS, _LASTING_WORDS, _PASSIVE_WORDS, _NEGATION_WORDS, _TRAILING_HINTS, _TIME_ADVERBS = _read_lists(
    "role", "lasting", "passive", "statement_negation", "trailing_hints", "time_adverbs"
)
_DOUBT_WORDS, _REPLACED_BEFORE, _TO_WORDS, _ADDING_HINTS, _NEGATION_PHRASES = _read_lists(
    "doubt", "replaced_before", "to", "adding_hints", "negation_phrases"
)
_PRESENT_WORDS, _PAST_VERBS, _TO_VERBS, _BEFORE_PERSON, _INDEFINITE = _read_lists(
    "present", "past_verbs", "to_verbs", "before_person", "indefinite"
)
_FUNCTION_WORDS = STOP_WORDS | frozenset(WORDS["function"])
_WEEKDAYS = read_groups("weekdays")
_MONTHS = {
    fold_text(form): f"{number:02}"
    for number, names in enumerate(WORDS["months"].items(), 1)
    for form in (names[0], *names[1])
}
_NAME_MARKERS = read_values("name_markers")
_STATES = {word: (group, pole) for word, (group, pole) in WORDS["states"].items()}
_HABIT_SUBJECTS = frozenset({"we", "i", "they", "you", "wir", "ich"})
_HABIT_WORDS = frozenset({"every", "each", "always", "jeden", "jede", "immer"}) | {
    word for word in _WEEKDAYS if word.endswith("s")
}
_HALVES = frozenset({"am", "pm", "uhr", "o'clock"})
_NO_WORDS: frozenset[str] = frozenset()
_FORMER_MARKS = frozenset({"from", "von", "vom", "of", "statt", "anstatt"})
_LEADING_CLAUSE = compile_on_use(
    r"^(?:after|since|from|in|on|because of|nach|seit|update|correction|note|heads[- ]up)\b[^,:]{0,60}[,:]\s+",
    re.IGNORECASE,
)
_TRAILING_CLAUSE = compile_on_use(
    r"\s*[;(].*$|,? \b(?:because|so that|weil|damit)\b.*$|, (?:so|which|as|and|um|und)\b.*$|, (?:not|nicht) .*$",
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
    return not newer.adds and (
        _changes_value(older, newer)
        or _names_replaced(older, newer)
        or _negates(older, newer)
        or _changes_phrase(older, newer)
    )


def _is_same_subject(said: frozenset[str], says: frozenset[str], newer: Statement) -> bool:
    """Return whether two subjects are the same; with a change word the later one may have one word less."""
    if said == says:
        return bool(says)
    return newer.changes and len(says) >= 2 and says < said and len(said - says) == 1


def _changes_value(older: Statement, newer: Statement) -> bool:
    """Return whether both give the same subject a value of the same type, and the values differ."""
    if newer.negated:
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
        if type is ValueType.STATE and one.unit != other.unit:
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
        return bool(newer.replaced_words) and older.lasting
    return rest <= older.subject or (older.lasting and not rest.isdisjoint(older.subject))


def _negates(older: Statement, newer: Statement) -> bool:
    """Return whether one statement affirms what the other denies."""
    return older.negated != newer.negated and older.words == newer.words and older.lasting and newer.lasting


def _count_common(words: Sequence[str], others: Sequence[str]) -> int:
    """Count the words that two texts have in common at their start."""
    return sum(takewhile(bool, map(eq, words, others)))


def _changes_phrase(older: Statement, newer: Statement) -> bool:
    """Return whether the two differ in one phrase after the verb only, and the later one has a change word."""
    if not (newer.says_now and older.lasting):
        return False
    if newer.negated or older.negated or not _ADDITIVE_STEMS.isdisjoint((*older.words, *newer.words)):
        return False
    prefix = _count_common(older.words, newer.words)
    before, after = older.words[prefix:], newer.words[prefix:]
    suffix = _count_common(before[::-1], after[::-1])
    before, after = before[: len(before) - suffix], after[: len(after) - suffix]
    if not 1 <= len(before) <= 3 or not 1 <= len(after) <= 3 or prefix + suffix < 2:
        return False
    if prefix < max(older.head, newer.head) or older.capitals[prefix] != newer.capitals[prefix]:
        return False
    return older.verbs == newer.verbs


_ADDITIVE_STEMS = frozenset(map(stem_word, WORDS["additive_verbs"]))


def _parse_sentence(sentence: str, speaker: str) -> Statement | None:
    """Return the statement of a sentence; ``None`` for questions, wishes, conditions and sentences that are too long.

    The words of the sentence decide which of the slower patterns can match at all.
    """
    if sentence.rstrip("\"'”’)").endswith("?") or sentence.count(" ") > 2 * _MAX_WORDS:
        return None
    found = frozenset(find_words(fold_text(sentence).replace("’", "'")))
    if not found.isdisjoint(_DOUBT_WORDS):
        return None
    main = _LEADING_CLAUSE.sub("", sentence)
    if not found.isdisjoint(_TRAILING_HINTS):
        main = _TRAILING_CLAUSE.sub("", main)
    main = leave_out_phrases(main, _TIME_ADVERBS)
    tokens = _TOKEN.findall(main.rstrip(" .!…"))
    if not 2 <= len(tokens) <= _MAX_WORDS:
        return None
    return _Parser(tokens, speaker, found).build_statement(main)


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

    def build_statement(self, main: str) -> Statement:
        if self.has_digit or not self.found.isdisjoint(_TIME_WORDS):
            self._find_times()
        if self.has_digit:
            self._find_numbers()
        if len(self.values) > 1:
            self._join_ranges()
        negated = "n't" in main or "n’t" in main or not self.present.isdisjoint(_NEGATION_WORDS)
        negated = negated or contains_phrase(main.lower(), _NEGATION_PHRASES)
        if not self.present.isdisjoint(_STATES):
            self._find_states(negated=negated)
        self._find_names()
        changes = not self.present.isdisjoint(_CHANGE_WORDS)
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
        head = 0
        for index, word in enumerate(self.lower):
            if word in _SELF_WORDS:
                subject.add(self.speaker)
                words.append(self.speaker)
                capitals.append(True)
                continue
            if not head and self.has_known_verb and index == self.verb:
                head = len(words) or 1
            if word in _FUNCTION_WORDS or word in _CHANGE_WORDS:
                continue
            bare = word.removesuffix("'s").removesuffix("n't") if "'" in word else word
            stem = stem_word(bare)
            if not stem or bare in _FUNCTION_WORDS:
                continue
            if bare in _WORK_WORDS:
                stem = "work"
            words.append(stem)
            capitals.append(self.tokens[index][0].isupper())
            if not self.taken[index]:
                (verbs if bare in _GENERIC_WORDS and bare not in _ROLE_WORDS else subject).add(stem)
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
            changes=changes,
            replaces=not self.present.isdisjoint(_REPLACING_VERBS),
            says_now=not self.present.isdisjoint(_NOW_WORDS),
            negated=negated,
            adds=not self.present.isdisjoint(_ADDING_HINTS),
            has_verb=not _LASTING_WORDS.isdisjoint(self.found) or self._states_habit(),
            lasting=not self._is_past_event() and (changes or self.found.isdisjoint(_PASSIVE_WORDS)),
            indefinite=not self.present.isdisjoint(_INDEFINITE),
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
        """Return whether the sentence reports an event: "we met", "I have finished"."""
        if not self.found.isdisjoint(_PRESENT_WORDS):
            return False
        if not self.found.isdisjoint(_PAST_VERBS):
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
            following = self.lower[index + 1] if index + 1 < len(self.lower) else ""
            if word in _WEEKDAYS:
                self._add(index, index + 1, ValueType.WEEKDAY, _WEEKDAYS[word])
            elif word in _MONTHS and token[0].isupper():
                self._add(index, index + 1, ValueType.MONTH, _MONTHS[word])
            elif len(word) == 10 and word[4] == word[7] == "-" and word.replace("-", "").isdecimal():
                self._add(index, index + 1, ValueType.DATE, word[5:])
            elif (match := _CLOCK.match(word)) and (":" in word or match[5] or match[3] or following == "uhr"):
                self._add_clock(index, int(match[1] or match[4]), match[2] or "00", match[3] or match[5] or following)
            elif (
                word.isdecimal()
                and int(word) <= 24
                and self.lower[index - 1 : index] in (["at"], ["um"])
                and (not following or following in _FUNCTION_WORDS)  # nothing that it could count
            ):
                self._add_clock(index, int(word), "00", "")

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
            if match is None:
                continue
            number, unit, end = match[1].rstrip(".,"), match[2] or "", index + 1
            is_version = "." in number or number.startswith("v")
            if not unit and not is_version and is_noun and not self.taken[index + 1]:
                unit, end = stem_word(following), index + 2
            self._add(index, end, ValueType.NUMBER, number.removeprefix("v"), unit)

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
            before, end = self.lower[index - 1] if index else "", self._end_of_name(index)
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

    def _find_complement(self) -> None:
        """Find a word without a capital letter at the end of the sentence, after "is", "called" or "to"."""
        last = len(self.lower) - 1
        while last > 0 and self.lower[last] in _SKIPPED_AT_END:
            last -= 1
        if last < 2 or self.taken[last] or self.lower[last] in _FUNCTION_WORDS or not self.lower[last][0].isalpha():
            return
        before = self.lower[last - 1]
        is_to = self._follows_to(before)
        if is_to or (before in _NAME_MARKERS and _NAME_MARKERS[before] == "is"):
            self._add(last, last + 1, ValueType.NAME, self.lower[last], "to" if is_to else "is")

    def _is_replaced(self, index: int) -> bool:
        """Return whether the value at an index is a former one: "instead of Tuesday", "from Tuesday to"."""
        place = index - 1
        while place > 0 and self.lower[place] in {"on", "at", "in", "am", "um"}:
            place -= 1
        before = self.lower[place] if index else ""
        if before in {"from", "von", "vom"}:
            return self.values[0][0] != index or not _TO_WORDS.isdisjoint(self.lower[index + 1 :])
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
                replacing += map(stem_word, self.lower[end + 1 : end + 5])
            elif (word == "of" and index and self.lower[index - 1] == "instead") or word in {"statt", "anstatt"}:
                end = len(self.lower)
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
_TIME_WORDS = frozenset((*_WEEKDAYS, *_MONTHS))
_VERB_WORDS = (_CHANGE_WORDS - _NOW_WORDS) | _GENERIC_WORDS | _LASTING_WORDS
