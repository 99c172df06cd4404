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

from lukasa.canonical_json import decode, encode
from lukasa.clock import Clock, to_iso
from lukasa.errors import FileTaken, FormatError, InvalidInput, NotAllowed
from lukasa.storage.files import atomic_write

_TOKEN_PREFIX = "lks_"  # noqa: S105 - what every token begins with
_MIN_TOKEN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class ApiToken:
    """Who a token stands for. Without scopes: the shared one and the agent's own; without an agent too: the owner."""

    name: str
    sha256: str
    agent: str = ""
    scopes: tuple[str, ...] | None = None
    made_at: str = ""


def read_tokens(path: Path) -> list[ApiToken]:
    """The holders in a file, none where there is no file. One that others may read is refused."""
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NotAllowed(f"Others may read {path}.", hint=f"Run: chmod 600 {path}")
    try:
        return [_parse_token(told) for told in decode(data)["tokens"]]
    except (InvalidInput, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a file of tokens.") from error


def add_token(path: Path, name: str, clock: Clock, *, agent: str = "", scopes: tuple[str, ...] | None = None) -> str:
    """Makes a token and keeps its hash. What comes back is told once and is nowhere else."""
    known = read_tokens(path)
    if not name.strip():
        raise InvalidInput("A token needs a name.")
    if any(holder.name == name for holder in known):
        raise FileTaken(f"There is a token named {name!r:.80} already.", hint="Revoke it, or take another name.")
    token = _TOKEN_PREFIX + secrets.token_urlsafe(32)
    _write_tokens(path, [*known, ApiToken(name, _hash_token(token), agent, scopes, to_iso(clock.now()))])
    return token


def revoke_token(path: Path, name: str) -> bool:
    """Takes a token back; whether there was one."""
    known = read_tokens(path)
    left = [holder for holder in known if holder.name != name]
    if len(left) < len(known):
        _write_tokens(path, left)
    return len(left) < len(known)


def token_from_environment(token: str, agent: str, scopes: tuple[str, ...] | None) -> ApiToken:
    """The holder of a token that was given in the clear, by the environment."""
    if len(token) < _MIN_TOKEN_LENGTH:
        raise InvalidInput(f"A token needs at least {_MIN_TOKEN_LENGTH} characters.")
    return ApiToken("environment", _hash_token(token), agent, scopes)


def find_token(token: str, tokens: list[ApiToken]) -> ApiToken | None:
    """Whose token this is. Every hash is compared, in constant time."""
    hashed, found = _hash_token(token), None
    for holder in tokens:
        if hmac.compare_digest(hashed, holder.sha256):
            found = holder
    return found


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_token(fields: Any) -> ApiToken:
    scopes = fields.get("scopes")
    holder = ApiToken(
        fields["name"],
        fields["sha256"],
        fields.get("agent", ""),
        None if scopes is None else tuple(scopes),
        fields.get("made_at", ""),
    )
    texts = (holder.name, holder.sha256, holder.agent, holder.made_at, *(holder.scopes or ()))
    if not all(isinstance(text, str) for text in texts) or len(holder.sha256) != 64:
        raise ValueError("not a token")
    return holder


def _write_tokens(path: Path, tokens: list[ApiToken]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with atomic_write(path) as file:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), 0o600)
        file.write(encode({"tokens": [asdict(holder) for holder in tokens]}))
