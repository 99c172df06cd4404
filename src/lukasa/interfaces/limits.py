"""The limits of the HTTP server, for the API and for MCP, in one place."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from lukasa.errors import RateLimited
from lukasa.interfaces.api_tokens import ApiToken

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_IMPORT_BYTES = 1024 * 1024 * 1024
"""An imported log is read as it arrives, so that it may be longer than other bodies."""
MAX_OPEN_BODY_BYTES = 16 * 1024
"""A body without a token holds no more than the token of a person who signs in."""
RATE_WINDOW = 60.0
RECOUNT_SECONDS = 1.0
"""How old the number of requests that other servers have admitted may be."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections a server holds, and how long it waits for a client, in seconds.

    When all connections are taken, the one that has waited longest for its next request is closed for a new one.
    """

    connections: int = 800
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    """How long a body may pause."""
    write_seconds: float = 20.0
    """How long a client may leave its response unread before the connection is closed."""


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
