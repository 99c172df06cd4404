"""Keys and tokens: in a provider's format, or random after a word that announces one.

A value in the published format is a token, whatever its characters are. After a prefix that nothing else uses, a value in
another format is a token if it is random enough; so is a value after a word such as ``secret``.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, partial
from importlib.resources import files
from itertools import islice
from operator import itemgetter

from lukasa.pii.numbers import Scan, Span
from lukasa.pii.patterns import (
    KeywordPattern,
    any_case,
    build_trie_pattern,
    find_after_keyword,
    has_entropy,
    is_placeholder,
    is_published,
    is_random,
    is_token,
)
from lukasa.text.patterns import compile_on_use

_LINES = [
    line.split()
    for line in (files(__package__) / "token_formats.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
TOKEN_PREFIXES = {
    prefix.lstrip("+"): None if pattern == "-" else f"(?:{pattern})(?![A-Za-z0-9])"
    for *prefixes, pattern in _LINES
    for prefix in prefixes
    if not prefixes[0].startswith("~")
}
"""The pattern of the value by prefix, where one is published."""
_RANDOM_PREFIXES = {prefix.lstrip("+") for line in _LINES for prefix in line[:-1] if prefix.startswith("+")}
_VALUES = {
    prefix: "(?:{})".format("|".join(filter(None, (pattern, r"[\w.-]{16,400}" * (prefix in _RANDOM_PREFIXES)))))
    for prefix, pattern in TOKEN_PREFIXES.items()
}
_TOKEN = re.compile(
    rf"[^A-Za-z0-9](?=[{''.join(sorted({prefix[0] for prefix in _VALUES}))}]){build_trie_pattern(_VALUES)}", re.ASCII
)
"""All tokens with a prefix, after the character before. One search for all of them takes less time than one for each."""
_MAX_OVERLAP = 100
TOKEN_SHAPE = b"0" * 16
_RUN, _MAX_RUNS = re.compile(TOKEN_SHAPE + b"0*+"), 20_000
_TWO_SEPARATORS = re.compile(r"[^A-Za-z0-9][A-Za-z0-9]*+[^A-Za-z0-9]")
_PREFIX = re.compile(build_trie_pattern(dict.fromkeys(TOKEN_PREFIXES, "")), re.ASCII)
_PREFIX_INSIDE, _MAX_PREFIX = re.compile(rf"[^A-Za-z0-9]{_PREFIX.pattern}", re.ASCII), max(map(len, TOKEN_PREFIXES))

MIDDLE_LITERALS = {
    literal[1:]: re.compile(rf"{re.escape(literal[1:])}(?<={before}{re.escape(literal[1:])}){after}", re.ASCII)
    for literal, before, after in (line for line in _LINES if line[0].startswith("~"))
}
"""Tokens with a literal in the middle. What precedes the literal is looked at from there: a search for it takes long."""
_BEFORE_LITERAL = re.compile(r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{1,40}\Z", re.ASCII)


def provider_token_scan(text: str, shape: bytes) -> Scan:
    """Return a search for the tokens that start with a provider's prefix. ``shape`` has a zero for each character of a token."""
    padded, is_provider_token, may_contain_token = f" {text}", cache(_is_provider_token), cache(_may_contain_token)
    runs = [(0, len(text))]
    if 4 * len(TOKEN_SHAPE) * shape.count(TOKEN_SHAPE) <= len(text):
        parts = [run.span() for run in islice(_RUN.finditer(shape), _MAX_RUNS)]
        if len(parts) < _MAX_RUNS and 4 * sum(end - start for start, end in parts) <= len(text):
            runs = parts

    def find_provider_tokens(position: int) -> Iterator[Span]:
        for run_start, run_end in islice(runs, bisect_left(runs, position, key=itemgetter(1)), None):
            for match in _TOKEN.finditer(padded, max(run_start, position), run_end + 1):
                start, end = match.span()
                token = padded[start + 1 : end]
                if is_provider_token(token):
                    yield start, end - 1
                elif may_contain_token(token, padded[end : end + _MAX_PREFIX]):
                    for inner in _TOKEN.finditer(padded, start + 3, end + _MAX_OVERLAP):
                        inner_start, inner_end = inner.span()
                        if inner_start >= end:
                            break
                        if is_provider_token(padded[inner_start + 1 : inner_end]):
                            yield inner_start, inner_end - 1

    return find_provider_tokens


@cache
def _format_pattern(prefix: str) -> re.Pattern[str]:
    """Compile the published format behind a prefix; a pattern that matches nothing if there is none."""
    return re.compile(TOKEN_PREFIXES[prefix] or "(?!)", re.ASCII)


