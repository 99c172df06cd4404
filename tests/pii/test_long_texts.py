"""The guard on long texts: the same finds as on short ones, whatever the text is made of, and nothing lost in a crowd."""

import random
import string
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lukasa.pii import crowds, detector, normalize, numbers
from lukasa.pii.patterns import LABELLED_SECRETS, PASSWORDS, PROVIDER_TOKENS
from lukasa_bench.pii import hostile_texts

pytestmark = pytest.mark.requirement("VLT-4")

PIECES = [
    "4111111111111111", "4111 1111 1111 1111", "5500005555555559", "378282246310005", "6304000000000000", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    "455-99-6622", "123-45-6789", "455996622", "000", "1", "12", "1234", "12345678", " ", "  ", "-", ".", ",", "/", "\n", "\t", "_", "#", "=", ": ",
    " is ", "'", '"', "a", "é", "漢", "ñ", "是", "\u200b", "\u00ad", "４", "ﬁ", "…", "½", "№", "İ", "ß", "\ud800", "\U0001d7d8", "card ", "cc ", "visa",
    "order ", "tracking id: ", "ssn ", "tin ", "social security ", "pin ", "pin: 1234", "://", "@", "://u:abc12@", "-us1", ".eyJ", "api_", "access ",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "PuTTY-User-Key-File-2: x", "for the ", "$", "<", "*", "hunter2", "stored", "aB3dE6gH9jK2mN5p",
    "8f14e45fceea167a5a36dedd4bea2543", "MTIzNDU2Nzg5MDEyMzQ1Njc4.Xy1zAb.", "dozjgNryP4J3jVmNHl0w5NabcdefghijK",
    *(spelling.hint for spelling in (*PROVIDER_TOKENS, *LABELLED_SECRETS, *PASSWORDS)),
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(string.ascii_letters + string.digits, max_size=20), max_size=30).map(
    "".join
)


def one_by_one(text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(detector, "LONG", len(text) + 1)
        patch.setattr(normalize, "LONG", len(text) + 1)
        return detector.find_pii(text)


def at_once(text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(detector, "LONG", 0)
        patch.setattr(normalize, "LONG", 0)
        return detector.find_pii(text)


@settings(max_examples=600)
@given(texts)
def test_a_text_looked_at_all_at_once_has_the_finds_of_one_read_piece_by_piece(text):
    with pytest.MonkeyPatch.context() as patch:
        assert at_once(text, patch) == one_by_one(text, patch)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_text_made_of_interesting_pieces_too(seed, monkeypatch):
    chance = random.Random(seed)
    text = "".join(chance.choices([*PIECES, " and so on, "], k=4_000))
    found = one_by_one(text, monkeypatch)
    assert len(found) > 50
    assert at_once(text, monkeypatch) == found


@pytest.mark.parametrize("name", hostile_texts(2_000))
def test_hostile_texts_too(name, monkeypatch):
    text = hostile_texts(9_000)[name]
    assert at_once(text, monkeypatch) == one_by_one(text, monkeypatch)


digits = st.text(string.digits, min_size=1, max_size=20)


@given(st.lists(digits | st.sampled_from([" ", "-", "  ", ".", ",", "x", "card "]), max_size=25).map("".join))
def test_no_card_is_passed_over(text):
    """Every piece of digits, spaces and dashes that is a card for itself touches a find."""
    lower = text.lower()
    spans = list(numbers.find_cards(text, lower))
    for start in range(len(text)):
        alone = text[start : start + 16]
        apart = not (text[max(0, start - 2) : start] + text[start + 16 : start + 18]).strip("x ,") and "x" not in (
            text[max(0, start - 1) : start] + text[start + 16 : start + 17]
        )
        if apart and len(alone) == 16 and alone.isdigit() and alone[0] == "4" and luhn(alone) and len(set(alone)) > 1:
            assert any(begin < start + 16 and end > start for begin, end in spans)


def luhn(number):
    return sum(sum(divmod(int(d) * (1 + at % 2), 10)) for at, d in enumerate(reversed(number))) % 10 == 0


# Folding


def test_the_table_takes_every_character_for_what_it_is_taken_for():
    everything = [*range(0xD800), *range(0xE000, 0x110000)]
    outside = set(everything) - set(chain(*normalize.CHANGING_RANGES))
    assert all(normalize.normalise_character(chr(code)) == chr(code) for code in outside)
    text = "".join(map(chr, everything))
    assert normalize.normalise_with_offsets(text).text == "".join(map(normalize.normalise_character, text))


@given(st.text(max_size=60), st.text("ﬁ…№⑴\u200b\u00ad４\u2011 x", max_size=60))
def test_long_and_short_texts_are_folded_alike_and_places_are_kept(first, second):
    text = first + second
    with pytest.MonkeyPatch.context() as patch:
        short = normalize.normalise_with_offsets(text)
        patch.setattr(normalize, "LONG", 0)
        long = normalize.normalise_with_offsets(text)
    assert long.text == short.text == "".join(map(normalize.normalise_character, text))
    for start in range(len(long.text)):
        ((begin, end),) = long.original_spans([start], [start + 1])
        assert ((begin, end),) == tuple(short.original_spans([start], [start + 1]))
        assert end == begin + 1
        assert long.text[start] in normalize.normalise_character(text[begin])


# Crowds


def covered(found, spans):
    return all(any(start >= spotted.start and end <= spotted.end for spotted in found) for start, end in spans)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_nothing_gets_lost_in_a_crowd(seed, gap):
    chance = random.Random(seed)
    pieces = [
        lambda: f"pw=x{chance.randrange(10**6)}y! ",
        lambda: f"pin:{chance.randrange(1000, 9999)} ",
        lambda: "hf_" + "".join(chance.choices(string.ascii_letters + string.digits, k=20)) + " ",
        lambda: f"://u:q{chance.randrange(10**5)}@h ",
        lambda: "pw is the one ",
        lambda: "harmless " * chance.randrange(gap),
    ]
    text = "".join(chance.choice(pieces)() for _ in range(1_500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowds, "MOST_FINDS", 10**9)
        patch.setattr(crowds, "MOST_SEEN", 10**9)
        exact = detector.find_pii(text)
    found = detector.find_pii(text)
    assert covered(found, [(spotted.start, spotted.end) for spotted in exact])
    assert {spotted.pii_class for spotted in found} <= {spotted.pii_class for spotted in exact}


def test_a_list_of_passwords_is_taken_apart_until_it_is_a_crowd():
    lines = [f"password of user{at:03}: secret-{at:03}!\n" for at in range(60)]
    assert [spotted.pii_class for spotted in detector.find_pii("".join(lines))] == ["password"] * 60
    many = "".join(f"pw=secret-{at:05}!\n" for at in range(5_000))
    assert len(detector.find_pii(many)) < 5_000
    assert "secret" not in detector.redact_text(many)


@pytest.mark.parametrize(
    "line",
    ["user=bob password=********\n", "pw=***\n", "password: null\n", "pw=the\n", "token=some-long-identifier-name\n", "://u:$PASS@h "],
)  # fmt: skip
def test_a_crowd_of_harmless_values_is_harmless(line):
    assert detector.find_pii(line * 3_000) == []
