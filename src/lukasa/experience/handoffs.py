"""Handoffs: work passed from one agent to another.

    unread ──► read ──► accepted ──► completed
       └───────────────────┘ reopen and reassign set it back to unread, for the agent that takes over

Each change is a version of one record, made inside the write lock, so two agents cannot both accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_fields import BodyField, object_field, text_field
from lukasa.core.clock import Clock, from_iso, to_iso
from lukasa.core.extra_fields import refuse_known_fields
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput
from lukasa.experience.readable_ids import free_ids
from lukasa.experience.record_view import RecordView, change_by_id, order_fields, read_by_id
from lukasa.journal import CallerService, Journal
from lukasa.storage.engine import Query, Reader

HANDOFF = "handoff"
HandoffStatus = Literal["unread", "read", "accepted", "completed"]
STATUSES: tuple[HandoffStatus, ...] = ("unread", "read", "accepted", "completed")
_FIELDS = ("id", "from_agent", "to_agent", "timestamp", "context")
_STATUS_FIELDS = ("status", "read_at", "accepted_at", "accepted_by", "completed_at", "result")


@dataclass(frozen=True, slots=True)
class Handoff(RecordView):
    """A handoff, read from its record."""

    from_agent = text_field("from_agent")
    to_agent = text_field("to_agent")
    context = object_field("context")
    status = BodyField[HandoffStatus]("status", lambda status: status if status in STATUSES else "unread")

    @property
    def timestamp(self) -> datetime:
        return self.record.moment

    @property
    def what_was_done(self) -> str:
        return str(self.context.get("what_was_done", ""))

    def as_json(self) -> dict[str, Any]:
        """Return the handoff as its document writes it; the status fields follow once it has been read."""
        body = _without_status_fields(self.record.body) if self.status == "unread" else self.record.body
        return order_fields({"id": self.id, **body}, _FIELDS)


@check_arguments
class Handoffs(CallerService):
    """The handoff service of one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def create(
        self, to_agent: str, what_was_done: str, *, from_agent: str = "", artifacts: Sequence[str] = (),
        git_state: str = "", needs_testing: Sequence[str] = (), known_issues: Sequence[str] = (),
        relevant_patterns: Sequence[str] = (), scope: str = SHARED, key: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:  # fmt: skip
        """Hand work over. It stays in the receiver's inbox until it is completed, even if either agent dies.

        Args:
            to_agent: Who gets the work.
            what_was_done: What is done and what is left, in plain words.
            from_agent: Who hands over; default: the caller.
            artifacts: The files that the work is in.
            git_state: The branch and commit that the work is on.
            needs_testing: What the next agent should test.
            known_issues: What does not work yet.
            relevant_patterns: The ids of patterns that help with the work.
            scope: The scope to write to.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna", needs_testing=["empty fields"])
        """
        context = {
            "what_was_done": what_was_done, "artifacts": list(artifacts), "git_state": git_state,
            "needs_testing": list(needs_testing), "known_issues": list(known_issues),
            "relevant_patterns": list(relevant_patterns),
        }  # fmt: skip
        if (refused := refuse_known_fields(extra, (*_FIELDS, *_STATUS_FIELDS, *context))) is not None:
            return refused
        document = {
            "from_agent": from_agent or self._journal.author,
            "to_agent": to_agent,
            "context": context | dict(extra or {}),
        }
        return self.put(document, scope=scope, key=key)

    def put(
        self, fields: Mapping[str, Any], *, scope: str = SHARED, origin: str = "manual", key: str | None = None
    ) -> Outcome:
        """Store a handoff document. A document whose handoff is already stored changes nothing.

        Args:
            fields: The document of the handoff.
            scope: The scope to write to.
            origin: Where the record comes from, in one word.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            memory.handoffs.put({"from_agent": "anna", "to_agent": "ben", "context": {"what_was_done": "The form"}})
        """
        body = {name: value for name, value in fields.items() if name != "id"}
        for name in ("from_agent", "to_agent"):
            if not isinstance(body.get(name), str) or not body[name]:
                return Refused("bad_handoff", f"A handoff needs a {name}.")
        if (refused := self._journal.check_author(body["from_agent"])) is not None:
            return refused
        if not isinstance(body.get("context"), dict):
            return Refused("bad_handoff", "The context of a handoff must be an object.")
        if body.setdefault("status", "unread") not in STATUSES:
            return Refused("bad_handoff", f"The status is one of {', '.join(STATUSES)}.")
        timestamp = body.get("timestamp")
        try:
            body["timestamp"] = to_iso(self._clock.now() if timestamp is None else from_iso(str(timestamp)))
        except InvalidInput as error:
            return Refused("bad_handoff", f"timestamp: {error.message}")
        id = fields.get("id", "")
        if not isinstance(id, str):
            return Refused("bad_id", "The id must be text.")

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, HANDOFF, id)) if id else None
            if known is not None and timestamp is None:
                body["timestamp"] = known.body["timestamp"]
            if known is not None and _without_status_fields(known.body) == _without_status_fields(body):
                return []
            name = id or next(free_ids(reader, HANDOFF, "handoff-", scope))
            return [_handoff_draft(body, name, scope, origin, None if id else 0)]

        return self._journal.append_if(build_drafts, key=key)

    def get(self, id: str, *, scope: str | None = None) -> Handoff | None:
        """Return a handoff, or None.

        Args:
            id: The id of the handoff.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna").unwrap()
            memory.handoffs.get(kept.id)
        """
        record = read_by_id(self._journal, HANDOFF, id, scope)
        return None if record is None else Handoff(record)

    def inbox(self, agent: str = "", *, completed: bool = False) -> list[Handoff]:
        """Return the handoffs that wait for an agent, the oldest first; completed ones only on request.

        The owner of the store who names no agent gets the handoffs of all agents.

        Args:
            agent: The agent; default: the caller.
            completed: Return completed ones too.

        Example:
            memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna")
            memory.handoffs.inbox("ben")
        """
        name = agent or self._journal.author
        own = (f"inbox={name}",) if name else ()
        statuses = STATUSES if completed else STATUSES[:-1]
        return self._read_sorted(*((*own, f"status={status}") for status in statuses))

    def sent(self, agent: str = "") -> list[Handoff]:
        """Return the handoffs from an agent, the oldest first; for the owner who names no agent, those of all agents.

        Args:
            agent: The agent; default: the caller.

        Example:
            memory.handoffs.sent("anna")
        """
        name = agent or self._journal.author
        return self._read_sorted((f"from={name}",) if name else ())

    def _read_sorted(self, *label_sets: tuple[str, ...]) -> list[Handoff]:
        queries = [Query(kinds=(HANDOFF,), labels=labels) for labels in label_sets]
        found = [Handoff(record) for query in queries for record in self._journal.read(query)]
        return sorted(found, key=lambda handoff: (handoff.timestamp, handoff.record.created_at, handoff.id))

    def read(self, id: str) -> Outcome:
        """Mark a handoff as read.

        Args:
            id: The id of the handoff.

        Example:
            kept = memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna").unwrap()
            memory.handoffs.read(kept.id)
        """
        return self._change_status(id, lambda _: {"status": "read", "read_at": self._now_iso()}, "unread")

    def accept(self, id: str, agent: str = "") -> Outcome:
        """Accept a handoff. Only the agent that it is addressed to may, and only once.

        Args:
            id: The id of the handoff.
            agent: The agent; default: the caller.

        Example:
            kept = memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna").unwrap()
            memory.handoffs.accept(kept.id, "ben")
        """
        if (refused := self._journal.check_author(agent)) is not None:
            return refused

        def accept_change(handoff: Handoff) -> dict[str, Any] | Refused:
            name = agent or self._journal.author or handoff.to_agent
            if name != handoff.to_agent:
                reason = f"{id} is for {handoff.to_agent!r:.80}; reassign it before another agent accepts it."
                return Refused("not_yours", reason)
            return {"status": "accepted", "accepted_at": self._now_iso(), "accepted_by": name}

        return self._change_status(id, accept_change, "unread", "read")

    def complete(self, id: str, result: str = "") -> Outcome:
        """Mark an accepted handoff as completed.

        Args:
            id: The id of the handoff.
            result: What came of it.

        Example:
            kept = memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna").unwrap()
            memory.handoffs.accept(kept.id, "ben")
            memory.handoffs.complete(kept.id, "All tests pass.")
        """
        done = {"status": "completed", "completed_at": self._now_iso()} | ({"result": result} if result else {})
        return self._change_status(id, lambda _: done, "accepted")

    def reassign(self, id: str, to_agent: str) -> Outcome:
        """Address a handoff that is not completed to another agent, as unread.

        Args:
            id: The id of the handoff.
            to_agent: Who gets the work.

        Example:
            kept = memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna").unwrap()
            memory.handoffs.reassign(kept.id, "carol")
        """
        if not to_agent:
            return Refused("bad_handoff", "Name the agent it goes to.")
        return self._change_status(id, lambda _: {"to_agent": to_agent, "status": "unread"}, *STATUSES[:-1])

    def reopen(self, id: str) -> Outcome:
        """Set a handoff back to unread, when its agent died or gave up.

        Args:
            id: The id of the handoff.

        Example:
            kept = memory.handoffs.create("ben", "The form is done; test it.", from_agent="anna").unwrap()
            memory.handoffs.accept(kept.id, "ben")
            memory.handoffs.reopen(kept.id)
        """
        return self._change_status(id, lambda _: {"status": "unread"}, "read", "accepted")

    def _change_status(
        self, id: str, change: Callable[[Handoff], dict[str, Any] | Refused], *statuses: HandoffStatus
    ) -> Outcome:
        def build_changed(_: Reader, record: Record) -> Sequence[Draft] | Refused:
            handoff = Handoff(record)
            if handoff.status not in statuses:
                wanted = " or ".join(statuses)
                return Refused("bad_status", f"{id} is {handoff.status}; this needs one that is {wanted}.")
            changes = change(handoff)
            if isinstance(changes, Refused):
                return changes
            body = _without_status_fields(record.body) if changes["status"] == "unread" else dict(record.body)
            draft = _handoff_draft(body | changes, record.id, record.scope, record.origin, record.version)
            return [self._journal.revise(draft._replace(author=record.author, links=record.links))]

        return change_by_id(self._journal, HANDOFF, id, build_changed)

    def _now_iso(self) -> str:
        return to_iso(self._clock.now())


def _handoff_draft(body: dict[str, Any], id: str, scope: str, origin: str, expected: int | None) -> Draft:
    labels = (f"inbox={body['to_agent']}", f"from={body['from_agent']}", f"status={body['status']}")
    text = f"Handoff from {body['from_agent']} to {body['to_agent']}: {body['context'].get('what_was_done', '')}"
    return Draft(
        HANDOFF, text, body, id=id, scope=scope, origin=origin, labels=labels,
        happened_at=from_iso(body["timestamp"]), expected=expected,
    )  # fmt: skip


def _without_status_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _STATUS_FIELDS}
