"""How commands end: exit codes, error messages, closed streams, untrusted text, fast start."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import lukasa
from lukasa import errors
from lukasa.interfaces.cli import main
from lukasa.interfaces.cli.app import RootCommandGroup, app
from lukasa.interfaces.outcomes import ExitCode
from support.each import each

pytestmark = pytest.mark.requirement("DOO-2")

LUKASA = [sys.executable, "-m", "lukasa.interfaces.cli"]
HOSTILE = (
    "a\x1b[31m red \x07 \u202egnp.exe \u2066x\u2069 \u200bhidden \x9b2J [bold]loud[/bold] :smile: \ufeff\U000e0041"
)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "agents.db"
    with lukasa.open(path, agent="orion") as memory:
        assert memory.journal.write("note", "Grüße aus 東京", id="größe")
        assert memory.journal.write("note", HOSTILE + "\nauthor    somebody else", id="hostile", body={"x": HOSTILE})
    return path


def start(*words, env=None, **options):
    """Start the command line as a process."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*LUKASA, *map(str, words)], env=os.environ | (env or {}), **pipes)


def finish(process, timeout=60):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def call(*words, app=app):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


# error messages


def test_an_error_is_one_sentence_on_stderr(tmp_path):
    result = call("--store", tmp_path / "typo.db", "verify")
    assert (result.exit_code, result.stdout) == (5, "")
    hint = "`lukasa remember TEXT` creates it; --store names another one."
    assert result.stderr == f"Error: There is no store at {tmp_path / 'typo.db'}. {hint}\n"


def test_an_error_is_json_on_stdout_with_the_json_option(tmp_path):
    result = call("--json", "--store", tmp_path / "typo.db", "verify")
    assert (result.exit_code, result.stderr) == (5, "")
    assert json.loads(result.stdout) == {
        "error": {
            "code": "store_missing",
            "message": f"There is no store at {tmp_path / 'typo.db'}.",
            "hint": "`lukasa remember TEXT` creates it; --store names another one.",
        }
    }


