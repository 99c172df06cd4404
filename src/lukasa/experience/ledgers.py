"""Ledgers: the progress of each agent, so that a successor under the same name can continue its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_fields import BodyField, count_field, object_field
from lukasa.core.clock import Clock, from_iso, to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput
from lukasa.experience.record_view import order_fields, read_by_id
from lukasa.journal import CallerService, Journal
from lukasa.storage.engine import Query, Reader

LEDGER = "ledger"
_FIELDS = ("agent_id", "last_checkpoint", "tasks_completed", "current_task", "state", "context")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one agent, read from its record."""

    record: Record

    @property
    def agent_id(self) -> str:
        return self.record.id

    last_checkpoint = BodyField("last_checkpoint", from_iso)
    tasks_completed = count_field("tasks_completed")
    current_task = BodyField[str | None]("current_task", lambda task: task)
    state = object_field("state")
    context = object_field("context")

    def as_json(self) -> dict[str, Any]:
        """Return the ledger as its document writes it, known fields first."""
        return order_fields({"agent_id": self.agent_id, **self.record.body}, _FIELDS)


@check_arguments
class Ledgers(CallerService):
    """The ledger service of one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def checkpoint(
        self, agent: str = "", *, current_task: str | None = None, completed: int = 0,
        state: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None, scope: str = SHARED,
    ) -> Outcome:  # fmt: skip
        """Record an agent's progress. ``completed`` adds to its count of tasks; omitted fields stay unchanged.

        ``current_task=""`` removes the current task.

        Args:
            agent: The agent; default: the caller.
            current_task: What the agent works on now; an empty text removes it.
            completed: How many tasks to add to the count.
            state: The state of the work, as JSON.
            context: What the agent needs to go on, as JSON.
            scope: The scope to write to.

        Example:
            memory.ledgers.checkpoint("eng-001", current_task="task-7", completed=1)
        """
        name = agent or self._journal.author
        if not name:
            return Refused("bad_agent", "Whose ledger? Name the agent.")
        if (refused := self._journal.check_author(name)) is not None:
            return refused
        if completed.__class__ is not int or completed < 0:
            return Refused("bad_ledger", "completed is the number of tasks finished since the last checkpoint.")

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, LEDGER, name))
            body: dict[str, Any] = {"tasks_completed": 0, "state": {}, "context": {}}
            body |= {} if known is None else dict(known.body)
            body["last_checkpoint"] = to_iso(self._clock.now())
            body["tasks_completed"] += completed
            given = {"current_task": current_task, "state": state, "context": context}
            body |= {field: value for field, value in given.items() if value is not None}
            if body.get("current_task") == "":
                body.pop("current_task")
            return [Draft(LEDGER, body=body, id=name, scope=scope, expected=0 if known is None else known.version)]

        return self._journal.append_if(build_drafts)

    def put(self, fields: Mapping[str, Any], *, scope: str = SHARED, origin: str = "manual") -> Outcome:
        """Store a ledger document. A document that equals the stored ledger changes nothing.

        Args:
            fields: The document of the ledger.
            scope: The scope to write to.
            origin: Where the record comes from, in one word.

        Example:
            memory.ledgers.put({"agent_id": "eng-001", "tasks_completed": 3})
        """
        agent = fields.get("agent_id")
        if not isinstance(agent, str) or not agent:
            return Refused("bad_ledger", "A ledger needs an agent_id.")
        if (refused := self._journal.check_author(agent)) is not None:
            return refused
        done = fields.get("tasks_completed", 0)
        if isinstance(done, bool) or not isinstance(done, int) or done < 0:
            return Refused("bad_ledger", "tasks_completed must be a whole number that is not negative.")
        for name in ("state", "context"):
            if not isinstance(fields.get(name, {}), dict):
                return Refused("bad_ledger", f"{name} must be an object.")
        body = {name: value for name, value in fields.items() if name != "agent_id"}
        body["tasks_completed"] = done
        moment = body.get("last_checkpoint")
        try:
            body["last_checkpoint"] = to_iso(self._clock.now() if moment is None else from_iso(str(moment)))
        except InvalidInput as error:
            return Refused("bad_ledger", f"last_checkpoint: {error.message}")

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, LEDGER, agent))
            if known is not None and moment is None:
                body["last_checkpoint"] = known.body["last_checkpoint"]
            same = known is not None and known.body == body
            return [] if same else [Draft(LEDGER, body=body, id=agent, scope=scope, origin=origin)]

        return self._journal.append_if(build_drafts)

    def get(self, agent: str = "", *, scope: str | None = None) -> Ledger | None:
        """Return the ledger of an agent, or None.

        Args:
            agent: The agent; default: the caller.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.ledgers.checkpoint("eng-001", current_task="task-7")
            memory.ledgers.get("eng-001")
        """
        record = read_by_id(self._journal, LEDGER, agent or self._journal.author, scope)
        return None if record is None else Ledger(record)

    def list(self) -> Sequence[Ledger]:
        """Return all ledgers, sorted by agent.

        Example:
            memory.ledgers.list()
        """
        found = (Ledger(record) for record in self._journal.read(Query(kinds=(LEDGER,))))
        return sorted(found, key=lambda ledger: (ledger.agent_id, ledger.record.scope))
