"""The answer of ``lukasa --version``: the version, the schema of its stores and the extras that are installed."""

from __future__ import annotations

import sys
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, distribution
from itertools import takewhile

import lukasa


def describe_version() -> list[str]:
    """Return the version of Lukasa and the facts about this installation that a bug report needs."""
    from lukasa.storage.sqlite.store_file import MIGRATIONS

    try:
        requirements = distribution("lukasa").requires or []
    except PackageNotFoundError:  # a copy of the source that was never installed
        requirements = []
    packages = defaultdict(list)
    for requirement in requirements:
        name, _, marker = requirement.partition(";")
        package = "".join(takewhile(lambda letter: letter.isalnum() or letter in "._-", name))
        packages[marker.partition("extra ==")[2].strip(" \"')")].append(package)
    extras = sorted(extra for extra, names in packages.items() if extra and all(map(_is_installed, names)))
    lines = [f"lukasa {lukasa.__version__}", f"store schema {MIGRATIONS.latest}", f"Python {sys.version.split()[0]}"]
    return [*lines, f"extras {', '.join(extras) or 'none'}"]


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
