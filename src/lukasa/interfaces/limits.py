"""How much an HTTP server takes, for the API and for MCP: bytes, connections, and seconds. The rates of tokens are theirs."""

from __future__ import annotations

from dataclasses import dataclass

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_IMPORT_BYTES = 1024 * 1024 * 1024
"""An imported log is read as it arrives, so that it may be longer than other bodies."""
MAX_OPEN_BODY_BYTES = 16 * 1024
"""A body without a token holds no more than the token of a person who signs in."""


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
