"""Samples for the PII detector, drawn at random: tokens in the formats that providers publish, cards, passwords, look-alikes."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from lukasa.pii.detector import PiiClass

_ALPHABETS = {
    "l": string.ascii_letters,
    "u": string.ascii_uppercase + "234567",
    "a": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "h": "0123456789abcdef",
    "n": string.digits,
    "z": string.ascii_lowercase + string.digits,
}
_TOKEN_TEMPLATES = (
    "AKIA{u16}", "ASIA{u16}", "ghp_{a36}", "gho_{a36}", "ghs_{a36}", "github_pat_{a22}_{a59}", "glpat-{w20}", "glrt-{w20}", "gldt-{w20}",
    "glptt-{h40}", "xoxb-{n12}-{n13}-{a24}", "xoxp-{n12}-{n12}-{n13}-{h32}", "https://hooks.slack.com/services/T{a8}/B{a8}/{a24}",
    "https://discord.com/api/webhooks/{n18}/{w68}", "sk-ant-api03-{w93}AA", "sk-proj-{w58}T3BlbkFJ{w58}", "sk-{a20}T3BlbkFJ{a20}", "sk-{h32}",
    "AIzaSy{w33}", "GOCSPX-{w28}", "sk_live_{a24}", "sk_test_{a24}", "rk_live_{a24}", "SK{h32}", "SG.{w22}.{w43}", "key-{h32}", "npm_{a36}",
    "pypi-AgEIcHlwaS5vcmc{w80}", "hf_{l34}", "hf_{a34}", "api_org_{l34}", "dop_v1_{h64}", "shpat_{h32}", "sq0atp-{w22}", "lin_api_{a40}",
    "ntn_{n11}{a35}", "PMAK-{h24}-{h34}", "NRAK-{u27}", "glsa_{a32}_{h8}", "dp.pt.{a43}", "hvs.{w95}", "gsk_{a52}", "xai-{a80}", "pplx-{a48}",
    "r8_{a37}", "sbp_{h40}", "fo1_{w43}", "fm2_{b200}", "ATATT3xFfGF0{w170}={h8}", "sntryu_{h64}", "figd_{w43}", "xkeysib-{h64}-{a16}",
    "pcsk_{a5}_{a63}", "lsv2_pt_{h32}_{h10}", "tskey-auth-{a12}-{a32}", "dckr_pat_{w27}", "nfp_{a36}", "rubygems_{h48}", "HRKU-AA{w58}",
    "HRKU-{h8}-{h4}-{h4}-{h4}-{h12}", "pscale_pw_{w43}", "pscale_tkn_{w43}", "pscale_oauth_{w43}", "dapi{h32}", "pul-{h40}", "LTAI{a20}",
    "dt0c01.{u24}.{u64}", "EZAK{a54}", "duffel_live_{w43}", "shippo_live_{h40}", "sgp_{h40}", "squ_{h40}", "sm_pat_{a16}", "rdme_{z70}",
    "pnu_{a36}", "phx_{a43}", "sha256~{w43}", "A3-{u6}-{u11}-{u5}-{u5}-{u5}", "{a3}8Q~{w34}", "{a14}.atlasv1.{w64}", "{h32}-us12",
    "{n9}:AA{w33}", "re_{a8}_{a24}", "EAAA{w60}", "DefaultEndpointsProtocol=https;AccountKey={b86}==",
)  # fmt: skip
_TOKEN_TEXTS = (
    "{}", "use {} for now", 'token = "{}"', "export API_KEY={}", "The key of the staging server is {}.", "curl -H 'Authorization: Bearer {}'",
    "Anna sent me `{}` yesterday", '{{"key": "{}"}}',
)  # fmt: skip

_CARD_FORMATS = (
    *((prefix, 16) for prefix in ("4", "51", "52", "53", "54", "55", "2221", "23", "26", "2720", "6011", "644", "65", "62", "35", "3528", "3589")),
    *((prefix, 15) for prefix in ("34", "37", "2131", "1800")),
    *((prefix, 14) for prefix in ("300", "301", "302", "303", "304", "305", "36", "38")),
    *((prefix, 12) for prefix in ("5018", "5020", "5038", "56", "58", "6304", "6759", "6761", "6762", "6763", "0604", "6390")),
    ("4", 13), ("4", 19),
)  # fmt: skip
_CARD_TEXTS = (
    "My card {} has expired", "Please charge my credit card. Number is {}", "cc {}", "Is {} a valid Visa?", "the card: {}, valid until 04/29",
    "Meine Karte {} ist gesperrt",
)  # fmt: skip
_BARE_CARD_TEXTS = ("{}", "please charge {} tomorrow", "Anna paid with {}.")

_WORDS = ("summer", "Winter", "dragon", "Monkey", "berlin", "Falcon", "coffee", "Orange", "gandalf", "Sesame")
_PASSWORD_TEXTS = (
    "password {}", "the wifi password {} is on the wall", "pwd {}", "my pwd {}", "the pass is {}", "pass: {}", "login admin / {}",
    "login: anna / {}", "log in with root / {}", "credentials: admin / {}", "username admin, password {}", "user bob pass {}",
    "the password is {}", "{} is the password", "use {} as the password for the router", "das Passwort lautet {}", "Passwort {}",
    "Kennwort {}", "Zugangsdaten: anna / {}", "mot de passe {}", "le mot de passe est {}", "contraseña {}", "la clave es {}", "senha {}",
    "wachtwoord {}", "пароль {}", "curl -u admin:{} https://localhost:9200", "https://anna:{}@example.com/",
)  # fmt: skip

_HARMLESS_TEXTS = (
    "commit {h40}", "build {h32} passed", "id {h8}-{h4}-4{h3}-a{h3}-{h12}", "sha256:{h64}", "primary key: {h8}-{h4}-4{h3}-a{h3}-{h12}",
    "public_key = {a43}", "csrf_token={a40}", "cache key user_{n8}", "order number 4{n15} was shipped", "tracking id 52{n14}", "phone +49 {n11}",
    "EAN 40{n11}", "at 17{n11} ms", "version {n1}.{n2}.{n3}", "hf_hub_download_from_branch_{n2}", "npm_config_registry_url_{n1}",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{n4}", "api_key = 'your_api_key_goes_here_{n2}'", "AKIAIOSFODNN7EXAMPLE in region {n1}",
    "The password policy v{n1} asks for {n2} characters", "password sha{n3} hashing", "The pass is {n4} m high", "login page / signup page {n2}",
    "Log in to staging{n1} / staging{n1} to compare", "the password field{n1} is empty", "pass: {n2}/{n2} tests", "ticket {u4}-{n4} is closed",
    "token bucket of {n5} requests", "the secret ingredient of recipe {n3}", "s3://bucket/{h8}/file-{n6}.parquet", "trace {h16} took {n3} ms",
)  # fmt: skip


class PiiSample(NamedTuple):
    """A text, its sort, and the class that must be found in it, if any."""

    sort: str
    text: str
    pii_class: PiiClass | None


def draw_pii_samples(rng: random.Random, rounds: int = 10) -> Iterator[PiiSample]:
    """Yield samples of each sort. A round has one text of each template."""
    for _ in range(rounds):
        for template in _TOKEN_TEMPLATES:
            yield PiiSample("tokens", rng.choice(_TOKEN_TEXTS).format(_fill(rng, template)), "secret")
        for prefix, size in _CARD_FORMATS:
            card = _draw_card(rng, prefix, size)
            separator = rng.choice(("", "", " ", "-"))
            grouped = separator.join(card[start : start + 4] for start in range(0, size, 4))
            yield PiiSample("cards", rng.choice(_CARD_TEXTS).format(grouped), "card")
            yield PiiSample("cards that nothing announces", rng.choice(_BARE_CARD_TEXTS).format(card), "card")
        for template in _PASSWORD_TEXTS:
            yield PiiSample("passwords", template.format(_draw_password(rng)), "password")
        for template in _HARMLESS_TEXTS:
            yield PiiSample("look-alikes", _fill(rng, template), None)


def _fill(rng: random.Random, template: str) -> str:
    """Replace each ``{a20}`` by as many random characters of an alphabet."""
    return re.sub(
        r"\{([a-z])(\d+)\}", lambda match: "".join(rng.choices(_ALPHABETS[match[1]], k=int(match[2]))), template
    )


def _draw_card(rng: random.Random, prefix: str, size: int) -> str:
    digits = prefix + "".join(rng.choices(string.digits, k=size - len(prefix) - 1))
    total = sum(sum(divmod(int(digit) * (2 - index % 2), 10)) for index, digit in enumerate(reversed(digits)))
    return digits + str(-total % 10)


def _draw_password(rng: random.Random) -> str:
    """Return a word with a number and perhaps a sign, or random characters."""
    if rng.random() < 0.5:
        return f"{rng.choice(_WORDS)}{rng.randrange(10, 10_000)}{rng.choice(('', '', '!', '#'))}"
    return "".join(
        rng.choices(string.ascii_letters, k=5) + rng.choices(string.digits, k=3) + rng.choices("!#$%&*", k=1) + ["x"]
    )
