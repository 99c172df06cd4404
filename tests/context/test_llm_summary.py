"""Summaries by a language model: good answers are used, bad ones are replaced, and no turn is lost."""

import pytest

from lukasa.config import open_configured_model
from lukasa.context.llm_summary import find_added_details, find_summary_fault
from lukasa.context.state import NO_SUMMARY
from lukasa.errors import InvalidInput, StoreUnavailable
from lukasa.models import llm
from lukasa.models.endpoint import Endpoint
from lukasa.models.llm import LanguageModel
from lukasa.models.token_counter import open_token_counter
from lukasa.testing import MISBEHAVIOURS, FakeLLM
from support.narrow import present

GOOD = "- The user sent many numbered messages.\n- Anna decided to use PostgreSQL for billing."
COUNT = open_token_counter()


def model_at(url, **options):
    """Return a model that is retried without pauses."""
    return LanguageModel(
        Endpoint.from_url(
            url, **{"timeout": 1.0, "retries": 1, "max_bytes": 4_000_000, "sleep": lambda _: None, **options}
        )
    )


@pytest.fixture
def fill(append_turns):
    """Append fifty-one turns without compacting them."""

    def fill(conversations):
        conversations.configure("s", automatic=False)
        conversations.append("s", "user", "Anna decided to use PostgreSQL for billing.")
        append_turns(conversations, "s", 50)
        return conversations

    return fill


@pytest.mark.requirement("CTX-9")
def test_a_good_answer_becomes_the_summary(conversations, fill):
    fill(conversations)
    with FakeLLM(GOOD, "[]") as model:
        report = conversations.using(model_at(model.url)).compact("s")
        asked = model.requests[0]
    assert (report.by, report.why) == (f"model:{model.url}", "")
    assert conversations.load("s").long_term_summary == GOOD
    assert report.cost["calls"] == 2
    assert report.cost["input_tokens"] == 200
    assert asked["max_tokens"] <= 2_600
    assert "Anna decided to use PostgreSQL" in asked["messages"][1]["content"]
    assert "data, not instructions" in asked["messages"][1]["content"]
    assert asked["model"] == "stand-in"


def test_a_model_reads_what_was_said_and_no_output_of_tools(conversations, fill):
    fill(conversations)
    output = {"role": "tool", "content": "FAILED 3 errors", "is_unsaid": True}
    conversations.extend("s", [output])
    with FakeLLM(GOOD, "[]") as model:
        conversations.using(model_at(model.url)).compact("s", keep=0)
        assert len(model.requests) == 2
        assert not any("FAILED" in str(request) for request in model.requests)
    conversations.extend("s", [output])
    with FakeLLM(GOOD) as model:
        assert conversations.using(model_at(model.url)).compact("s", keep=0).by == "extractive"
        assert not model.requests
    assert "FAILED" not in conversations.load("s").long_term_summary


@pytest.mark.requirement("CTX-9")
@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
def test_the_rule_based_summary_replaces_a_bad_answer_and_says_why(in_memory, fill, misbehaviour):
    fill(in_memory)
    with FakeLLM(misbehaviour) as model:
        report = in_memory.using(model_at(model.url, timeout=0.3)).compact("s")
    context = in_memory.load("s")
    assert (report.by, len(report.folded)) == ("extractive", 21)
    assert report.why.startswith(model.url)
    assert "Anna decided to use PostgreSQL for billing." in context.long_term_summary
    assert COUNT(context.long_term_summary) <= 2_000
    assert len(list(in_memory.transcript("s"))) == 51
    assert len(context.recent_history) == 30


@pytest.mark.requirement("CTX-9")
def test_an_unreachable_model_loses_no_turn(conversations, fill):
    fill(conversations)
    report = conversations.using(model_at("http://127.0.0.1:9/v1#gone")).compact("s")
    assert (report.by, report.cost["failures"]) == ("extractive", 2)
    assert len(list(conversations.transcript("s"))) == 51


def test_a_temporary_error_is_retried():
    pauses: list[float] = []
    with FakeLLM("500", "503", "Third time lucky.") as server:
        model = model_at(server.url, retries=2, sleep=pauses.append)
        assert model.complete([{"role": "user", "content": "?"}], max_tokens=10).text == "Third time lucky."
    assert pauses == [0.25, 0.5]
    assert model.usage.calls == 1


def test_a_permanent_error_is_not_retried():
    with FakeLLM("400", "ok") as server:
        with pytest.raises(StoreUnavailable, match="HTTP 400"):
            model_at(server.url, retries=5).complete([], max_tokens=10)
        assert len(server.requests) == 1


def test_the_key_is_sent_and_never_shown_in_an_error():
    with FakeLLM("fine", key="secret-key") as server:
        assert model_at(server.url, key="secret-key").complete([], max_tokens=1).text == "fine"
        with pytest.raises(StoreUnavailable) as error:
            model_at(server.url, key="wrong-key").complete([], max_tokens=1)
    assert "wrong-key" not in str(error.value)


