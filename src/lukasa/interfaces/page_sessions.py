"""Sessions of the dashboard: each belongs to the cookie of a browser.

A session is a record of the system scope. Its id is the SHA-256 of the secret in the cookie, as with API tokens, so that every
server on the store knows it, and a copied cookie is worth nothing once the person has signed out or the token is revoked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta

from lukasa.core.clock import Clock, from_iso, to_iso
from lukasa.core.record import Key, Record
from lukasa.core.scope import SYSTEM
from lukasa.interfaces.api_tokens import ApiToken, hash_token
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.journal import Journal
from lukasa.storage.engine import PAGE_SESSION, Query

SESSION_TIME = timedelta(days=7)
_SESSIONS = Query(kinds=(PAGE_SESSION,), scopes=(SYSTEM,))


class PageSessions:
    """The sessions of a store. ``find_token`` returns the valid token whose secret has a hash."""

    def __init__(self, stores: CallerStores, find_token: Callable[[str], ApiToken | None], clock: Clock) -> None:
        self._stores = stores
        self._find_token = find_token
        self._clock = clock

    def start(self, token: ApiToken) -> str:
        """Start a session of a token, and return the secret for the cookie. Sessions that have ended are removed."""
        journal, secret = self._journal(), secrets.token_urlsafe(32)
        for record in journal.read(_SESSIONS):
            if self._has_ended(record):
                journal.delete(record.key)
        body = {"token": token.sha256, "expires_at": to_iso(self._clock.now() + SESSION_TIME)}
        journal.write(PAGE_SESSION, id=hash_token(secret), scope=SYSTEM, body=body).unwrap_all()
        return secret

    def find(self, secret: str) -> ApiToken | None:
        """Return the valid token of the session with a secret, if the session has not ended."""
        record = self._journal().get(_key(secret)) if secret else None
        if record is None or self._has_ended(record):
            return None
        return self._find_token(record.body["token"])

    def end(self, secret: str) -> None:
        """End the session with a secret, on every server."""
        journal = self._journal()
        if secret and journal.get(_key(secret)) is not None:
            journal.delete(_key(secret)).unwrap_all()

    def _has_ended(self, record: Record) -> bool:
        return from_iso(record.body["expires_at"]) <= self._clock.now()

    def _journal(self) -> Journal:
        return self._stores.for_caller(Caller()).journal


def _key(secret: str) -> Key:
    return Key(SYSTEM, PAGE_SESSION, hash_token(secret))
