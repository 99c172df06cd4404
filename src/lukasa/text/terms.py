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

from lukasa.text.tokenizer import tokenize_text

_STOP_WORD_LIST = """
a about above across after again all also am an and any are as at be because been before being below between both
but by can cannot could did do does doing down during each ever few for from further had has have having he her here
hers herself him himself his how i if in into is it its itself just let many me more most much my myself no nor not
of off on once only or other ought our ours ourselves out over own same shall she should so some such than that the
their theirs them themselves then there these they this those through to too under until up very was we were what
when where which while who whom whose why will with would you your yours yourself yourselves
ain aren couldn didn doesn don hadn hasn haven isn ll mightn mustn needn re shan shouldn ve wasn weren won wouldn
"""
STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_NEGATION_LIST = """
no nor not cannot ain aren couldn didn doesn don hadn hasn haven isn wasn weren won wouldn
"""
_STOP_WORDS_EXCEPT_NEGATIONS = STOP_WORDS.difference(_NEGATION_LIST.split())
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_WORD_REST = re.compile(r"[^\W_]*")
_ACCENT = re.compile("[\u0300-\u036f]")
_MAX_TERM_LENGTH = 60


def fold_text(text: str) -> str:
    """A text without letter case and accents, as the text index folds it."""
    if text.isascii():
        return text.lower()
    if unicodedata.is_normalized("NFD", text):
        return text.lower()
    return _ACCENT.sub("", unicodedata.normalize("NFD", text)).lower()


def extract_keywords(text: str) -> list[str]:
    """The words of a question that tell what it is about, as they were written, each once."""
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        bare = re.split(r"['’]", word, maxsplit=1)[0]  # Anna's, don't, I'm
        folded = fold_text(bare)
        if folded and folded not in STOP_WORDS and len(folded) <= _MAX_TERM_LENGTH:
            found.setdefault(folded, bare)
    return list(found.values())


def list_content_words(text: str) -> tuple[str, ...]:
    """The words of a text that say something, folded, in order; a negation does."""
    return tuple(
        word
        for found in _WORD.findall(fold_text(text))
        if (word := re.split(r"['’]", found, maxsplit=1)[0]) not in _STOP_WORDS_EXCEPT_NEGATIONS
    )


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """The token that the text index makes of one word; empty when it makes none."""
    tokens = tokenize_text(word)
    return tokens[0] if tokens else ""


def terms_from_words(words: Iterable[str]) -> tuple[str, ...]:
    """The distinct tokens of words, in order."""
    return tuple(dict.fromkeys(token for word in words for token in tokenize_text(word)))


def find_term_offsets(folded_text: str, term: str) -> list[int]:
    """Where a term stands in a folded text: the offsets of the words whose stem it is."""
    # a stem may differ from its words in the last letter: happi and happy, kei and key
    beginning = term[:-1] if len(term) > 3 or (len(term) > 1 and term[-1] == "i") else term
    found: list[int] = []
    at = folded_text.find(beginning)
    while at >= 0:
        end = at + len(beginning)
        if at == 0 or not folded_text[at - 1].isalnum():
            rest = _WORD_REST.match(folded_text, end)
            end = end if rest is None else rest.end()
            if stem_word(folded_text[at:end]) == term:
                found.append(at)
        at = folded_text.find(beginning, end)
    return found
