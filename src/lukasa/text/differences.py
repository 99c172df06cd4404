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
from typing import Literal, NamedTuple

from lukasa.core.text_cache import cache_texts
from lukasa.text import word_classes as words
from lukasa.text.word_classes import Language

DifferenceKind = Literal[
    "number", "date", "weekday", "unit", "negation", "modal", "tense", "person", "antonym", "name", "order", "word"
]

_TOKEN = re.compile(r"(?<!\w)-?\d+(?:[.,:/-]\d+)*|[^\W_]+(?:[+#]+(?!\w))?|[<>≤≥≠]|[,.!?:;\n]")
"""A number, a word, a sign, or a mark between them."""
_SIGN = re.compile(r"['’%€$£°=]|\.(?=[A-Za-z]\.)")
_SENTENCE_ENDS = frozenset(".!?:;\n")
_MARKS = _SENTENCE_ENDS | {","}
_ORDINAL_SUFFIXES = frozenset(("st", "nd", "rd", "th"))
_GERMAN_ENDINGS = frozenset(("", "e", "en", "er", "es", "em", "n", "s", "t", "et", "ern"))
_FIRST_NAMES = frozenset(("jan", "jun"))
_MONTH_NAMES = tuple(dict.fromkeys(words.MONTHS.values()))
_VOWELS = frozenset("aeiouy")
_SPELLINGS = (("isation", "ization"), ("ise", "ize"), ("ising", "izing"), ("yse", "yze"), ("our", "or"), ("tre", "ter"),
              ("ogue", "og"), ("lled", "led"), ("lling", "ling"), ("ence", "ense"))  # fmt: skip
_ANTONYM_PREFIXES = ("un", "in", "im", "dis", "non", "ir", "il", "de", "mis")
_ALL_MARKERS = words.ENGLISH_MARKERS | words.GERMAN_MARKERS | words.OTHER_MARKERS
_EMPHASISED = frozenset(("A", "IT", "US", "WHO"))
_MAX_MATCHED_WORDS = 12
_KINDS_BY_WEIGHT: tuple[DifferenceKind, ...] = ("number", "date", "weekday", "unit", "name", "word")
_TIME_KINDS = frozenset(("date", "weekday"))
_COUNTED_KINDS = frozenset(("number", "unit", "date", "weekday"))
_MAX_FRONT_WORDS = 3
_MAX_REORDERED_WORDS = 40
_DIRECTIONS = frozenset(("by", "for", "from", "to", "with"))
_BINDING_PREPOSITIONS = _DIRECTIONS | {"into", "not", "than", "then"}


@dataclass(frozen=True, slots=True)
class TextDifference:
    """What one text says and the other does not; ``here`` is of the first text, ``there`` of the second."""

    kind: DifferenceKind
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.here or 'nothing'} / {self.there or 'nothing'}"


class _SplitText(NamedTuple):
    """The words and marks of a text, the same folded, and its function words of any known language.

    There are no function words if most of the text is in another script than Latin.
    """

    forms: list[str]
    folded: list[str]
    markers: frozenset[str] | None


class _Token(NamedTuple):
    form: str
    folded: str
    key: str
    kind: DifferenceKind
    is_capitalised: bool = False
    is_past: bool = False


@dataclass(slots=True)
class _Statement:
    """A text as it is compared: content words in order, and the small words that can change what they say."""

    content: list[_Token] = field(default_factory=list)
    prepositions: list[str] = field(default_factory=list)
    """The sort of the preposition before each content word, or nothing."""
    lists: list[int] = field(default_factory=list)
    """The number of the list that each content word belongs to, as in "Anna, Ben and Clara"; 0 outside of lists."""
    keys: frozenset[str] = frozenset()
    negations: list[str] = field(default_factory=list)
    modals: dict[str, str] = field(default_factory=dict)
    persons: dict[str, str] = field(default_factory=dict)
    relations: list[str] = field(default_factory=list)
    function_words: set[str] = field(default_factory=set)
    subject_length: int = -1
    """How many content words stand before "has"; -1 without it."""


