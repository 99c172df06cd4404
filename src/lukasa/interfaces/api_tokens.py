"""API tokens: which agent, scopes and rights a client of an HTTP interface has, and how many requests it may make.

A token is a record of the system scope, which only the owner of the store reads. Its id is the SHA-256 of the secret, so
that checking a request reads one record, and every server on the store refuses a revoked token at its next request.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from lukasa.core.clock import Clock, from_iso, to_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SYSTEM, check_agent_name
from lukasa.errors import FileTaken, InvalidInput, NotAllowed, RateLimited
from lukasa.journal import Journal
from lukasa.storage.engine import API_TOKEN, TOKEN_USE, Query, Reader
from lukasa.storage.files import open_output_file

DEFAULT_RATE = 6_000
"""Requests per minute of a token that names no rate and is not the owner's."""
MAX_RATE = 1_000_000
RATE_WINDOW = 60.0
RECOUNT_SECONDS = 1.0
"""How old the number of requests that other servers have admitted may be."""
USE_INTERVAL = timedelta(hours=1)
"""The last use of a token is recorded once in this time, so that requests stay reads."""

_TOKEN_PREFIX = "lks_"  # noqa: S105 - the prefix of every token, not a secret
_MIN_TOKEN_LENGTH = 16
_MAX_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class ApiToken:
    """The hash of a token, and the rights that it grants.

    Without scopes: the shared scope and the agent's own. Without an agent too: every scope, as the owner of the store.
    A token with scopes and no agent only reads: what it wrote would be signed like the owner's. ``rate`` is the number of requests per minute; 0 means no limit.
    """

    name: str
    sha256: str
    agent: str = ""
    scopes: tuple[str, ...] | None = None
    read_only: bool = False
    rate: int = 0
    expires_at: datetime | None = None
    made_at: datetime | None = None
    last_used: datetime | None = None

    def __post_init__(self) -> None:
        if self.scopes is not None and not self.agent:
            object.__setattr__(self, "read_only", True)

    @property
    def access(self) -> str:
        """What the token may do: ``owner``, ``read`` or ``write``."""
        return "owner" if not self.agent and self.scopes is None else "read" if self.read_only else "write"


