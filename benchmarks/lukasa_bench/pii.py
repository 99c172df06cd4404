"""Benchmark of the PII detector: what it finds in random samples, and its time for texts made to make it slow.

Times are CPU times, compared with ordinary text of the same size. The bar: a megabyte of any text in less than 100 ms.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from lukasa.pii.detector import find_pii
from lukasa.pii.passwords import PASSWORDS, WEAK_KEYWORDS
from lukasa.pii.tokens import LABELLED_SECRETS, MIDDLE_LITERALS, TOKEN_PREFIXES
from lukasa_bench.corpus import draw_words
from lukasa_bench.interleave import compare, run_interleaved
from lukasa_bench.pii_samples import draw_pii_samples
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row

Progress = Callable[[str, int, int], None]
SEED = 2026
SIZE = 1_000_000
_MAX_DRAWN_LENGTH = 100_000
BAR = BenchmarkBar("lukasa", "most", 0.1)
SAMPLE_BARS = {
    "tokens": BenchmarkBar("ratio", "least", 0.9),
    "cards": BenchmarkBar("ratio", "least", 0.99),
    "cards that nothing announces": BenchmarkBar("ratio", "least", 0.95),
    "passwords": BenchmarkBar("ratio", "least", 0.9),
    "look-alikes": BenchmarkBar("ratio", "most", 0.03),
}
"""What must be found of each sort of samples, and how many look-alikes may be."""

_ALNUM = string.ascii_letters + string.digits
_HINTS = ["eyJ", *TOKEN_PREFIXES, *MIDDLE_LITERALS]
_KEYWORDS = [*LABELLED_SECRETS, *PASSWORDS, *WEAK_KEYWORDS]

REPEATED_PIECES = (
    "1", "4 ", "1.", "12-", "4111 1111 1111 1112 ", "4111 1111 1111 111x ", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 , ", "123-45-678", "123-45-6789 ",
    "ssn 123456789 ", "id 4111111111111111 ", "sk-", "-eyJ", "SG.", ".", "N.", "_", "-----BEGIN ", "://a:b@", "://:abc@", "password ", "key: ",
    "token=", "pw=a1!\n", "pw=the\n", "pw for ", "pin:1234 ", "密码", "пароль: тест ", "\u200b", "４", "½", "ﬁ", "ﷺ", "İ1", "e\u0301", "漢", "😀",
    "password v1.2.3 ", "pass v1.2.3 ", "password to to to ", "password: your ", "password:\u200bx ", "user bob pass a@b.cd ", "пароль v1.2.3 ",
    "it is the password for ", "token: example1234567890123 ", "api_key = 00000000000000000a1 ", "eyJa.eyJ",
    "A1bcdef is my password. ", "aB38Q~x7Kp2LmQ9rTz4VbN6cYd8WsE3fGh5JkR0u ",
)  # fmt: skip
"""Pieces that are repeated until a text has its size."""
_MENTIONS = (
    "password v1.2.3", "pwd is x1", "login a/b1", "secret=aaaa1111aaaa1111", "key: zz", "token=", "4111 1111 1111 1112", "123-45-6788", "sk-",
    "pass 1.0", "creds x", "pw for y is z",
)  # fmt: skip
_PARTS = (
    "pass", "word", " ", ":", "=", "is ", "1", "a", "key", "token", "secret", "-", "_", ".", "pw ", "4111", "sk-", "eyJ", "for ", "@", "//",
)  # fmt: skip


def _piece_generators(rng: random.Random) -> dict[str, Callable[[], str]]:
    """Return functions that draw a random piece, by the name of the text."""

    def draw_letters(letters: str, count: int) -> str:
        return "".join(rng.choices(letters, k=count))

    return {
        "random digits and signs": lambda: draw_letters(string.digits + " -.", 1_000),
        "runs of single digits": lambda: " ".join(draw_letters("23456", 59)) + ",,",
        "numbers that are nearly cards": lambda: f"4{draw_letters(string.digits, 15)} , ",
        "payment cards after a word": lambda: f"card 4{draw_letters(string.digits, 15)},",
        "numbers that are nearly social security numbers": lambda: f"9{draw_letters(string.digits, 2)}-12-{draw_letters(string.digits, 4)},",
        "social security numbers": lambda: f"4{draw_letters(string.digits, 2)}-12-3{draw_letters(string.digits, 3)}\n",
        "timestamps": lambda: f"2026-01-01 12:00:{draw_letters('012345', 2)},{draw_letters(string.digits, 3)} took {draw_letters('123', 2)} ms\n",
        "hexadecimal dump": lambda: draw_letters("0123456789abcdef", 2) + " ",
        "base64": lambda: draw_letters(_ALNUM + "+/", 1_000),
        "printable characters": lambda: draw_letters(string.printable, 1_000),
        "beginnings of tokens": lambda: rng.choice(_HINTS),
        "tokens of all providers": lambda: rng.choice(_HINTS) + draw_letters(_ALNUM, 16) + " ",
        "tokens": lambda: "fw_" + draw_letters(_ALNUM, 16) + " ",
        "tokens that are not random": lambda: "fw_" + draw_letters("ab1", 16) + " ",
        "announced tokens": lambda: "token " + draw_letters(_ALNUM, 16) + ",",
        "announced words": lambda: "secret " + draw_letters(string.ascii_lowercase, 16) + ",",
        "web tokens": lambda: f"eyJ{draw_letters(_ALNUM, 8)}.eyJ{draw_letters(_ALNUM, 8)}.{draw_letters(_ALNUM, 10)} ",
        "passwords": lambda: "pw=" + draw_letters(_ALNUM, 3) + "\n",
        "what is said of passwords": lambda: "pw is " + draw_letters(string.ascii_lowercase, 5) + " and\n",
        "keywords and values": lambda: rng.choice(_KEYWORDS) + rng.choice(("=", " is ")) + draw_letters(_ALNUM, 8) + " ",
        "mentions of secrets": lambda: rng.choice(_MENTIONS) + " ",
        "parts of keywords, signs and values": lambda: rng.choice(_PARTS),
        "versions after a keyword": lambda: f"pass {draw_letters('123', 1)}.{draw_letters('123', 1)}.{draw_letters(string.digits, 2)} ",
        "terms after a keyword": lambda: f"password {rng.choice(('sha', 'v', 'md', 'aes-', 'utf-'))}{draw_letters(string.digits, 3)} ",
        "keys that are no secrets": lambda: f"{rng.choice(('primary_', 'cache_', 'public_'))}key: {draw_letters('0123456789abcdef', 16)} ",
        "users and addresses": lambda: f"user {draw_letters('ab', 2)} pass {draw_letters('abc', 4)}@b.cd ",
        "base64 with keywords": lambda: draw_letters(_ALNUM + "+/", 20) + rng.choice(_KEYWORDS) + rng.choice("=: "),
        "cards in wide digits": lambda: "".join(chr(0xFF10 + int(digit)) for digit in "4" + draw_letters(string.digits, 15)) + " ",
        "settings": lambda: f"{draw_letters(string.ascii_uppercase, 5)}_SECRET_KEY={rng.choice(('', 'changeme', 'xxxx' + draw_letters(_ALNUM, 14)))}\n",
        "words after a prefix": lambda: "hf_" + "-".join(draw_letters(string.ascii_lowercase, 4) for _ in range(4)) + " ",
        "log lines": lambda: f"log in as {draw_letters('abc', 3)}/1.0 key id {draw_letters(string.digits, 12)} pass: {draw_letters('123', 2)}/9\n",
        "every sort": lambda: rng.choice(("pw=a1!\n", "pin:1234 ", "455-99-6622 ", "4111111111111111\n", "hf_" + draw_letters(_ALNUM, 16) + " ")),
        "a bit of everything": lambda: rng.choice((
            rng.choice(_KEYWORDS) + "=" + draw_letters(_ALNUM, 16) + " ", draw_letters(string.digits, 4) + " ", "4" + draw_letters(string.digits, 15) + " ",
            rng.choice(_KEYWORDS) + " ", "sk-" + draw_letters(_ALNUM, 16) + " ", draw_letters(string.ascii_lowercase, 5) + " ", "\u200b", f"://a:{draw_letters(_ALNUM, 4)}@ ",
        )),
        "all of Unicode": lambda: "".join(chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)))) for _ in range(1_000)),
        "many scripts": lambda: draw_letters("абвгдеαβγδεרסתקאبتثج漢字仮名ひらがな한국어abcde 01234", 1_000),
    }  # fmt: skip


def hostile_texts(size: int = SIZE) -> dict[str, str]:
    """Return texts of a size that are made to make the detector slow. Random texts repeat after 100,000 characters."""
    rng = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    texts = {f"{piece!r} again and again": (piece * (size // len(piece) + 1))[:size] for piece in REPEATED_PIECES}
    for name, draw in _piece_generators(rng).items():
        pieces, length = list[str](), 0
        while length < min(size, _MAX_DRAWN_LENGTH):
            pieces.append(draw())
            length += len(pieces[-1])
        texts[name] = ("".join(pieces) * (size // length + 1))[:size]
    texts["every beginning once, then noise"] = (" ".join(_HINTS + _KEYWORDS) + " " + texts["base64"])[:size]
    return texts


def sample_rows() -> list[BenchmarkRow]:
    """Count the samples of each sort in which something is found, compared with all of the sort."""
    found, drawn = Counter[str](), Counter[str]()
    for sample in draw_pii_samples(random.Random(SEED)):  # noqa: S311 - repeatable on purpose
        classes = {finding.pii_class for finding in find_pii(sample.text)}
        found[sample.sort] += sample.pii_class in classes if sample.pii_class else bool(classes)
        drawn[sample.sort] += 1
    return [
        BenchmarkRow(f"{sort} found", None, "count", found[sort], drawn[sort], found[sort] / drawn[sort], bar=bar)
        for sort, bar in SAMPLE_BARS.items()
    ]


def run(size: int = SIZE, rounds: int = 3, *, progress: Progress | None = None) -> BenchmarkReport:
    """Count what the detector finds in random samples, and measure it on every hostile text."""
    report_progress, started = progress or (lambda *_: None), perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = MachineInfo.measure(Path(folder))
    ordinary = " ".join(draw_words(random.Random(SEED), size // 6))[:size]  # noqa: S311 - repeatable on purpose
    rows = sample_rows()
    texts = hostile_texts(size)
    for index, (name, text) in enumerate(texts.items(), 1):
        hostile, plain = run_interleaved(rounds, (text, ordinary), lambda: None, lambda side, _: _scan_seconds(side))
        rows.append(comparison_row(name, size, "s", compare(hostile, plain), BAR))
        report_progress("hostile texts", index, len(texts))
    return BenchmarkReport("guard", machine, rounds, SEED, perf_counter() - started, tuple(rows))


def _scan_seconds(text: str) -> float:
    started = process_time()
    find_pii(text)
    return process_time() - started
