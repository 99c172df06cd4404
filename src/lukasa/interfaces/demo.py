"""The demonstration of ``lukasa serve --demo``: a week of a small team's agents, written through the library.

``demo_week.jsonl`` holds the calls, one per line: the day and time, the agent, the call, and its arguments.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib.resources import files
from operator import attrgetter
from pathlib import Path

from lukasa import canonical_json
from lukasa.clock import SystemClock
from lukasa.memory import open_memory
from lukasa.outcome import Conflict, Refused

DAYS = 7


class WeekClock:
    """A clock that is set before each call."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        """Return the time of the current call; each look is a little later."""
        self.moment += timedelta(milliseconds=1)
        return self.moment


def fill_store(path: Path) -> int:
    """Fill a new store with the week that ends now. Return the number of calls."""
    now = SystemClock().now()
    monday = (now - timedelta(days=DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
    clock = WeekClock(monday)
    lines = files("lukasa.interfaces").joinpath("demo_week.jsonl").read_bytes().splitlines()
    with open_memory(path, clock=clock) as owner:
        agents = {"": owner}
        for line in lines:
            step = canonical_json.decode(line)
            hour, minute = map(int, step["time"].split(":"))
            clock.moment = min(monday + timedelta(days=step["day"], hours=hour, minutes=minute), now)
            agent = step.get("agent", "")
            memory = agents.setdefault(agent, owner if not agent else owner.as_agent(agent))
            outcome = attrgetter(step["call"])(memory)(*step.get("with", ()), **step.get("and", {}))
            if isinstance(outcome, Refused | Conflict):
                raise ValueError(f"{step['call']} on day {step['day']}: {outcome.reason}")
        for agent, memory in agents.items():
            if agent:
                memory.close()
    return len(lines)
