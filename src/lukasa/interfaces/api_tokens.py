"""API tokens: which agent and scopes a client of an HTTP interface acts with. Only hashes of tokens are stored.

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
from lukasa.storage.files import check_output_path, open_output_file, read_limited

_TOKEN_PREFIX = "lks_"  # noqa: S105 - the prefix of every token, not a secret
_MIN_TOKEN_LENGTH = 16
_MAX_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class ApiToken:
    """The hash of a token, and the agent and scopes that it grants.

    Without scopes: the shared scope and the agent's own. Without an agent too: every scope, as the owner of the store.
    """

    name: str
    sha256: str
    agent: str = ""
    scopes: tuple[str, ...] | None = None
    made_at: str = ""


def read_tokens(path: Path) -> list[ApiToken]:
    """Read the tokens in a file; none if the file does not exist. Refuse a file that other users may read."""
    try:
        mode = path.stat().st_mode
        data = read_limited(path, _MAX_BYTES)
    except FileNotFoundError:
        return []
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NotAllowed(f"Others may read {path}.", hint=f"Run: chmod 600 {path}")
    try:
        return [_parse_token(fields) for fields in decode(data)["tokens"]]
    except (InvalidInput, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path} is not a file of tokens.") from error


def add_token(path: Path, name: str, clock: Clock, *, agent: str = "", scopes: tuple[str, ...] | None = None) -> str:
    """Create a token, store its hash and return it. It cannot be read again."""
    check_output_path(path)
    known = read_tokens(path)
    if not name.strip():
        raise InvalidInput("A token needs a name.")
    if any(token.name == name for token in known):
        raise FileTaken(f"There is a token named {name!r:.80} already.", hint="Revoke it, or use another name.")
    secret = _TOKEN_PREFIX + secrets.token_urlsafe(32)
    _write_tokens(path, [*known, ApiToken(name, _hash_token(secret), agent, scopes, to_iso(clock.now()))])
    return secret


def revoke_token(path: Path, name: str) -> bool:
    """Delete a token by its name. Return whether it existed."""
    check_output_path(path)
    known = read_tokens(path)
    remaining = [token for token in known if token.name != name]
    if len(remaining) == len(known):
        return False
    _write_tokens(path, remaining)
    return True


def token_from_environment(secret: str, agent: str, scopes: tuple[str, ...] | None) -> ApiToken:
    """Return the token that an environment variable gives in plain text."""
    if len(secret) < _MIN_TOKEN_LENGTH:
        raise InvalidInput(f"A token needs at least {_MIN_TOKEN_LENGTH} characters.")
    return ApiToken("environment", _hash_token(secret), agent, scopes)


def find_token(secret: str, tokens: list[ApiToken]) -> ApiToken | None:
    """Return the token with this secret. Compares every hash, in constant time."""
    hashed, found = _hash_token(secret), None
    for token in tokens:
        if hmac.compare_digest(hashed, token.sha256):
            found = token
    return found


def _hash_token(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_token(fields: Any) -> ApiToken:
    scopes = fields.get("scopes")
    token = ApiToken(
        fields["name"],
        fields["sha256"],
        fields.get("agent", ""),
        None if scopes is None else tuple(scopes),
        fields.get("made_at", ""),
    )
    texts = (token.name, token.sha256, token.agent, token.made_at, *(token.scopes or ()))
    if not all(isinstance(text, str) for text in texts) or len(token.sha256) != 64:
        raise ValueError("not a token")
    return token


def _write_tokens(path: Path, tokens: list[ApiToken]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open_output_file(path) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(encode({"tokens": [asdict(token) for token in tokens]}))