class ApiTokens:
    """The tokens of one store, for its owner."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._noted: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def add(
        self,
        name: str,
        *,
        agent: str = "",
        scopes: tuple[str, ...] | None = None,
        read_only: bool = False,
        rate: int | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        """Create a token, store its hash and return it. It cannot be read again."""
        secret = _TOKEN_PREFIX + secrets.token_urlsafe(32)
        if scopes is not None and not agent and not read_only:
            hint = "Name the agent (--agent), or make the token read-only (--read-only)."
            raise InvalidInput("A token that writes needs an agent, the author of what it writes.", hint=hint)
        token = ApiToken(name, hash_token(secret), agent, scopes, read_only, 0, expires_at)
        if rate is None:
            rate = 0 if token.access == "owner" else DEFAULT_RATE
        self._check(token := replace(token, rate=rate))
        body = {
            "name": name, "agent": agent, "scopes": None if scopes is None else list(scopes), "read_only": read_only,
            "rate": rate, "expires_at": None if expires_at is None else to_iso(expires_at),
        }  # fmt: skip

        def create(reader: Reader) -> list[Draft] | Refused:
            if any(record.body.get("name") == name for record in reader.read(_ALL_TOKENS)):
                return Refused("duplicate", f"There is a token named {name!r:.80} already.")
            return [Draft(API_TOKEN, body=body, id=token.sha256, scope=SYSTEM, expected=0)]

        outcome = self._journal.append_if(create)
        if isinstance(outcome, Refused):
            if outcome.code == "duplicate":
                raise FileTaken(outcome.reason, hint="Revoke it, or use another name.")
            raise NotAllowed(outcome.reason)
        return secret

    def list(self) -> list[ApiToken]:
        """List the tokens, oldest first, with the time of their last use to the hour."""
        with self._journal.snapshot() as reader:
            records = reader.read(_ALL_TOKENS)
            uses = {
                record.id: record.recorded_at for record in reader.read(Query(kinds=(TOKEN_USE,), scopes=(SYSTEM,)))
            }
        return [replace(_parse_token(record), last_used=uses.get(record.id)) for record in records]

    def revoke(self, name: str) -> bool:
        """Delete a token by its name. Return whether it existed."""
        for record in self._journal.read(_ALL_TOKENS):
            if record.body.get("name") == name:
                return bool(self._journal.delete(record.key))
        return False

    def find(self, secret: str) -> ApiToken | None:
        """Return the valid token with this secret."""
        return self.find_hash(hash_token(secret))

    def find_hash(self, sha256: str) -> ApiToken | None:
        """Return the valid token whose secret has this hash."""
        record = self._journal.get(Key(SYSTEM, API_TOKEN, sha256))
        if record is None:
            return None
        token = _parse_token(record)
        return None if token.expires_at is not None and token.expires_at <= self._clock.now() else token

    def is_use_noted(self, secret: str) -> bool:
        """Return whether the use of the token with this secret was recorded within the hour."""
        noted = self._noted.get(hash_token(secret))
        return noted is not None and self._clock.now() - noted < USE_INTERVAL

    def note_use(self, token: ApiToken) -> None:
        """Record that a token is in use, unless that was recorded within the hour."""
        now = self._clock.now()
        with self._lock:
            if now - self._noted.get(token.sha256, now - USE_INTERVAL) < USE_INTERVAL:
                return
            self._noted[token.sha256] = now
        self._journal.write(TOKEN_USE, id=token.sha256, scope=SYSTEM)

    def _check(self, token: ApiToken) -> None:
        if not 0 < len(token.name.strip()) <= _MAX_NAME_LENGTH:
            raise InvalidInput(f"A token needs a name of at most {_MAX_NAME_LENGTH} characters.")
        if token.agent:
            check_agent_name(token.agent)
        if token.read_only and token.access == "owner":
            raise InvalidInput("The owner's token cannot be read-only.", hint="Name an agent or scopes.")
        if not 0 <= token.rate <= MAX_RATE:
            raise InvalidInput(f"The rate must be 0 to {MAX_RATE:,} requests per minute.")
        if token.expires_at is not None and token.expires_at <= self._clock.now():
            raise InvalidInput("The token would have expired already.", hint="Name a time in the future.")


_ALL_TOKENS = Query(kinds=(API_TOKEN,), scopes=(SYSTEM,))


def require_holder(agent: str, scopes: tuple[str, ...] | None, *, owner: bool) -> None:
    """Refuse a new token that names neither an agent nor scopes and was not asked for as the owner's, or both."""
    hint = (
        "--agent NAME: it acts as that agent. --scope NAME: it only reads those scopes. --owner: it may read, change and "
        "erase everything, and make tokens."
    )
    if not agent and scopes is None and not owner:
        raise InvalidInput("A token needs an agent, scopes, or the rights of the owner.", hint=hint)
    if owner and (agent or scopes is not None):
        raise InvalidInput("A token of the owner has neither an agent nor scopes.", hint=hint)


def token_from_environment(secret: str, agent: str, scopes: tuple[str, ...] | None) -> ApiToken:
    """Return the token that an environment variable gives in plain text."""
    if len(secret) < _MIN_TOKEN_LENGTH:
        raise InvalidInput(f"A token needs at least {_MIN_TOKEN_LENGTH} characters.")
    return ApiToken("environment", hash_token(secret), agent, scopes)


