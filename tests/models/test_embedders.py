"""Embedders: near meanings get near vectors, offline, for any text."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lukasa
from lukasa import config
from lukasa.errors import InvalidInput, StoreError, StoreUnavailable
from lukasa.models.embedder import read_model_file
from lukasa.models.embedders import (
    EMBEDDER_KEY_VARIABLE,
    EMBEDDER_VARIABLE,
    best_installed_embedder,
    minilm,
    open_embedder,
    static,
)
from lukasa.models.embedders.minilm import build_tokenizer
from support.json_endpoint import JsonEndpoint, serve_endpoint

RECORDED = Path(__file__).with_name("recorded_vectors.npy")
"""Vectors of the texts in ``recorded_vectors.json``, made by the static embedder when its vectors were published."""
OFFLINE = ("minilm", "static", "hash")
ODD = ["", " ", "\0", "\ud800 half", "\U0001f680", "x" * 100_000, "word " * 5_000, "\u202e", "日本語のテキスト"]


@pytest.fixture(scope="module", params=OFFLINE)
def embedder(request):
    return open_embedder(request.param)


@pytest.mark.parametrize("name", ["minilm", "static"])
def test_texts_of_the_same_meaning_are_nearer_than_others(name):
    text, same, other = open_embedder(name).embed(
        ["She adopted a puppy last week", "A young dog has a new home with her", "The tax form is due in April"]
    )
    assert text @ same > text @ other + 0.1


def test_the_tokenizer_of_minilm_gives_the_tokens_of_bert_uncased():
    tokenizer = build_tokenizer()
    texts = ["Naïve ŽLUŤ [MASK] deploys, 3.14", "会議 \U0001f680 unaffable", "", "x" * 500, "word " * 500]
    ids = [tokenizer.encode(text).ids for text in texts]
    assert ids[0] == [101, 15743, 1062, 7630, 2102, 103, 21296, 2015, 1010, 1017, 1012, 2403, 102]
    assert ids[1] == [101, 1763, 100, 100, 14477, 20961, 3468, 102]
    assert ids[2:4] == [[101, 102], [101, 100, 102]]
    assert len(ids[4]) == 256


@pytest.mark.parametrize(("module", "constant"), [(minilm, "_VOCABULARY"), (static, "CHECKSUMS"), (static, "VECTORS")])
def test_a_model_file_that_is_altered_or_missing_is_refused(module, constant, tmp_path, monkeypatch):
    original = getattr(module, constant)
    altered = tmp_path / original.name
    monkeypatch.setattr(module, constant, altered)
    embedder = open_embedder(module.__name__.rpartition(".")[2])
    with pytest.raises(StoreError, match="not the model file that was published"):
        embedder.embed(["a text"])
    data = bytearray(original.read_bytes())
    for position in range(100, len(data), 4096):
        data[position] ^= 1
    altered.write_bytes(data)
    with pytest.raises(StoreError, match="not the model file that was published"):
        embedder.embed(["a text"])


def test_another_file_than_the_published_model_of_minilm_is_refused(tmp_path):
    embedder = minilm.MiniLMEmbedder()
    embedder._model_file = tmp_path / "model.onnx"
    embedder._model_file.write_bytes(b"model")
    with pytest.raises(StoreError, match="not the model file that was published"):
        embedder.embed(["a text"])


def test_only_the_vectors_of_the_words_of_a_text_are_read_and_checked():
    embedder = static.StaticEmbedder()
    embedder.embed(["The office moved to Lisbon."])
    assert 0 < len(embedder._checked) < 12
    blocks = len(static.CHECKSUMS.read_bytes()) // 32
    embedder._check_blocks(set(range(blocks)))
    assert len(embedder._checked) == blocks == -(-len(minilm.read_vocabulary()) // static.BLOCK_TOKENS)


def test_vectors_that_were_made_before_stay_valid():
    texts = json.loads(RECORDED.with_suffix(".json").read_text("utf-8"))
    assert static.StaticEmbedder().embed(texts) == pytest.approx(np.load(RECORDED), abs=1e-6)


def test_a_model_file_that_changes_while_the_process_runs_is_refused_whatever_its_time_says(tmp_path):
    file = tmp_path / "model"
    file.write_bytes(b"one")
    sha256 = hashlib.sha256(b"one").hexdigest()
    assert read_model_file(file, sha256) == b"one"
    facts = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(StoreError):
        read_model_file(file, sha256)


def test_vectors_are_unit_vectors_of_the_stated_length(embedder):
    vectors = embedder.embed(["a short text", "quite another one"])
    assert vectors.shape == (2, embedder.length)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)


def test_a_text_has_the_same_vector_alone_and_in_a_batch(embedder):
    alone = embedder.embed(["the build is green"])
    batch = embedder.embed(["x", "the build is green", "a much longer text " * 20])
    assert batch[1] == pytest.approx(alone[0], abs=0.02)  # eight bits round differently in a batch


def test_any_text_gets_a_vector(embedder):
    vectors = embedder.embed(ODD)
    assert vectors.shape == (len(ODD), embedder.length)
    assert np.isfinite(vectors).all()
    assert embedder.embed([]).shape[0] == 0


def test_embedders_load_without_a_network():
    code = """
import socket
def refuse(*_, **__):
    raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from lukasa.models.embedders import open_embedder
for name in ("minilm", "static", "hash"):
    assert open_embedder(name).embed(["hello"]).any(), name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_lukasa_loads_neither_numpy_nor_a_model():
    code = "import sys, lukasa; assert not {'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_environment_names_the_embedder_of_a_new_store_and_its_key(monkeypatch):
    assert best_installed_embedder() == "minilm"
    monkeypatch.delenv(EMBEDDER_VARIABLE, raising=False)
    monkeypatch.delenv(EMBEDDER_KEY_VARIABLE, raising=False)
    assert (config.embedder_name(), config.embedder_key()) == (None, "")
    monkeypatch.setenv(EMBEDDER_VARIABLE, "hash")
    monkeypatch.setenv(EMBEDDER_KEY_VARIABLE, "k")
    assert (config.embedder_name(), config.embedder_key()) == ("hash", "k")
    with lukasa.open("memory:") as memory:
        assert memory.recall.index.embedder.embedder.name == "hash-64"


@pytest.mark.parametrize("name", ["nonsense", "http:", "http:ftp://host#m", "http:https://host/v1"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(InvalidInput):
        open_embedder(name)


class EmbeddingEndpoint(JsonEndpoint):
    """An embeddings API whose vectors hold the length of each text, in reverse order."""

    def answer(self, request):
        if request["model"] == "broken":
            return None
        rows = [{"index": index, "embedding": [len(text), 1.0]} for index, text in enumerate(request["input"])]
        return {"data": rows[::-1]}


@pytest.fixture
def endpoint():
    with serve_endpoint(EmbeddingEndpoint) as name:
        yield name


def test_a_compatible_endpoint_is_an_embedder(endpoint):
    embedder = open_embedder(f"{endpoint}#any")
    assert embedder.length == 2
    assert embedder.name.endswith("#any")
    vectors = embedder.embed(["x" * number for number in range(1, 100)])
    assert vectors[3] == pytest.approx(np.array([4, 1]) / np.sqrt(17))


def test_a_failing_endpoint_raises_store_unavailable(endpoint):
    with pytest.raises(StoreUnavailable, match="gave no vectors"):
        open_embedder(f"{endpoint}#broken").embed(["x"])
