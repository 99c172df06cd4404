"""A fake language model on a local HTTP port: it answers, fails, or misbehaves as a test asks.

    with FakeLLM("500", "500", "- Anna decided to use PostgreSQL.") as model:
        memory.context.using(model.url).compact("s1")

Each answer is sent once, the last one repeatedly. The name of a misbehaviour (see ``MISBEHAVIOURS``) makes the model
misbehave; any other text is its answer. ``requests`` holds the requests it received.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FakeLLM:
    """An OpenAI-compatible endpoint on this machine that runs inside a ``with`` block."""

    def __init__(self, *answers: str, key: str = "") -> None:
        self._answers = list(answers) or ["ok"]
        self._key = key
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Return the URL for ``open_model`` or ``LUKASA_LLM``."""
        return f"http://127.0.0.1:{self._server.server_port}/v1#stand-in"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_event.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next_answer(self, request: dict[str, Any]) -> str:
        with self._lock:
            self.requests.append(request)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class FakeLLMHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = fake._next_answer(request)
                if fake._key and self.headers.get("Authorization") != f"Bearer {fake._key}":
                    self.send_error(401)
                    return
                try:
                    _RESPONDERS.get(answer, _respond_with_text(answer))(self, fake._stop_event)
                except OSError:
                    self.close_connection = True  # the client closed the connection

            def log_message(self, *_: object) -> None:
                """Write no log."""

        return FakeLLMHandler


_Responder = Callable[[Any, threading.Event], object]


def _send_json(handler: Any, body: bytes, declared_length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body) if declared_length is None else declared_length))
    handler.end_headers()
    handler.wfile.write(body)


def _completion_body(text: object, finish: str = "stop") -> bytes:
    return json.dumps(
        {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }
    ).encode()


def _respond_with_text(text: object, finish: str = "stop") -> _Responder:
    return lambda handler, _: _send_json(handler, _completion_body(text, finish))


def _drip_bytes(handler: Any, stop_event: threading.Event) -> None:
    """Send single bytes until the server stops."""
    handler.send_response(200)
    handler.end_headers()
    while not stop_event.wait(0.02):
        handler.wfile.write(b" ")


def _send_half(handler: Any, _: threading.Event) -> None:
    body = _completion_body("- The conversation was about databases and their owners.")
    _send_json(handler, body[: len(body) // 2], declared_length=len(body))


_RESPONDERS: dict[str, _Responder] = {
    "500": lambda handler, _: handler.send_error(500),
    "503": lambda handler, _: handler.send_error(503),
    "400": lambda handler, _: handler.send_error(400),
    "hang up": lambda handler, _: handler.connection.close(),
    "slow": lambda _, stop_event: stop_event.wait(30),
    "drip": _drip_bytes,
    "cut off": _send_half,
    "ended too early": _respond_with_text("- The conversation was about databases and", "length"),
    "empty": _respond_with_text(""),
    "blank": _respond_with_text(" \n\t\n"),
    "nothing": _respond_with_text(None),
    "garbage": _respond_with_text("\x00\x01\x02\ufffd" * 400),
    "not json": lambda handler, _: _send_json(handler, b"<html>gateway</html>"),
    "not a completion": lambda handler, _: _send_json(handler, b'{"choices": []}'),
    "a list": lambda handler, _: _send_json(handler, b"[1, 2, 3]"),
    "repetition": _respond_with_text("the database " * 58_000),
    "a short repetition": _respond_with_text("- We talk about it.\n" * 60),
    "refusal": _respond_with_text("I'm sorry, but I can't help with summarising this conversation."),
    "something else": _respond_with_text(
        "- Penguins huddle together against Antarctic winds.\n- Krill feeds whales near glaciers."
    ),
    "too long": _respond_with_text(" ".join(f"word{number} tells something new" for number in range(20_000))),
    "huge": lambda handler, _: _send_json(handler, b'{"x": "' + b"x" * 6_000_000 + b'"}'),
}

MISBEHAVIOURS = tuple(_RESPONDERS)
"""The names of all misbehaviours."""
