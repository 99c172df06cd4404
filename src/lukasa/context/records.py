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

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

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
from lukasa.core.clock import IdMaker
from lukasa.core.outcome import Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.errors import InvalidInput, StoreDamaged
from lukasa.storage.engine import AsOf, Query, Reader
from lukasa.storage.parsed_records import ParsedRecords

TURN, CONTEXT, SUMMARY, FACT = "turn", "context", "summary", "fact"
MAX_TURNS_PER_SUMMARY_VERSION = 900
"""A record has at most a thousand links; a larger fold becomes several versions of the summary in one batch."""
_MAX_VERSION_GAP = 100

T = TypeVar("T")
PositionedTurns = ParsedRecords[tuple[int, Turn]]


class ConversationRecords(NamedTuple):
    """Keys, queries and drafts of one conversation's records."""

    id: str
    scope: str

    def __str__(self) -> str:
        return f"conversation {self.id!r} in the scope {self.scope!r}"

    def not_found(self) -> Refused:
        """Return the refusal to change a conversation that does not exist."""
        return Refused("not_found", f"There is no {self}.")

    def key(self, kind: str) -> Key:
        """Return the key of the state or the summary."""
        return Key(self.scope, kind, self.id)

    @property
    def turn_label(self) -> str:
        """The label of the turns."""
        return f"session={self.id}"

    @property
    def fact_label(self) -> str:
        """The label of the facts."""
        return f"context={self.id}"

    def turn_query(self, **more: Any) -> Query:
        """Return the query for the turns; ``more`` are further fields of ``Query``."""
        return Query(kinds=(TURN,), scopes=(self.scope,), labels=(self.turn_label,), **more)

    def fact_query(self, **more: Any) -> Query:
        """Return the query for the facts; ``more`` are further fields of ``Query``."""
        return Query(kinds=(FACT,), scopes=(self.scope,), labels=(self.fact_label,), **more)

    def turn_draft(self, turn: Turn, *, author: str, origin: str, tokens: int, counted_by: str) -> Draft:
        """Draft a turn. The speaker is in its body, and in a label unless the owner names the speaker as the author.

        What nobody said is in the body, not in the text, so that no index and no rule reads it.
        """
        optional = {
            "speaker": turn.speaker,
            "tool_calls": [dict(call) for call in turn.tool_calls],
            "tool_call_id": turn.tool_call_id,
            "extra": dict(turn.extra),
            "unsaid": turn.content if turn.is_unsaid else "",
        }
        body: dict[str, Any] = {"role": turn.role, "tokens": tokens, "counted_by": counted_by}
        body |= {name: value for name, value in optional.items() if value}
        labels = (self.turn_label,) if author else (self.turn_label, f"speaker={turn.name}")
        return Draft(
            TURN, "" if turn.is_unsaid else turn.content, body, id=turn.id, scope=self.scope, author=author, origin=origin, labels=labels,
            happened_at=turn.timestamp,
        )  # fmt: skip

    def state_draft(
        self, state: Mapping[str, Any], settings: ConversationSettings, *, expected: int | None, origin: str
    ) -> Draft:
        """Draft the state record, with the settings that are not defaults."""
        differing = settings.non_default_values()
        body = {**state, "settings": differing} if differing else dict(state)
        return Draft(CONTEXT, body=body, id=self.id, scope=self.scope, origin=origin, expected=expected)

    def summary_drafts(
        self, loaded_version: int, steps: Sequence[tuple[ConversationSummary, Sequence[Turn]]]
    ) -> list[Draft]:
        """Draft a version of the summary for each step of a fold, or several where a step has too many turns for one.

        Each version is derived from the turns it folds and from the version before it. Only the first must find the
        version that was loaded; the others follow in the same batch.
        """
        drafts: list[Draft] = []
        for summary, turns in steps:
            body = asdict(summary) | {
                "lines": [[line.text, line.worth, line.round] for line in summary.lines],
                "edge": list(summary.edge),
            }
            for name in ("why", "sorted_position"):
                if not body[name]:
                    del body[name]
            for start in range(0, max(1, len(turns)), MAX_TURNS_PER_SUMMARY_VERSION):
                folded = turns[start : start + MAX_TURNS_PER_SUMMARY_VERSION]
                sources = [Key(self.scope, TURN, turn.id) for turn in folded]
                if loaded_version or drafts:
                    sources.append(self.key(SUMMARY))
                drafts.append(
                    Draft(
                        SUMMARY, body=body, id=self.id, scope=self.scope, origin="compaction",
                        links=tuple(Link(DERIVED_FROM, source) for source in sources),
                        expected=None if drafts else loaded_version,
                    )
                )  # fmt: skip
        return drafts

    def fact_draft(self, fact: Fact, *, origin: str) -> Draft:
        """Draft a fact, derived from the turn that stated it."""
        body = {name: value for name, value in (("slot", fact.slot), ("rule", fact.rule), ("turn", fact.turn)) if value}
        links = (Link(DERIVED_FROM, Key(self.scope, TURN, fact.turn)),) if fact.turn else ()
        return Draft(
            FACT, fact.text, body, id=fact.id or fact_id(self.id, fact), scope=self.scope, origin=origin, links=links,
            labels=(self.fact_label,),
        )  # fmt: skip

    def fact_tombstone(self, fact: Fact) -> Draft:
        """Draft the deletion of a fact."""
        return Draft(FACT, id=fact.id, scope=self.scope, origin="chat", labels=(self.fact_label,), deleted=True)

    def fact_change_drafts(self, texts: Sequence[str], loaded: Sequence[Fact]) -> list[Draft]:
        """Draft the facts added to a list since it was loaded, and tombstones of those removed from it."""
        known = {fact.text: fact for fact in loaded}
        drafts: dict[str, Draft] = {}
        for text in texts:
            if not is_nonblank_text(text):
                raise InvalidInput("A fact is a sentence.")
            if text not in known:
                draft = self.fact_draft(Fact(text, rule="told"), origin="chat")
                drafts.setdefault(draft.id, draft)
        listed = set(texts)
        removed = [fact for text, fact in known.items() if text not in listed and fact.id not in drafts]
        return [*drafts.values(), *map(self.fact_tombstone, removed)]

    def fork_drafts(
        self, source: ConversationRecords, origin: LoadedConversation, turns: Sequence[Record], new_id: IdMaker,
        *, keep_authors: bool,
    ) -> list[Draft]:  # fmt: skip
        """Draft this conversation as a copy of a loaded one; its turns are derived from those of the source."""
        ids = {record.id: new_id() for record in turns}
        state = deepcopy(dict(origin.state)) | {"fork": {"of": source.id, "at": turns[-1].id if turns else ""}}
        replaced = ("session=",) if keep_authors else ("session=", "speaker=")
        drafts = [self.state_draft(state, origin.settings, expected=0, origin="fork")]
        drafts += [
            draft_from(
                record, id=ids[record.id], origin="fork", happened_at=record.moment, expected=0,
                body=record.body if keep_authors or "role" in record.body else {"speaker": record.speaker, **record.body},
                author=record.author if keep_authors else "",
                labels=(
                    self.turn_label, *(label for label in record.labels if not label.startswith(replaced)),
                    *(() if keep_authors else (f"speaker={record.speaker}",)),
                ),
                links=(*record.links, Link(DERIVED_FROM, record.key)),
            )
            for record in turns
        ]  # fmt: skip
        drafts += [
            self.fact_draft(replace(fact, id="", turn=ids.get(fact.turn, "")), origin="fork") for fact in origin.facts
        ]
        if origin.summary_version:
            folded = [record for record in turns if record.seq <= origin.folded_position]
            copies = [replace(parse_turn(record), id=ids[record.id]) for record in folded]
            edge = tuple(ids[id] for id in origin.latest_summary.edge if id in ids)
            drafts += self.summary_drafts(0, [(replace(origin.latest_summary, edge=edge), copies)])
        return drafts


