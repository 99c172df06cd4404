"""Which patterns and word lists change anything: each is switched off in turn, and what differs is counted.

    python -m lukasa_bench.ablation --data FOLDER lukasa.text.statements lukasa.context.fact_rules

A pattern of a module is replaced by one that never matches, a list of words by an empty one. Then the probes of that module run
over the texts of FOLDER (public sets in the format of ``lukasa bench recall``, and ``pii/*.json`` with labelled texts) and the
sections of ``lukasa bench quality``. A rule that changes no output on public texts is a rule for the sentences of this repository.
The texts are read from FOLDER only and belong in no commit.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from lukasa.context.facts import extract_facts
from lukasa.context.state import Turn
from lukasa.core.text_cache import empty_caches
from lukasa.pii.detector import find_pii
from lukasa.recall.query import parse_question
from lukasa.recall.signals import compute_features, lead_passage
from lukasa.text.dates import find_periods, write_calendar_dates
from lukasa.text.differences import find_difference
from lukasa.text.orders import find_order
from lukasa.text.patterns import compile_on_use
from lukasa.text.sentences import split_sentences
from lukasa.text.statements import parse_statements, statement_changes
from lukasa_bench.quality import run
from lukasa_bench.question_sets import load_question_set

_NEVER = re.compile("(?!)")
_DAY = date(2024, 3, 15)
_MAX_PAIRS = 4_000

Outputs = dict[Hashable, object]


@dataclass(frozen=True, slots=True)
class PublicTexts:
    """The texts of the public sets: turns as (speaker, text) and questions, by conversation; and texts with labelled secrets."""

    conversations: tuple[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], ...]
    labelled: tuple[str, ...]

    @classmethod
    def load(cls, folder: Path) -> PublicTexts:
        """Load every question set and every labelled text below a folder."""
        found = []
        for file in sorted(folder.glob("recall/*_dev.json")):
            for conversation in load_question_set(file)["conversations"]:
                turns = tuple((turn["speaker"], turn["text"]) for turn in conversation["turns"])
                found.append((turns, tuple(question["question"] for question in conversation["questions"])))
        labelled = [case["text"] for file in sorted(folder.glob("pii/*.json")) for case in json.loads(file.read_text())]
        return cls(tuple(found), tuple(labelled))

    @property
    def turns(self) -> Iterator[tuple[str, str]]:
        for turns, _ in self.conversations:
            yield from turns

    @property
    def questions(self) -> Iterator[str]:
        for _, questions in self.conversations:
            yield from questions


def _probe_facts(texts: PublicTexts) -> Outputs:
    outputs: Outputs = {}
    for speaker, text in texts.turns:
        role, name = (speaker, "") if speaker in ("user", "assistant") else ("user", speaker)
        outputs[speaker, text] = tuple(
            (fact.text, fact.slot) for fact in extract_facts(Turn(role, text, speaker=name), _DAY)
        )
    return outputs


def _probe_statements(texts: PublicTexts) -> Outputs:
    outputs: Outputs = {}
    for number, (turns, _) in enumerate(texts.conversations):
        pairs = 0
        places: dict[str, list[Any]] = {}
        for speaker, text in turns:
            for statement in parse_statements(text, speaker):
                outputs[number, text, statement.words] = True
                earlier = {id(one): one for stem in statement.subject for one in places.get(stem, ())[-20:]}
                for one in earlier.values() if pairs < _MAX_PAIRS else ():
                    pairs += 1
                    if statement_changes(one, statement):
                        outputs[number, one.words, statement.words] = "changes"
                for stem in statement.subject:
                    places.setdefault(stem, []).append(statement)
    return outputs


def _probe_differences(texts: PublicTexts) -> Outputs:
    outputs: Outputs = {}
    for turns, _ in texts.conversations:
        sentences = [sentence for _, text in turns for sentence in split_sentences(text) if 20 < len(sentence) < 160]
        by_word: dict[str, str] = {}
        for sentence in sentences[:600]:
            for start in (tuple(sentence.lower().split()[:3]), tuple(sentence.lower().split()[-3:])):
                other = by_word.get(" ".join(start))
                by_word[" ".join(start)] = sentence
                if other is not None and other != sentence:
                    outputs[other, sentence] = str(find_difference(other, sentence))
    return outputs


def _probe_queries(texts: PublicTexts) -> Outputs:
    names = ("Caroline", "Melanie", "user", "assistant")
    return {question: repr(parse_question(question, now=_DAY, speakers=names)) for question in texts.questions}


def _probe_dates(texts: PublicTexts) -> Outputs:
    found: Outputs = {text: (find_periods(text, _DAY), write_calendar_dates(text, _DAY)) for _, text in texts.turns}
    return found | {question: find_periods(question, _DAY) for question in texts.questions}


def _probe_sentences(texts: PublicTexts) -> Outputs:
    return {text: tuple(split_sentences(text)) for _, text in texts.turns}


def _probe_features(texts: PublicTexts) -> Outputs:
    from lukasa.recall import signals

    passages = list(dict.fromkeys(lead_passage(text) for _, text in texts.turns))
    table = zip(*compute_features(passages), strict=True)
    states_rule: Callable[[str], bool] = signals.states_rule
    return {passage: (*map(float, row), states_rule(passage)) for passage, row in zip(passages, table, strict=True)}


def _probe_orders(texts: PublicTexts) -> Outputs:
    from lukasa.experience.consolidation.injection_filter import is_suspicious

    return {text: (find_order(text), is_suspicious({"goal": text})) for _, text in texts.turns}


def _probe_noise(texts: PublicTexts) -> Outputs:
    import lukasa

    with lukasa.open("memory:", embedder="hash") as memory:
        outcomes: Outputs = {}
        for _, text in texts.turns:
            for sentence in split_sentences(text)[:1]:
                answer = memory.vault.judge(sentence[:300])
                outcomes[sentence] = None if answer is None else answer.code
        return outcomes


def _probe_summaries(texts: PublicTexts) -> Outputs:
    import lukasa

    outputs: Outputs = {}
    for number, (turns, _) in enumerate(texts.conversations[:8]):
        with lukasa.open("memory:", embedder="hash") as memory:
            context = memory.context
            context.configure("s", automatic=False)
            context.extend("s", [Turn("user", text, speaker=speaker) for speaker, text in turns[:240]])
            context.compact("s", keep=20)
            outputs[number] = context.load("s").long_term_summary
    return outputs


def _probe_pii(texts: PublicTexts) -> Outputs:
    return {text: tuple(find_pii(text)) for text in (*texts.labelled, *(text for _, text in texts.turns))}


_PROBES: dict[str, tuple[tuple[Callable[[PublicTexts], Outputs], ...], tuple[str, ...]]] = {
    "lukasa.context.fact_rules": ((_probe_facts,), ("extraction",)),
    "lukasa.context.facts": ((_probe_facts,), ("extraction",)),
    "lukasa.context.summary": ((_probe_summaries,), ()),
    "lukasa.text.statements": ((_probe_statements,), ("updates",)),
    "lukasa.text.differences": ((_probe_differences,), ("duplicates", "updates")),
    "lukasa.text.lexicon": (
        (_probe_facts, _probe_statements, _probe_differences),
        ("duplicates", "updates", "extraction"),
    ),
    "lukasa.text.dates": ((_probe_dates,), ("extraction",)),
    "lukasa.text.sentences": ((_probe_sentences,), ("extraction",)),
    "lukasa.text.orders": ((_probe_orders,), ()),
    "lukasa.experience.consolidation.injection_filter": ((_probe_orders,), ("consolidation",)),
    "lukasa.recall.query": ((_probe_queries,), ("updates", "scripts")),
    "lukasa.recall.signals": ((_probe_features,), ()),
    "lukasa.vault.checks": ((_probe_noise,), ("duplicates",)),
    "lukasa.pii.tokens": ((_probe_pii,), ()),
    "lukasa.pii.passwords": ((_probe_pii,), ()),
    "lukasa.pii.numbers": ((_probe_pii,), ()),
    "lukasa.pii.prose": ((_probe_pii,), ()),
    "lukasa.pii.patterns": ((_probe_pii,), ()),
    "lukasa.experience.consolidation.resolutions": ((), ("consolidation",)),
    "lukasa.experience.consolidation.extract": ((), ("consolidation",)),
    "lukasa.experience.consolidation.clusters": ((), ("consolidation",)),
}


def _list_rules(module: ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the patterns and word lists of a module: the name, and a function that switches it off and returns its undo."""
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern | type(compile_on_use(""))):
            yield name, partial(_set, module, name, _NEVER, value)
        elif name.startswith("_") and isinstance(value, frozenset) and value and all(isinstance(v, str) for v in value):
            yield name, partial(_set, module, name, frozenset(), value)
        elif (
            name.isupper()
            and name[0] != "_"
            and isinstance(value, dict)
            and all(isinstance(v, dict) for v in value.values())
        ):
            for key, words in value.items():
                yield f"{name}[{key}]", partial(_set_item, value, key, words)


