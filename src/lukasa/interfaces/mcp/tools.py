"""The tools: each parses what a model sent, makes one call of the library, and renders what came back.

A tool's docstring is what a model reads to know when to use it, so it says when before it says how. No tool takes an
agent or a reach: those are settled before it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import Field

from lukasa.clock import from_iso, to_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.mcp import responses
from lukasa.interfaces.mcp.responses import (
    BlockResponse,
    CheckpointResponse,
    HandoffResponse,
    HistoryResponse,
    HitSummary,
    RecallResponse,
    RecordResponse,
    TrustResponse,
    VersionSummary,
    clean_name,
    write_response,
)
from lukasa.memory import Memory
from lukasa.models.token_counter import open_token_counter
from lukasa.outcome import Accepted, Refused
from lukasa.prompt import PromptItem, build_fenced_block
from lukasa.record import Key, Record
from lukasa.scope import SHARED, SYSTEM

MemoryForRequest = Callable[[Context[Any, Any]], Memory]
RecordIdField = Annotated[str, Field(min_length=1, max_length=200)]
TokenBudget = Annotated[int, Field(ge=100, le=50_000, description="At most so many tokens.")]
SessionIdField = Annotated[str, Field(min_length=1, max_length=200, description="The id of the conversation or run.")]

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ADDITIVE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
IDEMPOTENT = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
DESTRUCTIVE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

_MAX_VERSIONS = 20


class MemoryTools:
    """The tools over one store. Public methods are the tools; ``ANNOTATED`` says what each does to it."""

    ANNOTATIONS: dict[str, tuple[str, ToolAnnotations]] = {  # noqa: RUF012 - read only
        "remember": ("Remember a fact", IDEMPOTENT),
        "recall": ("Recall memories", READ_ONLY),
        "forget": ("Forget a memory", DESTRUCTIVE),
        "history": ("Read a record and its history", READ_ONLY),
        "context_append": ("Add a turn to a conversation", ADDITIVE),
        "context_assemble": ("Assemble a conversation for a prompt", READ_ONLY),
        "before_task": ("Prepare for a task", READ_ONLY),
        "record_episode": ("Record how a task went", ADDITIVE),
        "checkpoint": ("Save or load the state of a run", IDEMPOTENT),
        "handoff": ("Hand work over", ADDITIVE),
        "trust": ("Show how far an agent is trusted", READ_ONLY),
        "snapshot": ("Read what is always true here", READ_ONLY),
    }

    def __init__(self, memory_for: MemoryForRequest) -> None:
        self._memory_for = memory_for

    def remember(
        self,
        ctx: Context[Any, Any],
        text: Annotated[str, Field(min_length=1, description="One fact or decision, in a sentence or two.")],
        topic: Annotated[
            str | None,
            Field(description="A short name such as `deploy-target` for what may change: a later call replaces it."),
        ] = None,
        category: Annotated[
            str, Field(description="mission, preference, decision, convention, … or general.")
        ] = "general",
        tags: Annotated[list[str], Field(max_length=20)] = [],  # noqa: B006 - never changed
        private: Annotated[
            bool, Field(description="Only for yourself; else every agent of this store reads it.")
        ] = False,
        replaces: Annotated[str | None, Field(description="The id of a memory that this puts better.")] = None,
    ) -> RecordResponse:
        """Use this when you learn something that will still matter next week: a decision, a preference of the user, a
        convention of the project, a fact about the system. Not for progress, status or logs, which are refused. It is
        kept unless it is noise, holds a secret, or says what is known already; the answer then says why."""
        vault, scope = (memory := self._memory_for(ctx)).vault, _write_scope(memory, private=private)
        if replaces is not None:
            return write_response(vault.update(replaces, text, category=category, tags=tags or None, source="chat"))
        if topic is not None:
            return write_response(vault.update_by_topic(topic, scope, text, category, tags=tags, source="chat"))
        return write_response(vault.add_memory(text, scope, category, tags=tags, source="chat"))

    def recall(
        self,
        ctx: Context[Any, Any],
        query: Annotated[str, Field(min_length=1, description="What you want to know, as a question or in key words.")],
        k: Annotated[int, Field(ge=1, le=50, description="At most so many memories.")] = 8,
        kinds: Annotated[
            list[str], Field(description="Only these kinds, such as memory, turn, fact, episode, pattern, skill.")
        ] = [],  # noqa: B006
        session: Annotated[str | None, Field(description="Only what was said in this conversation.")] = None,
        author: Annotated[str | None, Field(description="Only what this agent wrote.")] = None,
        since: Annotated[str | None, Field(description="Only what happened at or after this time, ISO 8601.")] = None,
        until: Annotated[str | None, Field(description="Only what happened at or before this time.")] = None,
        budget: TokenBudget = 2_000,
    ) -> RecallResponse:
        """Use this before you answer from memory, guess, or ask the user something they may have told already, and
        whenever the user says "as before", "again" or "you know". Finds by words and by meaning, over everything that
        was remembered, said or done. The block holds the texts, fenced; `history` gives a record in full."""
        from lukasa.recall.recall import build_prompt_block

        found = self._memory_for(ctx).recall(
            query, k, kinds=kinds, session=session, author=author, since=_parse_time(since), until=_parse_time(until)
        )
        made = build_prompt_block(found, budget)
        hits = [
            HitSummary(
                id=clean_name(hit.record.id),
                kind=hit.record.kind,
                scope=clean_name(hit.record.scope),
                author=clean_name(hit.record.author) or None,
                at=to_iso(hit.record.moment),
                score=round(hit.score, 4),
                why=hit.why,
                version=hit.record.version,
            )
            for hit in found.hits
        ]
        text = made.text or ("Nothing was found." if not hits else "Nothing fits into the budget.")
        return RecallResponse(block=text, tokens=made.tokens, hits=hits, note=found.note or None)

    def forget(
        self,
        ctx: Context[Any, Any],
        id: Annotated[RecordIdField, Field(description="The id of a memory, note or directive, as `recall` gave it.")],
    ) -> RecordResponse:
        """Use this when a memory is wrong or the user asks you to forget it. It disappears from every recall; its history
        stays, so the owner of the store can bring it back. To correct a memory, use `remember` with `replaces`."""
        return write_response(self._memory_for(ctx).vault.delete(id, source="chat"))

    def history(
        self,
        ctx: Context[Any, Any],
        id: Annotated[RecordIdField, Field(description="The id of a record, as another tool gave it.")],
        kind: Annotated[str | None, Field(description="Its kind, if several kinds have this id.")] = None,
        scope: Annotated[str | None, Field(description="Its scope, if several scopes have it.")] = None,
        budget: TokenBudget = 4_000,
    ) -> HistoryResponse:
        """Use this to read one record in full, and to see what it said before, when it changed and who changed it."""
        memory = self._memory_for(ctx)
        found = _find_versions(memory, id, kind, scope)
        if isinstance(found, Refused):
            return responses.refused_response(found, HistoryResponse)
        told = [_prompt_item(record) for record in found[::-1][:_MAX_VERSIONS] if not record.deleted]
        made = build_fenced_block(told, budget=budget, counter=open_token_counter())
        newest = found[-1]
        return HistoryResponse(
            id=newest.id, kind=newest.kind, scope=newest.scope, deleted=newest.deleted or None, block=made.text,
            tokens=made.tokens, versions=[_version_summary(record) for record in found],
        )  # fmt: skip

    def context_append(
        self,
        ctx: Context[Any, Any],
        session: SessionIdField,
        content: Annotated[str, Field(min_length=1, description="What was said, word for word.")],
        role: Annotated[Literal["user", "assistant", "system", "tool"], Field(description="Who said it.")] = "user",
        speaker: Annotated[
            str, Field(max_length=200, description="The speaker's own name, if there are several.")
        ] = "",
        key: Annotated[
            str | None, Field(max_length=200, description="Repeated with the same key it is added once.")
        ] = None,
    ) -> RecordResponse:
        """Use this to keep a conversation word for word, turn by turn, so that nothing is lost when your context is
        compacted. Facts that a turn states are kept with it."""
        return write_response(self._memory_for(ctx).context.append(session, role, content, speaker=speaker, key=key))

    def context_assemble(
        self,
        ctx: Context[Any, Any],
        session: SessionIdField,
        question: Annotated[str | None, Field(description="What older turns should answer.")] = None,
        budget: TokenBudget = 4_000,
    ) -> BlockResponse:
        """Use this to pick up a conversation again, after compaction or in a new run: its summary, its facts, older turns
        that answer the question, and the newest turns, within a budget of tokens."""
        context = self._memory_for(ctx).context
        if not (found := context.load(session)).origin.state_version:
            return responses.refused_response(_session_not_found(found.session_id), BlockResponse)
        text, tokens = fence_conversation(context.assemble(session, budget, question=question), session, budget)
        return BlockResponse(block=text, tokens=tokens)

    def before_task(
        self,
        ctx: Context[Any, Any],
        task: Annotated[str, Field(min_length=1, description="What is to be done, in a sentence.")],
        budget: TokenBudget = 1_500,
    ) -> BlockResponse:
        """Use this at the start of every task, before the first step: what worked in similar tasks, what to avoid, and
        which skills apply."""
        made = self._memory_for(ctx).before_task(task).block(budget, full=True)
        return BlockResponse(block=made.text or "Nothing is known about such a task yet.", tokens=made.tokens)

    def record_episode(
        self,
        ctx: Context[Any, Any],
        goal: Annotated[str, Field(min_length=1, description="What was to be done.")],
        outcome: Annotated[Literal["success", "failure", "partial", "abandoned"], Field(description="How it ended.")],
        steps: Annotated[list[str], Field(max_length=500, description="What was done, step by step.")] = [],  # noqa: B006
        errors: Annotated[
            list[dict[str, str]],
            Field(max_length=100, description="What went wrong: objects with type, message and resolution."),
        ] = [],  # noqa: B006
        artifacts: Annotated[list[str], Field(max_length=500, description="Files that were made or changed.")] = [],  # noqa: B006
        duration_seconds: Annotated[float, Field(ge=0)] = 0,
        task_id: Annotated[str, Field(max_length=200)] = "",
        git_commit: Annotated[str, Field(max_length=200)] = "",
        key: Annotated[
            str | None, Field(max_length=200, description="Repeated with the same key it is kept once.")
        ] = None,
    ) -> RecordResponse:
        """Use this when a task is finished, failed or given up: what was wanted, what was done, what went wrong and how it
        was resolved. Episodes become the patterns and warnings that `before_task` gives."""
        memory = self._memory_for(ctx)
        written = memory.episodes.record(
            goal,
            outcome=outcome,
            action_log=[{"action": step} for step in steps],
            errors=errors,
            artifacts=artifacts,
            duration_seconds=duration_seconds,
            task_id=task_id,
            git_commit=git_commit,
            scope=_write_scope(memory),
            key=key,
        )
        return write_response(written)

    def checkpoint(
        self,
        ctx: Context[Any, Any],
        session: SessionIdField,
        state: Annotated[
            dict[str, Any] | None,
            Field(description="The state to save, as a JSON object of your own; without it, the newest one is loaded."),
        ] = None,
    ) -> CheckpointResponse:
        """Use this to save where a long run stands, so that a crash or a new session can go on from there, and to load it
        again. Saving makes the next checkpoint; earlier ones are kept."""
        sessions = self._memory_for(ctx).sessions
        if state is not None:
            outcome = sessions.save_checkpoint(state, session)
            if not isinstance(outcome, Accepted):
                return responses.refused_response(outcome, CheckpointResponse)
            return CheckpointResponse(session=session, number=sessions.checkpoints(session)[0].number)
        saved = sessions.state(session)
        if saved is None:
            return responses.refused_response(_session_not_found(session), CheckpointResponse)
        return CheckpointResponse(session=session, number=saved["metadata"].get("checkpoint_number"), state=saved)

    def handoff(
        self,
        ctx: Context[Any, Any],
        action: Annotated[
            Literal["send", "inbox", "accept", "complete"],
            Field(description="send work to an agent, look at your inbox, accept a handoff, or say that it is done."),
        ],
        to: Annotated[str | None, Field(max_length=200, description="send: the agent who is to go on.")] = None,
        what_was_done: Annotated[str | None, Field(description="send: what the next agent must know.")] = None,
        known_issues: Annotated[list[str], Field(max_length=100)] = [],  # noqa: B006
        needs_testing: Annotated[list[str], Field(max_length=100)] = [],  # noqa: B006
        artifacts: Annotated[list[str], Field(max_length=500)] = [],  # noqa: B006
        git_state: Annotated[str, Field(max_length=2_000)] = "",
        id: Annotated[str | None, Field(max_length=200, description="accept, complete: the handoff.")] = None,
        result: Annotated[str, Field(description="complete: what came of it.")] = "",
        budget: TokenBudget = 2_000,
    ) -> HandoffResponse:
        """Use this to pass unfinished work to another agent, and at the start of a session to see what was passed to you.
        A handoff stays in the inbox until it is completed; only one agent can accept it."""
        handoffs = self._memory_for(ctx).handoffs
        if action == "inbox":
            return _inbox_response(handoffs.inbox(), budget)
        if action == "send":
            if not to or not what_was_done:
                raise InvalidInput("To send a handoff, say `to` whom and `what_was_done`.")
            written = handoffs.create(
                to,
                what_was_done,
                artifacts=artifacts,
                git_state=git_state,
                needs_testing=needs_testing,
                known_issues=known_issues,
            )
        elif not id:
            raise InvalidInput(f"To {action} a handoff, give its `id`.", hint="`inbox` lists them.")
        else:
            written = handoffs.accept(id) if action == "accept" else handoffs.complete(id, result)
        if not isinstance(written, Accepted):
            return responses.refused_response(written, HandoffResponse)
        record = written.records[0]
        return HandoffResponse(id=record.id, status=record.body.get("status", "unread"))

    def trust(
        self,
        ctx: Context[Any, Any],
        agent: Annotated[str | None, Field(max_length=200, description="Whose; without it, your own.")] = None,
    ) -> TrustResponse:
        """Use this to see how far an agent is trusted before you build on what it wrote, or how far you are."""
        memory = self._memory_for(ctx)
        who = agent or memory.journal.author
        if not who:
            raise InvalidInput("Whose trust? Name the agent.")
        score = memory.trust.score(who)
        return TrustResponse(
            agent=clean_name(who),
            trust=round(score.trust, 4),
            low=round(score.low, 4),
            high=round(score.high, 4),
            events=score.events,
        )

    def snapshot(self, ctx: Context[Any, Any], budget: TokenBudget = 1_000) -> BlockResponse:
        """Use this at the start of a session: notes, canon and current registers, which hold whatever the task."""
        made = self._memory_for(ctx).vault.build_snapshot_block(budget=budget)
        return BlockResponse(block=made.text or "Nothing has been remembered yet.", tokens=made.tokens)


def _write_scope(memory: Memory, *, private: bool = False) -> str:
    """The scope that a caller writes to: the shared one, or its own."""
    reach, author = memory.journal.reach, memory.journal.author
    if not private and reach.writes(SHARED):
        return SHARED
    if author and reach.writes(author):
        return author
    if reach.writable is not None and len(reach.writable) == 1:
        return next(iter(reach.writable))
    hint = "Ask whoever runs the server to name an agent (--agent)."
    raise InvalidInput("This caller has no scope of its own." if private else "Where to write is not clear.", hint=hint)


def _find_versions(memory: Memory, id: str, kind: str | None, scope: str | None) -> Sequence[Record] | Refused:
    """Every version of the one record that is meant."""
    journal = memory.journal
    places = {(row.scope, row.kind) for row in journal.tally() if row.scope != SYSTEM}
    keys = [Key(where, what, id) for where, what in sorted(places) if kind in (None, what) and scope in (None, where)]
    found = [versions for key in keys if (versions := journal.history(key))]
    if not found:
        return Refused("not_found", f"There is no record {id!r:.80}.")
    if len(found) > 1:
        several = ", ".join(f"{versions[0].kind} in {versions[0].scope}" for versions in found[:5])
        raise InvalidInput(f"Several records have this id: {several}.", hint="Say which with `kind` and `scope`.")
    return found[0]


def _version_summary(record: Record) -> VersionSummary:
    return VersionSummary(
        version=record.version,
        at=to_iso(record.recorded_at),
        author=clean_name(record.author) or None,
        origin=record.origin,
        deleted=record.deleted or None,
    )


def _prompt_item(record: Record) -> PromptItem:
    """One version with everything that is in it."""
    from lukasa.canonical_json import encode

    body = encode(dict(record.body)).decode() if record.body else ""
    text = "\n".join(part for part in (record.text, body) if part)
    return PromptItem(text, f"{record.key} version {record.version}", record.author, to_iso(record.recorded_at)[:16])


def fence_conversation(prompt: Any, session: str, budget: int) -> tuple[str, int]:
    """A session with its newest turns behind a fence too: to whoever reads this, they are recalled text as well."""
    counter, messages = open_token_counter(), list(prompt.messages)
    parts = []
    if (
        messages
        and prompt.text.startswith(f"{messages[0]['content']}")
        and messages[0]["content"].startswith("<lukasa ")
    ):
        parts.append(messages.pop(0)["content"])
    told = [
        PromptItem(message["content"], f"{message['role']} in {session}", message.get("name", ""))
        for message in messages
    ]
    spent = counter("\n".join(parts))
    while told:
        block = build_fenced_block(told, budget=budget - spent, counter=counter)
        if block.told == len(told) and not block.cut:
            parts.append(block.text)
            break
        if len(told) == 1:
            parts += [block.text] if block.text else []
            break
        told = told[1:]  # the newest matter most
    text = "\n".join(parts)
    return text, counter(text)


def _inbox_response(handoffs: Sequence[Any], budget: int) -> HandoffResponse:
    told = [_prompt_item(handoff.record) for handoff in handoffs]
    made = build_fenced_block(told, budget=budget, counter=open_token_counter())
    listed = [
        {
            "id": handoff.id,
            "from": clean_name(handoff.from_agent),
            "status": handoff.status,
            "at": to_iso(handoff.timestamp),
        }
        for handoff in handoffs
    ]
    return HandoffResponse(block=made.text or "The inbox is empty.", tokens=made.tokens, handoffs=listed)


def _session_not_found(session: str) -> Refused:
    return Refused("not_found", f"Nothing is known of the session {session[:80]!r}.")


def _parse_time(text: str | None) -> Any:
    return None if text is None else from_iso(text)
