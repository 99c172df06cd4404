"""Conversations as records: drafts to write, parsers, and ``ConversationReader``.

    turn      one per message; the label ``session=ID`` groups them, in the order of the log
    context   the state of a conversation: tasks, counters, environment, settings; its id is that of the conversation
    summary   the text that replaces the folded turns; its id is that of the conversation; derived from those turns
    fact      one per fact; the label ``context=ID`` groups them; derived from the turn that stated it

A turn is never rewritten and shares no record with another turn, so any number of writers may append at once. The recent
view is every turn in the log after the newest folded one. The summary names that turn by its id, not by its position, so
that a conversation can be copied to another store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, TypeVar

from lukasa.clock import IdMaker
from lukasa.context.facts import fact_id
from lukasa.context.state import (
    DEFAULT_SETTINGS,
    NO_SUMMARY,
    STATE_FIELDS,
    Context,
    ConversationSettings,
    ConversationSummary,
    Fact,
    LoadedConversation,
    SummaryLine,
    Turn,
    default_state,
)
from lukasa.errors import InvalidInput, StoreDamaged
from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.storage.engine import AsOf, Query, Reader

TURN, CONTEXT, SUMMARY, FACT = "turn", "context", "summary", "fact"
MAX_TURNS_PER_SUMMARY_VERSION = 900
"""A record has at most a thousand links; a larger fold becomes several versions of the summary in one batch."""
_MAX_VERSION_GAP = 100

T = TypeVar("T")


# Turns


def turn_label(session_id: str) -> str:
    """Return the label of a conversation's turns."""
    return f"session={session_id}"


def turn_query(session_id: str, scope: str, **more: Any) -> Query:
    """Return the query for a conversation's turns; ``more`` are further fields of ``Query``."""
    return Query(kinds=(TURN,), scopes=(scope,), labels=(turn_label(session_id),), **more)


def read_newest_records(
    read: Callable[[Query], Iterable[Record]], newest_first: Query, position: int, limit: int
) -> list[Record]:
    """Read the records after a position from the end, so that the cost depends on their number; return newest first."""
    while True:
        page = list(read(replace(newest_first, limit=limit)))
        recent = [record for record in page if record.seq > position]
        if len(recent) < len(page) or len(page) < limit:
            return recent
        limit *= 4


def turn_draft(session_id: str, scope: str, turn: Turn, *, id: str, by: str, origin: str, counted_by: str) -> Draft:
    """Draft a turn. Its author is the speaker; a label names the agent that wrote it, if that is another."""
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
    """Parse a turn; replace fields of the wrong type by defaults, since other programs may have written the record."""
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


def check_turns(turns: Sequence[Turn]) -> Refused | None:
    """Refuse turns without a role, or whose speaker or tool_call_id is not text; return None when all are valid."""
    for turn in turns:
        if not turn.role:
            return Refused("bad_role", "A turn needs a role, such as user, assistant or tool.")
        if {turn.speaker.__class__, turn.tool_call_id.__class__} != {str}:
            return Refused("bad_turn", "The speaker and the tool_call_id of a turn are text.")
    return None


def diff_turns(before: Sequence[Turn], now: Sequence[Turn]) -> tuple[list[Turn], list[Turn] | Refused]:
    """Return the turns removed from the beginning and those added at the end; refuse any other change."""
    kept = [turn for turn in now if turn.id]
    added = [turn for turn in now if not turn.id]
    removed = len(before) - len(kept)
    if removed < 0 or list(before[removed:]) != kept or list(now[: len(kept)]) != kept:
        return [], Refused(
            "turns_changed",
            "Turns are appended, never changed: entries of the history may be added at its end and folded from its "
            "beginning. Load the context again and add what is new.",
        )
    refused = check_turns(added)
    return list(before[:removed]), added if refused is None else refused


# State


def state_draft(
    session_id: str,
    scope: str,
    state: Mapping[str, Any],
    settings: ConversationSettings,
    *,
    expected: int | None,
    origin: str,
) -> Draft:
    """Draft the state record of a conversation, with the settings that are not defaults."""
    body = dict(state)
    if differing := settings.non_default_values():
        body["settings"] = differing
    return Draft(CONTEXT, body=body, id=session_id, scope=scope, origin=origin, expected=expected)


