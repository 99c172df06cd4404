"""The files of ``deploy/``: they parse, and what they start exists."""

import configparser
import re
import shlex
from pathlib import Path

import yaml
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"


def check_command(words):
    """Check that the command line knows a command and each of its options."""
    known = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert known.exit_code == 0, known.output
    assert [word for word in words if word.startswith("--") and word not in known.output] == []


def test_the_systemd_unit_starts_a_command_that_exists():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keeps the case of names
    unit.read_string((DEPLOY / "lukasa.service").read_text("utf-8"))
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/lukasa")
    check_command(words)
    assert unit["Service"]["Restart"] == "on-failure"


def test_the_compose_file_starts_commands_that_exist():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    assert services["lukasa"]["deploy"]["replicas"] == 2
    check_command(services["lukasa"]["command"])
    assert (DEPLOY / services["lukasa"]["build"]["context"] / services["lukasa"]["build"]["dockerfile"]).exists()
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()


def test_the_containerfile_installs_extras_that_exist_and_starts_a_command_that_exists():
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    instructions = [line.split()[0] for line in text.splitlines() if line and not line.startswith(("#", " "))]
    assert set(instructions) <= {
        *("FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD")
    }
    assert instructions[-2:] == ["ENTRYPOINT", "CMD"]
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    check_command(yaml.safe_load(command))
    project = (DEPLOY.parent / "pyproject.toml").read_text("utf-8")
    for extra in re.findall(r'"\.\[(.+?)\]"', text)[0].split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
