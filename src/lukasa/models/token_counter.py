"""Counts of the tokens in a text: exact where a tokenizer is installed, an estimate that says so otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil

_CHARACTERS_PER_TOKEN = 3.1
"""Code, paths and lists have fewer characters in a token than prose has; an estimate that is too high keeps a budget."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counter of tokens. ``name`` names the tokenizer; ``is_exact`` is false for an estimate."""

    name: str
    is_exact: bool
    count: Callable[[str], int]

    def __call__(self, text: str) -> int:
        return self.count(text)


@cache
def open_token_counter() -> TokenCounter:
    """Return the best installed counter: ``o200k`` from ``rs-bpe`` (extra ``tokens``), or an estimate of 3.1 characters per token."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]  # a compiled module without types
    except ImportError:
        return TokenCounter(
            f"characters/{_CHARACTERS_PER_TOKEN}",
            is_exact=False,
            count=lambda text: ceil(len(text) / _CHARACTERS_PER_TOKEN),
        )
    tokenizer = openai.o200k_base()

    def count(text: str) -> int:
        return int(tokenizer.count(text.encode("utf-8", "replace").decode()))

    return TokenCounter("o200k", is_exact=True, count=count)
