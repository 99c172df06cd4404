"""Everything a caller can see of a store, for comparing one moment or one engine with another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lukasa.engine import Engine, Match, Query, Reader
from lukasa.record import Key, Record
from lukasa.scope import EVERYTHING, Reach

_WORD = re.compile(r"\w+")


def observe(
    engine: Engine, reach: Reach = EVERYTHING, *, without: Iterable[str] = (), positions: bool = True
) -> dict[str, Any]:
    """What every reading verb answers about everything there is, by name of the verb.

    A record is told by position, key, version and digest; the digest stands for all it says. ``without`` leaves verbs
    out. ``positions=False`` counts records instead of telling their positions, which differ from store to store.
    """
    with engine.reading(reach) as reader:
        log = reader.read(Query(every_version=True, hidden=True))
        place = {record.seq: record.seq if positions else rank for rank, record in enumerate(log, 1)}

        def told(records: Iterable[Record | None]) -> list[str]:
            return [f"{place[r.seq]} {r.key} v{r.version} {r.digest.hex()[:12]}" for r in records if r is not None]

        def scored(matches: Iterable[Match]) -> list[tuple[int, float]]:
            return [(place[match.record.seq], round(match.score, 6)) for match in matches]

        keys = sorted({record.key for record in log})
        around = sorted({link.to for record in log for link in record.links} | set(keys))
        labels = sorted({label for record in log for label in record.labels})
        words = sorted({word for record in log for word in _WORD.findall(record.text)})
        versions = Query(every_version=True)
        seen = {
            "log": told(log),
            "versions": told(reader.read(versions)),
            "live": told(reader.read()),
            "newest first": told(reader.read(Query(newest_first=True))),
            "tally": [row for row in reader.tally() if row.versions],
            "tip": place.get(reader.tip(), reader.tip()),
            "get": _telling({str(key): told([reader.get(key)]) for key in keys}),
            "history": _telling({str(key): told(reader.history(key)) for key in keys}),
            "labels": _telling({label: told(reader.read(Query(labels=(label,)))) for label in labels}),
            "as of position": _telling({place[r.seq]: told(reader.read(Query(as_of=r.seq))) for r in log}),
            "as of time": _telling({r.recorded_at: told(reader.read(Query(as_of=r.recorded_at))) for r in log}),
            "neighbours": _telling({str(key): _around(reader, key) for key in around}),
            "descendants": _telling({str(key): sorted(map(str, reader.descendants([key]))) for key in around}),
            "words": _telling({word: scored(reader.match_text(word)) for word in words}),
            "words of old": _telling({word: scored(reader.match_text(word, versions)) for word in words}),
            "vectors": scored(reader.match_vector("m", [1.0, 0.5])),
        }
    return {name: answer for name, answer in seen.items() if name not in set(without)}


def _telling(answers: Mapping[Any, Any]) -> dict[Any, Any]:
    """The answers that say something: what was asked about things long gone is left out."""
    return {question: answer for question, answer in answers.items() if answer}


def _around(reader: Reader, key: Key) -> list[str]:
    return sorted(f"{each.direction} {each.relation} {each.key}" for each in reader.neighbours(key))
