"""Detection of personal data and secrets in a text, and their refusal or redaction in a draft.

The text is normalised first (compatibility forms, invisible characters, every kind of dash and blank), then searched for

- ``card``: payment cards by brand, length and check digit, however they are grouped;
- ``ssn``: American social security numbers by their area rules; without dashes only where the text mentions one;
- ``secret``: keys and tokens by their provider's prefix, or after a keyword and random enough;
- ``password``: passwords in prose, in a file or inside a URL, and PINs;
- ``private_key``: the armour of a private key.

A finding names the class and the place, never the value, and nothing of what was read is kept or logged. Findings are
exact in texts under 4,000 characters. In longer texts, past 64 findings of a class in a window of 8,192 characters, the
rest of the window is reported as one finding.
"""

from __future__ import annotations

import hashlib
import re
import string
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import accumulate, pairwise
from math import log2
from typing import Any, Literal, NamedTuple

from lukasa.outcome import Refused
from lukasa.pii.numbers import Scan, Span, card_scan, mentions_ssn, ssn_scan
from lukasa.pii.patterns import (
    BEFORE_LITERAL,
    COMMON_AFTER_PASSWORD,
    CURL_DISTANCE,
    CURL_USER,
    LABELLED_SECRETS,
    OTHER_TOKEN_CONTEXT,
    OTHER_TOKENS,
    PASSWORD_AFTER_VALUE,
    PASSWORDS,
    PIN,
    PRIVATE_KEYS,
    PROVIDER_NAME_CONTEXT,
    SECRET_KEY_CONTEXT,
    STATED_PASSWORDS,
    TECHNICAL_TERM,
    URL_PASSWORD,
    USER_BEFORE_PASS,
    WEB_TOKEN,
    WEB_TOKEN_PARTS,
    WEB_TOKEN_RUN,
    WEB_TOKEN_START,
    is_placeholder,
)
from lukasa.pii.tokens import PREFIXES_OF_RANDOM_VALUES, PROVIDER_TOKENS, RANDOM_VALUE, TOKEN_START
from lukasa.record import Draft

PiiClass = Literal["card", "ssn", "secret", "password", "private_key"]
CLASS_NAMES: dict[PiiClass, str] = {
    "card": "a payment card number",
    "ssn": "a social security number",
    "secret": "an API key or token",
    "password": "a password",
    "private_key": "a private key",
}
EXACT_LENGTH = 4_000
_MAX_LIGATURE_LENGTH = 3
_MAX_CACHED_CHARACTERS = 100_000
_MAX_CLEAN_DIGESTS = 10_000
_clean_digests: set[bytes] = set()
WINDOW, MAX_FINDINGS = 8_192, 64
_MAX_SPACED_LENGTH = 320
"""No finding that may hold blanks is longer, private keys aside, which are not limited."""

_Match = re.Match[str]
Judge = Callable[[_Match], Span | None]


class PiiFinding(NamedTuple):
    """A class and the span where it was found; never the value itself."""

    start: int
    end: int
    pii_class: PiiClass


class NormalisedText(NamedTuple):
    """A text with plain characters, and the text that it was made of."""

    text: str
    original: str

    def original_spans(self, spans: Iterable[Span]) -> list[Span]:
        """Return the spans of the original text that became the given spans."""
        if self.text == self.original:
            return list(spans)
        ends = list(accumulate(map(len, map(_PLAIN_CHARACTERS.__getitem__, self.original))))
        return [(bisect_right(ends, start), bisect_left(ends, end) + 1) for start, end in spans]


def normalise_with_offsets(text: str) -> NormalisedText:
    """Replace compatibility forms, invisible characters, and every kind of dash, blank and digit by plain characters."""
    return NormalisedText(text if text.isascii() else "".join(map(_PLAIN_CHARACTERS.__getitem__, text)), text)


