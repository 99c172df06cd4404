"""The one function that turns the library's values into JSON, for every interface.

``to_json`` handles plain values, collections and dataclasses by itself. A value whose JSON differs from its fields has a
row or an encoder below, or an ``as_json`` method. Rows and encoders are found by class name, so that importing this
module loads none of the classes; a class name occurs only once in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lukasa.core.clock import to_iso
from lukasa.core.freshness import describe_freshness
from lukasa.core.record import Key, Record

if TYPE_CHECKING:
    from lukasa.experience import Briefing, Skill
    from lukasa.journal import ImportReceipt
    from lukasa.recall.recall import RecallHit, RecallResult
    from lukasa.transfer.copy import CopyResult

Json = dict[str, Any]

FIELDS: Mapping[str, str] = {
    "ApiToken": "name access agent scopes rate expires_at made_at last_used",
    "CheckpointVerification": "number=entry.number file=entry.name fault",
    "CompactionReport": "happened **",
    "Conflict": "key expected found reason",
    "ConsolidationProposal": "action **key says confidence voices sources body=draft.body",
    "ConsolidationResult": "looked_at label proposals held",
    "ContinuityUpdate": "file=path changed goal sections",
    "Context": (
        "session_id scope system_state facts recent_history=turns long_term_summary active_tasks tool_stats "
        "last_known_environment token_usage **extra folded tokens settings recovered"
    ),
    "ConversationInfo": "session_id=id scope created_at updated_at",
    "CopyProof": "holds same_log=is_same_log shares=kind_proofs",
    "CopyRefusal": "**key version reason",
    "DeletionSuggestion": "id=memory.id code reason text=memory.text",
    "Eligibility": "agent viable not_viable_because=why",
    "Entity": "name entityType=entity_type observations",
    "ErasureReceipt": "receipt=id records versions by_kind residue files restored",
    "LeftOutRecord": "**record.key reason",
    "KindProof": "** holds",
    "Match": "score record",
    "Neighbour": "relation direction **key",
    "ProposedChange": "**key now proposed deletes links",
    "RankingSignal": "value weight share",
    "Record": (
        "kind id scope author origin version seq created_at recorded_at happened_at deleted body text links labels "
        "digest"
    ),
    "RecoveryReport": (
        "session mode used number replayed sure whole lost incidents conflicts rebuilt damaged flagged network state"
    ),
    "Supersession": "**record.key at",
    "Relation": "from=source to=target relationType=relation_type",
    "RestoreResult": "store=place versions digest files backup=manifest",
    "RunningEpisode": "id scope",
    "Rubric": "version by=changed_by criteria",
    "RubricEffect": "days before after",
    "SyncConflict": "**key version",
    "SyncResult": "holds **",
    "Turn": "id timestamp role content token_count=tokens speaker? tool_calls? tool_call_id? is_unsaid? **extra",
    "VaultHit": "score memory superseded_by? contradicts?",
    "VerifyReport": "sound versions findings set_aside forged_rules",
}
"""Values that are shown by some of their attributes, in this order.

``name=path`` renames an attribute or reaches into one, ``name?`` leaves out an empty one, ``**path`` merges the JSON of an
attribute, and ``**`` alone means all fields of the dataclass.
"""


def to_json(value: Any) -> Any:
    """Return a value as dicts, lists, strings, numbers, booleans and None."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return to_iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    name = type(value).__name__ if type(value).__module__.startswith("lukasa.") else ""
    if name in _ENCODERS:
        return _ENCODERS[name](value)
    if name in FIELDS:
        return _selected_fields(value, FIELDS[name])
    if hasattr(value, "as_json"):
        return value.as_json()
    if is_dataclass(value) and not isinstance(value, type):
        return _dataclass_fields(value)
    if hasattr(value, "_asdict"):
        return to_json(value._asdict())
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, Set):
        return sorted(to_json(item) for item in value)
    return [to_json(item) for item in value]


def _selected_fields(value: Any, selection: str) -> Json:
    found: Json = {}
    for name, read, is_optional in _parse_selection(selection):
        shown = to_json(read(value))
        if not name:
            found |= shown
        elif shown or not is_optional:
            found[name] = shown
    return found


@cache
def _parse_selection(selection: str) -> list[tuple[str, Callable[[Any], Any], bool]]:
    """Parse a row of ``FIELDS`` into names, functions that read the value, and what may be missing; merged values have no name."""
    found: list[tuple[str, Callable[[Any], Any], bool]] = []
    for word in selection.split():
        name, _, path = word.partition("=")
        if word == "**":
            found.append(("", _dataclass_fields, False))
        elif word.startswith("**"):
            found.append(("", attrgetter(word[2:]), False))
        else:
            plain = name.removesuffix("?")
            found.append((plain, attrgetter(path or plain), plain != name))
    return found


def _dataclass_fields(value: Any) -> Json:
    return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}


def versions_json(records: Sequence[Record], imports: Mapping[bytes, ImportReceipt]) -> list[Json]:
    """Return versions of records, and of each that was imported who imported it."""
    return [
        to_json(record) | ({"imported": to_json(imports[record.digest])} if record.digest in imports else {})
        for record in records
    ]


