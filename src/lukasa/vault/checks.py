"""Proposals of memories, and the checks of the vault's write gate.

The checks run in the document's order: those that need no store before the write lock (``check_proposal``), then register
upsert, near-duplicate and capacity inside the conditional append that writes (``StoreChecks``).

Noise is text that belongs in the burst journal and not in the vault: text with one of the signals as whole words. Six of
the ten signals are words of the journal and always count. The other four are also plain words (``heartbeat``,
``check-in``, ``no changes``, ``ephemeral``), and a text that states something lasting with them is a memory. It does so
when, besides the signal, it has a word that states (*is*, *must*, *never*, *uses* …), at least three content words, and
no word of the passing moment (*now*, *ok*, *received*, a time of day …). So "Heartbeat monitoring is the core of project
Pulse" is kept, and "Heartbeat received, all agents are ok" is not.

A memory is similar to a text past one of the document's thresholds. It is a duplicate if, besides, the two state the same
fact (``lukasa.text.differences``); with the rule ``document`` every similar memory is a duplicate. A memory that states the
same fact is also a duplicate if its overlap is two thirds of the threshold: in the passive voice many small words differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from heapq import nlargest
from typing import Any

from lukasa.core.canonical_json import SURROGATES
from lukasa.core.choices import TIERS, Tier
from lukasa.core.clock import from_iso, to_iso, to_utc
from lukasa.core.freshness import EXPIRES_AT
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, Key, Link, Record
from lukasa.core.scope import SHARED, SYSTEM, Reach
from lukasa.core.text_cache import cache_texts
from lukasa.errors import InvalidInput
from lukasa.pii.detector import describe_findings, draft_texts, find_pii_once, redact_text
from lukasa.storage.engine import Query, Reader
from lukasa.text.differences import TextDifference, find_difference
from lukasa.text.lexicon import WORDS
from lukasa.text.similarity import sequence_similarity, word_overlap
from lukasa.text.terms import distinct_words, find_words, max_shared_words, normalise_text, pair_keys
from lukasa.vault.settings import AMBIGUOUS_SIGNALS, CANON, LOG, MEMORY_KIND, REGISTER, VaultSettings

DISTINCT_FROM = "distinct_from"
"""The relation from a memory to a similar one that states another fact, as the writer said."""
UNKNOWN_SOURCE = "unsaid"
"""The origin of a memory without a source."""
COMPARE_ALL_LIMIT = 128
"""In a scope of more memories, a text is compared with those alone that share a pair key with it."""
MAX_CANDIDATES_PER_KEY = 8
MAX_COMPARED_FACTS = 24
MAX_SCANNED_PER_KEY = 64
MAX_OWN_WORDS = 3
_MAX_NAME_LENGTH = 100
_MAX_TOPIC_LENGTH = 180
_MAX_TAGS = 20

_MIN_CONTENT_WORDS = 3
_STATEMENT_WORDS = WORDS["lasting_statements"]
_MOMENTARY_WORDS = WORDS["momentary"].keys()


@dataclass(frozen=True, slots=True)
class MemoryProposal:
    """A memory that a caller asks the vault to keep."""

    text: str
    scope: str = SHARED
    category: str = "general"
    tier: str = ""
    """Canon, register or log; empty: canon for the owner's word without a topic, else a register."""
    topic_id: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = "manual"
    author: str = ""
    distinct_from: tuple[str, ...] = ()
    expires_at: datetime | None = None
    """When it no longer holds; ``None`` if it has no end."""

    @classmethod
    def from_item(cls, item: MemoryProposal | Mapping[str, Any] | str) -> MemoryProposal:
        """Build a proposal from a proposal, a mapping of its fields, or a text."""
        if isinstance(item, MemoryProposal):
            return item
        if isinstance(item, str):
            return cls(item)
        given = {name: item[name] for name in cls.__slots__ if name in item}
        for name in ("tags", "distinct_from"):
            values = given.get(name, ())
            if isinstance(values, Iterable):
                given[name] = (values,) if isinstance(values, str) else tuple(values)
        given["expires_at"] = read_expiry(given.get("expires_at"))
        return cls(**given)


