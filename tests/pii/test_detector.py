"""The PII detector: its findings, its silence on look-alikes, and the refusal and redaction at the gate."""

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, ValidatedDraft
from lukasa.journal.gate import Gate, KindSpec, override_pii
from lukasa.memory import declared_kinds
from lukasa.pii.detector import apply_pii_handling, find_pii, redact_text
from lukasa.vault import VaultSettings
from lukasa_bench.pii import hostile_texts
from support.each import each
from support.narrow import present, refusal_of

pytestmark = pytest.mark.requirement("VLT-4")


def found_classes(text):
    return [finding.pii_class for finding in find_pii(text)]


def with_check_digit(digits):
    for last in string.digits:
        total = sum(sum(divmod(int(d) * (1 + index % 2), 10)) for index, d in enumerate(reversed(digits + last)))
        if total % 10 == 0:
            return digits + last
    raise AssertionError


BRANDS = st.sampled_from(
    [("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("34", 15), ("37", 15), ("6011", 16), ("3530", 16), ("62", 16)]
)


@st.composite
def cards(draw):
    prefix, size = draw(BRANDS)
    body = draw(st.text(string.digits, min_size=size - len(prefix) - 1, max_size=size - len(prefix) - 1))
    return with_check_digit(prefix + body)


@given(cards(), st.sampled_from(["", " ", "-", "\u2011", "\u00a0", "\u200b"]))
def test_every_card_is_found_however_it_is_grouped(card, between):
    grouped = between.join(card[index : index + 4] for index in range(0, len(card), 4))
    assert found_classes(f"please charge {grouped} tomorrow") == ["card"]
    assert card[:8] not in redact_text(f"please charge {card} tomorrow")


@given(cards(), st.integers(1, 9))
def test_a_number_with_a_wrong_check_digit_is_no_card(card, shift):
    wrong = card[:-1] + str((int(card[-1]) + shift) % 10)
    assert found_classes(f"the number {wrong} is not one") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("his social security number is 455-99-6622", ["ssn"]),
        ("SSN 455996622 on file", ["ssn"]),
        ("455-99-6622", ["ssn"]),
        ("４５５－９９－６６２２ is mine", ["ssn"]),
        ("455\u201399\u20136622", ["ssn"]),
        ("call 455 99 6622", []),
        ("000-12-3456 and 666-12-3456 and 912-12-3456 and 123-00-4567 and 123-45-0000", []),
        ("part 455-99-66221", []),
        ("my password is hunter2", ["password"]),
        ("My password is swordfish.", ["password"]),
        ("password: Tr0ub4dor&3", ["password"]),
        ("pwd=s3cret!", ["password"]),
        ("the password for the wifi is gandalf99", ["password"]),
        ("Das Passwort ist Sommer2024!", ["password"]),
        ("mon mot de passe est Azerty123", ["password"]),
        ("postgresql://app:s3cr3t@db.example.com/main", ["password"]),
        ("my card pin is 4821", ["password"]),
        ("the password is wrong, password: hunter2", ["password"]),
        ("pw=abc1! pw=def2! pw=ghi3!", ["password"] * 3),
        ("The password is stored in the vault", []),
        ("Passwords are hashed with argon2 and a password is required", []),
        ("password must be 12 characters long", []),
        ("the password policy is strict", []),
        ("password = os.environ['PASSWORD']", []),
        ("postgresql://app:password@localhost/main", []),
        ("password: <your password here>", []),
        ("export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPL2", ["secret"]),
        ("ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6", ["secret"]),
        ("token xoxb-123456789012-abcdefABCDEF1234", ["secret"]),
        ("use sk-ant-api03-abcDEF123456ghiJKL789 now", ["secret"]),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", ["secret"]),
        ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", ["secret"]),
        ("api_key = 'q7Rt2Zx9Lm4Kp8Vb3Nc6Hd1'", ["secret"]),
        ("client secret: 8f14e45fceea167a5a36dedd4bea2543", ["secret"]),
        ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", ["secret"]),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", ["private_key"]),
        ("-----BEGIN PUBLIC KEY-----", []),
        ("api_key = 'your_api_key_goes_here'", []),
        ("primary key: 550e8400-e29b-41d4-a716-446655440000", []),
        ("commit 8f14e45fceea167a5a36dedd4bea25438f14e45f", []),
        ("order number 4485014643728345 was shipped", []),
        ("tracking id 5207171328063010", []),
        ("at 1700000000000000 in version 10.4111.1111", []),
        ("call +49 4111 1111 11 or (021) 0025-967", []),
        ("pi is 3.4111111111111111", []),
        ("the token bucket is refilled every minute", []),
        ("the secret ingredient is patience", []),
        ('billingToken := "q7Rt2Zx9Lm4Kp8Vb"', ["secret"]),
        ('nonMatchingToken := "q7Rt2Zx9Lm4Kp8Vb"', []),
        ('fakeToken = "q7Rt2Zx9Lm4Kp8Vb", dummy_secret: q7Rt2Zx9Lm4Kp8Vb', []),
        ("fake token: ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6", ["secret"]),
        ("wrong secret q7Rt2Zx9Lm4Kp8Vb typed", ["secret"]),
        ("sntrys_eyJ" + "pYXQiOjE2ODcw" * 4 + "_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6kL2" + "mN5p", ["secret"]),
        ("sntrys_eyJ" + "pYXQiOjE2ODcw" * 4 + "_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6kL2" + "mN5", []),
    ],
)  # fmt: skip
def test_secrets_and_personal_data_are_distinguished_from_look_alikes(text, found):
    assert found_classes(text) == found


