"""Benchmark of the adapters: each compared with the implementation on SQLite that its framework brings, in the same run.

Both sides alternate, round by round, on files of the same disk, and every write is durable when it returns. The saver gets a state
of 20 KB of which a little changes, and a thread whose messages grow by one; the store gets small items; the session gets turns.
A conversation, which also counts tokens and extracts facts, is compared with the session of OpenAI Agents.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from lukasa.errors import MissingExtra
from lukasa.memory import open_memory
from lukasa.models.embedder import HashEmbedder
from lukasa_bench.corpus import NoteCorpus
from lukasa_bench.interleave import Comparison, compare, run_interleaved, time_each
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row
from lukasa_bench.store import Progress

SIZES = (100, 10_000)
ROUNDS = 5
SEED = 2026
REPEATS = 12
SPEED_BAR = BenchmarkBar("ratio", "most", 1.0)
CONVERSATION_BAR = BenchmarkBar("ratio", "most", 1.3)
LOAD_BAR = BenchmarkBar("lukasa", "most", 0.0003)

Action = Callable[[Any], Any]


def run(sizes: Sequence[int] = SIZES, rounds: int = ROUNDS, *, progress: Progress | None = None) -> BenchmarkReport:
    """Measure every case at every size."""
    try:
        import agents
        import langgraph.checkpoint.sqlite  # noqa: F401 - the implementation to compare with
    except ImportError as error:
        hint = "Run: pip install 'lukasa[langgraph,openai-agents]' langgraph-checkpoint-sqlite"
        raise MissingExtra("The frameworks of the adapters are not installed.", hint=hint) from error
    agents.set_tracing_disabled(True)
    began, report_progress = perf_counter(), progress or (lambda *_: None)
    rows: list[BenchmarkRow] = []
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = MachineInfo.measure(Path(folder))
        for size in sorted(sizes):
            for case in (_measure_saver, _measure_thread, _measure_store, _measure_session):
                report_progress(f"measuring at {size:,}", len(rows), 8 * len(sizes))
                with ExitStack() as stack:
                    place = Path(stack.enter_context(TemporaryDirectory(dir=folder)))
                    rows += case(stack, place, size, rounds)
    report_progress("measuring", 1, 1)
    return BenchmarkReport("adapters", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _compare_actions(rounds: int, pair: Sequence[Action], make_item: Callable[[], Any]) -> Comparison:
    """Compare one action of both sides by the medians of their rounds."""

    def work(action: Action, items: Sequence[Any]) -> float:
        return statistics.median(time_each(action, items))

    results = run_interleaved(rounds, pair, lambda: [make_item() for _ in range(REPEATS)], work)
    return compare(*results)


class _Thread:
    """A thread of one saver, whose newest checkpoint is known."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.config: Any = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}
        self.version = 0

    def put(self, values: dict[str, Any]) -> None:
        """Store a checkpoint in which the first channel changed."""
        from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint

        self.version += 1
        state = create_checkpoint(empty_checkpoint(), None, self.version)
        changed = dict.fromkeys(values if self.version == 1 else list(values)[:1], self.version)
        state["channel_values"] = values
        state["channel_versions"] = {name: self.version if name in changed else 1 for name in values}
        self.config = self.saver.put(self.config, state, {"source": "loop", "step": self.version}, changed)

    def get(self, _: Any) -> Any:
        """Load the newest checkpoint."""
        return self.saver.get_tuple({"configurable": {"thread_id": "thread", "checkpoint_ns": ""}})


def _measure_saver(stack: ExitStack, place: Path, size: int, rounds: int) -> list[BenchmarkRow]:
    """Measure a small change of a large state, with some checkpoints in the thread already."""
    notes, numbers = {f"note {n}": note.text for n, note in enumerate(NoteCorpus(SEED).take(100))}, count()
    fixed = "x" * 20_000

    def next_values() -> dict[str, Any]:
        return {"notes": notes | {"note 7": f"changed {next(numbers)}"}, "fixed": fixed}

    put, get = _compare_savers(stack, place, rounds, next_values, earlier=min(size, 1_000))
    return [
        comparison_row("saver: put a small change", size, "s", put, SPEED_BAR),
        comparison_row("saver: get the newest", size, "s", get, SPEED_BAR),
    ]


def _measure_thread(stack: ExitStack, place: Path, size: int, rounds: int) -> list[BenchmarkRow]:
    """Measure the turn of a graph whose list of messages has some length already."""
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

    corpus = NoteCorpus(SEED)
    messages: list[BaseMessage] = [
        (HumanMessage if number % 2 else AIMessage)(note.text, id=str(number))
        for number, note in enumerate(corpus.take(size))
    ]

    def next_values() -> dict[str, Any]:
        (note,) = corpus.take(1)
        messages.append(HumanMessage(note.text, id=str(len(messages))))
        return {"messages": list(messages)}

    append, get = _compare_savers(stack, place, rounds, next_values, earlier=2)
    return [
        comparison_row("thread: append a message", size, "s", append, SPEED_BAR),
        comparison_row("thread: get the newest", size, "s", get, SPEED_BAR),
    ]


