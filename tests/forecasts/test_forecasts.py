"""Predictions on every engine: made, revised, signalled, resolved, scored and drawn."""

from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from lukasa import Accepted, Conflict, Refused
from lukasa.errors import InvalidInput, NetworkDown
from lukasa.forecasts import diagram
from lukasa.forecasts.scoring import ResolvedPrediction, compute_scores
from lukasa.network import MAX_INBOX
from lukasa.storage.engine import Query
from lukasa.testing.network_contract import send_signals


def add_resolved(forecasts, pairs, category=""):
    """Predict and resolve each pair of a probability and an outcome."""
    for index, (probability, outcome) in enumerate(pairs):
        id = f"{category}{index}"
        assert forecasts.predict(f"Will {id} happen?", probability, prediction_id=id, category=category)
        assert forecasts.resolve(id, outcome)


@pytest.mark.requirement("FOR-1")
def test_predict_stores_every_field_of_the_document(memory):
    outcome = memory.forecasts.predict(
        "Will X happen by Y?", 0.67, market_id="market-123", prediction_id="pred-001",
        confidence_interval=(0.58, 0.76), confidence_level=0.85, category="tech",
    )  # fmt: skip
    assert isinstance(outcome, Accepted)
    assert memory.forecasts.get("pred-001").body == {
        "prediction_id": "pred-001",
        "market_id": "market-123",
        "question": "Will X happen by Y?",
        "probability": 0.67,
        "confidence_interval": [0.58, 0.76],
        "confidence_level": 0.85,
        "created_at": "2026-02-03T12:00:00Z",
        "last_updated": "2026-02-03T12:00:00Z",
        "status": "active",
        "num_updates": 0,
        "category": "tech",
    }
    assert [match.record.id for match in memory.journal.find("happen")] == ["pred-001"]


@pytest.mark.requirement("FOR-1")
def test_revise_keeps_and_counts_earlier_versions(memory, clock):
    memory.forecasts.predict("?", 0.5, prediction_id="p")
    for probability in (0.6, 0.7):
        clock.advance(60)
        assert memory.forecasts.revise("p", probability, confidence_level=0.9)
    assert [version.probability for version in memory.forecasts.history("p")] == [0.5, 0.6, 0.7]
    current = memory.forecasts.get("p")
    assert (current.num_updates, current.body["last_updated"], current.body["created_at"]) == (
        2,
        "2026-02-03T12:02:00Z",
        "2026-02-03T12:00:00Z",
    )
    assert (current.last_updated - current.created_at).total_seconds() == 120


@pytest.mark.requirement("FOR-1")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"probability": 1.1}, "bad_probability"),
        ({"probability": float("nan")}, "bad_probability"),
        ({"probability": True}, "bad_probability"),
        ({"confidence_interval": (0.6, 0.5)}, "bad_interval"),
        ({"confidence_interval": (0.6,)}, "bad_interval"),
        ({"confidence_interval": (-3, 7)}, "bad_interval"),
        ({"confidence_level": -0.1}, "bad_confidence_level"),
        ({"prediction_id": "x" * 201}, "bad_id"),
    ],
)
def test_predict_refuses_invalid_fields(memory, fields, code):
    outcome = memory.forecasts.predict("?", **({"probability": 0.5} | fields))
    assert isinstance(outcome, Refused)
    assert outcome.code == code


@pytest.mark.requirement("FOR-1")
def test_predict_is_refused_at_the_limit_of_active_predictions_until_one_expires(memory):
    memory.forecasts.max_active = 3
    for number in range(3):
        assert memory.forecasts.predict("?", 0.5, prediction_id=f"p{number}")
    assert memory.forecasts.predict("?", 0.5).code == "too_many_active"
    assert memory.forecasts.expire("p0")
    assert memory.forecasts.predict("?", 0.5, prediction_id="p3")
    assert isinstance(memory.forecasts.predict("?", 0.5, prediction_id="p3"), Refused | Conflict)