def read_expiry(value: Any) -> Any:
    """Return the time in a text; the gate refuses a text that is no time."""
    with suppress(InvalidInput):
        return from_iso(value) if isinstance(value, str) else value
    return value


def memory_draft(
    proposal: MemoryProposal, id: str, *, expected: int | None, links: tuple[Link, ...] = (), **notes: Any
) -> Draft:
    """Return the draft of a memory, with the labels it can be filtered by; ``notes`` go into its body."""
    body: dict[str, Any] = {"category": proposal.category, "tier": proposal.tier, **notes}
    if proposal.topic_id is not None:
        body["topic_id"] = proposal.topic_id
    if proposal.tags:
        body["tags"] = list(proposal.tags)
    if proposal.expires_at is not None:
        body[EXPIRES_AT] = to_iso(to_utc(proposal.expires_at))
    topic = () if proposal.topic_id is None else (f"topic={proposal.topic_id}",)
    tags = [f"tag={tag}" for tag in proposal.tags]
    if links or proposal.distinct_from:
        distinct = [Link(DISTINCT_FROM, memory_key(proposal.scope, other)) for other in proposal.distinct_from]
        links = (*(link for link in links if link.relation != DISTINCT_FROM), *distinct)
    return Draft(
        MEMORY_KIND, proposal.text, body, id=id, scope=proposal.scope, author=proposal.author,
        origin=proposal.source or UNKNOWN_SOURCE, links=links, expected=expected,
        labels=(f"tier={proposal.tier}", f"category={proposal.category}", *topic, *tags),
    )  # fmt: skip


def memory_key(scope: str, id: str) -> Key:
    return Key(scope, MEMORY_KIND, id)


def default_tier(rules: VaultSettings, reach: Reach) -> Tier:
    """Return the tier of a memory without a topic: canon from the owner, a register from an agent."""
    return CANON if reach.unlimited or rules.agents_write_canon else REGISTER


def check_proposal(proposal: MemoryProposal, settings: VaultSettings, reach: Reach) -> MemoryProposal | Refused:
    """Return the proposal as it may be kept, or the first refusal in the document's order."""
    text: object = proposal.text
    if not isinstance(text, str):
        return Refused("bad_text", f"The text must be text, not {type(text).__name__}.")
    if not text.strip():
        return Refused("empty", "There is nothing to remember: the text is empty.")
    if not text.isascii() and SURROGATES.search(text):
        return Refused("bad_unicode", "The text has a lone surrogate, which is not valid Unicode.")
    if (signal := find_noise_signal(text[: 10 * settings.longest], settings.signals)) is not None:
        return Refused(
            "noise",
            f"This reads like a passing event (“{signal}”), which does not belong in the vault. Put it into the burst journal "
            "instead: vault.add_tick(text), or `lukasa vault add-tick TEXT`. If it is meant to last, say what is always true.",
            {"signal": signal, "place": "journal"},
        )
    if proposal.tier == LOG:
        return Refused(
            "log_tier",
            "The vault keeps no log tier. Put it into the burst journal instead: vault.add_tick(text), or "
            "`lukasa vault add-tick TEXT`.",
            {"place": "journal"},
        )
    if len(text) > settings.longest:
        return Refused(
            "too_long",
            f"The text has {len(text):,} characters; a memory holds at most {settings.longest:,}. "
            "Compress it, or split it into several facts.",
            {"characters": len(text), "most": settings.longest},
        )
    scope: object = proposal.scope
    if not isinstance(scope, str) or not _is_plain_text(scope, 200):
        return Refused("bad_scope", "The scope must be short plain text.")
    if scope == SYSTEM or any(names is not None and scope not in names for names in (reach.writable, settings.scopes)):
        known = settings.scopes if settings.scopes is not None else reach.writable
        hint = "" if known is None else f" Known are: {', '.join(sorted(known))}."
        return Refused("bad_scope", f"{scope!r:.80} is not a scope this vault can write to.{hint}")
    if proposal.tier not in TIERS:
        return Refused("bad_tier", f"{proposal.tier!r:.80} is not a tier; say one of {', '.join(TIERS)}.")
    source, sources = proposal.source, settings.sources
    if source is not None and source not in sources:
        return Refused("bad_source", f"{source!r:.80} is not a source; say one of {', '.join(sources)}.")
    if not _is_plain_text(proposal.category, _MAX_NAME_LENGTH):
        return Refused("bad_category", f"The category must be plain text of 1 to {_MAX_NAME_LENGTH} characters.")
    if proposal.topic_id is not None and not _is_plain_text(proposal.topic_id, _MAX_TOPIC_LENGTH):
        return Refused("bad_topic", f"The topic must be plain text of 1 to {_MAX_TOPIC_LENGTH} characters.")
    tags: object = proposal.tags
    if (
        not isinstance(tags, tuple)
        or len(tags) > _MAX_TAGS
        or not all(_is_plain_text(tag, _MAX_NAME_LENGTH) for tag in tags)
    ):
        return Refused(
            "bad_tags",
            f"Tags are at most {_MAX_TAGS} pieces of plain text, each of 1 to {_MAX_NAME_LENGTH} characters.",
        )
    distinct_from: object = proposal.distinct_from
    if not isinstance(distinct_from, tuple) or not all(_is_plain_text(id, 200) for id in distinct_from):
        return Refused("bad_distinct_from", "distinct_from must be the id of a memory, or several ids.")
    if proposal.author.__class__ is not str or (proposal.author and not _is_plain_text(proposal.author, 200)):
        return Refused("bad_author", "The author must be short plain text.")
    expires_at: object = proposal.expires_at
    if expires_at is not None and not isinstance(expires_at, datetime):
        return Refused("bad_expiry", "expires_at must be a time, such as 2026-02-03T12:00:00Z.")
    described = MemoryProposal(
        "", SHARED, proposal.category, proposal.tier, proposal.topic_id, proposal.tags, expires_at=expires_at
    )
    kept = apply_pii_policy(text, MEMORY_KIND, settings, draft_texts(memory_draft(described, "", expected=None)))
    if isinstance(kept, Refused):
        return kept
    return proposal if kept is text else replace(proposal, text=kept)


