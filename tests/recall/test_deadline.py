"""A recall answers in time: past its deadline, or while the embedder fails, words alone find the records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import lukasa
from lukasa.errors import StoreUnavailable
from lukasa.models.endpoint import CircuitBreaker, Endpoint

TEXT = "Deploys run on Tuesday after the smoke tests."


class StallingEmbedder:
    """An embedder that hangs, fails or works, as the test says."""

    name, length = "stalling", 4

    def __init__(self) -> None:
        self.released = threading.Event()
        self.error: Exception | None = None

    def embed(self, texts: Sequence[str]) -> Any:
        self.released.wait(30)
        if self.error is not None:
            raise self.error
        return np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (len(texts), 1))


@pytest.fixture
def embedder() -> Iterator[StallingEmbedder]:
    stalling = StallingEmbedder()
    yield stalling
    stalling.released.set()


@pytest.mark.requirement("RCL-1")
def test_past_the_deadline_words_alone_answer_and_the_answer_says_so(embedder: StallingEmbedder) -> None:
    with lukasa.open("memory:", embedder=embedder) as memory:
        memory.remember(TEXT)
        began = time.monotonic()
        result = memory.recall("When do deploys run?", deadline=0.2)
        assert time.monotonic() - began < 10
        assert result.hits[0].text == TEXT
        assert "deadline" in result.note
        assert "words alone" in result.note
        embedder.released.set()
        assert memory.recall("When do deploys run?", deadline=20).note == ""


@pytest.mark.requirement("RCL-1")
def test_a_failing_embedder_leaves_words_unless_failing_is_asked_for(
    embedder: StallingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder.released.set()
    embedder.error = StoreUnavailable("The endpoint gave no answer.")
    with lukasa.open("memory:", embedder=embedder) as memory:
        memory.remember(TEXT)
        result = memory.recall("When do deploys run?")
        assert (result.hits[0].text, "words alone" in result.note) == (TEXT, True)
    monkeypatch.setenv("LUKASA_EMBEDDER_FAILURE", "error")
    with lukasa.open("memory:", embedder=embedder) as memory:
        memory.remember(TEXT)
        with pytest.raises(StoreUnavailable, match="no answer"):
            memory.recall("When do deploys run?")


class FailingHandler(BaseHTTPRequestHandler):
    requests = 0

    def do_POST(self) -> None:
        type(self).requests += 1
        self.send_error(500)

    def log_message(self, *_: Any) -> None: ...


@pytest.mark.requirement("RCL-1")
def test_an_endpoint_that_fails_again_and_again_is_left_alone_for_a_while() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), FailingHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        breaker = CircuitBreaker(failures=3, seconds=0.5)
        endpoint = Endpoint(f"http://127.0.0.1:{server.server_address[1]}", "m", timeout=5, breaker=breaker)
        for _ in range(6):
            with pytest.raises(StoreUnavailable):
                endpoint.post_json("embeddings", {})
        assert FailingHandler.requests == 3
        with pytest.raises(StoreUnavailable, match="asked again in"):
            endpoint.post_json("embeddings", {})
        time.sleep(0.6)
        with pytest.raises(StoreUnavailable, match="HTTP 500"):
            endpoint.post_json("embeddings", {})
        assert FailingHandler.requests == 4
        server.shutdown()
