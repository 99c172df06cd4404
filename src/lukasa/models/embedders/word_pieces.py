"""The tokenizer of BERT, uncased: words in lower case without accents, cut into the longest pieces that its vocabulary has.

Spaces separate words, and each punctuation mark and each Chinese character is a word by itself. A word that cannot be cut
into known pieces has no token. Words are encoded one by one, and those that were seen are remembered.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from unicodedata import category, normalize

from lukasa.core.text_cache import cache_texts

_ASCII_WORD = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_SPACED = re.compile(r"[^ \t\n\r]+")
_IDEOGRAPH = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_CONTROL_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
_MAX_WORD_LENGTH = 100
_REMEMBERED_WORDS = 16_384
_REMEMBERED_LENGTH = 24


class WordPieceTokenizer:
    """Turns texts into the numbers of their tokens."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {token: id for id, token in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary))
        self._encode_part = cache_texts(_REMEMBERED_WORDS)(self._encode_words)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the numbers of the first ``limit`` tokens of a text."""
        ids: list[int] = []
        for part in split_words(text) if text.isascii() else _SPACED.findall(text):
            ids += self._encode_part(part) if len(part) <= _REMEMBERED_LENGTH else self._encode_words(part)
            if len(ids) >= limit:
                return ids[:limit]
        return ids

    def _encode_words(self, part: str) -> tuple[int, ...]:
        """Return the tokens of a part of a text: of each word the longest known beginning, then the longest known rest."""
        ids: list[int] = []
        for word in split_words(part):
            known = len(ids)
            start = 0 if len(word) <= _MAX_WORD_LENGTH else len(word)
            while start < len(word):
                prefix = "##" if start else ""
                for end in range(min(len(word), start + self._longest), start, -1):
                    if (id := self._ids.get(prefix + word[start:end])) is not None:
                        ids.append(id)
                        start = end
                        break
                else:
                    del ids[known:]
                    break
        return tuple(ids)


def split_words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in lower case and without accents."""
    if text.isascii():
        return _ASCII_WORD.findall(_ASCII_CONTROL.sub("", text).lower())
    kept = "".join(
        [each for each in text if each in "\t\n\r" or not (each == "\ufffd" or category(each) in _CONTROL_CATEGORIES)]
    )
    decomposed = normalize("NFD", _IDEOGRAPH.sub(r" \1 ", kept))
    plain = "".join([each for each in decomposed if category(each) != "Mn"]).lower()
    is_sign = [each in string.punctuation or category(each).startswith("P") for each in plain]
    return "".join([f" {each} " if sign else each for each, sign in zip(plain, is_sign, strict=True)]).split()
