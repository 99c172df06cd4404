"""The JSON Schema of what ``serialise.to_json`` makes of a type: how the HTTP API describes its answers.

A class becomes a named component. Its fields are those of the dataclass, those of its row in ``serialise.FIELDS``, or those
of ``SHAPES`` if an encoder or ``as_json`` writes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, reduce
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.interfaces.serialise import FIELDS
from lukasa.methods import read_hints, read_prose, read_type

Schema = dict[str, Any]

SHAPES: Mapping[str, str] = {
    "AdvocateAssignment": "chosen seed fallback round_id candidates:list[dict[str,object]]",
    "Briefing": "goal?:str context:dict[str,object] memories:list[BriefingEntry] left_out?:list[LeftOutRecord] ...",
    "BriefingEntry": "scope:str kind:str id:str line score age?:str record?:Record",
    "CalibrationReport": "** applies:bool",
    "DissentForecast": "topic prospects:list[dict[str,object]] past:dict[str,float|None]",
    "Episode": (
        "id:str task_id?:str timestamp?:str duration_seconds?:float agent?:str context?:dict[str,object]|None outcome?:str "
        "action_log?:list[object] errors_encountered?:list[object] artifacts_produced?:list[object] "
        "git_commit?:str|None ..."
    ),
    "Handoff": (
        "id:str from_agent?:str to_agent?:str timestamp?:str context?:dict[str,object] status:str read_at?:str|None "
        "accepted_at?:str|None accepted_by?:str|None completed_at?:str|None result?:str|None ..."
    ),
    "KnowledgeItem": "kind:str id:str confidence?:float usage_count?:int category?:str|None links?:list[dict[str,str]] ...",
    "Ledger": (
        "agent_id last_checkpoint?:str tasks_completed?:int current_task?:str|None state?:dict[str,object] "
        "context?:dict[str,object] ..."
    ),
    "LogImportResult": "added present refused:list[dict[str,object]] refused_more?:int",
    "Manifest": "name number made_at archive sha256 encrypted bytes=size files:int facts:dict[str,object] proved_at?:str",
    "MarketAnalysis": (
        "market_id:str base_rate?:float|None key_factors?:list[dict[str,object]] evidence?:list[dict[str,object]] "
        "last_analysis?:str ..."
    ),
    "Prediction": (
        "prediction_id:str question:str probability:float status:str market_id?:str|None category?:str "
        "confidence_interval?:list[float]|None confidence_level?:float|None num_updates?:int outcome?:object "
        "created_at?:str last_updated?:str due?:str|None resolved_at?:str|None ..."
    ),
    "RecallHit": (
        "score relevance trust record superseded_by?:Supersession supersedes?:list[Supersession] "
        "contradicts?:Supersession orders?:str signals?:dict[str,RankingSignal] repeats?:int crowded?:bool"
    ),
    "Lesson": "id:str text:str count:int about:str sessions:list[str] last_seen:str files?:list[str] command?:str failure?:str",
    "RecallResult": (
        "hits nothing_relevant unindexed embedder note left_out? dropped?:list[RecallHit] block?:dict[str,object]"
    ),
    "Record": "** details?:dict[str,object] imported?:dict[str,object]",
    "Signal": (
        "signal_id:str agent_id?:str market_id?:str|None prediction_id?:str prediction?:float confidence?:float|None "
        "timestamp?:str received_at?:str broadcast?:bool acknowledged?:bool ..."
    ),
    "SimilarMemoryPair": "ids:list[str] overlap sequence meaning difference texts:list[str]",
    "Skill": "id:str scope:str version:int success_rate ...",
    "Tick": "id scope author text at",
    "TrustMetrics": "agents ...",
    "TrustScore": (
        "agent trust_score:float adjusted_score raw parts:dict[str,dict[str,float]] regret_ratio dissents dissents_from "
        "overrides overrides_from events adjusted:dict[str,float] interval:list[float] at"
    ),
    "Turn": (
        "id timestamp:str|None role content token_count speaker?:str tool_calls?:list[dict[str,object]] tool_call_id?:str is_unsaid?:bool ..."
    ),
    "VaultMemory": (
        "id text scope category tier topic_id tags created_at updated_at source deleted_at version distinct_from?:list[str] "
        "expires_at?:str confirmed_at?:str stated_at?:str"
    ),
}
"""Values that encoders write: an attribute or ``name:type`` for each field, ``?`` for one that may be missing.

