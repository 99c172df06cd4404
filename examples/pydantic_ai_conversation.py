"""Keep the conversations of a Pydantic AI agent in a Lukasa store, fork one, and find what was said.

Needs the extra ``pydantic-ai``. The model is scripted, so this runs offline.

Prints:
    after a restart: 4 messages
    the fork goes on from message 2
    recalled: The release is on Tuesday.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

import lukasa
from lukasa.integrations.pydantic_ai import LukasaConversations

agent = Agent(TestModel(custom_output_text="The release is on Tuesday."))


async def ask(store: LukasaConversations, question: str) -> Conversation:
    """Ask in the conversation of a user, and save the answer."""
    conversation = await store.load("chat", scope="ada") or Conversation(conversation_id="chat")
    result = await agent.run(question, conversation=conversation)
    await store.save(result, scope="ada")
    return result.conversation


for question in ("When is the release?", "And who decides?"):
    with lukasa.open("conversations.db") as memory:
        conversation = asyncio.run(ask(LukasaConversations(memory), question))
print(f"after a restart: {len(conversation.messages)} messages")

with lukasa.open("conversations.db") as memory:
    fork = asyncio.run(LukasaConversations(memory).fork("chat", at=2, new_conversation_id="other"))
    print(f"the fork goes on from message {len(fork.messages)}")
    best = memory.recall("On which day is the release?", kinds=["conversation_message"]).hits
    print("recalled:", next(hit.text for hit in best if "Tuesday" in hit.text))
