"""Names of files and ids: which are plain, which a system reserves, the slug of any text, and the number in a name."""

from __future__ import annotations

import string

LOWER = frozenset(string.ascii_lowercase + string.digits)
ALPHANUMERIC = LOWER | frozenset(string.ascii_uppercase)
_DEVICES = frozenset({"con", "prn", "aux", "nul"}) | {
    f"{port}{digit}" for port in ("com", "lpt") for digit in range(10)
}


def is_plain_name(
    name: str, marks: str, max_length: int, *, letters: frozenset[str] = ALPHANUMERIC, first_marks: str = ""
) -> bool:
    """Tell whether a name has only the letters and marks that are allowed, a letter, digit or ``first_marks`` first."""
    return (
        0 < len(name) <= max_length
        and (name[0] in letters or name[0] in first_marks)
        and letters.union(marks).issuperset(name)
    )


def is_device_name(name: str) -> bool:
    """Tell whether Windows takes a name for a device, whatever its extension: ``con``, ``nul.json``, ``COM1``."""
    return name.partition(".")[0].lower() in _DEVICES


def to_snake_case(name: str) -> str:
    """Return the name of a class in snake case: ``store_busy`` for ``StoreBusy``."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).removeprefix("_").lower()


def make_slug(text: str, *, letters: frozenset[str] = LOWER) -> str:
    """Return a text with one hyphen for each run of other characters than the letters, and none at either end."""
    return "-".join("".join(each if each in letters else " " for each in text).split())


def find_number(name: str, prefix: str, *suffixes: str, digits: range = range(1, 10)) -> int | None:
    """Return the number between a prefix and one of the suffixes of a name; ``digits`` is how many digits it may have."""
    if not name.startswith(prefix):
        return None
    for suffix in suffixes or ("",):
        number = name.removeprefix(prefix).removesuffix(suffix)
        if name.endswith(suffix) and len(number) in digits and number.isascii() and number.isdecimal():
            return int(number)
    return None
