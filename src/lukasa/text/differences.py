"""Find what two similar texts say differently, so that a changed fact is not taken for a repeated one.

``find_difference`` compares two texts word by word. Only changes that cannot carry a fact leave two texts the same:
letter case, punctuation, articles and other empty words, fillers, inflection, word order, contractions, other ways to
write a number or a time, misspellings, and synonyms of a small table (``lukasa.text.word_classes``). Everything else is a
difference: another number, name, date, weekday, unit, negation, modal verb, tense or person, an antonym, and any other
content word that only one of the two has.

The rules know English and German. In any other language every differing word is a difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from lukasa.text import word_classes as words

DifferenceKind = Literal[
    "number", "date", "weekday", "unit", "negation", "modal", "tense", "person", "antonym", "name", "order", "word"
]
Language = Literal["en", "de", ""]

_TOKEN = re.compile(r"(?<!\w)-?\d+(?:[.,:/-]\d+)*|[^\W_]+(?:[+#]+(?!\w))?|[<>≤≥≠]")
_LETTER = re.compile(r"[^\W\d_]")
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d{1,2}):(\d\d)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GERMAN_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_ORDINAL_SUFFIXES = frozenset(("st", "nd", "rd", "th"))
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_ACCENTS = re.compile("[\u0300-\u036f]")
_GERMAN_ENDINGS = frozenset(("", "e", "en", "er", "es", "em", "n", "s", "t", "et", "ern"))
_GERMAN_PARTICIPLE = re.compile(r"ge\w{3,}(?:t|en)")
_VOWELS = frozenset("aeiouy")
_SPELLINGS = (("isation", "ization"), ("ise", "ize"), ("ising", "izing"), ("yse", "yze"), ("our", "or"), ("tre", "ter"),
              ("ogue", "og"), ("lled", "led"), ("lling", "ling"), ("ence", "ense"))  # fmt: skip
_ANTONYM_PREFIXES = ("un", "in", "im", "dis", "non", "ir", "il", "de", "mis")
_ALL_MARKERS = words.ENGLISH_MARKERS | words.GERMAN_MARKERS | words.OTHER_MARKERS
_MAX_CACHED_LENGTH = 2_000
_TIME_KINDS = frozenset(("date", "weekday"))


@dataclass(frozen=True, slots=True)
class TextDifference:
    """What one text says and the other does not; ``here`` is of the first text, ``there`` of the second."""

    kind: DifferenceKind
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.here or 'nothing'} / {self.there or 'nothing'}"


class _Token(NamedTuple):
    form: str
    key: str
    kind: DifferenceKind
    is_capitalised: bool = False
    is_past: bool = False


@dataclass(slots=True)
class _Statement:
    """A text as it is compared: content words in order, and the small words that can change what they say."""

    content: list[_Token] = field(default_factory=list)
    negations: list[str] = field(default_factory=list)
    modals: dict[str, str] = field(default_factory=dict)
    persons: dict[str, str] = field(default_factory=dict)
    relations: list[str] = field(default_factory=list)
    coordinated: set[frozenset[str]] = field(default_factory=set)
    function_words: set[str] = field(default_factory=set)


def find_difference(text: str, other: str) -> TextDifference | None:
    """Return the first difference between two texts that can carry a fact, or ``None`` if they state the same."""
    language = _detect_language(text, other)
    if not language:
        return _compare_strictly(text, other)
    one, two = _read_statement(text, language), _read_statement(other, language)
    if len(one.negations) != len(two.negations):
        return TextDifference("negation", " ".join(one.negations), " ".join(two.negations))
    pairs, here, there = _match_tokens(one.content, two.content, language)
    if here or there:
        return _name_difference(here, there)
    if one.modals.keys() != two.modals.keys():
        return TextDifference("modal", _only_in(one.modals, two.modals), _only_in(two.modals, one.modals))
    if one.persons and two.persons and one.persons.keys() != two.persons.keys():
        return TextDifference("person", _only_in(one.persons, two.persons), _only_in(two.persons, one.persons))
    return _compare_tense(one, two, pairs) or _compare_relations(one, two) or _compare_order(one, two, pairs)


def _only_in(these: dict[str, str], those: dict[str, str]) -> str:
    return " ".join(form for key, form in these.items() if key not in those)


def _detect_language(*texts: str) -> Language:
    """Return the language of the texts by their function words; English if there are none, "" if it is another."""
    found: set[str] = set()
    for text in texts:
        if (markers := _find_markers(text)) is None:
            return ""
        found |= markers
    english, german = len(found & words.ENGLISH_MARKERS), len(found & words.GERMAN_MARKERS)
    if len(found & words.OTHER_MARKERS) >= max(2, english + 1, german + 1):
        return ""
    return "de" if german > english else "en"


@lru_cache(maxsize=1_024)
def _find_markers(text: str) -> frozenset[str] | None:
    """Return the function words of any known language in a text, or ``None`` if it is in another script than Latin."""
    if not text.isascii():
        letters = _LETTER.findall(text)
        if sum(letter > "\u024f" for letter in letters) * 3 > len(letters):
            return None
    return _ALL_MARKERS.intersection(_TOKEN.findall(_fold_word(text)))


def _fold_word(word: str) -> str:
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    return _ACCENTS.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFC", lowered).translate(_UMLAUTS)))


def _compare_strictly(text: str, other: str) -> TextDifference | None:
    one, two = (
        [token.casefold() for token in _TOKEN.findall(unicodedata.normalize("NFKC", part))] for part in (text, other)
    )
    if one == two or "".join(one) == "".join(two):
        return None
    here, there = Counter(one) - Counter(two), Counter(two) - Counter(one)
    kind: DifferenceKind = "word" if here or there else "order"
    return TextDifference(kind, " ".join(here), " ".join(there))


def _read_statement(text: str, language: Language) -> _Statement:
    cached = _cached_statement if len(text) <= _MAX_CACHED_LENGTH else _cached_statement.__wrapped__
    return cached(text, language)


@lru_cache(maxsize=1_024)
def _cached_statement(text: str, language: Language) -> _Statement:
    plain = unicodedata.normalize("NFKC", text)
    lowered = plain.lower()
    for triggers, pattern, new in words.PHRASES:
        if any(trigger in lowered for trigger in triggers):
            plain = pattern.sub(new, plain)
    statement = _Statement()
    matches = list(_TOKEN.finditer(plain))
    empty = words.GERMAN_EMPTY_WORDS if language == "de" else words.EMPTY_WORDS
    skip_next = False
    for index, match in enumerate(matches):
        if skip_next:
            skip_next = False
            continue
        form = match[0]
        folded = _fold_word(form)
        following = _fold_word(matches[index + 1][0]) if index + 1 < len(matches) else ""
        before = plain[: match.start()].rstrip(" \"'(*_-•")
        starts_sentence = not before or before[-1] in ".!?:;\n"
        is_emphasised = form in ("US", "IT", "WHO") or (form == "A" and not starts_sentence)
        follows_number = bool(index) and matches[index - 1][0][-1].isdigit()
        number = words.NUMBER_WORDS.get(folded, "") if not follows_number else ""
        if folded[0] in "-0123456789" or number:
            numbers, skip_next = _read_number(number or folded, following, language)
            statement.content += [_Token(form, key, kind) for key, kind in numbers]
        elif is_emphasised:
            statement.content.append(_Token(form, form, "name", is_capitalised=True))
        elif folded in words.NEGATIONS:
            statement.negations.append(form)
            statement.function_words.add(folded)
        elif folded in words.MODALS and not (folded == "may" and _is_month(form, starts_sentence=starts_sentence)):
            statement.modals[words.MODALS[folded]] = form
        elif folded in words.PERSONS:
            statement.persons[words.PERSONS[folded]] = form
        elif folded in words.RELATIONS:
            statement.relations.append(words.RELATIONS[folded])
            if folded in words.COORDINATIONS and index and following:
                statement.coordinated.add(frozenset((_fold_word(matches[index - 1][0]), following)))
        elif folded in empty and not (follows_number and folded in words.UNITS):
            statement.function_words.add(folded)
        else:
            statement.content.append(_classify_word(form, folded, statement.content, language))
        if index and "," in plain[matches[index - 1].end() : match.start()]:
            statement.coordinated.add(frozenset((_fold_word(matches[index - 1][0]), folded)))
    if not statement.content:  # only small words: then each of them counts
        statement.content = [_Token(match[0], _fold_word(match[0]), "word") for match in matches]
    return statement


def _is_month(form: str, *, starts_sentence: bool) -> bool:
    return form == "May" and not starts_sentence


def _read_number(token: str, following: str, language: Language) -> tuple[list[tuple[str, DifferenceKind]], bool]:
    """Return the canonical tokens of a number, time or date, and whether they include the word that follows."""
    if date := _ISO_DATE.fullmatch(token):
        year, month, day = date.groups()
        names = list(dict.fromkeys(words.MONTHS.values()))
        if 1 <= int(month) <= 12:
            return [(str(int(day)), "number"), (names[int(month) - 1], "date"), (year, "number")], False
    if following in ("am", "pm") and (clock := re.fullmatch(r"(\d{1,2})(?:[:.](\d\d))?", token)):
        hour = int(clock[1]) % 12 + (12 if following == "pm" else 0)
        return [(f"{hour}:{clock[2] or '00'}", "number")], True
    if time := _TIME.fullmatch(token):
        return [(f"{int(time[1])}:{time[2]}", "number")], following == "uhr"
    if following in ("uhr", "oclock", "o") and token.isdigit():
        return [(f"{int(token)}:00", "number")], following != "o"
    if _THOUSANDS.fullmatch(token) and language == "en":
        token = token.replace(",", "")
    elif language == "de" and _GERMAN_THOUSANDS.fullmatch(token):
        token = token.replace(".", "").replace(",", ".")
    elif language == "de" and re.fullmatch(r"\d+,\d+", token):
        token = token.replace(",", ".")
    return [(token, "number")], following in _ORDINAL_SUFFIXES


def _classify_word(form: str, folded: str, before: Sequence[_Token], language: Language) -> _Token:
    is_capitalised = form[0].isupper()
    follows_number = bool(before) and before[-1].kind == "number"
    if folded in words.UNITS and (follows_number or len(folded) > 3):
        return _Token(form, words.UNITS[folded], "unit" if follows_number else "word")
    if folded in words.WEEKDAYS:
        return _Token(form, words.WEEKDAYS[folded], "weekday")
    if folded in words.MONTHS and (is_capitalised or len(folded) > 3):
        return _Token(form, words.MONTHS[folded], "date")
    if folded in words.TIMES:
        return _Token(form, folded, "date")
    stem = stem_english(folded) if language == "en" else folded
    key = _synonyms_by_stem(language).get(stem if language == "en" else _strip_german_ending(folded), stem)
    kind: DifferenceKind = "name" if is_capitalised and language == "en" else "word"
    if language == "en":
        is_past = folded in words.PAST_FORMS or (folded.endswith("ed") and stem != folded)
    else:
        is_past = _GERMAN_PARTICIPLE.fullmatch(folded) is not None and not is_capitalised
    return _Token(form, key, kind, is_capitalised, is_past)


@cache
def _synonyms_by_stem(language: Language) -> dict[str, str]:
    """Return the table of synonyms by the stems of its words."""
    stem = stem_english if language == "en" else _strip_german_ending
    return {stem(word): stem(first) for word, first in words.SYNONYMS.items()}


def _strip_german_ending(word: str) -> str:
    return next(
        (word[: -len(end)] for end in ("en", "et", "st", "t", "e") if word.endswith(end) and len(word) > 5), word
    )


@lru_cache(maxsize=4_096)
def stem_english(word: str) -> str:
    """Return the base of an inflected word; different words rarely share one."""
    if word in words.IRREGULAR_FORMS:
        return words.IRREGULAR_FORMS[word]
    if word in words.NOT_STEMMED or len(word) < 4:
        return word
    if len(word) > 5 and word.endswith("ly"):
        word = word[:-2]
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 7 and word.endswith("ment"):
        word = word[:-4]
    elif len(word) > 5 and word.endswith("ing") and _VOWELS & set(word[:-3]):
        word = _undouble(word[:-3])
    elif len(word) > 4 and word.endswith("ed") and not word.endswith("eed") and _VOWELS & set(word[:-2]):
        word = _undouble(word[:-2])
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _undouble(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl" else word


def _match_tokens(
    one: Sequence[_Token], two: Sequence[_Token], language: Language
) -> tuple[list[tuple[int, int]], list[_Token], list[_Token]]:
    """Return the positions of equal words, and the words that only one of the two has."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(two):
        places.setdefault(token.key, []).append(place)
    pairs: list[tuple[int, int]] = []
    rest: list[int] = []
    for place, token in enumerate(one):
        if known := places.get(token.key):
            pairs.append((place, known.pop(0)))
        else:
            rest.append(place)
    free = sorted(place for known in places.values() for place in known)
    here: list[int] = []
    for place in rest:
        found = next((other for other in free if _is_same_word(one[place], two[other], language)), None)
        if found is None:
            here.append(place)
        else:
            free.remove(found)
            pairs.append((place, found))
    only_one, only_two = [one[place] for place in here], [two[place] for place in free]
    if only_one and only_two and _join_keys(only_one) == _join_keys(only_two):  # "data base" and "database"
        only_one, only_two = [], []
    # A word may be said twice by one of the texts.
    only_one = [token for token in only_one if token.kind == "number" or token.key not in {other.key for other in two}]
    only_two = [token for token in only_two if token.kind == "number" or token.key not in {other.key for other in one}]
    return sorted(pairs), only_one, only_two


