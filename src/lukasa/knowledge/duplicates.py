"""Which patterns say the same: groups around the most confident one, found through marks instead of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lukasa.knowledge.items import Knowing
from lukasa.likeness import folded, marks, overlap, sequence, words

_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Duplicates:
    """One pattern that stays, and those that say the same."""

    primary: Knowing
    others: tuple[Knowing, ...]


def duplicates(items: Sequence[Knowing], threshold: float) -> list[Duplicates]:
    """Groups at a similarity of at least ``threshold``, each around its most confident member; the oldest id on a tie."""
    ordered = sorted(items, key=lambda item: (-item.confidence, item.record.created_at, item.id))
    leaders: list[tuple[Knowing, str, frozenset[str], list[Knowing]]] = []
    marked: dict[int, list[int]] = {}
    for item in ordered:
        text = folded(item.record.text[:_LONGEST])
        bag = words(text)
        own = marks(bag)
        near = sorted({at for mark in own for at in marked.get(mark, ())})
        home = next((at for at in near if likeness(text, bag, leaders[at][1], leaders[at][2]) >= threshold), None)
        if home is not None:
            leaders[home][3].append(item)
            continue
        for mark in own:
            marked.setdefault(mark, []).append(len(leaders))
        leaders.append((item, text, bag, []))
    return [Duplicates(leader, tuple(others)) for leader, _, _, others in leaders if others]


def likeness(text: str, bag: frozenset[str], other: str, other_bag: frozenset[str]) -> float:
    """How far two texts say the same: by their words or by their letters, whichever is more.

    Texts whose words differ in a denial say the opposite, however alike they look.
    """
    if (bag ^ other_bag) & _DENIALS:
        return 0.0
    return max(overlap(bag, other_bag), sequence(text, other))


_DENIALS = frozenset(
    {"not", "no", "never", "don't", "cannot", "without", "avoid", "doesn't", "isn't", "won't", "can't"}
)
