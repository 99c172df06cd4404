"""What a test knows to be there."""

from __future__ import annotations

from typing import TypeVar

from lukasa import Conflict, Refused
from lukasa.transfer.sources.importer import SourceImportResult

T = TypeVar("T")


def refusal_of(value: object) -> Refused:
    """Return a value that is a refusal."""
    assert isinstance(value, Refused), value
    return value


def source_report(value: object) -> SourceImportResult:
    """Return the report of an import of another program's memories."""
    assert isinstance(value, SourceImportResult), value
    return value


def present(value: T | Refused | Conflict | None) -> T:
    """Return a value that is neither missing nor refused."""
    assert value is not None
    assert not isinstance(value, Refused | Conflict), value
    return value