def _join_keys(tokens: Iterable[_Token]) -> str:
    return "".join(_fold_word(token.form) for token in tokens)


def _is_same_word(one: _Token, two: _Token, language: Language) -> bool:
    """Tell whether two words are spellings, misspellings or, in German, inflections of one word."""
    a, b = _fold_word(one.form), _fold_word(two.form)
    if one.kind in ("number", "unit") or two.kind in ("number", "unit"):
        return False
    if one.kind in _TIME_KINDS and two.kind in _TIME_KINDS:
        return False
    if language == "en":
        if any(
            a.endswith(x) and b == a.removesuffix(x) + y for x, y in (*_SPELLINGS, *(pair[::-1] for pair in _SPELLINGS))
        ):
            return True
        if one.is_capitalised and two.is_capitalised:
            return False
    elif _is_german_inflection(a, b):
        return True
    return is_misspelling(one.key, two.key) or is_misspelling(a, b)


def _is_german_inflection(a: str, b: str) -> bool:
    if _GERMAN_PARTICIPLE.fullmatch(a) and _is_german_inflection(a[2:], b):
        return True
    if _GERMAN_PARTICIPLE.fullmatch(b) and _is_german_inflection(a, b[2:]):
        return True
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return any(a[at:] in _GERMAN_ENDINGS and b[at:] in _GERMAN_ENDINGS for at in range(length, max(length - 3, 3), -1))