def normalise_character(character: str) -> str:
    """Return what a character looks like: itself for nearly all.

    A character that looks like several, such as a ligature, is replaced if those are ASCII and at most three.
    """
    category = unicodedata.category(character)
    if category in ("Cn", "Co"):
        return character
    if category == "Cf" or "\ufe00" <= character <= "\ufe0f":
        return ""
    if category == "Pd" or character in "\u2212\u2043\u00b7":
        return "-"
    if category == "Zs":
        return " "
    plain = unicodedata.normalize("NFKC", character)
    if len(plain) == 1:
        return str(unicodedata.decimal(plain)) if not plain.isascii() and plain.isdecimal() else plain
    return plain if len(plain) <= _MAX_LIGATURE_LENGTH and plain.isascii() else character


class _PlainCharacters(dict[str, str]):
    """A cache of ``normalise_character``, filled as characters occur."""

    def __missing__(self, character: str) -> str:
        plain = normalise_character(character)
        if len(self) < _MAX_CACHED_CHARACTERS:
            self[character] = plain
        return plain


_PLAIN_CHARACTERS = _PlainCharacters()


def find_pii(text: str) -> list[PiiFinding]:
    """Return everything personal or secret in a text, in order; overlapping findings become one."""
    normalised = normalise_with_offsets(text)
    found: list[tuple[int, int, PiiClass]] = []
    counts: dict[PiiClass, dict[int, int]] = {}
    for pii_class, scan in _scans(normalised.text):
        if len(normalised.text) < EXACT_LENGTH or pii_class == "private_key":
            spans = scan(0)
        else:
            spans = _limit_findings(normalised.text, scan, counts.setdefault(pii_class, {}))
        found += [(start, end, pii_class) for start, end in spans]
    found.sort()
    merged: list[tuple[int, int, PiiClass]] = []
    for start, end, pii_class in found:
        if not merged or start >= merged[-1][1]:
            merged.append((start, end, pii_class))
        elif end > merged[-1][1]:
            merged[-1] = (merged[-1][0], end, merged[-1][2])
    spans = normalised.original_spans((start, end) for start, end, _ in merged) if merged else ()
    return [PiiFinding(start, end, each[2]) for (start, end), each in zip(spans, merged, strict=True)]


def redact_text(text: str) -> str:
    """Replace every finding in a text by its class: ``[card]``, ``[password]`` …"""
    pieces: list[str] = []
    position = 0
    for finding in find_pii(text):
        pieces += [text[position : finding.start], f"[{finding.pii_class}]"]
        position = finding.end
    return "".join([*pieces, text[position:]])


def describe_findings(findings: Iterable[PiiFinding]) -> str:
    """Name the classes that were found: "a password and an API key or token"."""
    names = [CLASS_NAMES[pii_class] for pii_class in dict.fromkeys(finding.pii_class for finding in findings)]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def find_pii_once(texts: Iterable[str]) -> list[PiiFinding]:
    """Find personal data and secrets in the texts that were not scanned before.

    A text without findings is remembered by its hash, so that a service can scan a record before it takes the write lock
    and the gate does not scan it again inside.
    """
    findings: list[PiiFinding] = []
    for text in texts:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in _clean_digests:
            continue
        found = find_pii(text)
        findings += found
        if not found:
            if len(_clean_digests) >= _MAX_CLEAN_DIGESTS:
                _clean_digests.clear()
            _clean_digests.add(digest)
    return findings


def draft_texts(draft: Draft) -> list[str]:
    """List every string in the text, the body and the labels of a draft."""
    texts: list[str] = [draft.text] if draft.text else []
    values: list[Any] = [*draft.body.items(), *draft.labels]
    while values:
        value = values.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            values.extend(value.items())
        elif isinstance(value, list | tuple):
            values.extend(value)
    return texts


def check_pii(draft: Draft) -> Refused | None:
    """Refuse a draft that holds anything personal or secret. The refusal names the classes, never the values."""
    findings = find_pii_once(draft_texts(draft))
    if not findings:
        return None
    return Refused(
        "pii",
        f"This holds what looks like {describe_findings(findings)}, which records of kind {draft.kind!r} do not keep. "
        "Leave it out, and say where it can be found instead.",
        {"classes": sorted({finding.pii_class for finding in findings})},
    )


