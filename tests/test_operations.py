"""The table of operations is complete and true: each row's method exists, and does over HTTP what the row says."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("fastapi")

from lukasa.interfaces.http import app as http_app
from lukasa.interfaces.http.adapters import VIEWS
from lukasa.interfaces.http.build import build_routers
from lukasa.jobs import REGISTRY, Jobs, Task
from lukasa.journal import Journal
from lukasa.memory import SERVICES, Memory, Service
from lukasa.methods import find_method
from lukasa.operations import OPERATIONS, Operation, is_taken
from lukasa.storage.engine import Query
from lukasa.trust.rubric import Rubrics
from support.operation_calls import Server, list_faults, open_server

pytestmark = pytest.mark.requirement("DOO-4")
OFFERED = [operation for operation in OPERATIONS if operation.http]
NOT_DONE = {
    "jobs.retry": 404,  # no job failed
    "trust.rubric.effect": 404,  # no proposal was applied
}
"""Operations whose example has nothing to work on, and the status of their answer."""
UNCALLED = {"trust.rubric.apply", "trust.rubric.reject"}
"""Operations whose example decides proposals that a fresh store has none of; test_nouns.py calls them."""
NOT_IN_THE_TABLE = {
    "": (
        "as_agent backup close compact export for_request import_ verify",
        "Memory opens, closes and transfers a store; the journal's own rows compact and verify it.",
    ),
    "context": ("restore save using within", "They take a Context, a model or a scope and are for one process."),
    "continuity": ("tip update", "They write a file of this machine."),
    "episodes": ("resume", "It returns a live object; steps and errors have rows that name the episode."),
    "forecasts": ("count_versions fill_sections sections", "Sessions call them."),
    "graph": ("within", "It returns a service of another scope."),
    "handoffs": ("put", "Importers call it; create has a row."),
    "hub": (
        "acknowledge acknowledged broadcast fetch_state inbox peers",
        "/v1/agents is the network between machines, each in the name of its agent.",
    ),
    "jobs": ("close run_waiting seen_by serving work", "A worker calls them."),
    "journal": (
        "accept_losses add_to_counter append append_if backup change_stamp check_author check_raw end_request find_imports "
        "for_request get_parsed list_damaged preview_erase preview_restore put_vectors read_parsed reindex replay revise "
        "set_aside snapshot with_reach with_valid_bodies",
        "They take drafts, readers, callables or files of this machine, or are for the library itself; an erasure with "
        "dry_run shows both previews.",
    ),
    "knowledge": ("add", "Importers call it; each kind has its row."),
    "lessons": ("extend", "Hooks call it with drafts of one session; add has a row."),
    "ledgers": ("put", "Importers call it; checkpoint has a row."),
    "recall": ("reembed", "It takes a progress function and belongs to the machine with the model."),
    "sessions": (
        "backup close erase_files find_files folder restore start",
        "They take paths of this machine or return a live session.",
    ),
    "skills": ("sync", "It reads a folder of this machine."),
    "trust": (
        "adopt agent quarantine release",
        "adopt is for importers, agent returns a live object; the journal's rows quarantine and release.",
    ),
    "vault": ("close compact confirm restore", "Other rows confirm and compact; importers call restore."),
}
"""Public methods that are no operations, by service, and why."""
MORE_PARAMETERS = {"journal.read": {"cursor"}, "journal.erase": {"keys", "dry_run"}}
"""Parameters of an operation that its method has not: a page, and what two other methods preview."""


@pytest.fixture(scope="module")
def document() -> Any:
    with open_server() as server:
        return server.describe()


def test_every_operation_is_a_method_and_every_public_method_is_an_operation_or_has_a_reason() -> None:
    for operation in OPERATIONS:
        assert callable(find_method(operation)), operation.method
    owners = {name: getattr(import_module(row.package), row.class_name) for name, row in SERVICES.items()}
    owners |= {"": Memory, "journal": Journal, "jobs": Jobs, "trust.rubric": Rubrics}
    rows = {operation.method for operation in OPERATIONS}
    for service, owner in owners.items():
        listed = set(NOT_IN_THE_TABLE.get(service, ("", ""))[0].split())
        members = {name for name in dir(owner) if inspect.isfunction(inspect.getattr_static(owner, name))}
        found = {name for name in members if name[0] != "_" and f"{service}.{name}".lstrip(".") not in rows}
        assert found == listed, service


def test_paths_are_unique_and_delete_leaves_a_history() -> None:
    for field in ("method", "http", "shell"):
        values = [value for operation in OPERATIONS if (value := getattr(operation, field))]
        assert len(values) == len(set(values)), field
    for operation in OFFERED:
        assert operation.verb != "DELETE" or operation.effect != "erases", operation.http
        assert operation.verb != "GET" or operation.effect == "reads", operation.http


def test_a_parameter_has_the_name_of_the_method_over_http(document: Any) -> None:
    faults = []
    for operation in OFFERED:
        offered = document["paths"][operation.path][operation.verb.lower()]
        assert offered["operationId"] == operation.name
        names = {each["name"] for each in offered.get("parameters", ()) if each["in"] != "header"}
        if "requestBody" in offered:
            schema = offered["requestBody"]["content"]["application/json"]["schema"]
            reference = schema.get("$ref") or schema["allOf"][0]["$ref"]
            names |= document["components"]["schemas"][reference.rpartition("/")[2]]["properties"].keys()
        known = MORE_PARAMETERS.get(operation.method, set()) | set(list_parameters(operation))
        faults += [f"{operation.method} has no parameter {name}" for name in names - known]
    assert faults == []


def list_parameters(operation: Operation) -> Iterator[str]:
    """Yield the names that a request may give: the parameters, the fields of a query and of a key, and options of a view."""
    for name, parameter in inspect.signature(find_method(operation)).parameters.items():
        if "Query" in str(parameter.annotation):
            yield from (field.name for field in fields(Query))
        elif "Key" in str(parameter.annotation) and name == "key":
            yield from ("scope", "kind", "id")
        elif is_taken(operation, name):
            yield name
    if operation.method in VIEWS:
        yield from inspect.signature(VIEWS[operation.method]).parameters


READS_ONLY = "This token may only read."
NAMES_OF_OTHERS = {
    "author": {"recall", "journal.read", "journal.find", "journal.undo", "journal.quarantine", "journal.release"},
    "key": {"jobs.defer"},
}
"""Operations that ask for what an author wrote, or give a job a key."""


def test_no_request_says_who_the_caller_is(document: Any) -> None:
    for operation in OFFERED:
        described = json.dumps(document["paths"][operation.path][operation.verb.lower()])
        for reference in set(re.findall(r"schemas/(\w+Request)\b", described)):
            described += json.dumps(document["components"]["schemas"][reference])
        for name in ("author", "origin", "from_agent", "progress", "key", "hidden"):
            if operation.method not in NAMES_OF_OTHERS.get(name, ()):
                assert f'"{name}"' not in described.replace(f'"enum": ["{name}"', ""), (
                    f"{operation.method} takes {name}"
                )
    with open_server(agent="ada") as server:
        for path, body in (
            ("episodes/bulk", {"episodes": [{"agent": "ben", "context": {"goal": "Fix the login page"}}]}),
            ("knowledge/facts", {"fact": "Ben owns the deploys.", "extra": {"author": "ben"}}),
            ("memories/bulk", {"items": [{"text": "Ben owns the deploys.", "author": "ben"}]}),
            ("records", {"kind": "note", "text": "Ben owns the deploys.", "author": "ben"}),
        ):
            answer = server.client.post(f"/v1/{path}", json=body)
            assert answer.status_code in (403, 422), answer.text
        assert server.memory.journal.tally() == []


def test_a_token_that_only_reads_reaches_no_operation_that_writes() -> None:
    with open_server(read_only=True) as server:
        for operation in OFFERED:
            path = re.sub("{(number)}", "1", operation.path)
            answer = server.client.request(operation.verb, re.sub("{\\w+}", "x", path), json={})
            if operation.effect == "reads":
                assert answer.json().get("detail") != READS_ONLY, operation.method
            else:
                assert (answer.status_code, answer.json()["detail"]) == (403, READS_ONLY), operation.method


def test_every_answer_is_described(document: Any) -> None:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            for status, answer in operation["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema")
                if path.startswith("/v1") and status[0] == "2" and schema is not None:
                    assert schema.keys() - {"title", "description"}, f"{verb} {path}"
                    assert schema != {"type": "object"}, f"{verb} {path}"


def test_every_operation_does_for_real_what_its_row_says(document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Call each operation over HTTP, on a store of its own, as the example of its method does."""
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    monkeypatch.setitem(REGISTRY, "tidy", Task("tidy", lambda memory: {}))
    faults: list[str] = []
    for operation in OFFERED:
        if operation.method not in UNCALLED:
            with open_server() as server:
                faults += check_call(document, operation, server)
    assert faults == []


