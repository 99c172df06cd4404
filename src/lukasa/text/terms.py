"""Words, tokens and terms of a text, as the indexes know them: folded, without accents, stemmed, in every script.

Every engine uses these tokens, so that all engines find the same records for the same question. Chinese, Japanese, Korean,
Thai and other scripts that do not put a space after each word are cut into overlapping windows: the token at each
character holds that character and the next one or two. A word of such a script is the phrase of its windows, and a word
shorter than a window is the beginning of one, so every piece of such a text is found.

A term is one token of a question. Finding a few terms in many texts needs no tokens of those texts: a stem and its word
begin alike, so a plain search for that beginning finds the places, and only the words there are stemmed. This lets recall
weigh hundreds of long texts within milliseconds.

Pair keys: a text has one key for every pair of its leading words. All texts put their words into the same order, rare and
long words first. Two texts whose overlap is at least ``MIN_OVERLAP`` share so many words that the first two shared words
are among the first ``n - ceil(MIN_OVERLAP · n) + 2`` words of each. So the pairs of those words find every such text, and
a pair of long words is so rare that it finds little else. A text of more than ``MAX_COMPLETE_WORDS`` different words has
the pairs of its first twelve only. Keys are numbers. Each namespace (a scope and a kind of record) has other numbers, so
that only texts of one namespace meet.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import combinations
from typing import Any, Literal, NamedTuple
from zlib import crc32

from lukasa.core.text_cache import cache_texts
from lukasa.text.lexicon import COMMON_WORDS, STOP_WORDS, STOP_WORDS_EXCEPT_NEGATIONS
from lukasa.text.patterns import compile_on_use

MIN_OVERLAP = 0.60
MAX_COMPLETE_WORDS = 27

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc")
"""The tokenizer of SQLite that stems what ``to_index_form`` returns; vowel signs are parts of words."""

# Letters of scripts without spaces between words, or with endings that are not set off (Korean).
_PAIRED = (
    "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c\ua960-\ua97c"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ebe0\U0002f800-\U0002fa1d\U00030000-\U000323af"
)  # Han, kana, Bopomofo, Hangul, Yi: two characters are about a word
_TRIPLED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17d7\u17dc\u17dd"
    "\u17e0-\u17e9\ua9e0-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
)  # Thai, Lao, Burmese, Khmer: their letters are vowels and consonants, so two of them say too little
_VOWEL_SIGNS = "\u0900-\u0963\u0971-\u0dff\u0f71-\u0f84\u1b00-\u1bff\ua880-\ua8ff"  # of scripts with spaces
_SPACED_LETTER = rf"(?:[^\W_{_PAIRED}{_TRIPLED}]|[{_VOWEL_SIGNS}])"
_RUN = compile_on_use(rf"(?P<paired>[{_PAIRED}]+)|[{_TRIPLED}]+")
_TOKEN_LETTER = compile_on_use(rf"[^\W_]|[{_VOWEL_SIGNS}]|[{_TRIPLED}]")
_SPACED_WORD = compile_on_use(r"[^\W_]+(?:['’][^\W_]+)*")
_WORD = compile_on_use(rf"[{_PAIRED}]+|[{_TRIPLED}]+|{_SPACED_LETTER}+(?:['’]{_SPACED_LETTER}+)*")
_WORD_REST = compile_on_use(r"[^\W_]*")
_SPACED_REST = compile_on_use(f"{_SPACED_LETTER}*")
_HIRAGANA = compile_on_use("[\u3041-\u3096\u3099-\u309f]+")
_JAPANESE_ENDING = compile_on_use(
    "(?:は|が|を|に|の|で|と|も|へ|や|か|いつ|どこ|なに|なぜ|だれ|どう|でしょう|でした|です|ました|ます|ません|していた|している|した|して|する"
    "|から|まで|より|たい|ない|った)+$"
)
_KOREAN_PARTICLE = compile_on_use(
    "(?<=[\uac00-\ud7a3]{2})(?:에서는|에서도|으로는|으로도|에게서|이라고|인가요|입니다|까지|부터|에서|에게|한테|으로|처럼|보다|마다|조차|밖에"
    "|이나|이랑|하고|께서|라고|에는|에도|은|는|이|가|을|를|의|에|도|만|로|와|과|랑|나|께)$"
)

# What one writer sets and the next leaves out: accents, Hebrew and Arabic vowel points, the Arabic stretching stroke.
_IGNORED = compile_on_use(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\ufe00-\ufe0f]+"
)
_OTHER_WIDTH = compile_on_use("[\uff01-\uffee]+")  # full-width Latin, half-width katakana
_PUNCTUATION = "\"'`“”„‘’«»()[]{}<>,;:.!?…*_"
_MAX_TERM_LENGTH = 60
_MAX_PAIRED_WORDS = 12
_MIN_ROOT_LENGTH = 5  # a shorter root begins words of other meanings: car, caramel; show, shower
_SUFFIXES = frozenset({
    "r", "st", "n", "er", "or", "est", "ier", "iest", "ist", "ian", "ship", "hood", "ment", "less", "ion", "en", "i", "y",
    "ic", "al", "at",
})  # fmt: skip  # the stemmer leaves them on some words
_CHANGING_ENDS = "iey"  # therapy, therapist
_KEY_OFFSET = 2**31  # a key is a signed number of 32 bits, which every database has
UNSPACED_SCRIPT = compile_on_use(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)

_LATIN_WORD_LETTERS = bytes(code if chr(code).isalnum() or chr(code) == "'" else ord(" ") for code in range(256))
_FOLDED_LATIN = bytes(ord(unicodedata.normalize("NFD", chr(code))[0].lower()) for code in range(256))

_idle_tokenizers: list[Callable[[str], list[str]]] = []
"""Tokenizers that no thread is using: to build one takes as long as to tokenize thirty texts, and threads come and go."""


def fold_text(text: str) -> str:
    """Return the text without letter case, accents and vowel points, and with one form of each letter."""
    if text.isascii():
        return text.lower()
    latin = _fold_latin(text)
    return _fold_other_letters(text) if latin is None else latin


def _fold_other_letters(text: str) -> str:
    plain = _OTHER_WIDTH.sub(lambda wide: unicodedata.normalize("NFKC", wide[0]), text)
    plain = _IGNORED.sub("", unicodedata.normalize("NFD", plain))
    return unicodedata.normalize("NFC", plain.lower()).replace("ς", "σ")


def _fold_latin(text: str) -> str | None:
    """Fold a text of the letters of Western Europe alone, in a small part of the time; ``None`` for any other text.

    Each such letter is one byte, and so is its folded form.
    """
    try:
        return text.encode("latin-1").translate(_FOLDED_LATIN).decode("latin-1")
    except UnicodeEncodeError:
        return None


def to_index_form(text: str) -> str:
    """Return the text that the index stores for a text: folded, with spaces between the windows of scripts without spaces."""
    if text.isascii():
        return text
    if (latin := _fold_latin(text)) is not None:
        return latin
    return _RUN.sub(lambda run: f" {' '.join(_cut_windows(run, with_rest=True))} ", _fold_other_letters(text))


def _cut_windows(run: re.Match[str], *, with_rest: bool) -> list[str]:
    """Cut a run of letters into overlapping windows; the rest are the shorter ones at its end."""
    letters, size = run[0], _window_size(run)
    return [letters[start : start + size] for start in range(len(letters) if with_rest else len(letters) - size + 1)]


def _window_size(run: re.Match[str]) -> int:
    return 2 if run["paired"] else 3


class WordPhrase(NamedTuple):
    """A word of a query: the tokens that must follow each other, in a text to tokenize; the last may be a beginning."""

    text: str
    is_prefix: bool = False


def to_phrase(word: str) -> WordPhrase:
    """Return the phrase by which the index finds a word, also in the middle of a run without spaces."""
    if word.isascii():
        return WordPhrase(word)
    folded = fold_text(word)
    parts: list[str] = []
    end, is_prefix = 0, False
    for run in _RUN.finditer(folded):
        parts.append(folded[end : run.start()])
        end = run.end()
        if _TOKEN_LETTER.search(folded, end):
            parts += _cut_windows(run, with_rest=True)
        else:  # the word may end where the run in the text does not
            is_prefix = len(run[0]) < _window_size(run)
            parts += [run[0]] if is_prefix else _cut_windows(run, with_rest=False)
    return WordPhrase(" ".join([*parts, folded[end:]]), is_prefix)


def is_prefix_term(term: str) -> bool:
    """Return whether a term is shorter than the windows of its script; it then matches every token that begins with it."""
    run = None if term.isascii() else _RUN.fullmatch(term)
    return run is not None and len(term) < _window_size(run)


def strip_particle(word: str) -> str:
    """Return a Korean word without its particle; any other word unchanged."""
    return word if word.isascii() else _KOREAN_PARTICLE.sub("", word.rstrip("?!.,…"), count=1) or word


def tokenize_text(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    return _tokenize(to_index_form(text))


def tokenize_phrase(phrase: WordPhrase) -> list[str]:
    """Return the tokens of a phrase, in order."""
    return _tokenize(phrase.text)


def _tokenize(text: str) -> list[str]:
    try:
        tokenize = _idle_tokenizers.pop()
    except IndexError:
        tokenize = _build_tokenizer()
    tokens = tokenize(text)
    _idle_tokenizers.append(tokenize)
    return tokens


def _build_tokenizer() -> Callable[[str], list[str]]:
    """Build a tokenizer, which one thread at a time can use; it keeps the database that it needs."""
    import apsw

    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")  # loads the tokenizers
    tokenizer = database.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))

    def tokenize(text: str, _: apsw.Connection = database) -> list[str]:
        tokens: Any = tokenizer(
            text.encode("utf-8", "replace"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return list(tokens)

    return tokenize


def extract_keywords(text: str) -> list[str]:
    """Return the distinct words of a question that say what it is about, in their original form.

    A run of a script without spaces gives its windows, because nothing says where its words begin and end.
    """
    keywords: dict[str, str] = {}
    plain = text if text.isascii() else _IGNORED.sub("", unicodedata.normalize("NFC", text))
    for word in find_words(plain):
        bare = word.replace("’", "'").partition("'")[0]  # Anna's, don't, I'm
        folded = fold_text(bare)
        if (run := None if folded.isascii() else _RUN.fullmatch(folded)) is not None:
            keywords.update((window, window) for window in _choose_windows(run))
        elif folded and folded not in STOP_WORDS and len(folded) <= _MAX_TERM_LENGTH:
            keywords.setdefault(folded, bare)
    return list(keywords.values())


def _choose_windows(run: re.Match[str]) -> Iterator[str]:
    """Yield the windows of a run in a question: no Korean particles, no Japanese endings next to other characters."""
    letters, size = strip_particle(run[0]), _window_size(run)
    parts = [letters] if _HIRAGANA.fullmatch(letters) else _HIRAGANA.split(letters)
    for part in parts:
        if len(letters) > 1 == len(part):  # 化は, 食べる: alone, and with the next character
            place = letters.index(part)
            yield from (part, letters[place : place + size])
        elif part:
            yield from (part[start : start + size] for start in range(max(len(part) - size, 0) + 1))
    for kana in _HIRAGANA.findall(letters) if len(parts) > 1 else ():
        word = _JAPANESE_ENDING.sub("", kana)
        yield from (word[start : start + size] for start in range(len(word) - size + 1 if len(word) > size else 0))


def find_words(text: str) -> list[str]:
    """Return the words of a text as the indexes know them, in order."""
    return (_SPACED_WORD if text.isascii() else _WORD).findall(text)


def plain_word(word: str) -> str:
    """Return a word in small letters, without punctuation around it and with straight apostrophes."""
    return word.strip(_PUNCTUATION).lower().replace("’", "'")


def plain_text(text: str) -> str:
    """Return the words of a text in small letters, without punctuation around them, with single blanks."""
    return " ".join(filter(None, map(plain_word, text.split())))


def starts_with(text: str, phrases: Iterable[str]) -> bool:
    """Tell whether a text in small letters begins with one of some phrases, as whole words."""
    spaced = text.replace(",", "").replace(":", "").replace("’", "'") + " "
    return any(spaced.startswith(f"{phrase} ") for phrase in phrases)


def contains_phrase(text: str, phrases: Iterable[str]) -> bool:
    """Tell whether a text in small letters has one of some phrases in it, as whole words."""
    spaced = f" {text.replace('’', chr(39))} "
    return any(f" {phrase} " in spaced for phrase in phrases)


def leave_out_phrases(text: str, phrases: Iterable[str]) -> str:
    """Return a text without some phrases, which are in small letters, and without a comma before each."""
    spaced = f" {text} "
    lowered = spaced.lower()
    for phrase in phrases:
        place = lowered.find(f" {phrase}")
        end = place + len(phrase) + 1
        if place >= 0 and not lowered[end].isalnum() and len(lowered) == len(spaced):
            spaced = spaced[:place].rstrip(" ,") + spaced[end:]
            lowered = spaced.lower()
    return spaced.strip()


def list_content_words(text: str) -> tuple[str, ...]:
    """Return the folded words of a text that carry meaning, negations included, in order."""
    folded = fold_text(text)
    words = find_words(folded)
    if "'" in folded or "’" in folded:
        words = [word.replace("’", "'").partition("'")[0] for word in words]
    return tuple([word for word in words if word not in STOP_WORDS_EXCEPT_NEGATIONS])


def first_content_word(text: str) -> str:
    """Return the first word that ``list_content_words`` returns, or "" if there is none, without reading on."""
    folded = fold_text(text)
    for match in (_SPACED_WORD if folded.isascii() else _WORD).finditer(folded):
        word = match[0]
        if "'" in word or "’" in word:
            word = word.replace("’", "'").partition("'")[0]
        if word not in STOP_WORDS_EXCEPT_NEGATIONS:
            return word
    return ""


@cache_texts(1 << 16, 16_000_000)
def stem_word(word: str) -> str:
    """Return the stem of one word as the text index has it; empty when it has none. A run without spaces stays whole."""
    tokens = _tokenize(fold_text(word))
    return tokens[0] if tokens else ""


def terms_from_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct tokens of words of a question, in order."""
    return tuple(dict.fromkeys(token for word in words for token in tokenize_phrase(to_phrase(word))))


