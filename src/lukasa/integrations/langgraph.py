"""A checkpointer of LangGraph on a Lukasa store, for ``graph.compile(checkpointer=LukasaSaver(memory))``.

A checkpoint is one record. It holds the channels that changed, each as the difference to its earlier version, and says of
the others which checkpoint holds them. After a number of differences a channel is stored whole again, so reading stays fast.
The pending writes of a task are one record. Everything is durable before a call returns, on SQLite and PostgreSQL. What is
deleted here becomes a tombstone; its history stays in the log until ``memory.journal.erase`` removes it.

Unlike the serializer of LangGraph, this one by default revives only types that are known to be safe and those of the
compiled graph; pass ``serde`` to change that.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, Key, Record, draft_from
from lukasa.core.text_cache import BoundedCache
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.integrations import GRAPH_CHECKPOINT, GRAPH_WRITES
from lukasa.integrations.deltas import apply_difference, encode_difference, find_change
from lukasa.integrations.records import choose_scope, hash_names
from lukasa.journal.read_cache import ReadCache
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader
from lukasa.storage.parsed_records import ParsedRecords

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
except ImportError as error:
    raise MissingExtra("LangGraph is not installed.", hint="Run: pip install 'lukasa[langgraph]'") from error

MAX_DIFFERENCES = 20
"""The number of differences after which a channel is stored whole again."""
_CORE = ""
"""The name of the part that holds the checkpoint without its channels, and the metadata."""
_OUT_OF_ORDER = "order=mixed"
"""A label of the checkpoints that were stored when not all of their namespace were in the order of their ids."""
_SHORT = 256
"""A part of fewer bytes is stored whole: its difference is hardly shorter."""
_LONG_ID = 100
_MAX_CHANGES = 1_000
_CACHED_BYTES = 16_000_000

Config = Mapping[str, Any]


class _Place(NamedTuple):
    """A thread and a namespace in it."""

    thread: str
    namespace: str

    def config(self, checkpoint_id: str) -> RunnableConfig:
        ids = {"thread_id": self.thread, "checkpoint_ns": self.namespace, "checkpoint_id": checkpoint_id}
        return RunnableConfig(configurable=ids)

    def key(self, scope: str, checkpoint_id: str) -> Key:
        return Key(scope, GRAPH_CHECKPOINT, self.record_id(checkpoint_id))

    def record_id(self, checkpoint_id: str) -> str:
        """Return the id of a checkpoint's record. Those of a place follow each other in the index, so that a put changes one page."""
        if len(checkpoint_id) > _LONG_ID or not checkpoint_id.isprintable() or checkpoint_id.startswith("#"):
            checkpoint_id = f"#{hash_names(checkpoint_id)}"
        return f"{hash_names(*self)}/{checkpoint_id}"

    def writes_id(self, checkpoint_id: str, task_id: str) -> str:
        """Return the id of the record with a task's pending writes."""
        return f"{self.record_id(checkpoint_id)}/{hash_names(task_id)}"

    def labels(self) -> tuple[str, ...]:
        """Return the labels of a checkpoint: that of its place, and in the namespaces of subgraphs that of the thread."""
        place = f"place={hash_names(*self)}"
        return (place, f"thread={hash_names(self.thread)}") if self.namespace else (place,)


class _StoredCheckpoint(NamedTuple):
    """The parts of a checkpoint, serialised."""

    place: _Place
    checkpoint_id: str
    parent: str | None
    core: tuple[str, bytes]
    values: Sequence[tuple[str, tuple[str, bytes]]]
    writes: Sequence[tuple[Any, str, tuple[str, bytes]]]


def _measure_checkpoint(stored: _StoredCheckpoint | None) -> int:
    if stored is None:
        return 0
    parts = [stored.core, *(part for _, part in stored.values), *(part for _, _, part in stored.writes)]
    return sum(len(content) for _, content in parts)


