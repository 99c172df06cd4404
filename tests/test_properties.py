"""Properties that hold for every input and every order of events."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lukasa
from lukasa import Accepted, Conflict, Draft, Key, Link, Reach, Refused
from lukasa.core import canonical_json
from lukasa.core.clock import to_iso
from lukasa.core.record import DERIVED_FROM, digest_of, encode_draft, entry_bytes, entry_suffix
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput, LukasaError, NotAllowed
from lukasa.journal import Journal
from lukasa.journal.gate import Gate
from lukasa.storage.engine import Query
from lukasa.testing import CountingIds, FrozenClock, bad_drafts, bodies, drafts, ids, texts
from lukasa.testing.clock import NOON
from lukasa.testing.strategies import FAULT_NAMES, LONE_SURROGATE, bad_draft, json_values, nested_object


def in_memory(clock=None, **options):
    return lukasa.open("memory:", clock=clock or FrozenClock(), new_id=CountingIds(), **options)


def exported(memory):
    target = io.BytesIO()
    memory.export(target)
    return target.getvalue()


def log_of(journal):
    return list(journal.read(Query(every_version=True, hidden=True)))


# A good draft comes back unchanged; a bad one is refused and writes nothing.


@pytest.mark.requirement("LOG-1")
@given(drafts())
def test_a_good_draft_survives_the_round_trip_byte_for_byte(draft):
    with in_memory() as memory:
        written = memory.journal.append([draft]).record
        record = memory.journal.get(written.key)
        assert record == written
        assert (record.text, record.kind, record.scope, record.author) == (
            draft.text,
            draft.kind,
            draft.scope,
            draft.author,
        )
        assert record.id == draft.id or not draft.id
        assert canonical_json.encode(record.body) == canonical_json.encode(draft.body)
        assert (record.links, record.labels, record.origin) == (draft.links, draft.labels, draft.origin)
        assert record.happened_at == draft.happened_at
        assert digest_of(entry_bytes(record)) == record.digest
        assert memory.journal.history(record.key) == [record]
        assert list(memory.journal.read(Query(labels=draft.labels))) == [record]
        assert memory.verify().findings == ()


@pytest.mark.requirement("LOG-1")
@pytest.mark.parametrize("fault", FAULT_NAMES)
def test_every_fault_is_refused_with_its_code_and_leaves_nothing(fault):
    bad = bad_draft(fault, Draft("note", "hello", {"x": 1}, id="a"))
    with in_memory() as memory:
        outcome = memory.journal.append([Draft("note", id="good"), bad.draft])
        assert isinstance(outcome, Refused)
        assert (outcome.code, outcome.details["at"]) == (bad.code, 1)
        assert outcome.reason
        assert memory.journal.tip() == 0


@pytest.mark.requirement("LOG-1")
@given(bad_drafts())
def test_a_bad_draft_is_refused_whatever_surrounds_its_fault(bad):
    with in_memory() as memory:
        outcome = memory.journal.append([bad.draft])
        assert isinstance(outcome, Refused)
        assert outcome.code == bad.code
        assert memory.journal.tip() == 0


def test_a_moment_without_a_zone_is_taken_as_utc_everywhere():
    plain = NOON.replace(tzinfo=None)
    with in_memory(FrozenClock(NOON)) as memory:
        journal = memory.journal
        record = journal.write("note", "word", happened_at=plain).record
        assert record.happened_at == NOON
        for query in (Query(since=plain), Query(until=plain), Query(recorded_since=plain), Query(as_of=plain)):
            assert list(journal.read(query)) == [record]
            assert [match.record for match in journal.find("word", query)] == [record]
        assert journal.get(record.key, as_of=plain) == record


@pytest.mark.requirement("LOG-1")
@given(ids(), ids())
def test_ids_that_differ_at_all_are_different_records(one, other):
    assume(one != other)
    with in_memory() as memory:
        memory.journal.write("note", "one", id=one)
        memory.journal.write("note", "other", id=other)
        assert [memory.journal.get(Key("shared", "note", id)).text for id in (one, other)] == ["one", "other"]


# Canonical JSON: one encoding per value, and strict parsing.


@given(json_values(30))
def test_canonical_json_reads_back_what_it_wrote(value):
    encoded = canonical_json.encode(value)
    again = canonical_json.decode(encoded)
    assert canonical_json.encode(again) == encoded
    assert canonical_json.parse(encoded) == again
    assert canonical_json.find_json_fault(value) is None
    assert canonical_json.find_json_fault(again) is None


def shuffled(value, chance):
    if isinstance(value, dict):
        items = [(name, shuffled(item, chance)) for name, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return tuple(shuffled(item, chance) for item in value)
    return value


@given(json_values(30), st.randoms(use_true_random=False))
def test_equal_values_have_one_encoding(value, chance):
    assert canonical_json.encode(shuffled(value, chance)) == canonical_json.encode(value)


@given(json_values(20), st.booleans(), st.sampled_from([None, 2]))
def test_any_other_encoding_is_parsed_as_the_same_value(value, ascii_only, indent):
    other = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert canonical_json.encode(canonical_json.decode(other)) == canonical_json.encode(value)
    assert canonical_json.encode(canonical_json.decode(other.encode())) == canonical_json.encode(value)


_NOT_JSON = [
    b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', b'{"a":1,"\\u0061":2}', b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"[-1e400]",
    b"18446744073709551616", b"-9223372036854775809", b"9" * 5000, b"-" + b"9" * 5000, b"1" * 400 + b".5", b'"\\ud800"',
    b'{"\\udfff":1}', b'["\\ud800\\ud800"]', b"\xff", b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", b"", b" ", b"nul", b"'a'", b"[1,]", b"{,}", b"01",
    b"[" * 65 + b"]" * 65, b"[" * 100_000, b'{"a":' * 100_000, b'"\n"', b'"\0"', b"1 2", b"\x00", b'{"a":1}x', b"tru\xc3\xa9",
]  # fmt: skip


@pytest.mark.parametrize("data", _NOT_JSON, ids=lambda data: ascii(data[:24]))
def test_json_that_parsers_disagree_on_is_refused(data):
    with pytest.raises(InvalidInput):
        canonical_json.decode(data)


def test_the_limits_of_canonical_json_are_within_reach():
    for data in (
        b"[" * 64 + b"]" * 64,
        b"18446744073709551615",
        b"-9223372036854775808",
        b'"\\ud83d\\ude00"',
        b'"\\u0000"',
    ):
        canonical_json.decode(data)
    assert canonical_json.find_json_fault(nested_object(64)) is None
    assert canonical_json.find_json_fault(nested_object(65)) is not None


@given(st.text(st.characters(), max_size=20), st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3))
def test_text_with_a_lone_surrogate_is_refused_in_every_encoding(text, broken):
    assume(not _pairs_up(text + broken))
    for encoded in (
        json.dumps(text + broken),
        json.dumps(text + broken, ensure_ascii=False),
        json.dumps({text + broken: 1}),
    ):
        with pytest.raises(InvalidInput):
            canonical_json.decode(encoded)


def _pairs_up(text):
    """Tell whether every surrogate is part of a pair."""
    return not any("\ud800" <= character <= "\udfff" for character in json.loads(json.dumps(text)))


_PIECES = st.sampled_from(
    ['"', "\\", "{", "}", "[", "]", ",", ":", "1", "-", "e", ".", "null", '"a"', "\\ud800", "\\u", " ", "9" * 30]
)


@given(st.one_of(st.binary(max_size=200), st.lists(_PIECES, max_size=60).map(lambda pieces: "".join(pieces).encode())))
@example(b"[" * 3000)
def test_no_bytes_at_all_raise_anything_but_invalid_input(data):
    try:
        value = canonical_json.decode(data)
    except InvalidInput:
        return
    assert canonical_json.find_json_fault(value) is None
    assert canonical_json.encode(canonical_json.decode(canonical_json.encode(value))) == canonical_json.encode(value)


# Export and import.


@pytest.mark.requirement("LOG-7")
@given(st.lists(drafts(), max_size=8))
@example([Draft("note", body=nested_object(64), id="deep")])
def test_an_export_replayed_into_an_empty_store_gives_the_same_export_and_the_same_state(batch):
    with in_memory() as memory, in_memory() as copy:
        for draft in batch:
            assert memory.journal.append([draft])
        file = exported(memory)
        imported = copy.import_(io.BytesIO(file))
        assert (imported.present, imported.refused) == (0, [])
        assert exported(copy) == file
        assert [record for record in copy.journal.read() if record.kind != "import"] == list(memory.journal.read())
        assert [row for row in copy.journal.tally() if row.kind != "import"] == memory.journal.tally()
        again = copy.import_(io.BytesIO(file))
        assert (again.added, again.refused) == (0, [])
        assert copy.verify().findings == ()


_SOUND = encode_draft(Draft("note", "hello", id="a")).content[:-1] + entry_suffix(1, to_iso(NOON), to_iso(NOON))


@pytest.mark.requirement("LOG-7")
@pytest.mark.parametrize(
    "line",
    [
        _SOUND.replace(b'"version":1', b'"version":1,"smuggled":"goods"'),
        _SOUND.replace(b'"version":1', b'"version":0'),
        _SOUND.replace(b'"version":1', b'"version":-1'),
        _SOUND.replace(b'"version":1', b'"version":1.5'),
        _SOUND.replace(b'"version":1', b'"version":1.0'),
        _SOUND.replace(b'"version":1', b'"version":"1"'),
        _SOUND.replace(b'"version":1', b'"version":true'),
        _SOUND.replace(b'"version":1', b'"version":18446744073709551615'),
        _SOUND.replace(b'"version":1', b'"version": 1'),
        _SOUND.replace(b"T12:00:00Z", b"T12:00:00+00:00"),
        _SOUND.replace(b"T12:00:00Z", b"T13:00:00+01:00"),
        _SOUND.replace(b"T12:00:00Z", b""),
        _SOUND.replace(b'"created_at"', b'"recorded_at"'),
        _SOUND.replace(b'"id":"a",', b""),
        _SOUND.replace(b'"id":"a"', b'"id":""'),
        _SOUND.replace(b'"id":"a"', b'"id":7'),
        _SOUND.replace(b'"kind":"note"', b'"kind":null'),
        _SOUND.replace(b'"text":"hello"', b'"text":["hello"]'),
        _SOUND.replace(b'"text":"hello"', b'"text":"hello","text":"hello"'),
        _SOUND.replace(b'"text":"hello"', b'"links":[{"id":"x"}],"text":"hello"'),
        _SOUND.replace(b'"text":"hello"', b'"labels":"hello","text":"hello"'),
        _SOUND.replace(b'"text":"hello"', b'"text":"hell\\u006f"'),
        b" " + _SOUND,
        _SOUND + b" ",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"",
    ],
)
def test_a_line_that_was_tampered_with_is_refused_although_its_digest_fits(line):
    with in_memory() as memory:
        assert [answer.state for answer in memory.journal.replay([(_SOUND, digest_of(_SOUND))])] == ["added"]
    with in_memory() as memory:
        assert [answer.state for answer in memory.journal.replay([(line, digest_of(line))])] == ["refused"]
        assert memory.journal.tip() == 0
        exported(memory)


@pytest.mark.requirement("LOG-6", "LOG-7")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"author": None},
        {"author": ["ada"]},
        {"author": "ada", "since": "yesterday"},
        {"author": "ada", "since": 7},
        {"released": True},
    ],
    ids=str,
)
def test_a_quarantine_that_makes_no_sense_is_refused_and_the_rest_is_taken(body):
    bad = encode_draft(Draft("quarantine", body=body, id="q", scope=SYSTEM)).content[:-1] + entry_suffix(
        1, to_iso(NOON), to_iso(NOON)
    )
    with in_memory() as memory:
        answers = memory.journal.replay([(bad, digest_of(bad)), (_SOUND, digest_of(_SOUND))])
        assert [answer.state for answer in answers] == ["refused", "added"]
        assert [record.id for record in memory.journal.read() if record.kind != "import"] == ["a"]
        assert memory.verify().findings == ()


@pytest.mark.requirement("LOG-7")
@given(st.lists(st.one_of(st.binary(max_size=60), bodies().map(canonical_json.encode), st.just(_SOUND)), max_size=6))
def test_no_lines_at_all_break_a_replay(lines):
    with in_memory() as memory:
        answers = [answer.state for answer in memory.journal.replay([(line, digest_of(line)) for line in lines])]
        assert len(answers) == len(lines)
        assert Counter(answers)["added"] == min(1, lines.count(_SOUND))
        assert memory.verify().findings == ()


# Scopes: a caller learns nothing of a scope outside its reach.

_SECRET = "hush"


@pytest.fixture(scope="module")
def two_sides():
    """Return one store with an open and a closed scope, as its owner and as a caller with a limited reach see it."""
    clock = FrozenClock()
    with in_memory(clock) as memory:
        owner = memory.journal
        walled = Journal(memory._parts.engine, Gate(), Reach.of(["open"]), clock, CountingIds("w-"))
        for scope, word in (("open", "plain"), ("closed", _SECRET)):
            for number in range(4):
                clock.advance(60)
                owner.write(
                    "note", f"{word} word {number}", {"n": word}, id=f"{number}", scope=scope, author="ada",
                    labels=("l=1", f"n={number}"), links=(Link(DERIVED_FROM, Key("open", "note", "0")), Link("about", Key("closed", "note", "1"))),
                )  # fmt: skip
                owner.write("note", f"{word} word {number} again", id=f"{number}", scope=scope, labels=("l=1",))
        owner.write("fact", _SECRET, id="deleted", scope="closed")
        owner.delete(Key("closed", "fact", "deleted"))
        owner.write("note", f"{_SECRET} lie", id="lie", scope="closed", author="mallory")
        owner.quarantine("mallory")
        yield owner, walled


_SCOPES = st.sampled_from(["open", "closed", SYSTEM, "", "*", "open,closed", "o%", LONE_SURROGATE])
_KEYS = st.builds(
    Key,
    _SCOPES,
    st.sampled_from(["note", "fact", "quarantine", ""]),
    st.sampled_from(["0", "1", "lie", "deleted", "9"]),
)
_TIMES = st.one_of(st.none(), st.integers(-300, 2000).map(lambda seconds: NOON + timedelta(seconds=seconds)))
_NUMBERS = st.one_of(st.none(), st.integers(-2, 30), st.sampled_from([2**63, -(2**70)]))
_QUERIES = st.builds(
    Query,
    kinds=st.lists(st.sampled_from(["note", "fact", "quarantine", "'"]), max_size=2).map(tuple),
    scopes=st.lists(_SCOPES, max_size=3).map(tuple),
    labels=st.lists(st.sampled_from(["l=1", "n=1", "%"]), max_size=2).map(tuple),
    author=st.sampled_from([None, "", "ada", "mallory", LONE_SURROGATE]),
    since=_TIMES,
    until=_TIMES,
    recorded_since=_TIMES,
    after=_NUMBERS,
    before=_NUMBERS,
    as_of=st.one_of(_TIMES, _NUMBERS),
    every_version=st.booleans(),
    hidden=st.booleans(),
    mentions=st.sampled_from([None, None, "word", _SECRET, "%", "", LONE_SURROGATE]),
    newest_first=st.booleans(),
    limit=st.sampled_from([None, 0, 1, 3, 1000, -1]),
)
_WORDS = st.one_of(st.sampled_from(["word", _SECRET, f"plain {_SECRET}", "again OR word", "*"]), texts(20))


@pytest.mark.requirement("LOG-4")
@settings(max_examples=settings().max_examples * 4)
@given(query=_QUERIES, words=_WORDS, key=_KEYS, number=_NUMBERS)
def test_no_query_returns_records_outside_the_reach(two_sides, query, words, key, number):
    _, walled = two_sides
    seen, complaints = [], []
    for ask in (
        lambda: list(walled.read(query)),
        lambda: [match.record for match in walled.find(words, query)],
        lambda: [walled.get(key)],
        lambda: [walled.get(key, version=number)],
        lambda: [walled.get(key, as_of=query.as_of)],
        lambda: walled.history(key),
    ):
        try:
            seen += [record for record in ask() if record is not None]
        except LukasaError as error:
            complaints.append(str(error))
    assert {record.scope for record in seen} <= {"open"}
    assert not any(_SECRET in complaint for complaint in complaints)
    assert {row.scope for row in walled.tally()} == {"open"}
    try:
        around = walled.neighbours(key)
    except InvalidInput:
        around = []
    assert all(each.direction == "out" or each.key.scope == "open" for each in around)
    assert key.scope == "open" or all(each.direction == "in" for each in around)


@pytest.mark.requirement("LOG-4")
def test_a_caller_with_a_limited_reach_cannot_maintain_the_store(two_sides):
    owner, walled = two_sides
    for deed in (walled.verify, walled.reindex, walled.compact, lambda: walled.erase(Key("open", "note", "0"))):
        with pytest.raises(NotAllowed):
            deed()
    assert walled.quarantined() == {}
    assert walled.preview_erase(subject=_SECRET) == []
    assert not walled.quarantine("ada")
    assert not walled.release("mallory")
    assert owner.verify().sound


@pytest.mark.requirement("LOG-4")
def test_a_caller_with_a_limited_reach_exports_its_own_scopes_only(tmp_path):
    store = tmp_path / "store.db"
    with lukasa.open(store) as owner, lukasa.open(store, agent="ada") as walled:
        owner.journal.write("note", _SECRET, scope="closed")
        owner.journal.write("note", "plain", scope="ada")
        assert _SECRET.encode() not in exported(walled)
        with pytest.raises(NotAllowed):
            walled.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()


# Random operations on a store, compared with a model of plain lists.


@dataclass
class Version:
    """A version in the model's log."""

    position: int
    key: Key
    number: int
    author: str
    at: datetime
    text: str
    sources: tuple[Key, ...] = ()
    deleted: bool = False
    origin: str = "manual"
    hidden_by: set[str] = field(default_factory=set)


