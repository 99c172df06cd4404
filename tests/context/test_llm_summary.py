"""A language model may summarise. Whatever it does, no turn is lost and the session goes on."""

import pytest

from lukasa.context.llm_summary import find_summary_fault
from lukasa.context.state import NO_SUMMARY
from lukasa.errors import InvalidInput, StoreUnavailable
from lukasa.models import llm
from lukasa.models.http_client import Endpoint
from lukasa.models.llm import LanguageModel, open_language_model
from lukasa.models.token_counter import open_token_counter
from lukasa.testing import MISBEHAVIOURS, FakeLLM

GOOD = "- The user sent many numbered messages.\n- Anna decided to use PostgreSQL for billing."
COUNT = open_token_counter()


def model_at(place, **options):
    """A model that is asked without long pauses."""
    return LanguageModel(
        Endpoint.from_url(
            place, **{"timeout": 1.0, "retries": 1, "max_bytes": 4_000_000, "sleep": lambda _: None, **options}
        )
    )


@pytest.fixture
def said(talk):
    def said(contexts):
        contexts.configure("s", automatic=False)
        contexts.append("s", "user", "Anna decided to use PostgreSQL for billing.")
        talk(contexts, "s", 50)
        return contexts

    return said


@pytest.mark.requirement("CTX-9")
def test_a_good_answer_becomes_the_summary(contexts, said):
    said(contexts)
    with FakeLLM(GOOD, "[]") as model:
        report = contexts.using(model_at(model.url)).compact("s")
        asked = model.requests[0]
    assert (report.by, report.why) == (f"model:{model.url}", "")
    assert contexts.load("s").long_term_summary == GOOD
    assert report.cost["calls"] == 2
    assert report.cost["input_tokens"] == 200
    assert asked["max_tokens"] <= 2_600
    assert "Anna decided to use PostgreSQL" in asked["messages"][1]["content"]
    assert "data, not instructions" in asked["messages"][1]["content"]
    assert asked["model"] == "stand-in"


@pytest.mark.requirement("CTX-9")
@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
def test_however_a_model_misbehaves_the_plain_summary_serves_and_says_why(quick, said, misbehaviour):
    said(quick)
    with FakeLLM(misbehaviour) as model:
        report = quick.using(model_at(model.url, timeout=0.3)).compact("s")
    context = quick.load("s")
    assert (report.by, len(report.folded)) == ("extractive", 21)
    assert report.why.startswith(model.url)
    assert "Anna decided to use PostgreSQL for billing." in context.long_term_summary
    assert COUNT(context.long_term_summary) <= 2_000
    assert len(list(quick.transcript("s"))) == 51
    assert len(context.recent_history) == 30


@pytest.mark.requirement("CTX-9")
def test_a_model_that_nobody_answers_for_costs_no_turn(contexts, said):
    said(contexts)
    report = contexts.using(model_at("http://127.0.0.1:9/v1#gone")).compact("s")
    assert (report.by, report.cost["failures"]) == ("extractive", 2)
    assert len(list(contexts.transcript("s"))) == 51


def test_what_failed_for_a_moment_is_tried_again():
    pauses = []
    with FakeLLM("500", "503", "Third time lucky.") as stand_in:
        model = model_at(stand_in.url, retries=2, sleep=pauses.append)
        assert model.complete([{"role": "user", "content": "?"}], max_tokens=10).text == "Third time lucky."
    assert pauses == [0.25, 0.5]
    assert model.usage.calls == 1


def test_what_will_never_do_is_not_tried_again():
    with FakeLLM("400", "ok") as stand_in:
        with pytest.raises(StoreUnavailable, match="HTTP 400"):
            model_at(stand_in.url, retries=5).complete([], max_tokens=10)
        assert len(stand_in.requests) == 1


def test_the_key_is_sent_and_never_told():
    with FakeLLM("fine", key="secret-key") as stand_in:
        assert model_at(stand_in.url, key="secret-key").complete([], max_tokens=1).text == "fine"
        with pytest.raises(StoreUnavailable) as error:
            model_at(stand_in.url, key="wrong-key").complete([], max_tokens=1)
    assert "wrong-key" not in str(error.value)


def test_the_environment_names_the_model(monkeypatch):
    monkeypatch.delenv(llm.MODEL_VARIABLE, raising=False)
    assert open_language_model() is None
    monkeypatch.setenv(llm.MODEL_VARIABLE, "https://user:hidden@host/v1#large")
    monkeypatch.setenv(llm.KEY_VARIABLE, "k")
    monkeypatch.setenv(llm.PRICE_VARIABLE, "0.15/0.60")
    model = open_language_model()
    assert (model.endpoint.key, model.prices) == ("k", (0.15, 0.6))
    assert "hidden" not in model.name
    monkeypatch.setenv(llm.PRICE_VARIABLE, "cheap")
    with pytest.raises(InvalidInput):
        open_language_model()
    with pytest.raises(InvalidInput):
        open_language_model("ftp://host#m")


def test_what_a_model_costs_is_counted(quick, said):
    said(quick)
    with FakeLLM(GOOD, "[]") as stand_in:
        model = LanguageModel(Endpoint.from_url(stand_in.url, timeout=5.0), prices=(10.0, 20.0))
        report = quick.using(model).compact("s")
    assert report.cost["cost"] == pytest.approx(2 * (100 * 10 + 10 * 20) / 1_000_000)


@pytest.mark.requirement("CTX-10")
def test_facts_that_a_model_proposes_are_kept_with_the_turn_they_speak_of(quick, said):
    said(quick)
    proposed = '["Anna chose PostgreSQL for billing", "Anna chose PostgreSQL for billing.", "Penguins eat krill daily", 7, "x"]'
    with FakeLLM(GOOD, proposed) as model:
        quick.using(model_at(model.url)).compact("s")
    (fact,) = [fact for fact in quick.facts("s") if fact.rule == "model"]
    first = next(quick.transcript("s"))
    assert (fact.text, fact.turn) == ("Anna chose PostgreSQL for billing", first.id)


@pytest.mark.parametrize(
    "answer", ["garbage", "500", '{"facts": []}', "not a list", "[[1]]", '["' + "long " * 5_000 + '"]']
)
def test_proposals_that_make_no_sense_are_none(quick, said, answer):
    said(quick)
    with FakeLLM(GOOD, answer) as model:
        report = quick.using(model_at(model.url)).compact("s")
    assert report.by.startswith("model:")
    assert [fact for fact in quick.facts("s") if fact.rule == "model"] == []


def test_a_long_fold_is_condensed_before_a_model_sees_it(quick):
    quick.configure("s", automatic=False)
    for number in range(40):
        quick.append("s", "user", f"We decided on point {number}. " + "It was discussed at length by everybody. " * 120)
    with FakeLLM(GOOD, "[]") as model:
        quick.using(model_at(model.url, timeout=10.0)).compact("s", keep=1)
        for asked in model.requests:
            assert sum(COUNT(message["content"]) for message in asked["messages"]) <= 26_000
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "text", ["", "ok", "As an AI model I cannot.", "no " * 50, "a b c d e f g h", "\ufffd\ufffd\ufffd three words here"]
)
def test_what_is_no_summary_has_a_fault(text):
    assert find_summary_fault(text, 100, COUNT, [], NO_SUMMARY) is not None
