"""The files of the five documents, as one store writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import lukasa
from lukasa.testing import FrozenClock

Frozen = Callable[[str, str], None]
FrozenTree = Callable[[str, Path], None]
GOLDEN = Path(__file__).parent / "golden"


def test_the_vault_file_keeps_its_bytes(built: Path, frozen: Frozen) -> None:
    """Compare vault.jsonl: one version of a memory per line."""
    frozen("layouts/vault.jsonl", (built / "layouts" / "vault.jsonl").read_bytes().decode())


def test_the_session_file_keeps_its_bytes(built: Path, frozen: Frozen) -> None:
    """Compare the state of a session as the document's JSON."""
    frozen("layouts/session_demo.json", (built / "layouts" / "session_demo.json").read_bytes().decode())


def test_the_checkpoint_files_keep_their_names_and_contents(built: Path, frozen: Frozen) -> None:
    """Compare the folders of sessions: names and contents, compressed ones as what is in them."""
    root = built / "sessions"
    parts = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
            parts.append(f"=== {path.relative_to(root).as_posix()}\n{text.rstrip()}\n")
            if ".json" in path.suffixes:
                assert json.loads(text)["checkpoint"]
    frozen("layouts/sessions.txt", "".join(parts))


def test_the_context_files_keep_their_bytes(built: Path, frozen_tree: FrozenTree) -> None:
    """Compare <session_id>.json: the recent view of a conversation."""
    frozen_tree("layouts/context", built / "layouts" / "context")


def test_the_whole_context_file_keeps_its_bytes(built: Path, frozen_tree: FrozenTree) -> None:
    """Compare <session_id>.json with the turns that its summary stands for."""
    frozen_tree("layouts/context_whole", built / "layouts" / "context_whole")


def test_the_loki_tree_keeps_its_bytes(built: Path, frozen_tree: FrozenTree) -> None:
    """Compare the tree .loki/memory/: episodes, semantic memory, skills, ledgers, handoffs, learnings."""
    frozen_tree("layouts/loki", built / "layouts" / "loki")


def test_the_agent_files_keep_their_bytes(built: Path, frozen_tree: FrozenTree) -> None:
    """Compare memory/{agent}.json. The present is more than 90 days after the events, so the windows are empty."""
    frozen_tree("layouts/memory", built / "layouts" / "memory")


def test_the_memory_of_agents_stays_the_same(built: Path, frozen: Frozen) -> None:
    """Compare what memory.trust.agent(name).as_json() says on the day of the events."""
    frozen("layouts/agents.json", (built / "layouts" / "agents.json").read_bytes().decode())


def test_the_memory_graph_file_keeps_its_bytes(built: Path, frozen: Frozen) -> None:
    """Compare the file of the reference MCP memory server."""
    frozen("layouts/memory_graph.json", (built / "layouts" / "memory.json").read_bytes().decode())


def test_a_loki_tree_survives_the_way_in_and_out(tmp_path: Path, frozen: Frozen, frozen_tree: FrozenTree) -> None:
    """Import the golden tree into a new store, export it again, and compare with what that gave before.

    The export writes the facts of conversations into semantic/facts.json too, and the import refuses those.
    """
    with lukasa.open(tmp_path / "memory.db", clock=FrozenClock(), embedder="hash") as memory:
        taken = memory.import_(GOLDEN / "layouts" / "loki", format="loki")
        places = "".join(f"{place}\n" for place, _ in taken.refused)
        frozen("layouts/loki_again_refused.txt", f"{taken.added} added, {taken.present} present, refused:\n{places}")
        memory.export(tmp_path / "out", format="loki")
    frozen_tree("layouts/loki_again", tmp_path / "out")


def test_a_memory_graph_survives_the_way_in_and_out(tmp_path: Path) -> None:
    """Import the golden file into a new store, export it again, and compare the bytes."""
    source = GOLDEN / "layouts" / "memory_graph.json"
    with lukasa.open(tmp_path / "memory.db", embedder="hash") as memory:
        taken = memory.import_(source, format="memory-graph")
        assert list(taken.refused) == []
        memory.export(tmp_path / "memory.json", format="memory-graph")
    assert (tmp_path / "memory.json").read_bytes() == source.read_bytes()