def redact_draft(draft: Draft) -> Draft:
    """Replace every finding in the text, the body and the labels of a draft by its class."""
    return draft._replace(
        text=redact_text(draft.text),
        body=_redact_value(draft.body) if draft.body else draft.body,
        labels=tuple(redact_text(label) for label in draft.labels),
    )


def apply_pii_handling(draft: Draft, handling: Literal["allow", "redact", "block"]) -> Draft | Refused:
    """Scan a draft once and return the draft that may be kept, or its refusal."""
    if handling == "block" and (refused := check_pii(draft)) is not None:
        return refused
    return redact_draft(draft) if handling == "redact" else draft


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {redact_text(name): _redact_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(item) for item in value]
    return value


def _zeros(characters: str) -> bytes:
    """Build a table that turns the characters into zeros and leaves dashes, dots and blanks; everything else becomes x."""
    table = bytearray(b"x" * 256)
    for character in b" .-":
        table[character] = character
    for character in characters.encode():
        table[character] = ord("0")
    return bytes(table)


_DIGITS = string.digits
_SSN_SHAPES, _SSN_SHAPE_TABLE = (b"000-00-0000", b"000 00 0000", b"000.00.0000"), _zeros(_DIGITS)
_BARE_SSN_SHAPE = b"000000000"
_CARD_SHAPE, _CARD_SHAPE_TABLE = b"0" * 12, _zeros(_DIGITS + " .-")
_TOKEN_SHAPE, _TOKEN_SHAPE_TABLE = b"0" * 16, _zeros(string.ascii_letters + _DIGITS + "+/_=.:~-")
"""Shapes without which a text has no such finding: searching for one takes far less time than searching for a pattern."""
_ALL_HINTS = {pattern.hint for pattern in (*LABELLED_SECRETS, *PASSWORDS, *STATED_PASSWORDS)} | {"pin", " pass", "curl"}
_ASCII_HINTS = tuple((hint, hint.encode()) for hint in sorted(_ALL_HINTS) if hint.isascii())
"""Hints that are searched in bytes, which takes less time than in wide characters."""
_WIDE_HINTS = tuple(hint for hint in sorted(_ALL_HINTS) if not hint.isascii())
_REST_OF_WORD = re.compile(r"\S{0,8192}")


def _scans(text: str) -> Iterator[tuple[PiiClass, Scan]]:
    """Yield the searches that may find anything in a text."""
    lower = text.replace("\u0130", "\u0131").lower()  # the only letter whose lower case is two characters
    data = text.encode("ascii", "replace")
    if _CARD_SHAPE in data.translate(_CARD_SHAPE_TABLE):
        yield "card", card_scan(text, lower, data)
    shape = data.translate(_SSN_SHAPE_TABLE)
    if any(ssn in shape for ssn in _SSN_SHAPES) or (_BARE_SSN_SHAPE in shape and mentions_ssn(lower)):
        yield "ssn", ssn_scan(text, lower)
    lower_data = data.lower()
    hints = {hint for hint, data_hint in _ASCII_HINTS if data_hint in lower_data}
    if not text.isascii():
        hints |= {hint for hint in _WIDE_HINTS if hint in lower}
    if _TOKEN_SHAPE in data.translate(_TOKEN_SHAPE_TABLE):
        yield "secret", partial(_find_provider_tokens, text)
        if b".eyJ" in data:
            yield "secret", partial(_find_web_tokens, text)
        for hint, pattern in OTHER_TOKENS:
            if hint in text:
                yield "secret", partial(_find, pattern, text, partial(_other_token_span, text))
        for hint, pattern in LABELLED_SECRETS:
            if hint in hints:
                yield "secret", partial(_find, pattern, lower, partial(_labelled_secret_span, text, hint))
    for hint, pattern in PRIVATE_KEYS:
        if hint in text:
            yield "private_key", partial(_find, pattern, text, _private_key_span)
    if "pin" in hints:
        yield "password", partial(_find, PIN, lower, _value_span)
    for hint, pattern in PASSWORDS:
        if hint in hints:
            yield "password", partial(_find, pattern, lower, partial(_password_span, text))
    for hint, pattern in STATED_PASSWORDS:
        if hint in hints:
            yield "password", partial(_find, pattern, lower, partial(_stated_password_span, text, lower))
    if " pass" in hints:
        yield "password", partial(_find, PASSWORD_AFTER_VALUE, lower, partial(_password_before_span, text))
    if "curl" in hints:
        yield "password", partial(_find, CURL_USER, text, partial(_curl_password_span, text))
    if b"://" in data and b"@" in data:
        yield "password", partial(_find, URL_PASSWORD, text, _url_password_span)


