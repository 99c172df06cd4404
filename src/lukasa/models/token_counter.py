"""How many tokens a text costs: counted with a real tokenizer where one is installed, estimated and said so otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens. ``exact`` is ``False`` for an estimate; ``name`` says by what is counted."""

    name: str
    is_exact: bool
    count: Callable[[str], int]

    def __call__(self, text: str) -> int:
        return self.count(text)


@cache
def open_token_counter() -> TokenCounter:
    """The best counter that is installed: ``o200k`` from ``rs-bpe`` (extra ``tokens``), else four characters a token."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]  # a compiled module without types
    except ImportError:
        return TokenCounter("characters/4", is_exact=False, count=_estimate_tokens)
    tokenizer = openai.o200k_base()

    def count(text: str) -> int:
        return int(tokenizer.count(text.encode("utf-8", "replace").decode()))

    return TokenCounter("o200k", is_exact=True, count=count)


def _estimate_tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
