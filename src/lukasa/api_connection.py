"""A connection to the HTTP API of a Lukasa server: one request, one JSON answer.

A request is repeated only if that cannot write twice: a request that changes nothing, one with an idempotency key, or one
that the caller says may be repeated.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from lukasa import errors
from lukasa.core.http_client import HttpClient, HttpResponse, NoAnswer
from lukasa.core.names import to_snake_case
from lukasa.storage.location import split_url

_SAFE_METHODS = frozenset({"GET", "PUT", "DELETE"})
_ERRORS = {
    to_snake_case(name): value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.LukasaError)
}


class ApiProblem(errors.LukasaError):
    """The server refused a request; ``code`` and ``details`` are those of the refusal."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(
            str(problem.get("detail") or f"The server answered with HTTP {status}."), hint=problem.get("next")
        )
        self.status = status
        self.code = str(problem.get("code") or "")
        self.details: Mapping[str, Any] = problem.get("details") or {}


class ApiConnection:
    """Sends requests to the HTTP API of a server, from any thread."""

    def __init__(
        self,
        url: str,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 4,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._address = split_url(self.url)
        if self._address.scheme not in ("http", "https") or not self._address.hostname or "@" in self._address.netloc:
            shown = errors.mask_password(self.url)[:120]
            raise errors.InvalidInput(f"{shown!r} is not the address of a server.", hint="Write http://host:8765.")
        self._client = HttpClient(self._address, timeout, retries, sleep=sleep)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        with_key: bool = False,
        repeatable: bool = False,
    ) -> HttpResponse:
        """Send a request and return the answer.

        ``with_key`` adds an idempotency key, the same for every try; ``repeatable`` says that the request may be repeated
        without one. Raises ``ApiProblem`` for a refusal or a conflict, the error of the library that the server reports, or
        ``StoreUnavailable`` when no answer came in time.
        """
        target = self._address.path + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        sent = {"Accept": "application/json", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if with_key:
            sent.setdefault("Idempotency-Key", uuid.uuid4().hex)
        data = None
        if body is not None:
            try:
                data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
            except (TypeError, ValueError) as error:
                hint = "Send texts, numbers, lists and mappings."
                raise errors.InvalidInput(f"The request cannot be written as JSON: {error}.", hint=hint) from None
            sent["Content-Type"] = "application/json"
        may_repeat = repeatable or method in _SAFE_METHODS or "Idempotency-Key" in sent
        try:
            response = self._client.request(method, target, data, sent, may_repeat=may_repeat)
        except NoAnswer as error:
            raise errors.StoreUnavailable(
                f"The server {self.url} gave no answer ({str(error)[:200]}).",
                hint="Check its address, and that it is running.",
            ) from error.__cause__
        if response.status >= 400:
            raise _read_problem(response)
        return response

    def close(self) -> None:
        """Close the open connections; the next request opens another."""
        self._client.close()


def _read_problem(response: HttpResponse) -> errors.LukasaError:
    """Return the error that a response with a problem stands for."""
    problem = response.content if isinstance(response.content, dict) else {}
    code = problem.get("code")
    error = errors.InvalidInput if code == "usage" else _ERRORS.get(code) if isinstance(code, str) else None
    message = str(problem.get("detail") or f"The server answered with HTTP {response.status}.")
    if error is None and response.status in (401, 429):
        error = errors.NotAllowed if response.status == 401 else errors.RateLimited
    if error is None and response.status >= 500:
        error = errors.StoreUnavailable
    return ApiProblem(response.status, problem) if error is None else error(message, hint=problem.get("next"))
