"""Keep a long conversation within a budget, and still find what was said at its start.

Prints:
    turns stored: 81, turns in the view: at most 50
    the prompt fits: True
    found: The door code of the lab is written on the blue card in the drawer.
"""

import lukasa

with lukasa.open("memory:") as memory:
    conversation = memory.context
    conversation.append("support-1", "user", "The door code of the lab is written on the blue card in the drawer.")
    for number in range(40):
        conversation.append("support-1", "user", f"Question {number}: how do I configure feature {number}?")
        conversation.append("support-1", "assistant", f"Open settings, page {number}, and switch it on.")

    conversation.compact("support-1")  # folds old turns into a summary; the transcript keeps every turn
    stored = len(list(conversation.transcript("support-1")))
    in_view = len(conversation.load("support-1").turns)
    print(f"turns stored: {stored}, turns in the view: {'at most 50' if in_view <= 50 else in_view}")

    prompt = conversation.assemble("support-1", budget=1000)
    print("the prompt fits:", prompt.tokens <= 1000)

    print("found:", memory.recall("Where is the door code of the lab?").hits[0].text)
