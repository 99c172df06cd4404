"""The trust service on real stores: dissents, rules and their switches, overrides, roles, rubrics and analytics."""

import random
import re
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Key, Link
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput, NotAllowed
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock, seeded_ids
from lukasa.trust import TrustSettings
from support.narrow import present

DAY = 86_400


def dissent(trust, agent, text, **fields):
    outcome = trust.log_dissent(agent, text, **fields)
    assert outcome, outcome
    return outcome.records[0]


def override(trust, agent="creator", output="old", decision="new", **fields):
    outcome = trust.log_override(agent, output, decision, **fields)
    assert outcome, outcome
    return outcome.records[0]


def participate(trust, agent, count=5):
    for number in range(count):
        assert trust.participate(agent, f"round-{number}")


# An agent's memory


@pytest.mark.requirement("TRU-1")
def test_an_agents_memory_has_every_field_of_the_document(trust, clock, essay):
    trust.register("Creator1", model="m-1", primary_role="creator")
    dissent(
        trust, "Creator1", essay(), round_id="run/round_2", rubric_citations=["Accuracy", "Completeness"], impact=True,
        context={"task": "Write ADR", "artifact_type": "adr"},
    )  # fmt: skip
    override(trust, "Creator1", round_id="run/round_4", by="ada")
    trust.participate("Creator1", "run/round_2")
    trust.set_probation("Creator1", clock.now() + timedelta(days=2), reason="odd answers", by="ada")
    assert trust.agent("Creator1").as_json() == {
        "agent_name": "Creator1",
        "model": "m-1",
        "primary_role": "creator",
        "dissent_history": [
            {
                "round_id": "run/round_2",
                "timestamp": "2026-02-03T12:00:00Z",
                "context": {"task": "Write ADR", "artifact_type": "adr"},
                "dissent_text": essay(),
                "rubric_citations": ["Accuracy", "Completeness"],
                "impact": True,
                "depth_score": 1.4,
                "feedback_incorporated": True,
            }
        ],
        "override_history": [
            {
                "round_id": "run/round_4",
                "timestamp": "2026-02-03T12:00:00Z",
                "context": {},
                "agent_output": "old",
                "human_decision": "new",
                "regret": False,
                "auto_check_deadline": "2026-02-04T12:00:00Z",
                "reverted_by": None,
            }
        ],
        "trust_score": 1.0,
        "trust_score_history": [
            {"timestamp": "2026-02-03T12:00:00Z", "score": 0.6, "reason": "initial"},
            {"timestamp": "2026-02-03T12:00:00Z", "score": 1.0, "reason": "dissent_impact_true"},
        ],
        "long_term_stats": {
            "avg_dissent_depth_last_90d": 1.4,
            "dissent_impact_ratio_last_90d": 1.0,
            "total_overrides": 1,
            "regret_rate_last_90d": 0.0,
        },
        "rounds_participated": 1,
        "probation_until": "2026-02-05T12:00:00Z",
    }


@pytest.mark.requirement("TRU-12")
def test_a_reopened_store_has_the_same_state(tmp_path, clock, essay):
    location = tmp_path / "t.db"
    with lukasa.open(location, clock=clock, embedder="hash") as memory:
        for number in range(8):
            dissent(
                memory.trust,
                "a",
                essay(number, 20 + number),
                impact=number % 3 > 0,
                rubric_citations=[f"c{number % 2}"],
                of="b",
            )
        override(memory.trust, "a")
        before = (memory.trust.agent("a").as_json(), memory.trust.standing("a"), memory.trust.score("a"))
    with lukasa.open(location, clock=clock) as memory:
        assert (memory.trust.agent("a").as_json(), memory.trust.standing("a"), memory.trust.score("a")) == before


@pytest.mark.requirement("TRU-1")
def test_an_agent_keeps_its_history_when_its_model_changes(memory):
    memory.trust.register("a", model="m-1", primary_role="creator")
    memory.trust.register("a", model="m-2")
    assert (memory.trust.agent("a").model, memory.trust.agent("a").primary_role) == ("m-2", "creator")
    assert [record.body["model"] for record in memory.journal.history(Key(SYSTEM, "trust_agent", "a"))] == [
        "m-1",
        "m-2",
    ]


# Dissents


@pytest.mark.requirement("TRU-2")
def test_novelty_is_one_minus_the_highest_similarity_to_the_agents_own_past(trust, essay):
    first = dissent(trust, "a", essay(1, 10), impact=True, rubric_citations=["x"])
    again = dissent(trust, "a", essay(1, 10), impact=True, rubric_citations=["x"])
    other = dissent(trust, "b", essay(1, 10), impact=False, rubric_citations=["x"])
    assert first.body["event"]["depth_score"] == pytest.approx(0.4)
    assert again.body["event"]["depth_score"] == pytest.approx(0.4, abs=2e-3)
    assert other.body["novelty"] == 0
    assert trust.dissent_depth("one two", ["x"]) == pytest.approx(0.24)
    assert trust.dissent_depth("one two", ["x"], ["one two"]) == pytest.approx(0.24)
    assert trust.dissent_depth("one two", [], ["one four"]) == pytest.approx(0.04 + 0.5)


@pytest.mark.requirement("TRU-2")
def test_novelty_sees_dissents_logged_through_another_connection(tmp_path, open_store, essay):
    one, other = open_store(tmp_path / "t.db"), open_store(tmp_path / "t.db")
    dissent(one.trust, "a", essay(1), impact=True)
    assert dissent(other.trust, "a", essay(2), impact=True).body["novelty"] > 0.5
    assert dissent(one.trust, "a", essay(2), impact=True).body["novelty"] == pytest.approx(0, abs=2e-3)


