"""Sets of tools: the four of ``--tools core``, and what each set takes of a model's context."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("mcp")

from lukasa.interfaces.cli.app import app

pytestmark = pytest.mark.requirement("DOO-3")
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "mcp.md").read_text("utf-8")


def test_the_core_set_has_four_tools_and_an_unknown_tool_is_refused(server_for):
    async def talk(client):
        names = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("remember", {"text": "The shop sells tea."})
        return names, client.instructions, answer.structured_content

    names, instructions, answer = server_for("ada", tools="core").converse(talk)
    assert names == ["remember", "recall", "forget", "history"]
    assert not re.search("snapshot|before_task|record_episode", instructions)
    assert answer["outcome"] == "done"


def test_the_page_says_what_each_set_takes():
    done = CliRunner().invoke(app, ["--json", "mcp", "--token-cost"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert rows[0]["tokens"] < rows[1]["tokens"] / 2
    for row, name in zip(rows, ("`--tools core`", "all", "all, with `--compat memory-graph`"), strict=True):
        assert f"| {name} | {row['tools']} | {row['tokens']:,} |" in PAGE


def test_an_unknown_set_is_refused():
    assert CliRunner().invoke(app, ["mcp", "--tools", "none"]).exit_code != 0
