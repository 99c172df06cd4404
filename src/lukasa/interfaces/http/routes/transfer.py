"""``/v1/export``, ``/v1/import`` and ``/v1/backups``: the log as lines of JSON, and backups to where the server says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Path, Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from lukasa.core.clock import to_iso
from lukasa.core.outcome import Refused
from lukasa.core.scope import SYSTEM
from lukasa.errors import FormatError, InvalidInput, NotAccepted
from lukasa.interfaces.auth import TOKEN_KEY, problem_response
from lukasa.interfaces.http.requests import CallerMemory, RespondAsync
from lukasa.interfaces.http.responses import (
    DEFERRED,
    LOG_MEDIA_TYPE,
    JsonResponse,
    declare_answer,
    describe_answer,
    job_response,
)
from lukasa.interfaces.http.server_jobs import BACKUP_JOB, EXPORT_JOB, ServerJobs
from lukasa.interfaces.outcomes import not_found, outcome_of
from lukasa.interfaces.serialise import import_json, to_json
from lukasa.memory import Memory, find_backups
from lukasa.storage.archive import Manifest
from lukasa.storage.engine import Query
from lukasa.storage.log_file import MAX_HEADER_BYTES, MAX_LINE_BYTES
from lukasa.transfer.backup import store_backup_name
from lukasa.transfer.jsonl import LogImport, LogImportResult, encode_export

router = APIRouter(prefix="/v1", tags=["transfer"])
BACKUP_PROOF = "backup_proof"
_CHUNK_BYTES = 256 * 1024
_NDJSON = {"description": "The log, one entry per line.", "content": {LOG_MEDIA_TYPE: {"schema": {"type": "string"}}}}
_LOG_BODY = {"requestBody": {"required": True, "content": {LOG_MEDIA_TYPE: {"schema": {"type": "string"}}}}}


MAX_IMPORTS = 4
"""Imports that a server takes at the same time, at most one of each token, so that what they hold in memory is limited."""
MAX_REFUSED_LINES = 1_000
"""Refused lines of an import that its answer lists."""
_BATCH_BYTES = 1024 * 1024
_BATCH_LINES = 1_000


class LineSplitter:
    """Splits a body into lines as it arrives. It holds one line that has not ended, and no more of it than a log may have."""

    def __init__(self) -> None:
        self._unfinished = bytearray()
        self._limit = MAX_HEADER_BYTES

    def split(self, chunk: bytes) -> list[bytes]:
        """Return the lines that have ended. Raises ``FormatError`` if one is too long."""
        first, newline, others = chunk.partition(b"\n")
        self._unfinished += first
        if len(self._unfinished) > self._limit:
            raise FormatError(f"A line is longer than {self._limit:,} bytes, or this is no exported log.")
        if not newline:
            return []
        self._limit = MAX_LINE_BYTES
        lines = [self._unfinished, *others.split(b"\n")]
        self._unfinished = bytearray(lines.pop())
        return [bytes(line).rstrip(b"\r") for line in lines]

    def rest(self) -> list[bytes]:
        """Return the last line if no line end followed it."""
        return [bytes(self._unfinished)] if self._unfinished else []


@router.get("/export", response_class=StreamingResponse, responses={200: _NDJSON, 202: DEFERRED})
async def export_log(request: Request, memory: CallerMemory, respond_async: RespondAsync) -> Any:
    """Return the whole log that the caller may read, as `lukasa export` writes it. Its last line proves that it is whole.

    With ``Prefer: respond-async`` the export of the owner becomes a job, if the server has a place for backups.
    """
    jobs: ServerJobs = request.app.state.server_jobs
    if respond_async and jobs.url and memory.journal.reach.unlimited:
        return job_response(await anyio.to_thread.run_sync(jobs.defer, memory, EXPORT_JOB))
    headers = {"Content-Disposition": 'attachment; filename="lukasa.jsonl"'}
    return StreamingResponse(_stream_log(memory), headers=headers, media_type=LOG_MEDIA_TYPE)


async def _stream_log(memory: Memory) -> AsyncIterator[bytes]:
    """Yield the log in chunks. A thread is taken to make each, and none while the client reads it."""
    lines = encode_export(memory.journal)
    while chunk := await anyio.to_thread.run_sync(_join_lines, lines):
        yield chunk


def _join_lines(lines: Iterator[bytes]) -> bytes:
    chunk = bytearray()
    while len(chunk) < _CHUNK_BYTES and (line := next(lines, b"")):
        chunk += line
    return bytes(chunk)


@router.post("/import", openapi_extra=_LOG_BODY, responses=describe_answer(LogImportResult))
async def import_log(request: Request, memory: CallerMemory) -> Any:
    """Import an exported log as it arrives. Entries that are already stored are skipped, so that it can be sent again.

    It ends at the first line that is none of a log; ``details`` of the problem say what was done before. A token imports one
    log at a time.
    """
    running = LogImport(memory.journal, max_refused=MAX_REFUSED_LINES)
    with _take_turn(request.app.state.running_imports, request.scope[TOKEN_KEY].sha256):
        try:
            async for lines in _batch_lines(request):
                await anyio.to_thread.run_sync(running.add, lines)
            running.finish()
        except FormatError as error:
            return problem_response(replace(outcome_of(error), details=import_json(running.result)))
        except ClientDisconnect:
            pass  # nobody hears the answer; what arrived is stored
    return JsonResponse(import_json(running.result))


async def _batch_lines(request: Request) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a body, the first at once, then many at a time, also those before a fault."""
    splitter, batch, size = LineSplitter(), list[bytes](), _BATCH_BYTES
    try:
        async for chunk in request.stream():
            batch += splitter.split(chunk)
            size += len(chunk)
            if batch and (size >= _BATCH_BYTES or len(batch) >= _BATCH_LINES):
                yield batch
                batch, size = [], 0
        batch += splitter.rest()
    except Exception:
        yield batch
        raise
    yield batch