@pytest.mark.requirement("TRU-2")
def test_vectors_are_stored_with_their_model_and_recomputed_for_another(memory, essay):
    stored = dissent(memory.trust, "a", essay(1), impact=True)
    assert stored.body["vector"]["model"] == "hash-64"
    memory.recall.reembed("static")
    again = dissent(memory.trust, "a", essay(1), impact=True)
    assert again.body["vector"]["model"] == "minilm-l6-v2-tokens-256"
    assert again.body["novelty"] == pytest.approx(0, abs=2e-3)


@pytest.mark.requirement("TRU-3")
def test_every_change_of_trust_is_a_record_with_its_reason_and_inputs(trust, essay):
    for number, impact in enumerate([True, False]):
        dissent(trust, "a", essay(number, 10), impact=impact, rubric_citations=["x"])
    one, two = (event.depth_score for event in trust.agent("a").dissent_history)
    history = trust.history("a")
    assert [(change.body["event"]["reason"], change.body["event"]["score"]) for change in history] == [
        ("initial", 0.6),
        ("dissent_impact_true", pytest.approx(0.4 + 0.3 * one + 0.3)),
        ("dissent_impact_false", pytest.approx(0.2 + 0.3 * (one + two) / 2 + 0.3)),
    ]
    inputs = history[-1].body["inputs"]
    assert (inputs["impact_ratio"], inputs["dissents"], inputs["dissents_from"]) == (0.5, 2, "history")
    assert history[-1].links[0].to.kind == "dissent"


@pytest.mark.requirement("TRU-3")
def test_old_dissents_leave_the_window_after_ninety_days(trust, clock, essay):
    for number in range(5):
        dissent(trust, "a", essay(number), impact=True)
    clock.advance(60 * DAY)
    for number in range(5, 10):
        dissent(trust, "a", essay(number), impact=False)
    assert trust.score("a").impact_ratio == 0.5
    clock.advance(30 * DAY)
    assert trust.score("a").impact_ratio == 0.5
    clock.advance(1 * DAY)
    assert (trust.score("a").impact_ratio, trust.score("a").dissents) == (0.0, 5)
    clock.advance(60 * DAY)
    assert (trust.score("a").impact_ratio, trust.score("a").dissents_from) == (0.5, "history")


@pytest.mark.requirement("TRU-3")
def test_a_score_of_any_past_day_is_recomputed_from_the_log(trust, clock, essay):
    scores = {}
    logged = None
    for day in range(12):
        dissent(trust, "a", essay(day, 15), impact=day % 3 == 0, rubric_citations=["x"])
        if day == 3:
            logged = override(trust, "a")
        if day == 8:
            assert trust.revert(present(logged).id, by="ada")
        scores[clock.now()] = trust.score("a")
        clock.advance(10 * DAY)
    for moment, score in scores.items():
        assert trust.score("a", at=moment) == score
    assert trust.score("a", at=min(scores) - timedelta(days=1)).trust == 0.6
    assert trust.check() == []


@pytest.mark.requirement("TRU-1")
def test_a_dissent_counts_once_it_is_judged(trust, clock, essay):
    record = dissent(trust, "a", essay())
    assert trust.score("a").events == 0
    clock.advance(3600)
    assert trust.judge(record.id, impact=True)
    assert (trust.score("a").impact_ratio, trust.score("a").dissents) == (1.0, 1)
    assert trust.judge(record.id, impact=False).code == "already_judged"
    assert trust.judge("nothing", impact=False).code == "not_found"
    assert trust.check() == []


@pytest.mark.requirement("TRU-1")
def test_the_same_key_logs_a_dissent_once(trust, essay):
    for _ in range(2):
        dissent(trust, "a", essay(), impact=True, key="k1")
    assert trust.score("a").dissents == 1


@pytest.mark.requirement("TRU-1")
@pytest.mark.parametrize(
    ("agent", "text", "more", "code"),
    [
        ("", "x", {}, "bad_agent"),
        ("a" * 201, "x", {}, "bad_agent"),
        ("a\x00b", "x", {}, "bad_label"),
        ("a", "   ", {}, "empty_dissent"),
        ("a", "x", {"round_id": "r" * 300}, "bad_round"),
        ("a", "x", {"rubric_citations": [""]}, "bad_citation"),
        ("a", "x", {"context": {"n": float("nan")}}, "bad_json"),
        ("a", "x" * 1_100_000, {}, "too_large"),
    ],
)
def test_log_dissent_refuses_bad_input_and_writes_nothing(trust, agent, text, more, code):
    refused = trust.log_dissent(agent, text, **{"impact": True, **more})
    assert refused.code == code
    assert trust.agents() == []


@pytest.mark.parametrize("agent", ["user:agent:123", "../../etc/passwd", "CON", "Ω≈ç 漢字", "a=b", "_lukasa", "shared"])
def test_an_agent_may_have_any_plain_name(trust, agent, essay):
    dissent(trust, agent, essay(), impact=True)
    assert trust.agents() == [agent]
    assert trust.agent(agent).dissent_history


# The owner's judgement


