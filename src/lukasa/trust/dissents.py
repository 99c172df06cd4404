"""Dissents: their vectors, how they are written and judged, and what they count as."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lukasa.core.clock import to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.core.scope import SHARED, SYSTEM
from lukasa.core.text_cache import register_cache
from lukasa.models.embedder import Embedder
from lukasa.storage.engine import Query, Reader
from lukasa.trust.records import (
    DISSENT,
    TrustChanges,
    TrustRecords,
    agent_events_query,
    check_name,
    event_labels,
    event_of,
    trust_draft,
    trust_key,
)
from lukasa.trust.rules import (
    ECHO_SIMILARITY,
    UNJUDGED,
    DissentInput,
    ImpactCounts,
    TrustSettings,
    has_fallen,
    is_favour,
    judge_dissent,
)
from lukasa.trust.score import compute_depth

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

MAX_DISSENTS = 2_000
"""The number of an agent's latest dissents that novelty and predictions look at."""
_MAX_CACHED_BYTES, _RECORD_BYTES = 32_000_000, 2_000
PROBATION_LENGTH = timedelta(days=14)
"""How long a fall keeps an agent from critical roles."""
_MAX_ROUND_DISSENTS = 64


def encode_vector(vector: Any) -> str:
    """Encode a vector as base64 of half-precision numbers."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode("ascii")


def decode_vector(text: str) -> Any:
    import numpy as np

    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float32)


def dissent_event(
    text: str, when: datetime, round_id: str, citations: Iterable[str], context: Mapping[str, Any] | None,
    impact: bool | None, feedback_incorporated: bool,
) -> dict[str, Any]:  # fmt: skip
    """Build the entry of the document's ``dissent_history``, without the depth."""
    return {
        "round_id": round_id, "timestamp": to_iso(when), "context": dict(context or {}), "dissent_text": text,
        "rubric_citations": list(citations), "impact": impact, "feedback_incorporated": feedback_incorporated,
    }  # fmt: skip


@dataclass(slots=True)
class _AgentVectors:
    """The latest dissents of one agent by id, and their vectors in rows; rows at the end may be unused."""

    last_seq: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    vectors: Any = None
    records: dict[str, Record] = field(default_factory=dict)


class DissentVectors:
    """A cache of the vectors of each agent's dissents, brought up to date from the log on every use."""

    def __init__(self, embedder: Callable[[], Embedder]) -> None:
        self._embedder = embedder
        self._by_agent: dict[str, _AgentVectors] = {}
        self._model = ""
        self._size = 0
        self._lock = threading.RLock()
        register_cache(self)

    def clear(self) -> None:
        """Forget all dissents; the next use reads them again."""
        with self._lock:
            self._by_agent.clear()
            self._size = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._embedder().embed(texts)

    def encode_texts(self, texts: Sequence[str]) -> list[dict[str, str]]:
        """Return the vectors of texts as dissents store them: with the name of the model."""
        vectors = self.embed(texts) if texts else ()
        return [{"model": self._embedder().name, "numbers": encode_vector(vector)} for vector in vectors]

    def is_loaded(self, agent: str) -> bool:
        """Return whether the agent's dissents are in the cache, apart from the latest."""
        return agent in self._by_agent

    def max_cosine(self, reader: Reader, agent: str, vector: Any) -> float | None:
        """Return the highest cosine between a vector and the agent's dissents; None when there are none."""
        with self._lock:
            cached = self._load_agent(reader, agent)
            return float((cached.vectors[: len(cached.rows)] @ vector).max()) if cached.rows else None

    def latest_dissents(self, reader: Reader, agent: str) -> tuple[list[Record], Any]:
        """Return an agent's latest dissents, oldest first, and their vectors."""
        with self._lock:
            cached = self._load_agent(reader, agent)
            ordered = sorted(cached.records.values(), key=lambda record: record.created_at)
            rows = [cached.rows[record.id] for record in ordered]
            return ordered, None if cached.vectors is None else cached.vectors[rows]

    def _load_agent(self, reader: Reader, agent: str) -> _AgentVectors:
        """Return the agent's cache entry with the dissents written since its last use."""
        import numpy as np

        if self._model != self._embedder().name or self._size > _MAX_CACHED_BYTES:
            self.clear()
            self._model = self._embedder().name
        cached = self._by_agent.setdefault(agent, _AgentVectors())
        if cached.last_seq:
            records = reader.read(agent_events_query(agent, DISSENT, after=cached.last_seq, limit=MAX_DISSENTS))
        else:
            records = reader.read(agent_events_query(agent, DISSENT, newest_first=True, limit=MAX_DISSENTS))[::-1]
        stored = [self._read_vector(record) for record in records]
        missing = [index for index, vector in enumerate(stored) if vector is None]
        texts = [event_of(records[index]).get("dissent_text", "") for index in missing]
        embedded = dict(zip(missing, self.embed(texts), strict=True)) if missing else {}
        for index, record in enumerate(records):
            vector = embedded[index] if index in embedded else stored[index]
            row = cached.rows.get(record.id, len(cached.rows))
            if row >= MAX_DISSENTS:  # replace the oldest
                oldest = next(iter(cached.rows))
                row = cached.rows.pop(oldest)
                del cached.records[oldest]
            if cached.vectors is None:
                cached.vectors = np.zeros((64, len(vector)), dtype=np.float32)
            elif row >= len(cached.vectors):
                cached.vectors = np.concatenate([cached.vectors, np.zeros_like(cached.vectors)])
            cached.vectors[row] = vector
            self._size += _RECORD_BYTES + 4 * len(vector) + len(str(event_of(record).get("dissent_text", "")))
            cached.rows[record.id] = row
            cached.records[record.id] = record
            cached.last_seq = max(cached.last_seq, record.seq)
        return cached

    def _read_vector(self, record: Record) -> Any:
        """Return the vector that a dissent stores; None if it is of another model or cannot be read."""
        stored = record.body.get("vector") or {}
        with suppress(KeyError, ValueError):
            vector = decode_vector(stored["numbers"]) if stored.get("model") == self._model else ()
            return vector if len(vector) == self._embedder().length else None
        return None