def _limit_findings(text: str, scan: Scan, counts: dict[int, int]) -> Iterator[Span]:
    """Yield the findings of a search; after too many in a window, the rest of the window as one.

    ``counts`` holds the number of findings by window and is shared by all searches for a class. The last few characters of
    a full window are searched all the same: a finding there may go on in the next window.
    """
    position: int | None = 0
    while position is not None:
        spans, position = scan(position), None
        for start, end in spans:
            yield start, end
            window = start // WINDOW
            counts[window] = counts.get(window, 0) + 1
            window_end = (window + 1) * WINDOW
            if counts[window] > MAX_FINDINGS and start < window_end - _MAX_SPACED_LENGTH:
                rest = _REST_OF_WORD.match(text, window_end)
                yield start, rest.end() if rest else window_end
                position = window_end - _MAX_SPACED_LENGTH
                break


def _find(pattern: re.Pattern[str], text: str, judge: Judge, position: int) -> Iterator[Span]:
    """Yield what a judge accepts of the matches of a pattern."""
    for match in pattern.finditer(text, position):
        if (span := judge(match)) is not None:
            yield span


def _find_provider_tokens(text: str, position: int) -> Iterator[Span]:
    """Yield the tokens that start with a provider's prefix; those of one prefix do not overlap."""
    free: dict[str, int] = {}
    for start_match in TOKEN_START.finditer(text, position):
        start, value_start = start_match.span()
        prefix = start_match[0]
        if start < free.get(prefix, 0):
            continue
        pattern = PROVIDER_TOKENS[prefix]
        if pattern and (value := pattern.match(text, value_start)):
            free[prefix] = value.end()
            if _is_token(value[0]):
                yield start, value.end()
                continue
        if prefix in PREFIXES_OF_RANDOM_VALUES and (value := RANDOM_VALUE.match(text, value_start)):
            free[prefix] = value.end()
            if _is_token(value[0]) and not _counts_up(value[0]):
                yield start, value.end()


_WORDS = re.compile(r"[a-z]+(?:[-_.][a-z]+)+|[A-Z]+(?:[-_.][A-Z]+)+")


def _is_token(value: str) -> bool:
    """Return whether a value in a token's format is more than a row of the same few characters, words or an example."""
    min_bits = 2.7 if len(value) >= 32 else 2.0
    return (
        (_has_entropy(value[:64], min_bits) or (len(value) > 64 and _has_entropy(value[64:], min_bits)))
        and not _WORDS.fullmatch(value)
        and not is_placeholder(value)
    )


_NEXT_CHARACTERS = dict(
    zip(string.digits + string.ascii_lowercase, "1234567890bcdefghijklmnopqrstuvwxyza", strict=True)
)
_MAX_STEPS = 40


def _counts_up(value: str) -> bool:
    """Return whether a value is an example such as ``abcdef123456…``: many characters are followed by the next one."""
    lower = value.lower()
    return sum(_NEXT_CHARACTERS.get(first) == second for first, second in pairwise(lower)) >= _MAX_STEPS


