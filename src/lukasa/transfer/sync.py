"""Synchronisation of a store with a hub: each gets the entries it lacks, unchanged, and both can work without the other.

A run pulls what the hub has after the last position, pushes what was written here since, and remembers both positions in
the store, so a run that was interrupted continues. Entries that are present are skipped; nothing is ever written twice.

Two stores that changed the same record while apart have different versions under the same number. Neither log is altered:
the content of the hub becomes the next version, and a record of the kind ``sync_conflict`` keeps both versions, in both
stores. Records of the store itself, such as settings, jobs and quarantines, are not exchanged.

At the end the fingerprints of both sides are compared. Where they differ, entries are compared one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from lukasa.api_connection import ApiConnection
from lukasa.core.record import Draft, Key, Record, digest_of, draft_from, encode_entries, entry_bytes, parse_entry
from lukasa.core.scope import SYSTEM
from lukasa.errors import FormatError, mask_password
from lukasa.jobs.jobs import JOB_RESULT
from lukasa.jobs.log_queue import JOB
from lukasa.journal import Journal
from lukasa.journal.erasure import SYNC_CONFLICT
from lukasa.network import CURSOR_KIND
from lukasa.storage.engine import VERSION_TAKEN, Progress, ReplayResult
from lukasa.storage.integrity import DigestSum, Fingerprint, ScopeAndKind
from lukasa.storage.log_file import ENTIRE_LOG
from lukasa.transfer.copy import CopyRefusal

POSITION_KIND, CONFLICT_KIND = "sync_position", SYNC_CONFLICT
NOT_SYNCED = frozenset({POSITION_KIND, CURSOR_KIND, JOB, JOB_RESULT})
"""Kinds that belong to one store. The records of the system scope are not exchanged either."""
_BATCH_ENTRIES, _BATCH_BYTES = 500, 4_000_000
_MAX_ROUNDS = 8
_MAX_REFUSALS = 20


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries of a log by position, the position to continue after, and what the caller may write there."""

    records: Sequence[Record]
    position: int
    tip: int
    scopes: frozenset[str] | None = None
    agent: str = ""


class LogPeer(Protocol):
    """The log of another store."""

    name: str

    def pull(self, after: int, pair: ScopeAndKind | None = None) -> LogPage:
        """Return the first entries after a position, of one scope and kind or of all."""

    def push(self, entries: Sequence[bytes]) -> list[ReplayResult]:
        """Add entries that are not there yet."""

    def fingerprint(self) -> Mapping[ScopeAndKind, tuple[int, str]]:
        """Return the number of versions and the hash of each scope and kind."""


@dataclass(frozen=True, slots=True)
class SyncConflict:
    """A version that both stores wrote, each with a content of its own."""

    key: Key
    version: int


@dataclass(slots=True)
class SyncResult:
    """The entries that a run pulled, pushed and could not exchange, and whether both stores now have the same.

    ``kept_here`` counts entries that the token may not write to the hub: of other scopes, or of other agents.
    """

    pulled: int = 0
    pushed: int = 0
    kept_here: int = 0
    conflicts: list[SyncConflict] = field(default_factory=list)
    refused: int = 0
    refusals: list[CopyRefusal] = field(default_factory=list)
    missing_here: int = 0
    missing_there: int = 0

    @property
    def holds(self) -> bool:
        """Whether every entry that may be exchanged is in both stores."""
        return not self.missing_here and not self.missing_there

    def refuse(self, record: Record, reason: str) -> None:
        """Count an entry that one of the stores refused."""
        self.refused += 1
        if len(self.refusals) < _MAX_REFUSALS:
            self.refusals.append(CopyRefusal(record.key, record.version, reason))


