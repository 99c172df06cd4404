"""Use every operation on a store, erase everything in it, and look for its words in the objects of this process.

    python erased_words.py FOLDER URL

The calls are those of ``tests/frozen/store.py`` and ``tests/support/aio_parity.py``, with some of their words replaced by
random ones, and requests to the HTTP API. Words that are still in an object that lives are printed with the way to them.
"""

from __future__ import annotations

import contextlib
import gc
import io
import re
import secrets
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
REPLACED = (
    "PostgreSQL", "Anna", "Frankfurt", "billing", "Billing", "Deployments", "Grafana", "two floors", "heartbeat", "snapshot:",
    "imperative", "approvals", "scratch", "migration", "GraphQL", "Timeout", "endpoint", "Tuesdays", "invoices", "plain note",
    "read_file", "specification", "cost of", "old clients", "Read the spec", "small talk", "stabilise", "staging",
)  # fmt: skip


def make_words() -> dict[str, str]:
    """Return a new random word for each replaced one, written backwards so that this process never holds it here."""
    return {word: "".join(secrets.choice("bcdfghkmprtvwxz") for _ in range(10)) for word in REPLACED}


def load_script(path: Path, backwards: dict[str, str], **names: Any) -> dict[str, Any]:
    """Run a script with its words replaced and return its names."""
    source = path.read_text("utf-8").replace("store = load_store_script()", "")
    for word, reversed_word in backwards.items():
        source = re.sub(rf"\b{re.escape(word)}", lambda _, new=reversed_word[::-1]: new, source)  # type: ignore[misc]
    module = types.ModuleType(f"changed_{path.stem}")
    module.__file__ = str(path)
    module.__dict__.update(names)
    sys.modules[module.__name__] = module
    exec(compile(source, path.name, "exec"), module.__dict__)
    return module.__dict__


def use_everything(folder: Path, location: str, backwards: dict[str, str]) -> tuple[Any, Any]:
    """Call everything; return the memory and the HTTP server, which stay open."""
    names = load_script(TESTS / "frozen" / "store.py", backwards)
    store = types.SimpleNamespace(**names)
    calls = types.SimpleNamespace(**load_script(TESTS / "support" / "aio_parity.py", backwards, store=store))
    has_log_queue = "://" not in location  # a script of jobs for the queue in the log
    if not has_log_queue:
        names["run_jobs"] = lambda *_: None
    clock = store.Clock(store.BEGINNING)
    memory = store.open_store(location, clock)
    store.fill(memory, clock)
    clock.tick(3600)
    store.prompts(memory, folder / "prompts")
    if has_log_queue:
        store.answers(memory)
    store.layouts(memory, folder / "layouts")
    for part in (calls.experience_calls(memory, folder), calls.journal_calls(memory, folder),
                 calls.conversation_calls(memory), calls.session_calls(memory, folder) if has_log_queue else (),
                 calls.trust_and_forecast_calls(memory), calls.vault_calls(memory)):  # fmt: skip
        for _ in part:
            clock.tick()
    memory.export(io.BytesIO())
    memory.backup(folder / "backup.db")
    word = next(iter(backwards.values()))[::-1]
    for _ in range(2):
        memory.recall(f"Which {word} does the project use?")
        memory.remember(f"The {word} is on the third floor of the house.")
        memory.before_task(f"Move the {word}")
    server = send_requests(location, word)
    for name in ("changed_store", "changed_aio_parity"):  # functions of theirs are registered as tasks and stay
        module = sys.modules.pop(name)
        texts = [each for each, value in vars(module).items() if isinstance(value, str | tuple)]
        vars(module).update(dict.fromkeys(texts))
    return memory, server


def send_requests(location: str, word: str) -> Any:
    """Use the HTTP API in this process as the owner; return what keeps it open."""
    from starlette.testclient import TestClient

    from lukasa.interfaces.auth import StoreTokenSource
    from lukasa.interfaces.http.app import build_app
    from lukasa.interfaces.stores import Caller, CallerStores

    stores = CallerStores(location, Caller(), embedder="hash")
    tokens = StoreTokenSource(stores)
    app = build_app(stores, tokens, ["testserver"])
    client = TestClient(app, headers={"Authorization": f"Bearer {tokens.open().add('owner')}"})
    for path, body in (
        ("/v1/memories", {"text": f"The {word} of the server is blue."}),
        ("/v1/recall", {"query": f"Which colour has the {word}?"}),
        ("/v1/before-task", {"task": f"Paint the {word}"}),
        ("/v1/conversations/s/turns", {"role": "user", "content": f"My {word} is green."}),
    ):
        for _ in range(2):
            answer = client.post(path, json=body, headers={"Idempotency-Key": path})
            assert answer.is_success, (path, answer.status_code, answer.text)
    assert word in client.get("/v1/conversations/s/prompt").text
    assert client.get("/v1/records", params={"limit": 100}).is_success
    return stores, tokens, app


def find_words(backwards: dict[str, str]) -> Iterator[str]:
    """Yield the way to each living object that holds one of the words; code objects hold only the words of scripts."""
    wanted = re.compile("|".join(backwards.values()))
    binary = re.compile(wanted.pattern.encode())
    known, own = set[int](), {id(backwards), id(wanted)}
    parents: dict[int, Any] = {}
    pending: list[Any] = gc.get_objects()
    own |= {id(known), id(own), id(parents), id(pending), id(sys._getframe())}
    skipped = (types.CodeType, types.FrameType, type(iter(())))
    while pending:
        found = pending.pop()
        if id(found) in known or id(found) in own or isinstance(found, skipped):
            continue
        known.add(id(found))
        if isinstance(found, str):
            if wanted.search(found.casefold()[::-1]):
                yield describe(found, parents)
        elif isinstance(found, bytes | bytearray):
            if binary.search(found.lower()[::-1]):
                yield describe(found, parents)
        elif not isinstance(found, int | float):
            for inner in gc.get_referents(found):
                if id(inner) not in known:
                    parents.setdefault(id(inner), found)
                    pending.append(inner)


def describe(found: Any, parents: dict[int, Any]) -> str:
    """Return the types on the way to an object, from the outside."""
    way = [f"{type(found).__name__}[{len(found)}]"]
    current = found
    for _ in range(12):
        current = parents.get(id(current))
        if current is None:
            break
        name = getattr(current, "__qualname__", "") or getattr(current, "__name__", "")
        way.append(
            f"{type(current).__module__}.{type(current).__name__} {name if isinstance(name, str) else ''}".strip()
        )
    return " < ".join(way)


def main(folder: Path, location: str, how: str) -> None:
    """Fill a store, erase all of it, and print what is left."""
    backwards = make_words()
    kept = use_everything(folder, location, backwards)
    memory = kept[0]
    held = sum(1 for _ in find_words(backwards))
    kinds = {row.kind for row in memory.journal.tally() if row.versions}
    if how == "by key":
        memory.journal.erase(*{record.key for record in memory.journal.read(lukasa_query())})
    else:
        for word in backwards.values():
            memory.journal.erase(subject=word[::-1])
    gc.collect()
    left = list(find_words(backwards))
    lines = [f"held {held} kinds {len(kinds)}", *(f"left {way}" for way in left[:40]), f"words left {len(left)}"]
    sys.stdout.write("\n".join(lines) + "\n")


def lukasa_query() -> Any:
    from lukasa.storage.engine import Query

    return Query(every_version=True, hidden=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
