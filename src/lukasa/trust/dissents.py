"""Dissents: logged or filed, judged, and counted by the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lukasa.clock import to_iso, to_utc
from lukasa.outcome import Outcome, Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.scope import SHARED, SYSTEM
from lukasa.storage.engine import Query, Reader
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.base import TrustBase, check_name, event_labels
from lukasa.trust.records import DISSENT, ORIGIN, TrustChanges, trust_key
from lukasa.trust.rules import (
    ECHO_SIMILARITY,
    UNJUDGED,
    DissentInput,
    DissentVerdict,
    ImpactCounts,
    has_fallen,
    is_favour,
    judge_dissent,
)
from lukasa.trust.score import compute_depth
from lukasa.trust.vectors import decode_vector

PROBATION_LENGTH = timedelta(days=14)
"""How long a fall keeps an agent from critical roles."""
_MAX_ROUND_DISSENTS = 64


class TrustDissents(TrustBase):
    """Takes dissents in and counts them."""

    def dissent_depth(
        self, text: str, rubric_citations: Sequence[str] = (), previous_dissents: Sequence[str] | None = None
    ) -> float:
        """How deep a dissent is beside earlier ones, by the document's formula."""
        novelty = 0.0
        if previous_dissents:
            own, *past = self._dissent_vectors.embed([text, *previous_dissents])
            novelty = 1 - max(float(own @ vector) for vector in past)
        return compute_depth(text, rubric_citations, novelty)

    def log_dissent(
        self,
        agent: str,
        text: str,
        *,
        round_id: str = "",
        rubric_citations: Sequence[str] = (),
        impact: bool | None = None,
        feedback_incorporated: bool | None = None,
        context: Mapping[str, Any] | None = None,
        of: str = "",
        timestamp: datetime | None = None,
        key: str | None = None,
    ) -> Outcome:
        """Keeps a dissent with its depth, and the trust that follows from it.

        ``impact`` says whether it changed the final output; while that is not known (``None``), it does not count, and
        ``judge`` tells later. ``of`` is the agent whose output it was about.
        """
        if (refused := self._check_owner_and_names(agent=agent, round=round_id, of=of)) is not None:
            return refused
        if not text.strip():
            return Refused("empty_dissent", "A dissent says something.")
        if isinstance(rubric_citations, str) or any(
            check_name("criterion", name) is not None for name in rubric_citations
        ):
            return Refused("bad_citation", "Citations are names of rubric criteria.")
        (vector,) = self._dissent_vectors.encode_texts([text])
        when = to_utc(timestamp) if timestamp is not None else self._clock.now()
        event: dict[str, Any] = {
            "round_id": round_id,
            "timestamp": to_iso(when),
            "context": dict(context or {}),
            "dissent_text": text,
            "rubric_citations": list(rubric_citations),
            "impact": impact,
            "feedback_incorporated": bool(impact) if feedback_incorporated is None else feedback_incorporated,
        }
        return self._append_dissent(agent, event, vector, of, when, key=key)

    def _append_dissent(
        self,
        agent: str,
        event: dict[str, Any],
        stored_vector: dict[str, str],
        of: str,
        when: datetime,
        *,
        key: str | None = None,
        source: Key | None = None,
    ) -> Outcome:
        id = self._new_id()
        near = decode_vector(stored_vector["numbers"])
        if not self._dissent_vectors.is_loaded(agent):
            with self._journal.snapshot() as look:  # what takes long is read before the lock is held
                self._dissent_vectors.max_cosine(look, agent, near)

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            books = TrustChanges(reader, self._clock.now())
            similarity = self._dissent_vectors.max_cosine(reader, agent, near)
            novelty = 0.0 if similarity is None else round(1 - similarity, 6)
            depth = compute_depth(event["dissent_text"], event["rubric_citations"], novelty)
            draft = Draft(
                DISSENT,
                body={
                    "agent": agent,
                    "event": event | {"depth_score": round(depth, 6)},
                    "of": of,
                    "novelty": novelty,
                    "vector": stored_vector,
                    "judged_by": "",
                    "counted": None,
                    "why": UNJUDGED,
                },
                id=id,
                scope=SYSTEM,
                origin=ORIGIN,
                labels=event_labels(DISSENT, agent, event["round_id"]),
                links=() if source is None else (Link(DERIVED_FROM, source),),
                happened_at=when,
            )
            if event["impact"] is not None:
                draft = self._apply_verdict(books, draft, near)
            else:
                books.get_aggregate(agent)
            books.add_draft(draft)
            drafts = books.collect_drafts()
            return [draft, *(other for other in drafts if other is not draft)]

        return self._journal.append_if(build_drafts, key=key)

    def judge(self, id: str, *, impact: bool, feedback_incorporated: bool | None = None) -> Outcome:
        """Says whether a dissent changed the final output, if that was not known when it was logged or filed.

        ``id`` is that of a logged dissent, or of one that an agent filed itself.
        """
        self._require_owner()
        filed = self._journal.get(Key(SHARED, DISSENT, id))
        if filed is not None and self._journal.get(trust_key(DISSENT, id)) is None:
            return self._judge_filed(filed, impact, feedback_incorporated)

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(trust_key(DISSENT, id))
            if record is None:
                return Refused("not_found", f"There is no dissent {id!r:.80}.")
            if record.body["event"].get("impact") is not None:
                return Refused("already_judged", f"The dissent {id!r:.80} was judged already.")
            books = TrustChanges(reader, self._clock.now())
            incorporated = impact if feedback_incorporated is None else feedback_incorporated
            event = record.body["event"] | {"impact": impact, "feedback_incorporated": incorporated}
            draft = draft_from(record, body=dict(record.body) | {"event": event}, expected=record.version)
            draft = self._apply_verdict(books, draft, _stored_vector(record))
            return [draft, *books.collect_drafts()]

        return self._journal.append_if(build_drafts)

    def _apply_verdict(self, changes: TrustChanges, draft: Draft, vector: Any) -> Draft:
        """The draft of a dissent with what it counts as; the agent's books follow."""
        body, event = dict(draft.body), draft.body["event"]
        agent, of, impact = body["agent"], body["of"], event["impact"]
        standing = changes.get_aggregate(agent)
        told = DissentInput(
            text=event["dissent_text"],
            citations=tuple(map(str, event.get("rubric_citations", ()))),
            novelty=body["novelty"],
            impact=impact,
            own_output=of == agent,
            is_echo=impact and _is_echo(changes.reader, draft, vector),
            is_favoured=impact and bool(of) and of != agent and self._is_favoured(changes, standing, of),
        )
        found = judge_dissent(told, standing.past)
        body |= {
            "judged_by": self._journal.author or "owner",
            "counted": {"impact": found.impact, "depth": round(found.depth, 6)} if found.counts else None,
            "why": found.why,
        }
        day = draft.happened_at.date() if draft.happened_at is not None else changes.now.date()
        found = found._replace(depth=round(found.depth, 6))
        changes.set_aggregate(standing.with_dissent(found, told.text, told.citations, day, impact, of))
        if of and of != agent:
            other = changes.get_aggregate(of)
            changes.set_aggregate(replace(other, received=other.received.plus(impact=impact)))
        self._start_probation_if_fallen(changes, agent, found)
        changes.record_trust_change(agent, f"dissent_impact_{str(impact).lower()}", draft.key)
        return draft._replace(body=body)

    @staticmethod
    def _is_favoured(changes: TrustChanges, aggregate: TrustAggregate, of: str) -> bool:
        pair = aggregate.on.get(of, ImpactCounts()).plus(impact=True)
        target = changes.get_aggregate(of)
        return is_favour(pair, aggregate.dissents.plus(impact=True), target.received.plus(impact=True))

    @staticmethod
    def _start_probation_if_fallen(changes: TrustChanges, agent: str, verdict: DissentVerdict) -> None:
        """Puts an agent on probation whose latest dissents fail far more often than its earlier ones."""
        standing = changes.get_aggregate(agent)
        on_probation = standing.probation_until is not None and changes.now < standing.probation_until
        if not verdict.counts or on_probation or not has_fallen(standing.lately, standing.earlier):
            return
        earlier = standing.earlier
        reason = (
            f"{standing.lately.count('1')} of its last {len(standing.lately)} dissents changed anything, "
            f"before that {earlier.impacts} of {earlier.dissents}"
        )
        changes.set_aggregate(
            replace(standing, probation_until=changes.now + PROBATION_LENGTH, probation_reason=reason)
        )

    # Dissents that agents file themselves

    def file_dissent(
        self,
        text: str,
        *,
        round_id: str = "",
        rubric_citations: Sequence[str] = (),
        context: Mapping[str, Any] | None = None,
        of: str = "",
    ) -> Outcome:
        """An agent's own word: kept for all to see, and counting for nothing until the owner judges it."""
        author = self._journal.author
        if not author:
            return Refused("no_author", "Only an agent files a dissent; the owner logs it: log_dissent.")
        if not text.strip():
            return Refused("empty_dissent", "A dissent says something.")
        body = {
            "agent": author,
            "of": of,
            "event": {
                "round_id": round_id,
                "timestamp": to_iso(self._clock.now()),
                "context": dict(context or {}),
                "dissent_text": text,
                "rubric_citations": list(rubric_citations),
                "impact": None,
                "feedback_incorporated": False,
            },
        }
        labels = event_labels(DISSENT, author, round_id)
        return self._journal.append(Draft(DISSENT, text, body, origin=ORIGIN, labels=labels))

    def filed(self, *, limit: int = 1_000) -> list[Record]:
        """Dissents that agents filed lately and nobody has judged yet, oldest first."""
        self._require_owner()
        with self._journal.snapshot() as look:
            filed = look.read(Query(kinds=(DISSENT,), scopes=(SHARED,), newest_first=True, limit=limit))
            return [record for record in reversed(filed) if not _is_logged(look, record)]

    def _judge_filed(self, filed: Record, impact: bool, incorporated: bool | None) -> Outcome:
        with self._journal.snapshot() as look:
            if _is_logged(look, filed):
                return Refused("already_judged", f"The dissent {filed.id!r:.80} was judged already.")
        told = filed.body.get("event")
        told = told if isinstance(told, dict) else {}  # whoever filed it may have written anything
        context, cited, of = told.get("context"), told.get("rubric_citations"), filed.body.get("of")
        event = {
            "round_id": filed.label("round") or "",
            "timestamp": to_iso(filed.recorded_at),
            "context": context if isinstance(context, dict) else {},
            "dissent_text": filed.text,
            "rubric_citations": [name for name in cited if check_name("criterion", name) is None]
            if isinstance(cited, list)
            else [],
            "impact": impact,
            "feedback_incorporated": impact if incorporated is None else incorporated,
        }
        of = of if isinstance(of, str) else ""
        if (refused := self._check_owner_and_names(agent=filed.author, of=of)) is not None:
            return refused
        if not filed.text.strip():
            return Refused("empty_dissent", "A dissent says something.")
        (vector,) = self._dissent_vectors.encode_texts([filed.text])
        key = f"judged {filed.key}"
        return self._append_dissent(filed.author, event, vector, of, filed.recorded_at, key=key, source=filed.key)


def _is_logged(reader: Reader, filed: Record) -> bool:
    """Whether a filed dissent stands in the books already."""
    return any(
        near.direction == "in" and near.key.scope == SYSTEM and near.key.kind == DISSENT
        for near in reader.neighbours(filed.key, DERIVED_FROM)
    )


def _stored_vector(record: Record) -> Any:
    return decode_vector(record.body["vector"]["numbers"])


def _is_echo(reader: Reader, draft: Draft, vector: Any) -> bool:
    """Whether another agent said the same in the same round, and was credited with it."""
    round_label = next((label for label in draft.labels if label.startswith("round=")), None)
    if round_label is None:
        return False
    query = Query(kinds=(DISSENT,), scopes=(SYSTEM,), labels=(round_label,), limit=_MAX_ROUND_DISSENTS)
    return any(
        record.body["agent"] != draft.body["agent"]
        and (record.body["counted"] or {}).get("impact")
        and record.body["vector"]["model"] == draft.body["vector"]["model"]
        and float(_stored_vector(record) @ vector) >= ECHO_SIMILARITY
        for record in reader.read(query)
    )