@contextmanager
def _take_turn(running: set[str], token: str) -> Iterator[None]:
    """Refuse an import while one of the same token runs on this server, or too many of others."""
    if token in running:
        raise NotAccepted(outcome=Refused("import_running", "This token is importing a log already."))
    if len(running) >= MAX_IMPORTS:
        raise NotAccepted(outcome=Refused("import_running", f"The server is importing {MAX_IMPORTS} logs already."))
    running.add(token)
    try:
        yield
    finally:
        running.discard(token)


@router.post("/backups", status_code=201, responses={**describe_answer(Manifest, 201), 202: DEFERRED})
def back_up(request: Request, memory: CallerMemory, respond_async: RespondAsync) -> Any:
    """Back the store up to the place that the server was started with (`--backups URL`). Only for the owner.

    ``Prefer: respond-async`` makes it a job.
    """
    url = _require_backup_url(request, memory)
    if respond_async:
        return job_response(request.app.state.server_jobs.defer(memory, BACKUP_JOB))
    return JsonResponse(memory.backup(url), 201)


@router.get("/backups", responses=declare_answer("BackupList", "backups:list[Manifest] has_place:bool", Manifest))
def list_backups(request: Request, memory: CallerMemory) -> Any:
    """List the backups of the store, each with the time when it was last read and proved. Only for the owner."""
    memory.journal.with_reach(memory.journal.reach, memory.journal.author)  # refuses everybody but the owner
    if not request.app.state.server_jobs.url:
        return JsonResponse({"backups": [], "has_place": False})
    archives = find_backups(_require_backup_url(request, memory), name=store_backup_name(memory.place))
    proofs = {record.id: record for record in memory.journal.read(Query(kinds=(BACKUP_PROOF,), scopes=(SYSTEM,)))}
    found = []
    for number in archives.numbers():
        manifest = to_json(archives.manifest(number))
        proof = proofs.get(_proof_id(manifest))
        manifest["proved_at"] = manifest["made_at"] if proof is None else to_iso(proof.recorded_at)
        found.append(manifest)
    return JsonResponse({"backups": found, "has_place": True})


@router.post("/backups/{number}/proof", responses=describe_answer(Manifest))
def prove_backup(request: Request, memory: CallerMemory, number: Annotated[int, Path(ge=0, le=10**6)]) -> Any:
    """Read a backup, compare it with its manifest, and note that it was proved. Only for the owner."""
    archives = find_backups(_require_backup_url(request, memory), name=store_backup_name(memory.place))
    if number not in archives.numbers():
        raise not_found(f"There is no backup {number}.")
    manifest = to_json(archives.verify(number))
    proof = memory.journal.write(BACKUP_PROOF, id=_proof_id(manifest), scope=SYSTEM).unwrap()
    return JsonResponse({**manifest, "proved_at": proof.recorded_at})


def _proof_id(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['number']}-{manifest['sha256'][:32]}"


def _require_backup_url(request: Request, memory: Memory) -> str:
    """Return the place for the backups of the store, for its owner."""
    memory.journal.with_reach(memory.journal.reach, memory.journal.author)  # refuses everybody but the owner
    url: str = request.app.state.server_jobs.url
    if not url:
        hint = "Ask the operator to start it with --backups URL."
        raise InvalidInput("The server has no place for backups.", hint=hint)
    return url