class DissentLog:
    """The dissents of a store, their verdicts, and the trust that follows from them."""

    def __init__(self, records: TrustRecords, vectors: DissentVectors, settings: TrustSettings) -> None:
        self._records = records
        self._vectors = vectors
        self._settings = settings

    def log(
        self, agent: str, event: dict[str, Any], *, of: str, happened_at: datetime, key: str | None = None,
        source: Key | None = None,
    ) -> Outcome:  # fmt: skip
        """Write a dissent with its depth, and its verdict if its impact is known.

        ``event`` is the entry of the document's ``dissent_history`` without the depth. ``source`` is the dissent that
        the agent filed.
        """
        id = self._records.new_id()
        (stored_vector,) = self._vectors.encode_texts([event["dissent_text"]])
        vector = decode_vector(stored_vector["numbers"])
        if not self._vectors.is_loaded(agent):
            with self._records.journal.snapshot() as snapshot:  # the slow read comes before the write lock
                self._vectors.max_cosine(snapshot, agent, vector)

        def plan(changes: TrustChanges) -> None:
            similarity = self._vectors.max_cosine(changes.reader, agent, vector)
            novelty = 0.0 if similarity is None else round(1 - similarity, 6)
            depth = compute_depth(event["dissent_text"], event["rubric_citations"], novelty)
            body = {
                "agent": agent, "event": event | {"depth_score": round(depth, 6)}, "of": of, "novelty": novelty,
                "vector": stored_vector, "judged_by": "", "counted": None, "why": UNJUDGED,
            }  # fmt: skip
            labels = event_labels(DISSENT, agent, event["round_id"])
            links = () if source is None else (Link(DERIVED_FROM, source),)
            draft = trust_draft(DISSENT, body, id, labels=labels, links=links, happened_at=happened_at)
            changes.get_aggregate(agent)
            changes.add_first(draft if event["impact"] is None else self._apply_verdict(changes, draft, vector))

        return self._records.change(plan, key=key)

    def judge(self, id: str, impact: bool, feedback_incorporated: bool) -> Outcome:
        """Record whether a dissent changed the final output, be it logged or filed by its agent."""
        journal = self._records.require_owner().journal
        filed = journal.get(Key(SHARED, DISSENT, id))
        if filed is not None and journal.get(trust_key(DISSENT, id)) is None:
            return self._judge_filed(filed, impact, feedback_incorporated)

        def plan(changes: TrustChanges) -> Refused | None:
            record = changes.reader.get(trust_key(DISSENT, id))
            if record is None:
                return Refused("not_found", f"There is no dissent {id!r:.80}.")
            if event_of(record).get("impact") is not None:
                return Refused("already_judged", f"The dissent {id!r:.80} was judged already.")
            event = {"dissent_text": record.text, **event_of(record), "impact": impact}
            event["feedback_incorporated"] = feedback_incorporated
            if "depth_score" not in event:  # an imported event may lack it
                depth = compute_depth(event["dissent_text"], event.get("rubric_citations", ()), record.body["novelty"])
                event["depth_score"] = round(depth, 6)
            draft = draft_from(record, body=dict(record.body) | {"event": event}, expected=record.version)
            changes.add_first(self._apply_verdict(changes, draft, _stored_vector(record)))
            return None

        return self._records.change(plan)

    def _judge_filed(self, filed: Record, impact: bool, feedback_incorporated: bool) -> Outcome:
        """Log a dissent that an agent filed, with its impact. The agent may have written anything into the body."""
        with self._records.journal.snapshot() as snapshot:
            if _is_logged(snapshot, filed):
                return Refused("already_judged", f"The dissent {filed.id!r:.80} was judged already.")
        event, of = filed.body.get("event"), filed.body.get("of")
        event = event if isinstance(event, dict) else {}
        of = of if isinstance(of, str) else ""
        agent = filed.author
        if (refused := self._records.check_names(agent=agent, of=of)) is not None:
            return refused
        if not filed.text.strip():
            return Refused("empty_dissent", "The dissent has no text.")
        context, citations = event.get("context"), event.get("rubric_citations")
        citations = citations if isinstance(citations, list) else []
        citations = [name for name in citations if check_name("criterion", name) is None]
        clean_event = dissent_event(
            filed.text, filed.recorded_at, filed.label("round") or "", citations,
            context if isinstance(context, dict) else {}, impact, feedback_incorporated,
        )  # fmt: skip
        key = f"judged {filed.key}"
        return self.log(agent, clean_event, of=of, happened_at=filed.recorded_at, key=key, source=filed.key)

    def list_filed(self, limit: int) -> list[Record]:
        """List the filed dissents that are not judged yet, oldest first, among the latest ``limit``."""
        with self._records.require_owner().journal.snapshot() as snapshot:
            filed = snapshot.read(Query(kinds=(DISSENT,), scopes=(SHARED,), newest_first=True, limit=limit))
            return [record for record in reversed(filed) if not _is_logged(snapshot, record)]

    def _apply_verdict(self, changes: TrustChanges, draft: Draft, vector: Any) -> Draft:
        """Return the draft of a judged dissent with its verdict; update the aggregates of both agents.

        An agent whose latest dissents fail far more often than its earlier ones goes on probation.
        """
        event, agent, of = draft.body["event"], draft.body["agent"], draft.body["of"]
        impact: bool = event["impact"]
        before = changes.get_aggregate(agent)
        is_favoured = False
        if of and of != agent:
            target = changes.get_aggregate(of)
            changes.set_aggregate(replace(target, received=target.received.plus(impact=impact)))
            pair = before.on.get(of, ImpactCounts()).plus(impact=True)
            is_favoured = impact and is_favour(
                pair, before.dissents.plus(impact=True), target.received.plus(impact=True)
            )
        dissent = DissentInput(
            event["dissent_text"], tuple(map(str, event.get("rubric_citations", ()))), draft.body["novelty"], impact,
            own_output=of == agent, is_echo=impact and _is_echo(changes.reader, draft, vector), is_favoured=is_favoured,
        )  # fmt: skip
        verdict = judge_dissent(dissent, before.past, self._settings)
        day = draft.happened_at.date() if draft.happened_at is not None else changes.now.date()
        depth = event["depth_score"]
        after = before.with_dissent(verdict, dissent.citations, day, impact=impact, depth=depth, of=of)
        on_probation = after.probation_until is not None and changes.now < after.probation_until
        may_fall = self._settings.fall and verdict.counted is not None and not on_probation
        if may_fall and has_fallen(after.lately, after.earlier):
            reason = (
                f"{after.lately.count('1')} of its last {len(after.lately)} dissents changed anything, "
                f"before that {after.earlier.impacts} of {after.earlier.dissents}"
            )
            after = replace(after, probation_until=changes.now + PROBATION_LENGTH, probation_reason=reason)
        changes.set_aggregate(after)
        changes.record_trust_change(agent, f"dissent_impact_{str(impact).lower()}", draft.key)
        counted = None if verdict.counted is None else verdict.counted._asdict()
        judged_by = self._records.journal.author or "owner"
        return draft._replace(body=dict(draft.body) | {"judged_by": judged_by, "counted": counted, "why": verdict.why})


def _is_logged(reader: Reader, filed: Record) -> bool:
    """Return whether a logged dissent is derived from a filed one."""
    return any(
        neighbour.direction == "in" and neighbour.key.scope == SYSTEM and neighbour.key.kind == DISSENT
        for neighbour in reader.neighbours(filed.key, DERIVED_FROM)
    )


def _stored_vector(record: Record) -> Any:
    return decode_vector(record.body["vector"]["numbers"])


def _is_echo(reader: Reader, draft: Draft, vector: Any) -> bool:
    """Return whether another agent was credited for the same objection in the same round."""
    round_label = next((label for label in draft.labels if label.startswith("round=")), None)
    if round_label is None:
        return False
    query = Query(kinds=(DISSENT,), scopes=(SYSTEM,), labels=(round_label,), limit=_MAX_ROUND_DISSENTS)
    return any(
        record.body.get("agent") != draft.body["agent"]
        and (record.body.get("counted") or {}).get("impact")
        and (record.body.get("vector") or {}).get("model") == draft.body["vector"]["model"]
        and float(_stored_vector(record) @ vector) >= ECHO_SIMILARITY
        for record in reader.read(query)
    )
