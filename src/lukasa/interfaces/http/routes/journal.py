"""``/v1/journal``: undo, quarantine, erasure and verification of everything that is stored."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lukasa.core.record import Key
from lukasa.interfaces.http.requests import MAX_ITEMS, CallerMemory, Name, RequestModel, WritingMemory
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.http.service_routes import AnyKey, LongText, ServiceRoutes
from lukasa.interfaces.serialise import quarantine_json, restore_json
from lukasa.journal import Journal

routes = ServiceRoutes("/v1/journal", lambda memory: memory.journal)


class ErasureRequest(RequestModel):
    """Records to remove for good, or a subject: a name or a piece of text that they mention."""

    keys: list[AnyKey] = Field(default=[], max_length=MAX_ITEMS)
    subject: Name | None = None
    exact: bool = Field(False, description="Letter case counts in the subject.")
    reason: LongText = ""
    dry_run: bool = Field(False, description="Only list the records that would be removed.")


@routes.router.post("/erasures")
def erase(memory: WritingMemory, body: ErasureRequest) -> Any:
    """Remove records for good, with every version, index entry and derived record; the answer is the receipt."""
    keys: list[Key] = list(body.keys)  # type: ignore[arg-type]  # converted when the body was read
    if body.dry_run:
        journal, subject, exact = memory.journal, body.subject, body.exact
        restored = restore_json(journal.preview_restore(*keys, subject=subject, exact=exact))
        erased = journal.preview_erase(*keys, subject=subject, exact=exact)
        return JsonResponse({"would_erase": erased, "would_restore": restored})
    receipt = memory.journal.erase(*keys, subject=body.subject, exact=body.exact, reason=body.reason)
    return JsonResponse(receipt)


@routes.router.get("/quarantines")
def list_quarantines(memory: CallerMemory) -> Any:
    """List the authors in quarantine."""
    return JsonResponse({"quarantines": [quarantine_json(record) for record in memory.journal.quarantined().values()]})


routes.add("POST", "/quarantines", Journal.quarantine, status=201)
routes.add("DELETE", "/quarantines/{author}", Journal.release)
routes.add("POST", "/undo", Journal.undo)
routes.add("POST", "/verification", Journal.verify)
routes.add("POST", "/compaction", Journal.compact)
