"""A store of LangGraph on a Lukasa store, for ``graph.compile(store=LukasaStore(memory))``.

An item is one record; its versions stay in the log. A search with a query is a recall of the indexed fields, by words and by
meaning, and needs no embedding model from outside. Items with a time to live are left out once it has passed;
``sweep_ttl`` deletes them. Reading an item extends its life, but writes only after a tenth of it has passed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import merge
from typing import Any

from lukasa.core.clock import Clock, SystemClock, from_iso, to_iso
from lukasa.core.record import Draft, Key, Record, draft_from
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.integrations import GRAPH_ITEM
from lukasa.integrations.records import choose_scope, hash_names
from lukasa.journal.read_cache import ReadCache
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader
from lukasa.storage.parsed_records import ParsedRecords

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
    )
except ImportError as error:
    raise MissingExtra("LangGraph is not installed.", hint="Run: pip install 'lukasa[langgraph]'") from error

_MAX_RECALLED = 1_000
_REFRESH_SHARE = 0.1
"""The share of its life after which reading an item extends it."""
_PAGE_SIZE = 200
_MAX_FIELD_LENGTH = 80
_MAX_FIELDS, _MANY_FIELDS = 50, "field=many"
"""An item has a label for each of its numbers and short texts, for filters; one with more than these has another instead."""


class LukasaStore(BaseStore):
    """Stores the items of a graph in a Lukasa store.

    ``fields`` are the JSON paths whose text is indexed; an item's own ``index`` overrides them.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | None = None,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._memory = memory
        self._clock = clock or SystemClock()
        self._journal = memory.valid_journal
        self._fields = tuple(fields)
        self.ttl_config = ttl
        self._scope = choose_scope(memory, scope)
        self._records = ParsedRecords(lambda record: record)
        self._many_fields: ReadCache[bool] = ReadCache(memory.journal)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; reads see the state before the writes, and of several writes to one key the last counts."""
        operations = list(ops)
        puts = {self._key(op.namespace, op.key): op for op in operations if isinstance(op, PutOp)}
        now = self._clock.now()
        results, read = self._read_all(operations, now)
        drafts = [self._draft(key, op, now) for key, op in puts.items()]
        drafts += [draft for record in read if record.key not in puts for draft in self._extend_life(record, now)]
        if drafts:
            self._journal.append(drafts).unwrap_all()
        return results

    def _read_all(self, operations: Sequence[Op], now: datetime) -> tuple[list[Result], list[Record]]:
        """Run the operations that read; return their results, and the records whose life their reading extends."""
        results: list[Result] = [None] * len(operations)
        read: list[Record] = []
        if all(isinstance(op, PutOp) for op in operations):
            return results, read
        recalled = {
            index: self._recall(op) for index, op in enumerate(operations) if isinstance(op, SearchOp) and op.query
        }
        finds_many = any(isinstance(op, SearchOp) and op.filter for op in operations) and self._many_fields.read(
            "", self._has_many_fields
        )
        with self._journal.snapshot() as reader:
            for index, op in enumerate(operations):
                if isinstance(op, GetOp):
                    record = reader.get(self._key(op.namespace, op.key))
                    if record is not None and not _is_expired(record, now):
                        results[index] = Item(**_item_fields(record))
                        read += [record] if op.refresh_ttl else []
                elif isinstance(op, SearchOp):
                    found = self._search(reader, op, recalled.get(index, ()), now, finds_many=finds_many)
                    results[index] = [SearchItem(**_item_fields(record), score=score) for record, score in found]
                    read += [record for record, _ in found] if op.refresh_ttl else []
                elif isinstance(op, ListNamespacesOp):
                    results[index] = self._list_namespaces(reader, op, now)
                elif not isinstance(op, PutOp):
                    raise InvalidInput(f"{type(op).__name__} is not an operation of a store.")
        return results, read

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Delete the items whose time to live has passed, and return their number."""
        with self._journal.snapshot() as reader:
            now = self._clock.now()
            expired = [record for record in self._read_items(reader, ()) if _is_expired(record, now)]
        if expired:
            self._journal.append([self._tombstone(record.key) for record in expired]).unwrap_all()
        return len(expired)

    def _recall(self, op: SearchOp) -> list[tuple[Record, float]]:
        labels = (_prefix_label(op.namespace_prefix),) if op.namespace_prefix else ()
        k = min(_MAX_RECALLED, (op.offset + op.limit) * (4 if op.filter else 1))
        filters: dict[str, Any] = {"kinds": (GRAPH_ITEM,), "scopes": (self._scope,), "labels": labels}
        answer = self._memory.recall(op.query or "", k, min_relevance=0, **filters)
        return [(hit.record, hit.score) for hit in answer.hits]

    def _search(
        self, reader: Reader, op: SearchOp, recalled: Iterable[tuple[Record, float]], now: datetime, *, finds_many: bool
    ) -> list[tuple[Record, float | None]]:
        """Return the items that match: those that were recalled first, then the newest."""
        wanted = op.offset + op.limit
        found: dict[Key, tuple[Record, float | None]] = {}
        for record, score in recalled:
            if _matches(record, op, now):
                found[record.key] = (record, score)
        if len(found) < wanted:
            items = self._read_items(reader, op.namespace_prefix, op.filter, wanted, finds_many=finds_many)
            for record in items:
                if record.key not in found and _matches(record, op, now):
                    found[record.key] = (record, None)
                    if len(found) >= wanted:
                        break
        return list(found.values())[op.offset : wanted]

    def _list_namespaces(self, reader: Reader, op: ListNamespacesOp, now: datetime) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        prefix: tuple[str, ...] = ()
        for condition in conditions:
            if condition.match_type == "prefix" and "*" not in condition.path:
                prefix = tuple(condition.path)
        names = {
            tuple(record.body["namespace"])
            for record in self._read_items(reader, prefix)
            if not _is_expired(record, now)
        }
        names = {name for name in names if all(_fits(condition, name) for condition in conditions)}
        if op.max_depth is not None:
            names = {name[: op.max_depth] for name in names}
        return sorted(names)[op.offset : op.offset + op.limit]

    def _read_items(
        self,
        reader: Reader,
        prefix: tuple[str, ...],
        filter: Mapping[str, Any] | None = None,
        wanted: int = _PAGE_SIZE,
        *,
        finds_many: bool = True,
    ) -> Iterable[Record]:
        """Return the items below a namespace, newest first; of those that a filter leaves out, most are left out."""
        labels = [_prefix_label(prefix)] if prefix else []
        fields = [label for name, value in (filter or {}).items() if (label := _field_label(name, value))]
        finds_wanted = not filter or len(fields) == len(filter)  # nearly every item that is read is wanted
        size = min(max(wanted, 1), _PAGE_SIZE) if finds_wanted else _PAGE_SIZE
        pages = self._read_pages(reader, size, *labels, *fields)
        if not fields or not finds_many:
            return pages
        return merge(pages, self._read_pages(reader, size, _MANY_FIELDS, *labels), key=lambda record: -record.seq)

    def _has_many_fields(self) -> bool:
        """Return whether any item has so many fields that none of them has a label."""
        query = Query(kinds=(GRAPH_ITEM,), scopes=(self._scope,), labels=(_MANY_FIELDS,), limit=1)
        return bool(self._journal.read_parsed(query, self._records))

    def _read_pages(self, reader: Reader, size: int, *labels: str) -> Iterator[Record]:
        query = Query(kinds=(GRAPH_ITEM,), scopes=(self._scope,), labels=labels, newest_first=True, limit=size)
        while page := reader.read_parsed(query, self._records):
            yield from page
            if len(page) < size:
                return
            size = min(4 * size, _PAGE_SIZE)
            query = replace(query, before=page[-1].seq, limit=size)

    def _key(self, namespace: tuple[str, ...], key: str) -> Key:
        return Key(self._scope, GRAPH_ITEM, hash_names(*namespace, "", key))

    def _draft(self, key: Key, op: PutOp, now: datetime) -> Draft:
        if op.value is None:
            return self._tombstone(key)
        value = dict(op.value)
        fields = () if op.index is False else self._fields if op.index is None else tuple(op.index)
        texts = [text for path in fields for text in get_text_at_path(value, path)]
        body: dict[str, Any] = {
            "namespace": list(op.namespace),
            "key": op.key,
            "value": json.dumps(value, ensure_ascii=False),
        }
        if op.ttl is not None:
            body |= {"ttl": op.ttl, "expires_at": to_iso(now + timedelta(minutes=op.ttl))}
        labels = tuple(_prefix_label(op.namespace[:depth]) for depth in range(1, len(op.namespace) + 1))
        known = tuple(label for name, field in value.items() if (label := _field_label(name, field)))
        labels += known if len(known) <= _MAX_FIELDS else (_MANY_FIELDS,)
        return Draft(key.kind, "\n".join(texts), body, key.id, key.scope, labels=labels, origin="langgraph")

    def _tombstone(self, key: Key) -> Draft:
        return Draft(key.kind, id=key.id, scope=key.scope, deleted=True, origin="langgraph")

    def _extend_life(self, record: Record, now: datetime) -> Iterator[Draft]:
        if (ttl := record.body.get("ttl")) is None or not (self.ttl_config or {}).get("refresh_on_read", True):
            return
        left = from_iso(record.body["expires_at"]) - now
        if left < timedelta(minutes=ttl * (1 - _REFRESH_SHARE)):
            body = {**record.body, "expires_at": to_iso(now + timedelta(minutes=ttl))}
            yield draft_from(record, body=body, author="", origin="langgraph", expected=record.version)