def is_misspelling(a: str, b: str) -> bool:
    """Tell whether one word is likely the other one mistyped.

    Likely are, inside a word: two letters swapped, a letter doubled, a letter left out of a word of seven, a vowel in the
    place of another in a word of seven. First and last letters and short words are not: there, one letter makes another
    word too often.
    """
    if a == b or frozenset((a, b)) in words.CONFUSABLE_WORDS:
        return a == b
    short, long = sorted((a, b), key=len)
    if len(short) < 4 or a[0] != b[0] or any(letter.isdigit() for letter in a + b):
        return False
    if len(a) == len(b):
        places = [place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        if len(places) == 2 and places[1] == places[0] + 1 and len(a) >= 5:
            first, second = places
            return a[first] == b[second] and a[second] == b[first]
        return len(places) == 1 and len(a) >= 7 and places[0] < len(a) - 1 and {a[places[0]], b[places[0]]} <= _VOWELS
    if len(long) != len(short) + 1:
        return False
    place = next((at for at, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short))
    if long[:place] + long[place + 1 :] != short:
        return False
    is_doubled = place > 0 and long[place] == long[place - 1]
    return (is_doubled and len(long) >= 5) or (len(long) >= 7 and 0 < place < len(long) - 1)


def _name_difference(here: Sequence[_Token], there: Sequence[_Token]) -> TextDifference:
    """Return the difference in the words that only one of two texts has; the most telling kind names it."""
    for one in here:
        for two in there:
            if _are_antonyms(one.key, two.key) or _are_antonyms(_fold_word(one.form), _fold_word(two.form)):
                return TextDifference("antonym", one.form, two.form)
    kinds: tuple[DifferenceKind, ...] = ("number", "date", "weekday", "unit", "name", "word")
    of_kind = {kind: ([t for t in here if t.kind == kind], [t for t in there if t.kind == kind]) for kind in kinds}
    kind = next(kind for test in (all, any) for kind in kinds if test(of_kind[kind]))
    ours, theirs = of_kind[kind]
    if not (ours and theirs):
        ours, theirs = list(here), list(there)
    return TextDifference(kind, " ".join(t.form for t in ours[:5]), " ".join(t.form for t in theirs[:5]))


def _are_antonyms(a: str, b: str) -> bool:
    short, long = sorted((a, b), key=len)
    return frozenset((a, b)) in words.ANTONYMS or (
        len(short) > 3 and any(long == prefix + short for prefix in _ANTONYM_PREFIXES)
    )


def _compare_tense(one: _Statement, two: _Statement, pairs: Sequence[tuple[int, int]]) -> TextDifference | None:
    for here, there in ((one, two), (two, one)):
        is_past = here.function_words & words.PAST_BE and not here.function_words & words.PRESENT_BE
        if is_past and there.function_words & words.PRESENT_BE and not there.function_words & words.PAST_BE:
            past, present = (
                " ".join(sorted(s.function_words & (words.PAST_BE | words.PRESENT_BE))) for s in (here, there)
            )
            return TextDifference("tense", *((past, present) if here is one else (present, past)))
    for at, to in pairs:
        a, b = one.content[at], two.content[to]
        told_in_past = one if a.is_past and not b.is_past else two if b.is_past and not a.is_past else None
        if told_in_past is not None and not told_in_past.function_words & words.PASSIVE_AUXILIARIES:
            return TextDifference("tense", a.form, b.form)
    return None


def _compare_relations(one: _Statement, two: _Statement) -> TextDifference | None:
    here, there = Counter(one.relations) - Counter(two.relations), Counter(two.relations) - Counter(one.relations)
    return TextDifference("word", " ".join(here), " ".join(there)) if here and there else None


def _compare_order(one: _Statement, two: _Statement, pairs: Sequence[tuple[int, int]]) -> TextDifference | None:
    """Return a difference if the words stand in an order that turns the statement around.

    "Anna reports to Ben" and "Ben reports to Anna" have the same words. Two names, numbers or days that change places turn
    a statement around, unless they are listed with "and" or a comma. So do two words that change places around a third.
    In the passive voice ("by") words may change places.
    """
    if ("by" in one.relations) != ("by" in two.relations) or all(at == to for at, to in pairs):
        return None
    names = {token.key for token in (*one.content[1:], *two.content[1:]) if token.kind == "name"}
    order = [(one.content[at], to) for at, to in pairs]
    lists = one.coordinated | two.coordinated
    for index, (a, place) in enumerate(order):
        for step, (b, later) in enumerate(order[index + 1 :]):
            kind = "name" if a.key in names and b.key in names else a.kind if a.kind == b.kind else None
            is_telling = kind == "name" or (kind in ("number", "date", "weekday") and not step)
            if later < place and is_telling and frozenset((_fold_word(a.form), _fold_word(b.form))) not in lists:
                return TextDifference("order", f"{a.form} … {b.form}", f"{b.form} … {a.form}")
    places = [(token, to) for token, to in order if token.kind not in _TIME_KINDS]
    for middle, (_, pivot) in enumerate(places):
        first = next((token for token, to in places[:middle] if to > pivot), None)
        last = next((token for token, to in places[middle + 1 :] if to < pivot), None)
        if (
            first is not None
            and last is not None
            and frozenset((_fold_word(first.form), _fold_word(last.form))) not in lists
        ):
            return TextDifference("order", f"{first.form} … {last.form}", f"{last.form} … {first.form}")
    return None
