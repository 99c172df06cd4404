"""Scopes divide a store. A ``Reach`` is the set of scopes that one caller may read and write; engines enforce it.

An agent's name is also the name of its scope and the author of its records, so two agents' names must not look alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lukasa.core.names import LOWER, is_plain_name
from lukasa.errors import InvalidInput

SHARED = "shared"
SYSTEM = "_lukasa"
"""The scope of the store's own records (quarantines, erasure receipts). Only the owner sees it."""
RESERVED_NAMES = frozenset({SHARED, SYSTEM, "lukasa", "owner"})
"""The names of the store itself and of its owner: no record has one of them as its author."""
SPEAKER_ROLES = frozenset({"user", "human", "system", "tool", "assistant"})
"""Names of speakers in a conversation. No agent has one of them, or its words would pass for theirs."""
POSING_NAMES = frozenset(
    """admin administrator anybody anyone everybody everyone nobody operator owners root superuser sysadmin""".split()  # noqa: SIM905 - a list of words reads best as words
)
"""Names that claim a role: a line of a prompt that says "by operator" would be taken for the operator's word."""
PROJECT_PREFIX = "project:"
"""How the scope of a project begins. A caller that may write one writes there unless it names another scope."""

_MAX_NAME_LENGTH = 200
_MARKS_AS_SPACES = str.maketrans(dict.fromkeys("._:@/+#-", " "))


def check_agent_name(name: str) -> None:
    """Raise ``InvalidInput`` for a name that no agent may have: a reserved one, or one that looks like another."""
    is_plain = name.__class__ is str and is_plain_name(name, "._:@/+#- ", _MAX_NAME_LENGTH, letters=LOWER)
    if not is_plain or not all(part[:1] in LOWER for part in name.split(" ")):
        raise InvalidInput(
            f"{name!r:.80} is not the name of an agent: another could look the same.",
            hint="Use small letters from a to z, digits, single spaces and . _ : @ / + # - after the first character.",
        )
    if poses_as_another(name) or _plain_name(name) in SPEAKER_ROLES:
        raise InvalidInput(
            f"No agent may be called {name!r}: its words would pass for somebody else's.", hint="Use another name."
        )


def poses_as_another(name: str) -> bool:
    """Tell whether a name is the store's own or claims the role of its owner, so that no record may have it as its author."""
    if len(name) > _MAX_NAME_LENGTH:  # the gate refuses it
        return False
    return name in RESERVED_NAMES or _plain_name(name) in RESERVED_NAMES | POSING_NAMES


def _plain_name(name: str) -> str:
    """Return a name in small letters without an article and marks between its words."""
    return " ".join(name.lower().translate(_MARKS_AS_SPACES).split()).removeprefix("the ")


def may_set_rule(author: str, scope: str) -> bool:
    """Tell whether a rule in a scope holds: the owner, who has no name, set it, or an agent for itself."""
    return author == "" or author == scope not in RESERVED_NAMES


@dataclass(frozen=True, slots=True)
class Reach:
    """The scopes a caller may read and write; ``None`` means every scope."""

    readable: frozenset[str] | None
    writable: frozenset[str] | None
    unlimited: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("readable", "writable"):
            scopes = getattr(self, name)
            if scopes is not None:  # no limited reach may include the system scope
                object.__setattr__(self, name, scopes - {SYSTEM})
        object.__setattr__(self, "unlimited", self.readable is None and self.writable is None)

    @classmethod
    def of(cls, read: Iterable[str], write: Iterable[str] | None = None) -> Reach:
        """Return a reach for the named scopes. Without ``write``, every readable scope is writable."""
        readable = frozenset(read)
        return cls(readable, readable if write is None else frozenset(write))

    def reads(self, scope: str) -> bool:
        return self.readable is None or scope in self.readable

    def writes(self, scope: str) -> bool:
        return self.writable is None or scope in self.writable

    @property
    def project(self) -> str:
        """The project scope that the caller may write, if there is exactly one; else ""."""
        found = [name for name in self.writable or () if name.startswith(PROJECT_PREFIX)]
        return found[0] if len(found) == 1 else ""


FULL_REACH = Reach(None, None)
"""The reach of the store's owner: every scope."""