def find_term_offsets(folded_text: str, term: str) -> list[int]:
    """Return the offsets in a folded text at which the text index has the term."""
    if not term.isascii() and _RUN.fullmatch(term):
        offsets: list[int] = []
        start = folded_text.find(term)
        while start >= 0:
            offsets.append(start)
            start = folded_text.find(term, start + 1)
        return offsets
    # a stem may differ from its words in the last letter: happi and happy, kei and key
    prefix = term[:-1] if len(term) > 3 or (len(term) > 1 and term[-1] == "i") else term
    return _find_word_offsets(folded_text, prefix, lambda word: stem_word(word) == term)


def find_related_offsets(folded_text: str, term: str) -> list[int]:
    """Return the offsets of a term and of words that differ from it in a suffix: health, healthy, healthier."""
    if len(term) < _MIN_ROOT_LENGTH or not (term.isascii() and term.isalpha()):
        return find_term_offsets(folded_text, term)
    roots = [
        length
        for suffix in _SUFFIXES
        if (length := len(term) - len(suffix)) >= _MIN_ROOT_LENGTH and term.endswith(suffix)
    ]
    prefix = term[: min(roots, default=len(term)) - 1]  # a stem may differ from its words in the last letter
    return _find_word_offsets(folded_text, prefix, lambda word: _is_related(word, term))