def check_call(document: Any, operation: Operation, server: Server) -> Iterator[str]:
    call = server.call_example(operation)
    if call.status == NOT_DONE.get(operation.method):
        return
    if call.status >= 300:
        yield f"{operation.method}: {call.status} {call.content}"
        return
    yield from list_faults(document, operation, call.status, call.content)
    (tip_before, tip), (before, after) = call.tips, call.versions
    if operation.effect == "reads" and tip != tip_before:
        yield f"{operation.method} writes"
    if operation.effect in ("writes", "deletes") and after < before:
        yield f"{operation.method} leaves no history: {before} versions, then {after}"
    if operation.effect == "erases" and after > before:
        yield f"{operation.method} erases nothing: {before} versions, then {after}"


def test_a_new_operation_is_its_method_and_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("support.preferences", "Preferences", lambda memory, _: (memory.journal,))
    monkeypatch.setitem(SERVICES, "preferences", service)
    rows = (
        Operation("preferences.set", "writes", "PUT /v1/preferences/{name}"),
        Operation("preferences.get", "reads", "GET /v1/preferences/{name}", answer="value"),
    )
    monkeypatch.setattr(http_app, "ROUTERS", (*http_app.ROUTERS, *build_routers(rows)))
    with open_server() as server:
        assert server.client.put("/v1/preferences/tone", json={"value": "short"}).status_code == 201
        assert server.client.get("/v1/preferences/tone").json() == {"value": "short"}
        described = server.describe()["paths"]["/v1/preferences/{name}"]
        assert re.fullmatch("preferences_(set|get)", described["put"]["operationId"])
        assert "short" not in server.client.get("/v1/preferences/colour").text
