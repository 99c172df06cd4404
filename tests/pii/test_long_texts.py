"""Detection in long texts: the same findings as in short ones, a limit on findings per window, no finding lost."""

import random
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lukasa.pii import detector, numbers, tokens
from lukasa.pii.passwords import PASSWORDS, WEAK_KEYWORDS
from lukasa.pii.patterns import find_after_keyword, is_token
from lukasa.pii.tokens import LABELLED_SECRETS, MIDDLE_LITERALS, TOKEN_PREFIXES
from lukasa_bench.pii import hostile_texts
from support.each import each

pytestmark = pytest.mark.requirement("VLT-4")

PIECES = [
    "4111111111111111", "4111 1111 1111 1111", "5500005555555559", "378282246310005", "6304000000000000", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    "455-99-6622", "123-45-6789", "455996622", "000", "1", "12", "1234", "12345678", " ", "  ", "-", ".", ",", "/", "\n", "\t", "_", "#", "=", ": ",
    " is ", "'", '"', "a", "é", "漢", "ñ", "是", "\u200b", "\u00ad", "４", "ﬁ", "…", "½", "№", "İ", "ß", "\ud800", "\U0001d7d8", "card ", "cc ", "visa",
    "order ", "tracking id: ", "ssn ", "tin ", "social security ", "pin ", "pin: 1234", "://", "@", "://u:abc12@", "-us1", "eyJ", ".eyJ", "api_", "access ",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "PuTTY-User-Key-File-2: x", "for the ", "$", "<", "*", "hunter2", "stored", "aB3dE6gH9jK2mN5p",
    "8f14e45fceea167a5a36dedd4bea2543", "MTIzNDU2Nzg5MDEyMzQ1Njc4.Xy1zAb.", "dozjgNryP4J3jVmNHl0w5NabcdefghijK",
    *TOKEN_PREFIXES, *MIDDLE_LITERALS, *LABELLED_SECRETS, *PASSWORDS, *WEAK_KEYWORDS,
]  # fmt: skip
HOSTILE = hostile_texts(20_000)
texts = st.lists(st.sampled_from(PIECES) | st.text(string.ascii_letters + string.digits, max_size=20), max_size=30).map(
    "".join
)