@pytest.mark.parametrize(
    "words", [["nonsense"], ["log", "--bogus"], ["log", "--limit", "0"], ["show"], ["--bogus", "log"], []]
)
def test_wrong_usage_ends_with_exit_code_2_and_is_json_too(words):
    assert call(*words).exit_code == 2
    result = call(*words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "usage"


@pytest.mark.parametrize("words", [["log", "--since", "yesterday"], ["--store", "", "log"]])
def test_input_that_no_store_accepts_is_wrong_usage(words, tmp_path):
    result = call(*(["--store", tmp_path / "x.db", *words] if "--store" not in words else words))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")


def test_a_store_below_a_file_is_not_available(tmp_path):
    (tmp_path / "file").write_text("")
    result = call("--store", tmp_path / "file" / "folder" / "x.db", "remember", "We deploy on Tuesdays.")
    assert result.exit_code == 7
    assert result.stderr.count("\n") == 1


def failing(error):
    """Return a command line with one command that raises an error and one that works."""
    broken = typer.Typer(cls=RootCommandGroup)

    @broken.command()
    def fail() -> None:
        raise error

    @broken.command()
    def work() -> None:
        return

    return broken


def test_an_unexpected_error_prints_a_traceback():
    result = call("fail", app=failing(ZeroDivisionError("oops")))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ZeroDivisionError: oops")
    assert "Traceback" in result.stderr


@pytest.mark.parametrize("kind", [errors.StoreBusy, errors.StoreFull, errors.StoreReadOnly, errors.StoreUnavailable])
def test_an_expected_error_prints_no_traceback(kind):
    result = call("fail", app=failing(kind()))
    assert result.exit_code == 7
    assert result.stderr == f"Error: {kind().message}\n"


def test_version_and_help_end_with_exit_code_0():
    assert call("--version").stdout.startswith(f"lukasa {lukasa.__version__}\n")
    for words in (["--help"], ["log", "--help"]):
        assert call(*words).exit_code == 0


def all_commands(command, *path):
    """Yield a command and every command below it, but for the benchmarks."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        if name != "bench":
            yield from all_commands(below, *path, name)


COMMANDS = dict(all_commands(typer.main.get_command(app)))


@each("path", [path for path in COMMANDS if path])
def test_every_command_has_a_help_text_with_an_example(path):
    summary, *_, example = COMMANDS[path].help.split("\n\n")
    assert re.fullmatch(r"[A-Z][^.]*\b.*\.", summary), summary
    assert summary.split()[0] not in {"A", "An", "All", "Each", "Every", "How", "One", "The", "What", "Who"}
    assert re.match(rf"Example: lukasa (--\S+ \S+ )*({' '.join(path)}|{path[-1]})\b", example), example


@each("path", COMMANDS)
def test_help_shows_no_type_for_flags(path):
    assert "<bool>" not in call(*path, "--help").stdout


def test_the_help_of_the_program_says_what_it_is():
    shown = call("--help").stdout
    assert "Lukasa is a memory for AI agents" in shown[:300]


def test_the_help_shows_its_panels_in_order_with_everyday_commands_first():
    shown = call("--help").stdout
    panels = re.findall(r"╭─ (.+?) ─", shown)
    assert panels == [
        "Options",
        "Every day",
        "Remember and recall",
        "Sessions",
        "Experience",
        "Trust",
        "History and undo",
        "Maintenance",
        "Import and export",
        "Serve",
        "Benchmarks",
    ]
    first = dict(re.findall(r"╭─ (.+?) ─+╮\n│ (\S+)", shown))
    assert (first["Every day"], first["Remember and recall"], first["Serve"]) == ("remember", "confirm", "mcp")
    everyday = re.findall(r"^│ (\w+)", shown.partition("Every day")[2].partition("╰")[0], re.MULTILINE)
    assert everyday == [
        *("remember", "recall", "update", "forget", "history"),
        *("context", "install", "serve", "doctor", "tour"),
    ]


# untrusted text


def unsafe(text):
    return [
        character for character in text if character in HOSTILE and not character.isprintable() and character != "\n"
    ]


@pytest.mark.parametrize("words", [["log"], ["show", "note", "hostile"], ["history", "note", "hostile"]])
def test_control_characters_in_memory_text_are_escaped(store, words):
    shown = call("--store", store, *words).stdout
    assert unsafe(shown) == []
    for escape in (r"\x1b[31m", r"\u202e", r"\u2066", r"\u200b", r"\x9b2J", "[bold]loud[/bold] :smile:", r"\ufeff"):
        assert escape in shown


def test_a_text_cannot_imitate_another_field(store):
    lines = call("--store", store, "show", "note", "hostile").stdout.splitlines()
    assert [line for line in lines if line.startswith("author")] == ["author    orion"]


def test_json_keeps_the_text_and_escapes_control_characters(store):
    result = call("--store", store, "show", "note", "hostile", "--json")
    record = json.loads(result.stdout)
    assert (record["body"]["x"], record["text"]) == (HOSTILE, HOSTILE + "\nauthor    somebody else")
    assert unsafe(result.stdout) == []


def test_error_messages_escape_control_characters(store):
    result = call("--store", store, "show", "note", HOSTILE)
    assert result.exit_code == 5
    assert unsafe(result.stderr) == []
    assert "[bold]loud[/bold]" in result.stderr


# real processes


def test_the_installed_script_is_this_command_line():
    (script,) = entry_points(group="console_scripts", name="lukasa")
    assert script.load() is main


def test_a_process_prints_the_answer(store):
    code, out, err = finish(start("--store", store, "log", "--json", "--in-order"))
    assert (code, err) == (0, b"")
    assert json.loads(out)[0]["text"] == "Grüße aus 東京"


def test_shell_completion_offers_commands_and_options():
    for typed, index, offered in (("lukasa ver", 1, "verify"), ("lukasa log --k", 2, "--kind")):
        env = {"_LUKASA_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(index)}
        assert finish(start(env=env))[1].decode().split() == [offered]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_outside_the_encoding_become_escapes(store, encoding):
    env = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0"}
    code, out, err = finish(start("--store", store, "log", env=env))
    assert (code, err) == (0, b"")
    assert rb"\u6771\u4eac" in out
    code, out, _ = finish(start("--store", store, "log", "--json", "--in-order", env=env))
    assert code == 0
    assert json.loads(out.decode("ascii"))[0]["text"] == "Grüße aus 東京"


def test_arguments_that_are_not_utf8_are_wrong_usage(store):
    code, _, err = finish(start("--store", store, "show", "note", os.fsdecode(b"\xff")))
    assert (code, err) == (2, b"Error: '\\udcff' is not valid UTF-8.\n")
    code, _, err = finish(start("log", env={"LUKASA_STORE": os.fsdecode(bytes(store.parent) + b"/\xff.db")}))
    assert (code, err.count(b"\n")) == (2, 1)


def run_with_closed_pipe(*words):
    """Run a command whose output pipe is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*words, stdout=writing)
    os.close(writing)
    code, _, err = finish(process)
    return code, err


