"""Adapters to agent frameworks. Each module needs its framework, which an extra installs; none is imported by the library.

    lukasa.integrations.anthropic           the memory tool of the Anthropic API (extra ``anthropic``)
    lukasa.integrations.claude_agent        a session store of the Claude Agent SDK (extra ``claude-agent``)
    lukasa.integrations.google_adk          a memory service of Google ADK (extra ``google-adk``)
    lukasa.integrations.hermes              a memory provider of Hermes Agent (extra ``hermes``)
    lukasa.integrations.langgraph           a checkpointer of LangGraph (extra ``langgraph``)
    lukasa.integrations.langgraph_store     a store of LangGraph (extra ``langgraph``)
    lukasa.integrations.openai_agents       a session of the OpenAI Agents SDK (extra ``openai-agents``)
    lukasa.integrations.pydantic_ai         a conversation store of Pydantic AI (extra ``pydantic-ai``)
    lukasa.integrations.pydantic_ai_memory  a memory store of the Pydantic AI harness (extra ``pydantic-ai-harness``)

This package itself only declares the kinds of record that the adapters write.
"""

from __future__ import annotations

from dataclasses import replace

from lukasa.journal.gate import KindSpec, RecordLimits

AGENT_EVENT = "agent_event"
CONVERSATION_HEAD, CONVERSATION_MESSAGE = "conversation_head", "conversation_message"
FILE_OPERATION, NOTE_FILE = "file_operation", "note_file"
GRAPH_CHECKPOINT, GRAPH_ITEM, GRAPH_WRITES = "graph_checkpoint", "graph_item", "graph_writes"
MEMORY_FILE, SESSION_ITEM = "memory_file", "session_item"
TRANSCRIPT, TRANSCRIPT_ENTRY = "transcript", "transcript_entry"
_LARGE = KindSpec(limits=RecordLimits(record_bytes=64_000_000), written_by="service")
_STATE = replace(_LARGE, is_statement=False)
_STORES = replace(_LARGE, written_by="store", is_statement=False)
KINDS = {
    AGENT_EVENT: _LARGE,
    CONVERSATION_HEAD: _STATE,
    CONVERSATION_MESSAGE: _LARGE,
    FILE_OPERATION: KindSpec(),
    GRAPH_CHECKPOINT: _STORES,
    GRAPH_ITEM: _LARGE,
    GRAPH_WRITES: _STORES,
    MEMORY_FILE: _LARGE,
    NOTE_FILE: _LARGE,
    SESSION_ITEM: _LARGE,
    TRANSCRIPT: _STATE,
    TRANSCRIPT_ENTRY: _LARGE,
}
"""Kinds that adapters write: states of programs, which may be large and are stored as they are."""
