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

from lukasa.experience.consolidation.injection_filter import is_suspicious
from lukasa.experience.episode import Episode, is_failure, is_success
from lukasa.record import Key
from lukasa.text.terms import STOP_WORDS, fold_text, stem_word

MIN_CLUSTER_SIMILARITY = 0.5
MIN_GOAL_SIMILARITY = 0.35
_GENERIC_WEIGHT = 0.3
_MAX_KEY_TERMS = 8
_MAX_ACTIONS = 200
_MAX_GOAL_CHARS = 2_000
_MAX_TEXT_CHARS = 400
_MAX_ERRORS = 20
_WORD = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"[^\W\d_]")
_UNSPACED_SCRIPT = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_VARIABLE_PARTS = re.compile(r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|`[^`\n]{0,200}`|\S*[/\\]\S*|\b\w*\d\w*\b")
_TASK_WORDS = """
implement add create fix update write build make set get post put patch delete remove refactor improve change use run
test tests check verify handle support new bug issue error errors task feature code file files work do ensure enable
setup configure install migrate move rename clean cleanup review investigate debug resolve finish complete start stop
"""
_GENERIC_STEMS = frozenset(stem_word(word) for word in _TASK_WORDS.split())


@dataclass(frozen=True, slots=True)
class EpisodeError:
    """An error as an episode tells it."""

    type: str
    message: str
    resolution: str

    @property
    def id(self) -> str:
        """The same for the same error, whatever names, paths and numbers its message holds."""
        plain = f"{_error_template(self.type)}|{_error_template(self.message)}"
        return "anti-" + sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class EpisodeTraits:
    """An episode as far as it can be compared."""

    key: Key
    seq: int
    moment: datetime
    day: str
    goal: str
    terms: frozenset[str]
    actions: tuple[str, ...]
    errors: tuple[EpisodeError, ...]
    conditions: tuple[str, ...]
    suffixes: tuple[str, ...]
    phase: str
    outcome: int
    author: str
    is_suspicious: bool


def extract_traits(episode: Episode) -> EpisodeTraits:
    context = episode.context
    return EpisodeTraits(
        key=episode.record.key,
        seq=episode.record.seq,
        moment=episode.timestamp,
        day=episode.day,
        goal=clean_text(episode.goal),
        terms=goal_terms(episode.goal[:_MAX_GOAL_CHARS]),
        actions=_intern(episode.actions[:_MAX_ACTIONS]),
        errors=tuple(parse_errors(episode.errors)),
        conditions=_intern(tuple(clean_text(one) for one in _text_items(context.get("constraints")))),
        suffixes=_intern(
            tuple(sorted({PurePosixPath(one).suffix for one in _text_items(context.get("files_involved"))}))
        ),
        phase=clean_text(context.get("phase", "")) if isinstance(context.get("phase"), str) else "",
        outcome=1 if is_success(episode.outcome) else -1 if is_failure(episode.outcome) else 0,
        author=episode.voice,
        is_suspicious=is_suspicious(episode.record.body),
    )


def parse_errors(errors: Iterable[Mapping[str, Any]]) -> list[EpisodeError]:
    """The errors of an episode that say what failed, each once."""
    found: dict[EpisodeError, None] = {}
    for error in list(errors)[:_MAX_ERRORS]:
        type, message, resolution = (clean_text(error.get(name, "")) for name in ("type", "message", "resolution"))
        if type or message:
            found[EpisodeError(type or message, message if type else "", resolution)] = None
    return list(found)


def clean_text(value: object) -> str:
    """A piece of text on one line and not too long: what may become part of a pattern."""
    return " ".join(str(value).split())[:_MAX_TEXT_CHARS] if isinstance(value, str | int | float) else ""


@lru_cache(maxsize=1 << 15)
def goal_terms(goal: str) -> frozenset[str]:
    """The stems of a goal; scripts without spaces give pairs of characters."""
    found: set[str] = set()
    for word in _WORD.findall(fold_text(goal[:_MAX_GOAL_CHARS])):
        if not word.isascii() and _UNSPACED_SCRIPT.search(word):
            found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in STOP_WORDS and not _is_code(word):
            found.add(stem_word(word) or word)
    return frozenset(found)


def _is_code(word: str) -> bool:
    """Whether a word is a number, a hash or an id rather than a word."""
    return not word.isalpha() and (not _LETTER.search(word) or 3 * sum(map(str.isdigit, word)) >= len(word))


def term_weight(term: str) -> float:
    return _GENERIC_WEIGHT if term in _GENERIC_STEMS else 1.0


def goal_similarity(a: frozenset[str], b: frozenset[str]) -> float:
    shared = sum(term_weight(term) for term in a & b)
    return shared / sum(term_weight(term) for term in a | b) if shared else 0.0


def action_similarity(a: tuple[str, ...], b: tuple[str, ...]) -> float:
    return float(Indel.normalized_similarity(a, b)) if a and b else 0.0


def episode_similarity(a: EpisodeTraits, b: EpisodeTraits) -> float:
    """How alike two episodes are, from 0 to 1; see above."""
    goal = goal_similarity(a.terms, b.terms)
    if goal < MIN_GOAL_SIMILARITY:
        return 0.0
    own, other = {one.type for one in a.errors}, {one.type for one in b.errors}
    errors = len(own & other) / len(own | other) if own | other else 1.0
    return 0.7 * goal + 0.2 * action_similarity(a.actions, b.actions) + 0.1 * errors


def goal_pair_keys(terms: frozenset[str]) -> list[str]:
    """Marks by which alike goals find each other: one for each pair of their most telling terms."""
    ordered = sorted(terms, key=lambda term: (term in _GENERIC_STEMS, -len(term), term))[:_MAX_KEY_TERMS]
    if len(ordered) < 2:
        return [_pair_key(term, "") for term in ordered]
    return [_pair_key(*sorted(pair)) for pair in combinations(ordered, 2)]


@lru_cache(maxsize=1 << 16)
def _pair_key(first: str, second: str) -> str:
    return blake2b(f"{first} {second}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _error_template(text: str) -> str:
    return " ".join(_VARIABLE_PARTS.sub("…", fold_text(text)).split())


def _text_items(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


@lru_cache(maxsize=1 << 14)
def _intern(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same tuple for the same words: a hundred thousand episodes share a few hundred sequences."""
    return words
