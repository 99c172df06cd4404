"""Patterns of secrets and passwords.

Every pattern starts with a literal or at the start of a word and is bounded, so that no text makes it slow. A hint is a
literal that each match contains: a text without the hint needs no search for the pattern.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class SecretPattern(NamedTuple):
    """A literal hint and the pattern of one kind of secret. The last group of a token's pattern is its random part."""

    hint: str
    pattern: re.Pattern[str]


_PREFIXED_TOKENS = (
    *((hint, r"([A-Z0-9]{16})(?![A-Za-z0-9])") for hint in ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ABIA")),
    *((hint, r"([A-Za-z0-9]{30,255})") for hint in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    ("github_pat_", r"([A-Za-z0-9_]{22,255})"),
    *((hint, r"([\w-]{16,200})") for hint in ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-")),
    *((hint, r"([A-Za-z0-9-]{12,250})") for hint in ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-")),
    ("hooks.slack.com", r"(/(?:services|workflows)/[\w/+-]{20,200})"),
    ("discord", r"((?:app)?\.com/api/webhooks/\d{10,25}/[\w-]{40,100})"),
    *((hint, r"([\w-]{16,250})") for hint in ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-")),
    ("sk-", r"([A-Za-z0-9]{20,100})(?![\w-])"),
    ("AIza", r"([\w-]{35})(?![\w-])"),
    ("ya29.", r"([\w-]{20,2000})"),
    ("GOCSPX-", r"([\w-]{24,40})"),
    *((hint, r"([A-Za-z0-9_]{10,250})") for hint in ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_")),
    ("SK", r"([0-9a-f]{32})(?![A-Za-z0-9])"),
    ("SG.", r"([\w-]{16,64}\.[\w-]{16,128})"),
    ("key-", r"([0-9a-f]{32})(?![A-Za-z0-9])"),
    *((hint, r"([\w.-]{16,400})") for hint in (
        "npm_", "pypi-Ag", "hf_", "dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpca_", "shppa_", "shpss_", "sq0atp-",
        "sq0csp-", "lin_api_", "ntn_", "PMAK-", "NRAK-", "glc_", "glsa_", "dp.pt.", "dp.st.", "hvs.", "hvb.", "gsk_",
        "xai-", "pplx-", "r8_", "sbp_", "fo1_", "ATATT3", "ATBB", "sntrys_", "sntryu_", "figd_", "ops_eyJ", "xkeysib-",
        "pcsk_", "lsv2_pt_", "lsv2_sk_", "tskey-", "dckr_pat_", "bkua_", "CCIPAT_", "nfp_", "secret_", "rubygems_",
        "PRIVATE-TOKEN", "EAACEdEose0cBA", "AGE-SECRET-KEY-1", "tfp_", "nvapi-", "fw_", "csk-", "key_live_", "pul-",
    )),
    ("dapi", r"([0-9a-f]{32}(?:-\d)?)(?!\w)"),
    ("re_", r"([A-Za-z0-9]{8}_[A-Za-z0-9]{20,30})"),
    ("EAAA", r"([\w-]{56,70})"),
    ("pat", r"([A-Za-z0-9]{14}\.[0-9a-f]{64})"),
    ("AccountKey=", r"([A-Za-z0-9+/]{40,100}={0,2})"),
    ("SharedAccessKey=", r"([A-Za-z0-9+/]{40,100}={0,2})"),
)  # fmt: skip
"""Literal prefixes of providers, and what follows each."""


def _build_token_patterns() -> tuple[tuple[SecretPattern, ...], re.Pattern[str]]:
    """Build one pattern for each first three letters of a token, and one pattern that finds where any token starts."""
    by_letter: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for literal, rest in _PREFIXED_TOKENS:
        by_letter.setdefault(literal[0], {}).setdefault(literal[:3], []).append((literal, rest))
    patterns: list[SecretPattern] = []
    starts: list[str] = []
    for letter, by_prefix in by_letter.items():
        groups: list[str] = []
        for prefix, tokens in by_prefix.items():
            rests = "|".join(re.escape(literal[3:]) + rest for literal, rest in tokens)
            word_start = f"{re.escape(prefix)}(?<![A-Za-z0-9]{re.escape(prefix)})"
            patterns.append(SecretPattern(prefix, re.compile(f"{word_start}(?:{rests})", re.ASCII)))
            shortest = [(re.escape(literal[1:]), re.sub(r",\d+\}\)$", "})", rest)) for literal, rest in tokens]
            groups.append("(" + "|".join(start + re.sub(r"\((?!\?)", "(?:", rest) for start, rest in shortest) + ")")
        starts.append(f"{letter}(?:{'|'.join(groups)})")
    letters = f"(?=[{''.join(by_letter)}])"  # most characters that are not letters end here
    return tuple(patterns), re.compile(f"(?<![A-Za-z0-9]){letters}(?={'|'.join(starts)})", re.ASCII)


PROVIDER_TOKENS, TOKEN_START = _build_token_patterns()
"""Keys and tokens that start with a literal, and one pattern that finds the starts of all of them.

The number of the group that ``TOKEN_START`` matched is one more than the index of the token's pattern. One search for all
starts takes less time than a search for each. It looks ahead for the shortest possible token only, so that tokens that
overlap cost little.
"""

OTHER_TOKENS: tuple[SecretPattern, ...] = (
    SecretPattern("-us", re.compile(r"[0-9a-f](?<![A-Za-z0-9].)[0-9a-f]{31}-us\d{1,2}(?!\w)", re.ASCII)),
    SecretPattern(".atlasv1.", re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,100}", re.ASCII)),
    SecretPattern(":AA", re.compile(r"[0-9](?<![A-Za-z0-9].)[0-9]{7,9}:AA[\w-]{32,34}(?!\w)", re.ASCII)),
    SecretPattern(".", re.compile(r"[MNO](?<![A-Za-z0-9].)[A-Za-z0-9]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?!\w)", re.ASCII)),
)  # fmt: skip
"""Keys and tokens with a literal in the middle."""

WEB_TOKEN = re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)([\w-]{8,2000}+\.eyJ[\w-]{8,4000}+\.[\w-]{10,2000})", re.ASCII)
WEB_TOKEN_PARTS = re.compile(r"[\w-]++(?P<dot>\.)eyJ[\w-]{8,4000}+\.[\w-]{10,2000}", re.ASCII)
WEB_TOKEN_RUN = re.compile(rf"(?<![\w-]){WEB_TOKEN_PARTS.pattern}", re.ASCII)
"""Three parts with dots, from the start of the first: each part is read once, however often ``eyJ`` occurs in it."""
WEB_TOKEN_START = re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)(?=[\w-]{8,2000}\Z)", re.ASCII)

PRIVATE_KEYS: tuple[SecretPattern, ...] = (
    SecretPattern("PRIVATE KEY", re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[^-]{0,20000}-----END[A-Z0-9 ]{1,60}-----)?")),
    SecretPattern("PuTTY-User-Key-File", re.compile(r"PuTTY-User-Key-File-\d:[^\n]{0,100}")),
)  # fmt: skip

_SECRET_VALUE = r"[\"'`\])]{0,2}[ \t]{0,3}(?:(?:is|was|=>|:=|==|=|:|to|>)[ \t]{0,3})?[\"'`(\[]{0,2}(?P<value>[a-z0-9+/_=.~-]{16,400})"

LABELLED_SECRETS: tuple[SecretPattern, ...] = tuple(
    SecretPattern(word, re.compile(word + rest + _SECRET_VALUE))
    for word, rest in (("key", r"(?:[_ -]id)?"), ("token", ""), ("secret", ""), ("credential", "s?"), ("bearer", ""))
)
"""A keyword, then a value in lower case that may be a secret; its entropy decides."""

SECRET_KEY_CONTEXT = re.compile(
    r"\n?[_ -]?(?:ipa|ssecca|terces|tneilc|ppa|htua|yolped|gningis|noitpyrcne|retsam|tnuocca|etavirp|ecivres|hss|esnecil|_)"
)
"""Words one of which must precede ``key``, reversed: there are primary keys, cache keys and keys of dictionaries."""

_PASSWORD_VALUE = (
    r"[\"'`]{0,2}[ \t]{0,3}(?=[:=是はiwateé])(?P<sign>:=|==|=>|=|:|是|は|(?:is|was|are|to|ist|est|es|é)"
    r"(?: (?:still|now|just|set to|currently|actually|simply))?:?(?=[ \t\"'`]))"
    r"[ \t]{0,3}(?P<quote>[\"'`“‘«]?)(?P<value>[^\s\"'`“”‘’«»,;]{3,128})(?=(?P<after>[\"'`”’»]?[^\n]{0,12}))"
)

_PASSWORD_OWNER = r"(?P<many>s?)(?: (?:for|of|to|on|at)(?: [^\s:=]{1,30}(?=[\s:=\"'`是は])){1,3}?)?"

PASSWORDS: tuple[SecretPattern, ...] = tuple(
    SecretPattern(word, re.compile(word + rest + _PASSWORD_OWNER + _PASSWORD_VALUE))
    for word, rest in (
        ("pass", r"[ -]?(?:word|code|phrase|wd|wort)"), ("pwd", ""), ("pw", ""), ("kennwort", ""), ("mot de passe", ""),
        ("contrase", "[nñ]a"), ("senha", ""), ("пароль", ""), ("密码", ""), ("密碼", ""), ("パスワード", ""),
    )
)  # fmt: skip
"""A password in prose or in a file, in lower case."""

PIN = re.compile(r"pin(?<!\wpin)(?: ?(?:code|number))?[ \t]{0,3}(?:is|was|=|:)[ \t]{0,3}(?P<value>\d{4,8})(?![\w.-])")

URL_PASSWORD = re.compile(r"://[^\s:/@\"'<>]{0,100}:(?P<value>[^\s/@\"'<>]{3,100})@")
"""A password between a user name and a host."""

_PLACEHOLDER = re.compile(r"example|placeholder|change_?me|redacted|dummy|goes_here|_here|xxxx|\*\*\*|\.\.\.")
_NO_VALUE = re.compile(
    r"[<\[{$%(]|your|(?:os|process|env|config|settings|secrets|vault|self|this|request|args|params)[.\[(]|"
    r"(?:x+|\*+|\.+|-+|_+|#+|none|null|nil|true|false|undefined|todo|tbd|n/a)\Z"
)


def is_placeholder(value: str) -> bool:
    """Return whether a value only marks the place of a secret."""
    lower = value.lower()
    return lower[-1] in ">]})" or bool(_NO_VALUE.match(lower) or _PLACEHOLDER.search(lower))


COMMON_AFTER_PASSWORD = frozenset(
    """a about above active again all allowed already also always an and any anymore applied asked at available back bad based
    because been being below better blank both broken by cached called cannot case-sensitive changed checked chosen clear
    complex compromised confidential configured correct created criteria default derived different disabled easy either empty
    encrypted enforced enough entered entry expired expiring expires false fine for forgotten found four free from generated
    given gone good guessable handled hard hashed here hidden how ignored important in incorrect insecure invalid it its
    just kept known leaked lengths less like limited linked local locked login long longer lost made managed mandatory masked
    missing more my needed never new no none not now nothing ok okay old on one only optional or other our out outdated own plain
    policy private protected provided public ready rejected remembered removed required requested reset resets reused right
    rotated safe salted same saved secret secure sent set shared short should similar simple since so something somewhere
    still stored strong stronger strings supported taken temporary tested that the their them then there these they this to too
    transmitted treated true two typed unchanged unique unknown unsafe until up updated used user using valid validated verified
    very wait weak weaker what when where which while with within without working wrong you your""".split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words after "the password is" that do not give one away: "the password is stored in the vault"."""
