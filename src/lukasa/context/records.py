"""Sessions as records, there and back.

    turn      one per message; the label ``session=ID`` groups them, their order is the log's
    context   the small state of a session: its tasks, counters, environment, settings; the id is the session's
    summary   what was folded and what is told of it; the id is the session's; derived from the turns it folds
    fact      one per fact; the label ``context=ID`` groups them; derived from the turn that stated it

A turn is never rewritten and touches no record that another turn touches, so any number of writers may append at once.
The recent view is whatever stands in the log after the newest folded turn. That turn is named by its id, not by its
position, so a session means the same in every store it is copied to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from lukasa.context.facts import fact_id
from lukasa.context.state import (
    DEFAULT_SETTINGS,
    NO_SUMMARY,
    STATE_FIELDS,
    ConversationSettings,
    ConversationSummary,
    Fact,
    LoadedConversation,
    SummaryLine,
    Turn,
    default_state,
)
from lukasa.errors import InvalidInput, StoreDamaged
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.storage.engine import AsOf, Query, Reader

TURN, CONTEXT, SUMMARY, FACT = "turn", "context", "summary", "fact"
MAX_TURNS_PER_SUMMARY_VERSION = 900
"""A record has at most a thousand links; a larger fold is several versions of the summary in one batch."""
_MAX_VERSION_GAP = 100

T = TypeVar("T")


def turn_label(session_id: str) -> str:
    return f"session={session_id}"


def fact_label(session_id: str) -> str:
    return f"context={session_id}"


def turn_draft(session_id: str, scope: str, turn: Turn, *, id: str, by: str, origin: str, counted_by: str) -> Draft:
    """A turn on its way into the log. Who speaks is its author; the agent that wrote it down is in a label."""
    optional = {
        "speaker": turn.speaker,
        "tool_calls": [dict(call) for call in turn.tool_calls],
        "tool_call_id": turn.tool_call_id,
        "extra": dict(turn.extra),
    }
    body: dict[str, Any] = {"role": turn.role, "tokens": turn.tokens, "counted_by": counted_by}
    body |= {name: value for name, value in optional.items() if value}
    labels = (turn_label(session_id), f"by={by}") if by and by != turn.name else (turn_label(session_id),)
    return Draft(
        TURN, turn.content, body, id=id, scope=scope, author=turn.name, origin=origin, labels=labels,
        happened_at=turn.timestamp,
    )  # fmt: skip


def parse_turn(record: Record) -> Turn:
    """The turn that a record keeps. One that was written otherwise is told as well as it can be."""
    body = record.body
    role, tokens = body.get("role"), body.get("tokens")
    calls, extra = body.get("tool_calls"), body.get("extra")
    speaker = body.get("speaker", "" if role else record.author)
    return Turn(
        role=role if isinstance(role, str) and role else "user",
        content=record.text,
        timestamp=record.moment,
        token_count=tokens if type(tokens) is int else None,
        speaker=speaker if isinstance(speaker, str) else "",
        tool_calls=tuple(calls) if isinstance(calls, list) else (),
        tool_call_id=str(body.get("tool_call_id", "")),
        extra=extra if isinstance(extra, Mapping) else {},
        id=record.id,
    )


def state_draft(
    session_id: str,
    scope: str,
    state: Mapping[str, Any],
    settings: ConversationSettings,
    *,
    expected: int | None,
    origin: str,
) -> Draft:
    body = dict(state)
    if differing := settings.non_default_values():
        body["settings"] = differing
    return Draft(CONTEXT, body=body, id=session_id, scope=scope, origin=origin, expected=expected)


def parse_state(body: Mapping[str, Any]) -> tuple[dict[str, Any], ConversationSettings]:
    """The state and the settings that a record keeps; ``InvalidInput`` when it is not such a record."""
    state = default_state()
    for name in STATE_FIELDS:
        value = body.get(name, state[name])
        if not isinstance(value, type(state[name])):
            raise InvalidInput(f"the field {name} is not {'a list' if isinstance(state[name], list) else 'an object'}")
        state[name] = value
    if not all(isinstance(task, dict) for task in state["active_tasks"]):
        raise InvalidInput("a task is not an object")
    for name, shape in (("extra", dict), ("fork", dict), ("settings", dict)):
        if not isinstance(body.get(name, {}), shape):
            raise InvalidInput(f"the field {name} is not an object")
    if body.get("extra"):
        state["extra"] = body["extra"]
    if body.get("fork"):
        state["fork"] = body["fork"]
    return state, DEFAULT_SETTINGS.with_changes(body.get("settings", {}))


def summary_draft(
    session_id: str,
    scope: str,
    summary: ConversationSummary,
    turns: Sequence[Turn],
    *,
    has_previous: bool,
    expected: int | None,
) -> Draft:
    """A version of the summary, derived from the turns it folds and from the version before, if there is one."""
    links = [Link(DERIVED_FROM, Key(scope, TURN, turn.id)) for turn in turns]
    if has_previous:
        links.append(Link(DERIVED_FROM, Key(scope, SUMMARY, session_id)))
    body = {
        "text": summary.text,
        "lines": [[line.text, line.worth, line.round] for line in summary.lines],
        "tokens": summary.tokens,
        "turns": summary.turns,
        "folded_tokens": summary.folded_tokens,
        "rounds": summary.rounds,
        "edge": list(summary.edge),
        "by": summary.by,
    }
    if summary.why:
        body["why"] = summary.why
    return Draft(
        SUMMARY, body=body, id=session_id, scope=scope, origin="compaction", links=tuple(links), expected=expected
    )


def parse_summary(body: Mapping[str, Any]) -> ConversationSummary:
    """The summary that a record keeps; ``InvalidInput`` when it is not such a record."""
    try:
        summary = ConversationSummary(
            text=body["text"],
            lines=tuple(SummaryLine(str(text), float(worth), int(round)) for text, worth, round in body["lines"]),
            tokens=int(body["tokens"]),
            turns=int(body["turns"]),
            folded_tokens=int(body["folded_tokens"]),
            rounds=int(body["rounds"]),
            edge=tuple(map(str, body["edge"])),
            by=str(body["by"]),
            why=str(body.get("why", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput("it has not the fields of a summary") from error
    if not isinstance(summary.text, str):
        raise InvalidInput("its text is not text")
    return summary


def fact_draft(session_id: str, scope: str, fact: Fact, *, origin: str, expected: int | None = None) -> Draft:
    body = {name: value for name, value in (("slot", fact.slot), ("rule", fact.rule), ("turn", fact.turn)) if value}
    links = (Link(DERIVED_FROM, Key(scope, TURN, fact.turn)),) if fact.turn else ()
    return Draft(
        FACT, fact.text, body, id=fact.id or fact_id(session_id, fact), scope=scope, origin=origin, links=links,
        labels=(fact_label(session_id),), expected=expected,
    )  # fmt: skip


def parse_fact(record: Record) -> Fact:
    body = record.body
    return Fact(record.text, str(body.get("slot", "")), str(body.get("rule", "")), record.id, str(body.get("turn", "")))


class ConversationReader:
    """One session in one look at the log."""

    def __init__(self, reader: Reader, session_id: str, scope: str, as_of: AsOf | None = None) -> None:
        self._reader = reader
        self._session_id = session_id
        self._scope = scope
        self._as_of = as_of
        self.recovered: list[str] = []

    def load(self, *, settled_only: bool = False) -> LoadedConversation | None:
        """Everything a context is made of; ``None`` where nothing was ever said or set.

        ``settled`` leaves out turns before which another one may still appear: what is folded must be final.
        """
        head, (state, settings) = self.read_latest_valid(CONTEXT, parse_state, (default_state(), DEFAULT_SETTINGS))
        version, summary = self.read_latest_valid(SUMMARY, parse_summary, NO_SUMMARY)
        edge = self._find_folded_position(summary)
        turns = self._read_settled_turns(edge) if settled_only else self._read_recent_turns(edge, settings.entries)
        facts = self._read_facts(settings.facts)
        if not (head or version or turns or facts or self.recovered):
            return None
        return LoadedConversation(head, version, state, settings, summary, tuple(turns), tuple(facts), edge)

    def read_latest_valid(self, kind: str, parse: Callable[[Mapping[str, Any]], T], default: T) -> tuple[int, T]:
        """The newest version that can be read and makes sense, and the number of the newest one there is."""
        key = Key(self._scope, kind, self._session_id)
        try:
            record = self._reader.get(key, as_of=self._as_of)
            if record is None:
                return 0, default
            return record.version, parse(record.body)
        except (StoreDamaged, InvalidInput) as error:
            newest, found = self._find_valid_version(key, parse)
            served = "an empty one serves instead" if found is None else f"version {found[0]} serves instead"
            self.recovered.append(f"The {kind} record of the session is damaged ({_error_message(error)}); {served}.")
            return newest, default if found is None else found[1]

    def _find_valid_version(
        self, key: Key, parse: Callable[[Mapping[str, Any]], T]
    ) -> tuple[int, tuple[int, T] | None]:
        """The number of the newest version, and the newest one that makes sense, looked at one by one."""
        newest, best, version = 0, None, 0
        while version < newest + _MAX_VERSION_GAP:  # versions that were dropped or deleted leave gaps
            version += 1
            try:
                record = self._reader.get(key, version=version)
                if record is not None:
                    newest = version
                    if self._is_within_as_of(record):
                        best = (version, parse(record.body))
            except StoreDamaged:
                newest = version
            except InvalidInput:
                continue
        return newest, best

    def _is_within_as_of(self, record: Record) -> bool:
        if isinstance(self._as_of, datetime):
            return record.recorded_at <= self._as_of
        return self._as_of is None or record.seq <= self._as_of

    def _find_folded_position(self, summary: ConversationSummary) -> int:
        """The position after which the recent view begins."""
        for id in summary.edge:
            try:
                history = self._reader.history(Key(self._scope, TURN, id))
            except StoreDamaged:
                continue
            if history and history[0].version == 1:
                return history[0].seq
        if summary.edge:
            self.recovered.append("The newest folded turns are gone; the whole transcript stands in the recent view.")
        return 0

    def _turn_query(self, **more: Any) -> Query:
        return Query(
            kinds=(TURN,), scopes=(self._scope,), labels=(turn_label(self._session_id),), as_of=self._as_of, **more
        )

    def _read_recent_turns(self, position: int, expected_count: int) -> list[Turn]:
        """The turns after a position, as of this moment; asked for from the end, so their number alone is what costs."""
        limit = min(expected_count + 14, 1_000)
        while True:
            try:
                page = self._reader.read(self._turn_query(newest_first=True, limit=limit))
            except StoreDamaged as error:
                self.recovered.append(f"A turn cannot be read and is left out ({_error_message(error)}).")
                page = list(self._iterate_readable_turns(position))
                limit = len(page) + 1
            recent = [record for record in page if record.seq > position]
            if len(recent) < len(page) or len(page) < limit:
                return [parse_turn(record) for record in reversed(recent)]
            limit *= 4

    def _read_settled_turns(self, position: int) -> list[Turn]:
        """The turns after a position, as far as nothing can come between them any more."""
        try:
            return [parse_turn(record) for record in self._reader.read(self._turn_query(after=position))]
        except StoreDamaged as error:
            self.recovered.append(f"A turn cannot be read and is left out ({_error_message(error)}).")
            return [parse_turn(record) for record in reversed(list(self._iterate_readable_turns(position)))]

    def _iterate_readable_turns(self, position: int) -> Iterator[Record]:
        """The turns after a position one by one, newest first, each that cannot be read left out."""
        before = self._reader.tip() + 1
        while before > position + 1:
            page = self._read_turn_before(before)
            if page is None:
                before = self._skip_unreadable(position, before)
            elif not page or page[0].seq <= position:
                return
            else:
                yield page[0]
                before = page[0].seq

    def _read_turn_before(self, position: int) -> list[Record] | None:
        """The newest turn before a position; ``None`` when it cannot be read."""
        try:
            return self._reader.read(self._turn_query(newest_first=True, before=position, limit=1))
        except StoreDamaged:
            return None

    def _skip_unreadable(self, position: int, before: int) -> int:
        """The highest position before which the newest turn can be read again: strides that double, then halving."""
        bad, stride = before, 1
        while (good := max(before - stride, position + 1)) > position + 1 and self._read_turn_before(good) is None:
            bad, stride = good, stride * 2
        while good < bad - 1:
            middle = (good + bad) // 2
            if self._read_turn_before(middle) is None:
                bad = middle
            else:
                good = middle
        return good

    def _read_facts(self, limit: int) -> list[Fact]:
        if not limit:
            return []
        query = Query(
            kinds=(FACT,), scopes=(self._scope,), labels=(fact_label(self._session_id),), as_of=self._as_of,
            newest_first=True, limit=limit,
        )  # fmt: skip
        try:
            return [parse_fact(record) for record in reversed(self._reader.read(query))]
        except StoreDamaged as error:
            self.recovered.append(f"The facts cannot be read ({_error_message(error)}).")
            return []


def _error_message(error: Exception) -> str:
    return str(getattr(error, "message", error)).rstrip(".")
