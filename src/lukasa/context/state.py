"""What a session is to those who use it: its turns, its small state, and the limits it keeps.

``Context`` has every field of the document it follows, as plain values that may be edited. What it was when it was
loaded stays with it (``origin``), so that saving can tell what was changed, and by whom else.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Self

from lukasa.clock import from_iso, to_utc
from lukasa.errors import InvalidInput

TimeLike = datetime | int | float | str
"""A time as callers tell it: a datetime, seconds since 1970, or ISO 8601."""


def parse_time(value: TimeLike) -> datetime:
    """The moment that was told, in UTC."""
    if isinstance(value, datetime):
        return to_utc(value)
    if isinstance(value, str):
        return from_iso(value)
    try:
        if isinstance(value, bool):
            raise TypeError
        return datetime.fromtimestamp(value, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"{value!r:.60} is not a time.", hint="Use seconds since 1970, or ISO 8601 such as 2026-02-03T12:00:00Z."
        ) from error


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation. ``id`` is empty until it is kept; what is kept never changes."""

    role: str
    content: str
    timestamp: datetime | None = None
    token_count: int | None = None
    speaker: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    @classmethod
    def from_entry(cls, value: Turn | Mapping[str, Any]) -> Turn:
        """A turn, or the document's entry as a mapping; fields it does not know are kept as ``extra``."""
        if isinstance(value, Turn):
            return value
        entry: object = value
        if not isinstance(entry, Mapping) or not isinstance(entry.get("role"), str):
            raise InvalidInput("An entry of the history needs a role and a content.")
        known: dict[str, Any] = dict(entry)
        content, timestamp = known.pop("content", ""), known.pop("timestamp", None)
        count, calls = known.pop("token_count", None), known.pop("tool_calls", None)
        if not isinstance(content, str) or not (count is None or (type(count) is int and count >= 0)):
            raise InvalidInput("The content of an entry is text, its token_count a number that is not negative.")
        if calls is not None and not (isinstance(calls, list | tuple) and all(isinstance(c, Mapping) for c in calls)):
            raise InvalidInput("The tool_calls of an entry are a list of objects.")
        speaker, answered = known.pop("speaker", ""), known.pop("tool_call_id", "")
        return cls(
            role=known.pop("role"),
            content=content,
            timestamp=None if timestamp is None else parse_time(timestamp),
            token_count=count,
            speaker=speaker or "",
            tool_calls=tuple(calls or ()),
            tool_call_id=answered or "",
            id=str(known.pop("id", "") or ""),
            extra=known,
        )

    @property
    def name(self) -> str:
        """Who speaks."""
        return self.speaker or self.role

    @property
    def tokens(self) -> int:
        return self.token_count or 0


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """The limits of one session, and what happens by itself.

    More than ``entries`` turns or ``tokens`` tokens in the recent view trigger a compaction, which leaves ``keep``
    turns, or half of them, until both limits hold. The summary has at most ``summary_tokens``. A context shows the
    newest ``facts`` facts. Completed tasks are kept for ``finished_hours``.
    """

    entries: int = 50
    keep: int = 30
    tokens: int = 100_000
    summary_tokens: int = 2_000
    facts: int = 100
    finished_hours: float = 24.0
    automatic: bool = True
    extracting: bool = True

    def __post_init__(self) -> None:
        for name, least in (("entries", 1), ("keep", 0), ("tokens", 1), ("summary_tokens", 0), ("facts", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < 2**53:
                raise InvalidInput(f"The setting {name} is a whole number of at least {least}.")
        if type(self.finished_hours) not in (int, float) or not 0 <= self.finished_hours < 10**6:
            raise InvalidInput("The setting finished_hours is a number of hours that is not negative.")
        if {type(self.automatic), type(self.extracting)} != {bool}:
            raise InvalidInput("The settings automatic and extracting are true or false.")
        if self.keep > self.entries:
            raise InvalidInput("A compaction cannot keep more entries than it lets gather.", hint="Let keep ≤ entries.")

    def with_changes(self, changes: Mapping[str, Any]) -> ConversationSettings:
        """The same with changes."""
        unknown = sorted(set(changes) - {each.name for each in fields(self)})
        if unknown:
            known = ", ".join(each.name for each in fields(self))
            raise InvalidInput(f"There is no setting {unknown[0]!r:.60}.", hint=f"Settings are {known}.")
        if "entries" in changes and "keep" not in changes and isinstance(changes["entries"], int):
            changes = {**changes, "keep": min(self.keep, max(changes["entries"], 0))}
        return replace(self, **changes)

    def non_default_values(self) -> dict[str, Any]:
        """What is not as it is by default: all that has to be kept."""
        default = asdict(DEFAULT_SETTINGS)
        return {name: value for name, value in asdict(self).items() if value != default[name]}


DEFAULT_SETTINGS = ConversationSettings()

STATE_FIELDS = ("system_state", "active_tasks", "tool_stats", "last_known_environment", "token_usage")
"""The fields of a context that are kept together, as one small record."""


def default_state() -> dict[str, Any]:
    """What these fields hold in a new session."""
    return {
        "system_state": {"last_workspace": None, "preferences": {}},
        "active_tasks": [],
        "tool_stats": {"total_calls": 0, "by_tool": {}, "failures": 0},
        "last_known_environment": {"workspace": None, "last_update": None, "system_snapshot": {}},
        "token_usage": {"total_input": 0, "total_output": 0, "by_session": 0},
    }


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was learned in a session. ``slot`` names what it is about: a newer fact about it takes its place."""

    text: str
    slot: str = ""
    rule: str = ""
    id: str = ""
    turn: str = ""


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """One line of a summary, and what it is worth; ``round`` counts the compactions up to the one that wrote it."""

    text: str
    worth: float
    round: int = 0


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """The long-term summary of a session: what it says, of how many turns, and who wrote it.

    ``edge`` holds the ids of the newest folded turns, the very newest first: the recent view begins after them.
    """

    text: str = ""
    lines: tuple[SummaryLine, ...] = ()
    tokens: int = 0
    turns: int = 0
    folded_tokens: int = 0
    rounds: int = 0
    edge: tuple[str, ...] = ()
    by: str = ""
    why: str = ""


NO_SUMMARY = ConversationSummary()


@dataclass(frozen=True, slots=True)
class LoadedConversation:
    """What a context was when it was loaded, to tell its edits and those of others by."""

    state_version: int = 0
    summary_version: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    settings: ConversationSettings = DEFAULT_SETTINGS
    latest_summary: ConversationSummary = NO_SUMMARY
    turns: tuple[Turn, ...] = ()
    facts: tuple[Fact, ...] = ()
    folded_position: int = 0


@dataclass(slots=True)
class Context:
    """A session as the document has it. Edit it and ``save`` it; turns are appended, never changed."""

    session_id: str
    system_state: dict[str, Any] = field(default_factory=lambda: default_state()["system_state"])
    facts: list[str] = field(default_factory=list)
    recent_history: list[Turn | Mapping[str, Any]] = field(default_factory=list)
    long_term_summary: str = ""
    active_tasks: list[dict[str, Any]] = field(default_factory=list)
    tool_stats: dict[str, Any] = field(default_factory=lambda: default_state()["tool_stats"])
    last_known_environment: dict[str, Any] = field(default_factory=lambda: default_state()["last_known_environment"])
    token_usage: dict[str, Any] = field(default_factory=lambda: default_state()["token_usage"])
    extra: dict[str, Any] = field(default_factory=dict)
    settings: ConversationSettings = DEFAULT_SETTINGS
    scope: str = ""
    recovered: tuple[str, ...] = ()
    """What was damaged, and what serves in its place."""
    origin: LoadedConversation = field(default_factory=LoadedConversation, repr=False, compare=False)

    @classmethod
    def from_loaded(cls, session_id: str, scope: str, origin: LoadedConversation, recovered: tuple[str, ...]) -> Self:
        """The context that an origin describes, in values of its own."""
        state = deepcopy(dict(origin.state))
        extra = state.pop("extra", {})
        return cls(
            session_id=session_id,
            facts=[fact.text for fact in origin.facts],
            recent_history=list(origin.turns),
            long_term_summary=origin.latest_summary.text,
            extra=extra,
            settings=origin.settings,
            scope=scope,
            recovered=recovered,
            origin=origin,
            **{name: state[name] for name in STATE_FIELDS},
        )

    @property
    def turns(self) -> list[Turn]:
        """The recent history, each entry as a turn."""
        return [Turn.from_entry(entry) for entry in self.recent_history]

    @property
    def tokens(self) -> int:
        """The tokens of the recent history."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def folded(self) -> int:
        """How many turns before the recent history the summary stands for."""
        return self.origin.latest_summary.turns

    @property
    def state(self) -> dict[str, Any]:
        """The fields that are kept together, and the unknown ones."""
        return {name: getattr(self, name) for name in STATE_FIELDS} | ({"extra": self.extra} if self.extra else {})


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did; true when it did anything.

    ``steps`` names what led to it: ``entries``, ``tokens``, ``by hand``. ``by`` is who summarised, ``why`` the reason
    if it was not who had been asked to.
    """

    session_id: str
    folded: tuple[str, ...] = ()
    folded_tokens: int = 0
    kept: int = 0
    steps: tuple[str, ...] = ()
    pruned_tasks: tuple[str, ...] = ()
    duplicate_facts: tuple[str, ...] = ()
    summary_tokens: int = 0
    by: str = ""
    why: str = ""
    cost: Mapping[str, Any] = field(default_factory=dict)

    @property
    def happened(self) -> bool:
        return bool(self.folded or self.pruned_tasks or self.duplicate_facts)

    def __bool__(self) -> bool:
        return self.happened


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A session in a list."""

    id: str
    scope: str
    created_at: datetime
    updated_at: datetime
