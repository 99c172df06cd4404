"""The tokenizer of Llama 2, from its vocabulary alone: byte-pair encoding in which spaces are ``▁`` and rare characters bytes.

The vocabulary is in the order in which pairs merge, so it needs no list of merges: two neighbours merge if they make a token
together, the earliest token first. No token but a run of spaces has a space after its first character, so words are
encoded one by one, and those that were seen are remembered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

_SPACE = "▁"
_SPECIAL = re.compile("(<unk>|<s>|</s>)")
_WORD = re.compile(r"▁+[^▁\n\t0-9]*|[^▁\n\t0-9]+|[\n\t0-9]")  # neither digits nor line ends are part of longer tokens
_REMEMBERED_WORDS = 16_384
_REMEMBERED_LENGTH = 24


class LlamaTokenizer:
    """Turns texts into the numbers of their tokens."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {token: id for id, token in enumerate(vocabulary)}
        self._encode_word = lru_cache(_REMEMBERED_WORDS)(self._merge_characters)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the numbers of the first ``limit`` tokens of a text."""
        ids: list[int] = []
        for index, part in enumerate(_SPECIAL.split(text)):
            if index % 2:
                ids.append(self._ids[part])
            elif part:
                for word in _WORD.findall(_SPACE + part.replace(" ", _SPACE)):
                    ids += self._encode_word(word) if len(word) <= _REMEMBERED_LENGTH else self._merge_characters(word)
                    if len(ids) >= limit:
                        return ids[:limit]
        return ids[:limit]

    def _merge_characters(self, word: str) -> tuple[int, ...]:
        """Return the tokens of a word: its characters, of which the pair that makes the earliest token merges first."""
        ids = self._ids
        if (whole := ids.get(word)) is not None:  # its merges would end there
            return (whole,)
        tokens: list[str] = []
        for character in word:
            if character in ids:
                tokens.append(character)
            else:
                tokens += (f"<0x{byte:02X}>" for byte in character.encode())
        end = len(tokens)
        following = list(range(1, end + 1))
        previous = list(range(-1, end - 1))

        def find_merge(left: int, right: int) -> tuple[int, int, int, str] | None:
            merged = tokens[left] + tokens[right]
            if (id := ids.get(merged)) is None:
                return None
            return id + len(ids) * merged.endswith(_SPACE), ids[tokens[left]], left, merged  # runs of spaces come last

        merges = [merge for left in range(end - 1) if (merge := find_merge(left, left + 1))]
        heapify(merges)
        while merges:
            _, _, left, merged = heappop(merges)
            right = following[left]
            if not tokens[left] or right == end or tokens[left] + tokens[right] != merged:
                continue
            tokens[left], tokens[right] = merged, ""
            following[left] = after = following[right]
            if after < end:
                previous[after] = left
                if merge := find_merge(left, after):
                    heappush(merges, merge)
            if (before := previous[left]) >= 0 and (merge := find_merge(before, left)):
                heappush(merges, merge)
        return tuple(ids[token] for token in tokens if token)
