"""Everything a caller can see of a store, for comparing one moment or one engine with another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lukasa.record import Key, Record
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, Match, Query, Reader

_WORD_PATTERN = re.compile(r"\w+")


def dump_store(
    engine: Engine, reach: Reach = FULL_REACH, *, without: Iterable[str] = (), positions: bool = True
) -> dict[str, Any]:
    """What every reading verb answers about everything there is, by name of the verb.

    A record is told by position, key, version and digest; the digest stands for all it says. ``without`` leaves verbs
    out. ``positions=False`` counts records instead of telling their positions, which differ from store to store.
    """
    with engine.snapshot(reach) as reader:
        log = reader.read(Query(every_version=True, hidden=True))
        place = {record.seq: record.seq if positions else rank for rank, record in enumerate(log, 1)}

        def describe_records(records: Iterable[Record | None]) -> list[str]:
            return [f"{place[r.seq]} {r.key} v{r.version} {r.digest.hex()[:12]}" for r in records if r is not None]

        def round_scores(matches: Iterable[Match]) -> list[tuple[int, float]]:
            return [(place[match.record.seq], round(match.score, 6)) for match in matches]

        keys = sorted({record.key for record in log})
        around = sorted({link.to for record in log for link in record.links} | set(keys))
        labels = sorted({label for record in log for label in record.labels})
        words = sorted({word for record in log for word in _WORD_PATTERN.findall(record.text)})
        versions = Query(every_version=True)
        seen = {
            "log": describe_records(log),
            "versions": describe_records(reader.read(versions)),
            "live": describe_records(reader.read()),
            "newest first": describe_records(reader.read(Query(newest_first=True))),
            "tally": [row for row in reader.tally() if row.versions],
            "tip": place.get(reader.tip(), reader.tip()),
            "get": _without_empty({str(key): describe_records([reader.get(key)]) for key in keys}),
            "history": _without_empty({str(key): describe_records(reader.history(key)) for key in keys}),
            "labels": _without_empty(
                {label: describe_records(reader.read(Query(labels=(label,)))) for label in labels}
            ),
            "as of position": _without_empty(
                {place[r.seq]: describe_records(reader.read(Query(as_of=r.seq))) for r in log}
            ),
            "as of time": _without_empty(
                {r.recorded_at: describe_records(reader.read(Query(as_of=r.recorded_at))) for r in log}
            ),
            "neighbours": _without_empty({str(key): _describe_neighbours(reader, key) for key in around}),
            "descendants": _without_empty({str(key): sorted(map(str, reader.descendants([key]))) for key in around}),
            "words": _without_empty({word: round_scores(reader.match_text(word)) for word in words}),
            "words of old": _without_empty({word: round_scores(reader.match_text(word, versions)) for word in words}),
            "vectors": round_scores(reader.match_vector("m", [1.0, 0.5])),
        }
    return {name: answer for name, answer in seen.items() if name not in set(without)}


def _without_empty(answers: Mapping[Any, Any]) -> dict[Any, Any]:
    """The answers that say something: what was asked about things long gone is left out."""
    return {question: answer for question, answer in answers.items() if answer}


def _describe_neighbours(reader: Reader, key: Key) -> list[str]:
    return sorted(f"{each.direction} {each.relation} {each.key}" for each in reader.neighbours(key))
