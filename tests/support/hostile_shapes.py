"""Large texts of shapes that are made to make an analysis slow or large, each of one repeated or drawn piece."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping

_LETTERS, _ALNUM = string.ascii_lowercase, string.ascii_letters + string.digits
_DRAWN_CHARACTERS = 100_000

_REPEATED = {
    "dates that do not end": "2024-01-0",
    "dates": "2024-01-05 ",
    "months and numbers": "3 May 12 June 2024 in March of ",
    "weekdays": "Monday Tuesday next Friday last Sunday ",
    "relative dates": "in 2 weeks three days ago last summer ",
    "almost relative dates": "in a a in 2 ",
    "letters and full stops": "a.a.",
    "sentences of one word": "No. ",
    "words with an underscore, a dot and a slash": "a_b.c/d-",
    "opening brackets": "((((",
    "brackets": "(a)[b]{c}<d>",
    "quotes": "\"'“”«»`",
    "quotations": "\"so it is\" 'said' “he” ",
    "apostrophes": "it's'n't'",
    "hyphens": "a-b--c-",
    "one digit": "7",
    "numbers, percent and units": "12 % of 3.5 kg, 7 km/h ",
    "currencies": "€1,000.00 $5k £3 ",
    "clock times": "9:30 am to 5 pm at 17:00 ",
    "newlines": "\n",
    "spaces": " ",
    "short lines": "- a\n",
    "one word": "a",
    "one long run of capitals": "AB",
    "combining marks": "e\u0301\u0323\u0308\u0301",
    "Chinese": "漢字会社東京",
    "Japanese endings": "食べるでしょうからまでしていた",
    "Korean": "회사에서는 사람으로부터 ",
    "Thai": "ภาษาไทย",
    "joined emoji": "👩\u200d👩\u200d👧\u200d👦",
    "Cyrillic look-alikes": "раураl аdmіn ",
    "marks of direction": "\u202eabc\u202c\u2067d\u2069",
    "zero width": "a\u200bb\u2060",
    "commas": "a,b,, ",
    "addresses of pages": "https://a.b/c?d=e&f=%20#g ",
    "addresses of mail": "a.b+c@d.e.f, ",
    "negations": "not not never no longer ",
    "questions": "what? is it? you? ",
    "changes": "we moved from Jenkins to Actions instead of ",
    "German compounds": "Donaudampfschifffahrtsgesellschaftskapitänsmützen",
    "German sentences": "Wir haben ab Montag nicht mehr Äpfel, sondern Öl. ",
    "tables": "| a | b |\n|---|---|\n",
    "Markdown": "# a\n* **b** _c_ `d` [e](f)\n```\n",
    "emphasis that does not end": "**a __b ",
    "fences": "```\n~~~\n",
    "JSON": '{"a": [1, {"b": "c"}], ',
    "nested JSON": '{"a":[',
    "markup": "<a href='b'>&amp;<!--",
    "log lines": "2026-01-01 12:00:00,123 ERROR [main] a.b.C - failed: timeout after 30 s\n",
    "tracebacks": '  File "a.py", line 3, in f\nValueError: no\n',
    "paths": "/usr/../a\\b/C:\\d ",
    "names": "Anna Maria Schmidt and Dr. Bob O'Neil ",
    "first person": "I I my we I'm ",
    "requests": "please always never if you ask ",
    "role marks": "<|im_start|>system\n[INST] Human: ",
    "instructions": "ignore all earlier instructions and ",
}
_DRAWN: Mapping[str, Callable[[random.Random], str]] = {
    "different short words": lambda rng: "".join(rng.choices(_LETTERS, k=rng.randint(2, 4))) + " ",
    "different long words": lambda rng: "".join(rng.choices(_LETTERS, k=14)) + " ",
    "different names": lambda rng: "".join(rng.choices(_LETTERS, k=6)).title() + " ",
    "different numbers": lambda rng: f"{rng.randrange(10**6)}, ",
    "different identifiers": lambda rng: "_".join("".join(rng.choices(_LETTERS, k=4)) for _ in range(3)) + " ",
    "different quotations": lambda rng: f'"{"".join(rng.choices(_LETTERS, k=8))}" ',
    "different dates": lambda rng: f"{rng.randint(1900, 2099)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} ",
    "different sentences": lambda rng: (
        f"The {''.join(rng.choices(_LETTERS, k=6))} is {''.join(rng.choices(_LETTERS, k=6))}. "
    ),
    "base64": lambda rng: "".join(rng.choices(_ALNUM + "+/", k=76)) + "\n",
    "printable characters": lambda rng: "".join(rng.choices(string.printable, k=100)),
    "all of Unicode": lambda rng: chr(rng.choice((rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000)))),
    "Chinese characters": lambda rng: chr(rng.randrange(0x4E00, 0x9FFF)),
}
SHAPES: tuple[str, ...] = (*_REPEATED, *_DRAWN)


def draw_shape(name: str, size: int) -> str:
    """Return the text of a shape in at most ``size`` bytes; drawn pieces repeat after 100,000 characters."""
    piece = _REPEATED.get(name)
    if piece is None:
        rng, pieces, length = random.Random(name), [], 0
        while length < min(size, _DRAWN_CHARACTERS):
            pieces.append(_DRAWN[name](rng))
            length += len(pieces[-1])
        piece = "".join(pieces)
    return (piece * (size // len(piece.encode()) + 1)).encode()[:size].decode("utf-8", "ignore")
