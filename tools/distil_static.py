"""Make the vectors of the static embedder: one for each word piece of MiniLM, so that their sums are near to what MiniLM says.

    python tools/distil_static.py --wordnet FOLDER --books FOLDER --jargon FILE --labels FILE

The texts come from packages that anybody can install, and from ``distil_static_templates.json``:

    WordNet 3.0       examples and definitions              Debian ``wordnet-base``: usr/share/wordnet
    nine old books    sentences and passages                npm ``gutenberg`` 0.8.0: test/samples (public domain)
    the Jargon File   sentences                             Debian ``dict-jargon``: usr/share/dictd/jargon.dict.dz (public domain)
    Python, botocore  sentences of their documentation      this interpreter (PSF licence), PyPI ``botocore`` (Apache-2.0)
    templates         questions, answers, phrases           filled with words of WordNet by their kind

MiniLM gives each text a vector (the labels, about half an hour; ``--labels`` is a file that keeps them between runs). Training
starts with MiniLM's vectors of the single pieces, less those of frequent ones, and then changes them by gradient descent
until the cosines between the texts of a batch are those of MiniLM. It needs ``torch``, which is not a dependency of the project.
A text of 29 is held out; how well the neighbours of held-out texts agree with MiniLM's is printed. Another run gives vectors that
are as good, not the same bytes.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import html
import importlib
import json
import random
import re
import string
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lukasa.models.embedder import normalise_vectors
from lukasa.models.embedders import static
from lukasa.models.embedders.minilm import MiniLMEmbedder, read_vocabulary
from lukasa.models.embedders.word_pieces import WordPieceTokenizer

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

TEMPLATES = json.loads(Path(__file__).with_name("distil_static_templates.json").read_text("utf-8"))
KINDS = {
    4: "act", 5: "animal", 6: "artifact", 8: "body", 9: "cognition", 10: "communication", 11: "event", 12: "feeling",
    13: "food", 14: "group", 15: "place", 17: "object", 18: "person", 20: "plant", 21: "possession", 26: "state",
    27: "substance",
}  # fmt: skip
"""The numbers of WordNet's files of nouns whose words fill the templates."""
COUNTS = {
    "definitions": 30_000,
    "prose": 16_000,
    "passages": 4_000,
    "pairs": 20_000,
    "statements": 10_000,
    "phrases": 10_000,
}
SHARES = {"passages": 6.0, "prose": 2.0, "asked": 0.5, "phrases": 0.5, "pieces": 0.3}
"""How much more often than the others a text of a source is in a batch: most memories are longer than a sentence."""
LABEL_BATCH = 2_048
MAX_TOKENS = 128
HOLD_OUT = 29
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FREQUENT = 1e-3
TEMPERATURE = 0.05
BATCH = 1_024
LEARNING_RATE = 2e-3


def read_wordnet(folder: Path) -> Iterator[tuple[str, list[str], str, list[str]]]:
    """Yield the kind, the words, the definition and the examples of each meaning."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("latin-1").splitlines():
            if line.startswith(" "):
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split(" ")
            words = [
                re.sub(r"\(.*\)", "", word).replace("_", " ") for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]
            ]
            examples = [example.strip(" ;,") for example in re.findall(r'"([^"]+)"', gloss)]
            definition = re.sub(r'[;:]?\s*"[^"]*"[^;"]*', "", gloss.strip()).strip(" ;")
            kind = KINDS.get(int(fields[1]), "") if part == "noun" else part
            yield kind, words, definition, [example for example in examples if len(example) > 8]


def split_sentences(text: str, shortest: int = 20, longest: int = 260) -> list[str]:
    """Return the sentences of a text that are neither very short nor very long."""
    parts = re.split(r"(?<=[.!?])[\"']?\s+(?=[\"'A-Z])", re.sub(r"\s+", " ", text))
    sentences = [part.strip(' "') for part in parts]
    return [each for each in sentences if shortest <= len(each) <= longest and re.search("[a-z]{3}", each)]


def is_prose(sentence: str, share: float) -> bool:
    return len(re.findall("[A-Za-z ]", sentence)) > share * len(sentence)


def read_documentation() -> list[str]:
    """Return sentences of the docstrings of Python's library and of the documentation in botocore."""
    found: set[str] = set()
    for file in Path(sysconfig.get_path("stdlib")).rglob("*.py"):
        if "test" in str(file) or "site-packages" in str(file):
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                    found.update(each for each in split_sentences(paragraph) if is_prose(each, 0.85))
    library = sorted(found)[:14_000]
    found.clear()
    package = find_spec("botocore")
    if package is None or package.origin is None:
        raise SystemExit("Install botocore: its documentation is part of the texts.")
    for file in (Path(package.origin).parent / "data").rglob("service-2.json.gz"):
        for operation in json.loads(gzip.decompress(file.read_bytes())).get("operations", {}).values():
            text = html.unescape(re.sub("<[^>]+>", " ", operation.get("documentation", "")))
            found.update(each for each in split_sentences(text) if is_prose(each, 0.9))
    return random.Random(1).sample(library, 10_000) + random.Random(1).sample(sorted(found), 15_000)