def parse_state(body: Mapping[str, Any]) -> tuple[dict[str, Any], ConversationSettings]:
    """Parse state and settings; raise ``InvalidInput`` when the body is not that of a state record."""
    state = default_state()
    for name in STATE_FIELDS:
        value = body.get(name, state[name])
        if not isinstance(value, type(state[name])):
            raise InvalidInput(f"the field {name} is not {'a list' if isinstance(state[name], list) else 'an object'}")
        state[name] = value
    if not all(isinstance(task, dict) for task in state["active_tasks"]):
        raise InvalidInput("a task is not an object")
    for name in ("extra", "fork", "settings"):
        if not isinstance(body.get(name, {}), dict):
            raise InvalidInput(f"the field {name} is not an object")
    state |= {name: body[name] for name in ("extra", "fork") if body.get(name)}
    return state, DEFAULT_SETTINGS.with_changes(body.get("settings", {}))


# Summary


def summary_drafts(
    session_id: str, scope: str, origin: LoadedConversation, steps: Sequence[tuple[ConversationSummary, Sequence[Turn]]]
) -> list[Draft]:
    """Draft a version of the summary for each step of a fold, or several where a step has too many turns for one.

    Each version is derived from the turns it folds and from the version before it. Only the first must find the version
    that was loaded; the others follow in the same batch.
    """
    drafts = []
    for number, (summary, turns) in enumerate(steps):
        body = asdict(summary) | {
            "lines": [[line.text, line.worth, line.round] for line in summary.lines],
            "edge": list(summary.edge),
        }
        if not summary.why:
            del body["why"]
        for start in range(0, max(1, len(turns)), MAX_TURNS_PER_SUMMARY_VERSION):
            is_first = not number and not start
            folded = turns[start : start + MAX_TURNS_PER_SUMMARY_VERSION]
            links = [Link(DERIVED_FROM, Key(scope, TURN, turn.id)) for turn in folded]
            if origin.summary_version or not is_first:
                links.append(Link(DERIVED_FROM, Key(scope, SUMMARY, session_id)))
            drafts.append(
                Draft(
                    SUMMARY, body=body, id=session_id, scope=scope, origin="compaction", links=tuple(links),
                    expected=origin.summary_version if is_first else None,
                )
            )  # fmt: skip
    return drafts


