"""The documents: their examples run, and their links lead to files."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.each import each

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLE = re.compile(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
SHELL_PAGES = [page for page in PAGES if SHELL.search(page.read_text("utf-8"))]
EXAMPLES = [
    pytest.param(code, printed, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (code, printed) in enumerate(EXAMPLE.findall(page.read_text("utf-8")), 1)
]


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_its_page_says(code, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "example", "exec"), {})
    assert output.getvalue() == printed


@pytest.mark.parametrize("page", SHELL_PAGES, ids=lambda page: page.name)
def test_the_shell_commands_of_a_page_run_in_an_empty_folder(page, tmp_path):
    program = Path(sys.executable).parent
    setting = {
        "PATH": f"{program}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LUKASA_EMBEDDER": "static",
        "PYTHONPATH": str(ROOT / "src"),
    }
    script = "set -e\n" + "".join(SHELL.findall(page.read_text("utf-8")))
    for _ in range(1 + (page.name == "README.md")):
        ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=setting, capture_output=True, text=True)
        assert ran.returncode == 0, f"{script}\n{ran.stdout}{ran.stderr}"


def test_the_readme_has_an_example():
    assert any("README" in str(example.id) for example in EXAMPLES)


@each("page", PAGES)
def test_every_link_between_pages_leads_to_a_file(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_two_commands_of_the_readme_are_in_the_makefile():
    rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"run", "test"} <= set(rules)
