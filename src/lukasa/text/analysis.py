"""Analysis of a sentence: its words, its clauses, and what kind of statement each clause makes.

Everything is read from the words and the lexicon, once and from left to right, so that the time is linear in the length
of the sentence. Callers conclude from it whether there is a fact, a change or a repetition.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from lukasa.text.lexicon import WORDS
from lukasa.text.terms import contains_phrase, plain_word, starts_with

QUOTATION_PLACEHOLDER = "\ufffc"
"""A character in place of a quotation; a sentence that has it states nothing."""
_QUESTION_MARKS = ("?", "？", "؟", "?)", '?"', "?”", "?!")
_MAX_SUBJECT_WORDS = 9
_MAX_SETTING_WORDS = 7
_BREAKS = frozenset({"-", "–", "—", "but", "aber"})
_NO_BREAK_BEFORE = frozenset({"only", "not", "nur", "nicht", "no"})
_CONNECTIVES = frozenset({"and", "und", "so", "while"})
_SELF, _GROUP = frozenset({"i", "ich"}), frozenset({"we", "wir"})
_SUBJECTS = _SELF | _GROUP | {"nobody", "niemand", "keiner"} | WORDS["owners"].keys()
_DETERMINERS = frozenset({"the", "my", "our", "a", "an", "der", "die", "das", "mein", "meine", "unser", "unsere"})
_SETTING_STARTS = WORDS["setting_starts"]
_FULL = {"re": "are", "'m": "am", "ve": "have"}
_CONTRACTED_BEFORE = (
    _DETERMINERS | WORDS["prepositions"].keys() | WORDS["day_words"].keys() | {"called", "allergic", "closed", "open"}
)
_SHARING_VERBS = (
    {verb.split()[0] for verb in WORDS["first_person_verbs"]} | WORDS["preference_verbs"].keys() | {"am", "have"}
)
_FINITE_VERBS = (
    WORDS["verbs"].keys() | WORDS["tool_verbs"].keys() | {"can", "must", "will", "may", "should", "muss", "darf"}
)


def is_question(sentence: str) -> bool:
    """Tell whether a sentence ends with a question mark of any script."""
    return sentence.endswith(_QUESTION_MARKS)


def is_supposition(text: str) -> bool:
    """Tell whether a sentence asks, supposes, hedges or quotes."""
    clause = Clause(text, "")
    return (
        not clause.vocabulary.isdisjoint(WORDS["supposition"])
        or contains_phrase(clause.lowered, WORDS["supposition_phrases"])
        or clause.is_asked
        or starts_with(clause.lowered, WORDS["subordinating"])
    )


def names_day(text: str) -> bool:
    """Tell whether a text begins with a day, a date or a time."""
    words = [plain_word(word) for word in text.split()[:4]]
    return any(
        word[:1].isdigit()
        or word in WORDS["day_words"]
        or (word in WORDS["evidence"] and word not in ("first", "second"))
        for word in words
    )


class Clause:
    """A clause of a sentence and its speaker; ``setting`` is a phrase that stood before it: "for the backend"."""

    def __init__(self, text: str, speaker: str, setting: str = "") -> None:
        self.text = text
        self.speaker = speaker
        self.setting = setting
        self.words = text.split()
        self.lowered = text.lower()
        self.plain = [plain_word(word) for word in self.words] or [""]
        """The words in small letters and without punctuation."""
        self.vocabulary = frozenset(self.plain)
        """The words, whatever their order."""

    @property
    def first_word(self) -> str:
        """The first word, up to an apostrophe: "we" of "We're"."""
        return self.plain[0].partition("'")[0]

    @property
    def is_asked(self) -> bool:
        """Whether the clause is a question without its mark."""
        return starts_with(self.lowered, WORDS["question_starts"])

    @property
    def is_uncertain(self) -> bool:
        """Whether the speaker does not stand by the clause."""
        return not self.vocabulary.isdisjoint(WORDS["uncertain"]) or self.is_asked

    @property
    def is_negated(self) -> bool:
        """Whether the clause denies; "in Vault, not in files" denies nothing that it states."""
        places = [place for place, word in enumerate(self.plain) if word in WORDS["negation"]]
        return bool(places) and not self.words[places[0] - 1].endswith(",")

    @property
    def is_lasting(self) -> bool:
        """Whether the clause speaks neither of the moment nor to the listener."""
        return (
            self.vocabulary.isdisjoint(WORDS["fleeting"])
            and self.vocabulary.isdisjoint(WORDS["listener"])
            and not contains_phrase(self.lowered, WORDS["fleeting_phrases"])
        )

    @property
    def is_habit(self) -> bool:
        """Whether the clause says how often or at what time."""
        return not self.vocabulary.isdisjoint(WORDS["evidence"]) or not self.vocabulary.isdisjoint(WORDS["frequencies"])

    @property
    def is_on_team(self) -> bool:
        """Whether the clause says that somebody is on a team."""
        return "on" in self.plain[:3] and "team" in self.plain[:7]

    @property
    def is_decision(self) -> bool:
        """Whether the clause has a word of deciding."""
        return not self.vocabulary.isdisjoint({"decided", "decision", "agreed", "chose", "let's", "going"})

    def find_verb(self, verbs: Container[str]) -> int | None:
        """Return the index of the first verb that has a subject before it, and a complement."""
        words = self.plain[:_MAX_SUBJECT_WORDS]
        for index, word in enumerate(words[1:], 1):
            if word in verbs and words[index - 1] not in _DETERMINERS and index + 1 < len(self.words):
                return index
        return None

    def parts(self, index: int) -> tuple[str, str, str]:
        """Return the subject, the verb and the complement around the index of the verb."""
        return " ".join(self.words[:index]), self.words[index], " ".join(self.words[index + 1 :])

    def lists_subjects(self, index: int) -> bool:
        """Tell whether the subject has a comma but is no list: "Wow, the team is here"."""
        return any(word.endswith(",") for word in self.words[:index]) and {"and", "und", "or", "oder"}.isdisjoint(
            self.plain[:index]
        )

    def without(self, *left_out: str) -> Clause:
        """Return the clause without some words at its beginning, where its subject and its adverbs are."""
        kept = [word for index, word in enumerate(self.words) if not (index < 4 and self.plain[index] in left_out)]
        return Clause(" ".join(kept), self.speaker, self.setting)


def repair_line(sentence: str) -> str:
    """Write out the short forms of chats, cut what says nothing, begin with a capital: "btw im on py3" is "I'm on py3"."""
    words = sentence.split()
    is_german = not WORDS["german"].keys().isdisjoint(words)
    spellings = WORDS["german_spellings" if is_german else "spellings"]
    for index, word in enumerate(words):
        bare = word.strip(",.!:;()")
        if bare in spellings or (not index and bare != "I" and bare.lower() in spellings):
            words[index] = word.replace(bare, spellings[bare.lower()][0], 1)
    text = _cut_lead_ins(
        " ".join(words).replace("’", "'").replace("I'd prefer", "I prefer").replace("I would prefer", "I prefer")
    )
    for filler in WORDS["fillers"]:
        if contains_phrase(text.lower().replace(",", ""), (filler,)):
            start = text.lower().index(filler)
            text = " ".join((text[:start].rstrip(" ,") + " " + text[start + len(filler) :].lstrip(" ,")).split())
    if starts_with(text.lower(), WORDS["elided_verbs"]) and _DETERMINERS.isdisjoint(words[1:2]):
        text = f"{'Ich' if is_german else 'I'} {text[0].lower()}{text[1:]}"
    elif starts_with(text.lower(), WORDS["elided_states"]) and _FINITE_VERBS.isdisjoint(Clause(text, "").plain):
        text = f"I am {text[0].lower()}{text[1:]}"
    return text[:1].upper() + text[1:]


def _cut_lead_ins(text: str) -> str:
    for _ in range(3):
        lowered = text.lower().replace(",", " ").replace(":", " ").replace("!", " ").replace("’", "'")
        lead_in = next((phrase for phrase in WORDS["lead_ins"] if lowered.startswith(f"{phrase} ")), "")
        rest = text[len(lead_in) :].lstrip(" ,:;!.–—-")
        is_marked = text[len(lead_in) : len(lead_in) + 1] in tuple(",:!")
        if (
            not lead_in
            or not rest
            or (lead_in in ("no", "so", "now", "right", "rule", "today", "well") and not is_marked)
        ):
            break
        text = rest
    return text


def cut_first_clause(text: str) -> tuple[str, str]:
    """Return the first clause of a sentence and the rest of it."""
    words = text.split()
    first = next(_split_at_subjects(words)) if words else []
    rest = words[len(first) :]
    return " ".join(first), " ".join(rest[1:] if rest and rest[0] in _BREAKS else rest)


def split_clauses(text: str, speaker: str) -> Iterator[Clause]:
    """Yield the clauses of a sentence; a verb that shares the subject "I" or "we" gets a clause of its own."""
    setting, words = _split_setting(text.split())
    for piece in _split_at_subjects(words) if words else ():
        kept = cut_reasons(_write_out(_cut_lead_ins(" ".join(piece)).split()))
        if len(kept) > 1 and plain_word(kept[-1]) not in WORDS["dangling"]:
            clause_text = " ".join(kept)
            yield Clause(clause_text[0].upper() + clause_text[1:], speaker, setting)
        setting = ""


def _split_setting(words: list[str]) -> tuple[str, list[str]]:
    """Return the phrase before the subject, such as "In tests,", and the rest."""
    if plain_word(words[0]) in _SETTING_STARTS if words else False:
        for index, word in enumerate(words[1 : _MAX_SETTING_WORDS + 1], 1):
            is_subject = plain_word(word).partition("'")[0] in _SELF | _GROUP | {"our", "my"} and index > 1
            end = index if is_subject else index + 1 if word.endswith(",") else 0
            if end and end < len(words):
                phrase = " ".join(words[:end]).rstrip(",")
                return phrase[0].lower() + phrase[1:], words[end:]
    return "", words


def _split_at_subjects(words: Sequence[str]) -> Iterator[list[str]]:
    """Split "Anna owns billing, and Ben owns search" where a subject and its verb follow a comma or an "and"."""
    plain = [plain_word(word) for word in words]
    start = 0
    shared: list[str] = []
    for index in range(1, len(words) - 1):
        is_break = (plain[index] in _BREAKS or words[index] in _BREAKS) and plain[index + 1] not in _NO_BREAK_BEFORE
        is_connected = plain[index] in _CONNECTIVES
        is_after_comma = words[index - 1].endswith((",", ";"))
        if not (is_break or is_connected or is_after_comma):
            continue
        begin = index + (is_break or is_connected)
        begin += plain[begin] in ("also", "now") and begin + 1 < len(words)
        subject = plain[start].partition("'")[0] if not shared else shared[0].lower()
        own_verbs = _SHARING_VERBS if subject in _SELF else WORDS["we_verbs"] if subject in _GROUP else ()
        if (
            is_break
            or words[index - 1].endswith(";")
            or _starts_clause(words[begin : begin + 6], is_connected=is_connected)
        ):
            yield shared + [word.rstrip(";") for word in words[start:index]]
            start, shared = begin, []
        elif is_connected and plain[begin] in own_verbs and begin + 1 < len(words):
            yield shared + list(words[start:index])
            start, shared = begin, ["I" if subject == "i" else "Ich" if subject == "ich" else subject.capitalize()]
    yield shared + list(words[start:])


def _starts_clause(words: Sequence[str], *, is_connected: bool) -> bool:
    """Tell whether words begin with a subject and its verb; after "and" a plural verb may have a subject of two parts."""
    plain = [plain_word(word) for word in words]
    first = plain[0].partition("'")[0]
    if first in _SELF | _GROUP and not is_connected:
        return True
    if first in _SUBJECTS:
        return len(words) > 2
    if first in WORDS["excluded_subjects"]:
        return False
    for index, verb in enumerate(plain[1:5], 1):
        if verb in _FINITE_VERBS and plain[index - 1] not in _DETERMINERS:
            return index + 1 < len(words) and (verb.endswith(("s", "t")) or not is_connected)
        if verb in WORDS["excluded_subjects"]:
            return False
    return False


def _write_out(words: list[str]) -> list[str]:
    """Write out "we're" and "Anna's on leave" as "we are" and "Anna is on leave"."""
    for index, word in enumerate(words[:4]):
        straight = word.replace("’", "'")
        following = plain_word(words[index + 1]) if index + 1 < len(words) else ""
        if straight.lower() in ("we're", "i'm", "i've", "we've"):
            return [*words[:index], straight.partition("'")[0], _FULL[straight[-2:]], *words[index + 1 :]]
        is_verb = following in _CONTRACTED_BEFORE or following[:1].isdigit() or straight.lower() == "name's"
        if straight.endswith("'s") and is_verb and straight.lower() not in ("it's", "that's", "let's", "what's"):
            return [*words[:index], straight[:-2], "is", *words[index + 1 :]]
    return words


def cut_reasons(words: list[str]) -> list[str]:
    """Cut reasons and remarks off the end of a clause; conditions stay."""
    for index in range(2, len(words)):
        word = plain_word(words[index])
        if word in WORDS["reasons"] or (words[index - 1].endswith(",") and word in WORDS["remarks"]):
            words = words[:index]
            break
    words = " ".join(words).rstrip(" .!,:;…。！").split()
    while len(words) > 2 and " ".join(words[-2:]).lower() in ("as well", "these days", "so much", "right now"):
        words = words[:-2]
    while len(words) > 2 and plain_word(words[-1]) in WORDS["closing_words"]:
        words = words[:-1]
    return " ".join(words).rstrip(" ,:").split()