def exact_findings(text):
    """Find everything without the limit per window."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detector, "EXACT_LENGTH", len(text) + 1)
        return detector.find_pii(text)


@settings(max_examples=300)
@given(texts)
def test_a_text_has_the_same_findings_far_inside_a_long_text(text):
    filler = "and so it goes on and on, " * 400 + "\n.\n"
    expected = [(each.start + len(filler), each.end + len(filler), each.pii_class) for each in detector.find_pii(text)]
    assert detector.find_pii(filler + text + "\n.\n" + filler) == expected


@pytest.mark.parametrize("seed", range(5))
def test_a_long_text_with_few_findings_per_window_is_reported_exactly(seed):
    rng = random.Random(seed)
    text = "".join(rng.choices([*PIECES, " and so on, ", *("nothing to see " * 9 for _ in range(60))], k=4_000))
    found = exact_findings(text)
    assert len(found) > 50
    assert detector.find_pii(text) == found


@each("name", HOSTILE)
def test_no_finding_in_a_hostile_text_is_lost(name):
    found, exact = detector.find_pii(HOSTILE[name]), exact_findings(HOSTILE[name])
    assert is_covered(exact, found)
    assert bool(found) == bool(exact)


WORDS = (
    "password", "pass", "pw", "for", "to", "is", "was", "hunter2", "v1.2.3", "S3cret!x", "your", "login", "bob", "/", ":", "=", '"', "key", "api_key",
    "token", "secret", "Zk3jd82jJd93kLs0", "example1234567890123", "\n",
)  # fmt: skip


@given(
    st.sampled_from([*PASSWORDS.items(), *WEAK_KEYWORDS.items(), *LABELLED_SECRETS.items()]),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.integers(4, 90),
    st.lists(st.sampled_from(WORDS), max_size=6),
)
@example(("pw", PASSWORDS["pw"]), ["for", "bob"], 40, [":", "hunter2"])
@example(("pass", PASSWORDS["pass"]), ["word", "for", "the", "x" * 29], 40, ["is", "hunter2"])
@example(("pw", PASSWORDS["pw"]), ["is", "stored.in-" * 14], 40, ["hunter2"])
def test_where_a_text_stops_repeating_itself_it_is_searched_again(search, words, times, end):
    """The text repeats a keyword and words, then goes on otherwise after them."""
    keyword, patterns = search
    text = " ".join([*[keyword, *words] * times, keyword, *words, *end])
    for judge in (re.Match.span, lambda match: match.span() if "2" in match[0] else None):
        expected = [span for match in patterns.pattern.finditer(text) if (span := judge(match))]
        assert list(find_after_keyword(patterns, judge, text, text.lower(), 0)) == expected


digits = st.text(string.digits, min_size=1, max_size=20)


@given(st.lists(digits | st.sampled_from([" ", "-", "  ", ".", ",", "x", "card "]), max_size=25).map("".join))
def test_every_card_that_stands_alone_is_found(text):
    """Every piece of digits, spaces and dashes that is a card by itself touches a finding."""
    spans = list(numbers.card_scan(text, text.lower(), text.encode())(0))
    for start in range(len(text)):
        alone = text[start : start + 16]
        apart = not (text[max(0, start - 2) : start] + text[start + 16 : start + 18]).strip("x ,") and "x" not in (
            text[max(0, start - 1) : start] + text[start + 16 : start + 17]
        )
        if (
            apart
            and len(alone) == 16
            and alone.isdigit()
            and alone[0] == "4"
            and passes_luhn(alone)
            and len(set(alone)) > 1
        ):
            assert any(begin < start + 16 and end > start for begin, end in spans)


@settings(max_examples=500)
@given(
    st.lists(
        digits
        | st.sampled_from(["4111", "1111", "3782", "822463", "10005", "4" * 12, "4111111111111111", "6", "1", "4"])
        | st.sampled_from([" ", "-", "  ", ".", ",", "x", "_", "card ", "id ", " cc", "visa", "é", "\n"]),
        max_size=40,
    ).map("".join)
)
def test_numbers_are_the_same_one_by_one_and_all_at_once(text):
    lower, data = text.lower(), text.encode("ascii", "replace")
    runs = [run.span() for run in numbers._RUN.finditer(text)]
    if runs and all(end - start <= numbers.MAX_RUN_LENGTH for start, end in runs):
        one_by_one = numbers._candidates_in_runs(text, lower, data, runs)
        assert numbers._candidates_in_arrays(lower, data) == one_by_one


@pytest.mark.parametrize("count", [1, 300])
def test_a_card_in_a_table_of_numbers_is_one_group(count):
    row = "1204 9134 7718 2290 5512 0091 4437 8812 " * 8
    text = (row + "\n" + row + "4111111111111111 " + row + "\n") * count
    found = exact_findings(text)
    assert [text[each.start : each.end] for each in found] == ["4111111111111111"] * count


def passes_luhn(number):
    return sum(sum(divmod(int(d) * (1 + index % 2), 10)) for index, d in enumerate(reversed(number))) % 10 == 0


@given(st.lists(st.sampled_from(["eyJ", ".eyJ", "aB3dE6gH9", "-", "_", ".", " ", "x" * 1_990]), max_size=20).map("".join))  # fmt: skip
def test_web_tokens_are_those_of_the_pattern(text):
    expected = [match.span() for match in tokens.WEB_TOKEN.finditer(text) if is_token(match[1])]
    assert list(tokens.find_web_tokens(text, 0)) == expected


# Normalisation


def test_ordinary_characters_stay_as_they_are():
    for code in (*range(0x80), *range(0x3400, 0xA000), *range(0xAC00, 0xD7A4)):
        assert detector.normalise_character(chr(code)) == chr(code)


@given(st.text(max_size=60), st.text("ﬁ…№⑴\u200b\u00ad４\u2011 x", max_size=60))
def test_every_normalised_character_leads_back_to_its_original(first, second):
    text = first + second
    normalised = detector.normalise_with_offsets(text)
    assert normalised.text == "".join(map(detector.normalise_character, text))
    for start in range(len(normalised.text)):
        ((begin, end),) = normalised.original_spans([(start, start + 1)])
        assert end == begin + 1
        assert normalised.text[start] in detector.normalise_character(text[begin])


@given(st.text("aé漢ﬁ…№⑴\u200b\u00ad４\u2011\ud800 x", min_size=1, max_size=60))
def test_a_long_text_is_normalised_as_a_short_one(text):
    """Long texts are normalised with arrays."""
    long_text = text * (detector.EXACT_LENGTH // len(text) + 1)
    normalised = detector.normalise_with_offsets(long_text)
    assert normalised.text == "".join(map(detector.normalise_character, long_text))
    short = detector.normalise_with_offsets(text)
    places = [(place, place + 1) for place in range(len(short.text))]
    assert normalised.original_spans(places) == short.original_spans(places)


# The limit per window


def is_covered(expected, found):
    return all(any(each.start >= wide.start and each.end <= wide.end for wide in found) for each in expected)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_no_finding_is_lost_past_the_limit(seed, gap):
    rng = random.Random(seed)
    pieces = [
        lambda: f"pw=x{rng.randrange(10**6)}y! ",
        lambda: f"pin:{rng.randrange(1000, 9999)} ",
        lambda: "hf_" + "".join(rng.choices(string.ascii_letters + string.digits, k=20)) + " ",
        lambda: f"://u:q{rng.randrange(10**5)}@h ",
        lambda: "4111111111111111, ",
        lambda: f"455-99-{rng.randrange(1000, 9999)} \n",
        lambda: "pw is the one ",
        lambda: "harmless " * rng.randrange(gap),
    ]
    text = "".join(rng.choice(pieces)() for _ in range(1_500))
    exact = exact_findings(text)
    found = detector.find_pii(text)
    assert is_covered(exact, found)
    assert {each.pii_class for each in found} <= {each.pii_class for each in exact}


def test_a_list_of_passwords_is_reported_one_by_one_up_to_the_limit():
    lines = [f"password of user{index:03}: secret-{index:03}!\n" for index in range(60)]
    assert [each.pii_class for each in detector.find_pii("".join(lines))] == ["password"] * 60
    many = "".join(f"pw=secret-{index:05}!\n" for index in range(5_000))
    assert len(detector.find_pii(many)) < 5_000
    assert "secret" not in detector.redact_text(many)


def test_a_text_under_4000_characters_has_no_limit():
    text = "pw=a1!\n" * 500
    assert len(detector.find_pii(text)) == 500


@pytest.mark.parametrize(
    "line",
    ["user=bob password=********\n", "pw=***\n", "password: null\n", "pw=the\n", "token=some-long-identifier-name\n", "://u:$PASS@h "],
)  # fmt: skip
def test_many_harmless_values_are_harmless(line):
    assert detector.find_pii(line * 3_000) == []