def parse_turn(record: Record) -> Turn:
    """Parse a turn; replace fields of the wrong type by defaults, since other programs may have written the record."""
    body = record.body
    role, tokens = body.get("role"), body.get("tokens")
    calls, extra = body.get("tool_calls"), body.get("extra")
    speaker = body.get("speaker", "" if role else record.author)
    return Turn(
        role=role if isinstance(role, str) and role else "user",
        content=turn_content(record),
        timestamp=record.moment,
        token_count=tokens if type(tokens) is int else None,
        speaker=speaker if isinstance(speaker, str) else "",
        tool_calls=tuple(calls) if isinstance(calls, list) else (),
        tool_call_id=str(body.get("tool_call_id", "")),
        extra=extra if isinstance(extra, Mapping) else {},
        id=record.id,
        is_unsaid=bool(body.get("unsaid")),
    )


def turn_content(record: Record) -> str:
    """Return what a turn says: its text, or the tool call or output in its body."""
    unsaid = record.body.get("unsaid")
    return unsaid if isinstance(unsaid, str) and unsaid else record.text


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


def parse_summary(body: Mapping[str, Any]) -> ConversationSummary:
    """Parse a summary; raise ``InvalidInput`` when the body is not that of a summary record."""
    try:
        summary = ConversationSummary(
            text=body["text"],
            lines=tuple(SummaryLine(str(text), float(worth), int(round)) for text, worth, round in body["lines"]),
            edge=tuple(map(str, body["edge"])),
            by=str(body["by"]),
            why=str(body.get("why", "")),
            sorted_position=int(body.get("sorted_position", 0)),
            **{name: int(body[name]) for name in ("tokens", "turns", "folded_tokens", "rounds")},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput("it has not the fields of a summary") from error
    if not isinstance(summary.text, str):
        raise InvalidInput("its text is not text")
    return summary


def parse_fact(record: Record) -> Fact:
    """Parse a fact."""
    body = record.body
    return Fact(record.text, str(body.get("slot", "")), str(body.get("rule", "")), record.id, str(body.get("turn", "")))


def is_nonblank_text(value: object) -> bool:
    """Check that a value is text with more than white space in it."""
    return isinstance(value, str) and bool(value.strip())


class ParsedConversations:
    """Parts of conversations that were parsed before: turns and facts with their positions, others with their versions."""

    def __init__(self) -> None:
        self.turns = ParsedRecords(lambda record: (record.seq, parse_turn(record)))
        self.facts = ParsedRecords(lambda record: (record.seq, parse_fact(record)))
        self.newest: Mapping[str, ParsedRecords[tuple[int, Any]]] = {
            CONTEXT: ParsedRecords(lambda record: (record.version, parse_state(record.body))),
            SUMMARY: ParsedRecords(lambda record: (record.version, parse_summary(record.body))),
        }

    def read_newest_turns(
        self, read: Callable[[Query, PositionedTurns], list[tuple[int, Turn]]], query: Query, position: int, limit: int
    ) -> list[tuple[int, Turn]]:
        """Read the turns after a position from the end, so that the cost depends on their number; return newest first."""
        while True:
            page = read(replace(query, newest_first=True, limit=limit), self.turns)
            recent = [entry for entry in page if entry[0] > position]
            if len(recent) < len(page) or len(page) < limit:
                return recent
            limit *= 4


class ConversationReader:
    """One conversation in one snapshot of the log. ``recovered`` names the damage met while reading."""

    def __init__(
        self,
        reader: Reader,
        conversation: ConversationRecords,
        as_of: AsOf | None = None,
        parsed: ParsedConversations | None = None,
    ) -> None:
        self._reader = reader
        self._conversation = conversation
        self._as_of = as_of
        self._parsed = parsed or ParsedConversations()
        self.recovered: list[str] = []
        self._reported: set[int] = set(reader.damaged)

    def load(self, *, settled_only: bool = False) -> LoadedConversation | None:
        """Read state, summary, recent turns and facts; return None where the conversation has no records.

        ``settled_only`` leaves out turns before which another turn may still be committed: a fold must be final.
        """
        version, (state, settings) = self.read_latest_valid(CONTEXT, parse_state, (default_state(), DEFAULT_SETTINGS))
        summary_version, summary = self.read_latest_valid(SUMMARY, parse_summary, NO_SUMMARY)
        position = self._find_folded_position(summary)
        turns = self._read_turns(position, settings.entries, settled_only=settled_only)
        facts, facts_position = self._read_facts(settings.facts, summary.sorted_position)
        if not (version or summary_version or turns or facts or self.recovered):
            return None
        return LoadedConversation(
            version, summary_version, state, settings, summary, tuple(turns), tuple(facts), position, facts_position
        )

    def read_latest_valid(self, kind: str, parse: Callable[[Mapping[str, Any]], T], default: T) -> tuple[int, T]:
        """Return the newest version number of a record and its newest version that parses, or ``default``."""
        key = self._conversation.key(kind)
        try:
            if self._as_of is None:
                newest = self._reader.get_parsed(key, self._parsed.newest[kind])
            else:
                record = self._reader.get(key, as_of=self._as_of)
                newest = None if record is None else (record.version, parse(record.body))
            return (0, default) if newest is None else newest
        except (StoreDamaged, InvalidInput) as error:
            version, best = self._find_valid_version(key, parse)
            used = "an empty one serves instead" if best is None else f"version {best[0]} serves instead"
            self.recovered.append(f"The {kind} record of the conversation is damaged ({_message(error)}); {used}.")
            return version, default if best is None else best[1]

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
                history = self._reader.history(Key(self._conversation.scope, TURN, id))
            except StoreDamaged:
                continue
            if history and history[0].version == 1:
                return history[0].seq
        if summary.edge:
            self.recovered.append("The newest folded turns are gone; the recent view shows the whole transcript.")
        return 0

    def _read_turns(self, position: int, expected_count: int, *, settled_only: bool) -> list[Turn]:
        """Read the turns after a position; settled ones end where another turn may still be committed."""
        query, limit = self._conversation.turn_query(as_of=self._as_of), min(expected_count + 14, 1_000)
        try:
            if settled_only:
                turns = self._reader.read_parsed(replace(query, after=position), self._parsed.turns)
            else:
                turns = self._parsed.read_newest_turns(self._reader.read_parsed, query, position, limit)[::-1]
        except StoreDamaged as error:
            self.recovered.append(f"A turn cannot be read and is left out ({_message(error)}).")
            readable = self._read_readable_turns(position, self._reader.tip() + 1)
            turns = [(record.seq, parse_turn(record)) for record in readable]
        self._report_damage("turns")
        return [turn for _, turn in turns]

    def _read_readable_turns(self, after: int, before: int) -> list[Record]:
        """Read the turns between two positions without the damaged ones: halve a range that cannot be read."""
        try:
            return self._reader.read(self._conversation.turn_query(as_of=self._as_of, after=after, before=before))
        except StoreDamaged:
            if before - after <= 2:
                return []
            middle = (after + before) // 2
            return [*self._read_readable_turns(after, middle + 1), *self._read_readable_turns(middle, before)]

    def _read_facts(self, limit: int, sorted_position: int) -> tuple[list[Fact], int]:
        """Read the newest facts and the position of the last: those up to ``sorted_position`` sorted, then by age."""
        if not limit:
            return [], 0
        query = self._conversation.fact_query(as_of=self._as_of, newest_first=True, limit=limit)
        try:
            facts = self._reader.read_parsed(query, self._parsed.facts)[::-1]
        except StoreDamaged as error:
            self.recovered.append(f"The facts cannot be read ({_message(error)}).")
            return [], 0
        self._report_damage("facts")
        newest = facts[-1][0] if facts else 0
        facts.sort(key=lambda fact: (False, fact[1].text, 0) if fact[0] <= sorted_position else (True, "", fact[0]))
        return [fact for _, fact in facts], newest

    def _report_damage(self, what: str) -> None:
        if left_out := self._reader.damaged - self._reported:
            self._reported |= left_out
            self.recovered.append(
                f"{len(left_out)} damaged {what} cannot be read and are left out; run `lukasa verify`."
            )


def _message(error: Exception) -> str:
    return str(getattr(error, "message", error)).rstrip(".")