def _is_provider_token(token: str) -> bool:
    """Return whether a value with a provider's prefix is a token."""
    prefix: str = _PREFIX.match(token)[0]  # type: ignore[index]  # every token starts with a prefix
    value = token[len(prefix) :]
    return (
        (prefix not in _RANDOM_PREFIXES or is_random(value) or bool(_format_pattern(prefix).fullmatch(value)))
        and is_token(value)
        and not is_published(token)
    )


def _may_contain_token(token: str, after: str) -> bool:
    """Return whether another token may start inside a value that is none; ``after`` are the characters behind it."""
    if not _TWO_SEPARATORS.search(token):
        return False
    inside = _PREFIX_INSIDE.search(token + after, 2)
    return inside is not None and inside.start() < len(token)


def find_tokens_around(literal: str, text: str, position: int) -> Iterator[Span]:
    """Yield the tokens with a literal in the middle."""
    for match in MIDDLE_LITERALS[literal].finditer(text, position):
        start, end = match.span()
        before = _BEFORE_LITERAL.search(text, max(0, start - 40), start)
        start = before.start() if before else start
        if is_token(text[start:end]):
            yield start, end


WEB_TOKEN = re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)([\w-]{8,2000}+\.eyJ[\w-]{8,4000}+\.[\w-]{10,2000})", re.ASCII)
_FIRST_PART = re.compile(r"(?<![\w-])[\w-]++\Z", re.ASCII)
_REST_OF_FIRST_PART = re.compile(r"[\w-]++\Z", re.ASCII)
_WEB_TOKEN_START = re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)(?=[\w-]{8,2000}\Z)", re.ASCII)
_SECOND_PART = re.compile(r"\.eyJ(?=[\w-]{8,4000}+\.[\w-]{10})", re.ASCII)
_MAX_FIRST_PART = 2_003


def find_web_tokens(text: str, position: int) -> Iterator[Span]:
    """Yield the JSON Web Tokens. Their first two parts start with ``eyJ``, so a token is looked for around ``.eyJ``."""
    for second in _SECOND_PART.finditer(text, position):
        dot = second.start()
        if dot < position:
            continue
        first = max(position, dot - _MAX_FIRST_PART)
        first = max(first, text.rfind(".", first, dot) + 1)
        part = _REST_OF_FIRST_PART.match(text, first, dot) or _FIRST_PART.search(text, first, dot)
        start = _WEB_TOKEN_START.search(text, part.start(), dot) if part else None
        if start and (match := WEB_TOKEN.match(text, start.start())):
            if is_token(match[1]):
                yield match.span()
            position = match.end()
        else:
            position = dot


PRIVATE_KEYS = {
    "PRIVATE KEY": re.compile(
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:(?P<body>[^-]{0,20000})-----END[A-Z0-9 ]{1,60}-----)?"
    ),
    "PuTTY-User-Key-File": re.compile(r"PuTTY-User-Key-File-\d:(?P<body>[^\n]{0,100})"),
}


_KEY_CHARACTERS = frozenset(string.ascii_uppercase + string.digits)


def find_private_keys(hint: str, text: str, position: int) -> Iterator[Span]:
    """Yield the private keys. Armour with nothing but small letters inside is an example."""
    for match in PRIVATE_KEYS[hint].finditer(text, position):
        if match["body"] is None or not _KEY_CHARACTERS.isdisjoint(match["body"]):
            yield match.span()


_SIGN = (
    r"(?:[ \t](?:string|str|String)(?=[ \t]{0,99}=))?"
    r"(?:[\"'`\])]{0,2}+[ \t]{0,12}+(?::{0,3}=>?|==|\?=|\.=|:|\|\||=>|>\s{0,9}+|,(?=[ \t]{0,3}+[\"'`])|(?:is|was|to)(?=[ \t]))"
    r"[ \t]{0,3}+|[\"'`\])]{0,2}[ \t]{1,3}+|[\"'`(\[])[\"'`(\[]{0,2}+"
)
_START_OF_VALUE = r"(?=[A-Za-z+/_=.~-]{0,60}+[0-9][A-Za-z+/_=.~-]{0,60}+[0-9])(?=[0-9+/_=.~-]{0,60}+[A-Za-z])(?=[A-Za-z0-9+/_=.~-]{16})"
LABELLED_SECRETS = {
    word: KeywordPattern(
        compile_on_use(
            rf"{any_case(word)}{rest}{_SIGN}{scheme}{_START_OF_VALUE}(?P<value>[A-Za-z0-9+/_=.~-]{{16,400}})"
        ),
        compile_on_use(rf"{word}(?={rest}{_SIGN}{scheme}{_START_OF_VALUE})"),
    )
    for word, rest, scheme in (
        ("key", r"(?P<id>[_ -]?[iI][dD])?", ""),
        ("token", "", ""),
        ("secret", "", ""),
        ("cred", r"(?i:(?:ential)?s?)", ""),
        ("bearer", "", ""),
        ("auth", r"(?i:orization)?(?=[\"'`\])]{0,2}[ \t]{0,3}[:=])", r"(?i:(?:basic|token|digest|apikey)[ \t]{1,3})?"),
        ("sonar", r"[._-]?(?i:login)", ""),
    )
}
"""A word, then a value with a letter and two digits that may be a secret; its entropy decides."""

