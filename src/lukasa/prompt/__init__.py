"""Recalled memory on its way into a prompt: data within a fence, within a budget of tokens."""

from lukasa.prompt.counting import Counter, open_counter
from lukasa.prompt.fencing import Block, Told, fence

__all__ = ["Block", "Counter", "Told", "fence", "open_counter"]
