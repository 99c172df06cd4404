"""The limits of the HTTP server, for the API and for MCP, in one place."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass

from lukasa.errors import RateLimited
from lukasa.interfaces.api_tokens import ApiToken

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_IMPORT_BYTES = 1024 * 1024 * 1024
"""An imported log is read as it arrives, so that it may be longer than other bodies."""
RATE_WINDOW = 60.0


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
    """What is left of a token's requests, and the seconds until all are there again."""

    limit: int
    left: int
    seconds: int

    def as_headers(self) -> dict[str, str]:
        """Return the RateLimit fields of a response (draft-ietf-httpapi-ratelimit-headers)."""
        return {
            "RateLimit-Policy": f'"default";q={self.limit};w={RATE_WINDOW:.0f}',
            "RateLimit": f'"default";r={self.left};t={self.seconds}',
        }


class TokenLimits:
    """Counts the requests of each token: per minute, and at the same time. Each server counts for itself."""

    def __init__(self, in_flight: int = 100) -> None:
        self._in_flight_limit = in_flight
        self._in_flight: Counter[str] = Counter()
        self._windows: dict[str, tuple[float, int]] = {}

    def begin(self, token: ApiToken) -> RateState | None:
        """Count a request of a token and return what is left; ``None`` for a token without a rate. Refuse one too many."""
        if self._in_flight[token.sha256] >= self._in_flight_limit:
            raise TooManyRequests(
                f"{self._in_flight_limit} requests of this token are being answered.",
                RateState(self._in_flight_limit, 0, 1),
                hint="Wait until one has ended, or close a stream.",
            )
        state = self._count(token) if token.rate else None
        self._in_flight[token.sha256] += 1
        return state

    def end(self, token: ApiToken) -> None:
        """Count the end of a request."""
        self._in_flight[token.sha256] -= 1
        if not self._in_flight[token.sha256]:
            del self._in_flight[token.sha256]

    def _count(self, token: ApiToken) -> RateState:
        now = time.monotonic()
        began, used = self._windows.get(token.sha256, (now, 0))
        if now - began >= RATE_WINDOW:
            began, used = now, 0
        seconds = max(1, math.ceil(began + RATE_WINDOW - now))
        if used >= token.rate:
            raise TooManyRequests(
                f"The {token.rate} requests per minute of this token are used up.",
                RateState(token.rate, 0, seconds),
                hint=f"Wait {seconds} seconds.",
            )
        self._windows[token.sha256] = (began, used + 1)
        return RateState(token.rate, token.rate - used - 1, seconds)


class TooManyRequests(RateLimited):
    """The token has made too many requests."""

    def __init__(self, message: str, state: RateState, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.state = state