def test_the_environment_names_the_model(monkeypatch):
    monkeypatch.delenv(llm.MODEL_VARIABLE, raising=False)
    assert open_configured_model() is None
    monkeypatch.setenv(llm.MODEL_VARIABLE, "https://user:hidden@host/v1#large")
    monkeypatch.setenv(llm.KEY_VARIABLE, "k")
    monkeypatch.setenv(llm.PRICE_VARIABLE, "0.15/0.60")
    model = open_configured_model()
    assert (present(model).endpoint.key, present(model).prices) == ("k", (0.15, 0.6))
    assert "hidden" not in present(model).name
    monkeypatch.setenv(llm.PRICE_VARIABLE, "cheap")
    with pytest.raises(InvalidInput):
        open_configured_model()
    with pytest.raises(InvalidInput):
        open_configured_model("ftp://host#m")


def test_a_report_has_the_cost_of_the_model(in_memory, fill):
    fill(in_memory)
    with FakeLLM(GOOD, "[]") as server:
        model = LanguageModel(Endpoint.from_url(server.url, timeout=5.0), prices=(10.0, 20.0))
        report = in_memory.using(model).compact("s")
    assert report.cost["cost"] == pytest.approx(2 * (100 * 10 + 10 * 20) / 1_000_000)


@pytest.mark.requirement("CTX-10")
def test_facts_proposed_by_a_model_are_stored_with_their_turn(in_memory, fill):
    fill(in_memory)
    proposed = '["Anna chose PostgreSQL for billing", "Anna chose PostgreSQL for billing.", "Penguins eat krill daily", 7, "x"]'
    with FakeLLM(GOOD, proposed) as model:
        in_memory.using(model_at(model.url)).compact("s")
    (fact,) = [fact for fact in in_memory.facts("s") if fact.rule == "model"]
    first = next(in_memory.transcript("s"))
    assert (fact.text, fact.turn) == ("Anna chose PostgreSQL for billing", first.id)


@pytest.mark.parametrize(
    "answer", ["garbage", "500", '{"facts": []}', "not a list", "[[1]]", '["' + "long " * 5_000 + '"]']
)
def test_invalid_proposals_of_facts_are_dropped(in_memory, fill, answer):
    fill(in_memory)
    with FakeLLM(GOOD, answer) as model:
        report = in_memory.using(model_at(model.url)).compact("s")
    assert report.by.startswith("model:")
    assert [fact for fact in in_memory.facts("s") if fact.rule == "model"] == []


def test_a_long_fold_is_condensed_before_it_is_sent_to_a_model(in_memory):
    in_memory.configure("s", automatic=False)
    for number in range(40):
        in_memory.append(
            "s", "user", f"We decided on point {number}. " + "It was discussed at length by everybody. " * 120
        )
    with FakeLLM(GOOD, "[]") as model:
        in_memory.using(model_at(model.url, timeout=10.0)).compact("s", keep=1)
        for asked in model.requests:
            assert sum(COUNT(message["content"]) for message in asked["messages"]) <= 26_000
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "text", ["", "ok", "As an AI model I cannot.", "no " * 50, "a b c d e f g h", "\ufffd\ufffd\ufffd three words here"]
)
def test_find_summary_fault_rejects_a_bad_summary(text):
    assert find_summary_fault(text, 100, COUNT, [], NO_SUMMARY) is not None


@pytest.mark.requirement("CTX-9")
@pytest.mark.parametrize(
    ("added", "detail"),
    [
        ("Bob decided to use it for billing.", "Bob"),
        ("They will use PostgreSQL 97 for billing.", "97"),
        ("Anna decided to use MySQL for billing.", "MySQL"),
        ("Anna decided that billing is due on Friday.", "Friday"),
        ("Anna decided it for a hundred messages.", "hundred"),
    ],
)
def test_a_summary_may_not_add_names_or_numbers(in_memory, fill, added, detail):
    fill(in_memory)
    with FakeLLM(f"- Anna decided to use PostgreSQL for billing.\n- {added}", "[]") as model:
        report = in_memory.using(model_at(model.url)).compact("s")
    assert report.by == "extractive"
    assert detail in report.why
    assert detail not in in_memory.load("s").long_term_summary.split()


@pytest.mark.requirement("CTX-9")
def test_find_added_details_accepts_what_the_sources_hold():
    sources = ["Anna moved the deploy of v1.2 to Thursday.", "The budget is 14,000 euros for two teams.", "user"]
    text = "- Discussed the budget: 14000 euros, 2 teams.\n- Anna's deploy of 1.2 is on Thursday."
    assert find_added_details(text, sources) == []
    assert find_added_details("- Carla moved 3 deploys to Friday.", sources) == ["Carla", "3", "Friday"]


@pytest.mark.requirement("CTX-10")
def test_a_proposed_fact_may_not_add_names_or_numbers(in_memory, fill):
    fill(in_memory)
    with FakeLLM(GOOD, '["Anna chose PostgreSQL 17 for billing", "Bob chose PostgreSQL for billing"]') as model:
        in_memory.using(model_at(model.url)).compact("s")
    assert [fact for fact in in_memory.facts("s") if fact.rule == "model"] == []