@pytest.mark.requirement("TRU-3")
def test_an_agent_can_neither_write_trust_records_nor_read_those_of_others(tmp_path, open_store, essay):
    owner, mallory = open_store(tmp_path / "t.db"), open_store(tmp_path / "t.db", agent="mallory")
    dissent(owner.trust, "mallory", essay(), impact=False)
    before = owner.trust.score("mallory")
    for forbidden in (
        lambda trust: trust.log_dissent("mallory", essay(), impact=True),
        lambda trust: trust.log_override("other", "a", "b"),
        lambda trust: trust.judge("x", impact=True),
        lambda trust: trust.participate("mallory", "r"),
        lambda trust: trust.revert("x", by="me"),
        lambda trust: trust.set_probation("mallory", None),
        lambda trust: trust.score("other"),
        lambda trust: trust.history("mallory"),
        lambda trust: trust.rubric.set({"a": 1}, by="me"),
        lambda trust: trust.agent("mallory"),
        lambda trust: trust.assign_devils_advocate(["mallory"]),
    ):
        with pytest.raises(NotAllowed):
            forbidden(mallory.trust)
    for kind in ("dissent", "trust_standing", "participation", "override"):
        refused = mallory.journal.write(kind, body={"agent": "mallory"}, scope=SYSTEM)
        assert refused.code == "service_kind"
        refused = mallory.journal.write(kind, body={"agent": "mallory"}, labels=(f"{kind}=mallory",))
        assert refused.code == "service_kind"
    assert owner.trust.score("mallory") == before
    assert mallory.trust.score("mallory").trust == before.trust
    assert owner.trust.check() == []


@pytest.mark.requirement("TRU-3")
def test_a_filed_dissent_counts_for_nothing_until_the_owner_judges_it(tmp_path, open_store, essay):
    owner, agent = open_store(tmp_path / "t.db"), open_store(tmp_path / "t.db", agent="critic")
    filed = agent.trust.file_dissent(essay(3, 60), rubric_citations=["Accuracy"], round_id="r1").record
    assert owner.trust.score("critic").events == 0
    assert [record.id for record in owner.trust.filed()] == [filed.id]
    assert owner.trust.judge(filed.id, impact=True)
    assert owner.trust.score("critic").dissents == 1
    assert owner.trust.filed() == []
    assert owner.trust.judge(filed.id, impact=True).code == "already_judged"
    assert owner.trust.file_dissent("x").code == "no_author"


@pytest.mark.requirement("TRU-3")
def test_judge_accepts_a_filed_dissent_with_any_body(tmp_path, open_store, essay):
    owner = open_store(tmp_path / "t.db")
    agent = open_store(tmp_path / "t.db", agent="critic", new_id=seeded_ids(2))
    pending = dissent(owner.trust, "other", essay())
    wrong: tuple[dict[str, Any], ...] = ({"event": 3}, {"of": []}, {"event": {"rubric_citations": [7]}})
    for body in wrong:
        assert agent.valid_journal.write("dissent", "An objection", body).code == "bad_body"
    for body in ({}, {"event": {}, "of": ""}, {"event": {"context": {}, "rubric_citations": ["", "x"]}, "of": "y"}):
        assert agent.valid_journal.write("dissent", "An objection", body)
    assert agent.valid_journal.write("dissent", "", {"of": "y"}, id="empty")
    assert agent.valid_journal.write("dissent", "in the way", id=pending.id)
    filed = owner.trust.filed()
    assert agent.journal.write("note", "nothing", links=(Link("derived_from", filed[0].key),))
    assert owner.trust.judge("empty", impact=True).code == "empty_dissent"
    for record in filed[:3]:
        assert owner.trust.judge(record.id, impact=False)
    assert owner.trust.judge(pending.id, impact=False)
    assert (owner.trust.score("critic").dissents, owner.trust.score("other").dissents) == (3, 1)


# Rules


@pytest.mark.requirement("TRU-3")
def test_agents_that_repeat_a_dissent_get_no_credit_for_it(trust, essay):
    dissent(trust, "original", essay(1), impact=True, round_id="r1")
    for copy in ("copy-1", "copy-2"):
        record = dissent(trust, copy, essay(1) + " indeed", impact=True, round_id="r1")
        assert record.body["why"] == "echo"
        assert trust.score(copy).adjusted_score == 0.6
        assert trust.score(copy).trust == 1.0, "the document's score knows no rule"
    assert dissent(trust, "copy-1", essay(1), impact=True, round_id="r2").body["why"] == ""


@pytest.mark.requirement("TRU-3")
def test_an_objection_to_ones_own_output_counts_for_nothing(trust, essay):
    assert dissent(trust, "a", essay(), impact=True, of="a").body["why"] == "own_output"
    assert (trust.score("a").adjusted_score, trust.score("a").trust) == (0.6, 1.0)


@pytest.mark.requirement("TRU-3")
def test_many_shallow_impactful_dissents_do_not_raise_trust(trust):
    for number in range(200):
        dissent(trust, "a", f"typo{number} here", impact=True)
    assert trust.score("a").adjusted_score < 0.6 < 0.7 < trust.score("a").trust


@pytest.mark.requirement("TRU-3", "TRU-13")
def test_citing_one_criterion_every_time_adds_no_depth_and_is_flagged(trust, essay):
    for number in range(30):
        dissent(trust, "varied", essay(number, 40), impact=True, rubric_citations=[f"c{number % 5}"])
        dissent(trust, "same", essay(100 + number, 40), impact=True, rubric_citations=["Accuracy"])
    varied, same = trust.score("varied"), trust.score("same")
    assert same.adjusted_mean_depth < varied.adjusted_mean_depth - 0.1
    assert same.mean_depth == pytest.approx(varied.mean_depth, abs=0.05)
    assert not trust.diversity("varied").flagged
    assert trust.diversity("same").flagged
    assert "Accuracy" in trust.diversity("same").why


