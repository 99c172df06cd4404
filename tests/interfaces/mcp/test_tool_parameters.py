"""A parameter of a tool that is one of the library's has the name and the default that it has there."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

pytest.importorskip("mcp")

from lukasa.interfaces.cli.build import find_method
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller
from lukasa.operations import OPERATIONS

pytestmark = pytest.mark.requirement("DOO-3")

OWN = {
    "remember": {"private", "replaces", "confirms"},
    "recall": {"budget"},
    "record_episode": {"steps"},
    "handoff": {"action", "to", "id", "result", "budget"},
    "checkpoint": {"session"},
    "history": {"id", "kind", "scope", "budget"},
}
"""Parameters that a tool has and the method has not: a tool joins several operations, and takes names where these take keys."""
OTHER_DEFAULTS = {
    ("snapshot", "budget"): 1000,
    ("context_append", "role"): "user",
    ("handoff", "what_was_done"): None,
    ("trust", "agent"): None,
    ("record_episode", "outcome"): "required",
    ("checkpoint", "state"): None,
}
"""Defaults that a tool has because a model often leaves the parameter out, or must not."""


def properties() -> dict[str, dict[str, Any]]:
    """Return the parameters of every tool, as a client sees them."""
    server, stores = build_server("memory:", Caller())
    listed = asyncio.run(server.list_tools())
    stores.close()
    return {tool.name: dict(tool.model_dump(by_alias=True)["inputSchema"]["properties"]) for tool in listed}


TOOLS = properties()
ROWS = {row.tool: row for row in OPERATIONS if row.tool}


def test_every_tool_is_in_the_table() -> None:
    assert set(ROWS) == set(TOOLS)


def test_the_parameters_of_tools_have_the_names_of_the_library() -> None:
    for name, row in ROWS.items():
        known = set(inspect.signature(find_method(row.method)).parameters)
        assert set(TOOLS[name]) - known == OWN.get(name, set()), name


def test_the_parameters_of_tools_have_the_defaults_of_the_library() -> None:
    for name, row in ROWS.items():
        parameters = inspect.signature(find_method(row.method)).parameters
        for word in set(TOOLS[name]) & set(parameters):
            default = parameters[word].default
            wanted = "required" if default is inspect.Parameter.empty else default or None
            shown = TOOLS[name][word].get("default", "required") or None
            assert OTHER_DEFAULTS.get((name, word), wanted) == shown, (name, word)
