"""Terms: searching a folded text for a term finds the words that the text index finds."""

import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.recall.signals import MAX_PART_LENGTH, MAX_WHOLE_LENGTH, lead_passage
from lukasa.text.lexicon import STOP_WORDS_EXCEPT_NEGATIONS
from lukasa.text.terms import (
    _idle_tokenizers,
    extract_keywords,
    find_related_offsets,
    find_term_offsets,
    first_content_word,
    fold_text,
    is_prefix_term,
    list_content_words,
    stem_word,
    terms_from_words,
    to_index_form,
    to_phrase,
    tokenize_phrase,
    tokenize_text,
)

WORDS = st.sampled_from(
    """happy key days buying use ties is ski happily happiness hoping hopped hope files filing relate relational ponies pony
    argue arguing argued activity possibly possibility running ran runs die dying caresses agreed plastered sky skies générale
    Ärzte naïve x 42 новый ёлка Οδός σκύλος दिल्ली बैठक शहर الخميس مُحَمَّد שָׁלוֹם वि विद्या""".split()  # noqa: SIM905 - a list of words reads best as words
)


@given(st.lists(WORDS, min_size=1, max_size=20), st.sampled_from([" ", ", ", "-", "_", "\n"]), WORDS)
def test_a_term_is_found_wherever_the_text_index_finds_it(words, separator, asked):
    text = separator.join(words)
    (term,) = tokenize_text(asked)
    assert len(find_term_offsets(fold_text(text), term)) == tokenize_text(text).count(term)


FAMILIES = (
    "health healthy healthier",
    "friend friendship friends",
    "create creation created",
    "write writer writing",
    "therapy therapist therapies",
)
RELATIVES = st.sampled_from([*" ".join(FAMILIES).split(), "car", "caramel", "show", "shower", "crest", "the", "42"])


@pytest.mark.parametrize("family", FAMILIES)
def test_words_that_differ_in_a_suffix_are_found_by_each_other(family):
    for word in family.split():
        assert len(find_related_offsets(family, stem_word(word))) == len(family.split())


@pytest.mark.parametrize(
    ("asked", "text"), [("car", "caramel"), ("show", "shower"), ("store", "story"), ("planet", "planning"), ("1", "10")]
)
def test_words_that_only_begin_alike_are_not_related(asked, text):
    assert not find_related_offsets(text, stem_word(asked))


@given(RELATIVES, RELATIVES)
def test_the_relation_of_two_words_has_no_direction(one, other):
    assert bool(find_related_offsets(one, stem_word(other))) == bool(find_related_offsets(other, stem_word(one)))


@given(st.lists(WORDS | RELATIVES, min_size=1, max_size=20), WORDS | RELATIVES)
def test_related_words_are_found_word_by_word_and_the_term_is_one_of_them(words, asked):
    (term,) = tokenize_text(asked)
    folded = [fold_text(word) for word in words]
    found = find_related_offsets(" ".join(folded), term)
    starts = [sum(len(word) + 1 for word in folded[:place]) for place in range(len(folded))]
    assert found == [start for start, word in zip(starts, folded, strict=True) if find_related_offsets(word, term)]
    assert set(find_term_offsets(" ".join(folded), term)) <= set(found)


def test_keywords_leave_out_stop_words():
    assert extract_keywords("What's the colour of Amara's boat, and don't you know when?") == [
        "colour",
        "Amara",
        "boat",
        "know",
    ]


@given(st.text(max_size=50))
def test_any_text_can_be_folded_and_stemmed(text):
    assert isinstance(fold_text(text), str)
    assert isinstance(stem_word(text), str)


@given(st.text(st.characters(max_codepoint=0xFF), max_size=60))
def test_letters_of_western_europe_are_folded_as_unicode_defines_it(text):
    parts = unicodedata.normalize("NFD", text)
    folded = "".join(letter for letter in parts if not unicodedata.combining(letter)).lower()
    assert fold_text(text) == unicodedata.normalize("NFC", folded)
    assert to_index_form(text) == (text if text.isascii() else fold_text(text))
    assert fold_text(text + "\u03a9").removesuffix("\u03c9") == fold_text(text)


def test_the_lead_passage_of_a_long_text_ends_with_a_sentence():
    text = "The first sentence is here. " * 40
    assert lead_passage(text).endswith("here.")
    assert MAX_PART_LENGTH - 40 < len(lead_passage(text)) <= MAX_PART_LENGTH


