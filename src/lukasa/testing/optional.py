"""Parts of the test tools that need packages a plain install does not bring."""

from __future__ import annotations

import importlib
from typing import Any

from lukasa.errors import MissingExtra


def require_package(package: str) -> Any:
    """The package, or ``MissingExtra`` with the way to get it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name not in (None, package):
            raise
        raise MissingExtra(
            f"This part of lukasa.testing needs {package}.", hint="pip install lukasa[testing]"
        ) from error
