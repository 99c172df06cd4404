"""Following links through the wall of one reach; the statements are each engine's own, found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from lukasa.record import Key
from lukasa.scope import Reach
from lukasa.storage.engine import Neighbour


class LinkTraversal(ABC):
    """The part of a reader that follows links."""

    _reach: Reach

    @abstractmethod
    def _query_links(self, name: str, key: Key) -> Iterable[Sequence[Any]]:
        """What a named statement yields for a key; nothing for one that no store could hold."""

    def neighbours(self, key: Key, relation: str | None = None) -> list[Neighbour]:
        found: list[Neighbour] = []
        if self._reach.reads(key.scope):
            for name, *to in self._query_links("links_out", key):
                found.append(Neighbour(name, Key(*to), "out"))
        for name, *source in self._query_links("links_in", key):
            if self._reach.reads(source[0]):
                found.append(Neighbour(name, Key(*source), "in"))
        return [neighbour for neighbour in found if relation is None or neighbour.relation == relation]

    def descendants(self, keys: Sequence[Key], *, hidden: bool = False) -> list[Key]:
        name = "ever_derived_from_key" if hidden and self._reach.unlimited else "derived_from_key"
        found: dict[Key, None] = {}
        frontier = list(keys)
        while frontier:
            for row in list(self._query_links(name, frontier.pop())):
                child = Key(*row)
                if child not in found and child not in keys and self._reach.reads(child.scope):
                    found[child] = None
                    frontier.append(child)
        return list(found)
