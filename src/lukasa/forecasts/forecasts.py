"""The room of forecasts: predicting, signalling, resolving and scoring, for one caller.

A prediction is a record: its versions are its revisions, its text is its question, so that recall finds it. What is
scored is the newest probability that was given before the outcome was known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from lukasa.clock import Clock, IdMaker, from_iso, to_iso, to_utc
from lukasa.errors import InvalidInput, NetworkDown
from lukasa.forecasts.calibration import CalibrationReport, build_calibration_report
from lukasa.forecasts.scoring import ForecastScores, ResolvedPrediction, compute_scores
from lukasa.journal import Journal
from lukasa.network import Network
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.scope import SHARED
from lukasa.storage.engine import Query, Reader

PREDICTION, SIGNAL, REASONING = "prediction", "signal", "reasoning"
MAX_ACTIVE = 50
CONFIDENCE_THRESHOLD = 0.70
ROLLING_WINDOW = timedelta(days=30)
_UNACKNOWLEDGED_LABEL = "acknowledged=no"


class Forecasts:
    """Predictions and how good they were. ``max_active`` and ``threshold`` are the document's configuration."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        network: Network | None = None,
        *,
        max_active: int = MAX_ACTIVE,
        threshold: float = CONFIDENCE_THRESHOLD,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self.network = network
        self.max_active = max_active
        self.threshold = threshold

    @property
    def agent_id(self) -> str:
        return self._journal.author or "agent"

    # Predicting

    def predict(
        self,
        question: str,
        probability: float,
        *,
        market_id: str | None = None,
        prediction_id: str | None = None,
        confidence_interval: Sequence[float] | None = None,
        confidence_level: float | None = None,
        category: str = "",
        due: datetime | None = None,
        calibrated: bool = False,
    ) -> Outcome:
        """Keeps a new prediction. With ``calibrated`` the probability is corrected first by what was learned."""
        if (refused := _check_numbers(probability, confidence_interval, confidence_level)) is not None:
            return refused
        now = self._clock.now()
        given = probability
        if calibrated:
            probability = self.calibrate(probability)
        id = prediction_id or f"pred-{self._new_id()}"
        body: dict[str, Any] = {
            "prediction_id": id,
            "market_id": market_id or id,
            "question": question,
            "probability": probability,
            "confidence_interval": None if confidence_interval is None else list(confidence_interval),
            "confidence_level": confidence_level,
            "created_at": to_iso(now),
            "last_updated": to_iso(now),
            "status": "active",
            "num_updates": 0,
        }
        if category:
            body["category"] = category
        if due is not None:
            body["due"] = to_iso(to_utc(due))
        if calibrated:
            body["uncalibrated"] = given
        draft = self._prediction_draft(body, expected=0)

        def unless_full(reader: Reader) -> Sequence[Draft] | Refused:
            query = Query(kinds=(PREDICTION,), scopes=(draft.scope,), labels=("status=active",), limit=self.max_active)
            if len(reader.read(query)) >= self.max_active:
                reason = f"There are {self.max_active} active predictions already. Resolve or expire some first."
                return Refused("too_many_active", reason)
            return [draft]

        return self._journal.append_if(unless_full)

    def revise(
        self,
        prediction_id: str,
        probability: float,
        *,
        confidence_interval: Sequence[float] | None = None,
        confidence_level: float | None = None,
    ) -> Outcome:
        """Gives an active prediction another probability. The earlier one stays in its history."""
        if (refused := _check_numbers(probability, confidence_interval, confidence_level)) is not None:
            return refused
        changes: dict[str, Any] = {"probability": probability}
        if confidence_interval is not None:
            changes["confidence_interval"] = list(confidence_interval)
        if confidence_level is not None:
            changes["confidence_level"] = confidence_level
        return self._change_prediction(prediction_id, ("active", "recovering"), changes, count_update=True)

    def resolve(self, prediction_id: str, outcome: Any, *, at: datetime | None = None) -> Outcome:
        """Says whether what was predicted happened. From then on it is scored. ``at`` is when that became known."""
        if not isinstance(outcome, bool):
            return Refused("bad_outcome", "An outcome is true or false.")
        moment = self._clock.now() if at is None else to_utc(at)
        return self._change_prediction(
            prediction_id,
            ("active", "recovering", "expired"),
            {"status": "resolved", "outcome": outcome, "resolved_at": to_iso(moment)},
            happened_at=moment,
        )

    def expire(self, prediction_id: str) -> Outcome:
        """Gives up an active prediction: it will not be scored, unless it is resolved after all."""
        return self._change_prediction(prediction_id, ("active", "recovering"), {"status": "expired"})

    def expire_due(self) -> list[str]:
        """Gives up every active prediction whose time is over; returns their ids."""
        now = self._clock.now()
        over = [
            record.id
            for record in self._read_predictions("active")
            if isinstance(record.body.get("due"), str) and from_iso(record.body["due"]) < now
        ]
        return [id for id in over if isinstance(self.expire(id), Accepted)]

    def get(self, prediction_id: str) -> Mapping[str, Any] | None:
        """A prediction as it stands now."""
        record = self._find_prediction(prediction_id)
        return None if record is None else record.body

    def history(self, prediction_id: str) -> list[Mapping[str, Any]]:
        """A prediction as it stood after each revision, oldest first."""
        record = self._find_prediction(prediction_id)
        return [] if record is None else [version.body for version in self._journal.history(record.key)]

    def find(self, status: str | None = None) -> list[Mapping[str, Any]]:
        """Predictions, oldest first; with ``status``, only those."""
        return [record.body for record in self._read_predictions(status)]

    def _change_prediction(
        self,
        prediction_id: str,
        allowed_statuses: Sequence[str],
        changes: Mapping[str, Any],
        *,
        count_update: bool = False,
        happened_at: datetime | None = None,
    ) -> Outcome:
        now, known = to_iso(self._clock.now()), self._find_prediction(prediction_id)
        key = self._own_key(PREDICTION, prediction_id) if known is None else known.key

        def change(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(key)
            if record is None:
                return Refused("not_found", f"There is no prediction {prediction_id[:80]!r}.")
            status = record.body["status"]
            if status not in allowed_statuses:
                return Refused(f"already_{status}", f"The prediction {prediction_id[:80]!r} is {status}.")
            body = {**record.body, **changes, "last_updated": now}
            if count_update:
                body["num_updates"] = record.body.get("num_updates", 0) + 1
            labels = _status_labels(body)
            return [
                draft_from(
                    record, body=body, labels=labels, author=self._journal.author, expected=record.version,
                    happened_at=happened_at or record.happened_at,
                )
            ]  # fmt: skip

        return self._journal.append_if(change)

    # Signals

    def signal(self, prediction_id: str, *, confidence: float | None = None) -> Outcome:
        """Makes a prediction known to the network. Below the threshold of confidence it is refused.

        The signal is kept first and sent then, so that it is sent again until somebody has taken it.
        """
        record = self._find_prediction(prediction_id)
        if record is None:
            return Refused("not_found", f"There is no prediction {prediction_id[:80]!r}.")
        sure = record.body.get("confidence_level") if confidence is None else confidence
        if sure is None:
            probability = record.body["probability"]
            sure = max(probability, 1 - probability)
        if (refused := _check_numbers(sure, None, None)) is not None:
            return refused
        if sure < self.threshold:
            reason = f"A confidence of {sure:g} is below the threshold of {self.threshold:g}, so nothing is broadcast."
            return Refused("below_threshold", reason)
        id = f"signal-{self._new_id()}"
        body = {
            "signal_id": id,
            "market_id": record.body["market_id"],
            "prediction_id": prediction_id,
            "timestamp": to_iso(self._clock.now()),
            "prediction": record.body["probability"],
            "confidence": sure,
            "broadcast": False,
            "acknowledged": False,
        }
        link = (Link(DERIVED_FROM, record.key),)
        kept = self._journal.append(
            Draft(
                SIGNAL,
                body=body,
                id=id,
                scope=record.scope,
                links=link,
                labels=(_UNACKNOWLEDGED_LABEL,),
                origin="forecast",
            )
        )
        if isinstance(kept, Accepted):
            self._send_signal(kept.record)
        return kept

    def retry_signals(self) -> dict[str, int]:
        """Sends every signal again that nobody has taken, and notes those that somebody has; returns how many."""
        counts = {"sent": 0, "acknowledged": 0, "waiting": 0}
        for record in self._journal.read(
            Query(kinds=(SIGNAL,), scopes=self._own_scopes(), labels=(_UNACKNOWLEDGED_LABEL,))
        ):
            counts[self._send_signal(record)] += 1
        return counts

    def _send_signal(self, record: Record) -> str:
        """Sends a signal if it was not yet, asks who has taken it, and notes both."""
        body = dict(record.body)
        if self.network is None:
            return "waiting"
        try:
            if not body["broadcast"]:
                self.network.broadcast(self.agent_id, "signal", {**body, "broadcast": True})
                body["broadcast"] = True
            body["acknowledged"] = bool(self.network.acknowledged(self.agent_id, body["signal_id"]))
        except NetworkDown:
            return "waiting"
        if body != record.body:
            labels = () if body["acknowledged"] else (_UNACKNOWLEDGED_LABEL,)
            self._journal.append(draft_from(record, body=body, labels=labels))
        return "acknowledged" if body["acknowledged"] else "sent"

    def receive(self) -> list[Mapping[str, Any]]:
        """Takes the signals of others that have not been taken yet, each once."""
        if self.network is None:
            return []
        taken = []
        for news in self.network.inbox(self.agent_id):
            if not self.network.acknowledge(self.agent_id, news["signal_id"], news["agent_id"]).repeated:
                taken.append(news)
        return taken

    def signals(self) -> list[Mapping[str, Any]]:
        """The signals that were made, oldest first."""
        return [record.body for record in self._journal.read(Query(kinds=(SIGNAL,), scopes=self._own_scopes()))]

    # Reasoning

    def reason(
        self,
        market_id: str,
        *,
        base_rate: float | None = None,
        factors: Mapping[str, float] | Iterable[Mapping[str, Any]] = (),
        evidence: Iterable[Mapping[str, Any]] = (),
    ) -> Outcome:
        """Keeps the analysis of a market: its base rate, what adjusts it, and the evidence for that."""
        listed = (
            [{"factor": name, "adjustment": by} for name, by in factors.items()]
            if isinstance(factors, Mapping)
            else [dict(factor) for factor in factors]
        )
        shown = [dict(item) for item in evidence]
        if (refused := _check_reasoning(base_rate, listed, shown)) is not None:
            return refused
        body = {
            "market_id": market_id,
            "base_rate": base_rate,
            "key_factors": listed,
            "evidence": shown,
            "last_analysis": to_iso(self._clock.now()),
        }
        key = self._own_key(REASONING, market_id)
        return self._journal.append(Draft(REASONING, body=body, id=market_id, scope=key.scope, origin="forecast"))

    def reasoning(self, market_id: str) -> Mapping[str, Any] | None:
        """The analysis of a market that was kept last."""
        record = self._journal.get(self._own_key(REASONING, market_id))
        return None if record is None else record.body

    def estimate(self, market_id: str) -> float | None:
        """What the cached reasoning comes to: the base rate and every adjustment, kept between 0 and 1."""
        body = self.reasoning(market_id)
        if body is None or body["base_rate"] is None:
            return None
        total = body["base_rate"] + sum(factor["adjustment"] for factor in body["key_factors"])
        return min(max(float(total), 0.0), 1.0)

    # Scores

    def scores(self, window: timedelta | None = None, *, category: str | None = None) -> ForecastScores:
        """Every score of the predictions resolved within a window before now; without one, of all there are."""
        return compute_scores(self._resolved_predictions(window, category))

    def learning(self, window: timedelta | None = None) -> CalibrationReport:
        """What the resolved predictions teach: a correction, the trend, the weak areas."""
        return build_calibration_report(self._resolved_predictions(window))

    def calibrate(self, probability: float) -> float:
        """A probability corrected by what was learned; the same one while there is too little to go by."""
        if (refused := _check_numbers(probability, None, None)) is not None:
            raise InvalidInput(refused.reason)
        correction = self.learning().correction
        return correction(probability) if correction.applies else probability

    def metrics(self) -> dict[str, Any]:
        """How good the predictions are, in the words of a session's state."""
        lifetime = self.scores()
        return {
            "total_predictions": sum(1 for _ in self._read_predictions(None)),
            "resolved_predictions": lifetime.count,
            "brier_score": lifetime.brier_score,
            "log_score": lifetime.log_score,
            "calibration_score": lifetime.calibration_score,
            "last_calculated": to_iso(self._clock.now()),
            "by_confidence_bucket": {name: asdict(held) for name, held in lifetime.by_confidence_bucket.items()},
            "rolling_30_days": {
                name: value
                for name, value in self.scores(ROLLING_WINDOW).as_json().items()
                if name in ("count", "brier_score", "log_score", "calibration_score")
            },
        }

    # The document's sections

    def sections(self) -> dict[str, Any]:
        """What a session's state says about forecasts: five of its eight sections."""
        learned = self.learning()
        predictions = [*self._read_predictions("active"), *self._read_predictions("recovering")]
        kept = self._journal.read(Query(kinds=(REASONING,), scopes=self._own_scopes()))
        reasoning = {record.id: record.body for record in kept}
        return {
            "active_predictions": [dict(record.body) for record in predictions],
            "signal_history": [dict(body) for body in self.signals()],
            "reasoning_cache": {
                market: {name: value for name, value in body.items() if name != "market_id"}
                for market, body in reasoning.items()
            },
            "performance_metrics": self.metrics(),
            "learning_state": {
                "calibration_adjustments": {
                    "bias_correction": learned.correction.bias_correction,
                    "confidence_scaling": learned.correction.confidence_scaling,
                },
                "performance_trend": learned.performance_trend,
                "areas_for_improvement": list(learned.areas_for_improvement),
            },
        }

    def take_in(self, state: Mapping[str, Any]) -> Outcome:
        """Keeps the predictions, signals and reasoning of a session's state. What is known already is left alone."""
        drafts = [self._prediction_draft(dict(item)) for item in state.get("active_predictions", ())]
        for item in state.get("signal_history", ()):
            labels = () if item.get("acknowledged") else (_UNACKNOWLEDGED_LABEL,)
            key = self._own_key(SIGNAL, item["signal_id"])
            drafts.append(Draft(SIGNAL, body=dict(item), id=key.id, scope=key.scope, labels=labels, origin="import"))
        for market, item in state.get("reasoning_cache", {}).items():
            key = self._own_key(REASONING, market)
            drafts.append(
                Draft(REASONING, body={**item, "market_id": market}, id=market, scope=key.scope, origin="import")
            )

        def new(reader: Reader) -> Sequence[Draft] | Refused:
            return [draft for draft in drafts if reader.get(draft.key) is None]

        return self._journal.append_if(new)

    # Within

    def _resolved_predictions(self, window: timedelta | None, category: str | None = None) -> list[ResolvedPrediction]:
        since = None if window is None else self._clock.now() - window
        records = sorted(self._read_predictions("resolved", since), key=lambda record: (record.moment, record.seq))
        return [
            ResolvedPrediction(
                float(record.body["probability"]),
                float(bool(record.body["outcome"])),
                record.body.get("confidence_level"),
                record.body.get("category", ""),
            )
            for record in records
            if isinstance(record.body.get("outcome"), bool) and category in (None, record.body.get("category", ""))
        ]

    def _read_predictions(self, status: str | None, since: datetime | None = None) -> Iterable[Record]:
        labels = () if status is None else (f"status={status}",)
        return self._journal.read(Query(kinds=(PREDICTION,), scopes=self._own_scopes(), labels=labels, since=since))

    def _prediction_draft(self, body: Mapping[str, Any], expected: int | None = None) -> Draft:
        key = self._own_key(PREDICTION, body["prediction_id"])
        return Draft(
            PREDICTION, str(body.get("question", "")), dict(body), id=key.id, scope=key.scope, labels=_status_labels(body),
            origin="forecast", expected=expected,
        )  # fmt: skip

    def _find_prediction(self, prediction_id: str) -> Record | None:
        own = self._journal.get(self._own_key(PREDICTION, prediction_id))
        if own is not None:
            return own
        scopes = [row.scope for row in self._journal.tally() if row.kind == PREDICTION]
        found = (self._journal.get(Key(scope, PREDICTION, prediction_id)) for scope in scopes)
        return next((record for record in found if record is not None), None)

    def _own_scopes(self) -> tuple[str, ...]:
        """An agent's forecasts are its own; the owner's are all."""
        return (self._own_key(PREDICTION, "").scope,) if self._journal.author else ()

    def _own_key(self, kind: str, id: str) -> Key:
        reach, author = self._journal.reach, self._journal.author
        names = (author, SHARED, *sorted(reach.writable or ()))
        scope = next((name for name in names if name and reach.reads(name) and reach.writes(name)), SHARED)
        return Key(scope, kind, id)


def _status_labels(body: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"status={body.get('status', 'active')}",)


def _check_numbers(probability: Any, interval: Any, level: Any) -> Refused | None:
    """Why numbers cannot be a prediction's."""
    for name, value in (("probability", probability), ("confidence_level", level)):
        if value is None and name != "probability":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            return Refused(f"bad_{name}", f"The {name.replace('_', ' ')} must be a number from 0 to 1.")
    if interval is not None:
        sides = list(interval)
        if len(sides) != 2 or any(_check_numbers(side, None, None) for side in sides) or sides[0] > sides[1]:
            return Refused("bad_interval", "The confidence interval must be a lower and an upper bound from 0 to 1.")
    return None


def _check_reasoning(
    base_rate: Any, factors: Sequence[Mapping[str, Any]], evidence: Sequence[Mapping[str, Any]]
) -> Refused | None:
    if base_rate is not None and _check_numbers(base_rate, None, None) is not None:
        return Refused("bad_base_rate", "The base rate must be a number from 0 to 1.")
    for factor in factors:
        by = factor.get("adjustment")
        if (
            not isinstance(factor.get("factor"), str)
            or isinstance(by, bool)
            or not isinstance(by, int | float)
            or not -1 <= by <= 1
        ):
            return Refused("bad_factor", "A factor has a name and an adjustment between -1 and 1.")
    for item in evidence:
        if (
            not isinstance(item.get("source"), str)
            or _check_numbers(item.get("credibility", 0), None, None) is not None
        ):
            return Refused("bad_evidence", "A piece of evidence has a source and a credibility from 0 to 1.")
    return None