def find_difference(text: str, other: str) -> TextDifference | None:
    """Return the first difference between two texts that can carry a fact, or ``None`` if they state the same."""
    language = _detect_language(_split_text(text).markers, _split_text(other).markers)
    if not language:
        return _compare_strictly(text, other)
    one, two = _read_statement(text, language), _read_statement(other, language)
    if len(one.negations) != len(two.negations):
        return TextDifference("negation", " ".join(one.negations), " ".join(two.negations))
    pairs, here, there = _match_tokens(one, two, language)
    if here or there:
        return _name_difference(here, there)
    if one.modals.keys() != two.modals.keys():
        return TextDifference("modal", _only_in(one.modals, two.modals), _only_in(two.modals, one.modals))
    if one.persons and two.persons and one.persons.keys() != two.persons.keys():
        return TextDifference("person", _only_in(one.persons, two.persons), _only_in(two.persons, one.persons))
    return _compare_tense(one, two, pairs) or _compare_relations(one, two) or _compare_order(one, two, pairs)


@cache_texts(1_024, per_character=20)
def _split_text(text: str) -> _SplitText:
    """Split a text into words and marks, with its phrases rewritten."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    forms = _TOKEN.findall(plain)
    folded = [form.lower() for form in forms] if plain.isascii() else [_fold_word(form) for form in forms]
    found = set(folded) - _MARKS
    letters = "" if plain.isascii() else [character for character in plain if character.isalpha()]
    is_latin = sum(letter > "\u024f" for letter in letters) * 3 <= len(letters)
    if triggers := words.TRIGGERS.keys() & found.union(_SIGN.findall(plain)):
        for place in sorted({place for trigger in triggers for place in words.TRIGGERS[trigger]}):
            plain = words.PHRASES[place][1].sub(words.PHRASES[place][2], plain)
        forms = _TOKEN.findall(plain)
        folded = [_fold_word(form) for form in forms]
    return _SplitText(forms, folded, _ALL_MARKERS & found if is_latin else None)


def _only_in(these: dict[str, str], those: dict[str, str]) -> str:
    return " ".join(form for key, form in these.items() if key not in those)


def _detect_language(one: frozenset[str] | None, two: frozenset[str] | None) -> Language:
    """Return the language of two texts by their function words; English if there are none, "" if it is another."""
    if one is None or two is None:
        return ""
    found = one | two
    english, german = len(found & words.ENGLISH_MARKERS), len(found & words.GERMAN_MARKERS)
    if len(found & words.OTHER_MARKERS) >= max(2, english + 1, german + 1):
        return ""
    return "de" if german > english else "en"


def _fold_word(word: str) -> str:
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    decomposed = unicodedata.normalize("NFD", unicodedata.normalize("NFC", lowered).translate(words.UMLAUTS))
    return "".join(character for character in decomposed if not "\u0300" <= character <= "\u036f")


def _compare_strictly(text: str, other: str) -> TextDifference | None:
    one, two = (
        [token.casefold() for token in _TOKEN.findall(unicodedata.normalize("NFKC", part)) if token not in _MARKS]
        for part in (text, other)
    )
    if one == two or "".join(one) == "".join(two):
        return None
    here, there = Counter(one) - Counter(two), Counter(two) - Counter(one)
    kind: DifferenceKind = "word" if here or there else "order"
    return TextDifference(kind, " ".join(here), " ".join(there))


@cache_texts(1_024, 8_000_000, per_character=40)
def _read_statement(text: str, language: Language) -> _Statement:
    forms, folded_forms, _ = _split_text(text)
    statement = _Statement()
    content, prepositions, lists = statement.content, statement.prepositions, statement.lists
    roles, sorts = words.ROLES[language], words.PREPOSITIONS[language]
    starts_sentence, skip_next, first_listed = True, False, 0
    before = preposition = joint = ""
    for index, folded in enumerate(folded_forms):
        form = forms[index]
        found: Sequence[_Token] = ()
        role = ""
        if folded in _MARKS:
            starts_sentence = starts_sentence or folded != ","
            joint, before = joint or folded, folded
            continue
        is_first, starts_sentence = starts_sentence, False
        follows_number = before[-1:].isdigit()
        number = "" if follows_number else words.NUMBER_WORDS.get(folded, "")
        role, group = roles.get(folded, ("", ""))
        if skip_next:
            skip_next, before = False, folded
            continue
        if number or folded[0] in "-0123456789":
            following = folded_forms[index + 1] if index + 1 < len(forms) else ""
            numbers, skip_next = _read_number(number or folded, following, language)
            found = [_Token(form, folded, key, kind) for key, kind in numbers]
        elif form in _EMPHASISED and not (form == "A" and is_first):
            found = (_Token(form, folded, form, "name", is_capitalised=True),)
        elif role == "negation":
            statement.negations.append(form)
            statement.function_words.add(folded)
        elif role == "modal" and not (form == "May" and not is_first):
            statement.modals[group] = form
        elif role == "person":
            statement.persons[group] = form
        elif role == "relation":
            statement.relations.append(group)
        elif role == "empty" and not (follows_number and folded in words.UNITS):
            statement.function_words.add(folded)
            if folded in words.POSSESSION and statement.subject_length < 0:
                statement.subject_length = len(content)
        else:
            follows_number = bool(content) and content[-1].kind == "number"
            found = (_classify_word(form, folded, language, follows_number=follows_number),)
        before = folded
        for token in found:
            own = sorts.get(folded) or preposition
            prepositions.append(own or (prepositions[-1] if content and token.kind in _COUNTED_KINDS else ""))
            first_listed = first_listed if content and joint in ("and", ",") else len(content)
            lists.append(lists[-1] if joint == "," and lists else 0)
            if joint == "and" and content:
                lists[first_listed:] = [first_listed + 1] * (len(lists) - first_listed)
            content.append(token)
        if found:
            joint, preposition = "", sorts.get(folded, "")
        elif folded in words.COORDINATIONS:
            joint = joint if joint == "no list" else "and"
        else:
            joint = joint if role == "empty" else "no list"
            preposition = "not" if role == "negation" else sorts.get(folded, preposition)
    if not content:  # only small words: then each of them counts
        statement.content = [
            _Token(form, folded, folded, "word")
            for form, folded in zip(forms, folded_forms, strict=True)
            if folded not in _MARKS
        ]
        prepositions += [""] * len(statement.content)
        lists += [0] * len(statement.content)
    statement.keys = frozenset([token.key for token in statement.content])
    return statement


def _group_lengths(token: str, mark: str) -> list[int]:
    """Return how many digits stand between the marks of a number; nothing if there is anything else."""
    groups = token.split(mark)
    return [len(group) for group in groups] if all(map(str.isdecimal, groups)) else []


def _is_german_participle(word: str) -> bool:
    return word.startswith("ge") and word.endswith(("t", "en")) and len(word) >= (7 if word.endswith("en") else 6)


def _read_number(token: str, following: str, language: Language) -> tuple[list[tuple[str, DifferenceKind]], bool]:
    """Return the canonical tokens of a number, time or date, and whether they include the word that follows."""
    if _group_lengths(token, "-") == [4, 2, 2] and 1 <= int(token[5:7]) <= 12:
        year, month, day = token.split("-")
        return [(str(int(day)), "number"), (_MONTH_NAMES[int(month) - 1], "date"), (year, "number")], False
    hour, _, minute = token.replace(".", ":").partition(":")
    if following in ("am", "pm") and _group_lengths(token.replace(".", ":"), ":") in ([1], [2], [1, 2], [2, 2]):
        return [(f"{int(hour) % 12 + (12 if following == 'pm' else 0)}:{minute or '00'}", "number")], True
    if _group_lengths(token, ":") in ([1, 2], [2, 2]):
        return [(f"{int(hour)}:{minute}", "number")], following == "uhr"
    if following in ("uhr", "oclock") and token.isdecimal():
        return [(f"{int(token)}:00", "number")], True
    mark, point = (".", ",") if language == "de" else (",", ".")
    whole, decimal, fraction = token.partition(point)
    groups = _group_lengths(whole, mark)
    if len(groups) > 1 and groups[0] <= 3 and set(groups[1:]) == {3}:
        token = whole.replace(mark, "") + "." * bool(decimal) + fraction
    scale = words.NUMBER_WORDS.get(following, "")
    if len(scale) > 3 and len(_group_lengths(token, ".")) in (1, 2):  # 1.2 million
        whole, _, fraction = token.partition(".")
        if len(fraction) < len(scale):
            return [((whole + fraction.ljust(len(scale) - 1, "0")).lstrip("0"), "number")], True
    return [(token, "number")], following in _ORDINAL_SUFFIXES


def _classify_word(form: str, folded: str, language: Language, *, follows_number: bool) -> _Token:
    is_capitalised = form[0].isupper()
    if folded in words.UNITS and (follows_number or len(folded) > 3):
        return _Token(form, folded, words.UNITS[folded], "unit" if follows_number else "word")
    if folded in words.WEEKDAYS:
        return _Token(form, folded, words.WEEKDAYS[folded], "weekday")
    if folded in words.MONTHS and (
        follows_number or len(folded) > 4 or (is_capitalised and folded not in _FIRST_NAMES)
    ):
        return _Token(form, folded, words.MONTHS[folded], "date")
    if folded in words.TIMES:
        return _Token(form, folded, folded, "date")
    stem = stem_english(folded) if language == "en" else folded
    key = _SYNONYMS_BY_STEM[language].get(stem if language == "en" else _strip_german_ending(folded), stem)
    kind: DifferenceKind = "name" if is_capitalised and language == "en" else "word"
    if language == "en":
        is_past = folded in words.PAST_FORMS or (folded.endswith("ed") and stem != folded)
    else:
        is_past = _is_german_participle(folded) and not is_capitalised
    return _Token(form, folded, key, kind, is_capitalised, is_past)


def _strip_german_ending(word: str) -> str:
    return next(
        (word[: -len(end)] for end in ("en", "et", "st", "t", "e") if word.endswith(end) and len(word) > len(end) + 2),
        word,
    )


def stem_english(word: str) -> str:
    """Return the base of an inflected word; different words rarely share one."""
    if word in words.IRREGULAR_FORMS:
        return words.IRREGULAR_FORMS[word]
    if word in words.NOT_STEMMED or len(word) < 4:
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing") and _VOWELS & set(word[:-3]):
        word = _undouble(word[:-3])
    elif len(word) > 4 and word.endswith("ed") and not word.endswith("eed") and _VOWELS & set(word[:-2]):
        word = _undouble(word[:-2])
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _undouble(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl" else word


_SYNONYMS_BY_STEM: dict[Language, dict[str, str]] = {
    "en": {stem_english(word): stem_english(first) for word, first in words.SYNONYMS.items()},
    "de": {_strip_german_ending(word): _strip_german_ending(first) for word, first in words.SYNONYMS.items()},
}
"""The synonyms by the stems of their words."""


def _match_tokens(
    one: _Statement, two: _Statement, language: Language
) -> tuple[list[tuple[int, int]], list[_Token], list[_Token]]:
    """Return the positions of equal words, and the words that only one of the two has.

    A word may be said twice by one of the texts, unless it is a number.
    """
    places: dict[str, list[int]] = {}
    for place, token in enumerate(two.content):
        places.setdefault(token.key, []).append(place)
    pairs: list[tuple[int, int]] = []
    here: list[int] = []
    for place, token in enumerate(one.content):
        if known := places.get(token.key):
            pairs.append((place, known.pop(0)))
        elif token.kind == "number" or token.key not in two.keys:
            here.append(place)
    there = [
        place
        for key, known in places.items()
        for place in known
        if key not in one.keys or two.content[place].kind == "number"
    ]
    there.sort()
    if here and there and max(len(here), len(there)) <= _MAX_MATCHED_WORDS:
        for place in tuple(here):
            token = one.content[place]
            found = next((other for other in there if _is_same_word(token, two.content[other], language)), None)
            if found is not None:
                here.remove(place)
                there.remove(found)
                pairs.append((place, found))
        pairs.sort()
    only_one, only_two = [one.content[place] for place in here], [two.content[place] for place in there]
    if only_one and only_two and _join_keys(only_one) == _join_keys(only_two):  # "data base" and "database"
        return pairs, [], []
    return pairs, only_one, only_two


def _join_keys(tokens: Iterable[_Token]) -> str:
    return "".join([token.key if token.kind == "number" else token.folded for token in tokens])


def _is_same_word(one: _Token, two: _Token, language: Language) -> bool:
    """Tell whether two words are spellings, misspellings or, in German, inflections of one word."""
    a, b = one.folded, two.folded
    if one.kind in ("number", "unit") or two.kind in ("number", "unit"):
        return False
    if one.kind in _TIME_KINDS and two.kind in _TIME_KINDS:
        return False
    if a[0] != b[0] and (language == "en" or (a[:2] != "ge" and b[:2] != "ge")):
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
    if _is_german_participle(a) and _is_german_inflection(a[2:], b):
        return True
    if _is_german_participle(b) and _is_german_inflection(a, b[2:]):
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
    ours, theirs = ([token for token in side if token.kind != "number"] for side in (here, there))
    for one in ours[:_MAX_MATCHED_WORDS]:
        for two in theirs[:_MAX_MATCHED_WORDS]:
            if _are_antonyms(one.key, two.key) or _are_antonyms(one.folded, two.folded):
                return TextDifference("antonym", one.form, two.form)
    kinds_here, kinds_there = {token.kind for token in here}, {token.kind for token in there}
    common = kinds_here & kinds_there
    kind = next(kind for kind in _KINDS_BY_WEIGHT if kind in (common or kinds_here | kinds_there))
    ours, theirs = ([token for token in side if token.kind == kind or not common] for side in (here, there))
    return TextDifference(kind, " ".join([t.form for t in ours[:5]]), " ".join([t.form for t in theirs[:5]]))


def _are_antonyms(a: str, b: str) -> bool:
    short, long = sorted((a, b), key=len)
    return frozenset((a, b)) in words.ANTONYMS or (
        len(short) > 3 and any(long == prefix + short for prefix in _ANTONYM_PREFIXES)
    )


def _compare_tense(one: _Statement, two: _Statement, pairs: Sequence[tuple[int, int]]) -> TextDifference | None:
    for past, present in words.TENSES:
        of_one, of_two = (statement.function_words & (past | present) for statement in (one, two))
        if ((of_one <= past and of_two <= present) or (of_one <= present and of_two <= past)) and of_one and of_two:
            return TextDifference("tense", " ".join(sorted(of_one)), " ".join(sorted(of_two)))
    for at, to in pairs:
        a, b = one.content[at], two.content[to]
        past_side = one if a.is_past and not b.is_past else two if b.is_past and not a.is_past else None
        if past_side is not None and not past_side.function_words & words.PASSIVE_AUXILIARIES:
            return TextDifference("tense", a.form, b.form)
    return None


def _compare_relations(one: _Statement, two: _Statement) -> TextDifference | None:
    here, there = Counter(one.relations) - Counter(two.relations), Counter(two.relations) - Counter(one.relations)
    return TextDifference("word", " ".join(here), " ".join(there)) if here and there else None


def _compare_order(one: _Statement, two: _Statement, pairs: Sequence[tuple[int, int]]) -> TextDifference | None:
    """Return a difference if the words stand in an order that turns the statement around.

    "Anna reports to Ben" and "Ben reports to Anna" have the same words. Two names, numbers or days that change places turn
    a statement around, unless they are listed with "and". So do two words that change places around a third, and two words
    that change their prepositions ("from A to B"). In the passive voice ("by") words may change places. So may a part that
    begins with a preposition, if the part moves to the front ("In Rome Anna met Ben") or follows "of", and parts that begin
    with different ones.
    """
    if all(at == to for at, to in pairs) and one.prepositions == two.prepositions:
        return None
    if ("by" in one.relations) != ("by" in two.relations):
        return _compare_prepositions(one, two, pairs)
    if min(one.subject_length, two.subject_length) >= 0:  # "Every module has an owner", "every owner has a module"
        sides = {(at < one.subject_length, to < two.subject_length): one.content[at].form for at, to in pairs}
        if (True, False) in sides and (False, True) in sides:
            left, right = sides[True, False], sides[False, True]
            return TextDifference("order", f"{left} … {right}", f"{right} … {left}")

    def preposition_of(at: int, to: int) -> str:
        found = one.prepositions[at]
        return found if found == two.prepositions[to] and found not in ("not", "than", "then") else ""

    def may_swap(first: tuple[int, int], second: tuple[int, int]) -> bool:
        if _are_listed(one, two, first, second):
            return True
        before, after = preposition_of(*first), preposition_of(*second)
        if before == after:
            return False
        moved = first if before else second
        return bool(before and after) or "of" in (before, after) or min(moved) < _MAX_FRONT_WORDS

    for index, first in enumerate(pairs):
        for step, second in enumerate(pairs[index + 1 :]):
            if second[1] > first[1]:
                continue
            a, b = one.content[first[0]], one.content[second[0]]
            between = [to for _, to in pairs[index + 1 : index + 1 + step] if second[1] < to < first[1]]
            are_names = all(
                one.content[at].is_capitalised and two.content[to].is_capitalised for at, to in (first, second)
            )
            are_times = a.kind == b.kind and a.kind in _TIME_KINDS
            are_numbers = a.kind == b.kind == "number" and not step
            is_turned = between and a.kind not in _TIME_KINDS and b.kind not in _TIME_KINDS
            is_long = len(pairs) > _MAX_REORDERED_WORDS
            if (are_names or are_times or are_numbers or is_turned or is_long) and not may_swap(first, second):
                return TextDifference("order", f"{a.form} … {b.form}", f"{b.form} … {a.form}")
    return _compare_prepositions(one, two, pairs)


def _are_listed(one: _Statement, two: _Statement, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Tell whether two words stand in one list in both statements."""
    ours, theirs = one.lists[first[0]], two.lists[first[1]]
    return ours == one.lists[second[0]] > 0 < theirs == two.lists[second[1]]


def _compare_prepositions(one: _Statement, two: _Statement, pairs: Sequence[tuple[int, int]]) -> TextDifference | None:
    """Return a difference if words change their prepositions, or change places behind one: "more tea than coffee"."""
    changed = sorted(
        (token.form, ours, theirs, at, to)
        for at, to in pairs
        for token, ours, theirs in [(one.content[at], one.prepositions[at], two.prepositions[to])]
        if ours != theirs and not {ours, theirs}.isdisjoint(_BINDING_PREPOSITIONS)
    )
    for form, ours, theirs, at, to in changed:
        if ours in _DIRECTIONS and theirs in _DIRECTIONS:
            return TextDifference("order", f"{ours} {form}", f"{theirs} {form}")
        for other, _, others_preposition, other_at, other_to in changed:
            is_exchanged = ours == others_preposition in _BINDING_PREPOSITIONS and (at < other_at) != (to < other_to)
            if is_exchanged and not _are_listed(one, two, (at, to), (other_at, other_to)):
                return TextDifference("order", f"{ours} {form}", f"{ours} {other}")
    return None
