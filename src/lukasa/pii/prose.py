"""Passwords and access codes that a sentence states at some distance from its keyword.

"The pw on that box is still …", "the password was changed to …", "the gate code is …", "log in as admin with …": what follows must look
like a password, or be a number after a word for something that is locked. The gap between a keyword and its value ends at the next
keyword, so no part of a text is searched twice for one keyword.
"""

from __future__ import annotations

import re
from functools import cache, partial

from lukasa.pii.numbers import Scan, Span
from lukasa.pii.passwords import COMMON_WORDS, START_OF_STATED, STATED_VALUE, keyword_pattern, looks_like_password
from lukasa.pii.patterns import KeywordPattern, find_after_keyword, is_placeholder, words_pattern
from lukasa.text.patterns import compile_on_use

_GAP_WORD = r"[ ,(]{1,2}+(?!(?i:pass|pw|kennw))[\w'’-]{1,20}+"
_LINK = words_pattern(("is", "was", "are", "be", "equals", "as", "to", "remains", "ist", "lautet", "est", "es"))
_LINK_SIGN = "(?:[-=]{0,2}>|[→⇒])"
_PAUSE = r"(?: (?:still|now|just|currently|set to|again))?:?"
_STATEMENT = (
    rf"(?:['’]s|(?:['’]s)?(?:{_GAP_WORD}){{0,8}}?[ \t]{{1,2}}(?:(?P<link>{_LINK}){_PAUSE}|{_LINK_SIGN}))[ \t]{{1,2}}"
)
_SECRET = START_OF_STATED + STATED_VALUE
_QUOTED = r"[ \t]{1,2}[\"'`“‘](?P<quoted>[^\s\"'`“”‘’«»<>]{4,64}+)[\"'`”’]"
_CAMEL = r"(?P<camel>[A-Z][a-z]{1,20}+[A-Z][A-Za-z]{1,20}+!)"
_PAIR = (
    r"(?:[ \t]{0,2}:|[ \t](?i:is|are|with|as|like|using))?[ \t]{1,2}[\"'`(*]{0,2}"
    r"(?:(?i:admin|administrator|root|guest|demo|test|user|pi|ubuntu|postgres)|[\w.+-]{1,40}+@[\w.-]{1,40}+)[\"'`*]{0,2} ?(?:/{1,2}|:) ?[\"'`*]{0,2}"
    r"(?P<pair>[^\s\"'`*)/,;]{4,64}+)(?![/:]|\s?/)"
)
"""A usual name of an account, and its password, which may be a plain word."""
_NAMED = r"(?: (?:for|of|to|on|at)(?: [\w'’-]{1,20}+){1,3}?)?"
_IS = r"(?:[ \t]{0,2}[:=][ \t]{0,3}|[ \t]{1,2}(?:[-–—]|(?i:is|was|are)(?: (?:now|still))?:?)[ \t]{1,2})[\"'`“*]{0,2}"
_BEFORE_IS = "(?:[ \t]{0,2}[:=]|[ \t]{1,2}(?:[-–—]|is|was|are|for|of|to|on|at))"
_NUMBER = r"(?P<number>\d{4,8}[#*]?|\d{3}[#*]|\d{1,2}(?:-\d{1,2}){2,3})(?![\w%-]|[.,:/]\d)"
_WORD = r"(?P<word>[a-z]{5,20}+)(?=[\"'`”*]{0,2}[.!,;]?(?:\n|\Z))"


def _search(word: str, rest: str, tail: str, start: str = r"[\s:=,('’]") -> KeywordPattern:
    """Build the search for a keyword and what follows it; ``start`` is how that starts."""
    return KeywordPattern(
        compile_on_use(keyword_pattern(word, f"(?:{rest})") + tail), compile_on_use(rf"{word}(?=(?i:{rest}){start})")
    )


