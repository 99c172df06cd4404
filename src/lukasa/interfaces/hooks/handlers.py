"""The handlers of hook events: the context that an agent is given, and the records that are made of its transcript."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lukasa.agents.keep import REMEMBERING_TOOLS, keep_session, keep_turns, project_or_shared
from lukasa.agents.speak import Block, Shown, Speaker, read_head
from lukasa.config import held_out_share, read_profile
from lukasa.core.canonical_json import decode, encode
from lukasa.errors import InvalidInput, LukasaError, NotAllowed, StoreBusy
from lukasa.experience.gain import injection_draft
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.interfaces.upkeep import defer_upkeep
from lukasa.journal.gate import PiiHandling
from lukasa.memory import Memory
from lukasa.transfer.layouts.agent_transcripts import read_branch, read_transcript
from lukasa.vault import VaultSettings

RESUME_TOKENS = 2_000
"""The token budget of a conversation that goes on after a compaction."""
_WRITE_TIMEOUT = 5.0
_MAX_SESSIONS = 200
_MAX_JOBS = 2
_CATCH_UP_SECONDS = 30.0
"""Seconds after an event for the vectors of what it stored, so that no prompt computes them."""
_MIN_CALLS_OF_WORK = 8
_LEFT_AFTER_SECONDS = 600
"""Seconds after its last line that a session counts as left when another one starts."""
REMEMBER_REQUEST = (
    "Lukasa: if this session found something that a later session needs (a convention, a decision, what ended an error, "
    "where something is), store up to five notes of one sentence with the tool `remember`. If not, just stop."
)
"""What the agent is asked once per session; it costs one more answer of the model."""
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
        if event == "stop":
            return self._ask_to_remember(fields)
        if not self._stores.store_exists():
            return HookAnswer(b"")
        name, build_block = {
            "session-start": ("SessionStart", self._at_start),
            "user-prompt-submit": ("UserPromptSubmit", self._at_prompt),
            "pre-tool-use": ("PreToolUse", self._at_tool),
            "subagent-start": ("SubagentStart", self._at_subagent),
        }[event]
        session = _text_field(fields, "session_id")
        shown = self._shown_to(session)
        try:
            memory = self._stores.for_request(None)
            block = build_block(memory, fields, shown)
        except LukasaError as error:
            self._stores.close_if_broken(error)
            if event != "session-start" or isinstance(error, StoreBusy | NotAllowed):
                raise
            said = f"Lukasa: the memory cannot be used ({error}) Run `lukasa doctor`."
            return HookAnswer(_encode_context(name, " ".join(said.split())[:400]))

        def note_delivery() -> None:
            shown.has_started = shown.has_started or event in ("session-start", "user-prompt-submit")
            shown.keys.update(block.keys)
            if block.keys:
                scope, is_held_out = project_or_shared(memory), shown.is_held_out
                memory.journal.append(
                    injection_draft(event, session, block.keys, block.tokens, scope=scope, is_held_out=is_held_out)
                )

        return HookAnswer(_encode_context(name, block.text) if block.text else b"", note_delivery)

    def _ask_to_remember(self, fields: Mapping[str, Any]) -> HookAnswer:
        """Ask the agent once, when it stops after real work and remembered nothing, to note what a later session needs."""
        session, path = _text_field(fields, "session_id"), Path(_text_field(fields, "transcript_path"))
        shown = self._shown_to(session)
        if fields.get("stop_hook_active") or shown.was_asked or not self._stores.store_exists() or not path.is_file():
            return HookAnswer(b"")
        transcript = read_transcript(path)
        names = {call.name for call in transcript.calls}
        has_worked = len(transcript.calls) >= _MIN_CALLS_OF_WORK and transcript.files and transcript.is_finished
        if not has_worked or names & REMEMBERING_TOOLS or REMEMBER_REQUEST in path.read_text("utf-8", "replace"):
            return HookAnswer(b"")
        shown.was_asked = True
        return HookAnswer(encode({"decision": "block", "reason": REMEMBER_REQUEST}))

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
        told = replace(
            shown, keys={*shown.keys, *start.keys}
        )  # the session may have started before the daemon was ready
        block = self._speaker.at_prompt(memory, _text_field(fields, "prompt"), _text_field(fields, "session_id"), told)
        text = "\n\n".join(part for part in (start.text, block.text) if part)
        return Block(text, (*start.keys, *block.keys), start.tokens + block.tokens)

    def _at_tool(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        given = fields.get("tool_input")
        if not isinstance(given, dict):
            return Block()
        session = _text_field(fields, "session_id")
        return self._speaker.at_tool(memory, _text_field(fields, "tool_name"), given, session, shown)

    def _at_subagent(self, memory: Memory, fields: Mapping[str, Any], shown: Shown) -> Block:
        new = Shown(guide_lines=shown.guide_lines, is_held_out=shown.is_held_out)  # a subagent has read nothing yet
        return self._speaker.at_prompt(memory, shown.task, _text_field(fields, "session_id"), new)

    def _shown_to(self, session: str) -> Shown:
        with self._lock:
            if session not in self._shown:
                self._shown[session] = Shown(is_held_out=is_in_share(session, held_out_share()))
            shown = self._shown[session]
            self._shown.move_to_end(session)
            if len(self._shown) > _MAX_SESSIONS:
                self._shown.popitem(last=False)
            return shown

    def process_event(self, event: str, payload: bytes) -> None:
        """Keep what a transcript says of a session. Repeating an event changes nothing."""
        fields = _parse_payload(payload)
        path = _text_field(fields, "transcript_path")
        is_kept = bool(_text_field(fields, "session_id")) and bool(path) and Path(path).is_file()
        if (event == "session-left" and not self._stores.store_exists()) or (event != "session-left" and not is_kept):
            return
        try:
            memory = self._stores.for_request(None)
            if event == "session-left":
                self._end_left_session(memory, fields)
            else:
                self._keep(memory, fields, event)
            memory.recall.index.catch_up(_CATCH_UP_SECONDS)
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise

    def _keep(self, memory: Memory, fields: Mapping[str, Any], event: str) -> None:
        session, path = _text_field(fields, "session_id"), _text_field(fields, "transcript_path")
        transcript = read_transcript(Path(path))
        if event in ("pre-compact", "subagent-stop"):
            keep_turns(memory, session, transcript.turns)
            return
        is_ended = event == "session-end"
        keep_session(memory, session, transcript, _text_field(fields, "cwd"), path, is_ended=is_ended)
        if is_ended:
            defer_upkeep(memory)

    def _end_left_session(self, memory: Memory, fields: Mapping[str, Any]) -> None:
        """End the agent's last session when another one starts: some programs do not say that a session ended."""
        ledger = memory.ledgers.get(scope=project_or_shared(memory)) if memory.journal.author else None
        state = {} if ledger is None else ledger.state
        session, path = state.get("session"), Path(str(state.get("transcript", "")))
        if state.get("status") != "waiting" or not isinstance(session, str) or not path.is_file():
            return
        if session != fields.get("session_id") and time.time() - path.stat().st_mtime > _LEFT_AFTER_SECONDS:
            left = {"session_id": session, "transcript_path": str(path), "cwd": str(state.get("folder", ""))}
            self._keep(memory, left, "session-end")

    def run_jobs(self) -> None:
        """Run the waiting jobs of upkeep, a few at a time."""
        if self._stores.store_exists():
            self._stores.for_request(None).jobs.run_waiting(_MAX_JOBS)


def is_in_share(session: str, share: float) -> bool:
    """Return whether a session is one of a random share of all; the same session always is or never is."""
    return int.from_bytes(hashlib.sha256(session.encode()).digest()[:4], "big") < share * 2**32


def _encode_context(event: str, text: str) -> bytes:
    return encode({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


def _parse_payload(payload: bytes) -> Mapping[str, Any]:
    fields = decode(payload) if payload.strip() else {}
    if not isinstance(fields, dict):
        raise InvalidInput("The payload of a hook is not a JSON object.")
    return fields


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
