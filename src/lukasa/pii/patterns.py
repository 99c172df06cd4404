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


OTHER_TOKENS: tuple[SecretPattern, ...] = (
    SecretPattern("-us", re.compile(r"-us(?<=[0-9a-f]{32}-us)\d{1,2}(?!\w)", re.ASCII)),
    SecretPattern(".atlasv1.", re.compile(r"\.atlasv1\.(?<=[A-Za-z0-9]{14}\.atlasv1\.)[\w=-]{40,100}", re.ASCII)),
    SecretPattern(":AA", re.compile(r":AA(?<=[0-9]{8}:AA)[\w-]{32,34}(?!\w)", re.ASCII)),
    SecretPattern("Q~", re.compile(r"Q~(?<=[A-Za-z0-9_~.]{3}[0-9]Q~)[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])", re.ASCII)),
    SecretPattern("|", re.compile(r"\|(?<=[0-9]{15}\|)[\w-]{27,40}(?![\w-])", re.ASCII)),
    SecretPattern("_mmk", re.compile(r"_mmk(?<=[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?!\w)", re.ASCII)),
    SecretPattern(".webhook.office.com/", re.compile(r"\.webhook\.office\.com/webhookb2/[\w@-]{70,80}/IncomingWebhook/[0-9a-z]{32}/[\w-]{36}", re.ASCII)),
    SecretPattern("_gitlab_session=", re.compile(r"_gitlab_session=[0-9a-z]{32}(?![0-9a-z])")),
    SecretPattern("BUNDLE_", re.compile(r"BUNDLE_(?<!\wBUNDLE_)[A-Z0-9_]{3,60}__[A-Z]{2,5}[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?[\w.-]{4,64}:[\w.-]{6,64}", re.ASCII)),
    SecretPattern(".", re.compile(r"[MNO](?<![A-Za-z0-9].)(?=[A-Za-z]{0,26}[0-9])[A-Za-z0-9]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?!\w)", re.ASCII)),
)  # fmt: skip
"""Keys and tokens with a literal in the middle. What precedes the literal is looked at from there: a search for it takes long."""

BEFORE_LITERAL = re.compile(r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{1,40}\Z", re.ASCII)
"""The part of such a token before its literal."""

WEB_TOKEN = re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)([\w-]{8,2000}+\.eyJ[\w-]{8,4000}+\.[\w-]{10,2000})", re.ASCII)
WEB_TOKEN_PARTS = re.compile(r"[\w-]++(?P<dot>\.)eyJ[\w-]{8,4000}+\.[\w-]{10,2000}", re.ASCII)
WEB_TOKEN_RUN = re.compile(rf"(?<![\w-]){WEB_TOKEN_PARTS.pattern}", re.ASCII)
"""Three parts with dots, from the start of the first: each part is read once, however often ``eyJ`` occurs in it."""
WEB_TOKEN_START = re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)(?=[\w-]{8,2000}\Z)", re.ASCII)

PRIVATE_KEYS: tuple[SecretPattern, ...] = (
    SecretPattern("PRIVATE KEY", re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:(?P<body>[^-]{0,20000})-----END[A-Z0-9 ]{1,60}-----)?")),
    SecretPattern("PuTTY-User-Key-File", re.compile(r"PuTTY-User-Key-File-\d:[^\n]{0,100}")),
)  # fmt: skip

_SECRET_SIGN = (
    r"(?:[\"'`\])]{0,2}[ \t]{0,3}(?::{0,3}=>?|==|\?=|\.=|:|\|\||=>|>\s{0,9}|,(?=[ \t]{0,3}[\"'`])|(?:is|was|to)(?=[ \t]))"
    r"[ \t]{0,3}|[\"'`\])]{0,2}[ \t]{1,3}|[\"'`(\[])[\"'`(\[]{0,2}"
)
_SECRET_VALUE = r"(?P<value>[a-z0-9+/_=.~-]{16,400})"

