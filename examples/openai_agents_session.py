"""An OpenAI agent whose session survives a restart, with a scripted model. Needs the extra ``openai-agents``.

Prints:
    first answer: The release is on Tuesday.
    after a restart the session has 4 items
    recalled: ['The release is on Tuesday.']
"""

import asyncio
import tempfile
from pathlib import Path

from agents import Agent, Runner
from agents.testing import ScriptedModel, assistant_message

import lukasa
from lukasa.integrations.openai_agents import LukasaSession


def ask(memory: lukasa.Memory, question: str, answer: str) -> str:
    agent = Agent(name="helper", model=ScriptedModel([[assistant_message(answer)]]))
    return asyncio.run(Runner.run(agent, question, session=LukasaSession("chat-1", memory))).final_output


with tempfile.TemporaryDirectory() as folder:
    with lukasa.open(Path(folder) / "agents.db") as memory:
        print("first answer:", ask(memory, "When is the release?", "The release is on Tuesday."))
    with lukasa.open(Path(folder) / "agents.db") as memory:
        ask(memory, "Thanks!", "You are welcome.")
        items = asyncio.run(LukasaSession("chat-1", memory).get_items())
        print(f"after a restart the session has {len(items)} items")
        found = [hit.text for hit in memory.recall("What day is the release?").hits]
        print("recalled:", [text for text in found if "Tuesday" in text])
