"""Imports of packages that only the extra ``testing`` installs."""

from __future__ import annotations

import importlib
from typing import Any

from lukasa.errors import MissingExtra


def require_package(package: str) -> Any:
    """Import a package; raise ``MissingExtra`` with the install command when it is missing."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name not in (None, package):
            raise
        raise MissingExtra(
            f"This part of lukasa.testing needs {package}.", hint="pip install lukasa[testing]"
        ) from error