PROSE = (
    *(
        (word, _search(word, rest, rf"(?=[^0-9!@#$%^&*+~?\n]{{0,99}}+[0-9!@#$%^&*+~?])(?:{_QUOTED}|[ \t]{{1,2}}{_CAMEL}|{_STATEMENT}{_SECRET})"))
        for word, rest in (("pass", "[ -]?(?:word|code|phrase|wd|wort)s?"), ("pw", ""), ("pwd", ""), ("kennwort", ""))
    ),
    ("pass", _search("pass", "[ -]?phrase", rf"{_NAMED}{_IS}(?P<phrase>[a-z]{{3,12}}(?:[ -][a-z]{{3,12}}){{3,23}})(?=[\"'`”*.,;]{{0,2}}(?:\s|\Z))", _BEFORE_IS)),
    ("code", _search("code", "", rf"{_NAMED}{_IS}(?:{_NUMBER}|{_SECRET}|{_WORD})", _BEFORE_IS)),
    ("comb", _search("comb", "o|ination", rf"{_NAMED}{_IS}{_NUMBER}", _BEFORE_IS)),
    *(
        (word, _search(word, rest, rf"{_NAMED}{_IS}(?:[\w-]{{2,32}} ?/ ?)?{_SECRET}", _BEFORE_IS))
        for word, rest in (
            *((word, "(?:[ -](?:network|guest|router|psk|key|login)){0,2}") for word in ("wifi", "wi-fi", "wlan")),
            ("wpa", "[23]?(?:[ -]psk)?(?:[ -]key)?"), ("network key", ""),
        )
    ),
    *((word, _search(word, rest, _PAIR)) for word, rest in (("log", "[ -]?in"), ("credential", "s?"), ("creds", ""))),
    *(
        (word, _search(word, "(?:ged|ed)?[ -]?[io]n", rf"(?: to [\w.-]{{2,40}})? (?:as|with|using) [^\s,]{{2,60}}+ (?:with|and|using)(?: pass\w{{0,6}})? {_SECRET}", " (?:to|as|with|using) "))
        for word in ("log", "sign")
    ),
)  # fmt: skip
"""Keywords and what may follow each of them in a sentence."""

_LOCKED = re.compile(
    r"(?:wi-?fi|wlan|door|gate|alarm|entry|entrance|access|safe|(?:un)?lock|padlock|lockbox|locker|keypad|garage|override|security|vault|"
    r"building|house|gym|intercom)(?:['’]s)?(?: (?:system|box|panel|guest|entry|access|master|key|lock))?[ -]\Z"
)
"""A word for something that is locked, before a code."""
_CHANGED = re.compile(r"\b(?:set|chang|reset|updat|rotat|switch|änder)\w*\b")
_NO_SECRET = re.compile(
    r"[A-Z]{2,10}-\d+|802\..*|.*\b(?:wpa|psk|ghz|mbps)\b.*|[a-z]+(?:[_-][a-z]+)*_?\d{0,2}\(.*", re.IGNORECASE
)
"""Tickets, and what is said of networks."""
_LONGEST_BEFORE = 48
_LONG_TEXT, _SAMPLE, _CHARACTERS_PER_KEYWORD = 100_000, 20_000, 1_000
"""A long text with more keywords than one in so many characters of a sample is no prose."""


def prose_scan(keyword: str, search: KeywordPattern, text: str, lower: str) -> Scan:
    """Return a search for the passwords and codes that sentences with a keyword state."""
    middle = len(text) // 2
    if len(text) > _LONG_TEXT and lower.count(keyword, middle, middle + _SAMPLE) * _CHARACTERS_PER_KEYWORD > _SAMPLE:
        return lambda _: ()
    is_secret = cache(_is_secret)

    def judge(match: re.Match[str]) -> Span | None:
        group = match.lastgroup or ""
        value, start = match[group], match.start(group)
        before = lower[max(0, match.start() - _LONGEST_BEFORE) : match.start()]
        if group == "phrase":
            words = value.replace("-", " ").split()
            found = 3 * sum(map(COMMON_WORDS.__contains__, words)) < len(words)
        elif group == "word":
            found = (
                before.endswith(("wifi ", "wi-fi ", "wifi guest ", "wi-fi guest "))
                and value not in COMMON_WORDS
                and not value.endswith(("ed", "ing", "able", "ible", "ly"))
            )
        elif group == "number":
            found = _LOCKED.search(before) is not None
        elif group in ("camel", "pair"):
            value = value.rstrip(".?") if group == "pair" else value
            found = len(value) > 3 and not is_placeholder(value)
        elif group == "quoted":
            found = (value.isdecimal() or is_secret(value)) and not is_placeholder(value)
        else:
            value = value.rstrip(".!?):*_")
            link = text[match.end("link") - 2 : match.end("link")] if "link" in match.re.groupindex else ""
            found = is_secret(value) and (not match.re.groupindex.get("number") or _LOCKED.search(before) is not None)
            found = found and (link != "to" or _CHANGED.search(before + lower[match.start() : start]) is not None)
        return (start, start + len(value)) if found else None

    return partial(find_after_keyword, search, judge, text, lower)


def _is_secret(value: str) -> bool:
    return looks_like_password(value) and not _NO_SECRET.fullmatch(value)