@given(st.text(max_size=3 * MAX_WHOLE_LENGTH))
def test_a_lead_passage_is_never_too_long_and_begins_its_text(text):
    assert len(lead_passage(text)) <= MAX_WHOLE_LENGTH
    assert text.strip().startswith(lead_passage(text).strip())


UNSPACED = st.text(
    st.sampled_from("部署方案改了会議明日はをでのカタカナー々배포를내일에서データ")
    | st.sampled_from("การประชุมที่นี่วันศุกร์ກາມြန်មា"),
    min_size=1,
    max_size=12,
)
PARTS = st.one_of(UNSPACED, WORDS, st.sampled_from([" ", "、", "。", "-", "…", "API", "3"]))


@pytest.mark.requirement("RCL-10")
@given(st.lists(PARTS, min_size=1, max_size=8).map("".join), st.data())
def test_every_piece_of_a_text_without_spaces_is_found_in_it(text, data):
    text = unicodedata.normalize("NFC", text)
    letters = [place for place, letter in enumerate(text) if is_prefix_term(letter)]
    if not letters:
        return
    start = data.draw(st.sampled_from(letters))
    end = start
    while end < len(text) and end < start + 4 and is_prefix_term(text[end]):
        end += 1
    piece = text[start : data.draw(st.integers(start + 1, end))]
    tokens, phrase = tokenize_text(text), to_phrase(piece)
    wanted = tokenize_phrase(phrase)
    assert any(
        tokens[place : place + len(wanted) - 1] == wanted[:-1]
        and (
            tokens[place + len(wanted) - 1].startswith(wanted[-1])
            if phrase.is_prefix
            else tokens[place + len(wanted) - 1] == wanted[-1]
        )
        for place in range(len(tokens) - len(wanted) + 1)
    )
    terms = terms_from_words(extract_keywords(piece))
    assert terms
    for term in terms:
        assert find_term_offsets(fold_text(text), term)
        assert any(token.startswith(term) if is_prefix_term(term) else token == term for token in tokens)


@pytest.mark.requirement("RCL-10")
@given(st.lists(PARTS, min_size=1, max_size=8).map("".join))
def test_terms_are_found_as_often_as_the_text_index_has_them(text):
    tokens = tokenize_text(text)
    for term in set(terms_from_words(extract_keywords(text))):
        count = sum(token.startswith(term) if is_prefix_term(term) else token == term for token in tokens)
        assert len(find_term_offsets(fold_text(text), term)) == count


@given(st.text(max_size=50))
def test_the_index_form_of_a_text_has_the_tokens_of_the_text(text):
    assert tokenize_text(to_index_form(text)) == tokenize_text(text) or not to_index_form(text).isascii()
    assert fold_text(fold_text(text)) == fold_text(text)


@pytest.mark.requirement("RCL-10")
@pytest.mark.parametrize(
    ("question", "keywords"),
    [
        ("部署方案是什么？", ["部署", "署方", "方案", "案是", "是什", "什么"]),
        ("会議はいつですか", ["会議"]),
        ("りんごを食べた", ["食", "食べ", "りん", "んご"]),
        ("배포를 언제 하나요?", ["배포", "언제", "하나", "나요"]),
        ("issue化の予定", ["issue", "化", "化の", "予定"]),
        ("ประชุม", ["ประ", "ระช", "ะชุ", "ชุม"]),
        ("दिल्ली में बैठक", ["दिल्ली", "में", "बैठक"]),
        ("会", ["会"]),
    ],
)
def test_keywords_of_scripts_without_spaces_are_their_windows(question, keywords):
    assert extract_keywords(question) == keywords


@given(st.text(alphabet="aint'’- nodsüthe.", max_size=60))
def test_content_words_have_no_ending_after_an_apostrophe(text):
    words = [re.split("['’]", word)[0] for word in re.findall(r"[^\W_]+(?:['’][^\W_]+)*", fold_text(text))]
    assert list_content_words(text) == tuple(word for word in words if word not in STOP_WORDS_EXCEPT_NEGATIONS)


@given(st.text(alphabet="aint'’- nodsüthe.会_", max_size=60))
def test_the_first_content_word_is_the_first_of_all(text):
    assert first_content_word(text) == next(iter(list_content_words(text)), "")


def test_threads_share_tokenizers_and_find_the_same_words():
    texts = [f"The {word} boats of harbour {number}" for number in range(40) for word in ("fishing", "crème", "東京")]
    alone = [tokenize_text(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(tokenize_text, texts)) == alone
    assert 1 <= len(_idle_tokenizers) <= 9
