"""Knowledge: patterns, anti-patterns and facts, and the links between them."""

from lukasa.knowledge.items import (
    ANTIPATTERN,
    FACT,
    KINDS,
    PATTERN,
    RELATIONS,
    Knowing,
    antipattern_draft,
    fact_draft,
    pattern_draft,
)
from lukasa.knowledge.room import Contradiction, Knowledge

__all__ = [
    "ANTIPATTERN",
    "FACT",
    "KINDS",
    "PATTERN",
    "RELATIONS",
    "Contradiction",
    "Knowing",
    "Knowledge",
    "antipattern_draft",
    "fact_draft",
    "pattern_draft",
]
