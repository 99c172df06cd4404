"""The worker process that the tests of trust start several times at once."""

import json
import sys

import lukasa


def log(location, agent, first, count):
    """Log dissents, overrides, reverts and rounds of one agent."""
    with lukasa.open(location, embedder="hash") as memory:
        for number in range(first, first + count):
            text = " ".join(f"word{number}x{index}" for index in range(20))
            assert memory.trust.log_dissent(agent, text, impact=number % 2 == 0, of="other", rubric_citations=["x"])
            outcome = memory.trust.log_override(agent, "a", "b", round_id="same")
            assert outcome
            if number % 3 == 0:
                assert memory.trust.revert(outcome.records[0].id, by="ada")
            assert memory.trust.participate(agent, f"round-{number % 5}")


if __name__ == "__main__":
    log(**json.loads(sys.argv[1]))
