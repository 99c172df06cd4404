"""A small HTTP endpoint of a model on a port of this machine, for tests of embedders and rerankers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonEndpoint(BaseHTTPRequestHandler):
    """Answers a POST with what ``answer`` makes of its JSON; ``None`` is an error of the server."""

    def answer(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request."""
        raise NotImplementedError

    def do_POST(self) -> None:
        """Read the request and send the answer."""
        answer = self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if answer is None:
            self.send_error(500)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def serve_endpoint(handler: type[JsonEndpoint]) -> Iterator[str]:
    """Serve requests in a thread, and yield the name of the model at the endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http:http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