LABELLED_SECRETS: tuple[SecretPattern, ...] = tuple(
    SecretPattern(word, re.compile(word + rest + _SECRET_SIGN + scheme + _SECRET_VALUE))
    for word, rest, scheme in (
        ("key", r"(?P<id>[_ -]?id)?", ""), ("token", "", ""), ("secret", "", ""), ("cred", r"(?:ential)?s?", ""), ("bearer", "", ""),
        ("auth", r"(?:orization)?(?=[\"'`\])]{0,2}[ \t]{0,3}[:=])", r"(?:(?:basic|token|digest|apikey)[ \t]{1,3})?"),
        ("sonar", r"[._-]?login", ""),
    )
)  # fmt: skip
"""A keyword, then a value in lower case that may be a secret; its entropy decides."""

SECRET_KEY_CONTEXT = re.compile(
    r"\n?(?:[_ -]?(?:ipa|ssecca|terces|tneilc|ppa|htua|yolped|gningis|noitpyrcne|retsam|tnuocca|etavirp|ecivres|hss|esnecil)|"
    r"_(?!(?:cilbup|bup|tekcub|yramirp|ngierof|ehcac|noititrap|tros|xedni|xdi|amehcs|ecneuqes|larutan|smk|bd|wor|tcejbo|ycnetopmedi)(?![a-z])))"
)
"""Words one of which must precede ``key``, reversed: there are primary keys, cache keys and keys of dictionaries."""

OTHER_TOKEN_CONTEXT = re.compile(r"\n?[_ -]?(?:frsc|frsx|cilbup|egap|noitanigap|noitaunitnoc|txen)(?![a-z])")
"""Words before ``token``, reversed, after which it is no secret."""

PROVIDER_NAME_CONTEXT = re.compile(
    r"(?:adafruit|adobe|airtable|algolia|alibaba|anthropic|artifactory|asana|atlassian|beamer|bitbucket|bittrex|cloudflare|codecov|"
    r"cohere|coinbase|confluent|contentful|datadog|discord|drone|dropbox|etsy|facebook|fastly|finicity|finnhub|flickr|freshbooks|"
    r"gitter|github|gitlab|google|heroku|hubspot|intercom|jfrog|kraken|kucoin|launchdarkly|linear|linkedin|looker|mailchimp|mailgun|"
    r"mapbox|mattermost|maxmind|meraki|messagebird|netlify|newrelic|new-relic|nytimes|okta|openai|plaid|rapidapi|sendbird|sendgrid|"
    r"sentry|slack|snyk|sonar|sourcegraph|square|squarespace|stripe|sumo|telegram|travis|trello|twilio|twitch|twitter|yandex|zendesk)"
    r"[\w.-]{0,20}\Z"
)
"""The name of a provider before ``key``."""

_PASSWORD_VALUE = (
    r"[\"'`]{0,2}[ \t]{0,3}(?=[:=是はiwateléè])(?P<sign>:=|==|=>|=|:|是|は|(?:is|was|are|to|ist|lautet|war|est|es|era|é|è)"
    r"(?: (?:still|now|just|set to|currently|actually|simply))?:?(?=[ \t\"'`]))"
    r"[ \t]{0,3}(?P<quote>[\"'`“‘«]?)(?P<value>[^\s\"'`“”‘’«»,;]{3,128})(?=(?P<after>[\"'`”’»]?[^\n]{0,12}))"
)

_PASSWORD_OWNER = r"(?P<many>s?)(?: (?:for|of|to|on|at)(?: [^\s:=]{1,30}(?=[\s:=\"'`是は])){1,3}?)?"

PASSWORDS: tuple[SecretPattern, ...] = tuple(
    SecretPattern(word, re.compile(word + rest + _PASSWORD_OWNER + _PASSWORD_VALUE))
    for word, rest in (
        ("pass", r"[ -]?(?:word|code|phrase|wd|wort)"), ("pwd", ""), ("pw", ""), ("kennwort", ""), ("mot de passe", ""),
        ("contrase", "[nñ]a"), ("senha", ""), ("wachtwoord", ""), ("hasło", ""), ("lösenord", ""), ("пароль", ""), ("密码", ""), ("密碼", ""), ("パスワード", ""),
    )
)  # fmt: skip
"""A password in prose or in a file, in lower case."""

