"""What makes two episodes alike: the terms of their goals first, then the sequence of actions and the errors met.

    similarity = 0.7 · goal + 0.2 · actions + 0.1 · errors

``goal`` is the weighted Jaccard index of the goals' stems, where words that stand in any task (``implement``, ``fix``,
``test``) weigh 0.3 and numbers nothing. ``actions`` is ``2 · LCS / (|a| + |b|)`` of the two sequences. ``errors`` is the
Jaccard index of the kinds of error, and 1 where neither met any. Episodes belong together from 0.5 on, if their goals
reach 0.35: actions alone never make two tasks the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import combinations
from pathlib import PurePosixPath
from typing import Any

from rapidfuzz.distance import Indel

from lukasa.consolidation.suspicion import suspicious
from lukasa.episodes import Episode, went_well, went_wrong
from lukasa.recall.words import STOP_WORDS, fold, stem
from lukasa.record import Key

TOGETHER = 0.5
LEAST_GOAL = 0.35
_GENERIC_WEIGHT = 0.3
_MOST_MARKED = 8
_LONGEST_SEQUENCE = 200
_LONGEST_GOAL = 2_000
_LONGEST_PIECE = 400
_MOST_ERRORS = 20
_WORD = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"[^\W\d_]")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_CHANGING = re.compile(r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|`[^`\n]{0,200}`|\S*[/\\]\S*|\b\w*\d\w*\b")
_TASK_WORDS = """
implement add create fix update write build make set get post put patch delete remove refactor improve change use run
test tests check verify handle support new bug issue error errors task feature code file files work do ensure enable
setup configure install migrate move rename clean cleanup review investigate debug resolve finish complete start stop
"""
_GENERIC = frozenset(stem(word) for word in _TASK_WORDS.split())


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as an episode tells it."""

    type: str
    message: str
    resolution: str

    @property
    def id(self) -> str:
        """The same for the same error, whatever names, paths and numbers its message holds."""
        plain = f"{_plain(self.type)}|{_plain(self.message)}"
        return "anti-" + sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Traits:
    """An episode as far as it can be compared."""

    key: Key
    seq: int
    moment: datetime
    day: str
    goal: str
    terms: frozenset[str]
    actions: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    conditions: tuple[str, ...]
    suffixes: tuple[str, ...]
    phase: str
    outcome: int
    voice: str
    suspicious: bool


def traits_of(episode: Episode) -> Traits:
    context = episode.context
    return Traits(
        key=episode.record.key,
        seq=episode.record.seq,
        moment=episode.timestamp,
        day=episode.day,
        goal=piece(episode.goal),
        terms=terms_of(episode.goal[:_LONGEST_GOAL]),
        actions=_interned(episode.actions[:_LONGEST_SEQUENCE]),
        troubles=tuple(troubles_of(episode.errors)),
        conditions=_interned(tuple(piece(one) for one in _texts(context.get("constraints")))),
        suffixes=_interned(tuple(sorted({PurePosixPath(one).suffix for one in _texts(context.get("files_involved"))}))),
        phase=piece(context.get("phase", "")) if isinstance(context.get("phase"), str) else "",
        outcome=1 if went_well(episode.outcome) else -1 if went_wrong(episode.outcome) else 0,
        voice=episode.voice,
        suspicious=suspicious(episode.record.body),
    )


def troubles_of(errors: Iterable[Mapping[str, Any]]) -> list[Trouble]:
    """The errors of an episode that say what failed, each once."""
    found: dict[Trouble, None] = {}
    for error in list(errors)[:_MOST_ERRORS]:
        type, message, resolution = (piece(error.get(name, "")) for name in ("type", "message", "resolution"))
        if type or message:
            found[Trouble(type or message, message if type else "", resolution)] = None
    return list(found)


def piece(value: object) -> str:
    """A piece of text on one line and not too long: what may become part of a pattern."""
    return " ".join(str(value).split())[:_LONGEST_PIECE] if isinstance(value, str | int | float) else ""


@lru_cache(maxsize=1 << 15)
def terms_of(goal: str) -> frozenset[str]:
    """The stems of a goal; scripts without spaces give pairs of characters."""
    found: set[str] = set()
    for word in _WORD.findall(fold(goal[:_LONGEST_GOAL])):
        if not word.isascii() and _UNSPACED.search(word):
            found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in STOP_WORDS and not _coded(word):
            found.add(stem(word) or word)
    return frozenset(found)


def _coded(word: str) -> bool:
    """Whether a word is a number, a hash or an id rather than a word."""
    return not word.isalpha() and (not _LETTER.search(word) or 3 * sum(map(str.isdigit, word)) >= len(word))


def weight(term: str) -> float:
    return _GENERIC_WEIGHT if term in _GENERIC else 1.0


def goal_likeness(a: frozenset[str], b: frozenset[str]) -> float:
    shared = sum(weight(term) for term in a & b)
    return shared / sum(weight(term) for term in a | b) if shared else 0.0


def action_likeness(a: tuple[str, ...], b: tuple[str, ...]) -> float:
    return float(Indel.normalized_similarity(a, b)) if a and b else 0.0


def likeness(a: Traits, b: Traits) -> float:
    """How alike two episodes are, from 0 to 1; see above."""
    goal = goal_likeness(a.terms, b.terms)
    if goal < LEAST_GOAL:
        return 0.0
    own, other = {one.type for one in a.troubles}, {one.type for one in b.troubles}
    errors = len(own & other) / len(own | other) if own | other else 1.0
    return 0.7 * goal + 0.2 * action_likeness(a.actions, b.actions) + 0.1 * errors


def marks_of(terms: frozenset[str]) -> list[str]:
    """Marks by which alike goals find each other: one for each pair of their most telling terms."""
    ordered = sorted(terms, key=lambda term: (term in _GENERIC, -len(term), term))[:_MOST_MARKED]
    if len(ordered) < 2:
        return [_mark(term, "") for term in ordered]
    return [_mark(*sorted(pair)) for pair in combinations(ordered, 2)]


@lru_cache(maxsize=1 << 16)
def _mark(first: str, second: str) -> str:
    return blake2b(f"{first} {second}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _plain(text: str) -> str:
    return " ".join(_CHANGING.sub("…", fold(text)).split())


def _texts(found: Any) -> list[str]:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


@lru_cache(maxsize=1 << 14)
def _interned(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same tuple for the same words: a hundred thousand episodes share a few hundred sequences."""
    return words
