"""Adapters to agent frameworks. Each module needs its framework, which an extra installs; none is imported by the library.

    lukasa.integrations.anthropic        the memory tool of the Anthropic API (extra ``anthropic``)
    lukasa.integrations.claude_agent     a session store of the Claude Agent SDK (extra ``claude-agent``)
    lukasa.integrations.langgraph        a checkpointer of LangGraph (extra ``langgraph``)
    lukasa.integrations.langgraph_store  a store of LangGraph (extra ``langgraph``)
    lukasa.integrations.openai_agents    a session of the OpenAI Agents SDK (extra ``openai-agents``)

This package itself only declares the kinds of record that the adapters write.
"""

from __future__ import annotations

from lukasa.gate import KindSpec, RecordLimits

GRAPH_CHECKPOINT, GRAPH_ITEM, GRAPH_WRITES = "graph_checkpoint", "graph_item", "graph_writes"
MEMORY_FILE, SESSION_ITEM = "memory_file", "session_item"
TRANSCRIPT, TRANSCRIPT_ENTRY = "transcript", "transcript_entry"
_LARGE = KindSpec(limits=RecordLimits(record_bytes=64_000_000))
KINDS = dict.fromkeys(
    (GRAPH_CHECKPOINT, GRAPH_ITEM, GRAPH_WRITES, MEMORY_FILE, SESSION_ITEM, TRANSCRIPT, TRANSCRIPT_ENTRY), _LARGE
)
"""Kinds that adapters write: states of programs, which may be large and are stored as they are."""