_STATED_VALUE = r"(?:->?[ \t]{1,3})?(?:\*\*)?[\"'`“‘«(]?(?=[^\s0-9!@#$%^&*+~?]{0,99}[0-9!@#$%^&*+~?])(?P<value>[^\s\"'`“”‘’«»,;]{5,128})"

STATED_PASSWORDS: tuple[SecretPattern, ...] = (
    SecretPattern("pass", re.compile(r"pass(?:(?:[ -]?(?:word|code|phrase)|wort|wd)[ \t]{1,3}|[ \t]{0,3}(?P<pass>is[ \t:]|was[ \t:]|[:=]|[ \t])[ \t]{0,3})" + _STATED_VALUE)),
    *(
        SecretPattern(word, re.compile(word + rest + r"(?:[ \t]{0,3}[:=]|[ \t]{1,3}(?:is|ist|est|es|to)(?=[ \t:]):?)?[ \t]{1,3}" + _STATED_VALUE))
        for word, rest in (
            ("pwd", ""), ("pw", ""), ("kennwort", ""), ("mot de passe", ""), ("mdp", ""), ("contrase", "[nñ]a"), ("clave", ""), ("senha", ""),
            ("wachtwoord", ""), ("hasło", ""), ("lösenord", ""), ("пароль", ""), ("密码", ""), ("パスワード", ""),
        )
    ),
    *(
        SecretPattern(word, re.compile(word + rest + r"(?: (?:is|are|with|as|using|data|details|for [\w.-]{1,40}|ist|mit|sind|lauten))?[ \t]{0,2}[:=]?[ \t]{1,3}"
            r"[\"'`]?[^\s/|:,;\"'`]{2,60}[\"'`]?(?P<pair>[ \t]{1,3}[/|:][ \t]{1,3}|[/:])" + _STATED_VALUE))
        for word, rest in (
            ("log", "[ -]?[io]n"), ("sign", "[ -]?in"), ("credential", "s?"), ("creds", ""), ("zugangsdaten", ""), ("anmelde", "daten"),
            ("identifiant", "s?"),
        )
    ),
)  # fmt: skip
"""A keyword of passwords and a value without a sign between them, or a login and a password: the value must look like one."""

PASSWORD_AFTER_VALUE = re.compile(r" pass(?:word|wort|code|phrase)(?=[.,;:!?)\n]|\Z| (?:for|to|of|on|at|in|für)\b)")
"""What follows a password: "… is the password for the router"."""

USER_BEFORE_PASS = re.compile(r"(?:user|login|account|benutzer|konto|id)\b[^\n]{1,50}\Z")

CURL_USER = re.compile(
    r"(?<=[ \t\n])(?:-u|--user)(?:=|[ \t]{0,3})[\"']?[^\s:\"'$]{0,80}[\"']?:[\"']?(?P<value>[^\s\"']{3,100})"
)
"""A user and a password among the arguments of a command; ``curl`` must precede."""
CURL_DISTANCE = 400

PIN = re.compile(r"pin(?<!\wpin)(?: ?(?:code|number))?[ \t]{0,3}(?:is|was|=|:)[ \t]{0,3}(?P<value>\d{4,8})(?![\w.-])")

URL_PASSWORD = re.compile(r"://[^\s:/@\"'<>]{0,100}:(?P<value>[^\s/@\"'<>]{3,100})@")
"""A password between a user name and a host."""

TECHNICAL_TERM = re.compile(
    r"(?:reset|change|log|manager|sha|md|argon|pbkdf|bcrypt|scrypt|oauth|utf|base|aes|rsa|tls|ssl|web|http|ipv|v|version|pep|rfc|python|windows|win|ios|android|"
    r"field|input|box|step|page|policy|test|level|option|user|rule|entry|line|item|part|option|group|attempt|hash|version)[-_]?\d[\w.+/-]{0,12}|"
    r"\d+[-–+/.]?[a-z]{1,12}|v?\d[\d.:/+,–-]*%?|[^@\s]+@[\w-]+(?:\.[\w-]+)+|[\w.-]+\.(?:[a-z]{2,4}|\d+)|[\w-]+(?:[./][\w-]+){2,}",
    re.IGNORECASE,
)
"""What follows the word password in talk of programs: algorithms, versions, names of fields, lengths, files and addresses."""

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