def _find_word_offsets(folded_text: str, prefix: str, accepts: Callable[[str], bool]) -> list[int]:
    """Return the offsets of the accepted words that begin with a prefix."""
    offsets: list[int] = []
    find, length, is_ascii = folded_text.find, len(prefix), folded_text.isascii()
    start = find(prefix)
    while start >= 0:
        end = start + length
        before = folded_text[start - 1] if start else ""
        if not (before.isalnum() if is_ascii else before and _is_spaced_letter(before)):
            end = _find_word_end(folded_text, end)
            if accepts(folded_text[start:end]):
                offsets.append(start)
        start = find(prefix, end)
    return offsets


@cache_texts(1 << 14)
def _is_related(word: str, term: str) -> bool:
    short, long = sorted((stem_word(word), term), key=len)
    roots = (short, short[:-1]) if short[-1:] in _CHANGING_ENDS else (short,)
    return short == long or any(
        len(root) >= _MIN_ROOT_LENGTH and long.startswith(root) and long[len(root) :] in _SUFFIXES for root in roots
    )


def _is_spaced_letter(character: str) -> bool:
    return character.isalnum() if character.isascii() else _SPACED_REST.fullmatch(character) is not None


def _find_word_end(folded_text: str, start: int) -> int:
    """Return the end of the word that continues at ``start``; the quick pattern is wrong only next to other scripts."""
    rest = _WORD_REST.match(folded_text, start)
    end = start if rest is None else rest.end()
    if folded_text[start : end + 1].isascii():
        return end
    rest = _SPACED_REST.match(folded_text, start)
    return start if rest is None else rest.end()


