"""The tokenizer of the static embedder: the tokens that BERT's own gives, for any text."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.models.embedders.minilm import build_tokenizer, read_vocabulary
from lukasa.models.embedders.word_pieces import WordPieceTokenizer

VOCABULARY = read_vocabulary()
UNKNOWN = VOCABULARY.index("[UNK]")
PLAIN_PIECES = [piece.removeprefix("##") for piece in VOCABULARY if not piece.startswith("[")]
PARTS = [*PLAIN_PIECES, *" \n\t\r\0.,'_-É\u2028\u200b\u0301\ufeff\ufffd\U0001f680", "   "]


def is_long_known(character: str) -> bool:
    """Tell whether a character is as old as Unicode 3.2: versions of Python and of ``tokenizers`` know different later ones."""
    return unicodedata.ucd_3_2_0.category(character) == unicodedata.category(character) != "Cs" and character != "Σ"


CHARACTERS = st.characters(exclude_categories=["Cs", "Cn"]).filter(is_long_known)


@pytest.fixture(scope="module")
def published():
    tokenizer = build_tokenizer()
    tokenizer.no_truncation()
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCABULARY)


def assert_equal_tokens(tokenizer, published, text):
    expected = [id for id in published.encode(text, add_special_tokens=False).ids if id != UNKNOWN]
    assert tokenizer.encode(text, 10**9) == expected
    assert tokenizer.encode(text, 5) == expected[:5]


@given(text=st.text(CHARACTERS) | st.lists(st.sampled_from(PARTS)).map("".join))
def test_any_text_has_the_tokens_of_bert(tokenizer, published, text):
    assert_equal_tokens(tokenizer, published, text)


def test_many_texts_have_the_tokens_of_bert(tokenizer, published):
    random_choice = random.Random(1)
    scripts = [
        [chr(number) for number in range(start, start + 0x300) if is_long_known(chr(number))]
        for start in range(0, 0xD800, 0x300)
    ]
    for alphabet in [PARTS, "abcdefghijklmnopqrstuvwxyz   ", " .a'", "x", *filter(None, scripts)]:
        for _ in range(20):
            text = "".join(random_choice.choices(alphabet, k=random_choice.randrange(150)))
            assert_equal_tokens(tokenizer, published, text)


@pytest.mark.parametrize(
    "text", ["x" * 30_000, "ab c" * 250_000, "日本語" * 100_000, "é" * 101, "\n" * 100_000], ids=len
)
def test_long_texts_have_the_tokens_of_bert(tokenizer, published, text):
    assert_equal_tokens(tokenizer, published, text)


def test_a_word_without_known_pieces_has_no_token(tokenizer):
    assert tokenizer.encode("\U0001f680 ሰላም", 9) == []
    assert [VOCABULARY[id] for id in tokenizer.encode("Naïve \U0001f680 ŽLUŤ, unaffable", 20)] == [
        "naive", "z", "##lu", "##t", ",", "una", "##ffa", "##ble",
    ]  # fmt: skip
