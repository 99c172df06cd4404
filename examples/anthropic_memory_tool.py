"""The memory tool of the Anthropic API, driven by the commands a model would send. Needs the extra ``anthropic``.

Prints:
    File created successfully at: /memories/team.md
    recalled: Deploys run on Thursday.
    versions kept: 2
"""

import tempfile
from pathlib import Path

import lukasa
from lukasa.integrations.anthropic import LukasaMemoryTool

with tempfile.TemporaryDirectory() as folder, lukasa.open(Path(folder) / "agents.db", agent="ada") as memory:
    tool = LukasaMemoryTool(memory)  # client.beta.messages.run_tools(tools=[tool], …) calls it for a real model
    print(tool.call({"command": "create", "path": "/memories/team.md", "file_text": "Deploys run on Tuesday.\n"}))
    change = {"path": "/memories/team.md", "old_str": "Tuesday", "new_str": "Thursday"}
    tool.call({"command": "str_replace", **change})
    found = memory.recall("When do deploys run?").hits[0].record
    print("recalled:", found.text.strip())
    print("versions kept:", len(memory.journal.history(found.key)))
