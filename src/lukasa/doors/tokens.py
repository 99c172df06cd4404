"""Tokens: who may come in by a door that others can reach, and as whom. Only their hashes are kept.

The file is JSON, readable by its owner alone: ``{"tokens": [{"name", "sha256", "agent", "scopes", "made_at"}]}``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from lukasa.blob import replacing
from lukasa.canonical import decode, encode
from lukasa.clock import Clock, to_iso
from lukasa.errors import FileTaken, FormatError, InvalidInput, NotAllowed

TOKENS_VARIABLE = "LUKASA_TOKENS"
TOKEN_VARIABLE = "LUKASA_TOKEN"  # noqa: S105 - the name of a variable
_PREFIX = "lks_"
_SHORTEST = 16


@dataclass(frozen=True, slots=True)
class Holder:
    """Who a token stands for. Without scopes: the shared one and the agent's own; without an agent too: the owner."""

    name: str
    sha256: str
    agent: str = ""
    scopes: tuple[str, ...] | None = None
    made_at: str = ""


def tokens_file(named: Path | None = None) -> Path:
    """Where tokens are kept: as named, else ``LUKASA_TOKENS``, else in the user's configuration."""
    return named or Path(os.environ.get(TOKENS_VARIABLE) or user_config_path("lukasa") / "tokens.json")


def read_tokens(path: Path) -> list[Holder]:
    """The holders in a file, none where there is no file. One that others may read is refused."""
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NotAllowed(f"Others may read {path}.", hint=f"Run: chmod 600 {path}")
    try:
        return [_holder(told) for told in decode(data)["tokens"]]
    except (InvalidInput, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a file of tokens.") from error


def add_token(path: Path, name: str, clock: Clock, *, agent: str = "", scopes: tuple[str, ...] | None = None) -> str:
    """Makes a token and keeps its hash. What comes back is told once and is nowhere else."""
    known = read_tokens(path)
    if not name.strip():
        raise InvalidInput("A token needs a name.")
    if any(holder.name == name for holder in known):
        raise FileTaken(f"There is a token named {name!r:.80} already.", hint="Revoke it, or take another name.")
    token = _PREFIX + secrets.token_urlsafe(32)
    _write(path, [*known, Holder(name, _hash(token), agent, scopes, to_iso(clock.now()))])
    return token


def revoke_token(path: Path, name: str) -> bool:
    """Takes a token back; whether there was one."""
    known = read_tokens(path)
    left = [holder for holder in known if holder.name != name]
    if len(left) < len(known):
        _write(path, left)
    return len(left) < len(known)


def plain_token(token: str, agent: str, scopes: tuple[str, ...] | None) -> Holder:
    """The holder of a token that was given in the clear, by the environment."""
    if len(token) < _SHORTEST:
        raise InvalidInput(f"A token needs at least {_SHORTEST} characters.")
    return Holder("environment", _hash(token), agent, scopes)


def holder_of(token: str, holders: list[Holder]) -> Holder | None:
    """Whose token this is. Every hash is compared, in constant time."""
    hashed, found = _hash(token), None
    for holder in holders:
        if hmac.compare_digest(hashed, holder.sha256):
            found = holder
    return found


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _holder(told: Any) -> Holder:
    scopes = told.get("scopes")
    holder = Holder(
        told["name"],
        told["sha256"],
        told.get("agent", ""),
        None if scopes is None else tuple(scopes),
        told.get("made_at", ""),
    )
    texts = (holder.name, holder.sha256, holder.agent, holder.made_at, *(holder.scopes or ()))
    if not all(isinstance(text, str) for text in texts) or len(holder.sha256) != 64:
        raise ValueError("not a token")
    return holder


def _write(path: Path, holders: list[Holder]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path) as file:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), 0o600)
        file.write(encode({"tokens": [asdict(holder) for holder in holders]}))
