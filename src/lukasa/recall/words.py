"""Words as recall sees them: which of a question's words tell something, and where they stand in a text.

A term is a stem of the text index. Looking for a few terms in many texts needs no tokens of those texts: the stem of a
word and the word begin alike, so a plain search for that beginning finds the places, and only what stands there is
stemmed. This is what lets hundreds of long texts be weighed within milliseconds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from lukasa.engines.tokens import tokens_of

_COMMON = """
a about above across after again all also am an and any are as at be because been before being below between both
but by can cannot could did do does doing down during each ever few for from further had has have having he her here
hers herself him himself his how i if in into is it its itself just let many me more most much my myself no nor not
of off on once only or other ought our ours ourselves out over own same shall she should so some such than that the
their theirs them themselves then there these they this those through to too under until up very was we were what
when where which while who whom whose why will with would you your yours yourself yourselves
ain aren couldn didn doesn don hadn hasn haven isn ll mightn mustn needn re shan shouldn ve wasn weren won wouldn
"""
STOP_WORDS = frozenset(_COMMON.split())
_DENYING = """
no nor not cannot ain aren couldn didn doesn don hadn hasn haven isn wasn weren won wouldn
"""
_IDLE = STOP_WORDS.difference(_DENYING.split())
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_REST = re.compile(r"[^\W_]*")
_ACCENT = re.compile("[\u0300-\u036f]")
_LONGEST_TERM = 60


def fold(text: str) -> str:
    """A text without letter case and accents, as the text index folds it."""
    if text.isascii():
        return text.lower()
    if unicodedata.is_normalized("NFD", text):
        return text.lower()
    return _ACCENT.sub("", unicodedata.normalize("NFD", text)).lower()


def telling_words(text: str) -> list[str]:
    """The words of a question that tell what it is about, as they were written, each once."""
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        bare = re.split(r"['’]", word, maxsplit=1)[0]  # Anna's, don't, I'm
        folded = fold(bare)
        if folded and folded not in STOP_WORDS and len(folded) <= _LONGEST_TERM:
            found.setdefault(folded, bare)
    return list(found.values())


def content_words(text: str) -> tuple[str, ...]:
    """The words of a text that say something, folded, in order; a negation does."""
    return tuple(
        word for found in _WORD.findall(fold(text)) if (word := re.split(r"['’]", found, maxsplit=1)[0]) not in _IDLE
    )


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The token that the text index makes of one word; empty when it makes none."""
    tokens = tokens_of(word)
    return tokens[0] if tokens else ""


def terms_of(words: Iterable[str]) -> tuple[str, ...]:
    """The distinct tokens of words, in order."""
    return tuple(dict.fromkeys(token for word in words for token in tokens_of(word)))


def places(folded: str, term: str) -> list[int]:
    """Where a term stands in a folded text: the offsets of the words whose stem it is."""
    # a stem may differ from its words in the last letter: happi and happy, kei and key
    beginning = term[:-1] if len(term) > 3 or (len(term) > 1 and term[-1] == "i") else term
    found: list[int] = []
    at = folded.find(beginning)
    while at >= 0:
        end = at + len(beginning)
        if at == 0 or not folded[at - 1].isalnum():
            rest = _REST.match(folded, end)
            end = end if rest is None else rest.end()
            if stem(folded[at:end]) == term:
                found.append(at)
        at = folded.find(beginning, end)
    return found