@pytest.mark.parametrize("words", [["log"], ["log", "--json"], ["export", "-"], ["stats"], ["tour"]])
def test_a_closed_pipe_ends_a_command_silently(store, words):
    assert run_with_closed_pipe("--store", store, *words) == (ExitCode.PIPE_CLOSED, b"")


@pytest.mark.parametrize("words", [["--help"], ["log", "--help"]])
def test_a_closed_pipe_ends_help_silently(words):
    assert run_with_closed_pipe(*words)[1] == b""


def test_head_can_take_the_first_line(store):
    command = ["sh", "-c", '"$@" | head -n 1', "sh", *LUKASA, "--store", str(store), "log"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.stdout.split()[0], done.stderr) == (b"recorded", b"")


@pytest.mark.parametrize("words", [["log"], ["log", "--json"], ["export", "-"]])
def test_a_full_disk_behind_stdout_is_reported_on_stderr(store, words):
    with Path("/dev/full").open("wb") as full:
        code, _, err = finish(start("--store", store, *words, stdout=full))
    assert (code, err) == (7, b"Error: No space left on device.\n")


def test_a_command_works_with_closed_streams(store):
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *LUKASA, "--store", str(store), "log"]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_an_interrupt_leaves_the_store_sound(tmp_path, store):
    exported = finish(start("--store", store, "export", "-"))[1]
    copy = tmp_path / "copy.db"
    process = start("--store", copy, "import", "-", stdin=subprocess.PIPE)
    assert process.stderr.readline().startswith(b"Made a new store")
    process.stdin.write(exported[: len(exported) // 2])
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out, err) == (130, b"", b"Interrupted.\n")
    assert finish(start("--store", copy, "verify"))[0] == 0


def test_an_interrupt_while_a_module_is_imported_has_the_same_exit_code(tmp_path, store):
    (tmp_path / "interrupted.py").write_text("""
from lukasa.interfaces.cli import app, main
def interrupt(*_):
    exec("raise KeyboardInterrupt")  # as while `dataclasses` makes a method
app.RootCommandGroup.__mro__[1].invoke = interrupt
main()
""")
    command = [sys.executable, "-m", "interrupted", "--store", str(store), "log"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Interrupted.\n")


def test_a_progress_bar_is_drawn_only_on_a_terminal(store):
    reader, terminal = pty.openpty()
    process = start("--store", store, "verify", stderr=terminal, env={"TERM": "xterm"})
    code, out, _ = finish(process)
    os.close(terminal)
    drawn = os.read(reader, 100_000)
    os.close(reader)
    assert (code, out) == (0, b"Sound: 2 versions proved, indexes match the log.\n")
    assert b"Verifying" in drawn
    assert finish(start("--store", store, "verify"))[2] == b""


# start time


def loaded_after(code):
    """Return the modules that are loaded after a line of Python."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60).stderr.split()


def test_help_loads_no_database_and_no_service():
    loaded = loaded_after("sys.argv = ['lukasa', '--help']; from lukasa.interfaces.cli import main; main()")
    assert "typer" in loaded
    services = {"lukasa.memory", "lukasa.recall", "lukasa.vault", "lukasa.context", "lukasa.sessions", "lukasa.trust"}
    assert not {"apsw", "numpy", "psycopg", "lukasa.storage.sqlite", *services} & set(loaded)


def test_recall_into_a_pipe_loads_nothing_that_draws_or_converts(tmp_path):
    with lukasa.open(store := tmp_path / "memory.db", embedder="static") as memory:
        memory.remember("We deploy on Tuesdays.")
    words = ["lukasa", "--store", str(store), "recall", "when do we deploy?"]
    loaded = loaded_after(f"sys.argv = {words!r}; from lukasa.interfaces.cli import main; main()")
    assert "numpy" in loaded
    assert not {"rich", "pydantic", "asyncio", "email", "http.client"} & set(loaded)


def test_the_library_loads_no_command_line():
    assert not {"typer", "rich", "lukasa.interfaces"} & set(loaded_after("import lukasa"))
