"""S3 bucket in another process, and a proxy in front of it that fails on demand. ``python buckets.py`` serves."""

import http.client
import http.server
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager

from support.narrow import present

BUCKET = "lukasa-backups"


def serve():
    """Serve S3 from memory, and print the port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()


@contextmanager
def bucket_server():
    """Start a server in another process; yield its port."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield int(present(process.stdout).readline())
    finally:
        present(process.stdin).close()
        present(process.stdout).close()
        process.terminate()
        process.wait(20)


def make_bucket(port):
    """Create a new, empty bucket."""
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")).close()
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")).close()


class Faulty(http.server.ThreadingHTTPServer):
    """Proxy. Its ``fault`` returns for each request ``500``, ``cut``, ``garble``, ``forget`` or None."""

    daemon_threads = True

    def __init__(self, port):
        self.target = port
        self.fault = lambda method, path: None
        self.requests = []
        self.reached = 0
        super().__init__(("127.0.0.1", 0), _Passing)
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self):
        return self.server_address[1]

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join(10)
        self.server_close()


class _Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Faulty

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError):
            self.close_connection = True

    def pass_on(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.requests.append((self.command, self.path))
        fault = self.server.fault(self.command, self.path)
        self.server.reached += fault is not None
        if fault == "500":
            self.answer(500, {}, b"<Error><Code>InternalError</Code></Error>")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        if fault == "forget":
            headers = {name: value for name, value in headers.items() if not name.lower().startswith("if-")}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=30)
        upstream.request(self.command, self.path, body, {**headers, "Host": f"127.0.0.1:{self.server.target}"})
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        if fault == "garble" and data:
            data = bytes([data[0] ^ 1]) + data[1:]
        self.answer(answer.status, dict(answer.getheaders()), data, cut=fault == "cut")

    def answer(self, status, headers, data, *, cut=False):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        length = (
            int(headers.get("Content-Length", headers.get("content-length", len(data))))
            if self.command == "HEAD"
            else len(data)
        )
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.close_connection = True
            self.connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_):
        """Log nothing."""


if __name__ == "__main__":
    serve()