class TemplateFiller:
    """Fills templates with words: those of the template file, and those of WordNet by their kind."""

    def __init__(self, wordnet: Sequence[tuple[str, list[str], str, list[str]]], vocabulary: Sequence[str]) -> None:
        self._random = random.Random(7)
        self._words: dict[str, list[str]] = {kind: words.split(" / ") for kind, words in TEMPLATES["words"].items()}
        known = set(vocabulary)
        common: dict[str, list[str]] = {}
        rare: dict[str, list[str]] = {}
        for kind, words, _, _ in wordnet:
            for word in filter(re.compile(r"[a-z][a-z' -]{1,23}").fullmatch, words):
                (common if word in known else rare).setdefault(kind, []).append(word)
        self._common, self._rare = common, rare
        self.nouns = [*KINDS.values(), "tech", "topic", "hobby"]

    def choose_word(self, kind: str) -> str:
        """Return a word of a kind, mostly a common one."""
        kind = kind.rstrip(string.digits)
        if kind == "any":
            kind = self._random.choice(self.nouns)
        if kind in self._words:
            return self._random.choice(self._words[kind])
        return self._random.choice((self._common if self._random.random() < 0.7 else self._rare)[kind])

    def fill(self, *templates: str) -> list[str]:
        """Fill templates with the same words."""
        chosen: dict[str, str] = {}

        def replace(match: re.Match[str]) -> str:
            if match[1] not in chosen:
                chosen[match[1]] = self.choose_word(match[1])
            return chosen[match[1]]

        filled = [re.sub(r"\{(\w+)\}", replace, template) for template in templates]
        return [re.sub(r"\ba (?=[aeiou])", "an ", text) for text in filled]

    def make_pair(self) -> list[str]:
        """Return a question and an answer with the same words."""
        pair = self._random.choice(TEMPLATES["pairs"])
        question, answer = self.fill(self._random.choice(pair["questions"]), self._random.choice(pair["answers"]))
        chance = self._random.random()
        if chance < 0.17:
            answer = f"{self.fill(self._random.choice(TEMPLATES['greetings']))[0]} {answer}"
        elif chance < 0.35:
            answer = f"{answer} {self.fill(self._random.choice(TEMPLATES['endings']))[0]}"
        return [question, answer]

    def make_statement(self) -> str:
        """Return one to three sentences that somebody might say."""
        return " ".join(self.fill(*self._random.sample(TEMPLATES["statements"], self._random.choice((1, 2, 2, 3)))))

    def make_phrase(self) -> str:
        """Return a few words without a sentence."""
        count = self._random.choice((2, 2, 3, 3, 4, 6))
        return " ".join(self.choose_word(self._random.choice((*self.nouns, "verb", "adj"))) for _ in range(count))


def ask_about_examples(examples: Sequence[str], filler: TemplateFiller, count: int) -> Iterator[str]:
    """Yield questions that use the words of WordNet's examples."""
    choose = random.Random(21)
    subject = re.compile(r"(?i)(?:he|she|they|we) ([a-z]+)( .*)")
    for example in choose.sample(examples, count):
        if (match := subject.fullmatch(example)) and choose.random() < 0.6:
            person = filler.choose_word("name") if choose.random() < 0.6 else f"my {filler.choose_word('rel')}"
            opening = choose.choice(("When did", "Why did", "How did", "Where did", "What did", "Did", "Who", "Would"))
            verb = re.sub(r"(?:(?<=[^s])s|ed)$", "", match[1])
            yield f"{opening} {person} {verb}{match[2]}?" if opening != "Who" else f"Who {match[1]}{match[2]}?"
        else:
            yield f"{choose.choice(TEMPLATES['question_openings']).capitalize()} {example}?"


