"""The document's functions, copied from its text, and the service compared with them on events at random."""

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa.testing import FrozenClock
from support.narrow import present

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def dissent_depth(text, citations, similarities):
    """Return the depth as in section 4.1; ``similarities`` are the cosines to the agent's past dissents."""
    base = min(len(text.split()) / 50, 1.0)
    citation_bonus = min(len(citations) * 0.2, 0.5)
    novelty = 0.0
    if similarities:
        novelty = 1 - max(similarities)
    return min(base + citation_bonus + novelty, 2.0)


def trust_score(dissents, overrides, now):
    """Return the formula of section 4, over 90 days or, with fewer than five events there, over all history."""

    def recent(events):
        window = [event for event in events if event[0].date() >= (now - timedelta(days=90)).date()]
        return window if len(window) >= 5 else events

    if not dissents and not overrides:
        return 0.6
    dissents, overrides = recent(dissents), recent(overrides)
    impact_ratio = sum(impact for _, impact, _ in dissents) / len(dissents) if dissents else 0.0
    avg_dissent_depth = sum(depth for _, _, depth in dissents) / len(dissents) if dissents else 0.0
    regret_ratio = sum(regret for _, regret in overrides) / len(overrides) if overrides else 0.0
    score = 0.4 * impact_ratio + 0.3 * avg_dissent_depth + 0.3 * (1 - regret_ratio)
    return min(max(score, 0.0), 1.0)


def assign_devils_advocate(candidates, rng):
    """Draw as in section 5.1."""
    viable = [
        agent
        for agent in candidates
        if agent.get("trust_score", 0.6) > 0.2 and agent.get("rounds_participated", 0) >= 5
    ]
    if not viable:
        viable = candidates
    weights = [agent.get("trust_score", 0.6) for agent in viable]
    return rng.choices(viable, weights=weights, k=1)[0]


def check_reverts(overrides, round_id, final_output, now):
    """Mark overrides as in section 6."""
    for override in overrides:
        if (
            override["round_id"] == round_id
            and override["human_decision"] != final_output
            and now > datetime.fromisoformat(override["auto_check_deadline"])
        ):
            override["regret"] = True
            override["reverted_by"] = "system"


@pytest.mark.requirement("TRU-2")
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=70), st.lists(st.sampled_from("ABCD"), max_size=4)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_depth_is_the_documents(dissents):
    with lukasa.open("memory:", clock=FrozenClock(), embedder="hash") as memory:
        embed = memory.recall.index.embedder.embedder.embed
        past: list[Any] = []
        for words, citations in dissents:
            text = " ".join(words)
            (vector,) = embed([text])
            logged = memory.trust.log_dissent("a", text, rubric_citations=citations, impact=True).unwrap_all()[0]
            expected = dissent_depth(text, citations, [float(vector @ other) for other in past])
            assert logged.body["event"]["depth_score"] == pytest.approx(expected, abs=2e-3)
            assert memory.trust.dissent_depth(text, citations) == pytest.approx(dissent_depth(text, citations, []))
            past.append(vector)


@pytest.mark.requirement("TRU-3")
@given(st.data())
def test_trust_score_is_the_documents_formula_whatever_the_rules_do(data):
    """Use texts, citations and objects of dissent that set off every rule."""
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, embedder="hash") as memory:
        trust, dissents, overrides = memory.trust, [], []
        for number in range(data.draw(st.integers(0, 25))):
            clock.advance(data.draw(st.sampled_from([0, 86_400, 10 * 86_400, 50 * 86_400])))
            if data.draw(st.integers(0, 2)):
                words = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=15))
                cited, impact = ["A"] * data.draw(st.integers(0, 3)), data.draw(st.booleans())
                of = data.draw(st.sampled_from(["", "a", "b"]))
                logged = trust.log_dissent(
                    "a", " ".join(words), rubric_citations=cited, impact=impact, of=of, round_id="r"
                )
                dissents.append((clock.now(), impact, logged.unwrap_all()[0].body["event"]["depth_score"]))
            else:
                override = trust.log_override("a", "x", f"y{number}").unwrap_all()[0]
                regret = data.draw(st.booleans())
                if regret:
                    trust.revert(override.id, by="ada")
                overrides.append((clock.now(), regret))
            expected = trust_score(dissents, overrides, clock.now())
            assert trust.score("a").trust == pytest.approx(expected, abs=1e-9)
            assert trust.agent("a").trust_score == trust.score("a").trust
        clock.advance(data.draw(st.integers(0, 200)) * 86_400)
        assert trust.score("a").trust == pytest.approx(trust_score(dissents, overrides, clock.now()), abs=1e-9)


