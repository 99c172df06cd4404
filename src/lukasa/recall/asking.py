"""Which of a question's words to ask the text index for.

In a small store all of them. In a large one a common word stands in tens of thousands of texts, and weighing each of
those is what makes a search slow; yet it tells little. So rare words are asked for one by one, as far as they match few
texts in all, and the common ones only together: a text that holds several of them at once is telling again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

FEW = 5_000
"""How many texts may match in all before a word counts as common; also how large a small store is."""


class Asking(NamedTuple):
    """What to ask for: any of some words, or all of others together."""

    any_of: tuple[str, ...]
    together: tuple[str, ...] = ()


def asking(words: Sequence[str], holding: Mapping[str, int], texts: int) -> Asking:
    """Chooses by how many of all ``texts`` hold each word. Something is asked whenever there are words."""
    if texts <= FEW or len(words) <= 1:
        return Asking(tuple(words))
    rarest = sorted(words, key=lambda word: holding.get(word, 0))
    rare, matched = 0, 0
    for word in rarest:
        matched += holding.get(word, 0)
        if matched > FEW:
            break
        rare += 1
    common = rarest[rare:]
    together, expected = common[:2], float(texts)
    for word in together:
        expected *= holding.get(word, 0) / texts
    for word in common[2:]:
        if expected <= FEW:
            break
        together.append(word)
        expected *= holding.get(word, 0) / texts
    if len(together) == 1:
        return Asking(tuple(rarest[:rare])) if rare else Asking(tuple(together))
    return Asking(tuple(rarest[:rare]), tuple(together))
