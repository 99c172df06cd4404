"""The benchmark of the guard: how long it takes for texts made to make it slow, beside ordinary text of the same size.

Time is that of the processor. The bar: a megabyte of any text in less than 100 ms.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from lukasa.benchmarks.notes import draw_words
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import alternate, compare
from lukasa.gate.guard import scan
from lukasa.gate.secrets import ANNOUNCED, PASSWORDS, PROVIDERS

Progress = Callable[[str, int, int], None]
SEED = 2026
SIZE = 1_000_000
_DRAWN = 100_000
BAR = Bar("lukasa", "most", 0.1)

_ALNUM = string.ascii_letters + string.digits
_HINTS = [spelling.hint for spelling in PROVIDERS]
_WORDS = [spelling.hint for spelling in (*ANNOUNCED, *PASSWORDS)]

REPEATED = (
    "1", "4 ", "1.", "12-", "4111 1111 1111 1112 ", "4111 1111 1111 111x ", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 , ", "123-45-678", "123-45-6789 ",
    "ssn 123456789 ", "id 4111111111111111 ", "sk-", "-eyJ", "SG.", ".", "N.", "_", "-----BEGIN ", "://a:b@", "://:abc@", "password ", "key: ",
    "token=", "pw=a1!\n", "pw=the\n", "pw for ", "pin:1234 ", "密码", "пароль: тест ", "\u200b", "４", "½", "ﬁ", "ﷺ", "İ1", "e\u0301", "漢", "😀",
)  # fmt: skip
"""Pieces that are repeated until the text is full."""


def _drawn(chance: random.Random) -> dict[str, Callable[[], str]]:
    """Pieces that are drawn anew each time."""

    def some(letters: str, count: int) -> str:
        return "".join(chance.choices(letters, k=count))

    return {
        "random digits and signs": lambda: some(string.digits + " -.", 1_000),
        "runs of single digits": lambda: " ".join(some("23456", 59)) + ",,",
        "numbers that are nearly cards": lambda: f"4{some(string.digits, 15)} , ",
        "payment cards after a word": lambda: f"card 4{some(string.digits, 15)},",
        "numbers that are nearly social security numbers": lambda: f"9{some(string.digits, 2)}-12-{some(string.digits, 4)},",
        "social security numbers": lambda: f"4{some(string.digits, 2)}-12-3{some(string.digits, 3)}\n",
        "timestamps": lambda: f"2026-01-01 12:00:{some('012345', 2)},{some(string.digits, 3)} took {some('123', 2)} ms\n",
        "hexadecimal dump": lambda: some("0123456789abcdef", 2) + " ",
        "base64": lambda: some(_ALNUM + "+/", 1_000),
        "printable characters": lambda: some(string.printable, 1_000),
        "beginnings of tokens": lambda: chance.choice(_HINTS),
        "tokens of all providers": lambda: chance.choice(_HINTS) + some(_ALNUM, 16) + " ",
        "tokens": lambda: "fw_" + some(_ALNUM, 16) + " ",
        "tokens that are not random": lambda: "fw_" + some("ab1", 16) + " ",
        "announced tokens": lambda: "token " + some(_ALNUM, 16) + ",",
        "announced words": lambda: "secret " + some(string.ascii_lowercase, 16) + ",",
        "web tokens": lambda: f"eyJ{some(_ALNUM, 8)}.eyJ{some(_ALNUM, 8)}.{some(_ALNUM, 10)} ",
        "passwords": lambda: "pw=" + some(_ALNUM, 3) + "\n",
        "what is said of passwords": lambda: "pw is " + some(string.ascii_lowercase, 5) + " and\n",
        "keywords and values": lambda: chance.choice(_WORDS) + chance.choice(("=", " is ")) + some(_ALNUM, 8) + " ",
        "every sort": lambda: chance.choice(("pw=a1!\n", "pin:1234 ", "455-99-6622 ", "4111111111111111\n", "hf_" + some(_ALNUM, 16) + " ")),
        "all of Unicode": lambda: "".join(chr(chance.choice((chance.randrange(0xD800), chance.randrange(0xE000, 0x110000)))) for _ in range(1_000)),
        "many scripts": lambda: some("абвгдеαβγδεרסתקאبتثج漢字仮名ひらがな한국어abcde 01234", 1_000),
    }  # fmt: skip


def hostile_texts(size: int = SIZE) -> dict[str, str]:
    """Texts of a size that are made to make the guard slow. What is drawn begins again after a while."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    texts = {f"{piece!r} again and again": (piece * (size // len(piece) + 1))[:size] for piece in REPEATED}
    for name, draw in _drawn(chance).items():
        pieces, length = list[str](), 0
        while length < min(size, _DRAWN):
            pieces.append(draw())
            length += len(pieces[-1])
        texts[name] = ("".join(pieces) * (size // length + 1))[:size]
    texts["every beginning once, then noise"] = (" ".join(_HINTS + _WORDS) + " " + texts["base64"])[:size]
    return texts


def run(size: int = SIZE, rounds: int = 3, *, progress: Progress | None = None) -> Report:
    """Measures the guard on every hostile text."""
    tell, began = progress or (lambda *_: None), perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = Machine.here(Path(folder))
    ordinary = " ".join(draw_words(random.Random(SEED), size // 6))[:size]  # noqa: S311 - repeatable on purpose
    rows = list[Row]()
    texts = hostile_texts(size)
    for at, (name, text) in enumerate(texts.items(), 1):
        hostile, plain = alternate(rounds, (text, ordinary), lambda: None, lambda side, _: _took(side))
        rows.append(row(name, size, "s", compare(hostile, plain), BAR))
        tell("hostile texts", at, len(texts))
    return Report("guard", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _took(text: str) -> float:
    began = process_time()
    scan(text)
    return process_time() - began
