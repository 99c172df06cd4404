"""Tokens and terms of a text, as SQLite's text index knows them: folded, without accents, stemmed.

Every engine uses these tokens, so that all engines find the same records for the same question. A term is one such
token. Finding a few terms in many texts needs no tokens of those texts: a stem and its word begin alike, so a plain search
for that beginning finds the places, and only the words there are stemmed. This lets recall weigh hundreds of long texts
within milliseconds.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import apsw

from lukasa.text.stopwords import STOP_WORDS, STOP_WORDS_EXCEPT_NEGATIONS

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
_ACCENT = re.compile("[\u0300-\u036f]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_WORD_REST = re.compile(r"[^\W_]*")
_APOSTROPHE = re.compile(r"['’]")
_MAX_TERM_LENGTH = 60

_thread_local = threading.local()


def fold_text(text: str) -> str:
    """Return the text without letter case and accents, as the text index folds it."""
    if text.isascii() or unicodedata.is_normalized("NFD", text):
        return text.lower()
    return _ACCENT.sub("", unicodedata.normalize("NFD", text)).lower()


def tokenize_text(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    tokenize: Callable[[str], list[str]] | None = getattr(_thread_local, "tokenize", None)
    if tokenize is None:
        tokenize = _thread_local.tokenize = _build_tokenizer()
    return tokenize(text)


def _build_tokenizer() -> Callable[[str], list[str]]:
    """Build a tokenizer for this thread; it needs a database that lives as long."""
    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")  # loads the tokenizers
    tokenizer = database.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
    _thread_local.database = database

    def tokenize(text: str) -> list[str]:
        tokens: Any = tokenizer(
            text.encode("utf-8", "replace"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return list(tokens)

    return tokenize


def extract_keywords(text: str) -> list[str]:
    """Return the distinct words of a question that say what it is about, in their original form."""
    keywords: dict[str, str] = {}
    for word in _WORD.findall(text):
        bare = _APOSTROPHE.split(word, maxsplit=1)[0]  # Anna's, don't, I'm
        folded = fold_text(bare)
        if folded and folded not in STOP_WORDS and len(folded) <= _MAX_TERM_LENGTH:
            keywords.setdefault(folded, bare)
    return list(keywords.values())


def list_content_words(text: str) -> tuple[str, ...]:
    """Return the folded words of a text that carry meaning, negations included, in order."""
    return tuple(
        bare
        for word in _WORD.findall(fold_text(text))
        if (bare := _APOSTROPHE.split(word, maxsplit=1)[0]) not in STOP_WORDS_EXCEPT_NEGATIONS
    )


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """Return the token that the text index makes of one word; empty when it makes none."""
    tokens = tokenize_text(word)
    return tokens[0] if tokens else ""


def terms_from_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct tokens of words, in order."""
    return tuple(dict.fromkeys(token for word in words for token in tokenize_text(word)))


def find_term_offsets(folded_text: str, term: str) -> list[int]:
    """Return the offsets of the words of a folded text whose stem is the term."""
    # a stem may differ from its words in the last letter: happi and happy, kei and key
    prefix = term[:-1] if len(term) > 3 or (len(term) > 1 and term[-1] == "i") else term
    offsets: list[int] = []
    start = folded_text.find(prefix)
    while start >= 0:
        end = start + len(prefix)
        if start == 0 or not folded_text[start - 1].isalnum():
            rest = _WORD_REST.match(folded_text, end)
            end = end if rest is None else rest.end()
            if stem_word(folded_text[start:end]) == term:
                offsets.append(start)
        start = folded_text.find(prefix, end)
    return offsets
