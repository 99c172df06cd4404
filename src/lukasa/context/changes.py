"""What changes of a session come to, as drafts: pure functions from what was and what shall be."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

from lukasa.clock import IdMaker
from lukasa.context.records import (
    FACT,
    MAX_TURNS_PER_SUMMARY_VERSION,
    fact_draft,
    fact_label,
    parse_turn,
    state_draft,
    summary_draft,
    turn_label,
)
from lukasa.context.state import Context, ConversationSummary, Fact, LoadedConversation, Turn
from lukasa.errors import InvalidInput
from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Link, Record, draft_from


def diff_turns(before: Sequence[Turn], now: Sequence[Turn]) -> tuple[list[Turn], list[Turn] | Refused]:
    """The turns gone from the beginning, and the new ones at the end; anything else is refused."""
    kept = [turn for turn in now if turn.id]
    fresh = [turn for turn in now if not turn.id]
    gone = len(before) - len(kept)
    if gone < 0 or list(before[gone:]) != kept or list(now[: len(kept)]) != kept:
        return [], Refused(
            "turns_changed",
            "Turns are appended, never changed: entries of the history may be added at its end and folded from its "
            "beginning. Load the context again and add what is new.",
        )
    refused = check_turns(fresh)
    return list(before[:gone]), fresh if refused is None else refused


def check_turns(turns: Sequence[Turn]) -> Refused | None:
    for turn in turns:
        if not turn.role:
            return Refused("bad_role", "A turn needs a role, such as user, assistant or tool.")
        if {turn.speaker.__class__, turn.tool_call_id.__class__} != {str}:
            return Refused("bad_turn", "The speaker and the tool_call_id of a turn are text.")
    return None


def summary_drafts(
    session_id: str, scope: str, origin: LoadedConversation, steps: Sequence[tuple[ConversationSummary, Sequence[Turn]]]
) -> list[Draft]:
    """Versions of the summary, one per step; only the first must find what the plan found."""
    drafts = []
    for nr, (summary, turns) in enumerate(steps):
        for start in range(0, max(1, len(turns)), MAX_TURNS_PER_SUMMARY_VERSION):
            first = not nr and not start
            drafts.append(
                summary_draft(
                    session_id, scope, summary, turns[start : start + MAX_TURNS_PER_SUMMARY_VERSION],
                    has_previous=bool(origin.summary_version) or not first, expected=origin.summary_version if first else None,
                )
            )  # fmt: skip
    return drafts


def fact_tombstone(scope: str, session_id: str, fact: Fact) -> Draft:
    return Draft(FACT, id=fact.id, scope=scope, origin="chat", labels=(fact_label(session_id),), deleted=True)


def tombstone(record: Record) -> Draft:
    return Draft(
        record.kind, id=record.id, scope=record.scope, author=record.author, origin="deletion", labels=record.labels,
        deleted=True,
    )  # fmt: skip


def fact_change_drafts(context: Context, scope: str) -> list[Draft]:
    """Facts that were written into the list of a context, and those that were taken out of it."""
    known = {fact.text: fact for fact in context.origin.facts}
    drafts: dict[str, Draft] = {}
    for text in context.facts:
        if not is_nonblank_text(text):
            raise InvalidInput("A fact is a sentence.")
        if text not in known:
            draft = fact_draft(context.session_id, scope, Fact(text, rule="told"), origin="chat")
            drafts.setdefault(draft.id, draft)
    there = set(context.facts)
    lost = [fact for text, fact in known.items() if text not in there and fact.id not in drafts]
    return [*drafts.values(), *(fact_tombstone(scope, context.session_id, fact) for fact in lost)]


def fork_drafts(
    session_id: str,
    new_session: str,
    scope: str,
    origin: LoadedConversation,
    records: Sequence[Record],
    new_id: IdMaker,
) -> list[Draft]:
    """A session that begins as another one stood: its turns as copies that know what they are derived from."""
    ids = {record.id: new_id() for record in records}
    state = deepcopy(dict(origin.state)) | {"fork": {"of": session_id, "at": records[-1].id if records else ""}}
    drafts = [state_draft(new_session, scope, state, origin.settings, expected=0, origin="fork")]
    drafts += [
        draft_from(
            record, id=ids[record.id], origin="fork", happened_at=record.moment, expected=0,
            labels=(turn_label(new_session), *(each for each in record.labels if not each.startswith("session="))),
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
        drafts += summary_drafts(
            new_session, scope, LoadedConversation(), [(replace(origin.latest_summary, edge=edge), folded)]
        )
    return drafts


def is_nonblank_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
