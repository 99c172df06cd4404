"""The document's ``AgentMemory``: one agent's history under the document's names, read and imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import IdMaker, from_iso, to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft
from lukasa.errors import FormatError, InvalidInput
from lukasa.trust.aggregate import ImportedTrust, TrustAggregate, window_start
from lukasa.trust.records import (
    AGENT,
    DISSENT,
    OVERRIDE,
    TRUST_CHANGE,
    TrustChanges,
    TrustRecords,
    agent_draft,
    event_depth,
    event_labels,
    event_of,
    trust_change_draft,
    trust_draft,
    trust_key,
)
from lukasa.trust.rules import DissentInput, DissentVerdict, TrustSettings, judge_dissent
from lukasa.trust.score import INITIAL_TRUST, MAX_DEPTH, MILLION, MIN_WINDOW_EVENTS, TrustSums, compute_depth
from lukasa.trust.views import Dissent, Override, ScoreChange

if TYPE_CHECKING:
    from lukasa.trust.trust import Trust

MAX_RAW_EVENTS = 100
"""The number of latest events that are shown whole; older ones are in the statistics, and stay in the log."""
_MAX_EVENTS = 10_000
_MAX_SUM = 10**15
_SAME_SCORE = 1e-6
_MAX_STATISTICS = {
    "avg_dissent_depth_last_90d": MAX_DEPTH, "dissent_impact_ratio_last_90d": 1.0, "total_overrides": 10**9,
    "regret_rate_last_90d": 1.0,
}  # fmt: skip
_HISTORIES = ("trust_score_history", "dissent_history", "override_history")
_DEFAULTS: dict[str, Any] = {
    "agent_name": "", "model": "", "primary_role": "", "dissent_history": [], "override_history": [],
    "trust_score": INITIAL_TRUST, "trust_score_history": [], "long_term_stats": {}, "rounds_participated": 0,
    "probation_until": None,
}  # fmt: skip


@check_arguments
class AgentMemory:
    """One agent. Every attribute is read from the store on access, so it is always current."""

    def __init__(self, agent_name: str, trust: Trust, records: TrustRecords, settings: TrustSettings) -> None:
        self._trust = trust
        self._records = records
        self._settings = settings
        self.agent_name = agent_name

    def __repr__(self) -> str:
        return f"AgentMemory({self.agent_name!r})"

    @property
    def model(self) -> str:
        """The model that the agent runs on."""
        return str(self._agent_body().get("model", ""))

    @property
    def primary_role(self) -> str:
        """The role of the agent."""
        return str(self._agent_body().get("primary_role", ""))

    @property
    def trust_score(self) -> float:
        """The document's score, as of now."""
        return self._trust.score(self.agent_name).trust

    @property
    def adjusted_score(self) -> float:
        """The score after the rules against raising trust cheaply, as of now."""
        return self._trust.score(self.agent_name).adjusted_score

    @property
    def trust_score_history(self) -> list[ScoreChange]:
        """The changes of the agent's score, oldest first."""
        return list(map(ScoreChange, self._latest_events(TRUST_CHANGE)))

    @property
    def dissent_history(self) -> list[Dissent]:
        """The dissents of the agent, oldest first, as the document lists them."""
        return list(map(Dissent, self._latest_events(DISSENT)))

    @property
    def override_history(self) -> list[Override]:
        """The overrides of the agent's output, oldest first, as the document lists them."""
        return list(map(Override, self._latest_events(OVERRIDE)))

    @property
    def long_term_stats(self) -> dict[str, Any]:
        """Statistics over the window.

        Those of an imported file are returned as they are until an event is added; then its ratios hold until the window
        has events of its own. ``unlisted`` holds, day by day, what the listed events do not add up to, so that an import
        of the file gives the same scores.
        """
        aggregate = self._records.aggregate(self.agent_name)
        imported = aggregate.imported
        if imported is not None and imported.total == aggregate.total:
            return dict((self._agent_body().get("imported") or {}).get("long_term_stats", {}))
        current = aggregate.advance_to(self._records.clock.now().date())
        dissents = current.total if imported and not current.window.dissents else current.window
        overrides = current.total if imported and not current.window.overrides else current.window
        unlisted = self._unlisted_sums(current)
        return {
            "avg_dissent_depth_last_90d": dissents.mean_depth,
            "dissent_impact_ratio_last_90d": dissents.impact_ratio,
            "total_overrides": current.total.overrides,
            "regret_rate_last_90d": overrides.regret_ratio,
            **({"unlisted": unlisted} if unlisted else {}),
        }

    def _unlisted_sums(self, current: TrustAggregate) -> dict[str, dict[str, int]]:
        """Return by day what the listed events lack; the day before the window stands for all days before it."""
        listed = TrustAggregate(self.agent_name, current.day)
        for dissent in self._latest_events(DISSENT):
            listed, _ = add_listed_dissent(listed, dissent, current.day, self._settings)
        for override in self._latest_events(OVERRIDE):
            listed = listed.with_sums(_override_sums(override), _event_day(override) or current.day)
        earlier_day = window_start(current.day) - timedelta(days=1)
        pairs = {day: (current.days.get(day, TrustSums()), sums) for day, sums in listed.days.items()}
        pairs |= {day: (sums, listed.days.get(day, TrustSums())) for day, sums in current.days.items()}
        pairs[current.day] = (current.today, listed.today)
        pairs[earlier_day] = (current.total.minus(current.window), listed.total.minus(listed.window))
        missing = {day: whole.minus(part) for day, (whole, part) in sorted(pairs.items())}
        return {
            str(day): {name: value for name, value in sums._asdict().items() if value}
            for day, sums in missing.items()
            if any(sums)
        }

    @property
    def rounds_participated(self) -> int:
        """How many rounds the agent took part in."""
        return self._records.aggregate(self.agent_name).rounds

    @property
    def probation_until(self) -> str | None:
        """Until when the agent is on probation, or None."""
        until = self._records.aggregate(self.agent_name).probation_until
        if until is None:
            return None
        imported = (self._agent_body().get("imported") or {}).get("probation_until")
        return str(imported) if imported is not None and from_iso(imported) == until else to_iso(until)

    def as_json(self) -> dict[str, Any]:
        """Return the agent's memory as the document lays out its file.

        Example:
            memory.trust.agent("critic").as_json()["trust_score"]
        """
        own = {name: getattr(self, name) for name in _DEFAULTS}
        histories = {name: [event.as_json() for event in value] for name, value in own.items() if name in _HISTORIES}
        return {**own, **histories, **(self._agent_body().get("imported") or {}).get("more", {})}

    def _agent_body(self) -> dict[str, Any]:
        record = self._records.journal.get(trust_key(AGENT, self.agent_name))
        return {} if record is None else dict(record.body)

    def _latest_events(self, kind: str) -> list[dict[str, Any]]:
        """Return the latest events as the document has them, oldest first."""
        found = self._records.events(self.agent_name, kind, newest_first=True, limit=MAX_RAW_EVENTS)[::-1]
        if kind != TRUST_CHANGE:  # judging or reverting an event writes a new version of it
            found.sort(key=lambda record: (record.created_at, record.id))
        return [dict(event_of(record)) for record in found]

    def log_dissent(self, text: str, rubric_citations: Sequence[str] = (), **fields: Any) -> Outcome:
        """Log a dissent of this agent; see ``Trust.log_dissent``.

        Args:
            text: The dissent, in plain words.
            rubric_citations: The criteria of the rubric that the dissent cites.
            **fields: Further arguments of the method of ``memory.trust`` with the same name.

        Example:
            memory.trust.agent("critic").log_dissent("The figure is wrong.", ["Accuracy"])
        """
        return self._trust.log_dissent(self.agent_name, text, rubric_citations=rubric_citations, **fields)

    def log_override(self, round_id: str, agent_output: str, human_decision: str, **fields: Any) -> Outcome:
        """Log an override of this agent's output; see ``Trust.log_override``.

        Args:
            round_id: The id of the round.
            agent_output: What the agent said.
            human_decision: What the person decided instead.
            **fields: Further arguments of the method of ``memory.trust`` with the same name.

        Example:
            memory.trust.agent("writer").log_override("round-1", "Ship on Friday", "Ship on Monday")
        """
        return self._trust.log_override(self.agent_name, agent_output, human_decision, round_id=round_id, **fields)

    def check_reverts(self, round_id: str, final_output: str, *, by: str = "system") -> Outcome:
        """Mark this agent's overrides of a round that were reverted; see ``Trust.check_reverts``.

        Args:
            round_id: The id of the round.
            final_output: What the round ended with.
            by: The person or rule that decides.

        Example:
            memory.trust.agent("writer").check_reverts("round-1", "Ship on Monday")
        """
        return self._trust.check_reverts(round_id, final_output, agent=self.agent_name, by=by)

    def participate(self, round_id: str) -> Outcome:
        """Count a round.

        Args:
            round_id: The id of the round.

        Example:
            memory.trust.agent("critic").participate("round-1")
        """
        return self._trust.participate(self.agent_name, round_id)


