"""Requirements and tests name each other: no number without a test, no test for a number that does not exist."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parent.parent
MARKER = re.compile(r"(?:mark\.)?requirement\(([^)]*)\)")


def _numbers():
    spec = spec_from_file_location("requirements", ROOT / "tests" / "requirements.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _named_by_tests():
    named: dict[str, set[str]] = {}
    for folder in (ROOT / "tests", ROOT / "src" / "lukasa" / "testing"):
        for file in folder.rglob("*.py"):
            for arguments in MARKER.findall(file.read_text("utf-8")):
                for number in re.findall(r'"([^"]+)"', arguments):
                    named.setdefault(number, set()).add(file.name)
    return named


def test_every_number_named_by_a_test_exists():
    assert set(_named_by_tests()) <= set(_numbers().REQUIREMENTS)


def test_every_built_requirement_has_a_test():
    numbers = _numbers()
    assert set(numbers.REQUIREMENTS) - numbers.NOT_BUILT - set(_named_by_tests()) == set()


def test_no_unbuilt_requirement_has_a_test():
    assert _numbers().NOT_BUILT & set(_named_by_tests()) == set()
