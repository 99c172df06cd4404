"""Regular expressions that are compiled when they are first used: most commands need few of those that their modules define."""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.given_flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern, and keep its method, so that later calls find it directly."""
        value = getattr(re.compile(self.pattern, self.given_flags), name)
        setattr(self, name, value)
        return value


def compile_on_use(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when a method of it is first used."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
