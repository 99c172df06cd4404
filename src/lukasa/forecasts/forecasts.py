"""The forecasts service: predictions, signals, reasoning and scores for one caller.

A prediction is a record. Its versions are its revisions; its text is its question, so that recall finds it. The scored
probability is the newest one from before the outcome was known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.choices import PredictionStatus
from lukasa.core.clock import Clock, IdMaker, Time, from_iso, to_iso, to_utc
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput, NetworkDown
from lukasa.forecasts.calibration import CalibrationReport, build_calibration_report
from lukasa.forecasts.scoring import ForecastScores, ResolvedPrediction, compute_scores
from lukasa.forecasts.session_sections import (
    OWN_FIGURES_KEY,
    SCORE_NAMES,
    add_figures,
    merge_learning,
    merge_predictions,
    merge_reasoning,
    merge_signals,
    read_time,
    split_imported_figures,
)
from lukasa.forecasts.views import MarketAnalysis, Prediction, Signal
from lukasa.journal import CallerService, Journal
from lukasa.network import Network
from lukasa.storage.engine import Query, Reader

PREDICTION, SIGNAL, REASONING, RECEIVED = "prediction", "signal", "reasoning", "received_signal"
MAX_ACTIVE = 50
CONFIDENCE_THRESHOLD = 0.70
_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
ROLLING_WINDOW = timedelta(days=30)
_UNACKNOWLEDGED_LABEL = "acknowledged=no"


@check_arguments
class Forecasts(CallerService):
    """Predictions and their scores.

    At most ``max_active`` markets have an active prediction at once. Signals with a confidence below ``threshold`` are not
    sent. Both are what ``configuration`` says, the configuration of the caller's newest session, unless they are set here.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        network: Network | None = None,
        configuration: Callable[[], Mapping[str, Any]] = dict,
        *,
        max_active: int | None = None,
        threshold: float | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self.network = network
        self._configuration = configuration
        self._max_active = max_active
        self._threshold = threshold

    @property
    def max_active(self) -> int:
        """The number of markets that may have an active prediction (``max_active_markets``)."""
        if self._max_active is not None:
            return self._max_active
        return int(self._configuration().get("max_active_markets", MAX_ACTIVE))

    @max_active.setter
    def max_active(self, value: int | None) -> None:
        self._max_active = value

    @property
    def threshold(self) -> float:
        """The lowest confidence at which a signal is sent (``confidence_threshold``)."""
        if self._threshold is not None:
            return self._threshold
        return float(self._configuration().get("confidence_threshold", CONFIDENCE_THRESHOLD))

    @threshold.setter
    def threshold(self, value: float | None) -> None:
        self._threshold = value

    @property
    def agent_id(self) -> str:
        """The name under which this caller sends and receives signals."""
        return self._journal.author or "agent"

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
        due: Time | None = None,
        calibrated: bool = False,
    ) -> Outcome:
        """Store a new prediction; ``calibrated`` first corrects the probability by the calibration so far.

        Args:
            question: What is predicted, in words.
            probability: The probability, from 0 to 1.
            market_id: The id of the market; default: the prediction's own.
            prediction_id: The id; default: a new one.
            confidence_interval: The lowest and the highest probability that seem likely.
            confidence_level: How likely the interval holds the truth, from 0 to 1.
            category: A word that groups predictions, for scores by category.
            due: When the answer will be known.
            calibrated: Correct the probability by the calibration so far before it is stored.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, category="release")
        """
        if (refused := _check_numbers(probability, confidence_interval, confidence_level)) is not None:
            return refused
        now, uncalibrated = to_iso(self._clock.now()), probability
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
            "created_at": now,
            "last_updated": now,
            "status": "active",
            "num_updates": 0,
        }
        optional = {
            "category": category or None,
            "due": None if due is None else to_iso(to_utc(due)),
            "uncalibrated": uncalibrated if calibrated else None,
        }
        body |= {name: value for name, value in optional.items() if value is not None}
        draft, limit = self._prediction_draft(body, expected=0), self.max_active

        def if_below_limit(reader: Reader) -> Sequence[Draft] | Refused:
            query = Query(kinds=(PREDICTION,), scopes=(draft.scope,), labels=("status=active",))
            markets = {record.body.get("market_id") for record in reader.read(query)}
            if len(markets | {body["market_id"]}) > max(limit, len(markets)):
                reason = f"There are active predictions on {len(markets)} markets already; {limit} are allowed."
                return Refused("too_many_active", f"{reason} Resolve or expire some first.")
            return [draft]

        return self._journal.append_if(if_below_limit)

    def revise(
        self,
        prediction_id: str,
        probability: float,
        *,
        confidence_interval: Sequence[float] | None = None,
        confidence_level: float | None = None,
    ) -> Outcome:
        """Change the probability of an active prediction. The history keeps the earlier one.

        Args:
            prediction_id: The id of the prediction.
            probability: The probability, from 0 to 1.
            confidence_interval: The lowest and the highest probability that seem likely.
            confidence_level: How likely the interval holds the truth, from 0 to 1.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            memory.forecasts.revise("p-1", 0.9)
        """
        if (refused := _check_numbers(probability, confidence_interval, confidence_level)) is not None:
            return refused
        interval = None if confidence_interval is None else list(confidence_interval)
        revised = {"probability": probability, "confidence_interval": interval, "confidence_level": confidence_level}
        changes = {name: value for name, value in revised.items() if value is not None}
        return self._change_prediction(prediction_id, ("active", "recovering"), changes, count_update=True)

    def resolve(self, prediction_id: str, outcome: Any, *, at: Time | None = None) -> Outcome:
        """Record whether a prediction came true; from then on it is scored. ``at`` is when the outcome became known.

        Args:
            prediction_id: The id of the prediction.
            outcome: True or false, or what happened in words.
            at: When the outcome became known; default: now.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            memory.forecasts.resolve("p-1", True)
        """
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
        """Mark an active prediction as expired. It is not scored unless it is resolved later.

        Args:
            prediction_id: The id of the prediction.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            memory.forecasts.expire("p-1")
        """
        return self._change_prediction(prediction_id, ("active", "recovering"), {"status": "expired"})

    def expire_due(self) -> Sequence[str]:
        """Expire the active predictions that are past their due time and return their ids.

        Example:
            memory.forecasts.expire_due()
        """
        now = self._clock.now()
        overdue = [
            record.id
            for record in self._read_predictions("active")
            if isinstance(record.body.get("due"), str) and from_iso(record.body["due"]) < now
        ]
        return [id for id in overdue if isinstance(self.expire(id), Accepted)]

    def get(self, prediction_id: str) -> Prediction | None:
        """Return the current version of a prediction, or None.

        Args:
            prediction_id: The id of the prediction.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            memory.forecasts.get("p-1")
        """
        record = self._find_prediction(prediction_id)
        return None if record is None else Prediction(record.body)

    def history(self, prediction_id: str) -> Sequence[Prediction]:
        """Return every version of a prediction, oldest first.

        Args:
            prediction_id: The id of the prediction.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            memory.forecasts.history("p-1")
        """
        record = self._find_prediction(prediction_id)
        return [] if record is None else [Prediction(version.body) for version in self._journal.history(record.key)]

    def list(self, status: PredictionStatus | None = None) -> Sequence[Prediction]:
        """Return the predictions, or those with a status, oldest first.

        Args:
            status: ``active``, ``resolved``, ``expired`` or ``recovering``; default: all.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7)
            memory.forecasts.list("active")
        """
        return [Prediction(record.body) for record in self._read_predictions(status)]

    def _change_prediction(
        self,
        prediction_id: str,
        allowed_statuses: Sequence[str],
        changes: Mapping[str, Any],
        *,
        count_update: bool = False,
        happened_at: datetime | None = None,
    ) -> Outcome:
        """Write a new version of a prediction whose status allows it."""
        now, found = to_iso(self._clock.now()), self._find_prediction(prediction_id)
        key = Key(self._home_scope, PREDICTION, prediction_id) if found is None else found.key

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
            return [
                draft_from(
                    record, body=body, labels=_status_labels(body), author=self._journal.author, expected=record.version,
                    happened_at=happened_at or record.happened_at,
                )
            ]  # fmt: skip

        return self._journal.append_if(change)

    def signal(self, prediction_id: str, *, confidence: float | None = None) -> Outcome:
        """Broadcast a prediction to the network; refuse one whose confidence is below the threshold.

        The signal is stored before it is sent, so that ``retry_signals`` can send it until another agent acknowledges it.

        Args:
            prediction_id: The id of the prediction.
            confidence: How sure the agent is, from 0 to 1; default: that of the prediction.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.9, prediction_id="p-1")
            memory.forecasts.signal("p-1", confidence=0.95)
        """
        record = self._find_prediction(prediction_id)
        if record is None:
            return Refused("not_found", f"There is no prediction {prediction_id[:80]!r}.")
        certainty = record.body.get("confidence_level") if confidence is None else confidence
        if certainty is None:
            probability = record.body["probability"]
            certainty = max(probability, 1 - probability)
        if (refused := _check_numbers(certainty)) is not None:
            return refused
        if certainty < (threshold := self.threshold):
            limit = f"the threshold of {threshold:g}"
            return Refused(
                "below_threshold", f"A confidence of {certainty:g} is below {limit}, so nothing is broadcast."
            )
        id = f"signal-{self._new_id()}"
        body = {
            "signal_id": id,
            "market_id": record.body["market_id"],
            "prediction_id": prediction_id,
            "timestamp": to_iso(self._clock.now()),
            "prediction": record.body["probability"],
            "confidence": certainty,
            "broadcast": False,
            "acknowledged": False,
        }
        draft = Draft(
            SIGNAL, body=body, id=id, scope=record.scope, links=(Link(DERIVED_FROM, record.key),),
            labels=(_UNACKNOWLEDGED_LABEL,), origin="forecast",
        )  # fmt: skip
        outcome = self._journal.append(draft)
        if isinstance(outcome, Accepted):
            self._send_signal(outcome.record)
        return outcome

    def retry_signals(self) -> dict[str, int]:
        """Send the unacknowledged signals again, record new acknowledgements, and return how many of each.

        Example:
            memory.forecasts.retry_signals()
        """
        counts = {"sent": 0, "acknowledged": 0, "waiting": 0}
        query = Query(kinds=(SIGNAL,), scopes=self._own_scopes(), labels=(_UNACKNOWLEDGED_LABEL,))
        for record in self._journal.read(query):
            counts[self._send_signal(record)] += 1
        return counts

    def _send_signal(self, record: Record) -> str:
        """Broadcast a signal unless it is acknowledged, and store the result; return the signal's state.

        A network that has the signal already changes nothing, and one that has lost it gets it again.
        """
        body = dict(record.body)
        if self.network is None:
            return "waiting"
        try:
            if body["broadcast"]:
                body["acknowledged"] = bool(self.network.acknowledged(self.agent_id, body["signal_id"]))
            if not body["acknowledged"]:
                self.network.broadcast(self.agent_id, "signal", {**body, "broadcast": True})
                body["broadcast"] = True
        except NetworkDown:
            return "waiting"
        if body != record.body:
            labels = () if body["acknowledged"] else (_UNACKNOWLEDGED_LABEL,)
            self._journal.append(self._journal.revise(draft_from(record, body=body, labels=labels)))
        return "acknowledged" if body["acknowledged"] else "sent"

    def receive(self) -> Sequence[Signal]:
        """Take the new signals of other agents and return them, each once.

        A signal is stored among the received ones in the same step that acknowledges it: no crash loses or doubles it.

        Example:
            memory.forecasts.receive()
        """
        if self.network is None:
            return []
        taken: list[Signal] = []
        while messages := self.network.inbox(self.agent_id):
            taken += [Signal(message) for message in messages if self._take(self.network, message)]
        return taken

    def _take(self, network: Network, message: Mapping[str, Any]) -> bool:
        """Store a signal among the received ones and acknowledge it; return whether that was not done before."""
        sender, signal_id = message["agent_id"], message["signal_id"]
        id = hashlib.sha256(f"{sender}\0{signal_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        body = {**message, "received_at": to_iso(self._clock.now())}
        effect = Draft(RECEIVED, body=body, id=id, scope=self._home_scope, origin="network")
        return not network.acknowledge(self.agent_id, signal_id, sender, [effect]).repeated

    def received(self) -> Sequence[Signal]:
        """Return every signal that was received so far, oldest first.

        Example:
            memory.forecasts.received()
        """
        records = self._journal.read(Query(kinds=(RECEIVED,), scopes=self._own_scopes()))
        return [Signal(record.body) for record in records]

    def signals(self) -> Sequence[Signal]:
        """Return the signals made so far, oldest first.

        Example:
            memory.forecasts.signals()
        """
        records = self._journal.read(Query(kinds=(SIGNAL,), scopes=self._own_scopes()))
        return [Signal(record.body) for record in records]

    def reason(
        self,
        market_id: str,
        *,
        base_rate: float | None = None,
        factors: Mapping[str, float] | Iterable[Mapping[str, Any]] = (),
        evidence: Iterable[Mapping[str, Any]] = (),
    ) -> Outcome:
        """Store the analysis of a market: its base rate, the factors that adjust it, and the evidence.

        Args:
            market_id: The id of the market; predictions of one market share it.
            base_rate: How often such things happen, from 0 to 1.
            factors: What moves the estimate away from the base rate, and by how much.
            evidence: What the analysis rests on.

        Example:
            memory.forecasts.reason("m-1", base_rate=0.6, factors={"holidays": -0.1})
        """
        key_factors: list[dict[str, Any]] = (
            [{"factor": name, "adjustment": adjustment} for name, adjustment in factors.items()]
            if isinstance(factors, Mapping)
            else [dict(factor) for factor in factors]
        )
        sources = [dict(item) for item in evidence]
        if base_rate is not None and not _is_between(base_rate, 0, 1):
            return Refused("bad_base_rate", "The base rate must be a number from 0 to 1.")
        for factor in key_factors:
            if not isinstance(factor.get("factor"), str) or not _is_between(factor.get("adjustment"), -1, 1):
                return Refused("bad_factor", "A factor has a name and an adjustment between -1 and 1.")
        for item in sources:
            if not isinstance(item.get("source"), str) or not _is_between(item.get("credibility", 0), 0, 1):
                return Refused("bad_evidence", "A piece of evidence has a source and a credibility from 0 to 1.")
        body = {
            "market_id": market_id,
            "base_rate": base_rate,
            "key_factors": key_factors,
            "evidence": sources,
            "last_analysis": to_iso(self._clock.now()),
        }
        draft = Draft(REASONING, body=body, id=market_id, scope=self._home_scope, origin="forecast")
        return self._journal.append(draft)

    def reasoning(self, market_id: str) -> MarketAnalysis | None:
        """Return the newest analysis of a market, or None.

        Args:
            market_id: The id of the market; predictions of one market share it.

        Example:
            memory.forecasts.reason("m-1", base_rate=0.6)
            memory.forecasts.reasoning("m-1")
        """
        record = self._journal.get(Key(self._home_scope, REASONING, market_id))
        return None if record is None else MarketAnalysis(record.body)

    def estimate(self, market_id: str) -> float | None:
        """Return the base rate of a market plus its adjustments, limited to 0 to 1, or None without a base rate.

        Args:
            market_id: The id of the market; predictions of one market share it.

        Example:
            memory.forecasts.reason("m-1", base_rate=0.6, factors={"holidays": -0.1})
            memory.forecasts.estimate("m-1")
        """
        found = self.reasoning(market_id)
        if found is None or found.base_rate is None:
            return None
        total = found.base_rate + sum(factor["adjustment"] for factor in found.key_factors)
        return min(max(float(total), 0.0), 1.0)

    def scores(self, window: timedelta | None = None, *, category: str | None = None) -> ForecastScores:
        """Score the predictions resolved within a window before now, or all resolved ones.

        Args:
            window: Only predictions resolved in this time before now; default: all.
            category: Only predictions of this category.

        Example:
            memory.forecasts.scores(timedelta(days=90)).brier_score
        """
        return compute_scores(self._resolved_predictions(window, category))

    def learning(self, window: timedelta | None = None) -> CalibrationReport:
        """Calibrate on the resolved predictions: return a correction, the trend and the weak categories.

        Args:
            window: Only predictions resolved in this time before now; default: all.

        Example:
            memory.forecasts.learning(timedelta(days=90))
        """
        return build_calibration_report(self._resolved_predictions(window))

    def calibrate(self, probability: float) -> float:
        """Correct a probability by the calibration so far; without a helpful correction it stays the same.

        Args:
            probability: The probability, from 0 to 1.

        Example:
            memory.forecasts.calibrate(0.7)
        """
        if (refused := _check_numbers(probability)) is not None:
            raise InvalidInput(refused.reason)
        correction = self.learning().correction
        return correction(probability) if correction.applies else probability

    def metrics(self) -> dict[str, Any]:
        """Return the scores in the layout of a session's section ``performance_metrics``.

        Example:
            memory.forecasts.metrics()
        """
        return self._build_metrics(list(self._read_predictions(None)))

    def _build_metrics(self, predictions: Sequence[Record], since: datetime | None = None) -> dict[str, Any]:
        """Score predictions; ``since`` leaves out those made, and outcomes known, up to a time."""
        start, now = since or datetime.min.replace(tzinfo=UTC), self._clock.now()
        resolved = [record for record in predictions if record.body.get("status") == "resolved"]
        lifetime = compute_scores(_to_resolved(record for record in resolved if record.moment > start)).as_json()
        window = _to_resolved(record for record in resolved if record.moment >= now - ROLLING_WINDOW)
        rolling = compute_scores(window).as_json()
        return {
            "total_predictions": sum(read_time(record.body, "created_at") > start for record in predictions),
            "resolved_predictions": lifetime["count"],
            **{name: lifetime[name] for name in SCORE_NAMES},
            "last_calculated": to_iso(now),
            "by_confidence_bucket": lifetime["by_confidence_bucket"],
            OWN_FIGURES_KEY: {name: rolling[name] for name in ("count", *SCORE_NAMES)},
        }

    def sections(self) -> dict[str, Any]:
        """Return the five of a session's eight sections that are about forecasts.

        Example:
            memory.forecasts.sections()["active_predictions"]
        """
        report = self.learning()
        predictions = [*self._read_predictions("active"), *self._read_predictions("recovering")]
        reasoning = self._journal.read(Query(kinds=(REASONING,), scopes=self._own_scopes()))
        return {
            "active_predictions": [dict(record.body) for record in predictions],
            "signal_history": [signal.as_json() for signal in self.signals()],
            "reasoning_cache": {
                record.id: {name: value for name, value in record.body.items() if name != "market_id"}
                for record in reasoning
            },
            "performance_metrics": self.metrics(),
            "learning_state": {
                "calibration_adjustments": {
                    "bias_correction": report.correction.bias_correction,
                    "confidence_scaling": report.correction.confidence_scaling,
                },
                "performance_trend": report.performance_trend,
                "areas_for_improvement": list(report.areas_for_improvement),
            },
        }

    def count_versions(self, scope: str) -> tuple[int, ...]:
        """Return the numbers of versions of predictions, signals and analyses in a scope: they tell whether one changed.

        Args:
            scope: The scope of the forecasts.
        """
        counts = {row.kind: row.versions for row in self._journal.tally() if row.scope == scope}
        return tuple(counts.get(kind, 0) for kind in (PREDICTION, SIGNAL, REASONING))

    def fill_sections(
        self, state: Mapping[str, Any], scope: str, *, max_signals: int, signals_for: timedelta, max_markets: int
    ) -> dict[str, Any]:
        """Return the state of a session with the forecasts of a scope merged into it; the newer version counts.

        Predictions that are settled are not added, nor signals that are older than ``signals_for``.

        Args:
            state: The state of a session.
            scope: The scope of the forecasts.
            max_signals: How many signals the state holds at most.
            signals_for: How old a signal of the state may be.
            max_markets: How many analyses the state holds at most.
        """
        predictions = list(self._journal.read(Query(kinds=(PREDICTION,), scopes=(scope,))))
        recent = Query(
            kinds=(SIGNAL,), scopes=(scope,), recorded_since=self._clock.now() - signals_for, newest_first=True,
            limit=max_signals,
        )  # fmt: skip
        signals = [dict(record.body) for record in self._journal.read(recent)][::-1]
        newest = self._journal.read(Query(kinds=(REASONING,), scopes=(scope,), newest_first=True, limit=max_markets))
        reasoning = {
            record.id: {name: value for name, value in record.body.items() if name != "market_id"} for record in newest
        }
        metrics, learning = state.get("performance_metrics", {}), state.get("learning_state", {})
        if predictions:
            imported = split_imported_figures(metrics)
            since = None if imported is None else read_time(imported, "last_calculated")
            own = self._build_metrics(predictions, since)
            if imported is None:
                metrics = {**metrics, **own}
            elif own["total_predictions"] or own["resolved_predictions"]:
                metrics = add_figures(imported, own)
            resolved = _to_resolved(record for record in predictions if record.body.get("status") == "resolved")
            learning = merge_learning(learning, build_calibration_report(resolved)) if resolved else learning
        return {
            **state,
            "active_predictions": merge_predictions(
                state.get("active_predictions", ()), [dict(record.body) for record in predictions]
            ),
            "signal_history": merge_signals(state.get("signal_history", ()), signals, max_signals),
            "reasoning_cache": merge_reasoning(state.get("reasoning_cache", {}), reasoning, max_markets),
            "performance_metrics": metrics,
            "learning_state": learning,
        }

    def take_in(self, state: Mapping[str, Any]) -> Outcome:
        """Store the predictions, signals and reasoning of a session's state. Records that exist already stay unchanged.

        Args:
            state: The state of a session.
        """
        scope = self._home_scope
        drafts = [self._prediction_draft(dict(item)) for item in state.get("active_predictions", ())]
        for item in state.get("signal_history", ()):
            labels = () if item.get("acknowledged") else (_UNACKNOWLEDGED_LABEL,)
            signal_id = item["signal_id"]
            drafts.append(Draft(SIGNAL, body=dict(item), id=signal_id, scope=scope, labels=labels, origin="import"))
        for market_id, item in state.get("reasoning_cache", {}).items():
            body = {**item, "market_id": market_id}
            drafts.append(Draft(REASONING, body=body, id=market_id, scope=scope, origin="import"))
        return self._journal.append_if(lambda reader: [draft for draft in drafts if reader.get(draft.key) is None])

    def _resolved_predictions(
        self, window: timedelta | None, category: str | None = None
    ) -> Sequence[ResolvedPrediction]:
        """Return the resolved predictions of a window, in the order in which their outcomes became known."""
        now = self._clock.now()
        since = None if window is None or window > now - _BEGINNING else now - window
        resolved = _to_resolved(self._read_predictions("resolved", since))
        return [item for item in resolved if category in (None, item.category)]

    def _read_predictions(self, status: str | None, since: datetime | None = None) -> Iterable[Record]:
        labels = () if status is None else (f"status={status}",)
        return self._journal.read(Query(kinds=(PREDICTION,), scopes=self._own_scopes(), labels=labels, since=since))

    def _prediction_draft(self, body: Mapping[str, Any], expected: int | None = None) -> Draft:
        return Draft(
            PREDICTION, str(body.get("question", "")), dict(body), id=body["prediction_id"], scope=self._home_scope,
            labels=_status_labels(body), origin="forecast", expected=expected,
        )  # fmt: skip

    def _find_prediction(self, prediction_id: str) -> Record | None:
        """Return a prediction from the caller's own scope, or else from any scope within reach."""
        record = self._journal.get(Key(self._home_scope, PREDICTION, prediction_id))
        if record is not None:
            return record
        scopes = (row.scope for row in self._journal.tally() if row.kind == PREDICTION)
        found = (self._journal.get(Key(scope, PREDICTION, prediction_id)) for scope in scopes)
        return next(filter(None, found), None)

    def _own_scopes(self) -> tuple[str, ...]:
        """Return the scopes to read: an agent reads its own forecasts, even where it may not write; the owner all."""
        author = self._journal.author
        readable = (author,) if author and self._journal.reach.reads(author) else ()
        return tuple(dict.fromkeys((self._home_scope, *readable))) if author else ()

    @property
    def _home_scope(self) -> str:
        """The scope that this caller's forecasts are written to."""
        return self._journal.home_scope or SHARED


def _to_resolved(records: Iterable[Record]) -> list[ResolvedPrediction]:
    """Return the predictions with an outcome, in the order in which the outcomes became known."""
    return [
        ResolvedPrediction(
            float(record.body["probability"]),
            float(record.body["outcome"]),
            record.body.get("confidence_level"),
            record.body.get("category", ""),
        )
        for record in sorted(records, key=lambda record: (record.moment, record.seq))
        if isinstance(record.body.get("outcome"), bool)
    ]


def _status_labels(body: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"status={body.get('status', 'active')}",)


def _check_numbers(probability: Any, interval: Any = None, level: Any = None) -> Refused | None:
    """Refuse a probability, interval or level outside 0 to 1; return None when all are valid."""
    for name, value in (("probability", probability), ("confidence_level", 0 if level is None else level)):
        if not _is_between(value, 0, 1):
            return Refused(f"bad_{name}", f"The {name.replace('_', ' ')} must be a number from 0 to 1.")
    bounds = [0, 1] if interval is None else list(interval)
    if len(bounds) != 2 or not all(_is_between(bound, 0, 1) for bound in bounds) or bounds[0] > bounds[1]:
        return Refused("bad_interval", "The confidence interval must be a lower and an upper bound from 0 to 1.")
    return None


def _is_between(value: Any, lowest: float, highest: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest
