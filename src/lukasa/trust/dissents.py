"""Dissents: logged or filed, judged, and counted by the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lukasa.clock import aware, to_iso
from lukasa.engine import Query, Reader
from lukasa.outcome import Outcome, Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, redraft
from lukasa.scope import SHARED, SYSTEM
from lukasa.trust.books import DISSENT, ORIGIN, Books, key_of
from lukasa.trust.counting import SAME, UNJUDGED, Pair, Told, Verdict, has_fallen, is_favour, verdict
from lukasa.trust.desk import Desk, bad_name, labels_of
from lukasa.trust.nearness import vector_of
from lukasa.trust.score import depth_of
from lukasa.trust.standing import Standing

PROBATION = timedelta(days=14)
"""How long a fall keeps an agent from critical roles."""
_IN_ROUND = 64


class Dissents(Desk):
    """Takes dissents in and counts them."""

    def dissent_depth(
        self, text: str, rubric_citations: Sequence[str] = (), previous_dissents: Sequence[str] | None = None
    ) -> float:
        """How deep a dissent is beside earlier ones, by the document's formula."""
        novelty = 0.0
        if previous_dissents:
            own, *past = self._nearness.embed([text, *previous_dissents])
            novelty = 1 - max(float(own @ vector) for vector in past)
        return depth_of(text, rubric_citations, novelty)

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
        if (refused := self._objection(agent=agent, round=round_id, of=of)) is not None:
            return refused
        if not text.strip():
            return Refused("empty_dissent", "A dissent says something.")
        if isinstance(rubric_citations, str) or any(
            bad_name("criterion", name) is not None for name in rubric_citations
        ):
            return Refused("bad_citation", "Citations are names of rubric criteria.")
        (vector,) = self._nearness.vectors([text])
        when = aware(timestamp) if timestamp is not None else self._clock.now()
        event: dict[str, Any] = {
            "round_id": round_id,
            "timestamp": to_iso(when),
            "context": dict(context or {}),
            "dissent_text": text,
            "rubric_citations": list(rubric_citations),
            "impact": impact,
            "feedback_incorporated": bool(impact) if feedback_incorporated is None else feedback_incorporated,
        }
        return self._take_dissent(agent, event, vector, of, when, key=key)

    def _take_dissent(
        self,
        agent: str,
        event: dict[str, Any],
        kept: dict[str, str],
        of: str,
        when: datetime,
        *,
        key: str | None = None,
        source: Key | None = None,
    ) -> Outcome:
        id = self._new_id()
        near = vector_of(kept["numbers"])
        if not self._nearness.knows(agent):
            with self._journal.looking() as look:  # what takes long is read before the lock is held
                self._nearness.nearest(look, agent, near)

        def taking(reader: Reader) -> Sequence[Draft] | Refused:
            books = Books(reader, self._clock.now())
            similarity = self._nearness.nearest(reader, agent, near)
            novelty = 0.0 if similarity is None else round(1 - similarity, 6)
            depth = depth_of(event["dissent_text"], event["rubric_citations"], novelty)
            draft = Draft(
                DISSENT,
                body={
                    "agent": agent,
                    "event": event | {"depth_score": round(depth, 6)},
                    "of": of,
                    "novelty": novelty,
                    "vector": kept,
                    "judged_by": "",
                    "counted": None,
                    "why": UNJUDGED,
                },
                id=id,
                scope=SYSTEM,
                origin=ORIGIN,
                labels=labels_of(DISSENT, agent, event["round_id"]),
                links=() if source is None else (Link(DERIVED_FROM, source),),
                happened_at=when,
            )
            if event["impact"] is not None:
                draft = self._judged(books, draft, near)
            else:
                books.standing(agent)
            books.write(draft)
            drafts = books.drafts()
            return [draft, *(other for other in drafts if other is not draft)]

        return self._journal.decide(taking, key=key)

    def judge(self, id: str, *, impact: bool, feedback_incorporated: bool | None = None) -> Outcome:
        """Says whether a dissent changed the final output, if that was not known when it was logged or filed.

        ``id`` is that of a logged dissent, or of one that an agent filed itself.
        """
        self._require_owner()
        filed = self._journal.get(Key(SHARED, DISSENT, id))
        if filed is not None and self._journal.get(key_of(DISSENT, id)) is None:
            return self._judge_filed(filed, impact, feedback_incorporated)

        def judging(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(key_of(DISSENT, id))
            if record is None:
                return Refused("not_found", f"There is no dissent {id!r:.80}.")
            if record.body["event"].get("impact") is not None:
                return Refused("already_judged", f"The dissent {id!r:.80} was judged already.")
            books = Books(reader, self._clock.now())
            incorporated = impact if feedback_incorporated is None else feedback_incorporated
            event = record.body["event"] | {"impact": impact, "feedback_incorporated": incorporated}
            draft = redraft(record, body=dict(record.body) | {"event": event}, expected=record.version)
            draft = self._judged(books, draft, _kept_vector(record))
            return [draft, *books.drafts()]

        return self._journal.decide(judging)

    def _judged(self, books: Books, draft: Draft, vector: Any) -> Draft:
        """The draft of a dissent with what it counts as; the agent's books follow."""
        body, event = dict(draft.body), draft.body["event"]
        agent, of, impact = body["agent"], body["of"], event["impact"]
        standing = books.standing(agent)
        told = Told(
            text=event["dissent_text"],
            citations=tuple(map(str, event.get("rubric_citations", ()))),
            novelty=body["novelty"],
            impact=impact,
            own_output=of == agent,
            echoes=impact and _echoes(books.reader, draft, vector),
            favoured=impact and bool(of) and of != agent and self._favoured(books, standing, of),
        )
        found = verdict(told, standing.past)
        body |= {
            "judged_by": self._journal.author or "owner",
            "counted": {"impact": found.impact, "depth": round(found.depth, 6)} if found.counts else None,
            "why": found.why,
        }
        day = draft.happened_at.date() if draft.happened_at is not None else books.now.date()
        found = found._replace(depth=round(found.depth, 6))
        books.put(standing.with_dissent(found, told.text, told.citations, day, impact, of))
        if of and of != agent:
            other = books.standing(of)
            books.put(replace(other, received=other.received.plus(impact=impact)))
        self._watch(books, agent, found)
        books.note(agent, f"dissent_impact_{str(impact).lower()}", draft.key)
        return draft._replace(body=body)

    @staticmethod
    def _favoured(books: Books, standing: Standing, of: str) -> bool:
        pair = standing.on.get(of, Pair()).plus(impact=True)
        target = books.standing(of)
        return is_favour(pair, standing.dissents.plus(impact=True), target.received.plus(impact=True))

    @staticmethod
    def _watch(books: Books, agent: str, found: Verdict) -> None:
        """Puts an agent on probation whose latest dissents fail far more often than its earlier ones."""
        standing = books.standing(agent)
        on_probation = standing.probation_until is not None and books.now < standing.probation_until
        if not found.counts or on_probation or not has_fallen(standing.lately, standing.earlier):
            return
        earlier = standing.earlier
        reason = (
            f"{standing.lately.count('1')} of its last {len(standing.lately)} dissents changed anything, "
            f"before that {earlier.impacts} of {earlier.dissents}"
        )
        books.put(replace(standing, probation_until=books.now + PROBATION, probation_reason=reason))

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
        labels = labels_of(DISSENT, author, round_id)
        return self._journal.append(Draft(DISSENT, text, body, origin=ORIGIN, labels=labels))

    def filed(self, *, limit: int = 1_000) -> list[Record]:
        """Dissents that agents filed lately and nobody has judged yet, oldest first."""
        self._require_owner()
        with self._journal.looking() as look:
            filed = look.read(Query(kinds=(DISSENT,), scopes=(SHARED,), newest_first=True, limit=limit))
            return [record for record in reversed(filed) if not _taken_in(look, record)]

    def _judge_filed(self, filed: Record, impact: bool, incorporated: bool | None) -> Outcome:
        with self._journal.looking() as look:
            if _taken_in(look, filed):
                return Refused("already_judged", f"The dissent {filed.id!r:.80} was judged already.")
        told = filed.body.get("event")
        told = told if isinstance(told, dict) else {}  # whoever filed it may have written anything
        context, cited, of = told.get("context"), told.get("rubric_citations"), filed.body.get("of")
        event = {
            "round_id": filed.label("round") or "",
            "timestamp": to_iso(filed.recorded_at),
            "context": context if isinstance(context, dict) else {},
            "dissent_text": filed.text,
            "rubric_citations": [name for name in cited if bad_name("criterion", name) is None]
            if isinstance(cited, list)
            else [],
            "impact": impact,
            "feedback_incorporated": impact if incorporated is None else incorporated,
        }
        of = of if isinstance(of, str) else ""
        if (refused := self._objection(agent=filed.author, of=of)) is not None:
            return refused
        if not filed.text.strip():
            return Refused("empty_dissent", "A dissent says something.")
        (vector,) = self._nearness.vectors([filed.text])
        key = f"judged {filed.key}"
        return self._take_dissent(filed.author, event, vector, of, filed.recorded_at, key=key, source=filed.key)


def _taken_in(look: Reader, filed: Record) -> bool:
    """Whether a filed dissent stands in the books already."""
    return any(
        near.direction == "in" and near.key.scope == SYSTEM and near.key.kind == DISSENT
        for near in look.neighbours(filed.key, DERIVED_FROM)
    )


def _kept_vector(record: Record) -> Any:
    return vector_of(record.body["vector"]["numbers"])


def _echoes(reader: Reader, draft: Draft, vector: Any) -> bool:
    """Whether another agent said the same in the same round, and was credited with it."""
    round_label = next((label for label in draft.labels if label.startswith("round=")), None)
    if round_label is None:
        return False
    query = Query(kinds=(DISSENT,), scopes=(SYSTEM,), labels=(round_label,), limit=_IN_ROUND)
    return any(
        record.body["agent"] != draft.body["agent"]
        and (record.body["counted"] or {}).get("impact")
        and record.body["vector"]["model"] == draft.body["vector"]["model"]
        and float(_kept_vector(record) @ vector) >= SAME
        for record in reader.read(query)
    )
