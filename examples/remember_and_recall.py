"""Remember three facts, ask two questions, and forget one fact.

Prints:
    When do we deploy? → We deploy on Tuesdays, after the smoke tests.
    Where is the staging database? → The staging database runs on heron.
    refused: duplicate
    after forgetting: The smoke tests take five minutes.
"""

import lukasa

with lukasa.open("memory:") as memory:  # a file name such as "agents.db" keeps the facts
    deploys = memory.remember("We deploy on Tuesdays, after the smoke tests.")
    memory.remember("The staging database runs on heron.")
    memory.remember("The smoke tests take five minutes.")

    for question in ("When do we deploy?", "Where is the staging database?"):
        best = memory.recall(question).hits[0]
        print(question, "→", best.text)

    again = memory.remember("We deploy on Tuesdays, after smoke tests!")
    print("refused:", again.code)  # again.reason says why in a sentence

    memory.forget(deploys.unwrap().id)  # the history stays; memory.journal.erase removes it for good
    print("after forgetting:", memory.recall("When do the smoke tests run?").hits[0].text)
