"""Values of a conversation: turns, facts, the summary, settings, and the editable ``Context``.

``Context`` has every field of the document's session file, as plain values that a caller may edit. Its ``origin``
is the conversation as it was loaded, so that ``save`` can tell the caller's edits from those of other writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Self

from lukasa.core.clock import from_iso, to_utc
from lukasa.core.outcome import Answer
from lukasa.errors import InvalidInput

TimeLike = datetime | int | float | str
"""A time as a caller may give it: a datetime, seconds since 1970, or ISO 8601."""


def parse_time(value: TimeLike) -> datetime:
    """Convert a time to UTC; raise ``InvalidInput`` when it is not a time."""
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
    """One message of a conversation. ``id`` is empty until the turn is stored; a stored turn never changes."""

    role: str
    content: str
    timestamp: datetime | None = None
    token_count: int | None = None
    speaker: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    is_unsaid: bool = False
    """Whether nobody said it: a bare tool call or its output. It is read in its conversation, and found nowhere else."""

    @classmethod
    def from_entry(cls, value: Turn | Mapping[str, Any], id: str = "") -> Turn:
        """Build a turn from an entry of the document's history; unknown fields go to ``extra``. An ``id`` replaces its own."""
        if isinstance(value, Turn):
            return replace(value, id=id) if id else value
        entry: object = value
        if not isinstance(entry, Mapping) or not isinstance(entry.get("role"), str):
            raise InvalidInput("An entry of the history needs a role and a content.")
        rest: dict[str, Any] = dict(entry)
        content, timestamp = rest.pop("content", ""), rest.pop("timestamp", None)
        content = "" if content is None else content  # a message of nothing but tool calls
        count, calls = rest.pop("token_count", None), rest.pop("tool_calls", None)
        if not isinstance(content, str) or not (count is None or (type(count) is int and count >= 0)):
            raise InvalidInput("The content of an entry is text, its token_count a number that is not negative.")
        if calls is not None and not (isinstance(calls, list | tuple) and all(isinstance(c, Mapping) for c in calls)):
            raise InvalidInput("The tool_calls of an entry are a list of objects.")
        own_id = str(rest.pop("id", "") or "")
        return cls(
            role=rest.pop("role"),
            content=content,
            timestamp=None if timestamp is None else parse_time(timestamp),
            token_count=count,
            speaker=rest.pop("speaker", "") or "",
            tool_calls=tuple(calls or ()),
            tool_call_id=rest.pop("tool_call_id", "") or "",
            id=id or own_id,
            is_unsaid=rest.pop("is_unsaid", False) is True,
            extra=rest,
        )

    def copy(self) -> Turn:
        """Return the turn with its own calls and extra fields; the turn itself if it has none."""
        if not self.tool_calls and not self.extra:
            return self
        calls = tuple(_copy_json(dict(call)) for call in self.tool_calls)
        return replace(self, tool_calls=calls, extra=_copy_json(dict(self.extra)))

    @property
    def name(self) -> str:
        """The speaker, or else the role."""
        return self.speaker or self.role

    @property
    def tokens(self) -> int:
        """The token count, 0 while it is unknown."""
        return self.token_count or 0


def _copy_json(value: Any) -> Any:
    if value.__class__ is dict:
        return {name: _copy_json(item) for name, item in value.items()}
    return [_copy_json(item) for item in value] if value.__class__ is list else value


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """Limits of one conversation, and switches for the automatic steps.

    More than ``entries`` turns or ``tokens`` tokens in the recent view trigger a compaction. It keeps ``keep`` turns and
    then halves them until both limits hold. The summary has at most ``summary_tokens`` tokens. A context shows the newest
    ``facts`` facts. Completed tasks stay for ``finished_hours``. ``automatic`` compacts on append, ``extracting`` extracts
    facts from new turns.
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
        for name, minimum in (("entries", 1), ("keep", 0), ("tokens", 1), ("summary_tokens", 0), ("facts", 0)):
            value = getattr(self, name)
            if type(value) is not int or not minimum <= value < 2**53:
                raise InvalidInput(f"The setting {name} is a whole number of at least {minimum}.")
        if type(self.finished_hours) not in (int, float) or not 0 <= self.finished_hours < 10**6:
            raise InvalidInput("The setting finished_hours is a number of hours that is not negative.")
        if {type(self.automatic), type(self.extracting)} != {bool}:
            raise InvalidInput("The settings automatic and extracting are true or false.")
        if self.keep > self.entries:
            raise InvalidInput("A compaction cannot keep more entries than it lets gather.", hint="Let keep ≤ entries.")

    def with_changes(self, changes: Mapping[str, Any]) -> ConversationSettings:
        """Return a copy with changes; without a new ``keep``, a lower ``entries`` lowers ``keep`` too."""
        names = [setting.name for setting in fields(self)]
        unknown = sorted(set(changes) - set(names))
        if unknown:
            raise InvalidInput(f"There is no setting {unknown[0]!r:.60}.", hint=f"Settings are {', '.join(names)}.")
        if "entries" in changes and "keep" not in changes and isinstance(changes["entries"], int):
            changes = {**changes, "keep": min(self.keep, max(changes["entries"], 0))}
        return replace(self, **changes)

    def non_default_values(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults; only these are stored."""
        default = asdict(DEFAULT_SETTINGS)
        return {name: value for name, value in asdict(self).items() if value != default[name]}