def parse_summary(body: Mapping[str, Any]) -> ConversationSummary:
    """Parse a summary; raise ``InvalidInput`` when the body is not that of a summary record."""
    try:
        summary = ConversationSummary(
            text=body["text"],
            lines=tuple(SummaryLine(str(text), float(worth), int(round)) for text, worth, round in body["lines"]),
            edge=tuple(map(str, body["edge"])),
            by=str(body["by"]),
            why=str(body.get("why", "")),
            **{name: int(body[name]) for name in ("tokens", "turns", "folded_tokens", "rounds")},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput("it has not the fields of a summary") from error
    if not isinstance(summary.text, str):
        raise InvalidInput("its text is not text")
    return summary


# Facts


def fact_query(session_id: str, scope: str, **more: Any) -> Query:
    """Return the query for a conversation's facts; ``more`` are further fields of ``Query``."""
    return Query(kinds=(FACT,), scopes=(scope,), labels=(fact_label(session_id),), **more)


def fact_label(session_id: str) -> str:
    """Return the label of a conversation's facts."""
    return f"context={session_id}"


def fact_draft(session_id: str, scope: str, fact: Fact, *, origin: str) -> Draft:
    """Draft a fact, derived from the turn that stated it."""
    body = {name: value for name, value in (("slot", fact.slot), ("rule", fact.rule), ("turn", fact.turn)) if value}
    links = (Link(DERIVED_FROM, Key(scope, TURN, fact.turn)),) if fact.turn else ()
    return Draft(
        FACT, fact.text, body, id=fact.id or fact_id(session_id, fact), scope=scope, origin=origin, links=links,
        labels=(fact_label(session_id),),
    )  # fmt: skip


def fact_tombstone(session_id: str, scope: str, fact: Fact) -> Draft:
    """Draft the deletion of a fact."""
    return Draft(FACT, id=fact.id, scope=scope, origin="chat", labels=(fact_label(session_id),), deleted=True)


def parse_fact(record: Record) -> Fact:
    """Parse a fact."""
    body = record.body
    return Fact(record.text, str(body.get("slot", "")), str(body.get("rule", "")), record.id, str(body.get("turn", "")))


def fact_change_drafts(context: Context, scope: str) -> list[Draft]:
    """Draft the facts added to the list of a context, and tombstones of those removed from it."""
    known = {fact.text: fact for fact in context.origin.facts}
    drafts: dict[str, Draft] = {}
    for text in context.facts:
        if not is_nonblank_text(text):
            raise InvalidInput("A fact is a sentence.")
        if text not in known:
            draft = fact_draft(context.session_id, scope, Fact(text, rule="told"), origin="chat")
            drafts.setdefault(draft.id, draft)
    listed = set(context.facts)
    removed = [fact for text, fact in known.items() if text not in listed and fact.id not in drafts]
    return [*drafts.values(), *(fact_tombstone(context.session_id, scope, fact) for fact in removed)]


def is_nonblank_text(value: object) -> bool:
    """Check that a value is text with more than white space in it."""
    return isinstance(value, str) and bool(value.strip())


# Whole conversations


def fork_drafts(
    session_id: str,
    new_session: str,
    scope: str,
    origin: LoadedConversation,
    records: Sequence[Record],
    new_id: IdMaker,
) -> list[Draft]:
    """Draft a new conversation from a loaded one; its turns are copies, derived from the turn ``records``."""
    ids = {record.id: new_id() for record in records}
    state = deepcopy(dict(origin.state)) | {"fork": {"of": session_id, "at": records[-1].id if records else ""}}
    drafts = [state_draft(new_session, scope, state, origin.settings, expected=0, origin="fork")]
    drafts += [
        draft_from(
            record, id=ids[record.id], origin="fork", happened_at=record.moment, expected=0,
            labels=(turn_label(new_session), *(label for label in record.labels if not label.startswith("session="))),
            links=(*record.links, Link(DERIVED_FROM, record.key)),
        )
        for record in records
    ]  # fmt: skip
    drafts += [
        fact_draft(new_session, scope, replace(fact, id="", turn=ids.get(fact.turn, "")), origin="fork")
        for fact in origin.facts
    ]
    if origin.summary_version:
        edge = tuple(ids[id] for id in origin.latest_summary.edge if id in ids)
        folded = [
            replace(parse_turn(record), id=ids[record.id]) for record in records if record.seq <= origin.folded_position
        ]
        summary = replace(origin.latest_summary, edge=edge)
        drafts += summary_drafts(new_session, scope, LoadedConversation(), [(summary, folded)])
    return drafts


class ConversationReader:
    """One conversation in one snapshot of the log. ``recovered`` names the damage met while reading."""

    def __init__(self, reader: Reader, session_id: str, scope: str, as_of: AsOf | None = None) -> None:
        self._reader = reader
        self._session_id = session_id
        self._scope = scope
        self._as_of = as_of
        self.recovered: list[str] = []

    def load(self, *, settled_only: bool = False) -> LoadedConversation | None:
        """Read state, summary, recent turns and facts; return None where the conversation has no records.

        ``settled_only`` leaves out turns before which another turn may still be committed: a fold must be final.
        """
        version, (state, settings) = self.read_latest_valid(CONTEXT, parse_state, (default_state(), DEFAULT_SETTINGS))
        summary_version, summary = self.read_latest_valid(SUMMARY, parse_summary, NO_SUMMARY)
        position = self._find_folded_position(summary)
        turns = self._read_turns(position, settings.entries, settled_only=settled_only)
        facts = self._read_facts(settings.facts)
        if not (version or summary_version or turns or facts or self.recovered):
            return None
        return LoadedConversation(
            version, summary_version, state, settings, summary, tuple(turns), tuple(facts), position
        )

    def read_latest_valid(self, kind: str, parse: Callable[[Mapping[str, Any]], T], default: T) -> tuple[int, T]:
        """Return the newest version number of a record and its newest version that parses, or ``default``."""
        key = Key(self._scope, kind, self._session_id)
        try:
            record = self._reader.get(key, as_of=self._as_of)
            return (0, default) if record is None else (record.version, parse(record.body))
        except (StoreDamaged, InvalidInput) as error:
            newest, best = self._find_valid_version(key, parse)
            used = "an empty one serves instead" if best is None else f"version {best[0]} serves instead"
            self.recovered.append(f"The {kind} record of the conversation is damaged ({_message(error)}); {used}.")
            return newest, default if best is None else best[1]

    def _find_valid_version(
        self, key: Key, parse: Callable[[Mapping[str, Any]], T]
    ) -> tuple[int, tuple[int, T] | None]:
        """Read the versions one by one; return the newest number, and the newest version up to ``as_of`` that parses."""
        newest, best, version = 0, None, 0
        while version < newest + _MAX_VERSION_GAP:  # dropped or deleted versions leave gaps
            version += 1
            try:
                record = self._reader.get(key, version=version)
                if record is None:
                    continue
                newest = version
                if isinstance(self._as_of, datetime):
                    is_visible = record.recorded_at <= self._as_of
                else:
                    is_visible = self._as_of is None or record.seq <= self._as_of
                if is_visible:
                    best = (version, parse(record.body))
            except StoreDamaged:
                newest = version
            except InvalidInput:
                continue
        return newest, best

    def _find_folded_position(self, summary: ConversationSummary) -> int:
        """Return the position after which the recent view begins."""
        for id in summary.edge:
            try:
                history = self._reader.history(Key(self._scope, TURN, id))
            except StoreDamaged:
                continue
            if history and history[0].version == 1:
                return history[0].seq
        if summary.edge:
            self.recovered.append("The newest folded turns are gone; the recent view shows the whole transcript.")
        return 0

    def _turn_query(self, **more: Any) -> Query:
        return turn_query(self._session_id, self._scope, as_of=self._as_of, **more)

    def _read_turns(self, position: int, expected_count: int, *, settled_only: bool) -> list[Turn]:
        """Read the turns after a position; settled ones end where another turn may still be committed."""
        try:
            if settled_only:
                records = self._reader.read(self._turn_query(after=position))
            else:
                limit = min(expected_count + 14, 1_000)
                records = read_newest_records(self._reader.read, self._turn_query(newest_first=True), position, limit)[
                    ::-1
                ]
        except StoreDamaged as error:
            self.recovered.append(f"A turn cannot be read and is left out ({_message(error)}).")
            records = list(self._iterate_readable_turns(position))[::-1]
        return [parse_turn(record) for record in records]

    def _iterate_readable_turns(self, position: int) -> Iterator[Record]:
        """Read the turns after a position one by one, newest first, and skip the damaged ones."""
        before = self._reader.tip() + 1
        while before > position + 1:
            page = self._read_turn_before(before)
            if page is None:
                before = self._skip_damaged(position, before)
            elif not page or page[0].seq <= position:
                return
            else:
                yield page[0]
                before = page[0].seq

    def _read_turn_before(self, position: int) -> list[Record] | None:
        """Return the newest turn before a position, or None when it is damaged."""
        try:
            return self._reader.read(self._turn_query(newest_first=True, before=position, limit=1))
        except StoreDamaged:
            return None

    def _skip_damaged(self, position: int, before: int) -> int:
        """Find the highest position before which the newest turn can be read: double the stride, then bisect."""
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
        """Read the newest facts, oldest first."""
        if not limit:
            return []
        query = fact_query(self._session_id, self._scope, as_of=self._as_of, newest_first=True, limit=limit)
        try:
            return [parse_fact(record) for record in reversed(self._reader.read(query))]
        except StoreDamaged as error:
            self.recovered.append(f"The facts cannot be read ({_message(error)}).")
            return []


def _message(error: Exception) -> str:
    return str(getattr(error, "message", error)).rstrip(".")