def _find_web_tokens(text: str, position: int) -> Iterator[Span]:
    """Yield the JSON Web Tokens. Their first two parts start with ``eyJ``."""
    while run := WEB_TOKEN_PARTS.match(text, position) or WEB_TOKEN_RUN.search(text, position):
        dot = position = run.start("dot")
        start = WEB_TOKEN_START.search(text, max(run.start(), dot - 2_003), dot)
        if start and (match := WEB_TOKEN.match(text, start.start())):
            position = match.end()
            if (span := _token_span(match)) is not None:
                yield span


def _token_span(match: _Match) -> Span | None:
    value = match[match.lastindex or 0]
    return match.span() if _is_token(value) else None


def _other_token_span(text: str, match: _Match) -> Span | None:
    start, end = match.span()
    before = BEFORE_LITERAL.search(text, max(0, start - 40), start)
    start = before.start() if before else start
    return (start, end) if _is_token(text[start:end]) else None


_KEY_CHARACTER = re.compile(r"[A-Z0-9]")


def _private_key_span(match: _Match) -> Span | None:
    """Return the span of a private key. Armour with nothing but small letters inside is an example."""
    body = match.groupdict().get("body")
    return match.span() if body is None or _KEY_CHARACTER.search(body) else None


def _labelled_secret_span(text: str, label: str, match: _Match) -> Span | None:
    start, end = match.span("value")
    value = text[start:end].strip(".=-_")
    label_start = match.start()
    before = text[max(0, label_start - 40) : label_start]
    if label == "key":
        reversed_words = before[-14:].lower()[::-1]
        if match["id"] and not reversed_words.lstrip("_ -").startswith(("ssecca", "ipa")):
            return None
        if not SECRET_KEY_CONTEXT.match(reversed_words) and not PROVIDER_NAME_CONTEXT.search(before.lower()):
            return None
    elif label == "token" and OTHER_TOKEN_CONTEXT.match(before[-14:].lower()[::-1]):
        return None
    if label != "key" and before[-1:].isalpha() and not (text[label_start].isupper() and before[-1].islower()):
        return None
    if len(value) < 16 or not _is_mixed(value) or is_placeholder(text[start:end]):
        return None
    return (start, end) if _has_entropy(value, 2.7 if _HEXADECIMAL.fullmatch(value) else 3.2) else None


_HEXADECIMAL = re.compile(r"[0-9a-f]+|[0-9A-F]+")


def _has_entropy(value: str, min_bits: float) -> bool:
    """Return whether a text has at least so many bits of entropy per character."""
    size, letters = len(value), set(value)
    if len(letters) < 2**min_bits:
        return False
    if len(letters) >= _count_characters_needed(size, min_bits):
        return True
    return log2(size) - sum(map(_times_log2, map(value.count, letters))) / size >= min_bits


@cache
def _times_log2(count: int) -> float:
    return count * log2(count)


@cache
def _count_characters_needed(size: int, min_bits: float) -> int:
    """Return how many different characters are enough for the entropy, however they are distributed."""
    for letters in range(1, size + 1):
        most = size - letters + 1
        if (letters - 1) / size * log2(size) - most / size * log2(most / size) >= min_bits:
            return letters
    return size + 1


_LETTER_AND_DIGITS = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9][^0-9]*[0-9]).*?[^-_./]{10}")


def _is_mixed(value: str) -> bool:
    """Return whether a value has letters and digits, and is not made of the parts of a sentence or a path."""
    if not _LETTER_AND_DIGITS.match(value):
        return False
    return len(value) < 20 or len(value.encode().translate(None, b"0123456789")) > 0.05 * len(value)


_NOT_A_PASSWORD = re.compile(r"\d{1,3}(?:[-–+]\w+)?|\d+[-–]\d+|https?:.*|/\S*|[\w.]+[(\[].*")
"""Lengths, ranges, addresses, paths and calls of functions."""
_UNLIKE_A_WORD = re.compile(r"[\d_]|[^\w'’.-]|[a-z][A-Z]")
_MORE_WORDS = re.compile(r"[\"'`”’»]?[^\S\n]+\w")


