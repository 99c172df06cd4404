"""An optional language model behind any OpenAI-compatible endpoint. Nothing in Lukasa needs one.

``LUKASA_LLM`` names it (``https://host/v1#model``), ``LUKASA_LLM_KEY`` holds its key and ``LUKASA_LLM_PRICE``
(``0.15/0.60``: per million tokens read and written) its price; ``lukasa.config`` reads them. An answer of the model is a
proposal, which the caller judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from lukasa.errors import InvalidInput, StoreUnavailable
from lukasa.models.endpoint import Endpoint

MODEL_VARIABLE = "LUKASA_LLM"
KEY_VARIABLE = "LUKASA_LLM_KEY"
PRICE_VARIABLE = "LUKASA_LLM_PRICE"
_MAX_ANSWER_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model, whether the model ended it by itself, and its cost."""

    text: str
    finished: bool
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class ModelUsage:
    """Calls, tokens and cost of a model so far."""

    calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, answer: Completion | None) -> None:
        with self._lock:
            self.calls += 1
            if answer is None:
                self.failures += 1
            else:
                self.input_tokens += answer.input_tokens
                self.output_tokens += answer.output_tokens
                self.cost += answer.cost


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Language model at an endpoint. ``prices`` are per million tokens read and written."""

    endpoint: Endpoint
    prices: tuple[float, float] = (0.0, 0.0)
    usage: ModelUsage = field(default_factory=ModelUsage)

    @property
    def name(self) -> str:
        return self.endpoint.name

    def complete(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int) -> Completion:
        """Return the answer of the model. Raises ``StoreUnavailable`` when there is none."""
        try:
            answer = self._parse_completion(
                self.endpoint.post_json(
                    "chat/completions", {"messages": list(messages), "max_tokens": max_tokens, "temperature": 0}
                )
            )
        except StoreUnavailable:
            self.usage.add(None)
            raise
        self.usage.add(answer)
        return answer

    def _parse_completion(self, response: Any) -> Completion:
        try:
            choice = response["choices"][0]
            text, usage = choice["message"]["content"], response.get("usage") or {}
            if not isinstance(text, str):
                raise TypeError
            read, written = (max(0, int(usage.get(name, 0))) for name in ("prompt_tokens", "completion_tokens"))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise StoreUnavailable(
                f"The endpoint {self.name} answered with something that is no completion."
            ) from error
        cost = (read * self.prices[0] + written * self.prices[1]) / 1_000_000
        return Completion(text, choice.get("finish_reason") in (None, "stop"), read, written, cost)


def open_language_model(url_and_model: str, *, key: str = "", price: str = "") -> LanguageModel | None:
    """Open the model at ``https://host/v1#model``; return None for an empty name. ``price`` is like ``0.15/0.60``."""
    if not url_and_model:
        return None
    endpoint = Endpoint.from_url(url_and_model, key=key, retries=2, max_bytes=_MAX_ANSWER_BYTES)
    read, _, written = (price or "0").partition("/")
    try:
        return LanguageModel(endpoint, (float(read), float(written or read)))
    except ValueError as error:
        raise InvalidInput(
            f"{PRICE_VARIABLE} is {price[:40]!r}, which is not a price.",
            hint="Write 0.15/0.60: per million tokens read and written.",
        ) from error