class Model:
    """The expected content of a store, as plain lists."""

    def __init__(self):
        self.log: list[Version] = []
        self.quarantines: dict[str, datetime | None] = {}
        self.events: list[tuple[int, str, datetime | None, bool]] = []
        self.position = 0

    def copy(self):
        """Return an independent copy."""
        other = Model()
        other.log = [replace(version, hidden_by=set(version.hidden_by)) for version in self.log]
        other.quarantines, other.events, other.position = dict(self.quarantines), list(self.events), self.position
        return other

    def versions(self, key, *, seen=True):
        found = [version for version in self.log if version.key == key and not (seen and version.hidden_by)]
        return sorted(found, key=lambda version: version.number)

    def newest_number(self, key):
        """Return the number of the newest visible version, and whether it is live."""
        versions = self.versions(key)
        return (versions[-1].number, not versions[-1].deleted) if versions else (0, False)

    def keys(self):
        return list(dict.fromkeys(version.key for version in self.log))

    def live(self):
        newest = [self.versions(key)[-1:] for key in self.keys()]
        return sorted((v for (v,) in filter(None, newest) if not v.deleted), key=lambda version: version.position)

    def write(self, key, author, at, text="", sources=(), deleted=False, origin="manual"):
        taken = self.versions(key, seen=False)
        self.position += 1
        version = Version(
            self.position, key, taken[-1].number + 1 if taken else 1, author, at, text, tuple(sources), deleted, origin
        )
        self.hide_new(version)
        self.log.append(version)
        return version

    def hide_new(self, version):
        since = self.quarantines.get(version.author)
        if version.author in self.quarantines and (since is None or version.at >= since):
            version.hidden_by.add(version.author)
        for source in version.sources:
            before = self.versions(source, seen=False)
            if before and all(each.hidden_by for each in before):
                version.hidden_by.update(*(each.hidden_by for each in before))

    def current_before(self, key, position):
        """Return the version of a key that was current just before a position."""
        before = [version for version in self.versions(key, seen=False) if version.position < position]
        return before[-1] if before else None

    def quarantine(self, author, since):
        self.position += 1
        self.events.append((self.position, author, since, True))
        self.hide_by(author, since)

    def hide_by(self, author, since):
        self.show_by(author)
        self.quarantines[author] = since
        for version in self.log:
            own = version.author == author and (since is None or version.at >= since)
            made = any(
                (source := self.current_before(key, version.position)) and author in source.hidden_by
                for key in version.sources
            )
            if own or made:
                version.hidden_by.add(author)

    def release(self, author):
        self.events.append((self.position, author, None, False))
        self.show_by(author)

    def show_by(self, author):
        self.quarantines.pop(author, None)
        for version in self.log:
            version.hidden_by.discard(author)

    def doomed(self, key):
        """Return the versions that an erasure of a key removes: its own, and those derived from removed ones."""
        whole, gone = {key}, {v.position for v in self.log if v.key == key}
        while True:
            more = {
                v.position for v in self.log if self._is_derived(v, whole, gone) or self._is_repeated(v, gone)
            } - gone
            if not more:
                return [v for v in self.log if v.position in gone]
            first = min(more)
            gone.add(first)
            whole |= {k for k in self.keys() if all(v.position in gone for v in self.log if v.key == k)}

    def _is_derived(self, version, whole, gone):
        sources = [(source, self.current_before(source, version.position)) for source in version.sources]
        return any(source in whole or (before and before.position in gone) for source, before in sources)

    def _is_repeated(self, version, gone):
        earlier = [v for v in self.versions(version.key, seen=False) if v.number < version.number]
        for each in (v for v in earlier if v.position in gone):
            kept = [v for v in earlier if v.position not in gone]
            older = [v for v in kept if v.number < each.number]
            if version.deleted and not kept:
                return True
            if self._says(version, each) and not any(self._says(v, each) for v in older):
                return True
        return False

    def _says(self, version, other):
        return (
            bool(other.text) and f" {other.text} " in f" {version.text} " and 2 * len(other.text) >= len(version.text)
        )

    def hide_again(self):
        """Hide what the quarantines hide, from the beginning: what is derived from an erased version may be hidden now."""
        pending: list[tuple[float, Any]] = [(v.position, v) for v in self.log]
        pending += [(position - 0.5, event) for event in self.events for position in event[:1]]
        pending.sort(key=lambda item: item[0])
        self.log, self.quarantines = [], {}
        for _, item in pending:
            if isinstance(item, Version):
                item.hidden_by.clear()
                self.hide_new(item)
                self.log.append(item)
            elif item[3]:
                self.hide_by(item[1], item[2])
            else:
                self.show_by(item[1])

    def forget(self, positions):
        self.log = [version for version in self.log if version.position not in positions]


