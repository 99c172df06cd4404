"""How commands end: exit codes, errors in one sentence, streams that close, text that wants to harm a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

import lukasa
from lukasa import Key, errors
from lukasa.interfaces.cli import main
from lukasa.interfaces.cli.app import RootCommandGroup, app
from lukasa.interfaces.cli.exit_codes import (
    EXIT_CODES,
    CommandRefused,
    ExitCode,
    exit_code_for,
    failure_for,
    require_accepted,
)
from lukasa.outcome import Accepted, Conflict, Outcome, Refused

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
    """Starts a real process."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*LUKASA, *map(str, words)], env=os.environ | (env or {}), **pipes)


def finish(process, timeout=60):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def call(*words, app=app):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


# the table


def error_tree(kind=errors.LukasaError):
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "lukasa.errors":
            yield from error_tree(child)


def test_every_error_and_every_outcome_has_exactly_one_ending():
    ours = {kind for kind in EXIT_CODES if kind.__module__.startswith("lukasa")}
    assert ours == {*error_tree(), *get_args(Outcome)}


@pytest.mark.parametrize("kind", [kind for kind in EXIT_CODES if kind is not Accepted])
def test_only_what_was_accepted_ends_well(kind):
    assert EXIT_CODES[kind] is not ExitCode.OK


@pytest.mark.parametrize("kind", list(error_tree()), ids=lambda kind: kind.__name__)
def test_every_error_is_told_with_its_code_its_sentence_and_its_hint(kind):
    failure = failure_for(kind("It went wrong.", hint="Do better."))
    assert (failure.message, failure.hint, failure.exit_code) == ("It went wrong.", "Do better.", EXIT_CODES[kind])
    assert failure.code == failure.code.lower()
    assert failure.code.replace("_", "") == kind.__name__.lower()


def test_an_error_without_words_tells_its_own():
    assert failure_for(errors.StoreBusy()).message.startswith("Another process held the write lock")


def test_outcomes_end_a_command_unless_they_were_accepted():
    accepted = Accepted([])
    assert require_accepted(accepted) is accepted
    for outcome, ending, code in (
        (Refused("bad_id", "No."), ExitCode.REFUSED, "bad_id"),
        (Refused("not_found", "Nothing there."), ExitCode.NOT_FOUND, "not_found"),
        (Conflict(Key("s", "k", "i"), 1, 2), ExitCode.CONFLICT, "conflict"),
    ):
        with pytest.raises(CommandRefused) as stopped:
            require_accepted(outcome)
        failure = failure_for(stopped.value)
        assert (failure.exit_code, failure.code, failure.message) == (ending, code, outcome.reason)


def test_an_error_that_is_not_named_ends_like_its_nearest_ancestor():
    assert exit_code_for(PermissionError()) is ExitCode.UNAVAILABLE
    assert exit_code_for(type("Late", (errors.StoreBusy,), {})("Late.")) is ExitCode.UNAVAILABLE
    assert exit_code_for(ZeroDivisionError()) is ExitCode.UNEXPECTED


# telling


def test_an_error_is_one_sentence_on_stderr(tmp_path):
    result = call("--store", tmp_path / "typo.db", "verify")
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == f"Error: There is no store at {tmp_path / 'typo.db'}. Name another one with --store.\n"


def test_an_error_is_json_on_stdout_when_json_was_asked_for(tmp_path):
    result = call("--json", "--store", tmp_path / "typo.db", "verify")
    assert (result.exit_code, result.stderr) == (5, "")
    assert json.loads(result.stdout) == {
        "error": {
            "code": "store_missing",
            "message": f"There is no store at {tmp_path / 'typo.db'}.",
            "hint": "Name another one with --store.",
        }
    }


