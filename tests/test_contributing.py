"""CONTRIBUTING, the Makefile and the workflows name what exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
TABLE = re.findall(r"^\| (.+?) \| (.+?) \|$", CONTRIBUTING, re.MULTILINE)
PACKAGES = {path.parent.name for path in (ROOT / "src" / "lukasa").glob("*/__init__.py")}
WORKFLOWS = {path.name: path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_every_package_says_which_tests_to_run():
    named = {name for changed, _ in TABLE for name in re.findall(r"`(\w+)`", changed)}
    assert named == PACKAGES


def test_every_folder_of_tests_that_is_named_exists():
    (alike,) = (changed for changed, tests in TABLE if "the same name" in tests)
    named = [f"tests/{name}" for name in re.findall(r"`(\w+)`", alike)]
    named += re.findall(r"`(tests/[^`]+)`", CONTRIBUTING)
    assert [name for name in named if not list(ROOT.glob(name))] == []


def test_every_target_of_make_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", CONTRIBUTING + "".join(WORKFLOWS.values())))
    (nightly,) = re.findall(r"target: \[(.+)\]", WORKFLOWS["nightly.yml"])
    assert (named | set(nightly.split(", "))) - targets == set()
