"""Responses of the HTTP API: JSON, problems (RFC 9457), entity tags and cursors."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import astuple, dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lukasa import value_json
from lukasa.core.canonical_json import decode, encode
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Record
from lukasa.errors import InvalidInput, NotAccepted
from lukasa.interfaces.outcomes import not_found, outcome_of
from lukasa.interfaces.schema import SchemaBook
from lukasa.interfaces.serialise import to_json
from lukasa.jobs import DeferredJob
from lukasa.memory import Memory
from lukasa.operations import Operation
from lukasa.recall import RecallResult

LOG_MEDIA_TYPE = "application/x-ndjson"
MAX_DROPPED = 10
"""How many of the hits that recall dropped are sent to the client of the library."""


class Problem(BaseModel):
    """Why a request was not done (RFC 9457), with Lukasa's stable code and what to do next."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:lukasa:problem:refused"])
    title: str
    status: int
    detail: str
    code: str = Field(description="A stable code, such as duplicate or noise.")
    next: str | None = Field(None, description="What to do next.")
    details: dict[str, Any] | None = None


BOOK = SchemaBook()
"""The types that the API answers with."""


def json_answer(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return how OpenAPI describes an answer in JSON."""
    return {"description": description, "content": {"application/json": {"schema": dict(schema)}}}


def declare_answer(name: str, row: str, *kinds: type, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes an answer that no method of the library returns, as ``SchemaBook.declare`` takes it."""
    return {status: json_answer("The answer.", BOOK.declare(name, row, *kinds))}


def describe_answer(kind: Any, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes an answer of a type of the library."""
    return {status: json_answer("The answer.", BOOK.describe(kind))}


WRITTEN = json_answer("The record that was written.", BOOK.describe(Accepted))
"""How OpenAPI describes the answer to a write."""
DEFERRED = json_answer(
    "The job that does the work; Location says where its state and its result are.", BOOK.describe(DeferredJob)
)
"""How OpenAPI describes the answer to a request that became a job."""


class JsonResponse(Response):
    """A response whose content is canonical JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode any value of the library."""
        return encode(to_json(content))


class ValueResponse(JsonResponse):
    """A response whose content is a value of the library with every field, for the client of the library."""

    media_type = value_json.MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        """Encode any value of the library."""
        return encode(value_json.write_value(content))


VALUES_ASKED: ContextVar[bool] = ContextVar("values_asked", default=False)
"""Whether the request that is being answered asks for values with every field."""


def answer_with_values(app: ASGIApp) -> ASGIApp:
    """Note for each request whether it asks for values with every field."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = scope["type"] == "http" and Headers(scope=scope).get("accept") == value_json.MEDIA_TYPE
        before = VALUES_ASKED.set(is_asked)
        try:
            await app(scope, receive, send)
        finally:
            VALUES_ASKED.reset(before)

    return call


def entity_tag(version: int) -> str:
    """Return the entity tag of a version."""
    return f'"v{version}"'


def record_response(record: Record, content: Any = None, *, status: int = 200) -> JsonResponse:
    """Return a record, or other JSON for it, with its entity tag."""
    headers = {"ETag": entity_tag(record.version)}
    if status == 201:
        headers["Location"] = "/v1/records/" + "/".join(quote(name, safe="") for name in astuple(record.key))
    return JsonResponse(record if content is None else content, status, headers)


def outcome_response(outcome: Outcome) -> JsonResponse:
    """Return the record that a write stored, or raise ``NotAccepted``. A new record has the status 201."""
    accepted = outcome if isinstance(outcome, Accepted) else outcome.unwrap()
    if not accepted.records:  # nothing had to change, or what an earlier request wrote was erased since
        response = JsonResponse({"records": []})
    elif VALUES_ASKED.get() and len(accepted.records) > 1:
        response = JsonResponse({"records": accepted.records, "details": accepted.details})
    else:
        record, details = accepted.records[0], accepted.details
        content = {**to_json(record), "details": details} if details else None
        response = record_response(record, content, status=201 if record.version == 1 else 200)
    if accepted.repeated:
        response.headers["Idempotent-Replayed"] = "true"
    return response


@dataclass(eq=False)
class OperationCall:
    """The function of an operation's route: makes arguments of what a request gives, and answers with what the method returns."""

    operation: Operation
    adapter: Any
    """The function that is called instead of the method, if there is one."""
    view: Callable[..., Any] | None
    view_names: frozenset[str]
    in_path: Set[str]
    in_order: Sequence[str]
    """The parameters that the method takes by position alone."""
    many: str
    """The parameter of which the method takes any number of values."""
    readers: Sequence[Callable[[dict[str, Any]], None]]
    """Functions that put the fields of a request together to the arguments of the method."""

    def __call__(
        self, memory: Memory, body: BaseModel | None = None, if_none_match: str | None = None, **given: Any
    ) -> Response:
        noun = " ".join(str(value) for name, value in given.items() if name in self.in_path)
        if body is not None:
            given |= {field: getattr(body, field) for field in body.model_fields_set}
        shown = {name: given.pop(name) for name in self.view_names if name in given}
        if given.get("expected", ...) is None:
            del given["expected"]
        for read in self.readers:
            read(given)
        listed = [*(given.pop(name) for name in self.in_order), *given.pop(self.many, ())]
        if self.adapter is None or (VALUES_ASKED.get() and self.adapter.only_shows):
            result = attrgetter(self.operation.method)(memory)(*listed, **given)
        else:
            result = self.adapter(memory, **given)
        if not VALUES_ASKED.get() and self.view is not None:
            result = self.view(result, **shown)
        return self._respond(result, noun, given.get("limit"), if_none_match)

    def _respond(self, result: Any, noun: str, limit: int | None, if_none_match: str | None) -> Response:
        """Return the response for the result of the method, or raise ``NotAccepted``."""
        answer = self.operation.answer
        if isinstance(result, Response):
            return result
        if isinstance(result, DeferredJob):
            return job_response(result)
        if isinstance(result, Accepted | Conflict | Refused) and answer != "refused":
            return outcome_response(result)
        if VALUES_ASKED.get():
            if isinstance(result, RecallResult):  # it drops hundreds of hits, which are too much to send
                result = replace(result, dropped=tuple(result.dropped[:MAX_DROPPED]))
            return ValueResponse(list(islice(result, limit)) if isinstance(result, Iterator) else result)
        if (result is None and not answer) or (
            self.operation.method.endswith(".history") and answer == "versions" and not result
        ):
            raise not_found(f"There is no {noun[:80]!r} here.")
        if isinstance(result, Iterator):
            result = list(islice(result, limit))
        if answer == "outcomes":
            result = [_verdict(outcome) for outcome in result]
        elif isinstance(result, Refused):
            result = _verdict(result)
        if answer and not hasattr(result, answer):
            return JsonResponse({answer: result})
        version = result.get("version") if isinstance(result, Mapping) else getattr(result, "version", None)
        if type(version) is not int:
            return JsonResponse(result)
        headers = {"ETag": entity_tag(version)}
        if if_none_match is not None and if_none_match.strip() == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return JsonResponse(result, headers=headers)


def _verdict(outcome: Outcome) -> dict[str, Any]:
    """Return one of many outcomes: the record that was stored, or the problem."""
    if isinstance(outcome, Accepted):
        return {"status": 201, "record": to_json(outcome.record)}
    return outcome_of(outcome).as_problem()


def job_response(deferred: DeferredJob | Refused) -> JsonResponse:
    """Return where a deferred job can be looked up, or raise ``NotAccepted``."""
    if isinstance(deferred, Refused):
        raise NotAccepted(outcome=deferred)
    headers = {"Location": f"/v1/jobs/{quote(deferred.id, safe='')}", "Preference-Applied": "respond-async"}
    return JsonResponse(deferred, 202, headers)


def encode_cursor(position: int, query: Mapping[str, Any]) -> str:
    """Return an opaque cursor: a position, and a digest of the query it belongs to."""
    content = encode({"after": position, "query": _query_digest(query)})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_cursor(cursor: str, query: Mapping[str, Any]) -> int:
    """Return the position in a cursor. Refuse a cursor of another query."""
    try:
        content = decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        position, digest = content["after"], content["query"]
    except (ValueError, binascii.Error, InvalidInput, KeyError, TypeError) as error:
        raise InvalidInput("The cursor is not one of this server.", hint="Send `next` of a page as it is.") from error
    if type(position) is not int or digest != _query_digest(query):
        raise InvalidInput("The cursor belongs to another query.", hint="Repeat the query that the cursor came from.")
    return position


def _query_digest(query: Mapping[str, Any]) -> str:
    return hashlib.sha256(encode(to_json(dict(query)))).hexdigest()[:16]
