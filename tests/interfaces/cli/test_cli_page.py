"""The reference pages of the commands: every command, option and exit code is there, and examples print what they say."""

import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app
from lukasa.interfaces.cli.build import BuiltCommand
from lukasa.interfaces.cli.tour import TOUR_STEPS, run_steps
from lukasa.interfaces.outcomes import OUTCOMES, ExitCode
from support.each import each

pytestmark = pytest.mark.requirement("DOO-2")

FOLDER = Path(__file__).parents[3] / "docs" / "reference"
PAGE = (FOLDER / "cli.md").read_text("utf-8")
PAGES = {page.name: text for page in sorted(FOLDER.glob("*.md")) if "```console" in (text := page.read_text("utf-8"))}
SECTIONS = {
    command: section
    for page in PAGES.values()
    for command, section in re.findall(r"^### `lukasa ([a-z -]+)`\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
}
CHANGING = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"),
    (re.compile(r"\b[0-9a-f]{26}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"[\d.]+ (bytes|[kMG]B)"), "SIZE"),
    (re.compile(r"\b3\.\d+\.\d+\b"), "SQLITE"),
    (re.compile(r"\((?:today|yesterday|\d+ (?:day|week|month|year)s? ago)\)"), "(AGE)"),
    (re.compile(r"─+"), "─"),
]


def commands(group, *path):
    """Yield every command below a group with its path."""
    for name, command in group.commands.items():
        yield " ".join((*path, name)), command
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


BUILT = {name for name, command in COMMANDS.items() if isinstance(command, BuiltCommand)}


@each("name", sorted(set(COMMANDS) - BUILT))
def test_every_command_written_by_hand_is_documented_with_its_options_and_an_example(name):
    section = SECTIONS[name]
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option not in ("--help", "--json"):
                assert f"`{option}" in section, option
    if not hasattr(COMMANDS[name], "commands"):
        assert re.search(rf"^\$ lukasa (--\S+ \S+ )*{name}\b", section, re.MULTILINE)


@each("name", sorted(BUILT - set(SECTIONS)))
def test_every_built_command_without_a_section_is_named(name):
    assert re.search(rf"`(lukasa )?({name}|{name.rpartition(' ')[2]})\b", "".join(PAGES.values()))


def test_every_documented_command_exists():
    assert set(SECTIONS) <= set(COMMANDS)


@each("name", sorted(BUILT & set(SECTIONS)))
def test_a_section_names_only_options_that_there_are(name):
    """The words of a section may also name options of the other commands of its group."""
    group = name.rpartition(" ")[0]
    near = [command for words, command in COMMANDS.items() if words == name or (group and words.startswith(group))]
    near.append(typer.main.get_command(app))
    known = {option for command in near for each in command.params for option in (*each.opts, *each.secondary_opts)}
    prose = re.sub(r"```.*?```", "", SECTIONS[name], flags=re.DOTALL)
    assert set(re.findall(r"`(--?[a-z-]+)", prose)) <= known


def test_the_site_lists_every_command_with_every_option():
    spec = spec_from_file_location("site_tool", FOLDER.parents[1] / "tools" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = "\n".join(tool._describe_commands())
    for name, command in COMMANDS.items():
        if not hasattr(command, "commands"):
            section = page.partition(f"## `lukasa {name}`\n")[2].partition("\n## ")[0]
            assert all(option in section for one in command.params for option in one.opts if option != "--help"), name


def test_every_exit_code_is_documented_with_its_errors():
    rows = {int(code): rest for code, rest in re.findall(r"^\| (\d+) \|(.*)", PAGE, re.MULTILINE)}
    assert set(rows) == {int(ending) for ending in ExitCode}
    for kind, row in OUTCOMES.items():
        if kind.__module__.startswith("lukasa"):
            assert f"`{kind.__name__}`" in rows[row.exit_code], kind


def without_volatile_parts(text):
    """Replace times, ids, hashes and sizes by words."""
    for changing, word in CHANGING:
        text = changing.sub(word, text)
    return text.strip()


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_it_says(page, tmp_path, monkeypatch):
    """Run the examples in order in an empty folder, after the Python example that creates their store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if made := re.search(r"a store that this code made:\n\n```python\n(.*?)```", PAGES[page], re.DOTALL):
        exec(made[1], {})
    runner = CliRunner(env={"LUKASA_STORE": "agents.db"})
    for block in re.findall(r"```console\n(.*?)```", PAGES[page], re.DOTALL):
        for example in re.split(r"^\$ lukasa ", block, flags=re.MULTILINE)[1:]:
            line, _, printed = example.partition("\n")
            answer = without_volatile_parts(
                runner.invoke(app, shlex.split(line)).output.replace(str(tmp_path), "/srv/agents")
            )
            beginning, more, _ = without_volatile_parts(printed).partition("\n…")
            assert (answer[: len(beginning)] if more else answer) == beginning, line


# the tour


@pytest.fixture(scope="module")
def statements():
    """Run the tour and list every statement with its result."""
    return [line for _, lines in run_steps() for line in lines]


def test_the_tour_runs_every_step(statements):
    assert "".join(code + "\n" for code, _ in statements) == "".join(step.code + "\n" for step in TOUR_STEPS)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("orion.journal.get(Key(", "None"),
        ('orion.journal.write("note", "Let me in."', "Refused (scope_closed)"),
        ('orion.journal.write("note", body=', "Refused (bad_json)"),
        ('orion.journal.write("note", "Deploys run on Monday."', "Conflict: shared/note/deploy-day is at version 2"),
        ("orion.journal.get(deploy_day, as_of=", "shared/note/deploy-day version 1: Deploys run on Tuesday."),
        ('orion.journal.find("deploy review")', "shared/note/review version 1"),
        ("len(orion.journal.find(", "3"),
        ("undone.reverted", "shared/note/rumour"),
        ("owner.journal.erase(", "ErasureReceipt(id="),
        ("elysia.journal.history(", "[]"),
        ("owner.verify()", "VerifyReport(versions=10, findings=(), set_aside=0, forged_rules=())"),
        ('(folder / "here.jsonl").read_bytes() ==', "True"),
    ],
)
def test_the_tour_prints_real_results(statements, code, result):
    (shown,) = [shown for statement, shown in statements if statement.startswith(code)]
    assert shown[0].startswith(result)


def test_the_tour_shows_a_false_note_then_hides_and_undoes_it(statements):
    found = [shown for statement, shown in statements if statement == 'orion.journal.find("review")']
    assert [len(shown) for shown in found] == [3, 1, 1]


def test_the_tour_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["tour"])
    assert shown.exit_code == 0
    assert all(f"{number}. {step.title}" in shown.stdout for number, step in enumerate(TOUR_STEPS, 1))
    assert list(tmp_path.iterdir()) == []
