"""The tokenizer of the static embedder: the tokens of the published one, for any text."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lukasa.models.embedders import static
from lukasa.models.embedders.llama_tokenizer import LlamaTokenizer

PUBLISHED_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
VOCABULARY = static._VOCABULARY.read_bytes().decode().split("\n")[:-1]
IDS = {token: id for id, token in enumerate(VOCABULARY)}
PARTS = [*VOCABULARY, *" ▁\n\t\r\0<>/0x9\u2028\u200b\u0301\ufeff\U0001f680", "<s>", "</s>", "<unk>", "<0x0A>", "   "]


def published_file() -> str:
    """Return the file of the published tokenizer, from the vocabulary and the rule by which its pairs merge."""

    def flags(id: int, content: str) -> dict:
        return {
            "id": id,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }

    pairs = [
        (token.endswith("▁"), id, IDS[token[:cut]], f"{token[:cut]} {token[cut:]}")
        for token, id in IDS.items()
        for cut in range(1, len(token))
        if token[:cut] in IDS and token[cut:] in IDS
    ]
    start, sequence = ({"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}})
    second = [{"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}]
    parts = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [flags(id, content) for id, content in enumerate(("<unk>", "<s>", "</s>"))],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, sequence],
            "pair": [start, sequence, *second],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": IDS,
            "merges": [pair for *_, pair in sorted(pairs)],
        },
    }
    return json.dumps(parts, indent=2, ensure_ascii=False) + "\n"


@pytest.fixture(scope="module")
def published():
    return Tokenizer.from_str(published_file())


@pytest.fixture(scope="module")
def tokenizer():
    return LlamaTokenizer(VOCABULARY)


def test_vocabulary_and_rule_give_the_published_file_to_the_byte():
    assert hashlib.sha256(published_file().encode()).hexdigest() == PUBLISHED_SHA256


def test_no_word_merges_with_the_next_one():
    assert {token for token in VOCABULARY if "▁" in token[1:] and token.strip("▁")} == set()
    assert not any(
        len(token) > 1 and not token.startswith("<0x") and set(token) & set("0123456789\n\t") for token in IDS
    )


def assert_equal_tokens(tokenizer, published, text):
    expected = published.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text, 10**9) == expected
    assert tokenizer.encode(text, 5) == expected[:5]


@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.lists(st.sampled_from(PARTS)).map("".join))
def test_any_text_has_the_tokens_of_the_published_tokenizer(tokenizer, published, text):
    assert_equal_tokens(tokenizer, published, text)


def test_many_texts_have_the_tokens_of_the_published_tokenizer(tokenizer, published):
    random_choice = random.Random(1)
    alphabets = [PARTS, [chr(number) for number in range(0xD800)], "abcdefghijklmnopqrstuvwxyz   ", " ▁a<s>", "x", " ="]
    for _ in range(300):
        for alphabet in alphabets:
            text = "".join(random_choice.choices(alphabet, k=random_choice.randrange(80)))
            assert_equal_tokens(tokenizer, published, text)


@pytest.mark.parametrize("text", ["x" * 30_000, "ab c" * 250_000, "日本語" * 100_000, "\n" * 100_000], ids=len)
def test_long_texts_have_the_tokens_of_the_published_tokenizer(tokenizer, published, text):
    assert_equal_tokens(tokenizer, published, text)


def test_every_token_that_can_be_a_word_is_one_token(tokenizer, published):
    words = [token for token in VOCABULARY if token not in ("<unk>", "<s>", "</s>") and not token.startswith("<0x")]
    encoded = [published.model.tokenize(word) for word in words]
    assert [[token.value for token in tokens] for tokens in encoded] == [[word] for word in words]
