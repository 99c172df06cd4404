"""A language model that does what a test tells it, over real HTTP: answers, fails, or misbehaves in every known way.

    with ModelStandIn("500", "500", "- Anna decided to use PostgreSQL.") as model:
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

_REPEATED = 58_000


class ModelStandIn:
    """An OpenAI-compatible endpoint on this machine, alive within ``with``."""

    def __init__(self, *answers: str, key: str = "") -> None:
        self._answers = list(answers) or ["ok"]
        self._key = key
        self._guard = threading.Lock()
        self._leaving = threading.Event()
        self.asked: list[dict[str, Any]] = []

    @property
    def place(self) -> str:
        """What to give to ``open_model`` or to ``LUKASA_LLM``."""
        return f"http://127.0.0.1:{self._server.server_port}/v1#stand-in"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self, asked: dict[str, Any]) -> str:
        with self._guard:
            self.asked.append(asked)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = stand_in._next(asked)
                if stand_in._key and self.headers.get("Authorization") != f"Bearer {stand_in._key}":
                    self.send_error(401)
                    return
                try:
                    _MISBEHAVING.get(answer, _say(answer))(self, stand_in._leaving)
                except OSError:
                    self.close_connection = True  # whoever asked has left

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        return Handler


_Deed = Callable[[Any, threading.Event], None]


def _send(handler: Any, body: bytes, told: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body) if told is None else told))
    handler.end_headers()
    handler.wfile.write(body)


def _completion(text: object, finish: str = "stop") -> bytes:
    return json.dumps(
        {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }
    ).encode()


def _say(text: object, finish: str = "stop") -> _Deed:
    return lambda handler, _: _send(handler, _completion(text, finish))


def _fail(code: int) -> _Deed:
    return lambda handler, _: handler.send_error(code)


def _drip(handler: Any, leaving: threading.Event) -> None:
    """Sends byte after byte, and never comes to an end."""
    handler.send_response(200)
    handler.end_headers()
    while not leaving.wait(0.02):
        handler.wfile.write(b" ")


def _hang(_: Any, leaving: threading.Event) -> None:
    leaving.wait(30)


def _cut(handler: Any, _: threading.Event) -> None:
    body = _completion("- The conversation was about databases and their owners.")
    _send(handler, body[: len(body) // 2], told=len(body))


_MISBEHAVING: dict[str, _Deed] = {
    "500": _fail(500),
    "503": _fail(503),
    "400": _fail(400),
    "hang up": lambda handler, _: handler.connection.close(),
    "slow": _hang,
    "drip": _drip,
    "cut off": _cut,
    "ended too early": _say("- The conversation was about databases and", "length"),
    "empty": _say(""),
    "blank": _say(" \n\t\n"),
    "nothing": _say(None),
    "garbage": _say("\x00\x01\x02\ufffd" * 400),
    "not json": lambda handler, _: _send(handler, b"<html>gateway</html>"),
    "not a completion": lambda handler, _: _send(handler, b'{"choices": []}'),
    "a list": lambda handler, _: _send(handler, b"[1, 2, 3]"),
    "repetition": _say("the database " * _REPEATED),
    "a short repetition": _say("- We talk about it.\n" * 60),
    "refusal": _say("I'm sorry, but I can't help with summarising this conversation."),
    "something else": _say("- Penguins huddle together against Antarctic winds.\n- Krill feeds whales near glaciers."),
    "too long": _say(" ".join(f"word{number} tells something new" for number in range(20_000))),
    "huge": lambda handler, _: _send(handler, b'{"x": "' + b"x" * 6_000_000 + b'"}'),
}

MISBEHAVIOURS = tuple(_MISBEHAVING)
"""Every way in which the stand-in can misbehave, by name."""