def _value_span(match: _Match) -> Span:
    return match.span("value")


def _url_password_span(match: _Match) -> Span | None:
    value = match["value"]
    if is_placeholder(value) or value.lower() in ("password", "pass", "pwd"):
        return None
    return match.span("value")


def _curl_password_span(text: str, match: _Match) -> Span | None:
    start, end = match.span("value")
    if "curl" not in text[max(0, start - CURL_DISTANCE) : start]:
        return None
    return (start, end) if _UNLIKE_A_WORD.search(match["value"]) and not is_placeholder(match["value"]) else None


def _stated_password_span(text: str, lower: str, match: _Match) -> Span | None:
    """Return the span of a value after a keyword of passwords, or after a login, if it looks like a password."""
    start, keyword_start = match.start("value"), match.start()
    if keyword_start and (text[keyword_start - 1].isalnum() or text[keyword_start - 1] == "_"):
        return None
    groups = match.groupdict()
    value = text[start : match.end("value")].rstrip(".!?):*_")
    needs_sign = (groups.get("pass") or "").isspace() and not USER_BEFORE_PASS.search(
        lower, max(0, keyword_start - 60), keyword_start
    )
    if needs_sign or groups.get("pair") == "/":
        return (start, start + len(value)) if _STRONG_PASSWORD.match(value) else None
    return (start, start + len(value)) if _looks_like_password(value) else None


def _password_before_span(text: str, match: _Match) -> Span | None:
    """Return the span of the word before "is the password", if it looks like a password."""
    word = _LAST_WORD.search(text, max(0, match.start() - 160), match.start())
    return word.span("value") if word and _looks_like_password(word["value"]) else None


_LAST_WORD = re.compile(
    r"(?<!\S)[\"'`“‘«(]?(?P<value>[^\s\"'`“”‘’«»,;]{5,128})[\"'`”’»),]{0,2}[ \t](?:is|as|ist|als)"
    r"(?: (?:the|my|your|our|his|her|their|das|mein|unser))?(?: \w{1,12})?\Z",
    re.IGNORECASE,
)
_LIKE_A_PASSWORD = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?:[^0-9]*[0-9].*|.*[!@#$%^&*+~?].*)|[0-9]{6,}")
_STRONG_PASSWORD = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])(?=.*[!@#$%^&*+~?]).{6}")


def _looks_like_password(value: str) -> bool:
    """Return whether a value has letters and digits or signs, and is no term, version, address or length."""
    return (
        len(value) >= 5
        and value[0] not in "<[{$%(/"
        and _LIKE_A_PASSWORD.fullmatch(value) is not None
        and not (TECHNICAL_TERM.fullmatch(value) or _NOT_A_PASSWORD.fullmatch(value) or is_placeholder(value))
    )


def _password_span(text: str, match: _Match) -> Span | None:
    start, end = match.span("value")
    value = text[start:end].rstrip(".!?)")
    if value.lower() in COMMON_AFTER_PASSWORD or not value or value[0] in "<[{$%(":
        return None
    keyword_start = match.start()
    if keyword_start and text[keyword_start - 1].isalnum():
        return None
    return (start, start + len(value)) if _is_password(value, match) else None


def _is_password(value: str, match: _Match) -> bool:
    """Return whether the words after the keyword are a password, and not a statement about one."""
    if match["many"]:
        return False
    if _UNLIKE_A_WORD.search(value):
        return not _NOT_A_PASSWORD.fullmatch(value) and not is_placeholder(value)
    if not match["quote"]:
        if len(value) < 4 or _MORE_WORDS.match(match["after"]):
            return False
        if value.endswith(("ed", "ing", "able", "ible", "ly")) and match["sign"] not in ("=", ":=", "=="):
            return False
    return not is_placeholder(value)