``name=path`` and ``**`` are those of ``serialise.FIELDS``; three dots stand for more fields of the record's body.
"""

_PLAIN: Mapping[Any, Schema] = {
    Any: {},
    object: {},
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    timedelta: {"type": "number", "description": "Seconds."},
}
_LISTS = (Sequence, Set, Iterable, Iterator, list, tuple, set, frozenset)


class SchemaBook:
    """The components of an OpenAPI document, which grow with each type that is described."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def describe_answer(self, returned: Any, answer: str = "") -> Schema:
        """Return the schema of what an operation answers; refusals and what is missing are problems."""
        if returned == Outcome:
            written: Schema = self.describe(Accepted)
            return written
        if answer:
            is_verdicts = Outcome in get_args(returned)
            described = self._verdicts() if is_verdicts else self.describe(_without(returned, Conflict, Refused))
            described = self._problem() if returned == Refused | None else described
            return {"type": "object", "required": [answer], "properties": {answer: described}}
        return self.describe(_without(returned, Conflict, Refused, NoneType))

    def declare(self, name: str, row: str, *kinds: type) -> Schema:
        """Add a component by a row as in ``SHAPES``, whose types are plain or among those given."""
        known = {kind.__name__: kind for kind in kinds}
        found: Schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        for word in row.split():
            field, _, text = word.partition(":")
            self._add(found, field, self.describe(eval(text, known)))  # noqa: S307 - a type in the source of the package
        self.components[name] = {"title": name, **found}
        return {"$ref": f"#/components/schemas/{name}"}

    def describe(self, hint: Any) -> Schema:
        """Return the schema of a type."""
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return {"anyOf": [self.describe(part) for part in parts]}
        if origin is Literal:
            return {"enum": list(parts)}
        if origin is tuple and parts[-1] is not ...:
            items = [self.describe(part) for part in parts]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.describe(parts[1])}
        if origin in _LISTS:
            return {"type": "array", "items": self.describe(parts[0])}
        if hint in _PLAIN:
            return _PLAIN[hint]
        if hint in (dict, Mapping):
            return {"type": "object"}
        if inspect.isclass(hint) and issubclass(hint, PurePath | bytes):
            return {"type": "string"}
        return self._refer(hint)

    def _refer(self, kind: type) -> Schema:
        name = "WrittenRecord" if kind is Accepted else kind.__name__
        if name not in self.components:
            self.components[name] = {}  # for a class that mentions itself
            described = self._written() if kind is Accepted else self._describe_class(kind)
            self.components[name] = {"title": name, "description": read_prose(kind)[0], **described}
        return {"$ref": f"#/components/schemas/{name}"}

    def _written(self) -> Schema:
        record = read_hints(Accepted)["records"]
        nothing = {"type": "object", "required": ["records"], "properties": {"records": self.describe(record)}}
        return {"anyOf": [self.describe(get_args(record)[0]), nothing]}

    def _verdicts(self) -> Schema:
        record = self.describe(get_args(read_hints(Accepted)["records"])[0])
        stored = {"type": "object", "required": ["status", "record"], "properties": {"record": record}}
        return {"type": "array", "items": {"anyOf": [stored, self._problem()]}}

    def _problem(self) -> Schema:
        return {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Problem"}]}

    def _describe_class(self, kind: type) -> Schema:
        row = SHAPES.get(kind.__name__) or FIELDS.get(kind.__name__) or "**"
        found: Schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        for word in row.split():
            self._add_word(found, kind, word)
        return found

    def _add_word(self, found: Schema, kind: type, word: str) -> None:
        """Add the field that one word of a row describes."""
        if word == "**" and kind.__name__ in FIELDS and kind.__name__ in SHAPES:
            for each in FIELDS[kind.__name__].split():
                self._add_word(found, kind, each)
        elif word == "**":
            hints = read_hints(kind)
            names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
            for name in names:
                self._add(found, name, self.describe(hints[name]))
        elif word.startswith("**"):
            self._merge(found, self.describe(_attribute_hint(kind, word[2:])))
        elif word == "...":
            found["additionalProperties"] = True
        else:
            name, _, text = word.partition(":")
            name, _, path = name.partition("=")
            hint = read_type(text, kind) if text else _attribute_hint(kind, (path or name).rstrip("?"))
            self._add(found, name, self.describe(hint))

    def _merge(self, found: Schema, described: Schema) -> None:
        described = self.components[described["$ref"].rpartition("/")[2]] if "$ref" in described else described
        found["properties"] |= described.get("properties", {})
        found["required"] += described.get("required", [])
        found["additionalProperties"] = described.get("additionalProperties", True) is not False

    def _add(self, found: Schema, name: str, described: Schema) -> None:
        if not name.endswith("?"):
            found["required"].append(name)
        found["properties"][name.rstrip("?")] = described


def _without(hint: Any, *unwanted: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kept = [part for part in get_args(hint) if part not in unwanted]
    return reduce(lambda one, other: one | other, kept)


def _attribute_hint(kind: type, path: str) -> Any:
    """Return the type of an attribute, or of one that is reached through others."""
    found: Any = kind
    for name in path.split("."):
        member = inspect.getattr_static(found, name, None)
        getter = member.fget if isinstance(member, property) else getattr(member, "func", None)
        if isinstance(member, cached_property | property):
            found = read_hints(getter)["return"]
        elif name in (hints := read_hints(found)):
            found = hints[name]
        else:
            found = get_args(member.__orig_class__)[0]
    return found
