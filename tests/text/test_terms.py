"""Terms: searching a folded text for a term finds the words that the text index finds."""

from hypothesis import given
from hypothesis import strategies as st

from lukasa.recall.signals import MAX_PART_LENGTH, MAX_WHOLE_LENGTH, lead_passage
from lukasa.text.terms import extract_keywords, find_term_offsets, fold_text, stem_word, tokenize_text

WORDS = st.sampled_from(
    """happy key days buying use ties is ski happily happiness hoping hopped hope files filing relate relational ponies pony
    argue arguing argued activity possibly possibility running ran runs die dying caresses agreed plastered sky skies générale
    Ärzte naïve x 42""".split()  # noqa: SIM905 - a list of words reads best as words
)


@given(st.lists(WORDS, min_size=1, max_size=20), st.sampled_from([" ", ", ", "-", "_", "\n"]), WORDS)
def test_a_term_is_found_wherever_the_text_index_finds_it(words, separator, asked):
    text = separator.join(words)
    (term,) = tokenize_text(asked)
    assert len(find_term_offsets(fold_text(text), term)) == tokenize_text(text).count(term)


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


def test_the_lead_passage_of_a_long_text_ends_with_a_sentence():
    text = "The first sentence is here. " * 40
    assert lead_passage(text).endswith("here.")
    assert MAX_PART_LENGTH - 40 < len(lead_passage(text)) <= MAX_PART_LENGTH


@given(st.text(max_size=3 * MAX_WHOLE_LENGTH))
def test_a_lead_passage_is_never_too_long_and_begins_its_text(text):
    assert len(lead_passage(text)) <= MAX_WHOLE_LENGTH
    assert text.strip().startswith(lead_passage(text).strip())
