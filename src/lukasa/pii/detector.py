"""Detection of personal data and secrets in a text, and their refusal or redaction in a draft.

The text is normalised first (compatibility forms, invisible characters, every kind of dash and blank), then searched for

- ``card``: payment cards by brand, length and check digit, however they are grouped;
- ``ssn``: American social security numbers by their area rules; without dashes only where the text mentions one;
- ``secret``: keys and tokens by their provider's prefix, or after a keyword and random enough;
- ``password``: passwords in prose, in a file or inside a URL, and PINs;
- ``private_key``: the armour of a private key.

A finding names the class and the place, never the value, and nothing of what was read is kept or logged. Findings are
exact in texts under 4,000 characters. In longer texts, past 32 findings of a class in a window of 16,384 characters, the
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
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lukasa.core.outcome import Refused
from lukasa.core.record import Draft
from lukasa.core.text_cache import register_cache
from lukasa.pii.numbers import (
    ADVERTISED_ENDS,
    ADVERTISED_SSN,
    CARD_SHAPE,
    NUMBER_SHAPE_TABLE,
    Scan,
    Span,
    card_scan,
    ssn_scan,
)
from lukasa.pii.passwords import (
    PASSWORDS,
    WEAK_KEYWORDS,
    find_curl_passwords,
    find_passwords_before_keyword,
    find_url_passwords,
    password_scan,
)
from lukasa.pii.patterns import is_published
from lukasa.pii.prose import PROSE, prose_scan
from lukasa.pii.tokens import (
    LABELLED_SECRETS,
    MIDDLE_LITERALS,
    PRIVATE_KEYS,
    TOKEN_SHAPE,
    find_private_keys,
    find_tokens_around,
    find_web_tokens,
    labelled_secret_scan,
    provider_token_scan,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
_MAX_REMEMBERED_LENGTH, _MAX_REMEMBERED = 200, 10_000
_clean_texts: set[str | bytes] = set()
"""Texts in which nothing was found, or their hashes; it starts again when it is full."""
register_cache(_clean_texts)
WINDOW, MAX_FINDINGS = 16_384, 32
_MAX_SPACED_LENGTH = 320
"""No finding that may hold blanks is longer, private keys aside, which are not limited."""

_Find = Callable[[str, int], Iterable[Span]]


class PiiFinding(NamedTuple):
    """A class and the span where it was found; never the value itself."""

    start: int
    end: int
    pii_class: PiiClass


class NormalisedText(NamedTuple):
    """A text with plain characters, the original, and the states of its characters if it is long."""

    text: str
    original: str
    states: NDArray[np.uint8] | None = None

    def original_spans(self, spans: Iterable[Span]) -> list[Span]:
        """Return the spans of the original text that became the given spans."""
        if self.text == self.original:
            return list(spans)
        ends: list[int] | NDArray[np.int64]
        if self.states is None:
            ends = list(accumulate(len(_PLAIN_CHARACTERS[character]) for character in self.original))
        else:
            ends = _plain_lengths(self.states).cumsum()
        return [(bisect_right(ends, start), bisect_left(ends, end) + 1) for start, end in spans]


def normalise_with_offsets(text: str) -> NormalisedText:
    """Replace compatibility forms, invisible characters, and every kind of dash, blank and digit by plain characters."""
    if text.isascii():
        return NormalisedText(text, text)
    if len(text) < EXACT_LENGTH:
        return NormalisedText("".join(map(_PLAIN_CHARACTERS.__getitem__, text)), text)
    import numpy as np

    codes, states = _character_states(text)
    is_changed = states > 1
    if not is_changed.any():
        return NormalisedText(text, text)
    occurs = np.zeros(len(_state_table()), bool)
    occurs[codes[is_changed]] = True
    changed = np.flatnonzero(occurs)
    plain = [_PLAIN_CHARACTERS[chr(code)] for code in changed.tolist()]
    if max(map(len, plain)) <= 1:
        plain_of = np.arange(len(occurs), dtype=np.uint32)
        plain_of[changed] = [ord(each or "\0") for each in plain]
        plain_codes = plain_of.take(codes)
        plain_codes = plain_codes[states != 2] if "" in plain else plain_codes
        return NormalisedText(plain_codes.tobytes().decode("utf-32-le", "surrogatepass"), text, states)
    row_of = np.zeros(len(occurs), np.int64)
    row_of[changed] = np.arange(len(changed))
    rows = row_of[codes[is_changed]]
    lengths = _plain_lengths(states)
    plain_codes = np.repeat(codes, lengths)
    places = lengths.cumsum()[is_changed] - lengths[is_changed]
    for index in range(_MAX_LIGATURE_LENGTH):
        code_of = np.fromiter((ord(each[index]) if index < len(each) else 0 for each in plain), np.uint32)
        is_longer = lengths[is_changed] > index
        plain_codes[places[is_longer] + index] = code_of[rows[is_longer]]
    return NormalisedText(plain_codes.tobytes().decode("utf-32-le", "surrogatepass"), text, states)


def _character_states(text: str) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return the characters of a text and their states: 1 for plain ones, for others 2 more than the length of what replaces them."""
    import numpy as np

    table = _state_table()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    states = table.take(codes)
    if unknown := set(codes[states == 0].tolist()):
        for code in unknown:
            plain = _PLAIN_CHARACTERS[chr(code)]
            table[code] = 1 if plain == chr(code) else 2 + len(plain)
        states = table.take(codes)
    return codes, states


