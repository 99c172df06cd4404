"""Episodes: what was tried, step by step, and how it ended."""

from lukasa.episodes.episode import EPISODE, FULL, Episode, went_well, went_wrong
from lukasa.episodes.room import Episodes, Pruned, Running

__all__ = ["EPISODE", "FULL", "Episode", "Episodes", "Pruned", "Running", "went_well", "went_wrong"]
