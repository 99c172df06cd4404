"""Sentences of a text, each of them whole.

Texts of conversations mix prose, lists, headings, code and tables. Code and tables are left out; an item of a list is a
sentence; prose is split where a sentence ends and not at "e.g.", "Dr. Ng", "v1.2.3" or inside a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lukasa.text.lexicon import WORDS
from lukasa.text.markdown import read_fence, read_heading
from lukasa.text.patterns import compile_on_use

_LIST_ITEM = compile_on_use(r"^\s*(?:[-*+•‣–]|\(?\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(?=\S)")
_INDENTED_CODE = compile_on_use(r"^(?: {4}|\t)\s*(?:\S*[{}();=<>]|\w+\()")
_EMPHASIS = compile_on_use(r"(\*\*|__)(?=\S)(.{1,300}?)(?<=\S)\1")
_SENTENCE_END = compile_on_use(r"(?:(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+(?=\s)|[。！？｡]+[」』”）]*|[।॥؟۔](?=\s|$))")


_MAX_CHARACTERS = 200_000
_MAX_WORD_LENGTH = 40


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, each whole and on one line."""
    sentences: list[str] = []
    for paragraph in _iterate_paragraphs(text[:_MAX_CHARACTERS]):
        start = 0
        for end in _SENTENCE_END.finditer(paragraph):
            if end.start() > start and _is_sentence_end(paragraph, start, end):
                sentences.append(paragraph[start : end.end()].strip())
                start = end.end()
        if rest := paragraph[start:].strip():
            sentences.append(rest)
    if len(text) > _MAX_CHARACTERS and sentences:
        sentences.pop()  # it may be cut off
    return sentences


def _iterate_paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and list items, each on one line; skip code, headings and tables."""
    lines: list[str] = []
    in_code = ""
    for line in text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n").splitlines():
        if fence := read_fence(line):
            if not in_code:
                in_code = fence
            elif fence == in_code:
                in_code = ""
            yield from _flush_paragraph(lines)
        elif in_code:
            continue
        elif not line.strip() or _is_heading_or_row(line.strip()) or _INDENTED_CODE.match(line):
            yield from _flush_paragraph(lines)
        elif item := _LIST_ITEM.match(line):
            yield from _flush_paragraph(lines)
            lines.append(line[item.end() :])
        else:
            if lines and not _continues_line(lines[-1], line):
                yield from _flush_paragraph(lines)
            lines.append(line)
    yield from _flush_paragraph(lines)


def _is_heading_or_row(line: str) -> bool:
    """Return whether a line is a heading, a rule or the row of a table."""
    is_rule = len(set(line)) == 1 and (line[0] == "=" or (line[0] in "-*_" and len(line) > 2))
    return is_rule or read_heading(line)[0] > 0 or (len(line) > 1 and line[0] == line[-1] == "|")


def _continues_line(previous_line: str, line: str) -> bool:
    """Return whether a line continues the previous one after a hard wrap."""
    first = line.lstrip()[:1]
    return first.islower() or (
        len(previous_line) > 60 and not previous_line.rstrip().endswith((".", "!", "?", ":", ";", "…"))
    )


def _flush_paragraph(lines: list[str]) -> Iterator[str]:
    """Yield the collected lines as one paragraph, if there are any, and clear them."""
    if lines:
        paragraph = " ".join(" ".join(lines).split())
        lines.clear()
        if paragraph:
            yield _EMPHASIS.sub(r"\2", paragraph)


def _is_sentence_end(paragraph: str, start: int, end: re.Match[str]) -> bool:
    """Return whether the punctuation at ``end`` ends the sentence that began at ``start``."""
    following = paragraph[end.end() : end.end() + 2 * _MAX_WORD_LENGTH].lstrip(" \"'“‘«([*_¿¡")
    if not following:
        return True
    if end[0][0] in "。！？｡।॥؟۔":
        return True
    next_character = following[0]
    is_chat = paragraph[0].islower()  # someone who writes without capitals
    if next_character in ",;:)]}…–—-&/=" or (
        next_character.islower() and not is_chat and end[0] not in ("?", "!", "??", "!!", "?!")
    ):
        return False
    if end[0][0] != ".":
        return True
    before = paragraph[max(start, end.start() - _MAX_WORD_LENGTH) : end.start()].split()
    word = before[-1].lstrip("([\"'“‘«") if before else ""
    bare = word.lower().rstrip(".")
    if bare.endswith("str") and next_character.isdigit():
        return False  # a German street
    if bare in WORDS["abbreviations"]:
        return bare in WORDS["ending_abbreviations"] and next_character.isupper()
    if bare in WORDS["numeric_abbreviations"] and next_character.isdigit():
        return False
    if len(word) == 1 and word.isupper() and word != "I":
        return False
    is_ordinal = word.isdigit() and len(word) <= 2  # "1. Wash it", "am 15. April"
    is_counted = len(before) > 1 and before[-2].lower() in WORDS["before_ordinal"]  # "die 3. Klasse"
    return not (is_ordinal and (end.start() - start <= 3 or is_counted))