class _CheckpointEntry(Protocol):
    """The position of a checkpoint in the log and its body: a record, or what was just written."""

    @property
    def seq(self) -> int: ...

    @property
    def body(self) -> Mapping[str, Any]: ...


class _NewestCheckpoint(NamedTuple):
    """The checkpoint of a place that was the newest when the log ended at ``position``. They are stored in order of their ids."""

    position: int
    place: _Place
    seq: int
    body: Mapping[str, Any]


class LukasaSaver(BaseCheckpointSaver[int]):
    """Stores the checkpoints of a graph in a Lukasa store."""

    def __init__(self, memory: Memory, *, scope: str | None = None, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._journal = memory.valid_journal
        self._scope = choose_scope(memory, scope)
        self._parts: BoundedCache[tuple[int, str], bytes] = BoundedCache(_CACHED_BYTES)
        self._records = ParsedRecords(lambda record: record)
        self._stored: ReadCache[_StoredCheckpoint | None] = ReadCache(memory.journal, measure=_measure_checkpoint)
        self._newest: _NewestCheckpoint | None = None
        self._changes: dict[str, int] = {}  # where each channel changed last; the next change is often there too

    # --- reading ---

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place, checkpoint_id = _place_of(config), get_checkpoint_id(config)
        stored = self._stored.read((place, checkpoint_id), lambda: self._find_stored(place, checkpoint_id))
        return None if stored is None else self._revive(stored)

    def _find_stored(self, place: _Place, checkpoint_id: str | None) -> _StoredCheckpoint | None:
        with self._journal.snapshot() as reader:
            if checkpoint_id:
                record = reader.get(place.key(self._scope, checkpoint_id))
            else:
                record, _ = self._find_newest(reader, place)
            return None if record is None else self._collect(reader, record)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        before_id = get_checkpoint_id(before) if before else None
        only_id = get_checkpoint_id(config) if config else None
        found = 0
        with self._journal.snapshot() as reader:
            for record in self._list_records(reader, config):
                checkpoint_id = record.body["checkpoint"]
                if (only_id and checkpoint_id != only_id) or (before_id and checkpoint_id >= before_id):
                    continue
                if limit is not None and found >= limit:
                    return
                item = self._revive(self._collect(reader, record))
                if all(item.metadata.get(name) == value for name, value in (filter or {}).items()):
                    found += 1
                    yield item

    def _list_records(self, reader: Reader, config: Config | None) -> Iterable[Record]:
        """Return the checkpoints of a thread, of a namespace or of all threads, newest first."""
        query = Query(kinds=(GRAPH_CHECKPOINT,), scopes=(self._scope,), newest_first=True)
        queries = [query]
        if config is not None:
            place = _place_of(config)
            labels = place.labels()[:1] if "checkpoint_ns" in config["configurable"] else _thread_labels(place.thread)
            queries = [replace(query, labels=(label,)) for label in labels]
        mixed = [replace(query, labels=(*query.labels, _OUT_OF_ORDER), limit=1) for query in queries]
        if any(reader.read(query) for query in mixed):
            by_id = {(record.body["checkpoint"], record.seq): record for record in _read_pages(reader, *queries)}
            return [by_id[key] for key in sorted(by_id, reverse=True)]
        return _read_pages(reader, *queries)

    def _find_newest(self, reader: Reader, place: _Place) -> tuple[Record | None, bool]:
        """Return the checkpoint with the highest id, and whether some were not stored in the order of their ids."""
        labels = place.labels()[:1]
        query = Query(kinds=(GRAPH_CHECKPOINT,), scopes=(self._scope,), labels=labels, newest_first=True, limit=1)
        found = reader.read_parsed(query, self._records)
        if found and _OUT_OF_ORDER in found[0].labels:
            return next(iter(self._list_records(reader, place.config(""))), None), True
        return (found[0] if found else None), False

    def _collect(self, reader: Reader, record: Record) -> _StoredCheckpoint:
        """Read the parts of a checkpoint; none of them is revived yet."""
        body = record.body
        place, checkpoint_id = _Place(body["thread"], body["ns"]), body["checkpoint"]
        core = self._load_value(reader, record, _CORE)
        values = []
        for channel, version in self.serde.loads_typed(core)[0]["channel_versions"].items():
            part = self._find_part(reader, record, channel)
            if part is not None and part.body["parts"][channel]["version"] == version and not _is_empty(part, channel):
                values.append((channel, self._load_value(reader, part, channel)))
        writes = [
            (writes_sort_key(written.body["path"], written.body["task"], int(index)), channel, (kind, _decode(data)))
            for written in reader.read_parsed(self._writes_query(place, checkpoint_id), self._records)
            for index, (channel, kind, data) in written.body["writes"].items()
        ]
        writes.sort(key=lambda write: write[0])
        return _StoredCheckpoint(place, checkpoint_id, body["parent"], core, values, writes)

    def _revive(self, stored: _StoredCheckpoint) -> CheckpointTuple:
        """Return a checkpoint whose values are all new, so that a graph may change them."""
        place, checkpoint_id, parent, core, values, writes = stored
        revive = self.serde.loads_typed
        state, metadata = revive(core)
        state["channel_values"] = {channel: revive(value) for channel, value in values}
        return CheckpointTuple(
            place.config(checkpoint_id),
            state,
            metadata,
            place.config(parent) if parent else None,
            [(task, channel, revive(value)) for (_, task, _), channel, value in writes],
        )

    def _writes_query(self, place: _Place, checkpoint_id: str) -> Query:
        label = f"for={hash_names(*place, checkpoint_id)}"
        return Query(kinds=(GRAPH_WRITES,), scopes=(self._scope,), labels=(label,))

    def _find_part(self, reader: Reader, record: _CheckpointEntry, name: str) -> _CheckpointEntry | None:
        """Return the checkpoint that holds a part: this one, or the earlier one that it names."""
        if name in record.body["parts"]:
            return record
        holder = record.body["at"].get(name)
        place = _Place(record.body["thread"], record.body["ns"])
        return None if holder is None else reader.get(place.key(self._scope, holder))

    def _load_core(self, reader: Reader, record: Record) -> tuple[Any, Any]:
        kind, data = self._load_value(reader, record, _CORE)
        state, metadata = self.serde.loads_typed((kind, data))
        return state, metadata

    def _load_value(self, reader: Reader, record: _CheckpointEntry, name: str) -> tuple[str, bytes]:
        """Return the serialised value of a part that a checkpoint holds."""
        return record.body["parts"][name]["type"], self._load_bytes(reader, record, name)

    def _keep_part(self, seq: int, name: str, content: bytes) -> None:
        if len(content) >= _SHORT:
            self._parts.keep((seq, name), content, len(content))

    def _load_bytes(self, reader: Reader, record: _CheckpointEntry, name: str) -> bytes:
        """Return the bytes of a part: the last whole version with all differences since, oldest first."""
        chain: list[tuple[int, bytes]] = []
        current = record
        while (content := self._parts.get((current.seq, name))) is None:
            part = current.body["parts"][name]
            if part["base"] is None:
                content = _decode(part["data"])
                self._keep_part(current.seq, name, content)
                break
            chain.append((current.seq, _decode(part["data"])))
            place = _Place(current.body["thread"], current.body["ns"])
            base = reader.get(place.key(self._scope, part["base"]))
            if base is None or name not in base.body["parts"]:
                checkpoint_id = record.body["checkpoint"]
                raise InvalidInput(f"The checkpoint {part['base']} that holds a part of {checkpoint_id} is missing.")
            current = base
        for seq, difference in reversed(chain):
            content = apply_difference(content, difference)
            self._keep_part(seq, name, content)
        return content

    # --- writing ---

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place, parent_id = _place_of(config), get_checkpoint_id(config)
        state: dict[str, Any] = {**checkpoint}
        values = state.pop("channel_values")
        full_metadata = get_checkpoint_metadata(config, metadata)
        dumps = self.serde.dumps_typed
        written = {_CORE: dumps((state, full_metadata))}
        for channel in new_versions:
            written[channel] = dumps(values[channel]) if channel in values else ("empty", b"")
        body: dict[str, Any] = {"thread": place.thread, "ns": place.namespace}
        body |= {"checkpoint": checkpoint["id"], "parent": parent_id}
        id = place.record_id(checkpoint["id"])
        run_id = full_metadata.get("run_id")
        run_labels = (f"run={hash_names(str(run_id))}",) if run_id else ()
        position: int | None = None
        is_mixed = False

        def append_checkpoint(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal position, is_mixed
            position = reader.position
            newest: _CheckpointEntry | None = self._newest
            is_mixed = False
            if self._newest is None or self._newest.position != position or self._newest.place != place:
                newest, is_mixed = self._find_newest(reader, place)
            parent = newest
            if parent_id and (newest is None or newest.body["checkpoint"] != parent_id):
                parent = reader.get(place.key(self._scope, parent_id))
            parts = {
                name: self._build_part(reader, parent, name, value, new_versions.get(name))
                for name, value in written.items()
            }
            at: dict[str, str] = {}
            if parent is not None:
                earlier, holders = parent.body["parts"], parent.body["at"]
                for name in checkpoint["channel_versions"]:
                    if name not in parts and (name in holders or name in earlier):
                        at[name] = holders[name] if name in holders else parent.body["checkpoint"]
            body["parts"], body["at"] = parts, at
            is_mixed = is_mixed or (newest is not None and newest.body["checkpoint"] > checkpoint["id"])
            labels = (*place.labels(), *((_OUT_OF_ORDER,) if is_mixed else ()), *run_labels)
            return [Draft(GRAPH_CHECKPOINT, "", body, id, self._scope, "", "langgraph", (), labels)]

        records = self._journal.append_if(append_checkpoint).unwrap_all()
        seq = records[0].seq if position is None else position + 1
        for name, (_, content) in written.items():
            self._keep_part(seq, name, content)
        self._newest = None if position is None or is_mixed else _NewestCheckpoint(seq, place, seq, body)
        return place.config(checkpoint["id"])

    def _build_part(
        self, reader: Reader, parent: _CheckpointEntry | None, name: str, value: tuple[str, bytes], version: Any
    ) -> dict[str, Any]:
        """Return a part as the difference to the parent's, if that is much smaller, else whole."""
        kind, content = value
        holder = None if parent is None or len(content) < _SHORT else self._find_part(reader, parent, name)
        if holder is not None:
            depth = holder.body["parts"][name]["depth"] + 1
            if depth <= MAX_DIFFERENCES and not _is_empty(holder, name):
                near = self._changes.get(name, 0)
                difference = encode_difference(self._load_bytes(reader, holder, name), content, near)
                if len(self._changes) >= _MAX_CHANGES:
                    self._changes.clear()
                self._changes[name] = find_change(difference)
                if len(difference) * 2 < len(content):
                    base, data = holder.body["checkpoint"], _encode(difference)
                    return {"type": kind, "version": version, "base": base, "depth": depth, "data": data}
        return {"type": kind, "version": version, "base": None, "depth": 0, "data": _encode(content)}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        place, checkpoint_id = _place_of(config), config["configurable"]["checkpoint_id"]
        new = {
            str(WRITES_IDX_MAP.get(channel, index)): [channel, kind, _encode(data)]
            for index, (channel, value) in enumerate(writes)
            for kind, data in [self.serde.dumps_typed(value)]
        }
        key = Key(self._scope, GRAPH_WRITES, place.writes_id(checkpoint_id, task_id))
        labels = (_thread_labels(place.thread)[1], f"for={hash_names(*place, checkpoint_id)}")

        def append_writes(reader: Reader) -> Sequence[Draft] | Refused:
            known = reader.get(key)
            earlier = {} if known is None else known.body["writes"]
            added = {index: write for index, write in new.items() if index not in earlier or int(index) < 0}
            if not added:
                return []
            body = {"thread": place.thread, "ns": place.namespace, "checkpoint": checkpoint_id, "task": task_id}
            body |= {"path": task_path or (known.body["path"] if known else ""), "writes": {**earlier, **added}}
            return [Draft(key.kind, body=body, id=key.id, scope=key.scope, labels=labels, origin="langgraph")]

        self._journal.append_if(append_writes).unwrap_all()

    def delete_thread(self, thread_id: str) -> None:
        self._delete(lambda reader: self._list_thread(reader, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        def of_runs(reader: Reader) -> Iterator[Record]:
            for run_id in dict.fromkeys(run_ids):
                label = f"run={hash_names(str(run_id))}"
                yield from _read_pages(reader, Query(kinds=(GRAPH_CHECKPOINT,), scopes=(self._scope,), labels=(label,)))

        self._delete(of_runs)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f"{strategy!r:.40} is not a way to prune.", hint="Use keep_latest or delete.")

        def superseded(reader: Reader) -> Iterator[Record]:
            for thread_id in dict.fromkeys(thread_ids):
                records = [r for r in self._list_thread(reader, thread_id) if r.kind == GRAPH_CHECKPOINT]
                kept = set() if strategy == "delete" else self._find_kept(reader, records)
                yield from (record for record in records if record.key not in kept)

        self._delete(superseded)

    def _find_kept(self, reader: Reader, records: Sequence[Record]) -> set[Key]:
        """Return the newest checkpoint of each namespace, and the ancestors that its delta channels are rebuilt from."""
        newest: dict[str, Record] = {}
        for record in records:
            known = newest.get(record.body["ns"])
            if known is None or record.body["checkpoint"] > known.body["checkpoint"]:
                newest[record.body["ns"]] = record
        by_id = {(record.body["ns"], record.body["checkpoint"]): record for record in records}
        kept = set()
        for record in newest.values():
            kept.add(record.key)
            state, metadata = self._load_core(reader, record)
            open_channels = {
                channel
                for channel in metadata.get("counters_since_delta_snapshot", {})
                if channel in state["channel_versions"] and not self._has_value(reader, record, channel)
            }
            ancestor = by_id.get((record.body["ns"], record.body["parent"]))
            while open_channels and ancestor is not None:
                kept.add(ancestor.key)
                open_channels = {c for c in open_channels if not self._has_value(reader, ancestor, c)}
                ancestor = by_id.get((ancestor.body["ns"], ancestor.body["parent"]))
        return kept

    def _has_value(self, reader: Reader, record: Record, channel: str) -> bool:
        holder = self._find_part(reader, record, channel)
        return holder is not None and not _is_empty(holder, channel)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        def copied(reader: Reader) -> Sequence[Draft]:
            drafts = []
            for record in self._list_thread(reader, source_thread_id):
                place = _Place(target_thread_id, record.body["ns"])
                body, checkpoint_id = dict(record.body) | {"thread": target_thread_id}, record.body["checkpoint"]
                if record.kind == GRAPH_CHECKPOINT:
                    own, id = place.labels(), place.key(self._scope, checkpoint_id).id
                else:
                    own = (_thread_labels(target_thread_id)[1], f"for={hash_names(*place, checkpoint_id)}")
                    id = place.writes_id(checkpoint_id, record.body["task"])
                labels = (*own, *(label for label in record.labels if label.startswith(("run=", "order="))))
                drafts.append(draft_from(record, id=id, body=body, labels=labels, author=""))
            return drafts

        self._journal.append_if(copied).unwrap_all()

    def _list_thread(self, reader: Reader, thread_id: str) -> Iterator[Record]:
        query = Query(kinds=(GRAPH_CHECKPOINT, GRAPH_WRITES), scopes=(self._scope,))
        return _read_pages(reader, *(replace(query, labels=(label,)) for label in _thread_labels(thread_id)))

    def _delete(self, choose: Callable[[Reader], Iterable[Record]]) -> None:
        """Delete checkpoints with their writes, after giving those that stay the parts they would lose."""

        def replaced(reader: Reader) -> Sequence[Draft]:
            gone = {record.key: record for record in choose(reader)}
            checkpoints = [record for record in gone.values() if record.kind == GRAPH_CHECKPOINT]
            for record in checkpoints:
                place = _Place(record.body["thread"], record.body["ns"])
                for written in reader.read(self._writes_query(place, record.body["checkpoint"])):
                    gone[written.key] = written
            threads = {record.body["thread"] for record in checkpoints}
            left = (
                record for thread in threads for record in self._list_thread(reader, thread) if record.key not in gone
            )
            drafts = [
                draft
                for record in left
                if record.kind == GRAPH_CHECKPOINT
                for draft in self._make_independent(reader, record, gone)
            ]
            drafts += [
                Draft(record.kind, id=record.id, scope=record.scope, deleted=True, origin="langgraph")
                for record in gone.values()
            ]
            return drafts

        self._journal.append_if(replaced).unwrap_all()

    def _make_independent(self, reader: Reader, record: Record, gone: Mapping[Key, Record]) -> Iterator[Draft]:
        """Yield a version of a checkpoint that holds whole every part it would lose with the deleted ones."""
        place, body = _Place(record.body["thread"], record.body["ns"]), record.body
        parts, at = dict(body["parts"]), dict(body["at"])
        for name in [*parts, *at]:
            holder = self._find_part(reader, record, name)
            source = None if holder is None else holder.body["parts"][name]["base"]
            is_lost = name in at and place.key(self._scope, at[name]) in gone
            if name in parts:
                is_lost = source is not None and place.key(self._scope, source) in gone
            if is_lost and holder is not None:
                content = self._load_bytes(reader, holder, name)
                parts[name] = {**holder.body["parts"][name], "base": None, "depth": 0, "data": _encode(content)}
                at.pop(name, None)
        if parts != body["parts"]:
            labels = tuple(dict.fromkeys((*record.labels, _OUT_OF_ORDER)))
            changed = {**body, "parts": parts, "at": at}
            yield draft_from(record, body=changed, labels=labels, author="", expected=record.version)

    # --- the same for asyncio ---

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for item in await asyncio.to_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)]):
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))


def _thread_labels(thread: str) -> tuple[str, str]:
    """Return the labels one of which each record of a thread has."""
    return f"place={hash_names(thread, '')}", f"thread={hash_names(thread)}"


def _place_of(config: Config) -> _Place:
    ids = config["configurable"]
    return _Place(str(ids["thread_id"]), ids.get("checkpoint_ns") or "")


def _is_empty(record: _CheckpointEntry, name: str) -> bool:
    return bool(record.body["parts"][name]["type"] == "empty")


def _read_pages(reader: Reader, *queries: Query, size: int = 100) -> Iterator[Record]:
    """Yield the records that meet any of the queries, in the order of the log, page by page."""
    if len(queries) > 1:
        pages = [_read_pages(reader, query, size=size) for query in queries]
        newest_first, last = queries[0].newest_first, None
        for record in heapq.merge(*pages, key=lambda record: record.seq, reverse=newest_first):
            if record.seq != last:
                yield record
            last = record.seq
        return
    (query,) = queries
    while True:
        page = reader.read(replace(query, limit=size))
        yield from page
        if len(page) < size:
            return
        last = page[-1].seq
        query = replace(query, before=last) if query.newest_first else replace(query, after=last)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _decode(text: str) -> bytes:
    return base64.b64decode(text)
