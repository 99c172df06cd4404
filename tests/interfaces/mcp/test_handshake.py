"""The answer to ``initialize`` before the library of the protocol is loaded: the library's own, to the byte."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from lukasa.interfaces.mcp.handshake import ClientOpening, answer_opening
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.mcp.stdio import _run_session
from lukasa.interfaces.stores import Caller

pytestmark = pytest.mark.requirement("DOO-3")

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def changed(path: str, value: object) -> dict[str, Any]:
    """Return ``initialize`` with another value at a path."""
    message = copy.deepcopy(HELLO)
    *parents, name = path.split(".")
    inner = message
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    return message


USUAL = [
    HELLO,
    changed("id", 0),
    changed("id", "a-7 \"x'"),
    *(changed("params.protocolVersion", version) for version in ("2024-11-05", "2025-03-26", "2025-11-25")),
    *(changed("params.capabilities.roots", roots) for roots in ({}, {"listChanged": True})),
    *(changed(f"params.capabilities.{name}", {}) for name in ("sampling", "elicitation")),
    changed("params.capabilities.elicitation", {"form": {}, "url": {}}),
    *(changed(f"params.clientInfo.{name}", "an agent's tool") for name in ("description", "websiteUrl")),
    changed("params.clientInfo.title", "日本語 \\ \n"),
]
UNUSUAL_IDS: list[Any] = [True, None, 1.5, -1, 2**64, "é", "\ud800", {}]
UNUSUAL = [
    *(changed("id", id) for id in UNUSUAL_IDS),
    changed("jsonrpc", "1.0"),
    changed("method", "server/discover"),
    changed("more", 1),
    changed("params", {}),
    changed("params._meta", {"progressToken": 1}),
    *(changed("params.protocolVersion", version) for version in ("2026-07-28", "2099-01-01", 5)),
    *(changed("params.capabilities.roots", roots) for roots in (5, {"listChanged": 3}, {"x": 1})),
    *(changed(f"params.capabilities.{name}", {"a": 5}) for name in ("sampling", "elicitation", "experimental")),
    changed("params.clientInfo", {"name": "t"}),
    changed("params.clientInfo.name", "\ud800"),
    *(changed(f"params.clientInfo.{name}", None) for name in ("title", "description", "websiteUrl")),
    changed("params.clientInfo.icons", 5),
]


def open_with(data: bytes, tools: str = "all") -> tuple[ClientOpening, bytes]:
    """Return what is left of an input, and what was answered to it."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    os.write(write_in, data)
    opening = answer_opening(read_in, write_out, tools)
    os.close(write_out)
    with os.fdopen(read_out, "rb") as output:
        answer = output.read()
    os.close(read_in)
    os.close(write_in)
    return opening, answer


@pytest.mark.parametrize(("tools", "compat"), [("all", ""), ("core", ""), ("all", "memory-graph")])
def test_the_answer_is_that_of_the_library(tmp_path, tools, compat):
    server, stores = build_server(str(tmp_path / "agents.db"), Caller("ada"), tools=tools, compat=compat)

    async def ask(message):
        to_server, requests = anyio.create_memory_object_stream[Any](1)
        answers, from_server = anyio.create_memory_object_stream[Any](1)
        async with to_server, requests, answers, from_server, anyio.create_task_group() as group:
            group.start_soon(_run_session, server, requests, answers)
            await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
            answer = (await from_server.receive()).message
            group.cancel_scope.cancel()
        return answer.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"

    for message in USUAL:
        data = json.dumps(message, ensure_ascii=False).encode() + b"\nmore"
        opening, answer = open_with(data, tools)
        assert opening == (data, message["id"])
        assert answer == anyio.run(ask, message), message
    stores.close()


@pytest.mark.parametrize("message", UNUSUAL, ids=json.dumps)
def test_everything_else_is_left_to_the_library(message):
    data = json.dumps(message).encode() + b"\n"
    assert open_with(data) == (ClientOpening(data), b"")


@pytest.mark.parametrize("data", [b"\n", b"\xff\n", b"[" * 50_000 + b"\n", json.dumps(HELLO).encode()], ids=len)
def test_a_line_that_is_no_whole_message_is_left_to_the_library(data):
    assert open_with(data) == (ClientOpening(data), b"")


def test_initialize_is_answered_after_a_discovery_that_the_client_has_given_up():
    discovery = (
        json.dumps({"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {}}).encode() + b"\n"
    )
    hello = json.dumps(HELLO).encode() + b"\n"
    assert open_with(discovery) == (ClientOpening(discovery), b"")
    assert open_with(discovery + hello[:-1]) == (ClientOpening(discovery + hello[:-1]), b"")
    opening, answer = open_with(discovery + hello)
    assert opening == (discovery + hello, 1)
    assert answer == open_with(hello)[1]


def test_without_input_the_library_waits_for_it():
    read_in, write_in = os.pipe()
    assert answer_opening(read_in, 2, "all") == ClientOpening()
    os.close(read_in)
    os.close(write_in)
