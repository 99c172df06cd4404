"""Passwords and codes that sentences state away from their keyword, and the published examples that only a strict search reports."""

import pytest

import lukasa
from lukasa.core.outcome import Refused
from lukasa.pii.detector import find_pii, redact_text

pytestmark = pytest.mark.requirement("VLT-4")


def classes_in(text, **options):
    return [finding.pii_class for finding in find_pii(text, **options)]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("the pw on that box is still Granite77", "Granite77"), ("The password I use is Velvet!9", "Velvet!9"), ("set my password as Blue42Sky", "Blue42Sky"),
        ("The server password has been reset to kX93-ppQ2 today", "kX93-ppQ2"), ("I changed my password from Summer24 to Autumn24", "Autumn24"),
        ("sudo password for the build box → Qwerty!23", "Qwerty!23"), ("the password should be set to Winter2024!", "Winter2024"), ("the password's lantern99", "lantern99"),
        ('Enter the password "0000" on the number keypad', "0000"), ("login details: ada@example.org, password VelvetKiwi! .", "VelvetKiwi!"),
        ("the default login is admin/admin.", "/admin"), ("Credentials like ada@example.org / VelvetKiwi! leaked", "VelvetKiwi!"), ("Log in as admin with lantern99.", "lantern99"),
        ("my passphrase is amber kettle orbit walnut", "amber kettle orbit walnut"), ("Remember that the wifi code is lantern", "lantern"),
        ("the office wifi is Torre2024", "Torre2024"), ("Wifi: Northwind / sunny99day", "sunny99day"), ("The back door code is 9182.", "9182"), ("Alarm code: 4417", "4417"),
        ("the safe combination is 12-34-56", "12-34-56"), ("Gate code - 2580#", "2580#"), ("my PIN is 4821.", "4821"), ("PIN:\n4821", "4821"), ("Network key: 8f3K-22aa", "8f3K-22aa"),
    ],
)  # fmt: skip
def test_a_password_or_code_in_a_sentence_is_found_and_redacted(text, secret):
    assert "password" in classes_in(text)
    assert secret not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "The door code is on the booking page.", "the gate code is fine", "the exit code is 1370", "HTTP status code: 4040", "the area code is 2125", "the zip code is 90210",
        "The WiFi code is layered as follows:", "The wifi is 802.11ac", "WiFi is 5GHz only", "We set up WiFi 6E", "The discount code is SAVE2024", "the safe code is randomized (1000-9999)",
        "password reset is tracked in JIRA-1234", "the password was sent to bob123", "we log in as users with OAuth2", "this login is admin-only", "login is admin/index.html/x",
        "the passphrase is something that you should never share", "Log in with the password you set", "the password is expected to be rotated", "the PIN is 4.5 mm long",
    ],
)  # fmt: skip
def test_talk_about_codes_and_passwords_gives_none_away(text):
    assert classes_in(text) == []


EXAMPLES = {
    "My number is 123-45-6789.": "ssn",
    "SSN 078-05-1120": "ssn",
    "key AKIAIOSFODNN7EXAMPLE": "secret",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "secret",
}


@pytest.mark.parametrize(("text", "pii_class"), EXAMPLES.items())
def test_a_published_example_is_reported_by_a_strict_search_alone(text, pii_class):
    assert classes_in(text) == []
    assert classes_in(text, strict=True) == [pii_class]


@pytest.mark.parametrize(
    "text",
    [
        "for example",
        "see sub.example.com/a",
        "token: example1234567890123",
        "call 123-45-6789-1",
        "ghp_" + "example" * 5 + "x",
    ],
)
def test_a_strict_search_reports_nothing_that_is_not_in_a_format(text):
    assert classes_in(text, strict=True) == []


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_vault_refuses_published_examples_and_other_kinds_keep_them(text):
    with lukasa.open("memory:", embedder="hash") as memory:
        refused = memory.remember(text)
        assert isinstance(refused, Refused)
        assert refused.code == "pii"
        assert memory.journal.write("note", text)


@pytest.mark.parametrize(
    "token",
    [
        "AGE-SECRET-KEY-1YMCG0W5ERQ6DCQWH87UQQ37VXDQ8W0888WFQ6359LMR2HKAD64FJUMSJP8", "ABSK" + "QmVkcm9ja0FQSUtleS" + "kX93ppQ2Zw7" * 9, "ABSKkX93ppQ2Zw7QmVkcm9ja0FQ",
        "bedrock-api-key-" + "kX93ppQ2Zw7" * 9, "dnkey-" + "kX93ppQ2Zw7Ab4Cd6Ef8Gh0Ij2-" + "kX93ppQ2Zw7Ab4Cd6Ef8Gh0Ij2" * 2, "A3TXMWXSCZL5PI4RUHW2",
    ],
)  # fmt: skip
def test_newer_formats_of_tokens_are_known(token):
    assert classes_in(f"it is {token} now") == ["secret"]
