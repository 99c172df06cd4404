"""Record how tasks went, draw patterns from them, and get a briefing before the next task.

Prints:
    patterns found: 1
    before the task:
        [sem-001] Implement the POST endpoint for …: Read the specification → Validate the request body with a schema → Write the handler → Run the tests (by 4 authors)
"""

import lukasa

STEPS = ["Read the specification", "Validate the request body with a schema", "Write the handler", "Run the tests"]

with lukasa.open("memory:") as memory:
    for number, resource in enumerate(("users", "orders", "invoices", "refunds"), 1):
        memory.episodes.record(
            f"Implement the POST endpoint for {resource}",
            agent=f"agent-{number}",  # one agent alone gives a confidence of at most 0.89
            outcome="success",
            action_log=[{"action": step, "result": "ok"} for step in STEPS],
        )
    result = memory.consolidate()  # the same episodes always give the same patterns; no language model is needed
    print("patterns found:", len(result.of("pattern")))

    briefing = memory.before_task("Implement the POST endpoint for customers")
    print("before the task:")
    for entry in briefing.relevant[:1]:
        print("   ", entry.line)
