"""What every part of the room of trust stands on: the books, and who may open them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date

from lukasa.clock import Clock, IdMaker
from lukasa.embedder import Embedder
from lukasa.errors import NotAllowed
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.trust.belief import Belief
from lukasa.trust.books import standing_of
from lukasa.trust.nearness import Nearness
from lukasa.trust.standing import Standing

_LONGEST_NAME = 200


class Desk:
    """Where the books lie open for one caller."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        chance: random.Random,
        embedder: Callable[[], Embedder],
        belief: Belief,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._chance = chance
        self._nearness = Nearness(embedder)
        self._belief = belief

    def standing(self, agent: str) -> Standing:
        """An agent's running state."""
        self._require_owner()
        return self._standing(agent)

    def _standing(self, agent: str, *, today: date | None = None) -> Standing:
        with self._journal.looking() as look:
            return standing_of(look, agent, today=today) or Standing(agent, self._clock.now().date())

    def _require_owner(self) -> None:
        if not self._journal.reach.unlimited:
            raise NotAllowed(
                "The books of trust are the owner's.",
                hint="An agent may file a dissent of its own (file_dissent) and see its own score.",
            )

    def _objection(self, **names: str) -> Refused | None:
        self._require_owner()
        return next((bad for what, name in names.items() if (bad := bad_name(what, name)) is not None), None)


def bad_name(what: str, name: object) -> Refused | None:
    if not isinstance(name, str):
        return Refused(f"bad_{what}", f"The {what} must be text, not {type(name).__name__}.")
    if what in ("agent", "criterion") and not name.strip():
        return Refused(f"bad_{what}", f"The {what} has no name.")
    if len(name) > _LONGEST_NAME:
        return Refused(f"bad_{what}", f"The {what} has {len(name):,} characters; at most {_LONGEST_NAME} are allowed.")
    return None


def labels_of(kind: str, agent: str, round_id: str) -> tuple[str, ...]:
    """What an event is found by. Each kind has a label of its own, so that many of one do not stand in another's way."""
    return (f"{kind}={agent}", *((f"round={round_id}",) if round_id else ()))
