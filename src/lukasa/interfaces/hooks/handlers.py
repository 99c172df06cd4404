"""The handlers of hook events: the context that an agent is given, and the records that are made of its transcript."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lukasa.agents.keep import keep_session, keep_turns
from lukasa.agents.speak import Block, Shown, Speaker, read_head
from lukasa.config import read_profile
from lukasa.core.canonical_json import decode, encode
from lukasa.errors import InvalidInput, LukasaError
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.journal.gate import PiiHandling
from lukasa.memory import Memory
from lukasa.transfer.layouts.agent_transcripts import read_branch, read_transcript
from lukasa.vault import VaultSettings

RESUME_TOKENS = 2_000
"""The token budget of a conversation that goes on after a compaction."""
_WRITE_TIMEOUT = 5.0
_MAX_SESSIONS = 200
_PII_DEFAULTS: Mapping[str, PiiHandling] = dict.fromkeys(("turn", "episode", "fact", "lesson"), "redact")


class HookAnswer(NamedTuple):
    """An answer, and the function to call once the client has received it."""

    text: bytes
    on_delivered: Callable[[], None] = lambda: None


class HookHandlers:
    """The handlers for one store and agent.

    Personal data and secrets in transcripts are redacted before anything is stored, unless the profile says otherwise.
    A store that was found by its folder (``is_found``) is used only if the user made or allowed it.
    """

    def __init__(self, store: str | None, agent: str, scopes: Sequence[str] = (), *, is_found: bool = False) -> None:
        settings = read_profile(None) or VaultSettings()
        settings = replace(settings, pii={**_PII_DEFAULTS, **settings.pii})
        caller = Caller(agent, tuple(scopes) or None)
        self._stores = CallerStores(store, caller, is_found=is_found, timeout=_WRITE_TIMEOUT, profile=settings)
        self._lock = threading.Lock()
        self._shown: OrderedDict[str, Shown] = OrderedDict()
        self._speaker = Speaker()

    def warm_up(self) -> None:
        """Open the store if it exists, so that the first request is answered in time."""
        self._stores.warm_up()

    def close(self) -> None:
        """Close the store."""
        self._stores.close()

    def answer(self, event: str, payload: bytes) -> HookAnswer:
        """Return the context for the agent in the format of Claude Code; empty if there is none."""
        fields = _parse_payload(payload)
        if not self._stores.store_exists():
            return HookAnswer(b"")
        name, build_block = {
            "session-start": ("SessionStart", self._at_start),
            "user-prompt-submit": ("UserPromptSubmit", self._at_prompt),
            "pre-tool-use": ("PreToolUse", self._at_tool),
            "subagent-start": ("SubagentStart", self._at_subagent),
        }[event]
        shown = self._shown_to(_text_field(fields, "session_id"))
        try:
            block = build_block(self._stores.for_request(None), fields, shown)
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise
        if not block.text:
            return HookAnswer(b"")
        answer = encode({"hookSpecificOutput": {"hookEventName": name, "additionalContext": block.text}})
        return HookAnswer(answer, lambda: shown.keys.update(block.keys))

    def _at_start(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        session = _text_field(fields, "session_id")
        shown.keys = set()  # the agent's context may have lost what was delivered before
        block = self._start_block(memory, fields, shown)
        parts = [block.text]
        is_resumed = bool(session) and fields.get("source") in ("compact", "resume")
        if is_resumed and memory.context.load(session).origin.state_version:
            parts.append(memory.context.assemble(session, RESUME_TOKENS).text)
        waiting = len(memory.handoffs.inbox()) if memory.journal.author else 0
        if waiting:
            parts.append(f"Lukasa: {waiting} handoffs wait for you; call the tool `handoff` with action `inbox`.")
        return replace(block, text="\n\n".join(part for part in parts if part))

    def _start_block(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        folder, path = _text_field(fields, "cwd"), Path(_text_field(fields, "transcript_path"))
        branch = read_head(Path(folder)) if folder else ""
        if not branch and path.is_file():
            branch = read_branch(path)
        return self._speaker.at_start(memory, folder, branch, _text_field(fields, "session_id"), shown)

    def _at_prompt(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        start = Block() if shown.has_started else self._start_block(memory, fields, shown)
        if start.text:  # the session started before the daemon was ready
            return start
        return self._speaker.at_prompt(memory, _text_field(fields, "prompt"), _text_field(fields, "session_id"), shown)

    def _at_tool(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        given = fields.get("tool_input")
        if not isinstance(given, dict):
            return Block()
        session = _text_field(fields, "session_id")
        return self._speaker.at_tool(memory, _text_field(fields, "tool_name"), given, session, shown)

    def _at_subagent(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        return self._speaker.at_prompt(memory, shown.task, _text_field(fields, "session_id"), Shown(has_started=True))

    def _shown_to(self, session: str) -> Shown:
        with self._lock:
            shown = self._shown.setdefault(session, Shown())
            self._shown.move_to_end(session)
            if len(self._shown) > _MAX_SESSIONS:
                self._shown.popitem(last=False)
            return shown

    def process_event(self, event: str, payload: bytes) -> None:
        """Keep what a transcript says of a session. Repeating an event changes nothing."""
        fields = _parse_payload(payload)
        session, path = _text_field(fields, "session_id"), _text_field(fields, "transcript_path")
        if not session or not path or not Path(path).is_file():
            return
        transcript = read_transcript(Path(path))
        try:
            memory = self._stores.for_request(None)
            if event == "pre-compact":
                keep_turns(memory, session, transcript.turns)
            else:
                folder = _text_field(fields, "cwd")
                keep_session(memory, session, transcript, folder, is_ended=event == "session-end")
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise


def _parse_payload(payload: bytes) -> Mapping[str, Any]:
    fields = decode(payload) if payload.strip() else {}
    if not isinstance(fields, dict):
        raise InvalidInput("The payload of a hook is not a JSON object.")
    return fields


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
