"""What is not there: a read of one thing gives None, a list is empty, and a change of it is refused with ``not_found``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa import Refused
from lukasa.core.argument_types import read_annotation
from lukasa.memory import SERVICES
from lukasa.storage.parsed_records import ParsedRecords

MISSING = "nothing-here"
ID_NAMES = {
    "agent",
    "agent_id",
    "author",
    "conversation_id",
    "id",
    "ids",
    "key",
    "keys",
    "market_id",
    "names",
    "ref",
    "a",
    "b",
}
ID_NAMES |= {"prediction_id", "session_id", "signal_id", "name", "episode", "observations"}
OTHERS = {
    "agent_state": {}, "role": "user", "relation": "related_to", "outcome": True, "document": {}, "probability": 0.5,
    "number": 1, "observations": [(MISSING, ["x"])], "names": [MISSING], "ids": [MISSING], "new_id": "new", "target": "backups",
    "keys": lukasa.Key("shared", "memory", MISSING), "key": lukasa.Key("shared", "memory", MISSING), "signal_id": MISSING,
}  # fmt: skip
VALUES: tuple[Any, ...] = ("orion", 1, True, [], {}, datetime(2026, 3, 1, tzinfo=UTC), ParsedRecords(str))
CREATES = {
    "context.add_fact", "context.append", "context.configure", "context.environment", "context.extend", "context.task",
    "context.tool_call", "context.usage", "forecasts.reason", "sessions.save_checkpoint",
    "journal.quarantine", "trust.quarantine", "trust.register", "trust.log_dissent", "trust.log_override",
    "trust.set_probation",
}  # fmt: skip
"""Calls that make what they name, where it is not there."""
NO_THING = {
    "context.assemble": "a conversation begins empty",
    "context.load": "a conversation begins empty",
    "hub.acknowledge": "a network raises NotAccepted",
    "hub.broadcast": "news without an id is invalid",
    "hub.fetch_state": "the state of an agent that is silent",
    "journal.for_request": "names a request",
    "journal.with_reach": "a view for any author",
    "jobs.defer": "names a function of the program",
    "journal.erase": "a receipt of nothing; an erasure can be repeated",
    "graph.delete_entities": "like the reference server, deletes what is there",
    "graph.delete_observations": "like the reference server, deletes what is there",
    "graph.open_nodes": "a subgraph of nothing",
    "memory.for_request": "names a request",
    "sessions.erase": "counts; an erasure can be repeated",
    "sessions.folder": "the name of a folder",
    "sessions.restore": "reads an archive, whose absence is FileMissing",
    "trust.agent": "a view of any agent",
    "trust.diversity": "figures of an agent that has done nothing",
    "trust.eligibility": "figures of an agent that has done nothing",
    "trust.score": "every agent begins with the same trust",
    "trust.standing": "every agent begins with the same trust",
}
"""Calls that have an answer for every name, with the reason."""


def calls_with_ids(memory: lukasa.Memory) -> Iterator[tuple[str, Any]]:
    """Yield every public method that has to be told of a thing by its id."""
    services = {name: getattr(memory, name) for name in (*SERVICES, "jobs", "journal")}
    for service, thing in {"memory": memory, "rubric": memory.trust.rubric, **services}.items():
        for name, member in inspect.getmembers(type(thing), inspect.isfunction):
            required = [
                each.name
                for each in inspect.signature(member).parameters.values()
                if each.default is each.empty and each.kind is not each.VAR_KEYWORD
            ]
            if not name.startswith("_") and ID_NAMES & {*required}:
                yield f"{service}.{name}", getattr(thing, name)


def call_with_missing(call: Any) -> Any:
    """Call a method with ids that nothing has."""
    function = inspect.unwrap(call.__func__)
    arguments, options = [], {}
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        takes = read_annotation(parameter.annotation, function)
        values = (OTHERS.get(name, MISSING), MISSING, *VALUES) if name in OTHERS.keys() | ID_NAMES else VALUES
        wanted = next(filter(takes.accepts, values), None)
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[name] = wanted
        else:
            arguments.append(wanted)
    answer = call(*arguments, **options)
    return list(answer) if inspect.isgenerator(answer) else answer


@pytest.mark.requirement("DOO-1")
def test_what_is_not_there_is_none_empty_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with lukasa.open("memory:", embedder="hash") as memory:
        others: dict[str, Any] = {}
        called = set()
        for name, call in calls_with_ids(memory):
            called.add(name)
            if name in NO_THING or name in CREATES:
                continue
            before = memory.journal.tip()
            try:
                answer = call_with_missing(call)
            except lukasa.LukasaError as error:
                others[name] = error
                continue
            answers = answer if isinstance(answer, list) and answer and isinstance(answer[0], Refused) else [answer]
            for each in answers:
                is_refused = isinstance(each, Refused) and each.code == "not_found"
                is_empty = each is None or (isinstance(each, list | tuple | dict) and not each)
                if not (is_refused or is_empty) or memory.journal.tip() != before:
                    others[name] = each
        assert others == {}
        assert (CREATES | NO_THING.keys()) - called == set()
        assert len(called) > 70
