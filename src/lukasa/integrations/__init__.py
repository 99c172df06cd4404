"""Adapters to agent frameworks. Each module needs its framework, which an extra installs; none is imported by the library.

    lukasa.integrations.langgraph          a checkpointer of LangGraph (extra ``langgraph``)

This package itself only declares the kinds of record that the adapters write.
"""

from __future__ import annotations

from lukasa.gate import KindSpec, RecordLimits

GRAPH_CHECKPOINT, GRAPH_WRITES = "graph_checkpoint", "graph_writes"
_LARGE = KindSpec(limits=RecordLimits(record_bytes=64_000_000))
KINDS = {GRAPH_CHECKPOINT: _LARGE, GRAPH_WRITES: _LARGE}
"""Kinds that adapters write: states of programs, which may be large and are stored as they are."""