@cache
def _state_table() -> NDArray[np.uint8]:
    """Return a table of the states of all characters: 0 where nothing is known yet."""
    import numpy as np

    return np.zeros(0x110000, np.uint8)


def _plain_lengths(states: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many plain characters each character of a text became."""
    import numpy as np

    return np.array([1, 1, *range(_MAX_LIGATURE_LENGTH + 1)]).take(states)


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


def find_pii(text: str, *, strict: bool = False) -> list[PiiFinding]:
    """Return everything personal or secret in a text, in order; overlapping findings become one.

    Examples that everybody knows, such as 123-45-6789, are left out unless ``strict``.
    """
    normalised = normalise_with_offsets(text)
    found: list[tuple[int, int, PiiClass]] = list(_find_examples(normalised.text)) if strict else []
    counts: dict[PiiClass, dict[int, int]] = {}
    for pii_class, scan in _scans(normalised.text):
        if len(normalised.text) < EXACT_LENGTH or pii_class == "private_key":
            spans = scan(0)
        else:
            spans = _limit_findings(normalised.text, scan, counts.setdefault(pii_class, {}))
        found += [(start, end, pii_class) for start, end in spans]
    found.sort()
    merged: list[tuple[int, int, PiiClass]] = []
    last_end = 0
    for each in found:
        if each[0] >= last_end:
            merged.append(each)
            last_end = each[1]
        elif each[1] > last_end:
            last_end = each[1]
            merged[-1] = (merged[-1][0], last_end, merged[-1][2])
    if not merged:
        return []
    spans = normalised.original_spans((start, end) for start, end, _ in merged)
    return [PiiFinding(start, end, each[2]) for (start, end), each in zip(spans, merged, strict=True)]


def _find_examples(text: str) -> Iterator[tuple[int, int, PiiClass]]:
    """Yield the numbers and tokens that are published as examples: in a token's format, with "example" inside."""
    for match in ADVERTISED_SSN.finditer(text) if any(map(text.__contains__, ADVERTISED_ENDS)) else ():
        yield *match.span(), "ssn"
    for match in _GOOGLE_KEY.finditer(text) if _GOOGLE_PREFIX in text else ():
        if is_published(match[0]):
            yield *match.span(), "secret"
    if "example" in text or "EXAMPLE" in text:
        disguised = _EXAMPLE_INSIDE.sub(_RANDOM_LETTERS, text)
        yield from (each for each in find_pii(disguised) if each.pii_class == "secret" and disguised != text)


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
    """Find personal data, secrets and published examples of them in the texts that were not scanned before.

    A text without findings is remembered, a long one by its hash, so that a service can scan a record before it takes the write lock
    and the gate does not scan it again inside.
    """
    findings: list[PiiFinding] = []
    for text in texts:
        is_short = len(text) <= _MAX_REMEMBERED_LENGTH
        name = text if is_short else hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if name in _clean_texts:
            continue
        found = find_pii(text, strict=True)
        findings += found
        if not found:
            if len(_clean_texts) >= _MAX_REMEMBERED:
                _clean_texts.clear()
            _clean_texts.add(name)
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


def apply_pii_handling(draft: Draft, handling: Literal["allow", "redact", "block"]) -> Draft | Refused:
    """Return the draft that may be kept: itself, or with each finding replaced by its class; or refuse one with findings.

    A published example is refused too. The refusal names the classes, never the values.
    """
    if handling == "redact":
        return draft._replace(
            text=redact_text(draft.text),
            body=_redact_value(draft.body) if draft.body else draft.body,
            labels=tuple(redact_text(label) for label in draft.labels),
        )
    if handling == "allow" or not (findings := find_pii_once(draft_texts(draft))):
        return draft
    return Refused(
        "pii",
        f"This holds what looks like {describe_findings(findings)}, which records of kind {draft.kind!r} do not keep. "
        "Leave it out, and say where it can be found instead.",
        {"classes": sorted({finding.pii_class for finding in findings})},
    )


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {redact_text(name): _redact_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(item) for item in value]
    return value


_GOOGLE_PREFIX = "AIzaSy"
_GOOGLE_KEY = re.compile(rf"(?<!\w){_GOOGLE_PREFIX}[\w-]{{33}}(?![\w-])", re.ASCII)
_EXAMPLE_INSIDE = re.compile(r"(?<=[A-Za-z0-9/+])(?:EXAMPLE|example)")
_RANDOM_LETTERS = "Q7XK2ZP"
_REST_OF_WORD = re.compile(r"\S{0,8192}")


_SSN_SHAPE = b"0" * 9
_TOKEN_CHARACTERS = (string.ascii_letters + string.digits + "+/_=.:~-|").encode()
_TOKEN_SHAPE_TABLE = bytes(48 if code in _TOKEN_CHARACTERS else 120 for code in range(256))
"""Shapes without which a text has no such finding: searching for one takes far less time than searching for a pattern."""

_KEYWORDS: dict[str, list[Callable[[str, str], Scan]]] = {}
for _keyword, _search in (*PASSWORDS.items(), *WEAK_KEYWORDS.items()):
    _KEYWORDS.setdefault(_keyword, []).append(partial(password_scan, _search))
for _keyword, _search in PROSE:
    _KEYWORDS.setdefault(_keyword, []).append(partial(prose_scan, _keyword, _search))
_ASCII_KEYWORDS = {keyword: scans for keyword, scans in _KEYWORDS.items() if keyword.isascii()}
_HINTED_TOKENS: tuple[tuple[str, _Find], ...] = (
    *((literal, partial(find_tokens_around, literal)) for literal in MIDDLE_LITERALS),
    (".eyJ", find_web_tokens),
)
_HINTED_PASSWORDS: tuple[tuple[str, _Find], ...] = (("curl", find_curl_passwords), ("://", find_url_passwords))
"""Searches, each with a literal without which it finds nothing."""


def _scans(text: str) -> Iterator[tuple[PiiClass, Scan]]:
    """Yield the searches that may find anything in a text."""
    lower = text.replace("\u0130", "\u0131").lower()  # the only letter whose lower case is two characters
    data = text.encode("ascii", "replace")
    shape = data.translate(NUMBER_SHAPE_TABLE)
    if _SSN_SHAPE in shape:
        yield "ssn", ssn_scan(text, lower, data)
        if CARD_SHAPE in shape:
            yield "card", card_scan(text, lower, data)
    if TOKEN_SHAPE in (shape := data.translate(_TOKEN_SHAPE_TABLE)):
        yield "secret", provider_token_scan(text, shape)
        for literal, find in _HINTED_TOKENS:
            if _occurs(literal, text):
                yield "secret", partial(find, text)
        for label in LABELLED_SECRETS:
            if _occurs(label, lower):
                yield "secret", labelled_secret_scan(label, text, lower)
    is_long = len(text) >= EXACT_LENGTH
    for keyword, scans in (_ASCII_KEYWORDS if text.isascii() else _KEYWORDS).items():
        if _occurs(keyword, lower) if is_long else keyword in lower:
            for keyword_scan in scans:
                yield "password", keyword_scan(text, lower)
    if " pass" in lower:
        yield "password", partial(find_passwords_before_keyword, text, lower)
    for literal, find in _HINTED_PASSWORDS:
        if literal in lower:
            yield "password", partial(find, text)
    for hint in PRIVATE_KEYS:
        if hint in text:
            yield "private_key", partial(find_private_keys, hint, text)


def _occurs(word: str, text: str) -> bool:
    """Return whether a word occurs in a long text. A search for a letter takes less time than one for a word."""
    return all(map(text.__contains__, word)) and word in text


def _limit_findings(text: str, scan: Scan, counts: dict[int, int]) -> Iterator[Span]:
    """Yield the findings of a search; after too many in a window, the rest of the window as one.

    ``counts`` holds the number of findings by window and is shared by all searches for a class. The last few characters of
    a full window are searched all the same: a finding there may go on in the next window.
    """
    position, end_of_scan = 0, False
    while not end_of_scan:
        end_of_scan = True
        for start, end in scan(position):
            if start < position:  # part of the window that was reported as one finding
                continue
            yield start, end
            window = start // WINDOW
            counts[window] = count = counts.get(window, 0) + 1
            if count > MAX_FINDINGS and start < (window_end := (window + 1) * WINDOW) - _MAX_SPACED_LENGTH:
                rest = _REST_OF_WORD.match(text, window_end)
                yield start, rest.end() if rest else window_end
                position, end_of_scan = window_end - _MAX_SPACED_LENGTH, False
                break