def test_at_most_one_in_200_ordinary_numbers_is_reported():
    rng = random.Random(1)
    harmless = [
        *(f"Invoice {rng.randrange(10**15, 10**16)} is paid" for _ in range(300)),
        *(f"build {rng.getrandbits(128):032x} passed" for _ in range(300)),
        *(f"phone {rng.randrange(10**9, 10**10)}" for _ in range(300)),
        *(f"at {rng.randrange(10**12, 2 * 10**12)} ms" for _ in range(300)),
        *(f"id {rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-4{rng.getrandbits(12):03x}-a{rng.getrandbits(12):03x}-{rng.getrandbits(48):012x}" for _ in range(300)),
    ]  # fmt: skip
    assert sum(bool(find_pii(text)) for text in harmless) / len(harmless) <= 0.005


@given(st.text(max_size=300))
def test_every_finding_lies_inside_the_text_and_a_text_without_findings_is_not_redacted(text):
    found = find_pii(text)
    assert all(0 <= finding.start < finding.end <= len(text) for finding in found)
    if not found:
        assert redact_text(text) == text


def test_findings_have_the_offsets_of_the_original_text():
    text = "né \u200b４１１１\u200b １１１１ １１１１ １１１１ fin"
    (finding,) = find_pii(text)
    assert redact_text(text) == "né \u200b[card] fin"
    assert text[finding.start] == "４"


@pytest.fixture(scope="module")
def hostile():
    return hostile_texts()


def check_scan_time(text, size):
    """Ten times the text takes about ten times as long: no pattern reads a text again and again."""

    def scan_time(length):
        started = time.process_time()
        find_pii(text[:length])
        return time.process_time() - started

    small = min(scan_time(size) for _ in range(3))
    large = min(scan_time(10 * size) for _ in range(2))
    assert large < 40 * max(small, 0.001), f"{large:.3f} s of CPU for ten times {small:.3f} s"


@each("name", hostile_texts(1_000))
def test_scan_time_grows_linearly_with_a_hostile_text(name, hostile):
    check_scan_time(hostile[name], 20_000)