@pytest.mark.parametrize(
    "words", [["nonsense"], ["log", "--bogus"], ["log", "--limit", "0"], ["show", "note"], ["--bogus", "log"], []]
)
def test_wrong_usage_ends_with_two_and_is_json_too(words):
    assert call(*words).exit_code == 2
    result = call(*words, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "usage"


@pytest.mark.parametrize("words", [["log", "--since", "yesterday"], ["--store", "", "log"]])
def test_what_no_store_could_take_is_wrong_usage(words, tmp_path):
    result = call(*(["--store", tmp_path / "x.db", *words] if "--store" not in words else words))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")


def test_a_place_that_cannot_be_is_not_available(tmp_path):
    (tmp_path / "file").write_text("")
    result = call("--store", tmp_path / "file" / "folder" / "x.db", "log")
    assert result.exit_code == 7
    assert result.stderr.count("\n") == 1


def failing(error):
    """A command line of the same make whose only commands fail in a given way, or not."""
    broken = typer.Typer(cls=RootCommandGroup)

    @broken.command()
    def fail() -> None:
        raise error

    @broken.command()
    def work() -> None:
        return

    return broken


def test_a_mistake_of_ours_says_so_and_shows_where():
    result = call("fail", app=failing(ZeroDivisionError("oops")))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ZeroDivisionError: oops")
    assert "Traceback" in result.stderr


@pytest.mark.parametrize("kind", [errors.StoreBusy, errors.StoreFull, errors.StoreReadOnly, errors.StoreUnavailable])
def test_an_expected_error_never_shows_a_traceback(kind):
    result = call("fail", app=failing(kind()))
    assert result.exit_code == 7
    assert result.stderr == f"Error: {kind().message}\n"


def test_version_and_help_end_well():
    assert call("--version").stdout == f"lukasa {lukasa.__version__}\n"
    for words in (["--help"], ["log", "--help"]):
        assert call(*words).exit_code == 0


def test_every_command_has_a_help_text_with_an_example():
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        if name != "bench":
            assert f"Example: lukasa {name}" in command.help or f" {name} " in command.help, name


# hostile text


def unsafe(text):
    return [
        character for character in text if character in HOSTILE and not character.isprintable() and character != "\n"
    ]


@pytest.mark.parametrize("words", [["log"], ["show", "note", "hostile"], ["history", "note", "hostile"]])
def test_memory_text_can_neither_steer_nor_fool_a_terminal(store, words):
    shown = call("--store", store, *words).stdout
    assert unsafe(shown) == []
    for escape in (r"\x1b[31m", r"\u202e", r"\u2066", r"\u200b", r"\x9b2J", "[bold]loud[/bold] :smile:", r"\ufeff"):
        assert escape in shown


def test_a_text_cannot_pass_for_another_field(store):
    lines = call("--store", store, "show", "note", "hostile").stdout.splitlines()
    assert [line for line in lines if line.startswith("author")] == ["author    orion"]


def test_json_is_faithful_and_yet_harmless(store):
    result = call("--store", store, "show", "note", "hostile", "--json")
    record = json.loads(result.stdout)
    assert (record["body"]["x"], record["text"]) == (HOSTILE, HOSTILE + "\nauthor    somebody else")
    assert unsafe(result.stdout) == []


def test_errors_show_hostile_names_harmlessly(store):
    result = call("--store", store, "show", "note", HOSTILE)
    assert result.exit_code == 5
    assert unsafe(result.stderr) == []
    assert "[bold]loud[/bold]" in result.stderr


# real processes


def test_the_installed_script_is_this_command_line():
    (script,) = entry_points(group="console_scripts", name="lukasa")
    assert script.load() is main


def test_a_real_process_answers(store):
    code, out, err = finish(start("--store", store, "log", "--json", "--in-order"))
    assert (code, err) == (0, b"")
    assert json.loads(out)[0]["text"] == "Grüße aus 東京"


def test_a_shell_can_complete_commands_and_options():
    for typed, at, offered in (("lukasa ver", 1, "verify"), ("lukasa log --k", 2, "--kind")):
        env = {"_LUKASA_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(at)}
        assert finish(start(env=env))[1].decode().split() == [offered]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_knows_few_characters_gets_escapes(store, encoding):
    env = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0"}
    code, out, err = finish(start("--store", store, "log", env=env))
    assert (code, err) == (0, b"")
    assert rb"\u6771\u4eac" in out
    code, out, _ = finish(start("--store", store, "log", "--json", "--in-order", env=env))
    assert code == 0
    assert json.loads(out.decode("ascii"))[0]["text"] == "Grüße aus 東京"


def test_bytes_that_are_not_text_are_wrong_usage(store):
    code, _, err = finish(start("--store", store, "show", "note", os.fsdecode(b"\xff")))
    assert (code, err) == (2, b"Error: '\\udcff' is not valid UTF-8.\n")
    code, _, err = finish(start("log", env={"LUKASA_STORE": os.fsdecode(bytes(store.parent) + b"/\xff.db")}))
    assert (code, err.count(b"\n")) == (2, 1)


def leave_early(*words):
    """Runs a command whose output nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*words, stdout=writing)
    os.close(writing)
    code, _, err = finish(process)
    return code, err


@pytest.mark.parametrize("words", [["log"], ["log", "--json"], ["export", "-"], ["stats"], ["tour"]])
def test_a_reader_that_leaves_early_is_not_worth_words(store, words):
    assert leave_early("--store", store, *words) == (ExitCode.PIPE_CLOSED, b"")


@pytest.mark.parametrize("words", [["--help"], ["log", "--help"]])
def test_help_can_be_left_early_too(words):
    assert leave_early(*words)[1] == b""


def test_the_first_line_of_a_log_can_be_taken(store):
    command = ["sh", "-c", '"$@" | head -n 1', "sh", *LUKASA, "--store", str(store), "log"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.stdout.split()[0], done.stderr) == (b"recorded", b"")


@pytest.mark.parametrize("words", [["log"], ["log", "--json"], ["export", "-"]])
def test_a_full_disk_behind_stdout_is_told_on_stderr(store, words):
    with Path("/dev/full").open("wb") as full:
        code, _, err = finish(start("--store", store, *words, stdout=full))
    assert (code, err) == (7, b"Error: No space left on device.\n")


def test_closed_streams_stop_nothing(store):
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *LUKASA, "--store", str(store), "log"]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_an_interrupt_ends_quietly_and_leaves_the_store_sound(tmp_path, store):
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


def test_a_bar_is_drawn_on_stderr_for_people_only(store):
    person, terminal = pty.openpty()
    process = start("--store", store, "verify", stderr=terminal, env={"TERM": "xterm"})
    code, out, _ = finish(process)
    os.close(terminal)
    drawn = os.read(person, 100_000)
    os.close(person)
    assert (code, out) == (0, b"Sound: 2 versions proved, indexes true to the log.\n")
    assert b"Verifying" in drawn
    assert finish(start("--store", store, "verify"))[2] == b""


# quick to start


def loaded_after(code):
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60).stderr.split()


def test_help_loads_no_database():
    loaded = loaded_after("sys.argv = ['lukasa', '--help']; from lukasa.interfaces.cli import main; main()")
    assert "typer" in loaded
    assert not {"apsw", "numpy", "lukasa.storage.sqlite"} & set(loaded)


def test_the_library_loads_no_command_line():
    assert not {"typer", "rich", "lukasa.interfaces"} & set(loaded_after("import lukasa"))
