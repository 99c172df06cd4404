"""Keep a long conversation within a budget, and still find what was said at its start.

Prints:
    turns stored: 81, turns in the view: 30
    the prompt fits: True
    found: The spare key of the lab is on the blue hook
"""

import lukasa

with lukasa.open("memory:") as memory:  # a file name such as "agents.db" keeps the conversation
    conversations = memory.context
    conversations.append("support-1", "user", "The spare key of the lab is on the blue hook.")
    for number in range(40):
        conversations.append("support-1", "user", f"Question {number}: how do I configure feature {number}?")
        conversations.append("support-1", "assistant", f"Open settings, page {number}, and switch it on.")

    conversations.compact("support-1")  # moves old turns into a summary; the transcript keeps every turn
    stored = len(list(conversations.transcript("support-1")))
    in_view = len(conversations.load("support-1").turns)
    print(f"turns stored: {stored}, turns in the view: {in_view}")

    prompt = conversations.assemble("support-1", budget=1000)  # prompt.text, or prompt.messages for a chat model
    print("the prompt fits:", prompt.tokens <= 1000)

    print("found:", memory.recall("Where is the spare key of the lab?").hits[0].text)