DEFAULT_SETTINGS = ConversationSettings()

STATE_FIELDS = ("system_state", "active_tasks", "tool_stats", "last_known_environment", "token_usage")
"""The fields of a context that are stored together in one state record."""


def default_state() -> dict[str, Any]:
    """Return the state fields of a new conversation."""
    return {
        "system_state": {"last_workspace": None, "preferences": {}},
        "active_tasks": [],
        "tool_stats": {"total_calls": 0, "by_tool": {}, "failures": 0},
        "last_known_environment": {"workspace": None, "last_update": None, "system_snapshot": {}},
        "token_usage": {"total_input": 0, "total_output": 0, "by_session": 0},
    }


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact learned in a conversation. ``slot`` names its subject: a newer fact with the same slot replaces it."""

    text: str
    slot: str = ""
    rule: str = ""
    id: str = ""
    turn: str = ""


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """One line of a summary with its worth; ``round`` is the number of the compaction that wrote it."""

    text: str
    worth: float
    round: int = 0


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """The long-term summary: its text, its author, and the number of turns folded into it.

    ``edge`` holds the ids of the newest folded turns, newest first: the recent view begins after them. ``why`` is the
    reason when ``by`` is not the summariser that was asked. Facts up to the log position ``sorted_position`` are listed
    in alphabetical order, later ones after them.
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
    sorted_position: int = 0


NO_SUMMARY = ConversationSummary()


@dataclass(frozen=True, slots=True)
class LoadedConversation:
    """A conversation as it was loaded; ``save`` compares a context with it."""

    state_version: int = 0
    summary_version: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    settings: ConversationSettings = DEFAULT_SETTINGS
    latest_summary: ConversationSummary = NO_SUMMARY
    turns: tuple[Turn, ...] = ()
    facts: tuple[Fact, ...] = ()
    folded_position: int = 0
    """The log position of the newest folded turn, 0 without one."""
    facts_position: int = 0
    """The log position of the newest fact, 0 without one."""


@dataclass(slots=True)
class Context:
    """A conversation with the document's fields, named by ``session_id``.

    Edit it and ``save`` it. Turns may be appended to ``recent_history`` and folded from its beginning, never changed.
    """

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
    """A sentence for each damaged part, with its replacement."""
    origin: LoadedConversation = field(default_factory=LoadedConversation, repr=False, compare=False)

    @classmethod
    def from_loaded(cls, session_id: str, scope: str, origin: LoadedConversation, recovered: tuple[str, ...]) -> Self:
        """Build a context whose values can be edited without changing ``origin``."""
        state = _copy_json(dict(origin.state))
        return cls(
            session_id=session_id,
            facts=[fact.text for fact in origin.facts],
            recent_history=[turn.copy() for turn in origin.turns],
            long_term_summary=origin.latest_summary.text,
            extra=state.get("extra", {}),
            settings=origin.settings,
            scope=scope,
            recovered=recovered,
            origin=origin,
            **{name: state[name] for name in STATE_FIELDS},
        )

    @property
    def turns(self) -> list[Turn]:
        """The recent history as turns."""
        return [Turn.from_entry(entry) for entry in self.recent_history]

    @property
    def tokens(self) -> int:
        """The tokens of the recent history."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def folded(self) -> int:
        """The number of turns that the summary replaces in the recent history."""
        return self.origin.latest_summary.turns

    @property
    def state(self) -> dict[str, Any]:
        """The state fields, and ``extra`` unless it is empty."""
        return {name: getattr(self, name) for name in STATE_FIELDS} | ({"extra": self.extra} if self.extra else {})


@dataclass(frozen=True, slots=True)
class CompactionReport(Answer):
    """The result of a compaction; true when it changed anything.

    ``steps`` names the triggers: ``entries``, ``tokens``, ``by hand``. ``by`` names the summariser; ``why`` is the reason
    when it is not the one that was asked.
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
        """Whether the compaction changed anything."""
        return bool(self.folded or self.pruned_tasks or self.duplicate_facts)

    def __bool__(self) -> bool:
        return self.happened


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """An entry of a list of conversations."""

    id: str
    scope: str
    created_at: datetime
    updated_at: datetime
