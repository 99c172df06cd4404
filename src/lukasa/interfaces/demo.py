"""The demonstration of ``lukasa serve --demo``: a week of a small team's agents, written through the library.

``demo_week.jsonl`` holds the calls, one per line: the day and time, the agent, the call, and its arguments. Days before 0 are
those before the week. ``as`` names the result of a call; a later call is made ``on`` it, or takes the id of the record that
it wrote as ``$name``. ``{date}`` in a text is the day of the call.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from typing import Any

from lukasa.config import locate_owner_token, locate_store
from lukasa.core import canonical_json
from lukasa.core.clock import SystemClock
from lukasa.core.outcome import Conflict, Refused
from lukasa.experience.consolidation import jobs as consolidation_jobs
from lukasa.interfaces.api_tokens import ApiTokens, write_secret
from lukasa.memory import Memory, open_memory

DAYS = 7
BACKUP_FOLDER = "backups"
"""The folder for the backups of the demonstration, next to its store."""


class WeekClock:
    """A clock that is set before each call."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        """Return the time of the current call; each look is a little later."""
        self.moment += timedelta(milliseconds=1)
        return self.moment


def fill_store(path: Path, *, now: datetime | None = None, embedder: str | None = None) -> int:
    """Fill a new store with the week that ends now, a job and a backup. Return the number of calls."""
    now = now or SystemClock().now()
    monday = (now - timedelta(days=DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
    clock = WeekClock(monday)
    lines = files("lukasa.interfaces").joinpath("demo_week.jsonl").read_bytes().splitlines()
    with open_memory(path, clock=clock, embedder=embedder) as owner:
        agents: dict[str, Memory] = {"": owner}
        results: dict[str, Any] = {}
        for line in lines:
            step = canonical_json.decode(line)
            hour, minute = map(int, step["time"].split(":"))
            clock.moment = min(monday + timedelta(days=step["day"], hours=hour, minutes=minute), now)
            agent = step.get("agent", "")
            if agent not in agents:
                agents[agent] = owner.as_agent(agent)
            called = results[step["on"]] if "on" in step else agents[agent]
            arguments = _fill_in([step.get("with", []), step.get("and", {})], clock.moment, results)
            outcome = attrgetter(step["call"])(called)(*arguments[0], **arguments[1])
            if isinstance(outcome, Refused | Conflict):
                raise ValueError(f"{step['call']} on day {step['day']}: {outcome.reason}")
            results[step.get("as", "")] = outcome
        clock.moment = now
        owner.jobs.defer(consolidation_jobs.TASK_NAME, key="weekly", delay=timedelta(days=1).total_seconds())
        owner.backup((path.absolute().parent / BACKUP_FOLDER).as_uri())
        for agent, memory in agents.items():
            if agent:
                memory.close()
    return len(lines)


def _fill_in(value: Any, moment: datetime, results: dict[str, Any]) -> Any:
    """Return arguments with the ids of earlier results and the day in them."""
    if isinstance(value, list):
        return [_fill_in(item, moment, results) for item in value]
    if isinstance(value, dict):
        return {name: _fill_in(item, moment, results) for name, item in value.items()}
    if isinstance(value, str):
        return results[value[1:]].records[0].id if value.startswith("$") else value.replace("{date}", f"{moment:%d %B}")
    return value


def make_tokens(path: Path) -> None:
    """Make a token for the owner, in the file where the server looks for it, and some for agents and programs."""
    clock = SystemClock()
    with open_memory(path) as owner:
        tokens = ApiTokens(owner.journal, clock)
        write_secret(locate_owner_token(locate_store(str(path))), tokens.add("owner"))
        for agent in ("ada", "ben"):
            tokens.add(f"{agent}-laptop", agent=agent)
        tokens.add("dan-runner", agent="dan", rate=600, expires_at=clock.now() + timedelta(days=60))
        tokens.add("wall-screen", scopes=("shared",), read_only=True, expires_at=clock.now() + timedelta(days=9))
