"""Proposals of memories, the checks of the vault's write gate, and counts of refusals.

The checks run in the document's order: those that need no store before the write lock (``check_proposal``), then register
upsert, near-duplicate and capacity inside the conditional append that writes (``StoreChecks``).

Noise is text that belongs in the burst journal and not in the vault: text with one of the signals as whole words. Six of
the ten signals are words of the journal and always count. The other four are also plain words (``heartbeat``,
``check-in``, ``no changes``, ``ephemeral``), and a text that states something lasting with them is a memory. It does so
when, besides the signal, it has a word that states (*is*, *must*, *never*, *uses* …), at least three content words, and
no word of the passing moment (*now*, *ok*, *received*, a time of day …). So "Heartbeat monitoring is the core of project
Pulse" is kept, and "Heartbeat received, all agents are ok" is not.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lukasa.core.canonical_json import SURROGATES
from lukasa.core.choices import TIERS, Tier
from lukasa.core.clock import from_iso, to_iso, to_utc
from lukasa.core.freshness import EXPIRES_AT
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Key, Link, Record
from lukasa.core.scope import SHARED, SYSTEM, Reach
from lukasa.core.text_cache import cache_texts
from lukasa.errors import InvalidInput, StoreError
from lukasa.journal import Journal
from lukasa.pii.detector import describe_findings, draft_texts, find_pii_once, redact_text
from lukasa.storage.engine import Query, Reader
from lukasa.text.lexicon import WORDS
from lukasa.text.terms import find_words, normalise_text
from lukasa.vault.duplicates import ComparableText, DuplicateIndex, DuplicateMatch
from lukasa.vault.settings import AMBIGUOUS_SIGNALS, CANON, LOG, MEMORY_KIND, REGISTER, VaultSettings

DISTINCT_FROM = "distinct_from"
"""The relation from a memory to a similar one that states another fact, as the writer said."""
UNKNOWN_SOURCE = "unsaid"
"""The origin of a memory without a source."""
REFUSALS_KIND = "verdicts"
FLUSH_EVERY = 100
_COUNTER_ID = "vault"
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
    if not (found := find_pii_once((text, *metadata), strict=True)):
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


class RefusalCounter:
    """Counts of refusals by code, in one record per scope; they hold nothing of the refused texts.

    Refusals are counted in memory and written every ``FLUSH_EVERY`` refusals and on close, not one by one. After a crash
    up to that many refusals of each process are missing from the counts; nothing else depends on them.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Refused):
            return
        with self._lock:
            self._pending[outcome.code] += 1
            due = self._pending.total() >= FLUSH_EVERY
        if due:
            self.flush()

    def read_totals(self) -> dict[str, int]:
        """Return all refusals the caller may know of, by code."""
        with self._lock:
            total = Counter(self._pending)
        for record in self._journal.read(Query(kinds=(REFUSALS_KIND,))):
            total.update({str(code): int(number) for code, number in dict(record.body.get("refused", {})).items()})
        return dict(total.most_common())

    def flush(self) -> None:
        """Write the pending counts. When the store cannot be written, they stay pending and no error is raised."""
        with self._lock:
            counted, self._pending = self._pending, Counter()
        scope = self._journal.home_scope  # so that no other agent learns of the counts
        if not counted or scope is None:
            return

        def add_counts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, REFUSALS_KIND, _COUNTER_ID))
            total = Counter(dict(known.body.get("refused", {})) if known is not None else {})
            total.update(counted)
            return [Draft(REFUSALS_KIND, body={"refused": dict(total)}, id=_COUNTER_ID, scope=scope, origin="vault")]

        try:
            self._journal.append_if(add_counts)
        except StoreError:
            with self._lock:
                self._pending.update(counted)
