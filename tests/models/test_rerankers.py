"""Rerankers: off unless named, three shapes of endpoint, a cross-encoder in a file, and recall without one that fails."""

import threading

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import lukasa
from lukasa.errors import InvalidInput, StoreUnavailable
from lukasa.models.reranker import open_reranker, scale_scores
from support.json_endpoint import JsonEndpoint, serve_endpoint
from support.narrow import present

FACTS = ("The heron fishes at dawn.", "The heron sleeps at noon.", "The heron is grey.")
QUESTION = "What does the heron do?"
RELEASED = threading.Event()
"""Lets the slow endpoint answer."""


class RerankEndpoint(JsonEndpoint):
    """A rerank API that prefers long texts; its model says how it fails."""

    def answer(self, request):
        model = request.get("model", "")
        if model == "broken":
            return None
        if model == "slow":
            RELEASED.wait(60)
        texts = request["texts"] if "texts" in request else request["documents"]
        field = "score" if "texts" in request else "relevance_score"
        rows = [{"index": index, field: (len(text) - 15) / 10} for index, text in enumerate(texts)]
        rows = rows[::-1][: 1 if model == "short" else None]
        return rows if "texts" in request else {"results": rows}


@pytest.fixture
def endpoint():
    with serve_endpoint(RerankEndpoint) as name:
        yield name


@pytest.fixture
def memory():
    with lukasa.open("memory:", embedder="hash") as opened:
        for fact in FACTS:
            opened.journal.write("note", fact)
        yield opened


def field(number, value):
    """Return a field of a protocol buffer: a number, or bytes."""
    if isinstance(value, int):
        return (
            bytes([number << 3 & 0x7F | (0x80 if number > 15 else 0)])
            + (bytes([number >> 4]) if number > 15 else b"")
            + bytes([value])
        )
    data = value.encode() if isinstance(value, str) else value
    head = bytes([number << 3 & 0x7F | 2 | (0x80 if number > 15 else 0)]) + (
        bytes([number >> 4]) if number > 15 else b""
    )
    size = len(data)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return head + length + data


def tensor(name, type):
    dims = field(1, field(2, "n")) + field(1, field(2, f"m{name}"))
    return field(1, name) + field(2, field(1, field(1, type) + field(2, dims)))


@pytest.fixture
def model_file(tmp_path):
    """A model whose score is the highest token id of question and text: the later in the vocabulary, the better."""
    cast = field(1, "input_ids") + field(2, "x") + field(4, "Cast")
    cast += field(5, field(1, "to") + field(3, 1) + field(20, 2))
    highest = field(1, "x") + field(2, "logits") + field(4, "ReduceMax")
    highest += field(5, field(1, "axes") + field(8, 1) + field(20, 7))
    graph = field(1, cast) + field(1, highest) + field(2, "g") + field(11, tensor("input_ids", 7))
    graph += field(12, tensor("logits", 1))
    file = tmp_path / "model.onnx"
    file.write_bytes(field(1, 6) + field(7, graph) + field(8, field(1, "") + field(2, 11)))
    vocabulary = {
        word: id
        for id, word in enumerate(
            ["[UNK]", "What", "does", "the", "heron", "do", "The", "at", "fishes", "dawn", "is", "grey"]
        )
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return file


@pytest.mark.requirement("RCL-11")
def test_no_reranker_is_used_unless_it_is_named(memory, monkeypatch):
    assert memory.recall.reranker is None
    assert open_reranker("none") is None
    monkeypatch.setenv("LUKASA_RERANKER", "http:http://127.0.0.1:9/v1#m")
    with lukasa.open("memory:", embedder="hash") as other:
        assert present(other.recall.reranker).name == "http:http://127.0.0.1:9/v1#m"
    for name in ("cohere", "onnx:/nowhere/model.onnx", "http:ftp://host#m"):
        with pytest.raises(InvalidInput):
            open_reranker(name)


@pytest.mark.requirement("RCL-11")
@pytest.mark.parametrize("model", ["#any", ""])
def test_an_endpoint_reorders_the_hits_and_is_explained(memory, endpoint, model):
    memory.recall.reranker = open_reranker(endpoint + model)
    answer = memory.recall(QUESTION)
    assert [len(hit.text) for hit in answer.hits] == sorted(map(len, FACTS), reverse=True)
    first = answer.hits[0]
    assert first.signals[-1].name == "reranker"
    assert sum(signal.share for signal in first.signals) == pytest.approx(first.score)
    assert "reranker" in first.why
    assert not answer.note


@pytest.mark.requirement("RCL-11")
@pytest.mark.parametrize("model", ["broken", "short"])
def test_without_the_scores_of_a_failed_endpoint_the_order_stays(memory, endpoint, model):
    expected = memory.recall(QUESTION).records
    memory.recall.reranker = open_reranker(f"{endpoint}#{model}")
    answer = memory.recall(QUESTION)
    assert answer.records == expected
    assert answer.note.endswith("The hits were not reranked.")


@pytest.mark.requirement("RCL-11")
def test_a_slow_endpoint_does_not_pass_the_deadline(memory, endpoint):
    memory.recall(QUESTION)
    memory.recall.reranker = open_reranker(f"{endpoint}#slow")
    answer = memory.recall(QUESTION, deadline=0.5)  # the endpoint answers only afterwards
    RELEASED.set()
    assert len(answer.hits) == 3
    assert "The reranker had not answered by the deadline. The hits were not reranked." in answer.note


@pytest.mark.requirement("RCL-11")
def test_a_cross_encoder_in_a_file_reorders_the_hits(memory, model_file):
    memory.recall.reranker = open_reranker(f"onnx:{model_file}")
    answer = memory.recall(QUESTION)
    assert [hit.text for hit in answer.hits[:2]] == [FACTS[2], FACTS[0]]
    assert not answer.note


@pytest.mark.requirement("RCL-11")
def test_a_file_that_is_no_model_leaves_the_order(memory, model_file):
    model_file.write_bytes(b"no model")
    memory.recall.reranker = open_reranker(f"onnx:{model_file}")
    answer = memory.recall(QUESTION)
    assert len(answer.hits) == 3
    assert "cannot be loaded" in answer.note


@pytest.mark.requirement("RCL-11")
def test_scores_are_scaled_to_one():
    assert scale_scores([0.1, 0.9]) == [0.1, 0.9]
    low, high = scale_scores([-3.0, 1000.0])
    assert 0 < low < 0.1 < high <= 1
    with pytest.raises(StoreUnavailable):
        scale_scores([float("nan")])