def _is_expired(record: Record, now: datetime) -> bool:
    end = record.body.get("expires_at")
    return end is not None and from_iso(end) <= now


def _matches(record: Record, op: SearchOp, now: datetime) -> bool:
    if _is_expired(record, now):
        return False
    if not op.filter:
        return True
    value = json.loads(record.body["value"])
    return all(_meets(value.get(name), wanted) for name, wanted in op.filter.items())


def _meets(value: Any, wanted: Any) -> bool:
    """Tell whether a value is equal to a wanted one, or meets its comparisons."""
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_compare(value, operator, other) for operator, other in wanted.items())
        return isinstance(value, Mapping) and all(_meets(value.get(name), other) for name, other in wanted.items())
    if isinstance(wanted, list | tuple):
        is_list = isinstance(value, list | tuple) and len(value) == len(wanted)
        return is_list and all(_meets(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def _item_fields(record: Record) -> dict[str, Any]:
    return {
        "namespace": tuple(record.body["namespace"]), "key": record.body["key"], "value": json.loads(record.body["value"]),
        "created_at": record.created_at, "updated_at": record.recorded_at,
    }  # fmt: skip


def _compare(value: Any, operator: str, other: Any) -> bool:
    if operator == "$eq":
        return bool(value == other)
    if operator == "$ne":
        return bool(value != other)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    try:  # texts are compared as texts, everything else as numbers
        are_texts = isinstance(value, str) and isinstance(other, str)
        left, right = (value, other) if are_texts else (float(value), float(other))
    except (TypeError, ValueError):
        return False
    order = (left > right) - (left < right)
    return order in {"$gt": (1,), "$gte": (0, 1), "$lt": (-1,), "$lte": (-1, 0)}[operator]


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def _field_label(name: Any, value: Any) -> str | None:
    """Return the label of a number or a short text in an item, the same for equal values; ``None`` for other values."""
    if isinstance(value, str):
        return f"field={hash_names(str(name), 'text', value)}" if len(value) <= _MAX_FIELD_LENGTH else None
    if not isinstance(value, int | float):
        return None
    try:
        number = repr(float(value) + 0.0)
    except OverflowError:
        number = "large"
    return f"field={hash_names(str(name), 'number', number)}"


def _prefix_label(namespace: tuple[str, ...]) -> str:
    return f"namespace={hash_names(*namespace)}"
