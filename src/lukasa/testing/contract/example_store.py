"""The example store, and a dump of everything that can be read from a store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lukasa.core.record import Key, Link, Record
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, Match, Query, Reader
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    add,
    delete_note,
    derived_links,
    make_draft,
    make_key,
    owner_journal,
    quarantine,
    release,
    write_note,
)

PARTS_WITH_SYSTEM_RECORDS = (
    "log", "versions", "live", "newest first", "tally", "tip", "get", "history", "as of position", "as of time",
)  # fmt: skip
"""Names of the results that system records, such as quarantines and receipts, are part of."""
_WORD_PATTERN = re.compile(r"\w+")


def fill_example_store(engine: Engine, clock: FrozenClock) -> None:
    """Write, change, delete, link, derive, quarantine, release and erase records, with a clock that jumps."""
    seqs = []
    for number in range(12):
        author, scope = ("ada", "ben", "mallory", "nick")[number % 4], ("shared", "ada", "ben")[number % 3]
        text = f"word{number % 5} common \u00fcber \U0001f680 nul\0 text {number}"
        body = {"n": number, "deep": [{"x": None}]}
        links = (Link("about", make_key(f"n{number - 1}")), *derived_links(make_key(f"n{number - 3}", scope)))
        labels = (f"mod={number % 2}", "all=1")
        record = write_note(
            engine, f"n{number}", text, author=author, scope=scope, body=body, labels=labels, links=links
        )
        seqs.append(record.seq)
        clock.advance(60 if number % 5 else -150)
    engine.put_vectors("m", [(seq, 0, [1.0, float(number)]) for number, seq in enumerate(seqs)])
    since = clock.now()
    add(
        engine,
        make_draft("changed once", id="n1", author="mallory", scope="ada"),
        make_draft("made", generated_id="made", author="ada"),
    )
    write_note(engine, "n0", "changed again", author="nick")
    delete_note(engine, "n3", author="ben")
    write_note(engine, "n3", "back again", author="ada", links=derived_links("n0"))
    quarantine(engine, "nick", since)
    write_note(engine, "later", "common", author="nick")
    write_note(engine, "n0", "common sense", author="ada")
    clock.advance(60)
    quarantine(engine, "mallory")
    write_note(engine, "child", "common", author="ada", links=derived_links(make_key("n2", "ben"), "later"))
    release(engine, "nick")
    write_note(engine, "erase me", "common secret", author="ada")
    owner_journal(engine).erase(make_key("erase me"))
    delete_note(engine, "n6", author="mallory")
    write_note(engine, "last", "common last word", author="nick", links=derived_links("child", "n0"))


def dump_store(
    engine: Engine, reach: Reach = FULL_REACH, *, without: Iterable[str] = (), positions: bool = True
) -> dict[str, Any]:
    """Return the results of every kind of read by name.

    A record is represented by position, key, version and digest. ``without`` leaves reads out. ``positions=False`` numbers
    the records instead, because positions differ from store to store.
    """
    with engine.snapshot(reach) as reader:
        log = reader.read(Query(every_version=True, hidden=True))
        number_of = {record.seq: record.seq if positions else number for number, record in enumerate(log, 1)}

        def describe(records: Iterable[Record | None]) -> list[str]:
            return [f"{number_of[r.seq]} {r.key} v{r.version} {r.digest.hex()[:12]}" for r in records if r is not None]

        def round_scores(matches: Iterable[Match]) -> list[tuple[int, float]]:
            return [(number_of[match.record.seq], round(match.score, 6)) for match in matches]

        keys = sorted({record.key for record in log})
        linked = sorted({link.to for record in log for link in record.links} | set(keys))
        labels = sorted({label for record in log for label in record.labels})
        words = sorted({word for record in log for word in _WORD_PATTERN.findall(record.text)})
        versions = Query(every_version=True)
        results = {
            "log": describe(log),
            "versions": describe(reader.read(versions)),
            "live": describe(reader.read()),
            "newest first": describe(reader.read(Query(newest_first=True))),
            "tally": [row for row in reader.tally() if row.versions],
            "tip": number_of.get(reader.tip(), reader.tip()),
            "get": _drop_empty({str(key): describe([reader.get(key)]) for key in keys}),
            "history": _drop_empty({str(key): describe(reader.history(key)) for key in keys}),
            "labels": _drop_empty({label: describe(reader.read(Query(labels=(label,)))) for label in labels}),
            "as of position": _drop_empty({number_of[r.seq]: describe(reader.read(Query(as_of=r.seq))) for r in log}),
            "as of time": _drop_empty({r.recorded_at: describe(reader.read(Query(as_of=r.recorded_at))) for r in log}),
            "neighbours": _drop_empty({str(key): _describe_neighbours(reader, key) for key in linked}),
            "descendants": _drop_empty({str(key): sorted(map(str, reader.descendants([key]))) for key in linked}),
            "words": _drop_empty({word: round_scores(reader.match_text(word)) for word in words}),
            "old words": _drop_empty({word: round_scores(reader.match_text(word, versions)) for word in words}),
            "vectors": round_scores(reader.match_vector("m", [1.0, 0.5])),
        }
    return {name: result for name, result in results.items() if name not in set(without)}


def _drop_empty(results: Mapping[Any, Any]) -> dict[Any, Any]:
    """Leave out empty results, such as those for erased records."""
    return {argument: result for argument, result in results.items() if result}


def _describe_neighbours(reader: Reader, key: Key) -> list[str]:
    return sorted(f"{found.direction} {found.relation} {found.key}" for found in reader.neighbours(key))