@pytest.mark.requirement("FOR-1")
def test_a_resolved_prediction_stays_unchanged_and_an_expired_one_can_still_be_resolved(memory, clock):
    memory.forecasts.predict("?", 0.5, prediction_id="p", due=clock.now() + timedelta(hours=1))
    assert memory.forecasts.expire_due() == []
    clock.advance(3601)
    assert memory.forecasts.expire_due() == ["p"]
    assert memory.forecasts.revise("p", 0.6).code == "already_expired"
    assert memory.forecasts.resolve("p", True)
    assert memory.forecasts.resolve("p", False).code == "already_resolved"
    assert memory.forecasts.resolve("unknown", True).code == "not_found"
    assert memory.forecasts.resolve("p", "yes").code == "bad_outcome"
    assert [prediction.status for prediction in memory.forecasts.list("resolved")] == ["resolved"]


# Signals


class FailingNetwork:
    """A network whose first calls fail; later calls reach the real network."""

    def __init__(self, network, failures):
        self._network, self.failures = network, failures

    def __getattr__(self, name):
        def call(*arguments):
            if self.failures:
                self.failures -= 1
                raise NetworkDown
            return getattr(self._network, name)(*arguments)

        return call


@pytest.mark.requirement("FOR-2")
def test_signal_refuses_a_confidence_below_the_threshold(memory):
    memory.forecasts.predict("?", 0.65, prediction_id="p", confidence_level=0.69)
    refused = memory.forecasts.signal("p")
    assert refused.code == "below_threshold"
    assert memory.forecasts.signals() == []
    assert memory.forecasts.signal("p", confidence=0.70)
    memory.forecasts.predict("?", 0.1, prediction_id="q")
    assert memory.forecasts.signal("q")
    assert memory.forecasts.signal("unknown").code == "not_found"
    assert [(signal.prediction, signal.confidence) for signal in memory.forecasts.signals()] == [
        (0.65, 0.7),
        (0.1, 0.9),
    ]


@pytest.mark.requirement("FOR-2")
def test_a_signal_is_retried_until_it_is_acknowledged_and_received_once(location, open_store, clock):
    orion, elysia = (open_store(location, agent=name, clock=clock).forecasts for name in ("orion", "elysia"))
    orion.network = FailingNetwork(orion.network, 2)
    orion.predict("?", 0.9, prediction_id="p")
    assert orion.signal("p")
    assert (orion.signals()[0].broadcast, orion.signals()[0].acknowledged) == (False, False)
    assert elysia.receive() == []
    assert orion.retry_signals() == {"sent": 0, "acknowledged": 0, "waiting": 1}
    assert orion.retry_signals() == {"sent": 1, "acknowledged": 0, "waiting": 0}
    assert [signal.prediction for signal in elysia.receive()] == [0.9]
    assert elysia.receive() == []
    assert orion.retry_signals() == {"sent": 0, "acknowledged": 1, "waiting": 0}
    assert orion.retry_signals() == {"sent": 0, "acknowledged": 0, "waiting": 0}
    assert (orion.signals()[0].broadcast, orion.signals()[0].acknowledged) == (True, True)
    assert elysia.receive() == []


@pytest.mark.requirement("FOR-2")
def test_an_agent_does_not_see_the_forecasts_of_another(location, open_store):
    orion, elysia = (open_store(location, agent=name).forecasts for name in ("orion", "elysia"))
    orion.predict("?", 0.9, prediction_id="p")
    orion.resolve("p", True)
    assert elysia.get("p") is None
    assert elysia.scores().count == 0
    assert open_store(location).forecasts.scores().count == 1


# Reasoning


