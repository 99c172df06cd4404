"""Odd command lines, odd files and odd MCP calls: every one ends in a sentence and a right exit code, soon and in little memory.

A case is made from a seed of its own, so that a failure names what to repeat: ``LUKASA_FAULT_SEED``.
"""

from __future__ import annotations

import json
import logging
import random
import resource
import shutil
import signal
import time

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from frozen.cli_running import isolate, root_command, run, walk
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.outcomes import ExitCode
from lukasa.interfaces.stores import Caller

pytestmark = pytest.mark.requirement("DOO-2")

MAX_SECONDS = 5.0
MAX_KILOBYTES = 500_000
MAX_ADDRESS_BYTES = 8_000_000_000
MAX_WAIT = 120
NOT_RUN = {"serve", "mcp", "hook", "tour", "bench", "worker", "jobs"}
"""Commands that serve until interrupted, start processes or measure; other tests run them."""
NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "0.5",
    "1e308",
    "-1e308",
    "1e309",
    "inf",
    "-inf",
    "nan",
    "1e-400",
    "-0",
    "0x10",
    "1_000",
    "٣",
    "½",
    "9999999999999999999",
    "2147483648",
]
NUMBERS += ["9" * 400, "9" * 5000, "-" + "9" * 30]
TEXTS = [
    "",
    " ",
    "-",
    "--",
    "\0",
    "a\0b",
    "\ud800",
    "x\udcff",
    "\u202e",
    "\U000e0041",
    "é" * 2000,
    "a" * 100_000,
    "\n",
    "\t",
]
TEXTS += [
    "../../etc",
    "/",
    "~",
    "~nobody",
    ".",
    "..",
    "{}",
    "[]",
    "null",
    "[" * 5000,
    "%s%n",
    "${HOME}",
    "<|im_start|>",
    "s1",
    "demo",
]
TEXTS += [
    "shared",
    "system",
    "lukasa",
    "creator",
    "2026-02-30",
    "0000-00-00",
    "9999-12-31T23:59:59Z",
    "10000-01-01",
    "yesterday",
]
URLS = [
    "mysql://x/y",
    "redis://",
    "file://",
    "file://elsewhere/x",
    "file:///",
    "sqlite:",
    "sqlite://",
    "memory:",
    "ftp://x",
    "x://",
]
URLS += [
    "http://",
    "postgresql://[",
    "postgres://127.0.0.1:1/x?connect_timeout=1",
    "postgresql://127.0.0.1:99999/x",
    "s3:/",
    "C:\\x",
]
FILES = [
    "missing",
    "missing/below",
    "folder",
    "full",
    "binary",
    "empty",
    "deep.json",
    "deep.yaml",
    "wide.yaml",
    "long-line",
    "nul",
]
FILES += [
    "surrogate.json",
    "agents.db",
    "store-copy.db",
    "link",
    "dangling",
    "loop",
    "log.jsonl",
    "vault.jsonl",
    "context.json",
]
FILES += [
    "numbers.json",
    "bom.json",
    "graph.json",
    "profile.yaml",
    "unreadable",
    "agents",
    "loki",
    "/dev/null",
    "/dev/full",
    "x" * 300,
]
FILES += ["/dev/zero", "aliases.yaml", "binary-secret", "clean.md"]
TIMES = [
    "2026-02-03",
    "2020-01-06T10:00:00Z",
    "0001-01-01",
    "9999-12-31T23:59:59Z",
    "2026-02-03T12:00:00+14:00",
    "1e308",
    "inf",
]
TIMES += [
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30",
    "-1",
    "99999999999",
    "2026-W05",
    "2026-02-03T25:00",
]
KNOWN = {
    "context": ["s1", "user", "a plain text"],
    "checkpoint": ["demo"],
    "recover": ["demo"],
    "forecast": ["pred-1", "Will it hail?", "0.5", "yes"],
    "trust": ["creator", "Accuracy=3", "a plain text about Clarity", "r", "ada"],
    "skill": ["deploy"],
}
"""Values that let a command reach its work."""
SET_UP = [
    "remember 'We deploy on Tuesdays.' --topic deploys",
    "remember 'The staging database is called heron.'",
    "context append s1 user 'The deadline is Friday.'",
    "checkpoint save demo --state state.json",
    "episode record 'Fix the login page' --outcome failure",
    "skill add skill.md --id deploy",
    "handoff create ada 'Wrote the tests' --from-agent orion",
    "forecast predict 'Will it rain?' 0.4 --prediction-id pred-1",
    "trust log-override creator XML JSON --by ada --criterion Clarity --round-id r",
    "export log.jsonl",
    "vault export vault.jsonl",
    "context export s1 context.json",
    "export graph.json --format memory-graph",
    "export loki --format loki",
    "trust export agents",
    "backup store-copy.db",
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Make a store and the files that odd command lines name; return the folder."""
    import shlex

    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        isolate(folder, patch)
        (folder / "state.json").write_text(json.dumps({"metadata": {"agent_id": "orion"}}))
        (folder / "skill.md").write_text("# Skill: Deploy\n\n## Steps\n1. Build\n\n## Exit Criteria\n- It runs\n")
        for line in SET_UP:
            answer = run(shlex.split(line))
            assert answer.code == 0, (line, answer)
    (folder / "folder").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("x")
    (folder / "link").symlink_to("log.jsonl")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "unreadable").write_text("x")
    (folder / "unreadable").chmod(0)
    contents = {
        "binary": random.Random(1).randbytes(20_000),
        "binary-secret": b"\xff\xfe\x00secret",
        "empty": b"",
        "deep.json": b"[" * 100_000,
        "deep.yaml": b"[" * 20_000,
        "wide.yaml": b"memory: {" + b"a: 1, " * 5_000 + b"}",
        "aliases.yaml": b"a: &a [x]\n"
        + b"".join(b"%c: &%c [*%c,*%c,*%c,*%c]\n" % (c, c, *[c - 1] * 4) for c in range(98, 120)),
        "long-line": b"x" * 3_000_000,
        "nul": b"a\0b\n" * 10,
        "surrogate.json": b'{"text": "\\ud800", "session_id": "\\udfff"}',
        "numbers.json": b"[1e308, 1e309, -0, NaN, Infinity, %s]" % (b"9" * 5000),
        "bom.json": b"\xef\xbb\xbf{}",
        "profile.yaml": b"memory: {max_items: 99999999999999999999, similarity_threshold: .inf}",
        "clean.md": b"# Skill: X\n",
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """Return a private copy of the prepared folder, as the working folder, in a process that cannot take much memory."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, limits[1]))
    target = tmp_path / "work"
    shutil.copytree(prepared, target, symlinks=True, ignore=shutil.ignore_patterns("home", "unreadable"))
    (target / "unreadable").write_text("x")
    (target / "unreadable").chmod(0)
    isolate(target, monkeypatch)
    yield target
    resource.setrlimit(resource.RLIMIT_AS, limits)


class Guard:
    """Checks the time, the memory and the ending of what runs inside it."""

    def __init__(self, what):
        self._what = what

    def __enter__(self):
        self._kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._seconds = time.process_time()
        signal.signal(signal.SIGALRM, self._stop)
        signal.alarm(MAX_WAIT)
        return self

    def _stop(self, *_):
        pytest.fail(f"{self._what} waits for ever")

    def __exit__(self, kind, error, trace):
        signal.alarm(0)
        seconds = time.process_time() - self._seconds
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._kilobytes
        if kind is None:
            assert seconds < MAX_SECONDS, f"{self._what} took {seconds:.1f} s"
            assert kilobytes < MAX_KILOBYTES, f"{self._what} took {kilobytes:,} kB"


def check_line(words):
    """Run a command line; it must end in a sentence and a known exit code."""
    shown = f"lukasa {' '.join(map(ascii, words))}"[:600]
    try:
        with Guard(shown):
            answer = run(words)
    except Exception as error:
        raise AssertionError(f"{shown} raised {error!r}") from error
    said = answer.err + answer.out.decode("utf-8", "replace")
    assert answer.code in set(ExitCode) - {ExitCode.UNEXPECTED}, f"{shown}\n{said[-3000:]}"
    assert "Traceback" not in answer.err, f"{shown}\n{said[-3000:]}"
    if answer.code:
        assert said.strip(), f"{shown} ended with {answer.code} and said nothing"
    return answer


COMMANDS = [
    (path, command)
    for path, command in walk(root_command())
    if path and not hasattr(command, "commands") and path[0] not in NOT_RUN
]


def value_for(rng, command, metavar):
    """Return a value for a parameter: one that fits, one of its kind and odd, or at times one of any kind."""
    chance = rng.random()
    if chance < 0.05:
        return rng.choice([*NUMBERS, *TEXTS, *URLS, *FILES])
    if any(word in metavar for word in ("FILE", "FOLDER", "DIR", "PATH", "SRC", "DEST", "URL")):
        return rng.choice(FILES + URLS if "URL" in metavar or rng.random() < 0.3 else FILES)
    if any(word in metavar for word in ("TIME", "DATE", "UNTIL")):
        return rng.choice(TIMES) if chance < 0.7 else rng.choice(TEXTS)
    if any(word in metavar for word in ("N", "P", "DAYS", "HOURS", "SECONDS", "SHARE", "TOKENS")) and len(metavar) < 8:
        return rng.choice(["1", "2", "30", "0.5"]) if chance < 0.4 else rng.choice(NUMBERS)
    if "|" in metavar and metavar == metavar.lower():
        return rng.choice(metavar.strip("[]").split("|"))
    known = KNOWN.get(command, ["s1", "demo", "creator", "pred-1", "shared", "deploy", "memory", "note"])
    return rng.choice(known) if chance < 0.75 else rng.choice(TEXTS)


def odd_line(rng):
    """Return the words of a command line."""
    words = ["--json"] if rng.random() < 0.3 else []
    for name, values in (("--store", FILES + URLS), ("--agent", TEXTS), ("--profile", FILES), ("--scope", TEXTS)):
        if rng.random() < 0.04:
            words += [name, rng.choice(values)]
    path, command = rng.choice(COMMANDS)
    words += path
    arguments = []
    for param in command.params:
        metavar = str(param.metavar or "")
        if not param.opts[0].startswith("-"):
            if param.required or rng.random() < 0.7:
                count = 1 if param.nargs == 1 else rng.randint(1, 3)
                arguments += [value_for(rng, path[0], metavar) for _ in range(count)]
        elif param.opts[0] not in ("--help", "--watch", "--json") and (param.required or rng.random() < 0.25):
            words.append(rng.choice([*param.opts, *param.secondary_opts]))
            if not param.is_flag:
                words.append(value_for(rng, path[0], metavar))
    return [*words, *arguments]


IMPORTS = {
    "log.jsonl": "import {}",
    "vault.jsonl": "vault import {}",
    "context.json": "context import {}",
    "graph.json": "import {} --format memory-graph",
    "agents/creator.json": "trust import {}",
    "state.json": "checkpoint save other --state {}",
    "loki": "import {} --format loki",
}
ODD_JSON = [
    "null",
    "[]",
    "{}",
    '""',
    "1e309",
    "NaN",
    "-1",
    '"\\ud800"',
    "9" * 500,
    "[" * 2000,
    '{"a":' * 2000,
    "true",
    '"x"',
    '"2026-13-40"',
]


def damage(rng, data):
    """Return a file with some of its bytes or values replaced."""
    for _ in range(rng.choice([1, 1, 1, 3])):
        place = rng.randrange(len(data) + 1)
        deed = rng.random()
        if deed < 0.2:
            data = data[:place]
        elif deed < 0.4:
            data = data[:place] + rng.randbytes(rng.randint(1, 20)) + data[place + rng.randint(0, 20) :]
        elif deed < 0.5:
            data = data * rng.randint(2, 3)
        else:
            start = data.find(b":", place) + 1
            ends = [end for end in (data.find(mark, start) for mark in (b",", b"}", b"]")) if end > start]
            if start and ends:
                data = data[:start] + rng.choice(ODD_JSON).encode() + data[min(ends) :]
    return data


def check_import(rng, folder):
    """Import a damaged file into a new store, or any file as any format."""
    name = rng.choice(list(IMPORTS))
    source = folder / name
    if source.is_dir():
        files = sorted(path for path in source.rglob("*") if path.is_file())
        if files:
            file = rng.choice(files)
            file.write_bytes(damage(rng, file.read_bytes()))
    elif rng.random() < 0.7:
        source = folder / f"damaged-{source.name}"
        source.write_bytes(damage(rng, (folder / name).read_bytes()))
    else:
        source = folder / rng.choice([file for file in FILES if "/" not in file])
    check_line(["--store", f"new-{rng.getrandbits(16)}.db", *(word.format(source) for word in IMPORTS[name].split())])


def odd_argument(rng, depth=0):
    """Return any JSON value."""
    deed = rng.random()
    if depth < 3 and deed < 0.15:
        return [odd_argument(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if depth < 3 and deed < 0.3:
        return {
            rng.choice(["name", "", "from", "\ud800", "observations"]): odd_argument(rng, depth + 1) for _ in range(2)
        }
    return rng.choice([*TEXTS, None, True, -1, 0, 10**30, 1e308, float("inf"), float("nan"), 0.5, "x" * 1000])


def check_call(rng, server, tools):
    """Call a tool with odd arguments; it answers, and never with an unforeseen error."""
    tool = rng.choice(tools)
    names = list(tool.input_schema["properties"])
    arguments = {
        name: odd_argument(rng) for name in names if name in tool.input_schema.get("required", ()) or rng.random() < 0.4
    }
    for name in arguments:
        kind = tool.input_schema["properties"][name].get("type")
        if rng.random() < 0.7:
            arguments[name] = {
                "string": lambda: rng.choice(TEXTS),
                "integer": lambda: rng.choice([0, -1, 1, 10**30, 5]),
                "array": lambda: [odd_argument(rng, 2) for _ in range(rng.randint(0, 3))],
            }.get(kind, lambda: odd_argument(rng))()
    shown = f"{tool.name}({ascii(arguments)[:500]})"
    with Guard(shown):
        try:
            answer = anyio.run(server.call_tool, tool.name, arguments)
        except MCPError:
            return
    said = json.dumps(answer.structured_content, default=str)
    assert '"unexpected"' not in said, f"{shown}\n{said[:2000]}"


def run_cases(folder, seed, lines, imports, calls):
    log = logging.getLogger("lukasa")
    for number in range(lines):
        check_line(odd_line(random.Random(f"line {seed} {number}")))
    for number in range(imports):
        check_import(random.Random(f"import {seed} {number}"), folder)
    if calls:
        server, stores = build_server(str(folder / "calls.db"), Caller("orion", None), compat="memory")
        log.setLevel(logging.CRITICAL)
        try:
            tools = anyio.run(server.list_tools)
            for number in range(calls):
                check_call(random.Random(f"call {seed} {number}"), server, tools)
        finally:
            log.setLevel(logging.NOTSET)
            stores.close()


def test_a_hundred_and_fifty_odd_inputs_end_in_a_sentence(folder, seed):
    run_cases(folder, seed, 70, 40, 40)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_three_thousand_odd_inputs_end_in_a_sentence(folder, seed, part):
    run_cases(folder, seed + part, 140, 80, 80)
