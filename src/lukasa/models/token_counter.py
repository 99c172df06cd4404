"""Counts of the tokens in a text: exact where a tokenizer is installed, an estimate that says so otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

_CHARACTERS_PER_TOKEN = 4


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
    """Return the best installed counter: ``o200k`` from ``rs-bpe`` (extra ``tokens``), or four characters per token."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]  # a compiled module without types
    except ImportError:
        return TokenCounter("characters/4", is_exact=False, count=lambda text: -(-len(text) // _CHARACTERS_PER_TOKEN))
    tokenizer = openai.o200k_base()

    def count(text: str) -> int:
        return int(tokenizer.count(text.encode("utf-8", "replace").decode()))

    return TokenCounter("o200k", is_exact=True, count=count)