class HttpLogPeer:
    """The log of a hub behind HTTP."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self.name = connection.url

    def pull(self, after: int, pair: ScopeAndKind | None = None) -> LogPage:
        query: dict[str, Any] = {"after": after, "limit": _BATCH_ENTRIES}
        if pair is not None:
            query |= {"scope": pair[0], "kind": pair[1]}
        found = self._connection.request("GET", "/v1/log", query=query).content
        entries = ((item["record"].encode(), item["position"]) for item in found["entries"])
        try:
            records = [parse_entry(entry, position, digest_of(entry)) for entry, position in entries]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"The hub sent something that is not an entry of a log ({error}).") from error
        scopes = None if found["writable"] is None else frozenset(found["writable"])
        return LogPage(records, found["position"], found["tip"], scopes, found["agent"])

    def push(self, entries: Sequence[bytes]) -> list[ReplayResult]:
        body = {"entries": [entry.decode() for entry in entries]}
        found = self._connection.request("POST", "/v1/log", body, repeatable=True).content
        return [ReplayResult(item["state"], item["reason"]) for item in found["results"]]

    def fingerprint(self) -> Mapping[ScopeAndKind, tuple[int, str]]:
        found = self._connection.request("GET", "/v1/log/fingerprint").content
        return {(row["scope"], row["kind"]): (row["versions"], row["hash"]) for row in found["kinds"]}


def read_log_page(
    journal: Journal, after: int, limit: int = _BATCH_ENTRIES, pair: ScopeAndKind | None = None
) -> LogPage:
    """Return the entries of a log after a position that may be exchanged, up to a number and a size."""
    query = replace(ENTIRE_LOG, after=after, limit=limit)
    if pair is not None:
        query = replace(query, scopes=pair[:1], kinds=pair[1:])
    with journal.snapshot() as reader:
        found, tip = reader.read(query), reader.tip()
    records, size, position = list[Record](), 0, after
    for record in found:
        size += len(record.text)
        if records and size > _BATCH_BYTES:
            break
        position = record.seq
        if record.scope != SYSTEM and record.kind not in NOT_SYNCED:
            records.append(record)
    return LogPage(records, position, tip, journal.reach.writable, journal.author)


def fingerprint_log(journal: Journal) -> dict[ScopeAndKind, DigestSum]:
    """Return the sums of the digests of everything that is exchanged, per scope and kind."""
    found = Fingerprint()
    for page in _read_pages(partial(read_log_page, journal), 0):
        found.extend(page.records)
    return found.by_kind


def _read_pages(pull: Callable[[int], LogPage], position: int) -> Iterator[LogPage]:
    """Yield the pages of a log after a position, from its beginning if it was restored to an earlier state, up to its end."""
    while True:
        page = pull(position)
        if page.tip < position:
            position = 0
            continue
        yield page
        if page.position in (position, page.tip):
            return
        position = page.position


def sync_logs(journal: Journal, peer: LogPeer, progress: Progress | None = None) -> SyncResult:
    """Exchange with a hub what each side lacks, and prove it."""
    run = _SyncRun(journal, peer, SyncResult(), progress)
    run.exchange()
    if not run.prove() and run.continued:  # the positions belong to another state of one of the stores
        run.forget_positions()
        run.exchange()
        run.prove()
    return run.result


class _SyncRun:
    """One run of a synchronisation."""

    def __init__(self, journal: Journal, peer: LogPeer, result: SyncResult, progress: Progress | None) -> None:
        self._journal, self._peer, self.result, self._progress = journal, peer, result, progress
        self._writer = journal.with_valid_bodies()
        scope = journal.home_scope or ""
        self._position_key = Key(scope, POSITION_KIND, hashlib.sha256(peer.name.encode()).hexdigest()[:32])
        known = journal.get(self._position_key)
        body = {} if known is None else known.body
        self._pulled, self._pushed = int(body.get("pulled", 0)), int(body.get("pushed", 0))
        self._has_moved = False
        self.continued = bool(self._pulled or self._pushed)
        self._exchanged: set[bytes] = set()
        self._conflicting: dict[Key, Record] = {}
        self._scopes: frozenset[str] | None = None
        self._agent = ""

    def forget_positions(self) -> None:
        self._pulled = self._pushed = 0

    def exchange(self) -> None:
        """Pull and push until neither side has anything new."""
        for _ in range(_MAX_ROUNDS):
            self._pull_all()
            self._settle_conflicts()
            is_settled = self._push_all()
            self._store_positions()
            if is_settled:
                return

    def _pull_all(self) -> None:
        for page in _read_pages(self._peer.pull, self._pulled):
            self._scopes, self._agent = page.scopes, page.agent
            if page.records:
                self._take(page.records)
                self._has_moved = True
            if page.position != self._pulled:
                self._pulled = page.position
                self._report()

    def _take(self, records: Sequence[Record]) -> None:
        """Add entries of the hub here; keep both versions of those that conflict."""
        entries = list(zip(encode_entries(records), [record.digest for record in records], strict=True))
        answers = list(self._journal.replay(entries, source=mask_password(self._peer.name)))
        for record, answer in zip(records, answers, strict=True):
            self._exchanged.add(record.digest)
            if answer.state == "added":
                self.result.pulled += 1
            elif answer.reason == VERSION_TAKEN:
                self._keep_both(record)
            elif answer.state == "refused":
                self.result.refuse(record, answer.reason)
            if record.key in self._conflicting or answer.reason == VERSION_TAKEN:
                self._conflicting[record.key] = record

    def _keep_both(self, theirs: Record) -> None:
        """Store a conflict: the version of the hub, and the version that is here under the same number."""
        history = self._journal.history(theirs.key, hidden=True)
        ours = next(record for record in history if record.version == theirs.version)
        self.result.conflicts.append(SyncConflict(theirs.key, theirs.version))
        body = {
            "record": {"scope": theirs.scope, "kind": theirs.kind, "id": theirs.id},
            "version": theirs.version,
            "hub": entry_bytes(theirs).decode(),
            "here": entry_bytes(ours).decode(),
        }
        id = hashlib.sha256(theirs.digest + ours.digest).hexdigest()[:32]
        draft = Draft(
            CONFLICT_KIND, f"Two versions {theirs.version} of {theirs.key}", body, id, theirs.scope, origin="sync"
        )
        if self._journal.get(draft.key) is None:
            self._writer.append(draft)

    def _settle_conflicts(self) -> None:
        """Make the hub's content the next version of each record whose newest versions differ."""
        for key, theirs in self._conflicting.items():
            ours = self._journal.history(key, hidden=True)[-1]
            if ours.version == theirs.version and ours.digest != theirs.digest:
                author = theirs.author if self._journal.reach.unlimited else self._journal.author
                self._writer.append(draft_from(theirs, author=author, origin="sync", expected=ours.version))
        self._conflicting.clear()

    def _push_all(self) -> bool:
        """Send what was written here; return whether the hub took everything that did not conflict."""
        is_settled = True
        for page in _read_pages(partial(read_log_page, self._journal), self._pushed):
            self._has_moved |= bool(page.records)
            new = [record for record in page.records if record.digest not in self._exchanged]
            sent = [record for record in new if self._may_push(record)]
            self.result.kept_here += len(new) - len(sent)
            answers = self._peer.push(encode_entries(sent)) if sent else []
            for record, answer in zip(sent, answers, strict=True):
                self._exchanged.add(record.digest)
                self.result.pushed += answer.state == "added"
                if answer.state == "refused" and answer.reason != VERSION_TAKEN:
                    self.result.refuse(record, answer.reason)
                is_settled = is_settled and not (answer.reason == VERSION_TAKEN and self._is_newest(record))
            if page.position != self._pushed:
                self._pushed = page.position
                self._report()
        return is_settled

    def _may_push(self, record: Record) -> bool:
        return (self._scopes is None or record.scope in self._scopes) and self._agent in ("", record.author)

    def _is_newest(self, record: Record) -> bool:
        return self._journal.history(record.key, hidden=True)[-1].version == record.version

    def _store_positions(self) -> None:
        key = self._position_key
        if self._has_moved and key.scope:  # not for the record of the last run alone
            body = {"hub": self._peer.name, "pulled": self._pulled, "pushed": self._pushed}
            self._writer.append(Draft(key.kind, body=body, id=key.id, scope=key.scope, origin="sync"))
            self._has_moved = False

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self.result.pulled + self.result.pushed, 0)

    def prove(self) -> bool:
        """Compare both sides; count the entries that one of them lacks, apart from those that may not be exchanged."""
        ours, theirs = fingerprint_log(self._journal), self._peer.fingerprint()
        self.result.missing_here = self.result.missing_there = 0
        for pair in sorted(ours.keys() | theirs.keys()):
            held = ours.get(pair, DigestSum())
            if (held.versions, held.hash) != theirs.get(pair, (0, DigestSum().hash)):
                self._compare_entries(pair)
        return self.result.holds

    def _compare_entries(self, pair: ScopeAndKind) -> None:
        """Count the versions of one scope and kind that only one store has; a version that was refused does not count."""
        here = {(r.id, r.version): r for r in self._journal.read(replace(ENTIRE_LOG, scopes=pair[:1], kinds=pair[1:]))}
        pages = _read_pages(lambda after: self._peer.pull(after, pair), 0)
        there = {(record.id, record.version): record for page in pages for record in page.records}
        refused = {(refusal.key, refusal.version) for refusal in self.result.refusals}
        for name, record in there.items():
            self.result.missing_here += name not in here and (record.key, record.version) not in refused
        for name, record in here.items():
            is_missing = name not in there and self._may_push(record) and (record.key, record.version) not in refused
            self.result.missing_there += is_missing


def replay_pushed(journal: Journal, entries: Iterable[str]) -> list[ReplayResult]:
    """Add the entries that another store pushed; a caller adds only what it wrote itself, unless it is the owner."""
    lines = [entry.encode("utf-8", "surrogatepass") for entry in entries]
    return list(journal.replay([(line, digest_of(line)) for line in lines], source="sync"))