def collect_texts(arguments: argparse.Namespace, vocabulary: Sequence[str]) -> dict[str, list[str]]:
    """Return the texts by their source."""
    choose = random.Random(1)
    wordnet = list(read_wordnet(arguments.wordnet))
    examples = [example for *_, found in wordnet for example in found]
    meanings = [(words, definition) for _, words, definition, _ in wordnet]
    choose.shuffle(examples)
    choose.shuffle(meanings)
    meanings = meanings[: COUNTS["definitions"]]
    filler = TemplateFiller(wordnet, vocabulary)
    books = []
    for file in sorted(arguments.books.rglob("*[0-9].txt")):
        text = file.read_text("latin-1")
        start, end = text.find("*** START"), text.find("*** END")
        books.append(
            split_sentences(text[start + 100 if start > 0 else 0 : end if end > 0 else None].replace("_", ""), 3, 400)
        )
    jargon = split_sentences(
        re.sub("[{}]", "", gzip.decompress(arguments.jargon.read_bytes()).decode("utf-8", "replace"))
    )
    prose = (
        sorted({*(each for book in books for each in book if 20 <= len(each) <= 260), *jargon}) + read_documentation()
    )
    passages = []
    for book in books:
        start = 0
        while start < len(book):
            count = choose.randrange(2, 6)
            passages.append(" ".join(book[start : start + count])[:450])
            start += count
    pairs = [filler.make_pair() for _ in range(COUNTS["pairs"])]
    statements = [filler.make_statement() for _ in range(COUNTS["statements"])]
    talk = [*examples, *statements, *(answer for _, answer in pairs)]
    passages = choose.sample(passages, COUNTS["passages"] // 2)
    for _ in range(COUNTS["passages"] // 2):
        parts = choose.sample(choose.choice((examples, talk, prose)), choose.randrange(2, 6))
        passages.append(" ".join(f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts)[:450])
    return {
        "pieces": [piece.removeprefix("##") for piece in vocabulary],
        "examples": examples,
        "definitions": [f"{', '.join(words)}: {text}" for words, text in meanings[::2]]
        + [text for _, text in meanings[1::2]],
        "prose": choose.sample(prose, COUNTS["prose"]),
        "passages": passages,
        "questions": [
            *ask_about_examples(examples, filler, 20_000),
            *(filler.fill(choose.choice(TEMPLATES["questions"]))[0] for _ in range(20_000)),
        ],
        "asked": [question for question, _ in pairs][: COUNTS["pairs"] // 2],
        "answers": [answer for _, answer in pairs],
        "statements": statements,
        "phrases": [filler.make_phrase() for _ in range(COUNTS["phrases"])],
    }


def label_texts(texts: Sequence[str], file: Path) -> Floats:
    """Return MiniLM's vectors of texts; those that the file has are not computed again."""
    known: dict[str, Any] = {}
    if file.exists():
        with np.load(file) as saved:
            known = dict(zip(json.loads(str(saved["texts"])), saved["vectors"], strict=True))
    teacher = MiniLMEmbedder()
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    for start in range(0, len(missing), LABEL_BATCH):
        batch = missing[start : start + LABEL_BATCH]
        known.update(zip(batch, teacher.embed(batch).astype(np.float16), strict=True))
        if start // LABEL_BATCH % 10 == 9 or start + LABEL_BATCH >= len(missing):
            np.savez(file, texts=json.dumps(list(known)), vectors=np.stack(list(known.values())))
            print(f"{start + len(batch)} of {len(missing)} texts have their vector.", flush=True)
    vectors: Floats = np.stack([known[text] for text in texts]).astype(np.float32)
    return vectors


def start_vectors(labels: Floats, ids: Integers, vocabulary: Sequence[str]) -> Floats:
    """Return MiniLM's vectors of the pieces, shorter the more frequent a piece is in the texts."""
    frequency = np.bincount(ids, minlength=len(vocabulary)) + 1.0
    frequency /= frequency.sum()
    rank = 1 / (np.arange(len(vocabulary)) + 10.0)
    frequency = np.maximum(frequency, 0.2 * rank / rank.sum())
    vectors: Floats = labels - labels.mean(axis=0) / 2
    vectors *= (FREQUENT / (FREQUENT + frequency) / np.linalg.norm(vectors, axis=1))[:, None]
    vectors[[vocabulary.index(piece) for piece in SPECIAL]] = 0
    return vectors


def train_vectors(start: Floats, ids: Integers, ends: Integers, labels: Floats, chances: Floats, steps: int) -> Floats:
    """Change the vectors of pieces until sums of them are as near to each other as the labels of the texts."""
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    choose = np.random.default_rng(0)
    table = torch.nn.EmbeddingBag.from_pretrained(torch.tensor(start), freeze=False, mode="sum")
    goal = torch.tensor(labels)
    limits = np.cumsum(chances, dtype=np.float64)
    optimizer = torch.optim.Adam(table.parameters(), lr=LEARNING_RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1, step / 50) * (1 - step / steps)
        batch = np.unique(np.searchsorted(limits, choose.uniform(0, limits[-1], BATCH), side="right"))
        parts = [ids[ends[row] : ends[row + 1]] for row in batch]
        offsets = torch.tensor(np.cumsum([0, *(len(part) for part in parts[:-1])]))
        sums = functional.normalize(table(torch.tensor(np.concatenate(parts)), offsets), dim=1)
        wanted = goal[batch]
        itself = torch.eye(len(batch), dtype=torch.bool)
        near = functional.log_softmax((sums @ sums.T / TEMPERATURE).masked_fill(itself, -1e4), 1)
        near_wanted = functional.log_softmax((wanted @ wanted.T / TEMPERATURE).masked_fill(itself, -1e4), 1)
        loss = functional.kl_div(near, near_wanted, log_target=True, reduction="batchmean")
        loss = loss + (1 - (sums * functional.normalize(wanted[:, : sums.shape[1]], dim=1)).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 250 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    result: Floats = table.weight.detach().numpy()
    return result


def encode_texts(texts: Sequence[str], vocabulary: Sequence[str]) -> tuple[Integers, Integers]:
    """Return the tokens of all texts in one row, and where each text begins and the last one ends."""
    tokenizer = WordPieceTokenizer(vocabulary)
    encoded = [tokenizer.encode(text, MAX_TOKENS) for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    return np.array([id for tokens in encoded for id in tokens], dtype=np.int64), ends


def compare_neighbours(vectors: Floats, labels: Floats) -> float:
    """Return how many of the ten nearest texts are the same by both kinds of vectors, on average."""
    nearest = []
    for kind in (vectors, labels):
        cosines = kind @ kind.T
        np.fill_diagonal(cosines, -1)
        nearest.append(np.argsort(-cosines, axis=1)[:, :10].tolist())
    return float(np.mean([len({*one} & {*other}) / 10 for one, other in zip(*nearest, strict=True)]))


def write_vectors(vectors: Floats) -> None:
    """Write the file of the vectors in eight bits and that of their checksums; print what belongs into the code."""
    largest = np.abs(vectors).max(axis=1)
    rows: Any = np.zeros(len(vectors), dtype=static.ROW)
    rows["scale"] = largest / 127
    rows["vector"] = np.rint(127 * vectors / np.where(largest > 0, largest, 1)[:, None]).astype(np.int8)
    static.VECTORS.write_bytes(rows.tobytes())
    blocks = range(0, len(rows), static.BLOCK_TOKENS)
    checksums = b"".join(
        hashlib.sha256(rows[start : start + static.BLOCK_TOKENS].tobytes()).digest() for start in blocks
    )
    static.CHECKSUMS.write_bytes(checksums)
    print(f'_CHECKSUMS_SHA256 = "{hashlib.sha256(checksums).hexdigest()}"')


def main() -> None:
    """Collect the texts, label them, train and write the vectors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("wordnet", "books", "jargon", "labels"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=4_000)
    arguments = parser.parse_args()
    vocabulary = read_vocabulary()
    by_source = collect_texts(arguments, vocabulary)
    texts = [text for found in by_source.values() for text in found]
    labels = label_texts(texts, arguments.labels)
    pieces = len(vocabulary)
    _, directions = np.linalg.eigh(labels[pieces:].T @ labels[pieces:])
    labels = labels @ directions[:, ::-1]  # the cosines stay, and the first dimensions say most
    ids, ends = encode_texts(texts, vocabulary)
    chances = np.concatenate([np.full(len(found), SHARES.get(source, 1.0)) for source, found in by_source.items()])
    has_tokens = np.diff(ends) > 0
    held_out = has_tokens & (np.arange(len(texts)) % HOLD_OUT == 0)
    held_out[:pieces] = False
    chances[held_out | ~has_tokens] = 0
    start = start_vectors(labels[:pieces, : static.StaticEmbedder.length], ids, vocabulary)
    vectors = train_vectors(start, ids, ends, labels, chances, arguments.steps)
    write_vectors(vectors)
    begin = 0
    for source, found in by_source.items():
        chosen = begin + np.flatnonzero(held_out[begin : begin + len(found)])[:1_500]
        begin += len(found)
        if len(chosen):
            sums = np.stack([vectors[ids[ends[row] : ends[row + 1]]].sum(axis=0) for row in chosen])
            same = compare_neighbours(normalise_vectors(sums), labels[chosen])
            print(f"{source}: {same:.3f} of the ten nearest among {len(chosen)} held-out texts are the same.")


if __name__ == "__main__":
    main()
