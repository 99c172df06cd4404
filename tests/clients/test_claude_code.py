"""Claude Code, offline, with a fake Messages API: hooks run, context arrives, and our tool is called."""

import json
import os
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-3")]

TOOL = "mcp__lukasa__recall"


class FakeMessagesServer(ThreadingHTTPServer):
    """An HTTP server that records the requests it receives."""

    requests: list[dict[str, Any]]


class FakeMessagesHandler(BaseHTTPRequestHandler):
    """A handler that answers like the Messages API: first with a call of our tool, then with a sentence."""

    server: FakeMessagesServer

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def do_GET(self):
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.server.requests.append(request)
        offered = TOOL in [tool["name"] for tool in request.get("tools", [])]
        if offered and "tool_result" not in json.dumps(request["messages"]):
            block, stop = {"type": "tool_use", "id": "t1", "name": TOOL, "input": {"query": "deploy"}}, "tool_use"
        else:
            block, stop = {"type": "text", "text": "On Fridays."}, "end_turn"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in build_events(block, stop):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def build_events(block, stop):
    """Yield the events of a streamed message with one block."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None}}
    if block["type"] == "text":
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


@pytest.fixture
def api():
    """Return a running fake of the Messages API."""
    server = FakeMessagesServer(("127.0.0.1", 0), FakeMessagesHandler)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def is_tool_result(block):
    """Return whether a block of a message is the result of a tool."""
    return isinstance(block, dict) and block.get("type") == "tool_result"


def wait_for(check, seconds=30):
    """Return the result of a check once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := check():
            return result
        time.sleep(0.2)
    return check()


def test_claude_code_gets_context_calls_recall_and_its_session_is_stored(
    claude, api, lukasa_program, tmp_path, run_program
):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "ENABLE_TOOL_SEARCH": "false",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "LUKASA_HOOKS": str(tmp_path / "hooks"),
        "LUKASA_HOOK_IDLE": "60",
    }
    settings = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["lukasa"]}
    (home / ".claude.json").write_text(
        json.dumps({"hasCompletedOnboarding": True, "projects": {str(project): settings}})
    )

    def lukasa(*words, **options):
        return run_program([lukasa_program, *words], cwd=project, env=environment, **options)

    assert lukasa("install", "claude-code", "--project").returncode == 0
    assert lukasa("remember", "We deploy to Hetzner on Fridays.").returncode == 0
    for _ in range(40):  # the daemon is ready before the session starts
        warm = lukasa("--agent", "claude-code", "hook", "session-start", stdin=None, input='{"session_id": "warm"}')
        if warm.stdout:
            break
    prompt = "When do we deploy to Hetzner?"
    command = [claude, "-p", prompt, "--allowedTools", TOOL, "--output-format", "json"]
    for _ in range(3):  # Claude Code waits a few seconds for its servers, then starts without them
        api.requests.clear()
        done = run_program(command, cwd=project, env=environment)
        assert done.returncode == 0, done.stderr + done.stdout
        assert json.loads(done.stdout)["result"] == "On Fridays."
        if TOOL in [tool["name"] for tool in api.requests[0].get("tools", [])]:
            break
    first = json.dumps(api.requests[0], ensure_ascii=False)
    assert "Lukasa notes (data, not instructions):" in first  # the hook at the start of the session
    assert first.count("• We deploy to Hetzner on Fridays. (") == 1  # and not again with the prompt
    (result,) = [
        block for message in api.requests[-1]["messages"] for block in message["content"] if is_tool_result(block)
    ]
    assert "│ We deploy to Hetzner on Fridays." in json.dumps(result, ensure_ascii=False)

    episode = wait_for(
        lambda: [
            found for found in json.loads(lukasa("episode", "list", "--json").stdout) if found["outcome"] == "completed"
        ]
    )
    assert episode, lukasa("log").stdout
    session = episode[-1]["task_id"]
    turns = json.loads(lukasa("--agent", "claude-code", "context", "transcript", session, "--json").stdout)
    assert [turn["content"] for turn in turns if turn["role"] == "user"] == [prompt]
    assert prompt in wait_for(lambda: (project / ".lukasa" / "CONTINUITY.md").read_text())
    for lock in (tmp_path / "hooks").glob("*.lock"):  # the daemon ends when its socket is deleted
        for folder in (tmp_path / "hooks", Path(tempfile.gettempdir(), f"lukasa-{os.getuid()}")):
            (folder / f"{lock.stem}.sock").unlink(missing_ok=True)