def _is_plain_text(value: object, max_length: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= max_length and value.isprintable() and bool(value.strip())


def apply_pii_policy(text: str, kind: str, settings: VaultSettings, metadata: Sequence[str] = ()) -> str | Refused:
    """Return the text as the policy of its kind lets it be kept, or refuse personal data and secrets.

    Everything that enters through the vault passes here. ``metadata`` is checked too where the policy is to block. The
    refusal names the class of what was found, never the value.
    """
    handling = settings.pii.get(kind, "block")
    if handling == "allow":
        return text
    if handling == "redact":
        return redact_text(text)
    if not (found := find_pii_once((text, *metadata))):
        return text
    return Refused(
        "pii",
        f"This holds what looks like {describe_findings(found)}. The vault does not keep that, and nothing of it was kept. "
        "Leave it out, and say where it can be found instead.",
        {"classes": sorted({finding.pii_class for finding in found})},
    )


def _as_form(signal: str) -> str:
    return " ".join(signal.replace("-", " ").split())


def _is_time_of_day(word: str) -> bool:
    hour, _, minute = word.strip(".,;()").partition(":")
    return hour.isdecimal() and len(hour) <= 2 and minute.isdecimal() and len(minute) == 2


def find_noise_signal(text: str, signals: Sequence[str]) -> str | None:
    """Return the signal that makes a text noise, or ``None``."""
    plain = normalise_text(text)
    pattern, signal_by_form = _compile_signals(tuple(signals))
    matches = list(dict.fromkeys(pattern.findall(plain)))
    if not matches:
        return None
    found = [signal_by_form[_as_form(match)] for match in matches]
    always = next((signal for signal in found if signal not in AMBIGUOUS_SIGNALS), None)
    if always is not None:
        return always
    rest = plain
    for match in matches:
        rest = rest.replace(match, " ")
    words = find_words(rest)
    content_words = {word for word in words if word not in WORDS["noise_stop_words"]}
    is_lasting_statement = (
        not any(map(_is_time_of_day, plain.split()))
        and not content_words & _MOMENTARY_WORDS
        and any(word in _STATEMENT_WORDS for word in words)
        and len(content_words) >= _MIN_CONTENT_WORDS
    )
    return None if is_lasting_statement else found[0]


@cache_texts(16)
def _compile_signals(signals: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of the signals as whole words, joined by blanks or hyphens, and each signal by its plain form."""
    forms: dict[str, str] = {}
    for signal in signals:
        forms.setdefault(_as_form(normalise_text(signal)), signal)
    alternatives = (r"[\s-]+".join(map(re.escape, form.split(" "))) for form in forms)
    return re.compile(r"(?<![\w-])(?:" + "|".join(alternatives) + r")(?![\w-])" if signals else r"(?!)"), forms


@dataclass(frozen=True, slots=True)
class DuplicateMatch:
    """The similarity of a memory to a text by both measures, and what they say differently if the rule asks for it."""

    id: str
    scope: str
    overlap: float
    sequence: float
    difference: TextDifference | None = None

    @property
    def score(self) -> float:
        return max(self.overlap, self.sequence)

    @property
    def is_duplicate(self) -> bool:
        return self.difference is None


class ComparableText:
    """A text with the forms in which it is compared: folded text, words and pair keys."""

    def __init__(self, text: str, scope: str, id: str = "") -> None:
        self.text = text
        self.scope = scope
        self.id = id
        self.folded_text = normalise_text(text)

    @cached_property
    def words(self) -> frozenset[str]:
        return distinct_words(self.folded_text)

    @property
    def digits(self) -> list[str]:
        return "".join([each if each.isdecimal() else " " for each in self.folded_text]).split()

    @cached_property
    def pair_keys(self) -> tuple[int, ...]:
        return pair_keys(self.words, self.scope, MEMORY_KIND)


def find_similar(
    text: ComparableText, others: Sequence[ComparableText], settings: VaultSettings
) -> list[DuplicateMatch]:
    """Return the others that reach one of the thresholds of similarity to a text: duplicates first, most similar first.

    Facts are compared with the ``MAX_COMPARED_FACTS`` most similar texts, those with the same digits first, until one is a
    duplicate; the list holds no others.
    """
    if not others:
        return []
    from rapidfuzz import process  # the import takes longer than opening a store
    from rapidfuzz.distance import Indel

    folded_others = [other.folded_text for other in others]
    matches = process.extract(
        text.folded_text,
        folded_others,
        scorer=Indel.normalized_similarity,
        processor=None,
        score_cutoff=settings.similarity_threshold,
        limit=None,
    )
    similar = {index: score for _, score, index in matches}
    threshold = settings.overlap_threshold
    is_document_rule = settings.duplicates == "document"
    floor = threshold if is_document_rule or threshold >= 1 else threshold * 2 / 3
    words = text.words
    min_words = floor * len(words)
    found: list[tuple[DuplicateMatch, ComparableText]] = []
    for index, other in enumerate(others):
        folded = other.folded_text
        if index in similar or max_shared_words(words, folded) >= min_words:
            overlap = word_overlap(words, other.words)
            if index in similar or overlap >= floor:
                sequence = similar.get(index) or sequence_similarity(text.folded_text, folded)
                found.append((DuplicateMatch(other.id, other.scope, overlap, sequence), other))
    found.sort(key=lambda pair: (pair[0].score, pair[0].id), reverse=True)
    if is_document_rule:
        return [match for match, _ in found]
    if len(found) > MAX_COMPARED_FACTS:
        digits = text.digits
        found.sort(key=lambda pair: pair[1].digits != digits)
    different = []
    for match, other in found[:MAX_COMPARED_FACTS]:
        difference = find_difference(text.text, other.text) if text.folded_text != other.folded_text else None
        if difference is None:
            return [match]
        if match.overlap >= threshold or match.sequence >= settings.similarity_threshold:
            different.append(DuplicateMatch(match.id, match.scope, match.overlap, match.sequence, difference))
    return sorted(different, key=lambda match: (match.score, match.id), reverse=True)


class DuplicateIndex:
    """The memories that some texts are compared with inside one conditional append: stored ones and ones it adds.

    The store is queried once for all of the texts, because no other writer can add a memory meanwhile.

    In a scope of at most ``COMPARE_ALL_LIMIT`` memories a text is compared with each of them. In a larger scope it is
    compared with those that share a pair key with it (``lukasa.text.terms``). For the overlap of words the verdict is
    the same as comparing with everything; for sequences of characters it is the same for texts that also share two
    content words. Of a key that more than ``MAX_CANDIDATES_PER_KEY`` memories share, the newest are compared, and those
    that share another key. A text that is similar to so many memories and repeats none of them is also compared with
    those that hold the words it shares with the fewest of them, so that the cost of a verdict stays bounded however many
    memories are alike.
    """

    def __init__(self, reader: Reader, settings: VaultSettings, texts: Iterable[ComparableText]) -> None:
        self._reader = reader
        self._settings = settings
        self._indexed_scopes: set[str] = set()
        self._candidates_by_scope: dict[str, dict[str, ComparableText]] = {}
        self._texts_by_key: dict[int, list[ComparableText]] = {}
        self._texts_by_word: dict[tuple[str, str], list[ComparableText]] = {}
        by_scope: dict[str, list[ComparableText]] = {}
        for text in texts:
            by_scope.setdefault(text.scope, []).append(text)
        self._batch_scopes = {scope for scope, scope_texts in by_scope.items() if len(scope_texts) > 1}
        live = {row.scope: row.live for row in reader.tally() if row.kind == MEMORY_KIND}
        self.active = sum(live.values())
        """How many memories were active before."""
        for scope, scope_texts in by_scope.items():
            if live.get(scope, 0) <= COMPARE_ALL_LIMIT:
                records = reader.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,)))
                self._candidates_by_scope[scope] = {}
                for record in records:
                    self._add_candidate(ComparableText(record.text, scope, record.id))
                continue
            self._indexed_scopes.add(scope)
            near = reader.near_duplicates(
                [text.pair_keys for text in scope_texts], scope, kind=MEMORY_KIND, limit_per_key=MAX_CANDIDATES_PER_KEY
            )
            if len(scope_texts) == 1:  # all of them share a key with this one text
                self._candidates_by_scope[scope] = {id: ComparableText(text, scope, id) for id, text, _ in near}
                continue
            for id, near_text, keys in near:
                other = ComparableText(near_text, scope, id)
                for key in keys:
                    self._texts_by_key.setdefault(key, []).append(other)

    def find_similar(self, text: ComparableText, *, exclude: Container[str] = ()) -> list[DuplicateMatch]:
        """Return the memories that are similar to a text, duplicates first; those whose ids are excluded do not count."""
        candidates = self._candidates_by_scope.get(text.scope)
        is_indexed = text.scope in self._indexed_scopes
        if candidates is None or (len(candidates) > COMPARE_ALL_LIMIT and not is_indexed):
            candidates, is_indexed = self._find_candidates(text), True
        others = [other for other in candidates.values() if other.id not in exclude]
        found = find_similar(text, others, self._settings)
        if not is_indexed or len(found) < MAX_CANDIDATES_PER_KEY or found[0].is_duplicate:
            return found
        # So many memories are alike that the keys may not have found all of them: those with its own words count too.
        common = Counter(word for match in found for word in candidates[match.id].words)
        own_words = sorted(text.words, key=lambda word: (common[word], word))[:MAX_OWN_WORDS]
        query = Query(kinds=(MEMORY_KIND,), scopes=(text.scope,), limit=MAX_CANDIDATES_PER_KEY)
        matches = self._reader.match_text(" ".join(own_words), query, ranks_only=True)
        nearest = [ComparableText(match.record.text, text.scope, match.record.id) for match in matches]
        for word in own_words:
            nearest += self._texts_by_word.get((text.scope, word), ())[-MAX_SCANNED_PER_KEY:]
        others = [other for other in nearest if other.id not in exclude]
        repeated = [match for match in find_similar(text, others, self._settings) if match.is_duplicate]
        return repeated or found

    def _find_candidates(self, text: ComparableText) -> dict[str, ComparableText]:
        """Return the texts that share a key with a text; of very many, those that share most of its keys."""
        found: dict[str, ComparableText] = {}
        shared_keys: Counter[str] = Counter()
        for key in text.pair_keys:
            for other in self._texts_by_key.get(key, ())[-MAX_SCANNED_PER_KEY:]:
                if other.scope == text.scope:
                    found[other.id] = other
                    shared_keys[other.id] += 1
        if len(found) <= MAX_SCANNED_PER_KEY:
            return found
        return {id: found[id] for id in nlargest(MAX_SCANNED_PER_KEY, found, key=shared_keys.__getitem__)}

    def add(self, text: ComparableText) -> None:
        """Add a text that the conditional append is going to write."""
        if text.scope in self._batch_scopes:
            self._add_candidate(text)

    def _add_candidate(self, text: ComparableText) -> None:
        if text.scope in self._candidates_by_scope:
            self._candidates_by_scope[text.scope][text.id] = text
        if text.scope in self._batch_scopes:
            for key in text.pair_keys:
                self._texts_by_key.setdefault(key, []).append(text)
            for word in text.words:
                self._texts_by_word.setdefault((text.scope, word), []).append(text)


class StoreChecks:
    """The checks that read the store, for the memories of one conditional append.

    Each accepted memory counts for the memories after it, so that a batch gets the verdicts of single writes.
    """

    def __init__(
        self, reader: Reader, settings: VaultSettings, texts: Iterable[ComparableText], hidden: int = 0
    ) -> None:
        """Prepare the checks of some texts; capacity counts the ``hidden`` memories too that the caller may not read."""
        self._reader = reader
        self._settings = settings
        self._duplicates = DuplicateIndex(reader, settings, texts)
        self._active = self._duplicates.active + hidden
        self._ids_by_topic: dict[tuple[str, str], str] = {}

    def draft_memory(
        self, proposal: MemoryProposal, text: ComparableText
    ) -> tuple[Draft, Sequence[DuplicateMatch]] | Refused:
        """Return the draft of a new memory, or of the next version of its register, and the memories similar to it."""
        topic = None
        if proposal.tier == REGISTER and proposal.topic_id is not None:
            topic = (proposal.scope, proposal.topic_id)
            if topic in self._ids_by_topic:
                return memory_draft(proposal, self._ids_by_topic[topic], expected=None), ()
            known = read_register(self._reader, proposal.topic_id, proposal.scope)
            if known is not None:
                self._ids_by_topic[topic] = known.id
                return memory_draft(proposal, known.id, expected=known.version), ()
        for other in proposal.distinct_from:
            if self._reader.get(memory_key(proposal.scope, other)) is None:
                return refuse_missing(other)
        similar = self.check(text, proposal.distinct_from)
        if isinstance(similar, Refused):
            return similar
        if topic is not None:
            self._ids_by_topic[topic] = text.id
        return memory_draft(proposal, text.id, expected=0), similar

    def check(
        self, text: ComparableText, exclude: Container[str], *, is_new: bool = True
    ) -> Sequence[DuplicateMatch] | Refused:
        """Return the memories that are similar to a text, or refuse one that repeats a memory or finds no room."""
        similar = self._duplicates.find_similar(text, exclude=exclude)
        if similar and similar[0].is_duplicate:
            match = similar[0]
            return Refused(
                "duplicate",
                f"This repeats memory {match.id} in {match.scope} (word overlap {match.overlap:.2f}, sequence "
                f"{match.sequence:.2f}). If the fact is the same, nothing needs to be done. If it is another fact, add it with "
                f"distinct_from={match.id}. If the fact has changed, update {match.id}.",
                {"duplicate_of": match.id, "scope": match.scope, "overlap": match.overlap, "sequence": match.sequence},
            )
        if is_new and self._active >= self._settings.capacity:
            return Refused(
                "full",
                f"The vault is full: {self._active:,} memories are active. Forget some (`lukasa vault propose-deletions` names "
                "candidates), or raise the capacity in the profile.",
                {"active": self._active},
            )
        self._duplicates.add(text)
        self._active += is_new
        return similar


def read_register(reader: Reader, topic_id: str, scope: str) -> Record | None:
    """Return the register with a topic, if there is one."""
    labels = (f"topic={topic_id}", f"tier={REGISTER}")
    query = Query(kinds=(MEMORY_KIND,), scopes=(scope,), labels=labels, newest_first=True, limit=1)
    return next(iter(reader.read(query)), None)


def refuse_missing(id: str) -> Refused:
    """Refuse an id that no memory has."""
    return Refused("not_found", f"There is no memory {id!r:.80}.")