@pytest.mark.requirement("TRU-3")
def test_the_worked_numbers_of_the_document():
    with lukasa.open("memory:", clock=FrozenClock(), embedder="hash") as memory:
        fifty = " ".join(f"word{number}" for number in range(50))
        logged = memory.trust.log_dissent("a", fifty, rubric_citations=["Accuracy", "Completeness"], impact=True)
        assert logged.unwrap_all()[0].body["event"]["depth_score"] == 1.4
        assert memory.trust.score("a").raw == pytest.approx(0.4 + 0.3 * 1.4 + 0.3)
        assert memory.trust.score("nobody").trust == 0.6


@pytest.mark.requirement("TRU-4", "TRU-5")
@given(st.data())
def test_the_devils_advocate_is_drawn_as_in_the_document(data):
    with lukasa.open("memory:", clock=FrozenClock(), embedder="hash") as memory:
        trust, names = memory.trust, ["a", "b", "c", "d"]
        for name in names:
            for number in range(data.draw(st.sampled_from([0, 4, 5, 6]))):
                trust.participate(name, f"round-{number}")
            match data.draw(st.sampled_from(["new", "low", "high"])):
                case "low":
                    trust.revert(trust.log_override(name, "x", "y").unwrap_all()[0].id, by="ada")
                    trust.log_dissent(name, "no", impact=False)
                case "high":
                    trust.log_dissent(name, "a thorough objection", impact=True)
        candidates = [
            {
                "name": name,
                "trust_score": trust.agent(name).trust_score,
                "rounds_participated": trust.standing(name).rounds,
            }
            for name in names
        ]
        for seed in range(5):
            expected = assign_devils_advocate(candidates, random.Random(seed))
            assert present(trust.assign_devils_advocate(names, seed=seed)).chosen == expected["name"]


@pytest.mark.requirement("TRU-6")
@given(st.data())
def test_reverts_are_inferred_as_in_the_document(data):
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, embedder="hash") as memory:
        rounds, outputs = st.sampled_from(["r1", "r2"]), st.sampled_from(["x", "y", "z"])
        expected = []
        for _ in range(data.draw(st.integers(1, 8))):
            clock.advance(data.draw(st.sampled_from([0, 3_600, 86_400, 30 * 86_400])))
            if data.draw(st.booleans()):
                round_id, decision = data.draw(rounds), data.draw(outputs)
                memory.trust.log_override("a", "agent's", decision, round_id=round_id)
                deadline = (clock.now() + timedelta(hours=24)).isoformat()
                expected.append({
                    "round_id": round_id, "human_decision": decision, "regret": False, "reverted_by": None,
                    "auto_check_deadline": deadline,
                })  # fmt: skip
            else:
                round_id, output = data.draw(rounds), data.draw(outputs)
                memory.trust.check_reverts(round_id, output)
                check_reverts(expected, round_id, output, clock.now())
        names = ("round_id", "human_decision", "regret", "reverted_by")
        found = [event.body for event in memory.trust.agent("a").override_history]
        assert sorted(str([event[name] for name in names]) for event in found) == sorted(
            str([event[name] for name in names]) for event in expected
        )
