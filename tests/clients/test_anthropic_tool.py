"""The memory tool of the Anthropic API: string-equal with the SDK's tool for local files, but for its known faults."""

import asyncio
import re
import tempfile

import pytest

pytest.importorskip("anthropic", reason="run by `make test-clients`, which installs the Anthropic SDK")

from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.integrations.anthropic import AsyncLukasaMemoryTool, LukasaMemoryTool

pytestmark = pytest.mark.slow
PATHS = st.sampled_from(
    [
        "/memories",
        "/memories/a.txt",
        "/memories/b/c.md",
        "/memories/b",
        "/memories/b/d/e.txt",
        "/memories/.h",
        "/memories/../x",
        "/other",
    ]
)
TEXTS = st.sampled_from(["", "one", "one\n", "one\ntwo\nthree\n", "two two\n", "line\r\nnext", "ä\n\nö"])
COMMANDS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"command": st.just("view"), "path": PATHS}),
        st.fixed_dictionaries(
            {
                "command": st.just("view"),
                "path": PATHS,
                "view_range": st.tuples(st.integers(1, 3), st.integers(-1, 4)).map(list),
            }
        ),
        st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
        st.fixed_dictionaries(
            {
                "command": st.just("str_replace"),
                "path": PATHS,
                "old_str": st.sampled_from(["one", "two", "x"]),
                "new_str": TEXTS,
            }
        ),
        st.fixed_dictionaries(
            {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}
        ),
        st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
        st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
    ),
    max_size=14,
)


def answer_of(tool, command):
    try:
        return re.sub(
            r"^[\d.]+[BKMG](\t\S*/|\t/memories(?:/b|/b/d)?)$", r"4K\1", str(tool.call(command)), flags=re.MULTILINE
        )
    except ToolError as error:
        return f"error: {error}"
    except OSError:
        return "error of the file system"


@pytest.mark.requirement("DOO-6")
@settings(max_examples=150, deadline=None)
@given(commands=COMMANDS)
def test_the_tool_answers_as_the_sdks_own(commands):
    with tempfile.TemporaryDirectory() as folder, lukasa.open("memory:") as memory:
        ours, theirs = LukasaMemoryTool(memory), BetaLocalFilesystemMemoryTool(folder)
        for command in commands:
            expected = answer_of(theirs, command)
            found = answer_of(ours, command)
            if expected == "error of the file system":  # a folder moved into itself, or a file where a folder must be
                assert found.startswith("error: ")
                return
            assert found == expected, command
            if command["command"] == "rename" and expected.startswith("error: "):
                return  # theirs has made the folder of the destination, though nothing was moved


@pytest.mark.requirement("DOO-6")
def test_the_known_faults_of_the_sdks_tool_are_not_repeated():
    with lukasa.open("memory:") as memory:
        tool = LukasaMemoryTool(memory)
        with pytest.raises(ToolError, match="must start with"):
            tool.call({"command": "create", "path": "/memoriesX/b", "file_text": "x"})
        tool.call({"command": "create", "path": "/memories/b/c", "file_text": "x"})
        assert "//" not in tool.call({"command": "view", "path": "/memories/"})
        with pytest.raises(ToolError, match="into itself"):
            tool.call({"command": "rename", "old_path": "/memories/b", "new_path": "/memories/b/d"})


@pytest.mark.requirement("DOO-6")
def test_files_have_history_walls_and_recall(tmp_path):
    with lukasa.open(str(tmp_path / "agents.db")) as owner:
        ada, ben = owner.as_agent("ada"), owner.as_agent("ben")
        tool = LukasaMemoryTool(ada)
        tool.call({"command": "create", "path": "/memories/team.md", "file_text": "Deploys run on Tuesday.\n"})
        tool.call({"command": "str_replace", "path": "/memories/team.md", "old_str": "Tuesday", "new_str": "Thursday"})
        assert "Thursday" in ada.recall("When do deploys run?").hits[0].text
        with pytest.raises(ToolError, match="does not exist"):
            LukasaMemoryTool(ben).call({"command": "view", "path": "/memories/team.md"})
        record = ada.recall("When do deploys run?").hits[0].record
        assert ada.journal.history(record.key)[0].text == "Deploys run on Tuesday.\n"


@pytest.mark.requirement("DOO-6")
def test_the_asynchronous_tool_does_the_same():
    async def run(memory):
        tool = AsyncLukasaMemoryTool(memory)
        await tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "one\n"})
        await tool.call({"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "two"})
        return await tool.call({"command": "view", "path": "/memories/a.txt"})

    with lukasa.open("memory:") as memory:
        assert (
            asyncio.run(run(memory))
            == "Here's the content of /memories/a.txt with line numbers:\n     1\tone\n     2\ttwo\n     3\t"
        )
