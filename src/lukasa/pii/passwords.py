"""Passwords in prose, in a file, in a command or inside a URL, and PINs."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cache, partial
from importlib.resources import files
from typing import Literal

from lukasa.pii.numbers import Scan, Span
from lukasa.pii.patterns import (
    START_OF_VARIABLE,
    KeywordPattern,
    any_case,
    build_trie_pattern,
    find_after_keyword,
    is_placeholder,
    words_pattern,
)
from lukasa.text.patterns import compile_on_use

COMMON_WORDS = frozenset((files(__package__) / "words_after_password.txt").read_text("utf-8").split())
"""Words after "the password is" that do not give one away: "the password is stored in the vault"."""
_END_OF_VALUE = r"(?=[\s\"'`“”‘’«»,;]|\Z)"
_OWNER = rf"(?: {words_pattern(('for', 'of', 'to', 'on', 'at'))}(?: [^\s:=\"'`是は]{{1,30}}+){{1,3}}?)?"
_VERBS = words_pattern(("is", "was", "are", "to", "ist", "lautet", "war", "est", "es", "era", "é", "è"))
_VERB = rf"{_VERBS}(?: (?:still|now|just|set to|currently|actually|simply))?:?(?=[ \t\"'`])"
_AFTER_SIGN = r"\*{0,2}+[ \t]{0,3}+"
_SIGN = (
    r"\*{0,2}+[\"'`]{0,2}+[ \t]{0,12}+(?=[:=是はiwatelIWATELéè])"
    rf"(?P<sign>[:=]=?+>?+|是|は|{_VERB}){_AFTER_SIGN}"
)
_START_OF_SIGNED = r"(?P<quote>[\"'`“‘«])?(?=[^\s\"'`“”‘’«»,;]{3})"
_SIGNED_VALUE = (
    rf"(?!{START_OF_VARIABLE}|{words_pattern(sorted(COMMON_WORDS))}[.!?)]{{0,3}}{_END_OF_VALUE})"
    r"(?(quote)|(?![^\W\d_a-z]{0,60}+[^\W\d_A-Z]{0,60}+(?:['’.-][^\W\d_a-z]{0,60}+[^\W\d_A-Z]{0,60}+){0,3}[\"'`”’»]?[^\S\n]{1,99}+\w))"
    r"(?P<value>[^\s\"'`“”‘’«»,;]{3,128}+)"
)
"""A value after a sign. A word followed by more words is part of a sentence, unless it is quoted."""
START_OF_STATED = r"(?:->?[ \t]{1,3})?(?:\*\*)?[\"'`“‘«(]?(?![0-9]{1,6}+[.:/-][0-9][0-9.:/-]{0,30}+\s)(?=[^\s0-9!@#$%^&*+~?]{0,99}+[0-9!@#$%^&*+~?])(?=[^\s\"'`“”‘’«»,;]{5})"
STATED_VALUE = r"(?P<stated>[^\s\"'`“”‘’«»,;]{5,128}+)"
"""A value after blanks only, or after a word that means something else too: it must look like a password."""


def keyword_pattern(word: str, rest: str) -> str:
    """Build the pattern of a keyword that starts a word. Keywords of scripts without blanks start anywhere."""
    if not word[0].isupper() and word[0] == word[0].upper():
        return word + rest
    first = any_case(word[0])
    return rf"{first}(?:(?<![^\W_].)|(?<=[a-z]{word[0].upper()})){any_case(word[1:])}(?i:{rest})"


def _stated_pattern(word: str, rest: str, start: str) -> KeywordPattern:
    """Build the search for a keyword, the start of a value and the value. The hint goes as far as the start."""
    return KeywordPattern(
        compile_on_use(keyword_pattern(word, rest) + start + STATED_VALUE),
        compile_on_use(rf"{word}(?=(?i:{rest}){start})"),
    )


_START_OF_PIN = r"(?i:(?: ?(?:code|number))?(?: (?:for|of|to|on|at)(?: [\w-]{1,20}+){1,3}?)?[ \t]{0,3}(?:is|was|=|:))(?: now| still)?\s?[ \t]{0,3}[\"'`]?"
PASSWORDS = {
    word: KeywordPattern(
        compile_on_use(
            rf"{keyword_pattern(word, rest)}(?=[\s:=*\"'`是は])(?:{_OWNER}{_SIGN}{_START_OF_SIGNED}{_SIGNED_VALUE}|[ \t]{{1,3}}+{START_OF_STATED}{STATED_VALUE})"
        ),
        compile_on_use(
            rf"{word}(?=(?i:{rest})(?:[ \t]{{0,12}}[:=*\"'`是は]|\s[ \t]{{0,12}}(?:for|o[fn]|to|at|{_VERB}{_AFTER_SIGN}{_START_OF_SIGNED}|{START_OF_STATED})))"
        ),
    )
    for word, rest in (
        ("pass", r"[ -]?(?:word|code|phrase|wd|wort)"), ("pwd", ""), ("pw", ""), ("kennwort", ""), ("mot de passe", ""),
        ("contrase", "[nñ]a"), ("senha", ""), ("wachtwoord", ""), ("hasło", ""), ("lösenord", ""), ("пароль", ""), ("密码", ""), ("密碼", ""), ("パスワード", ""),
    )
}  # fmt: skip
"""A keyword, and a password after a sign or after blanks, by the hint that the text in lower case must contain."""

WEAK_KEYWORDS = {
    "pass": _stated_pattern("pass", "", rf"[ \t]{{0,3}}(?P<pass>(?i:is|was)[ \t:]|[:=]|[ \t])[ \t]{{0,3}}{START_OF_STATED}"),
    **{
        word: _stated_pattern(word, "", rf"(?:[ \t]{{0,3}}[:=]|[ \t]{{1,3}}(?i:is|ist|est|es|to)(?=[ \t:]):?)?[ \t]{{1,3}}{START_OF_STATED}")
        for word in ("mdp", "clave")
    },
    **{
        word: _stated_pattern(
            word, rest, r"(?: (?i:is|are|with|as|using|data|details|for [\w.-]{1,40}+|ist|mit|sind|lauten))?[ \t]{0,2}[:=]?[ \t]{1,3}"
            rf"[\"'`]?[^\s/|:,;\"'`]{{2,60}}+[\"'`]?(?P<pair>[ \t]{{1,3}}[/|:][ \t]{{1,3}}|[/:]){START_OF_STATED}"
        )
        for word, rest in (
            ("log", "[ -]?[io]n"), ("sign", "[ -]?in"), ("credential", "s?"), ("creds", ""), ("zugangsdaten", ""), ("anmelde", "daten"),
            ("identifiant", "s?"),
        )
    },
    "pin": KeywordPattern(
        compile_on_use(rf"[pP](?<!\w.)[iI][nN]{_START_OF_PIN}(?P<pin>\d{{4,8}})(?![\w-]|\.\d)"), compile_on_use(rf"pin(?={_START_OF_PIN}\d{{4}})")
    ),
}  # fmt: skip
"""Keywords with other meanings, and words before a login and a password."""
_USER_WORDS = ("user", "login", "account", "benutzer", "konto", "id")
_USER_BEFORE_PASS = re.compile(rf"(?:{'|'.join(_USER_WORDS)})\b[^\n]{{1,50}}\Z")

_NOT_A_PASSWORD = re.compile(
    r"\d{1,3}(?:[-–+]\w+)?|\d+[-–]\d+|https?:.*|/\S*|"
    r"\w+\.[\w.]*[(\[].*|[A-Za-z_]+[(\[][^0-9]*|[a-z_]{3,}[(\[][\w.]*|[A-Za-z_]\w*[(\[](?:[\w.]*[)\]](?:[.)\]].*)?)?"
)
"""Lengths, ranges, addresses, paths and calls of functions."""
_UNLIKE_A_WORD = re.compile(r"[\d_]|[^\w'’.-]|[a-z][A-Z]")
_TECHNICAL_WORDS = (
    "reset|change|log|manager|sha|md|argon|pbkdf|bcrypt|scrypt|oauth|utf|base|aes|rsa|tls|ssl|web|http|ipv|v|version|pep|rfc|python|windows|win|ios|android|"
    "field|input|box|step|page|policy|test|level|option|user|rule|entry|line|item|part|group|attempt|hash"
)
_TECHNICAL_TERM = re.compile(
    rf"{build_trie_pattern(dict.fromkeys(_TECHNICAL_WORDS.split('|'), ''))}[-_]?\d[\w.+/-]{{0,12}}|"
    r"\d+[-–+/.]?[a-z]{1,12}|v?\d[\d.:/+,–-]*%?|[^@\s]+@[\w-]+(?:\.[\w-]+)+|[\w.-]+\.(?:[a-z]{2,4}|\d+)|[\w-]+(?:[./][\w-]+){2,}",
    re.IGNORECASE,
)
"""What follows the word password in talk of programs: algorithms, versions, names of fields, lengths, files and addresses."""
_STRONG_KINDS = (frozenset(string.ascii_letters), frozenset(string.digits), frozenset("!@#$%^&*+~?"))
_LIKE_A_PASSWORD = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?:[^0-9]*[0-9].*|.*[!@#$%^&*+~?].*)|[0-9]{6,}")


def looks_like_password(value: str) -> bool:
    """Return whether a value has letters and digits or signs, and is no term, version, address or length."""
    return (
        len(value) >= 5
        and value[0] != "/"
        and _LIKE_A_PASSWORD.fullmatch(value) is not None
        and not (_TECHNICAL_TERM.fullmatch(value) or _NOT_A_PASSWORD.fullmatch(value) or is_placeholder(value))
    )


def password_scan(search: KeywordPattern, text: str, lower: str) -> Scan:
    """Return a search for passwords and PINs after a keyword. A value that occurs again is judged once."""
    is_signed_password, judge_value, names_user = cache(_is_signed_password), cache(_judge_value), cache(_names_user)

    def judge(match: re.Match[str]) -> Span | None:
        group = match.lastgroup
        if group == "value":
            value, quote, sign = match.group("value", "quote", "sign")
            start = match.start("value")
            if (value := value.rstrip(".!?)")) and is_signed_password(value, quote, sign):
                return start, start + len(value)
            return None
        if group == "pin":
            return match.span("pin")
        value = match["stated"].rstrip(".!?):*_")
        if (verdict := judge_value(value)) == "harmless":
            return None
        start = match.start()
        if start and text[start - 1] == "_":
            return None
        is_password = verdict != "strong"
        names = match.re.groupindex
        if verdict != "password" and (
            ("pair" in names and match["pair"] == "/")
            or ("pass" in names and match["pass"].isspace() and not names_user(text[max(0, start - 60) : start]))
        ):
            is_password = not is_password  # the keyword may mean something else
        return (match.start("stated"), match.start("stated") + len(value)) if is_password else None

    return partial(find_after_keyword, search, judge, text, lower)


def _judge_value(value: str) -> Literal["harmless", "likely", "strong", "password"]:
    """Tell whether a value without a sign before it looks like a password, is made like a strong one, or both."""
    is_strong = len(value) > 5 and all(not kind.isdisjoint(value) for kind in _STRONG_KINDS)
    if looks_like_password(value):
        return "password" if is_strong else "likely"
    return "strong" if is_strong else "harmless"


def _names_user(text: str) -> bool:
    """Return whether the line before a keyword names a user: "user bob pass …"."""
    lower = text.lower()
    return any(word in lower for word in _USER_WORDS) and _USER_BEFORE_PASS.search(lower) is not None


def _is_signed_password(value: str, quote: str | None, sign: str) -> bool:
    """Return whether a value after a sign is a password, and not a statement about one."""
    if _UNLIKE_A_WORD.search(value):
        return not _NOT_A_PASSWORD.fullmatch(value) and not is_placeholder(value)
    if not quote and (
        len(value) < 4 or (value.endswith(("ed", "ing", "able", "ible", "ly")) and sign not in ("=", ":=", "=="))
    ):
        return False
    return not is_placeholder(value)


_KEYWORD_AFTER_VALUE = r"(?:word|wort|code|phrase)(?=[.,;:!?)\n]|\Z| (?:for|to|of|on|at|in|für)\b)"
_PASSWORD_AFTER_VALUE = re.compile(rf" [pP]ass{_KEYWORD_AFTER_VALUE}")
_HINT_AFTER_VALUE = re.compile(rf" pass{_KEYWORD_AFTER_VALUE}")
_BEFORE_KEYWORD = re.compile(
    r"[ \t](?:is|as|ist|als)(?: (?:the|my|your|our|his|her|their|das|mein|unser))?(?: \w{1,12})?\Z", re.IGNORECASE
)
_LAST_WORD = re.compile(
    rf"(?<!\S)[\"'`“‘«(]?(?P<value>[^\s\"'`“”‘’«»,;]{{5,128}})[\"'`”’»),]{{0,2}}{_BEFORE_KEYWORD.pattern}",
    re.IGNORECASE,
)
_MAX_BEFORE = 161


def find_passwords_before_keyword(text: str, lower: str, position: int) -> Iterator[Span]:
    """Yield the passwords before the keyword: "… is the password for the router"."""
    find_password_at_end = cache(_find_password_at_end)
    verdicts: dict[str, bool] = {}
    for end in map(re.Match.start, _HINT_AFTER_VALUE.finditer(lower, position)):
        before = text[end - 26 if end > 26 else 0 : end]
        if (is_likely := verdicts.get(before)) is None:
            is_likely = verdicts[before] = _BEFORE_KEYWORD.search(before) is not None
        if is_likely and _PASSWORD_AFTER_VALUE.match(text, end):
            first = max(0, end - _MAX_BEFORE)
            if span := find_password_at_end(text[first:end]):
                yield first + span[0], first + span[1]


def _find_password_at_end(text: str) -> Span | None:
    """Find the password at the end of a text, before "is the". The text may start inside a word."""
    last_words = text.rsplit(" ", 4)
    first = len(text) - len(" ".join(last_words[-4:])) or int(len(text) == _MAX_BEFORE)
    word = _LAST_WORD.search(text, first)
    return word.span("value") if word and looks_like_password(word["value"]) else None


_CURL_USER = re.compile(
    r"(?<=[ \t\n])(?:-u|--user)(?:=|[ \t]{0,3})[\"']?[^\s:\"'$]{0,80}[\"']?:[\"']?(?P<value>[^\s\"']{3,100})"
)
"""A user and a password among the arguments of a command; ``curl`` must precede."""
_CURL_DISTANCE = 400


def find_curl_passwords(text: str, position: int) -> Iterator[Span]:
    """Yield the passwords among the arguments of ``curl``."""
    for match in _CURL_USER.finditer(text, position):
        start, end = match.span("value")
        if (
            "curl" in text[max(0, start - _CURL_DISTANCE) : start]
            and _UNLIKE_A_WORD.search(match["value"])
            and not is_placeholder(match["value"])
        ):
            yield start, end


_URL_PASSWORD = re.compile(r"://[^\s:/@\"'<>]{0,100}+:(?P<value>[^\s/@\"'<>]{3,100}+)@")


def find_url_passwords(text: str, position: int) -> Iterator[Span]:
    """Yield the passwords between a user name and a host."""
    for match in _URL_PASSWORD.finditer(text, position):
        if match["value"].lower() not in ("password", "pass", "pwd") and not is_placeholder(match["value"]):
            yield match.span("value")