def _compare_savers(
    stack: ExitStack, place: Path, rounds: int, next_values: Callable[[], dict[str, Any]], *, earlier: int
) -> tuple[Comparison, Comparison]:
    """Compare puts and gets of both savers in a thread with some earlier checkpoints."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    from lukasa.integrations.langgraph import LukasaSaver

    memory = stack.enter_context(open_memory(place / "lukasa.db", embedder="hash"))
    stock = stack.enter_context(SqliteSaver.from_conn_string(str(place / "stock.db")))
    threads = [_Thread(LukasaSaver(memory)), _Thread(stock)]
    for _ in range(earlier):
        values = next_values()
        for thread in threads:
            thread.put(values)
    put = _compare_actions(rounds, [thread.put for thread in threads], next_values)
    return put, _compare_actions(rounds, [thread.get for thread in threads], lambda: None)


def _measure_store(stack: ExitStack, place: Path, size: int, rounds: int) -> list[BenchmarkRow]:
    """Measure puts, searches by a filter and searches by a question in a store of some items.

    The store of LangGraph on SQLite needs an extension of SQLite for questions, which many interpreters cannot load; questions
    are compared with its store in memory, with the same embedder.
    """
    from langgraph.store.base import PutOp
    from langgraph.store.memory import InMemoryStore
    from langgraph.store.sqlite import SqliteStore

    from lukasa.integrations.langgraph_store import LukasaStore

    embedder, corpus = HashEmbedder(), NoteCorpus(SEED)
    rng = random.Random(SEED)  # noqa: S311 - chooses what to search

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[float(value) for value in vector] for vector in embedder.embed(list(texts))]

    memory = stack.enter_context(open_memory(place / "lukasa.db", embedder="hash"))
    stock: Any = stack.enter_context(SqliteStore.from_conn_string(str(place / "stock.db")))
    stock.setup()
    index: Any = {"dims": len(embed(["x"])[0]), "embed": embed, "fields": ["text"]}
    stores: list[Any] = [LukasaStore(memory, fields=["text"]), stock, InMemoryStore(index=index)]
    numbers = count()

    def next_item() -> tuple[tuple[str, ...], str, dict[str, Any]]:
        (note,) = corpus.take(1)
        number = next(numbers)
        return ("users", f"u{number % 50}"), f"k{number}", {"text": note.text, "kind": f"k{number % 20}"}

    for start in range(0, size, 500):
        items = [next_item() for _ in range(min(500, size - start))]
        for store in stores:
            store.batch([PutOp(*item) for item in items])
    memory.recall.index.catch_up()
    on_disk = stores[:2]
    put = _compare_actions(rounds, [partial(_put_item, store) for store in on_disk], next_item)
    memory.recall.index.catch_up()

    def next_filter() -> tuple[tuple[str, ...], dict[str, Any]]:
        return ("users", f"u{rng.randrange(50)}"), {"kind": f"k{rng.randrange(20)}"}

    def next_question() -> str:
        return " ".join(corpus.take(1)[0].text.split()[:6])

    by_filter = _compare_actions(rounds, [partial(_search_filter, store) for store in on_disk], next_filter)
    by_question = _compare_actions(rounds, [partial(_search_question, store) for store in stores[::2]], next_question)
    return [
        comparison_row("store: put an item", size, "s", put, SPEED_BAR),
        comparison_row("store: search by a filter", size, "s", by_filter, SPEED_BAR),
        comparison_row("store: search by a question", size, "s", by_question, SPEED_BAR),
    ]


def _measure_session(stack: ExitStack, place: Path, size: int, rounds: int) -> list[BenchmarkRow]:
    """Measure appends to a session and to a conversation that have some turns already, and reads of their ends."""
    from agents import SQLiteSession

    from lukasa.integrations.openai_agents import LukasaSession

    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    memory = stack.enter_context(open_memory(place / "lukasa.db", embedder="hash"))
    stock = SQLiteSession("chat", place / "stock.db")
    stack.callback(stock.close)
    sessions: list[Any] = [LukasaSession("chat", memory), stock]
    corpus, numbers = NoteCorpus(SEED), count()

    def next_turn() -> list[dict[str, str]]:
        (note,) = corpus.take(1)
        return [{"role": "assistant" if next(numbers) % 2 else "user", "content": note.text}]

    for start in range(0, size, 500):
        turns = [turn for _ in range(min(500, size - start)) for turn in next_turn()]
        memory.context.extend("talk", turns)
        for session in sessions:
            loop.run_until_complete(session.add_items(turns))
    append = _compare_actions(rounds, [partial(_add_turn, loop, session) for session in sessions], next_turn)
    get = _compare_actions(rounds, [partial(_get_end, loop, session) for session in sessions], lambda: None)
    talks: list[Action] = [lambda items: memory.context.extend("talk", items), partial(_add_turn, loop, stock)]
    extend = _compare_actions(rounds, talks, next_turn)
    loads: list[Action] = [lambda _: memory.context.load("talk"), partial(_get_end, loop, stock)]
    load = _compare_actions(rounds, loads, lambda: None)
    return [
        comparison_row("session: append a turn", size, "s", append, SPEED_BAR),
        comparison_row("session: get the last 20", size, "s", get, SPEED_BAR),
        comparison_row("conversation: append a turn", size, "s", extend, CONVERSATION_BAR),
        comparison_row("conversation: load it", size, "s", load, LOAD_BAR),
    ]


def _put_item(store: Any, item: tuple[tuple[str, ...], str, dict[str, Any]]) -> None:
    store.put(*item)


def _search_filter(store: Any, item: tuple[tuple[str, ...], dict[str, Any]]) -> None:
    store.search(item[0], filter=item[1])


def _search_question(store: Any, text: str) -> None:
    store.search(("users",), query=text, limit=10)


def _add_turn(loop: asyncio.AbstractEventLoop, session: Any, items: list[dict[str, str]]) -> None:
    loop.run_until_complete(session.add_items(items))


def _get_end(loop: asyncio.AbstractEventLoop, session: Any, _: None) -> None:
    loop.run_until_complete(session.get_items(20))