@pytest.mark.requirement("TRU-13")
def test_falling_diversity_is_flagged_only_while_trust_is_high(trust, essay):
    for number in range(20):
        for agent in ("high", "low"):
            dissent(
                trust,
                agent,
                "no" if agent == "low" else essay(number),
                impact=agent == "high",
                rubric_citations=[f"c{number % 4}", f"c{(number + 1) % 4}"],
            )
    assert not trust.diversity("high").flagged
    for number in range(20, 40):
        for agent in ("high", "low"):
            dissent(
                trust, agent, "no" if agent == "low" else essay(number), impact=agent == "high", rubric_citations=["c1"]
            )
    assert trust.diversity("high").flagged
    assert trust.diversity("high").before == pytest.approx(2.0)
    assert trust.score("low").trust < 0.6
    assert not trust.diversity("low").flagged


@pytest.mark.requirement("TRU-3")
def test_long_and_novel_dissents_without_impact_do_not_keep_trust_up(trust, essay):
    for number in range(60):
        dissent(trust, "a", essay(number, 60), impact=False, rubric_citations=["x", "y", f"c{number}"])
    assert trust.score("a").adjusted_score < 0.45 < 0.7 < trust.score("a").trust
    assert trust.standing("a").aside == {"unheeded": 50}


@pytest.mark.requirement("TRU-14")
def test_favours_between_friends_are_set_aside(trust, essay):
    for number in range(120):
        of = f"agent-{number % 4}"
        friend = of == "agent-0"
        dissent(
            trust,
            "a",
            essay(number, 20),
            impact=friend or number // 4 % 10 in (1, 5, 7),
            of=of,
            rubric_citations=[f"c{number % 3}"],
        )
        dissent(
            trust,
            "b",
            essay(number, 20),
            impact=number // 4 % 10 in (1, 5, 7),
            of=of,
            rubric_citations=[f"c{number % 3}"],
        )
    assert trust.standing("a").aside["favour"] > 15
    assert trust.standing("a").on["agent-0"] == (30, 30)
    assert trust.score("a").adjusted_impact_ratio - trust.score("b").adjusted_impact_ratio < 0.05
    assert trust.score("a").impact_ratio - trust.score("b").impact_ratio > 0.1
    assert trust.check() == []


# The switch of each rule


def friends(trust, essay):
    """Log dissents of an agent whose friend always gives in, while others give in to three of ten."""
    for number in range(60):
        of = f"agent-{number % 4}"
        usual = number // 4 % 10 in (1, 5, 7)
        for agent in ("a", "b"):
            impact = usual or (agent == "a" and of == "agent-0")
            dissent(trust, agent, essay(number, 20), impact=impact, of=of, rubric_citations=[f"c{number % 3}"])


@pytest.fixture
def trust_without(open_store):
    """Return a function that opens a store with one rule switched off."""

    def open_(rule):
        return open_store(trust_settings=TrustSettings(**{rule: False})).trust

    return open_