_SECRET_KEY_CONTEXT = re.compile(
    r"\n?(?:[_ -]?(?:ipa|ssecca|terces|tneilc|ppa|htua|yolped|gningis|noitpyrcne|retsam|tnuocca|etavirp|ecivres|hss|esnecil)|"
    r"_(?!(?:cilbup|bup|tekcub|yramirp|ngierof|ehcac|noititrap|tros|xedni|xdi|amehcs|ecneuqes|larutan|smk|bd|wor|tcejbo|ycnetopmedi)(?![a-z])))"
)
"""Words one of which must precede ``key``, reversed: there are primary keys, cache keys and keys of dictionaries."""
_OTHER_TOKEN_CONTEXT = re.compile(r"\n?[_ -]?(?:frsc|frsx|cilbup|egap|noitanigap|noitaunitnoc|txen)(?![a-z])")
"""Words before ``token``, reversed, after which it is no secret."""
_EXAMPLE_CONTEXT = re.compile(r"\n?[_ -]?(?:ekaf|ymmud|kcom|dekcom|elpmaxe|elpmas|sugob|gnihctam[_ -]?non)(?![a-z])")
"""Words before a label, reversed, that say that the value is made up: ``fakeToken``, ``nonMatchingToken``."""
_PROVIDER_NAMES = (files(__package__) / "provider_names.txt").read_text("utf-8").split()
_PROVIDER_NAME_CONTEXT = re.compile(build_trie_pattern(dict.fromkeys(_PROVIDER_NAMES, "")) + r"[\w.-]{0,20}\Z")
"""The name of a provider before ``key``."""
_NO_PART_OF_NAME = re.compile(r"[^\w.-]")
_HEX_DIGITS, _HEX_CAPITALS = frozenset("0123456789abcdef"), frozenset("0123456789ABCDEF")
_LONG_PART = re.compile(r"[^-_./]{10}")
_MAX_JUDGED = 100
"""How many characters of a long value show whether it is random."""
_MIN_DISTINCT = 7
"""Fewer characters have too little entropy, however they are distributed."""


def labelled_secret_scan(label: str, text: str, lower: str) -> Scan:
    """Return a search for random values after a word such as ``secret``. What occurs again is judged once."""
    is_random, names_secret = cache(_is_random), cache(partial(_names_secret, label))

    def judge(match: re.Match[str]) -> Span | None:
        start = match.start()
        before = text[start - 40 if start > 40 else 0 : start]
        is_identifier = label == "key" and match["id"] is not None
        is_secret = names_secret(before, text[start : start + 2], is_identifier) and is_random(match["value"])
        return match.span("value") if is_secret else None

    return partial(find_after_keyword, LABELLED_SECRETS[label], judge, text, lower)


def _names_secret(label: str, before: str, first_letters: str, is_identifier: bool) -> bool:
    """Return whether a label with this text before it is followed by a secret: ``api_key`` is, ``primary_key`` is not."""
    reversed_words = before[-14:].lower()[::-1]
    if label == "key":
        if is_identifier and not reversed_words.lstrip("_ -").startswith(("ssecca", "ipa")):
            return False
        if not _SECRET_KEY_CONTEXT.match(reversed_words) and not _PROVIDER_NAME_CONTEXT.search(
            _NO_PART_OF_NAME.split(before.lower())[-1]
        ):
            return False
    elif before[-1:].isalpha() and not (
        first_letters[0].isupper() and (before[-1].islower() or first_letters[1].islower())
    ):
        return False
    return not (
        _EXAMPLE_CONTEXT.match(reversed_words) or (label == "token" and _OTHER_TOKEN_CONTEXT.match(reversed_words))
    )


def _is_random(whole_value: str) -> bool:
    """Return whether a value after a label is random."""
    value = whole_value.strip(".=-_")
    head = value[:_MAX_JUDGED]
    if len(value) < 16 or len(set(head)) < _MIN_DISTINCT:
        return False
    if not _LONG_PART.search(value) or is_placeholder(whole_value):
        return False
    if len(value) >= 20 and sum(map(head.count, "0123456789")) >= 0.95 * len(head):
        return False
    return has_entropy(
        head, 2.7 if _HEX_DIGITS.issuperset(value) or _HEX_CAPITALS.issuperset(value) else 3.2
    ) and not is_published(value)