@pytest.mark.requirement("FOR-3")
def test_reasoning_is_stored_per_market_and_estimate_adds_its_factors(memory):
    assert memory.forecasts.reason(
        "market-123",
        base_rate=0.4,
        factors={"technical_progress": 0.15, "regulatory_risk": -0.08},
        evidence=[
            {"source": "https://example.org/a", "credibility": 0.85, "relevant_excerpt": "…", "date": "2026-02-01"}
        ],
    )
    analysis = memory.forecasts.reasoning("market-123")
    assert analysis.key_factors[1] == {"factor": "regulatory_risk", "adjustment": -0.08}
    assert analysis.body["last_analysis"] == "2026-02-03T12:00:00Z"
    assert memory.forecasts.estimate("market-123") == pytest.approx(0.47)
    assert memory.forecasts.reason("sure", base_rate=0.9, factors={"more": 0.5})
    assert memory.forecasts.estimate("sure") == 1.0
    assert memory.forecasts.estimate("unknown") is None


@pytest.mark.requirement("FOR-3")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"base_rate": 2}, "bad_base_rate"),
        ({"factors": [{"factor": "x"}]}, "bad_factor"),
        ({"factors": {"x": 3}}, "bad_factor"),
        ({"evidence": [{"credibility": 0.5}]}, "bad_evidence"),
        ({"evidence": [{"source": "s", "credibility": 5}]}, "bad_evidence"),
    ],
)
def test_reason_refuses_invalid_fields(memory, fields, code):
    assert memory.forecasts.reason("m", **fields).code == code


# Scores


@pytest.mark.requirement("FOR-4")
def test_scores_use_the_last_probability_and_an_optional_window(memory, clock):
    memory.forecasts.predict("?", 0.1, prediction_id="early")
    memory.forecasts.revise("early", 0.8)
    memory.forecasts.resolve("early", True)
    clock.advance(40 * 86400)
    add_resolved(memory.forecasts, [(0.9, False)], "late")
    assert memory.forecasts.scores().brier_score == pytest.approx((0.04 + 0.81) / 2)
    assert memory.forecasts.scores(timedelta(days=30)).brier_score == pytest.approx(0.81)
    assert memory.forecasts.scores(category="late").count == 1
    metrics = memory.forecasts.metrics()
    assert (metrics["total_predictions"], metrics["resolved_predictions"]) == (2, 2)
    assert metrics["rolling_30_days"]["count"] == 1
    assert metrics["by_confidence_bucket"]["high"] == {"count": 2, "accuracy": 0.5}


@pytest.mark.requirement("FOR-5")
def test_predict_corrects_the_probability_only_on_request(memory):
    forecasts = memory.forecasts
    assert forecasts.calibrate(0.9) == 0.9
    add_resolved(forecasts, [(0.9, number % 2 == 0) for number in range(40)], "c")
    assert forecasts.learning().correction.applies
    assert forecasts.calibrate(0.9) < 0.7
    assert forecasts.predict("?", 0.9, prediction_id="plain").record.body["probability"] == 0.9
    corrected = forecasts.predict("?", 0.9, prediction_id="corrected", calibrated=True).record.body
    assert corrected["probability"] == forecasts.calibrate(0.9)
    assert corrected["uncalibrated"] == 0.9
    with pytest.raises(InvalidInput):
        forecasts.calibrate(7)


@pytest.mark.requirement("CHK-13")
def test_sections_of_a_session_state_are_written_and_taken_in(memory, open_store, tmp_path):
    memory.forecasts.predict("?", 0.9, prediction_id="p")
    memory.forecasts.signal("p")
    memory.forecasts.reason("m", base_rate=0.5)
    add_resolved(memory.forecasts, [(0.9, True)], "c")
    sections = memory.forecasts.sections()
    memory.sessions.save_checkpoint(sections, "demo")
    assert memory.sessions.load_latest_checkpoint("demo")["performance_metrics"] == sections["performance_metrics"]
    other = open_store(str(tmp_path / "other.db"))
    assert other.forecasts.take_in(sections)
    assert other.forecasts.get("p").body == sections["active_predictions"][0]
    assert [signal.body for signal in other.forecasts.signals()] == sections["signal_history"]
    assert other.forecasts.estimate("m") == 0.5
    other.forecasts.revise("p", 0.95)
    assert other.forecasts.take_in(sections)
    assert other.forecasts.get("p").probability == 0.95