@pytest.mark.requirement("TRU-3")
def test_each_rule_is_a_switch_that_is_on_by_default_and_documented():
    switches = asdict(TrustSettings())
    rules = ("own_output", "echo", "favour", "shallow", "unheeded", "stale", "fall")
    assert switches == dict.fromkeys(rules, True)
    page = (Path(__file__).parents[2] / "docs/reference/trust.md").read_text("utf-8")
    table = page.partition("| switch |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(switches)


@pytest.mark.requirement("TRU-3")
def test_without_echo_a_repeated_dissent_is_credited(trust, trust_without, essay):
    verdicts = []
    for tested in (trust, trust_without("echo")):
        dissent(tested, "original", essay(1), impact=True, round_id="r1")
        copy = dissent(tested, "copy", essay(1), impact=True, round_id="r1")
        verdicts.append((copy.body["why"], tested.score("copy").counted))
    assert verdicts == [("echo", 0), ("", 1)]


@pytest.mark.requirement("TRU-3", "TRU-14")
def test_without_favour_impacts_between_friends_count(trust, trust_without, essay):
    unchecked = trust_without("favour")
    friends(trust, essay)
    friends(unchecked, essay)
    assert trust.standing("a").aside["favour"] > 0
    assert "favour" not in unchecked.standing("a").aside
    assert unchecked.score("a").counted == 60
    assert unchecked.score("a").adjusted_impact_ratio > trust.score("a").adjusted_impact_ratio + 0.05
    assert unchecked.score("a").trust == trust.score("a").trust
    assert unchecked.check() == []


@pytest.mark.requirement("TRU-3")
def test_without_shallow_every_impact_is_credited(trust, trust_without):
    verdicts = []
    for tested in (trust, trust_without("shallow")):
        remark = dissent(tested, "a", "typo here", impact=True)
        verdicts.append((remark.body["why"], tested.score("a").adjusted_impact_ratio))
    assert verdicts == [("shallow", 0.0), ("", 1.0)]


@pytest.mark.requirement("TRU-3")
def test_without_unheeded_a_dissent_in_vain_keeps_its_depth(trust, trust_without, essay):
    verdicts = []
    for tested in (trust, trust_without("unheeded")):
        for number in range(11):
            last = dissent(tested, "a", essay(number), impact=False)
        verdicts.append((last.body["why"], last.body["counted"]["depth"] == last.body["event"]["depth_score"]))
    assert verdicts == [("unheeded", False), ("", True)]


@pytest.mark.requirement("TRU-3")
def test_without_stale_every_citation_adds_depth(trust, trust_without, essay):
    missing = []
    for tested in (trust, trust_without("stale")):
        for number in range(11):
            last = dissent(tested, "a", essay(number, 20), impact=True, rubric_citations=["Accuracy"])
        twice = dissent(tested, "b", essay(99, 20), impact=True, rubric_citations=["Style", "Style"])
        depths = [(found.body["event"]["depth_score"], found.body["counted"]["depth"]) for found in (last, twice)]
        missing.append([round(document - counted, 6) for document, counted in depths])
    assert missing == [[0.2, 0.2], [0.0, 0.0]]


@pytest.mark.requirement("TRU-3")
def test_a_switch_leaves_earlier_verdicts_as_they_are(tmp_path, open_store):
    location = tmp_path / "t.db"
    dissent(open_store(location).trust, "a", "typo here", impact=True)
    later = open_store(location, trust_settings=TrustSettings(shallow=False), new_id=seeded_ids(2)).trust
    assert later.score("a").adjusted_impact_ratio == 0.0
    dissent(later, "a", "other typo", impact=True)
    assert later.score("a").adjusted_impact_ratio == 0.5
    assert later.check() == []


@pytest.mark.requirement("TRU-3")
def test_without_own_output_an_objection_to_ones_own_output_counts(trust_without, essay):
    unchecked = trust_without("own_output")
    assert dissent(unchecked, "a", essay(), impact=True, of="a").body["why"] == ""
    assert unchecked.score("a").adjusted_score == 1.0


@pytest.mark.requirement("TRU-3", "TRU-5")
def test_without_fall_only_a_person_puts_an_agent_on_probation(trust, trust_without, essay):
    found = []
    for tested in (trust, trust_without("fall")):
        for number in range(60):
            cited = [f"c{number % 3}"]
            dissent(tested, "t", essay(number, 30), impact=number < 40 and number % 5 > 0, rubric_citations=cited)
        found.append(tested.agent("t").probation_until is not None)
    assert found == [True, False]


@pytest.mark.requirement("TRU-3")
def test_with_every_rule_off_both_scores_are_the_same(open_store, essay):
    rules = asdict(TrustSettings())
    trust = open_store(trust_settings=TrustSettings(**dict.fromkeys(rules, False))).trust
    friends(trust, essay)
    for number in range(15):
        dissent(trust, "a", "typo here", impact=True, round_id="r", of="a", rubric_citations=["x", "x"])
        dissent(trust, "b", "typo here", impact=number == 0, round_id="r", rubric_citations=["x", "x"])
    for agent in ("a", "b"):
        assert trust.score(agent).trust == trust.score(agent).adjusted_score
    assert trust.standing("a").aside == {}


@pytest.mark.requirement("TRU-3", "TRU-4", "TRU-9")
def test_roles_and_files_carry_the_documents_score(trust):
    participate(trust, "a")
    for number in range(12):
        dissent(trust, "a", f"typo{number} here", impact=True)
    score = trust.score("a")
    assert score.trust > score.adjusted_score + 0.2
    assert trust.agent("a").as_json()["trust_score"] == trust.agent("a").trust_score == score.trust
    assert trust.agent("a").adjusted_score == score.adjusted_score
    assert trust.eligibility("a").trust == score.trust
    assert trust.weigh({"a": 1.0}).weights == {"a": score.trust}
    assert trust.history("a")[-1].body["event"]["score"] == score.trust
    assert trust.history("a")[-1].body["inputs"]["adjusted_score"] == score.adjusted_score


# Overrides and regret


@pytest.mark.requirement("TRU-6")
def test_check_reverts_marks_an_override_of_another_output_once_its_day_has_passed(trust, clock):
    override(trust, round_id="r4", output="old", decision="new")
    assert not trust.check_reverts("r4", "other").records
    clock.advance(DAY)
    assert not trust.check_reverts("r4", "other").records, "the deadline itself is not past it"
    clock.advance(1)
    assert not trust.check_reverts("r4", "new").records
    assert not trust.check_reverts("r5", "other").records
    assert trust.check_reverts("r4", "other")
    (event,) = trust.agent("creator").override_history
    assert (event.regret, event.reverted_by) == (True, "system")
    assert trust.score("creator").regret_ratio == 1.0
    assert trust.history("creator")[-1].body["event"]["reason"] == "override_regretted"
    assert trust.check() == []


@pytest.mark.requirement("TRU-6")
def test_check_reverts_marks_an_override_at_once_when_its_artifact_was_put_back(memory, clock):
    journal, trust = memory.journal, memory.trust
    journal.write("adr", "agent's text", id="adr-1", author="creator")
    journal.write("adr", "human text", id="adr-1", author="ada")
    override(trust, output="agent's text", decision="human text", artifact=Key("shared", "adr", "adr-1"), by="ada")
    assert not trust.check_reverts().records
    journal.write("adr", "agent's text", id="adr-1", author="ben")
    assert trust.check_reverts().records[0].body["event"]["reverted_by"] == "ben"
    assert not trust.check_reverts().records
    assert trust.influence().reverts == {"ada": {"ben": 1}}


@pytest.mark.requirement("TRU-6")
def test_check_reverts_marks_an_override_after_a_day_when_its_artifact_was_changed_further(memory, clock):
    journal, trust = memory.journal, memory.trust
    journal.write("adr", "agent's text", id="adr-1")
    journal.write("adr", "human text", id="adr-1")
    override(trust, output="agent's text", decision="human text", artifact=Key("shared", "adr", "adr-1"))
    journal.write("adr", "third text", id="adr-1")
    assert not trust.check_reverts().records
    clock.advance(DAY + 1)
    assert trust.check_reverts().records[0].body["event"]["reverted_by"] == "system"


@pytest.mark.requirement("TRU-6")
@pytest.mark.parametrize("days", [0, 8, 30, 400])
def test_a_revert_is_found_however_late_it_is_checked(memory, clock, days):
    journal, trust, artifact = memory.journal, memory.trust, Key("shared", "adr", "adr-1")
    journal.write("adr", "agent's text", id="adr-1", author="creator")
    journal.write("adr", "human text", id="adr-1", author="ada")
    override(trust, output="agent's text", decision="human text", artifact=artifact, by="ada")
    journal.write("adr", "agent's text", id="adr-1", author="ben")
    journal.write("adr", "human text", id="adr-1", author="ada")
    clock.advance(days * DAY)
    assert trust.check_reverts().records[0].body["event"]["reverted_by"] == "ben", "also if it was put right again"
    assert trust.score("creator").regret_ratio == 1.0
    assert not trust.check_reverts().records
    assert trust.check() == []


@pytest.mark.requirement("TRU-6")
def test_an_override_whose_decision_was_applied_later_or_worded_otherwise_is_not_regretted(memory, clock):
    journal, trust, artifact = memory.journal, memory.trust, Key("shared", "adr", "adr-1")
    journal.write("adr", "agent's text", id="adr-1", author="creator")
    override(trust, output="agent's text", decision="human text", artifact=artifact, by="ada")
    assert not trust.check_reverts().records, "nothing was put back: the decision was not applied yet"
    journal.write("adr", "human text", id="adr-1", author="ada")
    journal.write("adr", "a long text that says so", id="adr-2", author="ada")
    override(trust, output="no", decision="say so", artifact=Key("shared", "adr", "adr-2"), by="ada")
    clock.advance(30 * DAY)
    assert not trust.check_reverts().records
    journal.write("adr", "agent's text", id="adr-1", author="ben")
    (record,) = [record for record in trust.check_reverts().records if record.kind == "override"]
    assert record.body["event"]["reverted_by"] == "ben"


@pytest.mark.requirement("TRU-6")
def test_a_person_reverts_an_override_by_hand_once(trust):
    logged = override(trust, by="ada")
    assert trust.revert(logged.id, by="ben")
    assert trust.revert(logged.id, by="ben").code == "already_reverted"
    assert trust.revert("nothing", by="ben").code == "not_found"
    assert trust.log_override("a", "x", "y", by="a").code == "self_judged"
    with pytest.raises(InvalidInput):
        trust.check_reverts("r4")


@pytest.mark.requirement("TRU-7")
def test_rounds_and_artifacts_with_repeated_overrides_and_reverts_are_controversial(memory):
    trust = memory.trust
    memory.journal.write("adr", "new", id="adr-1")
    artifact = Key("shared", "adr", "adr-1")
    first = override(trust, "a", round_id="r1", artifact=artifact)
    override(trust, "b", round_id="r2", artifact=artifact)
    override(trust, "b", round_id="r3")
    trust.revert(first.id, by="ben")
    found = [(item.what, item.name, item.overrides, item.reverts, item.agents) for item in trust.controversy()]
    assert found == [("artifact", "shared/adr/adr-1", 2, 1, ["a", "b"]), ("round", "r1", 1, 1, ["a"])]


@pytest.mark.requirement("TRU-11")
def test_metrics_report_dissent_impact_regret_rate_and_escalation_usefulness(trust, essay):
    for number in range(4):
        dissent(trust, "a", essay(number), impact=number == 0)
    logged = [override(trust, "b", output="x", decision=decision) for decision in ("y", "z", "x", "w")]
    trust.revert(logged[0].id, by="ada")
    found = trust.metrics().as_json()["all_history"]
    assert (found["dissent_impact"], found["regret_rate"], found["escalation_usefulness"]) == (0.25, 0.25, 0.5)
    assert trust.metrics("a").as_json()["last_90_days"]["overrides"] == 0


# Roles


@pytest.mark.requirement("TRU-4")
def test_the_advocate_is_drawn_with_the_documents_weights(trust, memory, essay):
    for number, name in enumerate(["a", "b", "c"]):
        participate(trust, name)
        dissent(trust, name, essay(number, 10 * (number + 1)), impact=number > 0)
    weights = [trust.score(name).trust for name in "abc"]
    for seed in range(30):
        drawn = trust.assign_devils_advocate(["a", "b", "c", "new"], seed=seed, round_id=f"r{seed}")
        assert drawn.chosen == random.Random(seed).choices(["a", "b", "c"], weights=weights, k=1)[0]
        assert not drawn.fallback
    record = list(memory.journal.read(Query(kinds=("advocate",), scopes=(SYSTEM,))))[-1]
    assert record.body["seed"] == 29
    assert record.body["candidates"][3]["why_not"] == ["new: 0 of 5 rounds"]


@pytest.mark.requirement("TRU-4")
def test_the_advocate_is_drawn_from_all_candidates_when_none_is_viable(trust):
    drawn = trust.assign_devils_advocate(["x", trust.agent("y")], seed="s")
    assert drawn.fallback
    assert drawn.chosen in ("x", "y")
    assert trust.assign_devils_advocate([]).code == "no_candidates"
    for name in ("x", "y"):
        trust.revert(override(trust, name).id, by="ada")
    assert {trust.score(name).trust for name in "xy"} == {0.0}
    assert trust.assign_devils_advocate(["x", "y"], seed=1).chosen in ("x", "y")


@pytest.mark.requirement("TRU-4")
def test_low_trust_is_a_reason_against_a_critical_role(trust):
    participate(trust, "low")
    trust.revert(override(trust, "low").id, by="ada")
    dissent(trust, "low", "no " * 20, impact=False)
    assert trust.score("low").trust == pytest.approx(0.3 * 0.4)
    assert trust.eligibility("low").why == ("trust 0.12 is not above 0.2",)


@pytest.mark.requirement("TRU-5")
def test_new_agents_and_those_on_probation_are_kept_from_critical_roles(trust, clock):
    assert trust.eligibility("n").why == ("new: 0 of 5 rounds",)
    participate(trust, "n", 4)
    trust.participate("n", "round-3")
    assert not trust.eligibility("n").viable, "the same round counts once"
    participate(trust, "n", 5)
    assert trust.eligibility("n").viable
    trust.set_probation("n", clock.now() + timedelta(days=1), by="ada")
    assert not trust.eligibility("n").viable
    clock.advance(DAY)
    assert trust.eligibility("n").viable


@pytest.mark.requirement("TRU-4", "LOG-6")
def test_a_quarantined_agent_is_not_drawn(trust):
    participate(trust, "a")
    participate(trust, "b")
    trust.quarantine("a")
    assert trust.eligibility("a").why == ("in quarantine",)
    assert {trust.assign_devils_advocate(["a", "b"], seed=seed).chosen for seed in range(9)} == {"b"}


@pytest.mark.requirement("TRU-5")
def test_an_agent_that_turns_bad_goes_on_probation_with_the_reason(trust, clock, essay):
    participate(trust, "t")
    for number in range(60):
        dissent(
            trust, "t", essay(number, 30), impact=number < 40 and number % 5 > 0, rubric_citations=[f"c{number % 3}"]
        )
        if not trust.eligibility("t").viable:
            break
    assert 40 < number < 55
    assert "of its last 10 dissents" in trust.eligibility("t").why[0]


@pytest.mark.requirement("TRU-9")
def test_feedback_is_weighted_by_the_trust_of_the_agents_that_give_it(trust, essay):
    dissent(trust, "good", essay(), impact=True)
    trust.revert(override(trust, "bad").id, by="ada")
    found = trust.weigh({"good": 1.0, "bad": 0.0})
    assert found.value == 1.0
    assert found.weights == {"good": 1.0, "bad": 0.0}
    assert trust.weigh({"x": 0.2, "y": 0.4}).value == pytest.approx(0.3)


# The rubric


@pytest.mark.requirement("TRU-10")
def test_repeated_overrides_by_trusted_people_propose_a_change_that_a_person_applies(trust, clock):
    rubric = trust.rubric
    rubric.set({"Accuracy": 2, "Style": 2}, by="ada")
    for number in range(2):
        override(trust, round_id=f"r{number}", criteria=["Accuracy"], by="ada")
    override(trust, round_id="r1", criteria=["Accuracy"], by="ada")
    assert rubric.propose() == [], "two overrides of one round count once"
    override(trust, round_id="r2", criteria=["Accuracy"], by="ben")
    (proposal,) = rubric.propose()
    assert rubric.propose() == [], "the same overrides give one proposal"
    assert (proposal.body["criterion"], proposal.body["weight"], proposal.body["proposed"]) == ("Accuracy", 0.5, 0.625)
    assert len(proposal.links) == 4
    assert rubric.apply(proposal.id, by="").code == "no_person"
    assert rubric.apply(proposal.id, by="carol")
    assert rubric.apply(proposal.id, by="carol").code == "already_decided"
    now = rubric.get()
    assert (now.version, now.changed_by) == (2, "carol")
    assert now.criteria == pytest.approx({"Accuracy": 0.625 / 1.125, "Style": 0.5 / 1.125})
    assert rubric.get(version=1).criteria == {"Accuracy": 0.5, "Style": 0.5}
    clock.advance(10 * DAY)
    override(trust, round_id="r9", criteria=["Accuracy"], by="ada")
    effect = rubric.effect(proposal.id)
    assert (effect.days, effect.before, effect.after) == (10, 4, 1)


@pytest.mark.requirement("TRU-10")
def test_overrides_by_people_who_are_often_reverted_propose_nothing_and_a_rejection_is_final(trust, clock):
    rubric = trust.rubric
    rubric.set({"Accuracy": 1}, by="ada")
    for number in range(6):
        logged = override(trust, round_id=f"x{number}", criteria=["Accuracy"], by="rash")
        if number < 3:
            trust.revert(logged.id, by="ada")
    assert rubric.propose() == []
    for number in range(3):
        override(trust, round_id=f"y{number}", criteria=["Accuracy"], by="ada")
    (proposal,) = rubric.propose()
    assert rubric.reject(proposal.id, by="policy:frozen")
    clock.advance(1)
    assert rubric.propose() == []
    assert rubric.get().version == 1
    assert [record.id for record in rubric.proposals(state="rejected")] == [proposal.id]
    assert rubric.effect(proposal.id) is None
    assert rubric.set({}, by="ada").code == "bad_rubric"
    assert rubric.set({"a": float("nan")}, by="ada").code == "bad_rubric"


# Analytics


@pytest.mark.requirement("TRU-14")
def test_influence_counts_whose_dissents_changed_whose_output(trust, essay):
    dissent(trust, "a", essay(1), impact=True, of="b")
    dissent(trust, "a", essay(2), impact=False, of="b")
    dissent(trust, "b", essay(3), impact=True, of="c")
    assert trust.influence().as_json()["dissents"] == {
        "a": {"b": {"dissents": 2, "impacts": 1}},
        "b": {"c": {"dissents": 1, "impacts": 1}},
    }


@pytest.mark.requirement("TRU-15")
def test_predict_ranks_first_the_agent_that_was_right_on_the_topic(open_store):
    trust = open_store(embedder="static").trust
    for number in range(12):
        dissent(trust, "db", f"The database index number {number} misses the query planner statistics", impact=True)
        dissent(trust, "db", f"The button colour {number} clashes with the page layout", impact=False)
        dissent(trust, "ui", f"The database index number {number} is fine as a hash table", impact=False)
        dissent(trust, "ui", f"The button colour {number} lacks contrast on the page", impact=True)
    found = trust.predict("slow database query without an index")
    assert [prospect.agent for prospect in found.prospects] == ["db", "ui"]
    assert found.prospects[0].expected > 0.6 > 0.45 > found.prospects[1].expected
    assert "database" in found.prospects[0].evidence[0].text
    assert trust.predict("ugly button on the page", ["ui", "db"]).prospects[0].agent == "ui"
    assert found.tested == 28
    assert found.hit_rate > 0.9 > found.base_rate
    assert 0 <= found.brier <= 1


@pytest.mark.requirement("TRU-15")
def test_a_prediction_without_past_dissents_says_so(trust):
    found = trust.predict("anything", ["x"])
    assert (found.prospects[0].expected, found.prospects[0].dissents, found.tested, found.hit_rate) == (0.5, 0, 0, None)
    with pytest.raises(InvalidInput):
        trust.predict("  ")


# Verification


@pytest.mark.requirement("TRU-8")
def test_wrong_running_sums_are_found_and_rebuilt(memory, essay):
    trust = memory.trust
    for number in range(7):
        dissent(trust, "a", essay(number), impact=number % 2 == 0)
    trust.participate("a", "r1")
    before = trust.standing("a")
    body = dict(memory.journal.get(Key(SYSTEM, "trust_standing", "a")).body) | {"total": [9] * 10, "rounds": 4}
    memory.valid_journal.write("trust_standing", body=body, id="a", scope=SYSTEM)
    assert [finding.repairable for finding in trust.check()] == [True, True]
    assert trust.rebuild("a")
    assert trust.check() == []
    assert trust.standing("a") == before


@pytest.mark.requirement("TRU-3", "TRU-12")
def test_an_aggregate_of_an_earlier_version_is_recomputed_from_the_events(memory, clock, essay):
    trust = memory.trust
    for number in range(7):
        dissent(trust, "a", f"typo{number} here", impact=True)
    override(trust, "a")
    before = trust.score("a")
    body = dict(memory.journal.get(Key(SYSTEM, "trust_standing", "a")).body)
    body |= {name: body[name][:7] for name in ("today", "window", "total")} | {"initial": 0.6}
    del body["imported"]
    memory.valid_journal.write("trust_standing", body=body, id="a", scope=SYSTEM)
    assert trust.score("a") == before
    dissent(trust, "a", essay(), impact=True)
    assert trust.score("a") == trust.score("a", at=clock.now())
    assert trust.check() == []


@pytest.mark.requirement("TRU-3", "TRU-8")
@given(st.data())
def test_running_sums_agree_with_the_log_in_any_order_of_events(data):
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, embedder="hash") as memory:
        trust = memory.trust
        overrides = []
        for number in range(data.draw(st.integers(0, 12))):
            clock.advance(data.draw(st.sampled_from([0, 60, DAY, 45 * DAY, 100 * DAY])))
            match data.draw(st.sampled_from(["dissent", "late", "override", "revert", "judge", "round"])):
                case "dissent" | "late" as how:
                    when = clock.now() - timedelta(days=data.draw(st.integers(0, 200))) if how == "late" else None
                    text = " ".join(data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30)))
                    impact = data.draw(st.sampled_from([True, False, None]))
                    assert trust.log_dissent("x", text, impact=impact, of="y", timestamp=when)
                case "override":
                    overrides.append(override(trust, "x", decision=data.draw(st.sampled_from(["old", "new"]))))
                case "revert" if overrides:
                    trust.revert(data.draw(st.sampled_from(overrides)).id, by="ada")
                case "judge":
                    for record in memory.journal.read(Query(kinds=("dissent",), scopes=(SYSTEM,))):
                        if record.body["event"]["impact"] is None:
                            assert trust.judge(record.id, impact=True)
                            break
                case "round":
                    trust.participate("x", f"r{number % 3}")
        assert trust.check() == []
        assert trust.score("x") == trust.score("x", at=clock.now())
        before = trust.standing("x")
        if trust.agents():
            trust.rebuild("x")
            assert (
                trust.standing("x").advance_to(clock.now().date()).window
                == before.advance_to(clock.now().date()).window
            )
