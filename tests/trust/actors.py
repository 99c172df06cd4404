"""What other processes do in the tests of trust."""

import json
import sys

import lukasa


def log(place, agent, first, many):
    """Logs dissents and overrides of one agent, as one of several at once."""
    with lukasa.open(place, embedder="hash") as memory:
        for at in range(first, first + many):
            words = " ".join(f"word{at}x{nr}" for nr in range(20))
            assert memory.trust.log_dissent(agent, words, impact=at % 2 == 0, of="other", rubric_citations=["x"])
            held = memory.trust.log_override(agent, "a", "b", round_id="same")
            assert held
            if at % 3 == 0:
                assert memory.trust.revert(held.records[0].id, by="ada")
            assert memory.trust.participate(agent, f"round-{at % 5}")


if __name__ == "__main__":
    log(**json.loads(sys.argv[1]))
