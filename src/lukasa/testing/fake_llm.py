"""A language model that does what a test tells it, over real HTTP: answers, fails, or misbehaves in every known way.

    with FakeLLM("500", "500", "- Anna decided to use PostgreSQL.") as model:
        memory.context.using(model.place).compact("s1")

Each answer is used once, the last one again and again. A name of ``MISBEHAVIOURS`` misbehaves; any other text is what the
model says. What it was asked is in ``asked``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_REPETITION_COUNT = 58_000


class FakeLLM:
    """An OpenAI-compatible endpoint on this machine, alive within ``with``."""

    def __init__(self, *answers: str, key: str = "") -> None:
        self._answers = list(answers) or ["ok"]
        self._key = key
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """What to give to ``open_model`` or to ``LUKASA_LLM``."""
        return f"http://127.0.0.1:{self._server.server_port}/v1#stand-in"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_event.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next_answer(self, request: dict[str, Any]) -> str:
        with self._lock:
            self.requests.append(request)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class FakeLLMHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = stand_in._next_answer(asked)
                if stand_in._key and self.headers.get("Authorization") != f"Bearer {stand_in._key}":
                    self.send_error(401)
                    return
                try:
                    _RESPONDERS.get(answer, _respond_with_text(answer))(self, stand_in._stop_event)
                except OSError:
                    self.close_connection = True  # whoever asked has left

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        return FakeLLMHandler


_Responder = Callable[[Any, threading.Event], None]


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


def _respond_with_error(code: int) -> _Responder:
    return lambda handler, _: handler.send_error(code)


def _drip_bytes(handler: Any, stop_event: threading.Event) -> None:
    """Sends byte after byte, and never comes to an end."""
    handler.send_response(200)
    handler.end_headers()
    while not stop_event.wait(0.02):
        handler.wfile.write(b" ")


def _wait_for_stop(_: Any, stop_event: threading.Event) -> None:
    stop_event.wait(30)


def _send_half(handler: Any, _: threading.Event) -> None:
    body = _completion_body("- The conversation was about databases and their owners.")
    _send_json(handler, body[: len(body) // 2], declared_length=len(body))


_RESPONDERS: dict[str, _Responder] = {
    "500": _respond_with_error(500),
    "503": _respond_with_error(503),
    "400": _respond_with_error(400),
    "hang up": lambda handler, _: handler.connection.close(),
    "slow": _wait_for_stop,
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
    "repetition": _respond_with_text("the database " * _REPETITION_COUNT),
    "a short repetition": _respond_with_text("- We talk about it.\n" * 60),
    "refusal": _respond_with_text("I'm sorry, but I can't help with summarising this conversation."),
    "something else": _respond_with_text(
        "- Penguins huddle together against Antarctic winds.\n- Krill feeds whales near glaciers."
    ),
    "too long": _respond_with_text(" ".join(f"word{number} tells something new" for number in range(20_000))),
    "huge": lambda handler, _: _send_json(handler, b'{"x": "' + b"x" * 6_000_000 + b'"}'),
}

MISBEHAVIOURS = tuple(_RESPONDERS)
"""Every way in which the stand-in can misbehave, by name."""