def write_secret(path: Path, secret: str) -> None:
    """Write a token to a file that only its user may read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open_output_file(path) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{secret}\n".encode())


def is_readable_by_others(path: Path) -> bool:
    """Return whether other users may read or change a file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def hash_token(secret: str) -> str:
    """Return the id of the token, or of the page session, with a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_token(record: Record) -> ApiToken:
    body = record.body
    scopes, expires_at = body.get("scopes"), body.get("expires_at")
    return ApiToken(
        body["name"],
        record.id,
        body.get("agent", ""),
        None if scopes is None else tuple(scopes),
        bool(body.get("read_only")),
        body.get("rate", 0),
        None if expires_at is None else from_iso(expires_at),
        record.created_at,
    )


@dataclass(frozen=True, slots=True)
class RateState:
    """The requests that a token has left, and the seconds until it has all of them again."""

    limit: int
    left: int
    seconds: int

    def as_headers(self) -> dict[str, str]:
        """Return the RateLimit fields of a response (draft-ietf-httpapi-ratelimit-headers)."""
        return {
            "RateLimit-Policy": f'"default";q={self.limit};w={RATE_WINDOW:.0f}',
            "RateLimit": f'"default";r={self.left};t={self.seconds}',
        }


Count = Callable[[str, int], tuple[int, int]]
"""Adds to the counter of a name and returns its value, and the seconds until it begins again at 0."""


class LocalCounters:
    """Counters of one process, each of which begins again a minute after its first use."""

    def __init__(self) -> None:
        self._windows: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, amount: int) -> tuple[int, int]:
        """Add to a counter."""
        now = time.monotonic()
        with self._lock:
            began, value = self._windows.get(name, (now, 0))
            if now - began >= RATE_WINDOW:
                began, value = now, 0
            self._windows[name] = (began, value + amount)
        return value + amount, max(1, math.ceil(began + RATE_WINDOW - now))


@dataclass(slots=True)
class RateLease:
    """Requests of a token that this server may admit before it asks the counter again, and the counter's last answer."""

    ends: float
    asked_at: float
    left: int = 0
    left_elsewhere: int = 0


class TokenLimits:
    """Counts the requests of each token: per minute, by a counter that servers may share, and at the same time, here.

    A server takes a hundredth of the rate from the counter at a time, so that few requests wait for it. It asks again each
    second, so that what it tells a client is at most so old.
    """

    def __init__(self, in_flight: int = 100, count: Count | None = None) -> None:
        self._in_flight_limit = in_flight
        self._in_flight: Counter[str] = Counter()
        self._count = count or LocalCounters()
        self._leases: dict[str, RateLease] = {}
        self._lock = threading.Lock()

    def begin(self, token: ApiToken) -> None:
        """Note that a request of a token is being answered. Refuse one too many at the same time."""
        if self._in_flight[token.sha256] >= self._in_flight_limit:
            raise TooManyRequests(
                f"{self._in_flight_limit} requests of this token are being answered.",
                RateState(self._in_flight_limit, 0, 1),
                hint="Wait until one has ended, or close a stream.",
            )
        self._in_flight[token.sha256] += 1

    def end(self, token: ApiToken) -> None:
        """Note the end of a request."""
        self._in_flight[token.sha256] -= 1
        if not self._in_flight[token.sha256]:
            del self._in_flight[token.sha256]

    def count(self, token: ApiToken) -> RateState | None:
        """Count a request of a token and return what is left; ``None`` without a rate. Refuse one too many. May wait."""
        if not token.rate:
            return None
        with self._lock:
            now = time.monotonic()
            lease = self._leases.get(token.sha256)
            if lease is None or now >= lease.ends:
                lease = self._leases[token.sha256] = RateLease(now, now - RECOUNT_SECONDS)
            if not lease.left or now - lease.asked_at >= RECOUNT_SECONDS:
                amount = 0 if lease.left else max(1, token.rate // 100)
                used, seconds = self._count(token.sha256, amount)
                lease.left += max(0, min(amount, token.rate - used + amount))
                lease.left_elsewhere, lease.ends, lease.asked_at = max(0, token.rate - used), now + seconds, now
            seconds = max(1, math.ceil(lease.ends - now))
            if not lease.left:
                raise TooManyRequests(
                    f"The {token.rate} requests per minute of this token are used up.",
                    RateState(token.rate, 0, seconds),
                    hint=f"Wait {seconds} seconds.",
                )
            lease.left -= 1
            return RateState(token.rate, lease.left + lease.left_elsewhere, seconds)


class TooManyRequests(RateLimited):
    """The token has made too many requests."""

    def __init__(self, message: str, state: RateState, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.state = state
