"""``/v1/export``, ``/v1/import`` and ``/v1/backups``: the log as lines of JSON, and backups to where the server says."""

from __future__ import annotations

import io
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import Path, Request
from starlette.responses import StreamingResponse

from lukasa.clock import to_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import CallerMemory, RespondAsync
from lukasa.interfaces.http.responses import DEFERRED, LOG_MEDIA_TYPE, JsonResponse, job_response
from lukasa.interfaces.http.server_jobs import BACKUP_JOB, EXPORT_JOB, ServerJobs
from lukasa.interfaces.outcomes import not_found, require_accepted
from lukasa.interfaces.serialise import import_json, to_json
from lukasa.memory import Memory, find_backups
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Query
from lukasa.transfer.backup import store_backup_name

router = PrefixRouter(prefix="/v1", tags=["transfer"])
BACKUP_PROOF = "backup_proof"
_CHUNK_BYTES = 256 * 1024
_NDJSON = {"description": "The log, one entry per line.", "content": {LOG_MEDIA_TYPE: {"schema": {"type": "string"}}}}
_LOG_BODY = {"requestBody": {"required": True, "content": {LOG_MEDIA_TYPE: {"schema": {"type": "string"}}}}}


class ChunkWriter(io.RawIOBase):
    """A file whose content goes to a stream in chunks; writing waits until the reader has taken them."""

    def __init__(self, stream: MemoryObjectSendStream[bytes]) -> None:
        self._stream = stream
        self._buffer = bytearray()

    def write(self, data: Any) -> int:
        """Add bytes, and send the chunk if it is full."""
        self._buffer += data
        if len(self._buffer) >= _CHUNK_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what is there."""
        if self._buffer:
            anyio.from_thread.run(self._stream.send, bytes(self._buffer))
            self._buffer.clear()


@router.get("/export", response_class=StreamingResponse, responses={200: _NDJSON, 202: DEFERRED})
async def export_log(request: Request, memory: CallerMemory, respond_async: RespondAsync) -> Any:
    """Return the whole log that the caller may read, as `lukasa export` writes it. Its last line proves that it is whole.

    With ``Prefer: respond-async`` the export of the owner becomes a job, if the server has a place for backups.
    """
    jobs: ServerJobs = request.app.state.server_jobs
    if respond_async and jobs.url and memory.journal.reach.unlimited:
        return job_response(await anyio.to_thread.run_sync(jobs.defer, memory, EXPORT_JOB))
    headers = {"Content-Disposition": 'attachment; filename="lukasa.jsonl"', "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_stream_log(memory), headers=headers, media_type=LOG_MEDIA_TYPE)


async def _stream_log(memory: Memory) -> AsyncIterator[bytes]:
    sender, receiver = anyio.create_memory_object_stream[bytes](1)

    def write() -> None:
        target = ChunkWriter(sender)
        memory.export(target)  # type: ignore[arg-type]  # a raw file is written like a buffered one
        target.flush()

    async def run() -> None:
        async with sender:
            await anyio.to_thread.run_sync(write)

    async with anyio.create_task_group() as group, receiver:
        group.start_soon(run)
        async for chunk in receiver:
            yield chunk


@router.post("/import", openapi_extra=_LOG_BODY)
async def import_log(request: Request, memory: CallerMemory) -> Any:
    """Import an exported log. Entries that are already stored are skipped, so that it can be sent again."""
    with tempfile.SpooledTemporaryFile(max_size=8 * 1024 * 1024) as file:
        async for chunk in request.stream():
            file.write(chunk)
        file.seek(0)
        result = await anyio.to_thread.run_sync(lambda: memory.import_(file))  # type: ignore[arg-type]  # a file
    return JsonResponse(import_json(result))


@router.post("/backups", status_code=201, responses={202: DEFERRED})
def back_up(request: Request, memory: CallerMemory, respond_async: RespondAsync) -> Any:
    """Back the store up to the place that the server was started with (`--backups URL`). Only for the owner.

    ``Prefer: respond-async`` makes it a job.
    """
    memory.journal.with_reach(memory.journal.reach, memory.journal.author)  # refuses everybody but the owner
    url = _require_backup_url(request)
    if respond_async:
        return job_response(request.app.state.server_jobs.defer(memory, BACKUP_JOB))
    return JsonResponse(memory.backup(url), 201)


@router.get("/backups")
def list_backups(request: Request, memory: CallerMemory) -> Any:
    """List the backups of the store, each with the time when it was last read and proved. Only for the owner."""
    memory.journal.with_reach(memory.journal.reach, memory.journal.author)  # refuses everybody but the owner
    if not request.app.state.server_jobs.url:
        return JsonResponse({"backups": [], "has_place": False})
    archives = find_backups(_require_backup_url(request), name=store_backup_name(memory.place))
    proofs = {record.id: record for record in memory.journal.read(Query(kinds=(BACKUP_PROOF,), scopes=(SYSTEM,)))}
    found = []
    for number in archives.numbers():
        manifest = to_json(archives.manifest(number))
        proof = proofs.get(_proof_id(manifest))
        manifest["proved_at"] = manifest["made_at"] if proof is None else to_iso(proof.recorded_at)
        found.append(manifest)
    return JsonResponse({"backups": found, "has_place": True})


@router.post("/backups/{number}/proof")
def prove_backup(request: Request, memory: CallerMemory, number: Annotated[int, Path(ge=0, le=10**6)]) -> Any:
    """Read a backup, compare it with its manifest, and note that it was proved. Only for the owner."""
    memory.journal.with_reach(memory.journal.reach, memory.journal.author)  # refuses everybody but the owner
    archives = find_backups(_require_backup_url(request), name=store_backup_name(memory.place))
    if number not in archives.numbers():
        raise not_found(f"There is no backup {number}.")
    manifest = to_json(archives.verify(number))
    proof = require_accepted(memory.journal.write(BACKUP_PROOF, id=_proof_id(manifest), scope=SYSTEM)).record
    return JsonResponse({**manifest, "proved_at": proof.recorded_at})


def _proof_id(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['number']}-{manifest['sha256'][:32]}"


def _require_backup_url(request: Request) -> str:
    url: str = request.app.state.server_jobs.url
    if not url:
        hint = "Ask the operator to start it with --backups URL."
        raise InvalidInput("The server has no place for backups.", hint=hint)
    return url