@pytest.mark.slow
@each("name", hostile_texts(1_000))
def test_scan_time_grows_linearly_with_a_megabyte_of_hostile_text(name, hostile):
    check_scan_time(hostile[name], 100_000)


# At the gate

CANARY = "378-07-9520"


def test_personal_data_is_refused_in_the_text_the_body_and_the_labels():
    gate = Gate(declared_kinds())
    for draft in (
        Draft("memory", f"ssn {CANARY}"),
        Draft("memory", "fine", {"deep": [{"er": f"ssn {CANARY}"}]}),
        Draft("memory", "fine", labels=(f"topic=ssn {CANARY}",)),
    ):
        refused = gate.validate(draft, "i")
        assert (refusal_of(refused).code, refusal_of(refused).details["classes"]) == ("pii", ["ssn"])
        assert CANARY not in repr(refused)
    assert isinstance(gate.validate(Draft("turn", f"ssn {CANARY}"), "i"), ValidatedDraft), (
        "other kinds allow personal data by default"
    )


def test_one_call_refuses_redacts_or_keeps_a_draft():
    draft = Draft("memory", f"ssn {CANARY}")
    assert apply_pii_handling(draft, "allow") is draft
    assert present(apply_pii_handling(draft, "redact")).text == "ssn [ssn]"
    assert refusal_of(apply_pii_handling(draft, "block")).code == "pii"
    harmless = Draft("memory", "fine")
    assert apply_pii_handling(harmless, "block") is harmless


def test_each_kind_has_its_own_pii_handling():
    gate = Gate(
        override_pii({}, {"turn": "redact", "memory": "allow", "page": "block"}) | {"loud": KindSpec(pii="redact")}
    )
    kept = gate.validate(
        Draft("turn", f"ssn {CANARY}", {"card": "4111 1111 1111 1111"}, labels=(f"a=ssn {CANARY}",)), "i"
    )
    assert isinstance(kept, ValidatedDraft)
    assert CANARY.encode() not in kept.content
    assert b"4111" not in kept.content
    assert b"[ssn]" in kept.content
    assert isinstance(gate.validate(Draft("memory", f"ssn {CANARY}"), "i"), ValidatedDraft)
    assert isinstance(gate.validate(Draft("page", f"ssn {CANARY}"), "i"), Refused)


def test_a_refused_value_is_nowhere_in_the_store(tmp_path, location, open_store):
    secret = "hunter2-canary-9417"
    memory = open_store(location)
    for write in (memory.vault.add_memory, memory.vault.note, memory.vault.add_tick, memory.vault.directive):
        refused = write(f"my password is {secret}")
        assert refused.code == "pii"
        assert secret not in repr(refused)
    known = memory.vault.add_memory("The wifi at the office is slow").record
    assert memory.vault.update(known.id, f"my password is {secret}").code == "pii"
    memory.vault.close()
    assert memory.vault.vault_stats()["refused"]["pii"] == 5
    everything = "".join(str(record) for record in memory.journal.read())
    assert secret not in everything
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes()


def test_a_vault_can_redact_instead_of_refusing(open_store):
    vault = open_store(profile=VaultSettings(pii={"memory": "redact", "tick": "allow"})).vault
    kept = vault.add_memory("Ada pays with 4111 1111 1111 1111 on Fridays").record
    assert kept.text == "Ada pays with [card] on Fridays"
    assert vault.add_tick("check-in with password: hunter2")


def test_an_import_refuses_personal_data_too(tmp_path):
    with lukasa.open(tmp_path / "a.db", profile=VaultSettings(pii={"memory": "allow"})) as lax:
        lax.vault.add_memory(f"my ssn is {CANARY}")
        lax.export(tmp_path / "log.jsonl")
    with lukasa.open(tmp_path / "b.db") as strict:
        done = strict.import_(tmp_path / "log.jsonl")
        assert (done.added, len(done.refused)) == (0, 1)
        assert CANARY not in done.refused[0][1]
