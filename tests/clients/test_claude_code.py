"""The real Claude Code, offline, against a small stand-in for its API: hooks fire, context arrives, our tool is called."""

import json
import os
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("mcp")

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-3")]

TOOL = "mcp__lukasa__recall"


class StandIn(BaseHTTPRequestHandler):
    """Answers like the Messages API: first with a call of our tool, then, once it has the result, with a sentence."""

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
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.server.seen.append(asked)
        offered = TOOL in [tool["name"] for tool in asked.get("tools", [])]
        if offered and "tool_result" not in json.dumps(asked["messages"]):
            block, stop = {"type": "tool_use", "id": "t1", "name": TOOL, "input": {"query": "deploy"}}, "tool_use"
        else:
            block, stop = {"type": "text", "text": "On Fridays."}, "end_turn"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events(block, stop):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def events(block, stop):
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
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def is_result(block):
    return isinstance(block, dict) and block.get("type") == "tool_result"


def until(check, seconds=30):
    """What a check finds in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := check():
            return found
        time.sleep(0.2)
    return check()


def test_claude_code_is_given_memory_uses_it_and_is_remembered(claude, api, lukasa_program, tmp_path, run_program):
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
    told = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["lukasa"]}
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True, "projects": {str(project): told}}))

    def lukasa(*words, **options):
        return run_program([lukasa_program, *words], cwd=project, env=environment, **options)

    assert lukasa("install", "claude-code", "--project").returncode == 0
    assert lukasa("remember", "We deploy to Hetzner on Fridays.").returncode == 0
    for _ in range(40):  # the resident process is warm before the session begins
        warm = lukasa("--agent", "claude-code", "hook", "session-start", stdin=None, input='{"session_id": "warm"}')
        if warm.stdout:
            break
    prompt = "When do we deploy to Hetzner?"
    words = [claude, "-p", prompt, "--allowedTools", TOOL, "--output-format", "json"]
    for _ in range(3):  # it waits a few seconds for servers to start, and then goes on without them
        api.seen.clear()
        said = run_program(words, cwd=project, env=environment)
        assert said.returncode == 0, said.stderr + said.stdout
        assert json.loads(said.stdout)["result"] == "On Fridays."
        if TOOL in [tool["name"] for tool in api.seen[0].get("tools", [])]:
            break
    first = json.dumps(api.seen[0], ensure_ascii=False)
    assert "What follows was remembered" in first  # the hook at the start of the session
    assert "│ We deploy to Hetzner on Fridays." in first  # the hook on the prompt
    (result,) = [block for message in api.seen[-1]["messages"] for block in message["content"] if is_result(block)]
    assert "│ We deploy to Hetzner on Fridays." in json.dumps(result, ensure_ascii=False)

    episode = until(
        lambda: [e for e in json.loads(lukasa("episode", "list", "--json").stdout) if e["outcome"] == "completed"]
    )
    assert episode, lukasa("log").stdout
    session = episode[-1]["task_id"]
    turns = json.loads(lukasa("--agent", "claude-code", "context", "show", session, "--all", "--json").stdout)[
        "transcript"
    ]
    assert [turn["content"] for turn in turns if turn["role"] == "user"] == [prompt]
    assert prompt in until(lambda: (project / ".lukasa" / "CONTINUITY.md").read_text())
    for lock in (tmp_path / "hooks").glob("*.lock"):  # the resident ends when its socket is gone
        for folder in (tmp_path / "hooks", Path(tempfile.gettempdir(), f"lukasa-{os.getuid()}")):
            (folder / f"{lock.stem}.sock").unlink(missing_ok=True)