_AUTHORS = ("ada", "ben", "mallory")
_LIFE_KEYS = [
    Key("shared", "note", "1"),
    Key("shared", "note", "2"),
    Key("shared", "fact", "1"),
    Key("ada", "note", "1"),
]
_VOCABULARY = ("alpha", "beta", "gamma")

keys = st.sampled_from(_LIFE_KEYS)
authors = st.sampled_from(_AUTHORS)


@dataclass(frozen=True)
class Step:
    """One proposed write."""

    key: Key
    author: str
    text: str
    sources: tuple[Key, ...]
    deleted: bool
    expects: str


steps = st.builds(
    Step,
    keys,
    authors,
    st.sampled_from(("", *_VOCABULARY, "alpha beta")),
    st.lists(keys, max_size=2, unique=True).map(tuple),
    st.sampled_from((False, False, False, True)),
    st.sampled_from(("anything", "anything", "nothing", "newest", "stale")),
)


class Life(RuleBasedStateMachine):
    """Every operation but undo; after every step the store holds what the model holds.

    The model drops versions in ``compact`` and ``erase`` only, so any other loss is found.
    """

    @initialize(past=st.lists(steps, min_size=2, max_size=6))
    def open(self, past):
        self.clock = FrozenClock()
        self.ids = CountingIds()
        self.model = Model()
        self.memory = self._open()
        for step in past:
            self.write_batch([replace(step, expects="anything")])

    def _open(self):
        return in_memory(self.clock)

    @property
    def journal(self):
        return self.memory.journal

    @rule(step=steps)
    def write(self, step):
        self.write_batch([step])

    @rule(step=steps, source=keys)
    def derive(self, step, source):
        self.write_batch([replace(step, sources=(source,), expects="anything", deleted=False)])

    @rule(batch=st.lists(steps, min_size=2, max_size=4))
    def write_batch(self, batch):
        trial = self.model.copy()
        conflict = None
        proposed = []
        for step in batch:
            number, live = trial.newest_number(step.key)
            expected = {"anything": None, "nothing": 0, "newest": number, "stale": number + 1}[step.expects]
            if conflict is None and expected is not None and expected != number and (expected or live):
                conflict = Conflict(step.key, expected, number)
            links = tuple(Link(DERIVED_FROM, source) for source in step.sources)
            proposed.append(
                Draft(
                    step.key.kind, step.text, id=step.key.id, scope=step.key.scope, author=step.author,
                    links=links, deleted=step.deleted, expected=expected,
                )
            )  # fmt: skip
            trial.write(step.key, step.author, self.clock.now(), step.text, step.sources, step.deleted)
        outcome = self.journal.append(proposed)
        if conflict is not None:
            assert outcome == conflict
            return
        assert isinstance(outcome, Accepted)
        for step, record in zip(batch, outcome.records, strict=True):
            version = self.model.write(step.key, step.author, self.clock.now(), step.text, step.sources, step.deleted)
            assert record.version == version.number

    @rule(seconds=st.sampled_from([-3600, -1, 1, 60, 86400]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(author=authors, back=st.sampled_from([None, 0, 60, 3600]))
    def quarantine(self, author, back):
        since = None if back is None else self.clock.now() - timedelta(seconds=back)
        assert self.journal.quarantine(author, since=since)
        self.model.quarantine(author, since)

    @rule(author=authors)
    def release(self, author):
        outcome = self.journal.release(author)
        assert bool(outcome) == (author in self.model.quarantines)
        if outcome:
            self.model.position += 1
            self.model.release(author)

    @rule(before=st.sampled_from([None, -3600, 0]))
    def compact(self, before):
        bound = None if before is None else self.clock.now() + timedelta(seconds=before)
        self.journal.compact(before=bound)
        kept = {(record.key, record.version) for record in log_of(self.journal)}
        gone = [version for version in self.model.log if (version.key, version.number) not in kept]
        for version in gone:
            assert not version.hidden_by
            newer = [v for v in self.model.versions(version.key) if v.number > version.number]
            assert any(bound is None or v.at < bound for v in newer)
        self.model.forget({version.position for version in gone})

    @rule()
    def rebuild(self):
        self.journal.reindex()

    @rule(key=keys)
    def erase(self, key):
        there = self.model.doomed(key)
        left = {version.key for version in self.model.log if version not in there}
        erased = {version.key for version in there} - left
        restored = {version.key for version in there} & left
        assert set(self.journal.preview_erase(key)) == erased
        previewed = self.journal.preview_restore(key)
        numbers = {k: tuple(sorted(v.number for v in there if v.key == k)) for k in restored}
        assert {k: tuple(sorted(v)) for k, v in previewed.items()} == numbers
        receipt = self.journal.erase(key)
        assert (receipt.versions, receipt.records, receipt.restored) == (len(there), len(erased), len(restored))
        self.model.forget({version.position for version in there})
        if restored:
            self.model.hide_again()

    @precondition(lambda self: hasattr(self, "model"))
    @invariant()
    def the_store_holds_what_the_model_holds(self):
        with self.journal.snapshot() as reader:
            live = [record for record in reader.read() if record.scope != SYSTEM]
            assert [(record.key, record.version, record.text) for record in live] == [
                (version.key, version.number, version.text) for version in self.model.live()
            ]
            log = [record for record in reader.read(Query(every_version=True, hidden=True)) if record.scope != SYSTEM]
            assert [(record.key, record.version) for record in log] == [(v.key, v.number) for v in self.model.log]
            for key in _LIFE_KEYS:
                assert [record.version for record in reader.history(key)] == [
                    v.number for v in self.model.versions(key)
                ]
            for word in _VOCABULARY:
                assert sorted(match.record.key for match in reader.match_text(word)) == sorted(
                    version.key for version in self.model.live() if word in version.text.split()
                )
            counted = {(row.scope, row.kind): (row.live, row.versions) for row in reader.tally() if row.versions}
        everything = Counter((version.key.scope, version.key.kind) for version in self.model.log)
        alive = Counter((version.key.scope, version.key.kind) for version in self.model.live())
        assert {pair: count for pair, count in counted.items() if pair[0] != SYSTEM} == {
            pair: (alive[pair], everything[pair]) for pair in everything
        }
        assert set(self.journal.quarantined()) == set(self.model.quarantines)

    def teardown(self):
        if not hasattr(self, "memory"):
            return
        try:
            assert self.memory.verify().findings == ()
            with in_memory(self.clock) as copy:
                file = exported(self.memory)
                assert copy.import_(io.BytesIO(file)).refused == []
                assert exported(copy) == file
                alive = [record.digest for record in self.journal.read()]
                assert [record.digest for record in copy.journal.read() if record.kind != "import"] == alive
                self.journal.reindex()
                assert [record.digest for record in self.journal.read()] == alive
            assert self.memory.verify().findings == ()
        finally:
            self.memory.close()


class LifeOnDisk(Life):
    """The same operations on a file that is closed and reopened at times."""

    def _open(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lukasa-life-"))
        return lukasa.open(self.folder / "store.db", clock=self.clock, new_id=self.ids)

    @rule()
    def reopen(self):
        self.memory.close()
        self.memory = lukasa.open(self.folder / "store.db", clock=self.clock, new_id=self.ids)

    def teardown(self):
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


class LifeWithUndo(Life):
    """The same operations, and undo of an author's writes while no author is in quarantine, and undo of that undo."""

    @rule(author=authors, back=st.sampled_from([None, 0, 3600]), again=st.booleans())
    def undo(self, author, back, again):
        for held in list(self.model.quarantines):
            self.release(held)
        since = None if back is None else self.clock.now() - timedelta(seconds=back)
        written = {
            version.position
            for version in self.model.log
            if version.author == author and (since is None or version.at >= since)
        } & self._seen()
        bad = {
            version.position
            for version in self.model.log
            if version.position in written and not self._brings_back(version, written)
        }
        before = self._contents()
        done = self.journal.undo(author=author, since=since)
        wanted, reverted, kept = self._taken_back(bad)
        assert set(done.reverted) == reverted
        assert set(done.kept) == kept
        self._follow_the_log()
        assert {key: text for key, text in self._contents().items() if key in reverted} == wanted
        if again and reverted:
            redone = self.journal.undo(label=done.label)
            self._follow_the_log()
            assert set(redone.reverted) == reverted
            assert self._contents() == before

    def _brings_back(self, version, written):
        """Return whether an undo wrote a version: it says what stood before the writes, or nothing where nothing did."""
        earlier = [
            v for v in self.model.versions(version.key) if v.position < version.position and v.position not in written
        ]
        if version.origin != "undo":
            return False
        if not earlier or earlier[-1].deleted:
            return version.deleted
        return not version.deleted and version.text == earlier[-1].text

    def _seen(self):
        return {version.position for version in self.model.log if not version.hidden_by}

    def _contents(self):
        return {record.key: record.text for record in self.journal.read() if record.scope != SYSTEM}

    def _taken_back(self, bad):
        """Return the expected text of each key after an undo, the reverted keys, and the kept keys."""
        for version in self.model.log:
            stood = [self.model.current_before(key, version.position) for key in version.sources]
            if not version.hidden_by and any(source and source.position in bad for source in stood):
                bad = bad | {version.position}
        wanted, reverted, kept = {}, set(), set()
        for key in {version.key for version in self.model.log if version.position in bad}:
            versions = self.model.versions(key)
            if versions[-1].position not in bad:
                kept.add(key)
                continue
            reverted.add(key)
            good = [version for version in versions if version.position not in bad]
            if good and not good[-1].deleted:
                wanted[key] = good[-1].text
        return wanted, reverted, kept

    def _follow_the_log(self):
        """Add the versions that an undo wrote to the model; their content is checked before."""
        known = {(version.key, version.number) for version in self.model.log}
        for record in log_of(self.journal):
            if record.scope != SYSTEM and (record.key, record.version) not in known:
                sources = [link.to for link in record.links if link.relation == DERIVED_FROM]
                self.model.write(
                    record.key, record.author, record.recorded_at, record.text, sources, record.deleted, record.origin
                )


def _life_of_notes(journal, *notes):
    """Write notes given as (id, author, ids of their sources)."""
    for id, author, sources in notes:
        links = tuple(Link(DERIVED_FROM, Key("shared", "note", source)) for source in sources)
        assert journal.write("note", f"{id} by {author}", id=id, author=author, links=links)


@pytest.mark.requirement("LOG-6")
@pytest.mark.parametrize(
    ("notes", "left"),
    [
        ([("a", "bad", ""), ("a", "ada", ""), ("b", "ada", "a")], ["a", "b"]),
        ([("a", "ada", ""), ("b", "ada", "a"), ("a", "bad", "")], ["b", "a"]),
        ([("a", "bad", ""), ("a", "ada", "a")], []),
        ([("a", "bad", ""), ("b", "ada", "a"), ("c", "ada", "b"), ("c", "ada", "ac")], []),
        ([("a", "bad", ""), ("b", "ada", "a"), ("b", "ada", ""), ("c", "ada", "b")], ["b", "c"]),
        (
            [
                ("a", "bad", ""),
                ("p", "ada", "a"),
                ("p", "ada", ""),
                ("q", "ada", "a"),
                ("c", "ada", "pq"),
                ("d", "ada", "c"),
            ],
            ["p"],
        ),
    ],
    ids=[
        "after a good version",
        "before a bad version",
        "from itself",
        "twice over",
        "from a cured version",
        "two parents",
    ],
)
def test_undo_reverts_exactly_the_derivations_of_the_versions_it_undoes(notes, left):
    with in_memory() as memory:
        _life_of_notes(memory.journal, *notes)
        memory.journal.undo(author="bad")
        assert [record.id for record in memory.journal.read()] == left


@pytest.mark.requirement("LOG-6")
def test_undo_takes_effect_although_the_restored_author_is_in_quarantine():
    clock = FrozenClock()
    with in_memory(clock) as memory:
        journal = memory.journal
        key = journal.write("note", "fine", id="a", author="mallory").record.key
        since = clock.advance(60)
        journal.quarantine("mallory", since=since)
        journal.write("note", "wrong", id="a", author="nick")
        assert journal.undo(author="nick").reverted == (key,)
        assert journal.get(key).text == "fine"


@pytest.mark.requirement("LOG-6")
def test_the_owner_can_undo_what_was_written_without_a_name():
    with in_memory() as memory:
        journal = memory.journal
        key = journal.write("note", "one", id="a", author="ada").record.key
        journal.write("note", "two", id="a")
        journal.quarantine("mallory")
        journal.compact()
        assert journal.undo(author="").reverted == (key,)
        assert set(journal.quarantined()) == {"mallory"}


def _tried(examples, steps):
    return settings(max_examples=settings().max_examples * examples // 10, stateful_step_count=steps)


TestLife = pytest.mark.requirement("LOG-1", "LOG-2", "LOG-3", "LOG-5", "LOG-6", "LOG-7")(Life.TestCase)
TestLife.settings = _tried(20, 40)
TestLifeOnDisk = pytest.mark.requirement("LOG-1", "LOG-3")(LifeOnDisk.TestCase)
TestLifeOnDisk.settings = _tried(3, 30)
TestLifeWithUndo = pytest.mark.requirement("LOG-6")(LifeWithUndo.TestCase)
TestLifeWithUndo.settings = _tried(20, 30)
