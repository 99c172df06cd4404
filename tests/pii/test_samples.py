"""The PII detector on random samples: tokens in published formats, cards, passwords in prose, and look-alikes."""

import random
import string
from collections import Counter

import pytest

from lukasa.pii.detector import find_pii, redact_text
from lukasa_bench.pii import SAMPLE_BARS, sample_rows
from lukasa_bench.pii_samples import draw_pii_samples

pytestmark = pytest.mark.requirement("VLT-4")


def classes_in(text):
    return [finding.pii_class for finding in find_pii(text)]


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_every_sort_meet_the_bars(seed):
    missed, drawn = Counter[str](), Counter[str]()
    for sample in draw_pii_samples(random.Random(seed), rounds=5):
        found = classes_in(sample.text)
        drawn[sample.sort] += 1
        missed[sample.sort] += sample.pii_class not in found if sample.pii_class else bool(found)
    assert missed["tokens"] <= 0.02 * drawn["tokens"]
    assert missed["cards"] <= 0.01 * drawn["cards"]
    assert missed["cards that nothing announces"] <= 0.07 * drawn["cards that nothing announces"]
    assert missed["passwords"] <= 0.05 * drawn["passwords"]
    assert missed["look-alikes"] <= 0.01 * drawn["look-alikes"]


def test_the_benchmark_reports_every_sort_and_meets_its_bars():
    rows = sample_rows()
    assert len(rows) == len(SAMPLE_BARS)
    assert [row.case for row in rows if not row.is_met] == []


LETTERS = "QzKbWvTnRyXcJmHpLgDsFaZtEwUiOxVqBkMnCjYrGdSh"


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + LETTERS[:34], "api_org_" + LETTERS[:34], "AKIA" + LETTERS.upper()[:16], "glpat-" + LETTERS[:20], "sk_live_" + LETTERS[:24],
        "ghp_" + LETTERS[:36], "https://hooks.slack.com/services/TQZKBWVTN/BRYXCJMHP/" + LETTERS[:24], "HRKU-AA" + LETTERS[:29] * 2,
        "pscale_pw_" + LETTERS[:43], "pscale_tkn_" + LETTERS[:43], "pscale_oauth_" + LETTERS[:43], "npm_" + LETTERS[:36], "SG." + LETTERS[:22] + "." + LETTERS[:43],
    ],
)  # fmt: skip
def test_a_token_in_its_published_format_needs_no_digit(token):
    assert classes_in(f"the token is {token} now") == ["secret"]
    assert LETTERS[:10] not in redact_text(f"token={token}")


@pytest.mark.parametrize(
    "text",
    [
        "- (id)hf_requiredCharacteristicTypesForDisplayMetadata;", "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "glpat-replace-me-with-token", "AKIAIOSFODNN7EXAMPLE",
        "xoxb-12345-abcd234", "xoxp-1-SomeTokenGoesInHere", "sk_test_some_long_description_x", "npm_config_registry_default_1", "ops_eyJzaWduSW5BZGRyZXNz...",
        "video.ico-7a388b69018576d24b59331fd60aab0c.png", "ntn_" + "1234567890" * 6, "secret_name_of_the_game_2024_edition",
    ],
)  # fmt: skip
def test_what_only_starts_like_a_token_is_none(text):
    assert classes_in(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('hubspotKey = "8f14e45f-ceea-467a-9a36-dedd4bea2543"', 1), ('oktaApiToken: "00ebObu4zSNkyc6dimLvUwq4KpTEop-PCEnnfSTpD3"', 1),
        ('System.setProperty("SNYK_TOKEN", "8f14e45f-ceea-467a-9a36-dedd4bea2543")', 1), ("Token: 3fea6af1349166ea", 1),
        ("-H 'Authorization: Basic YW5uYTpodW50ZXIyLWh1bnRlcjI='", 1), ("SNYK_TOKEN ?= 8f14e45f-ceea-467a-9a36-dedd4bea2543", 1),
        ("public_key = 9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit", 0), ("kms_key_id: 555ea4a3-d53a-4412-9c66-3a7cb667b0d6", 0),
        ("csrf-token=Mj2qykJO5rELyHgezQ69nzUX0i3OH67V7", 0), ("next_page_token: Mj2qykJO5rELyHgezQ69nzUX0i3OH67V7", 0), ("monkey = 8f14e45fceea467a", 0),
        ("-----BEGIN PRIVATE KEY-----\nanything\n-----END PRIVATE KEY-----", 0), ("-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----", 1),
        ("-----BEGIN PRIVATE KEY-----", 1),
    ],
)  # fmt: skip
def test_a_value_is_judged_by_the_words_before_it(text, found):
    assert len(classes_in(text)) == found


def with_check_digit(digits):
    total = sum(sum(divmod(int(digit) * (2 - index % 2), 10)) for index, digit in enumerate(reversed(digits)))
    return digits + str(-total % 10)


@pytest.mark.parametrize(
    "prefix",
    ["3056930902590", "3600000000123", "3852000002323", "350045678901245", "21311234567890", "18001234567890", "401234567890123456", "50181234567"],
)  # fmt: skip
def test_cards_of_rare_brands_and_lengths_are_found_without_a_mention(prefix):
    card = with_check_digit(prefix)
    assert classes_in(f"please charge {card} tomorrow") == ["card"]
    assert classes_in(f"order number {card} was shipped") == []


def test_barcodes_and_telephone_numbers_are_no_cards():
    rng = random.Random(4)
    for _ in range(500):
        digits = "40" + "".join(rng.choices(string.digits, k=10))
        barcode = digits + str(-sum(int(digit) * (1 + 2 * (index % 2)) for index, digit in enumerate(digits)) % 10)
        assert classes_in(f"It has {barcode} on the box") == []
        assert classes_in(f"Reach me at +57{''.join(rng.choices(string.digits, k=10))}") == []


@pytest.mark.parametrize(
    "text",
    [
        "password hunter2", "pwd Kx9$mQ2v", "the pass is s3cr3t99", "pass: b4nana77", "login admin / Winter_2023", "log in with root / hunter2", "creds admin:hunter2",
        "Zugangsdaten: anna / Sommer2024", "Passwort Sommer2024", "das Kennwort lautet Sommer2024", "mot de passe Azerty123", "la clave es gato77rojo",
        "hunter2 is the password", "use hunter2 as the password for the router", "user bob pass hunter2", "curl -s --user 'api:d2LkV78zLx' https://localhost",
    ],
)  # fmt: skip
def test_a_password_is_found_without_a_sign_before_it(text):
    assert classes_in(text) == ["password"]


@pytest.mark.parametrize(
    "text",
    [
        "password sha256 hashing", "the password policy v2", "password of 12 characters", "password 8-16 chars", "The pass is 1200m high", "the pass is 95% done",
        "pass: 12/15 tests", "login page / signup page", "login api/v2beta1", "sign in with Google / GitHub", "login with SSO / 2FA", "2. **Password Hashing**: use argon2",
        "the password field1 is empty", "OAuth2 is the password replacement", "curl -u user:password https://localhost", "docker run -u 1000:1000 image", "we pass user1 on",
        "password bob@example.com was sent to", "Login: 2024-01-01 / 2024-02-03", "password issue JIRA-1234",
    ],
)  # fmt: skip
def test_talk_about_passwords_gives_none_away(text):
    assert classes_in(text) == []
