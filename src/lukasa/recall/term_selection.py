"""Which of a question's words to ask the text index for.

In a small store all of them. In a large one a common word stands in tens of thousands of texts, and weighing each of
those is what makes a search slow; yet it tells little. So rare words are asked for one by one, as far as they match few
texts in all, and the common ones only together: a text that holds several of them at once is telling again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_MATCHED_TEXTS = 5_000
"""How many texts may match in all before a word counts as common; also how large a small store is."""


class SelectedTerms(NamedTuple):
    """What to ask for: any of some words, or all of others together."""

    any_of: tuple[str, ...]
    together: tuple[str, ...] = ()


def select_terms(words: Sequence[str], texts_with_word: Mapping[str, int], text_count: int) -> SelectedTerms:
    """Chooses by how many of all ``texts`` hold each word. Something is asked whenever there are words."""
    if text_count <= MAX_MATCHED_TEXTS or len(words) <= 1:
        return SelectedTerms(tuple(words))
    rarest = sorted(words, key=lambda word: texts_with_word.get(word, 0))
    rare, matched = 0, 0
    for word in rarest:
        matched += texts_with_word.get(word, 0)
        if matched > MAX_MATCHED_TEXTS:
            break
        rare += 1
    common = rarest[rare:]
    together, expected = common[:2], float(text_count)
    for word in together:
        expected *= texts_with_word.get(word, 0) / text_count
    for word in common[2:]:
        if expected <= MAX_MATCHED_TEXTS:
            break
        together.append(word)
        expected *= texts_with_word.get(word, 0) / text_count
    if len(together) == 1:
        return SelectedTerms(tuple(rarest[:rare])) if rare else SelectedTerms(tuple(together))
    return SelectedTerms(tuple(rarest[:rare]), tuple(together))