def validate_agent_memory(document: Any, source: str) -> dict[str, Any]:
    """Check the JSON of an agent's memory and fill in what may be left out; ``FormatError`` where it is malformed.

    A score that is left out is None: it follows from the events.
    """
    if not isinstance(document, dict):
        raise FormatError(f"{source} does not hold an agent's memory.")
    memory: dict[str, Any] = deepcopy(_DEFAULTS) | document
    number = (int, float)
    for name, default in _DEFAULTS.items():
        expected = number if name == "trust_score" else type(default)
        if name != "probation_until" and (not isinstance(memory[name], expected) or isinstance(memory[name], bool)):
            raise FormatError(f"{source}: {name!r} is not what the format says.")
    if not memory["agent_name"]:
        raise FormatError(f"{source}: 'agent_name' is missing.")
    if not 0 <= memory["trust_score"] <= 1 or not 0 <= memory["rounds_participated"] < 10**9:
        raise FormatError(f"{source}: 'trust_score' or 'rounds_participated' is out of bounds.")
    for name in ("dissent_history", "override_history", "trust_score_history"):
        if len(memory[name]) > _MAX_EVENTS or not all(isinstance(event, dict) for event in memory[name]):
            raise FormatError(f"{source}: {name!r} must be a list of at most {_MAX_EVENTS:,} events.")
    for event in memory["dissent_history"]:
        depth = event.get("depth_score", 0)
        if not isinstance(event.get("dissent_text"), str) or not isinstance(event.get("rubric_citations", []), list):
            raise FormatError(f"{source}: a dissent has no text, or citations that are not a list.")
        if not isinstance(depth, number) or not 0 <= depth <= MAX_DEPTH:
            raise FormatError(f"{source}: a depth_score is not a number between 0 and {MAX_DEPTH:g}.")
    for event in memory["override_history"]:
        if not isinstance(event.get("human_decision", ""), str) or not isinstance(event.get("agent_output", ""), str):
            raise FormatError(f"{source}: an override's output and decision must be texts.")
    until = memory["probation_until"]
    if until is not None and (not isinstance(until, str) or _parse_time(until) is None):
        raise FormatError(f"{source}: 'probation_until' is not a time.")
    stats = memory["long_term_stats"]
    for name, limit in _MAX_STATISTICS.items():
        value = stats.get(name)
        if value is not None and (not isinstance(value, number) or not 0 <= value <= limit):
            raise FormatError(f"{source}: {name!r} is not a number between 0 and {limit:,}.")
    try:
        parse_unlisted(stats)
    except (TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{source}: 'unlisted' must hold whole numbers by day.") from error
    if "trust_score" not in document:
        memory["trust_score"] = None
    return memory


def parse_unlisted(stats: Mapping[str, Any]) -> dict[date, TrustSums]:
    """Parse the sums that a file holds for events that it does not list."""
    found = {date.fromisoformat(day): TrustSums(**sums) for day, sums in stats.get("unlisted", {}).items()}
    if any(value.__class__ is not int or abs(value) > _MAX_SUM for sums in found.values() for value in sums):
        raise ValueError("not a whole number, or out of bounds")
    return found


def import_agent(
    changes: TrustChanges, memory: Mapping[str, Any], vectors: Sequence[Mapping[str, str]], new_id: IdMaker,
    settings: TrustSettings,
) -> Refused | None:  # fmt: skip
    """Add an agent with its past from a valid document; refuse it when the agent is known already.

    Events keep the depth that the document gives and count on their own day. ``vectors`` are those of the dissents.
    Totals and the score carry on: what the file counts beyond its listed events is added to the sums.
    """
    agent, until, today = memory["agent_name"], memory["probation_until"], changes.now.date()
    if changes.reader.get(trust_key(AGENT, agent)) is not None:
        return Refused("known_agent", f"The agent {agent!r} is known already; its file was not taken.")
    aggregate = TrustAggregate(agent, today)
    for event, vector in zip(memory["dissent_history"], vectors, strict=True):
        aggregate, verdict = add_listed_dissent(aggregate, event, today, settings)
        counted = None if verdict is None or verdict.counted is None else verdict.counted._asdict()
        body: dict[str, Any] = {
            "agent": agent, "event": dict(event), "of": "", "novelty": _listed_novelty(event), "vector": dict(vector),
            "judged_by": "import", "counted": counted, "why": "unjudged" if verdict is None else verdict.why,
        }  # fmt: skip
        changes.add_draft(_listed_draft(DISSENT, agent, event, body, new_id(), changes.now))
    for event in memory["override_history"]:
        body = {
            "agent": agent, "by": "human", "event": {"regret": False, "reverted_by": None} | dict(event),
            "useful": event.get("agent_output") != event.get("human_decision"), "criteria": [], "artifact": None,
            "reverted_at": None,
        }  # fmt: skip
        aggregate = aggregate.with_sums(_override_sums(event), _event_day(event) or today)
        changes.add_draft(_listed_draft(OVERRIDE, agent, event, body, new_id(), changes.now))
    for change in memory["trust_score_history"]:
        changes.add_draft(trust_change_draft(agent, change, happened_at=_parse_time(change.get("timestamp"))))
    stats = memory["long_term_stats"]
    unlisted = parse_unlisted(stats)
    if "unlisted" not in stats and any(missing := _estimate_unlisted(aggregate.total, stats)):
        lists = (memory[name] for name in ("dissent_history", "override_history", "trust_score_history"))
        days = (_event_day(event) for events in lists for event in events)
        unlisted = {max((day for day in days if day is not None), default=today): missing}
    for day, sums in unlisted.items():
        aggregate = aggregate.with_sums(sums, day)
    computed, score = aggregate.score(changes.now).trust, memory["trust_score"]
    if score is not None and abs(score - computed) < _SAME_SCORE:
        score = None
    rounds, probation = memory["rounds_participated"], None if until is None else from_iso(until)
    aggregate = replace(
        aggregate, trust=computed if score is None else float(score), rounds=rounds, rounds_before=rounds,
        probation_until=probation, imported=ImportedTrust(changes.now, unlisted, aggregate.total, score),
    )  # fmt: skip
    imported = {
        "long_term_stats": stats,
        "probation_until": until,
        "more": {name: value for name, value in memory.items() if name not in _DEFAULTS},
    }
    changes.add_imported(aggregate)
    changes.add_first(agent_draft(agent, model=memory["model"], primary_role=memory["primary_role"], imported=imported))
    return None


def add_listed_dissent(
    aggregate: TrustAggregate, event: Mapping[str, Any], today: date, settings: TrustSettings
) -> tuple[TrustAggregate, DissentVerdict | None]:
    """Add a dissent from a file, read from its fields alone; the verdict is None while the dissent is not judged."""
    if event.get("impact") is None:
        return aggregate, None
    impact, citations = bool(event["impact"]), tuple(map(str, event.get("rubric_citations", ())))
    dissent = DissentInput(event.get("dissent_text", ""), citations, _listed_novelty(event), impact)
    verdict = judge_dissent(dissent, aggregate.past, settings)
    day = _event_day(event) or today
    return aggregate.with_dissent(verdict, citations, day, impact=impact, depth=event_depth(event), of=""), verdict


def _listed_novelty(event: Mapping[str, Any]) -> float:
    """Return what the depth of a listed dissent has beyond length and citations."""
    if "depth_score" not in event:
        return 0.0
    return round(event_depth(event) - compute_depth(event["dissent_text"], event.get("rubric_citations", ()), 0.0), 6)


def _estimate_unlisted(listed: TrustSums, stats: Mapping[str, Any]) -> TrustSums:
    """Estimate the sums of the events that a file counts but does not list, from its statistics.

    The file says how many overrides there were, but not how many dissents. Its ratios of dissents are used where the
    list cannot hold them all: they weigh as much as the listed dissents, and at least as five.
    """
    overrides = max(int(stats.get("total_overrides") or 0) - listed.overrides, 0)
    rate = stats.get("regret_rate_last_90d")
    expected = round((listed.regret_ratio if rate is None else rate) * (listed.overrides + overrides))
    regrets = min(max(expected - listed.regrets, 0), overrides)
    missing = TrustSums(overrides=overrides, regrets=regrets, useful=overrides - regrets)
    ratio, depth = stats.get("dissent_impact_ratio_last_90d"), stats.get("avg_dissent_depth_last_90d")
    if ratio is None or depth is None or MIN_WINDOW_EVENTS <= listed.dissents < MAX_RAW_EVENTS:
        return missing
    if not listed.dissents and not ratio and not depth:
        return missing
    dissents = max(listed.dissents, MIN_WINDOW_EVENTS)
    impacts, summed = round(ratio * dissents) - listed.impacts, round(depth * MILLION) * dissents - listed.depth
    return missing._replace(
        dissents=dissents - listed.dissents, impacts=impacts, depth=summed,
        squares=round(depth * 1000) ** 2 * dissents - listed.squares,
        counted=dissents - listed.dissents, counted_impacts=impacts, counted_depth=summed,
    )  # fmt: skip


def _listed_draft(
    kind: str, agent: str, event: Mapping[str, Any], body: Mapping[str, Any], id: str, now: datetime
) -> Draft:
    """Build the draft of an event that a file lists."""
    round_id = event.get("round_id")
    labels = event_labels(kind, agent, round_id if isinstance(round_id, str) else "")
    return trust_draft(kind, body, id, labels=labels, happened_at=_parse_time(event.get("timestamp")) or now)


def _override_sums(event: Mapping[str, Any]) -> TrustSums:
    useful = event.get("agent_output") != event.get("human_decision")
    return TrustSums.from_override(useful=useful, regret=bool(event.get("regret")))


def _event_day(event: Mapping[str, Any]) -> date | None:
    """Return the UTC day of a listed event, if it has a valid time."""
    moment = _parse_time(event.get("timestamp"))
    return None if moment is None else moment.date()


def _parse_time(text: Any) -> datetime | None:
    try:
        return from_iso(text) if isinstance(text, str) else None
    except InvalidInput:
        return None