# The diagram


@pytest.mark.requirement("FOR-4")
def test_the_reliability_diagram_is_drawn_as_text_and_svg():
    scores = compute_scores([ResolvedPrediction(0.1 * number, float(number > 5)) for number in range(11)])
    svg = ET.fromstring(diagram.draw_diagram(scores).svg())
    assert len(svg.findall("{http://www.w3.org/2000/svg}circle")) == len(scores.reliability)
    rows = diagram.format_bar_rows(scores.reliability)
    assert len(rows) == len(scores.reliability)
    assert all(len(row[-1]) == 24 and row[-1].count("|") == 1 for row in rows)
    assert "no resolved" in diagram.format_title(compute_scores([]))
    assert ET.fromstring(diagram.draw_diagram(compute_scores([])).svg()) is not None


@pytest.mark.parametrize("name", ["r.png", "r.gif", "r"])
def test_a_picture_is_saved_as_svg_and_any_other_suffix_is_refused(tmp_path, name):
    picture = diagram.draw_diagram(compute_scores([]))
    picture.save(tmp_path / "r.SVG")
    assert (tmp_path / "r.SVG").read_text("utf-8") == picture.svg()
    with pytest.raises(InvalidInput, match=r"ending in \.svg"):
        picture.save(tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.requirement("FOR-2")
def test_a_received_signal_is_stored_with_its_acknowledgement(location, open_store, clock):
    orion, elysia = (open_store(location, agent=name, clock=clock).forecasts for name in ("orion", "elysia"))
    orion.predict("?", 0.9, prediction_id="p")
    orion.signal("p")
    (signal,) = elysia.receive()
    assert (signal.agent_id, signal.prediction) == ("orion", 0.9)
    (stored,) = elysia.received()
    assert (stored.signal_id, stored.body["received_at"]) == (signal.signal_id, "2026-02-03T12:00:00Z")
    assert elysia.receive() == []
    assert orion.received() == []


@pytest.mark.requirement("FOR-2")
def test_a_signal_that_the_network_lost_is_sent_again(location, open_store, clock):
    owner = open_store(location, clock=clock)
    orion, elysia = (open_store(location, agent=name, clock=clock).forecasts for name in ("orion", "elysia"))
    orion.predict("?", 0.9, prediction_id="p")
    orion.signal("p")
    (news,) = owner.journal.read(Query(kinds=("network_signal",)))
    owner.journal.delete(news.key)
    assert elysia.receive() == []
    assert orion.retry_signals()["sent"] == 1
    assert len(elysia.receive()) == 1


@pytest.mark.requirement("FOR-2")
def test_receive_takes_every_signal_that_waits(open_store, tmp_path):
    orion, elysia = (open_store(str(tmp_path / "agents.db"), agent=name).forecasts for name in ("orion", "elysia"))
    ids = [f"s{number}" for number in range(MAX_INBOX + 50)]
    send_signals(orion.network, "orion", ids)
    assert sorted(signal.signal_id for signal in elysia.receive()) == sorted(ids)
    assert len(elysia.received()) == len(ids)


@pytest.mark.requirement("FOR-1")
def test_an_agent_that_may_only_read_sees_its_own_forecasts(memory):
    with memory.as_agent("ada") as ada, memory.as_agent("ada", read_only=True) as reader:
        add_resolved(ada.forecasts, [(0.7, True)])
        assert [item.prediction_id for item in reader.forecasts.list()] == ["0"]
        assert reader.forecasts.scores().count == 1
        assert reader.forecasts.get("0").outcome is True
