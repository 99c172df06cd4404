"""What every part of the room of trust stands on: the books, and who may open them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date

from lukasa.clock import Clock, IdMaker
from lukasa.errors import NotAllowed
from lukasa.journal import Journal
from lukasa.models.embedder import Embedder
from lukasa.outcome import Refused
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.lookup import TrustLookup
from lukasa.trust.records import read_aggregate
from lukasa.trust.vectors import DissentVectors

_MAX_NAME_CHARS = 200


class TrustBase:
    """Where the books lie open for one caller."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        rng: random.Random,
        embedder: Callable[[], Embedder],
        lookup: TrustLookup,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._rng = rng
        self._dissent_vectors = DissentVectors(embedder)
        self._lookup = lookup

    def standing(self, agent: str) -> TrustAggregate:
        """An agent's running state."""
        self._require_owner()
        return self._read_aggregate(agent)

    def _read_aggregate(self, agent: str, *, today: date | None = None) -> TrustAggregate:
        with self._journal.snapshot() as look:
            return read_aggregate(look, agent, today=today) or TrustAggregate(agent, self._clock.now().date())

    def _require_owner(self) -> None:
        if not self._journal.reach.unlimited:
            raise NotAllowed(
                "The books of trust are the owner's.",
                hint="An agent may file a dissent of its own (file_dissent) and see its own score.",
            )

    def _check_owner_and_names(self, **names: str) -> Refused | None:
        self._require_owner()
        return next((bad for what, name in names.items() if (bad := check_name(what, name)) is not None), None)


def check_name(field: str, name: object) -> Refused | None:
    if not isinstance(name, str):
        return Refused(f"bad_{field}", f"The {field} must be text, not {type(name).__name__}.")
    if field in ("agent", "criterion") and not name.strip():
        return Refused(f"bad_{field}", f"The {field} has no name.")
    if len(name) > _MAX_NAME_CHARS:
        return Refused(
            f"bad_{field}", f"The {field} has {len(name):,} characters; at most {_MAX_NAME_CHARS} are allowed."
        )
    return None


def event_labels(kind: str, agent: str, round_id: str) -> tuple[str, ...]:
    """What an event is found by. Each kind has a label of its own, so that many of one do not stand in another's way."""
    return (f"{kind}={agent}", *((f"round={round_id}",) if round_id else ()))