def _set(module: ModuleType, name: str, off: object, value: object) -> Callable[[], None]:
    setattr(module, name, off)
    return lambda: setattr(module, name, value)


def _set_item(lists: dict[str, Any], key: str, words: object) -> Callable[[], None]:
    lists[key] = {}
    return lambda: lists.__setitem__(key, words)


@contextmanager
def _without(switch_off: Callable[[], Callable[[], None]]) -> Iterator[None]:
    undo = switch_off()
    empty_caches()
    try:
        yield
    finally:
        undo()
        empty_caches()


def _measure(module: str, texts: PublicTexts) -> tuple[Outputs, dict[str, float]]:
    probes, sections = _PROBES[module]
    outputs: Outputs = {}
    for probe in probes:
        outputs |= probe(texts)
    rows = run(sections, embedder="static").rows if sections else ()
    return outputs, {row.case: row.value for row in rows}


def list_effects(module: str, texts: PublicTexts) -> Iterator[tuple[str, int, str]]:
    """Yield each rule of a module, on how many public texts it changes the output, and the figures of the bench it changes."""
    before, rows = _measure(module, texts)
    for name, switch_off in list(_list_rules(import_module(module))):
        with _without(switch_off):
            try:
                after, changed_rows = _measure(module, texts)
            except Exception as error:  # noqa: BLE001 - a rule without which the module fails is needed
                yield name, -1, f"fails: {type(error).__name__}"
                continue
        changed = sum(after.get(key) != before.get(key) for key in before.keys() | after.keys())
        figures = [f"{case} {rows[case]:g} → {value:g}" for case, value in changed_rows.items() if value != rows[case]]
        yield name, changed, "; ".join(figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each rule of the modules."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public sets")
    parser.add_argument("modules", nargs="*", default=list(_PROBES))
    options = parser.parse_args(arguments)
    texts = PublicTexts.load(options.data)
    for module in options.modules:
        for name, changed, figures in list_effects(module, texts):
            sys.stdout.write(f"{module} {name}: {changed} public texts; {figures or 'no figure'}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