def normalise_text(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Return the text in one Unicode form, without letter case, with single blanks."""
    plain = text if text.isascii() else unicodedata.normalize(form, text)
    return " ".join(plain.casefold().split())


def distinct_words(text: str) -> frozenset[str]:
    """Return the different words of a normalised text. Scripts without spaces give their characters."""
    latin = _split_latin(text)
    if latin is not None:
        return frozenset(latin)
    found: set[str] = set()
    for word in _SPACED_WORD.findall(text):
        characters = UNSPACED_SCRIPT.findall(word) if not word.isascii() else ()
        if characters:
            found.update(characters)
            found.update(_SPACED_WORD.findall(UNSPACED_SCRIPT.sub(" ", word)))
        else:
            found.add(word)
    return frozenset(found)


def max_shared_words(words: frozenset[str], text: str) -> int:
    """Return how many of some words a normalised text has, or a few more: they may be parts of its words."""
    latin = _split_latin(text)
    return sum([word in text for word in words]) if latin is None else len(words.intersection(latin))


def _split_latin(text: str) -> list[str] | None:
    """Return the words of a text of the letters of Western Europe alone, in a third of the time; ``None`` for any other text."""
    try:
        words = text.encode("latin-1").translate(_LATIN_WORD_LETTERS).decode("latin-1").split()
    except UnicodeEncodeError:
        return None
    if "'" in text:
        return [part for word in words for part in (_SPACED_WORD.findall(word) if "'" in word else (word,))]
    return words


def text_pair_keys(text: str, *namespace: str) -> tuple[int, ...]:
    """Return the pair keys of a text in a namespace."""
    return pair_keys(distinct_words(normalise_text(text)), *namespace)


def pair_keys(words: frozenset[str], *namespace: str) -> tuple[int, ...]:
    """Return the pair keys of a text with these words; the module says what they guarantee.

    A key is made of the checksums of two words, the first in its upper half, so that keys with the same first word are
    neighbours in an index. Pairs with the same key by chance only add one text to compare with.
    """
    limit = min(len(words) - -(-3 * len(words) // 5) + 2, _MAX_PAIRED_WORDS)
    start = crc32("\n".join(namespace).encode("utf-8", "surrogatepass"))
    sums = [crc32(word.encode("utf-8", "surrogatepass"), start) for word in leading_words(words, COMMON_WORDS)[:limit]]
    if len(sums) < 2:
        return tuple(number - _KEY_OFFSET for number in sums)
    return tuple({(first & 0xFFFF) * 0x10000 + (second >> 16) - _KEY_OFFSET for first, second in combinations(sums, 2)})


def leading_words(words: Iterable[str], common: Container[str]) -> list[str]:
    """Sort words so that those that say most come first: common words last, long words before short ones."""
    return sorted(words, key=lambda word: (word in common, -len(word), word))


def whole_words_pattern(words: str) -> re.Pattern[str]:
    """Return a pattern that finds words where they are not part of longer ones; scripts without spaces have no such parts."""
    before = f"(?<!{_SPACED_LETTER})" if words and _is_spaced_letter(words[0]) else ""
    after = f"(?!{_SPACED_LETTER})" if words and _is_spaced_letter(words[-1]) else ""
    return re.compile(before + re.escape(words) + after)
