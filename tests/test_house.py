"""The shape of the code stays within its limits; ``make house`` prints all figures."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def house() -> ModuleType:
    """Load tools/house.py."""
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["house"] = module
    spec.loader.exec_module(module)
    return module


def test_a_class_name_occurs_once_in_the_program(house: ModuleType) -> None:
    assert house.reused_class_names(house.modules()) == []


def test_few_modules_are_named_with_a_gerund(house: ModuleType) -> None:
    assert len(house.gerund_modules(house.modules())) <= 6


def test_the_import_contract_has_eight_layers(house: ModuleType) -> None:
    assert len(house.layers()) == 8


@pytest.mark.parametrize("path", sorted((ROOT / "src" / "lukasa").rglob("*.py")), ids=lambda path: path.stem)
def test_only_the_configuration_reads_the_environment(path: Path) -> None:
    allowed = {"config.py", "client.py", "daemon.py"}  # a hook's client must start without loading the package
    if path.name not in allowed:
        assert not re.search(r"os\.(environ|getenv)", path.read_text("utf-8")), path