def quarantine_json(record: Record) -> Json:
    """Return the quarantine that a record of the log describes."""
    names = ("author", "since", "reason")
    return {name: record.body[name] for name in names} | {"recorded_at": to_iso(record.recorded_at)}


def restore_json(restored: Mapping[Key, Sequence[int]]) -> list[Json]:
    """Return the records that lose only versions by an erasure."""
    return [{"record": to_json(key), "versions": list(numbers)} for key, numbers in restored.items()]


def _recall_hit(hit: RecallHit, *, explain: bool = False) -> Json:
    found = _selected_fields(hit, "score relevance trust record superseded_by? supersedes? contradicts? orders?")
    found["relevance"] = round(hit.relevance, 3)
    if explain:
        found["signals"] = {signal.name: to_json(signal) for signal in hit.signals}
        found |= {"repeats": hit.repeats, "crowded": hit.crowded}
    return found


def recall_json(result: RecallResult, *, explain: bool = False) -> Json:
    """Return a recall; with ``explain`` the signals of each hit and the next candidates too."""
    answer: Json = {"hits": [_recall_hit(hit, explain=explain) for hit in result.hits]}
    answer |= _selected_fields(result, "nothing_relevant unindexed embedder note left_out?")
    if explain:
        answer["dropped"] = [_recall_hit(hit, explain=True) for hit in result.dropped]
    return answer


def vault_record_json(record: Record) -> Json:
    """Return the memory of the vault that a record holds."""
    from lukasa.vault.memory import parse_memory

    return parse_memory(record).as_json()


def _skill(skill: Skill) -> Json:
    body = {name: value for name, value in skill.record.body.items() if name != "markdown"}
    head = {"id": skill.id, "scope": skill.record.scope, "version": skill.record.version}
    return {**head, **body, "success_rate": skill.success_rate}


def _briefing_entry(entry: Any, *, full: bool = False) -> Json:
    shown = _selected_fields(entry, "**record.key line score record" if full else "**record.key line score")
    return shown | {"score": round(entry.score, 4)}


def briefing_json(briefing: Briefing, *, full: bool = False) -> Json:
    """Return a briefing; with ``full`` each entry's record too."""
    entries = (*briefing.known, *briefing.relevant, *briefing.avoid, *briefing.skills)
    memories = [
        _briefing_entry(entry, full=full) | {"age": describe_freshness(entry.record, briefing.asked_at)}
        for entry in entries
    ]
    return briefing.task | {"memories": memories} | _selected_fields(briefing, "left_out?")


def import_json(result: Any, place: str = "line") -> Json:
    """Return an import; ``place`` names what a refusal points at, a line or a file."""
    refused = [{place: where, "reason": reason} for where, reason in result.refused]
    more = {"refused_more": result.refused_more} if getattr(result, "refused_more", 0) else {}
    return {"added": result.added, "present": result.present, "refused": refused, **more}


def _copy_result(result: CopyResult) -> Json:
    from lukasa.transfer.copy import NOT_COPIED

    return _selected_fields(result, "added present refused refusals proof") | {"not_copied": list(NOT_COPIED)}


_ENCODERS: Mapping[str, Callable[[Any], Json]] = {
    "Briefing": briefing_json,
    "BriefingEntry": _briefing_entry,
    "CopyResult": _copy_result,
    "Handoff": lambda handoff: handoff.as_json() | {"status": handoff.status},
    "KnowledgeItem": lambda item: {"kind": item.kind, **item.as_json()},
    "LayoutImportResult": import_json,
    "LogImportResult": import_json,
    "Manifest": lambda manifest: (
        _selected_fields(manifest, "name number made_at archive sha256 encrypted bytes=size files facts")
        | {"files": len(manifest.files)}
    ),
    "RecallHit": _recall_hit,
    "RecallResult": recall_json,
    "SimilarMemoryPair": lambda pair: (
        {"ids": [pair.one.id, pair.other.id]}
        | _selected_fields(pair, "overlap sequence meaning difference")
        | {"texts": [pair.one.text, pair.other.text]}
    ),
    "Skill": _skill,
    "SkillSyncResult": lambda result: (
        _selected_fields(result, "taken written conflicts")
        | {"faults": [{"file": name, "reason": reason} for name, reason in result.faults]}
    ),
    "SourceImportResult": lambda result: (
        _selected_fields(result, "format added memories conversations turns files present redacted")
        | {"refused": [{"where": at, "code": code, "reason": reason} for at, code, reason in result.refusals]}
    ),
    "Tick": lambda tick: (
        _selected_fields(tick, "id scope author text") | {"at": to_iso(tick.at.replace(microsecond=0))}
    ),
    "VaultImportResult": lambda result: (
        _selected_fields(result, "memories versions present")
        | {"refused": [{"line": line, "code": why.code, "reason": why.reason} for line, why in result.refused]}
    ),
}
"""What values are shown as that have more than a row."""


def registered_names() -> frozenset[str]:
    """Return the names of the classes whose JSON is declared here."""
    return frozenset((*FIELDS, *_ENCODERS))
