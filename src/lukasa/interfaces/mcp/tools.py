"""The tools of the MCP server. Each one parses its arguments, makes one call of the library, and renders the result.

A model reads the docstring of a tool to decide when to use it, so the docstring says when before it says how. No tool
takes an agent or scopes as arguments: they come with the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from mcp_types import ToolAnnotations
from pydantic import Field

from lukasa.core.canonical_json import encode
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.outcome import Accepted, Refused
from lukasa.core.record import Key, Record
from lukasa.core.scope import SHARED, SYSTEM
from lukasa.errors import InvalidInput
from lukasa.interfaces.mcp.idle_upkeep import IdleUpkeep
from lukasa.interfaces.mcp.responses import (
    BlockResponse,
    CheckpointResponse,
    HandoffResponse,
    HistoryResponse,
    HitSummary,
    MemoryBlockResponse,
    RecallResponse,
    RecordResponse,
    TrustResponse,
    VersionSummary,
    clean_name,
)
from lukasa.interfaces.stores import CallerStores
from lukasa.memory import Memory
from lukasa.memory_graph import choose_write_scope
from lukasa.models.token_counter import open_token_counter
from lukasa.recall.memories import MemorySource
from lukasa.recall.prompt import PromptBlock, PromptItem, build_fenced_block

MemoryId = Annotated[str, Field(min_length=1, max_length=200, description="The id of a memory, note or directive.")]
RecordId = Annotated[str, Field(min_length=1, max_length=200, description="The id of a record, from another tool.")]
ConversationId = Annotated[str, Field(min_length=1, max_length=200, description="The id of the conversation.")]
SessionId = Annotated[str, Field(min_length=1, max_length=200, description="The id of the session or run.")]
TokenBudget = Annotated[int, Field(ge=100, le=50_000, description="At most this many tokens.")]
IdempotencyKey = Annotated[
    str | None, Field(max_length=200, description="A call that is repeated with the same key writes once.")
]
RecordKinds = Annotated[list[str], Field(description="Only kinds such as memory, turn, fact, episode, pattern, skill.")]
AgentName = Annotated[str | None, Field(max_length=200, description="The agent; without it, yourself.")]
Artifacts = Annotated[list[str], Field(max_length=500, description="Files that were made or changed.")]

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ADDITIVE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
IDEMPOTENT = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
DESTRUCTIVE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

_MAX_VERSIONS = 20


class MemoryTools:
    """The tools over one store. Every public method is a tool; ``ANNOTATIONS`` holds their titles and hints."""

    ANNOTATIONS: dict[str, tuple[str, ToolAnnotations]] = {  # noqa: RUF012 - never changed
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

    def __init__(self, stores: CallerStores, upkeep: IdleUpkeep) -> None:
        self._stores = stores
        self._upkeep = upkeep

    def remember(
        self,
        text: Annotated[str, Field(min_length=1, description="One fact or decision, in a sentence or two.")],
        topic: Annotated[
            str | None,
            Field(
                description="A short name such as `deploy-target` for a fact that may change: a later call replaces it."
            ),
        ] = None,
        category: Annotated[str, Field(description="Such as mission, preference, decision, convention.")] = "general",
        tags: Annotated[list[str], Field(max_length=20)] = [],  # noqa: B006 - never changed
        private: Annotated[bool, Field(description="Only for yourself, hidden from other agents.")] = False,
        replaces: Annotated[
            str | None, Field(description="The id of a memory whose fact has changed; this text updates it.")
        ] = None,
        distinct_from: Annotated[
            list[str],
            Field(max_length=20, description="Ids of similar memories that state another fact than this text."),
        ] = [],  # noqa: B006 - never changed
        confirms: Annotated[
            str | None, Field(description="The id of a memory that you checked and that still holds; repeat its text.")
        ] = None,
        expires_at: Annotated[str | None, Field(description="From this time on it no longer holds, ISO 8601.")] = None,
    ) -> RecordResponse:
        """Use this when you learn something that will still matter next week: a decision, a preference of the user, a
        convention of the project, a fact about the system. Not for progress, status or logs, which are refused. Noise,
        secrets and facts that are known already are refused too; the answer then says why. `similar_to` in the answer
        names memories that say something similar: decide whether one of them is out of date."""
        memory = self._stores.current()
        vault, scope, end = memory.vault, _choose_scope(memory, private=private), _parse_time(expires_at)
        fields: dict[str, Any] = {"distinct_from": distinct_from} if distinct_from else {}
        if confirms is not None:
            outcome = vault.confirm(confirms, expires_at=end)
        elif replaces is not None:
            changes = fields if expires_at is None else fields | {"expires_at": end}
            outcome = vault.update(replaces, text, category=category, tags=tags or None, source="chat", **changes)
        else:
            fields |= {"tags": tags, "source": "chat", "expires_at": end}
            if topic is not None:
                outcome = vault.update_by_topic(topic, scope, text, category, **fields)
            else:
                outcome = vault.add_memory(text, scope, category, **fields)
        return RecordResponse.from_write(outcome)

    def recall(
        self,
        query: Annotated[str, Field(min_length=1, description="What you want to know, as a question or in key words.")],
        k: Annotated[int, Field(ge=1, le=50, description="At most this many memories.")] = 10,
        kinds: RecordKinds = [],  # noqa: B006 - never changed
        conversation: Annotated[
            str | list[str] | None, Field(description="Only of this conversation, or of these.")
        ] = None,
        author: Annotated[str | list[str] | None, Field(description="Only records of this agent, or of these.")] = None,
        labels: Annotated[list[str], Field(description="Only with all of these labels, such as tag=x.")] = [],  # noqa: B006 - never changed
        any_labels: Annotated[list[str], Field(description="Only with one of these labels.")] = [],  # noqa: B006 - never changed
        exclude: Annotated[list[str], Field(description="Only without these labels.")] = [],  # noqa: B006 - never changed
        where: Annotated[
            dict[str, Any], Field(description='Fields of the record: {"status": "open", "price": {"gte": 10}}.')
        ] = {},  # noqa: B006 - never changed
        since: Annotated[str | None, Field(description="Only what happened at or after this time, ISO 8601.")] = None,
        until: Annotated[str | None, Field(description="Only what happened at or before this time.")] = None,
        min_relevance: Annotated[
            float | None, Field(ge=0, le=1, description="Only hits of this relevance; 0 returns the best in any case.")
        ] = None,
        budget: TokenBudget = 2_000,
        deadline: Annotated[
            float | None, Field(gt=0, le=60, description="Seconds after which words alone find the memories.")
        ] = None,
    ) -> RecallResponse:
        """Use this before you answer from memory, guess, or ask the user something they may have said already, and
        whenever the user says "as before", "again" or "you know". Searches by words and by meaning in everything that
        was remembered, said or done. The block holds the texts, fenced; `history` gives a record in full."""
        from lukasa.recall.recall import build_prompt_block

        result = self._stores.current().recall(
            query,
            k,
            kinds=kinds,
            conversation=conversation,
            author=author,
            labels=labels,
            any_labels=any_labels,
            exclude=exclude,
            where=where,
            since=_parse_time(since),
            until=_parse_time(until),
            min_relevance=min_relevance,
            deadline=deadline,
        )
        block = build_prompt_block(result, budget)
        hits = [
            HitSummary(
                id=clean_name(hit.record.id),
                kind=hit.record.kind,
                scope=clean_name(hit.record.scope),
                author=clean_name(hit.record.author) or None,
                at=to_iso(hit.record.moment),
                score=round(hit.score, 4),
                relevance=round(hit.relevance, 3),
                why=hit.why,
                version=hit.record.version,
                superseded_by=None if hit.superseded_by is None else clean_name(hit.superseded_by.id),
                supersedes=[clean_name(earlier.id) for earlier in hit.supersedes] or None,
                contradicts=None if hit.contradicts is None else clean_name(hit.contradicts.id),
                orders=hit.orders or None,
            )
            for hit in result.hits
        ]
        found = "Nothing relevant was found." if result.nothing_relevant else "Nothing was found."
        text = block.text or ("Nothing fits into the budget." if hits else found)
        left_out = [clean_name(entry.record.id) for entry in result.left_out] or None
        names: dict[str, Any] = {"embedder": result.embedder or None, "note": result.note or None}
        return RecallResponse(block=text, tokens=block.tokens, hits=hits, left_out=left_out, **names)

    def forget(self, id: MemoryId) -> RecordResponse:
        """Use this when a memory is wrong or the user asks you to forget it. It disappears from every recall; its history
        stays, so the owner of the store can bring it back. To correct a memory, use `remember` with `replaces`."""
        return RecordResponse.from_write(self._stores.current().vault.delete(id, source="chat"))

    def history(
        self,
        id: RecordId,
        kind: Annotated[str | None, Field(description="Its kind, if several kinds have this id.")] = None,
        scope: Annotated[str | None, Field(description="Its scope, if several scopes have it.")] = None,
        budget: TokenBudget = 4_000,
    ) -> HistoryResponse:
        """Use this to read one record in full, and to see what it said before, when it changed and who changed it."""
        versions = _find_versions(self._stores.current(), id, kind, scope)
        if isinstance(versions, Refused):
            return HistoryResponse.from_outcome(versions)
        newest, imports = versions[-1], self._stores.current().journal.find_imports(versions)
        block = _fence_records([record for record in versions[::-1][:_MAX_VERSIONS] if not record.deleted], budget)
        return HistoryResponse(
            id=newest.id,
            kind=newest.kind,
            scope=newest.scope,
            deleted=newest.deleted or None,
            block=block.text,
            tokens=block.tokens,
            versions=[VersionSummary.from_record(record, imports.get(record.digest)) for record in versions],
        )

    def context_append(
        self,
        conversation_id: ConversationId,
        content: Annotated[str, Field(min_length=1, description="What was said, word for word.")],
        role: Annotated[Literal["user", "assistant", "system", "tool"], Field(description="Who said it.")] = "user",
        speaker: Annotated[str, Field(max_length=200, description="The speaker's name, if there are several.")] = "",
        key: IdempotencyKey = None,
    ) -> RecordResponse:
        """Use this to save a conversation word for word, turn by turn, so that nothing is lost when your context is
        compacted. Facts that a turn states are saved with it."""
        context = self._stores.current().context
        return RecordResponse.from_write(context.append(conversation_id, role, content, speaker=speaker, key=key))

    def context_assemble(
        self,
        conversation_id: ConversationId,
        query: Annotated[str | None, Field(description="What older turns should answer.")] = None,
        budget: TokenBudget = 4_000,
        include: Annotated[list[MemorySource] | None, Field(description="Other memories to add.")] = None,
    ) -> MemoryBlockResponse:
        """Use this to continue a conversation, after compaction or in a new run: its summary, its facts, older turns
        that answer the question, and the newest turns, within a budget of tokens."""
        context = self._stores.current().context
        if not context.load(conversation_id).origin.state_version:
            missing = Refused("not_found", f"There is no conversation {conversation_id[:80]!r}.")
            return MemoryBlockResponse.from_outcome(missing)
        prompt = context.assemble(conversation_id, budget, query=query, include=include or ())
        text, tokens = fence_conversation(prompt, conversation_id, budget)
        left_out = [clean_name(key.id) for key in (*prompt.expired, *prompt.orders)] or None
        return MemoryBlockResponse(block=text, tokens=tokens, left_out=left_out)

    def before_task(
        self,
        task: Annotated[str, Field(min_length=1, description="What is to be done, in a sentence.")],
        budget: TokenBudget = 1_500,
        include: Annotated[list[MemorySource] | None, Field(description="Other memories to add.")] = None,
    ) -> MemoryBlockResponse:
        """Use this at the start of every task, before the first step: what worked in similar tasks, what to avoid, and
        which skills apply."""
        briefing = self._stores.current().before_task(task, budget=budget, include=include or ())
        block = briefing.block(budget, full=True)
        text = block.text or "Nothing is known about such a task yet."
        left_out = [clean_name(entry.record.id) for entry in briefing.left_out] or None
        return MemoryBlockResponse(block=text, tokens=block.tokens, left_out=left_out)

    def record_episode(
        self,
        goal: Annotated[str, Field(min_length=1, description="What was to be done.")],
        outcome: Annotated[Literal["success", "failure", "partial", "abandoned"], Field(description="How it ended.")],
        steps: Annotated[list[str], Field(max_length=500, description="What was done, step by step.")] = [],  # noqa: B006
        errors: Annotated[
            list[dict[str, str]],
            Field(max_length=100, description="What went wrong: objects with type, message and resolution."),
        ] = [],  # noqa: B006
        artifacts: Artifacts = [],  # noqa: B006
        duration_seconds: Annotated[float, Field(ge=0)] = 0,
        task_id: Annotated[str, Field(max_length=200)] = "",
        git_commit: Annotated[str, Field(max_length=200)] = "",
        key: IdempotencyKey = None,
    ) -> RecordResponse:
        """Use this when a task is finished, failed or given up: the goal, the steps, the errors and how they were
        resolved. Episodes become the patterns and warnings that `before_task` gives."""
        memory = self._stores.current()
        recorded = memory.episodes.record(
            goal,
            outcome=outcome,
            action_log=[{"action": step} for step in steps],
            errors=errors,
            artifacts=artifacts,
            duration_seconds=duration_seconds,
            task_id=task_id,
            git_commit=git_commit,
            scope=_choose_scope(memory),
            key=key,
        )
        if isinstance(recorded, Accepted):
            self._upkeep.note_episode(memory)
        return RecordResponse.from_write(recorded)

    def checkpoint(
        self,
        session: SessionId,
        state: Annotated[
            dict[str, Any] | None,
            Field(description="The state to save, as any JSON object; without it, the newest one is loaded."),
        ] = None,
    ) -> CheckpointResponse:
        """Use this to save where a long run stands, so that a crash or a new session can go on from there, and to load it
        again. Saving makes the next checkpoint; earlier ones are kept."""
        sessions = self._stores.current().sessions
        if state is not None:
            outcome = sessions.save_checkpoint(state, session)
            if not isinstance(outcome, Accepted):
                return CheckpointResponse.from_outcome(outcome)
            return CheckpointResponse(session=session, number=sessions.checkpoints(session)[0].number)
        saved = sessions.state(session)
        if saved is None:
            return CheckpointResponse.from_outcome(Refused("not_found", f"There is no session {session[:80]!r}."))
        return CheckpointResponse(session=session, number=saved["metadata"].get("checkpoint_number"), state=saved)

    def handoff(
        self,
        action: Annotated[
            Literal["send", "inbox", "accept", "complete"],
            Field(description="send work to an agent, look at your inbox, accept a handoff, or say that it is done."),
        ],
        to: Annotated[str | None, Field(max_length=200, description="send: the agent that continues the work.")] = None,
        what_was_done: Annotated[str | None, Field(description="send: what the next agent must know.")] = None,
        known_issues: Annotated[list[str], Field(max_length=100)] = [],  # noqa: B006
        needs_testing: Annotated[list[str], Field(max_length=100)] = [],  # noqa: B006
        artifacts: Artifacts = [],  # noqa: B006
        git_state: Annotated[str, Field(max_length=2_000)] = "",
        id: Annotated[str | None, Field(max_length=200, description="accept, complete: the handoff.")] = None,
        result: Annotated[str, Field(description="complete: the result of the work.")] = "",
        budget: TokenBudget = 2_000,
    ) -> HandoffResponse:
        """Use this to pass unfinished work to another agent, and at the start of a session to see what was passed to you.
        A handoff stays in the inbox until it is completed; only one agent can accept it."""
        handoffs = self._stores.current().handoffs
        if action == "inbox":
            waiting = handoffs.inbox()
            block = _fence_records([each.record for each in waiting], budget)
            summaries = [
                {
                    "id": each.id,
                    "from": clean_name(each.from_agent),
                    "status": each.status,
                    "at": to_iso(each.timestamp),
                }
                for each in waiting
            ]
            return HandoffResponse(block=block.text or "The inbox is empty.", tokens=block.tokens, handoffs=summaries)
        if action == "send":
            if not to or not what_was_done:
                raise InvalidInput("To send a handoff, give `to` and `what_was_done`.")
            outcome = handoffs.create(
                to,
                what_was_done,
                artifacts=artifacts,
                git_state=git_state,
                needs_testing=needs_testing,
                known_issues=known_issues,
                scope=self._stores.current().journal.reach.project or SHARED,
            )
        elif not id:
            raise InvalidInput(f"To {action} a handoff, give its `id`.", hint="`inbox` lists them.")
        else:
            outcome = handoffs.accept(id) if action == "accept" else handoffs.complete(id, result)
        if not isinstance(outcome, Accepted):
            return HandoffResponse.from_outcome(outcome)
        record = outcome.records[0]
        return HandoffResponse(id=record.id, status=record.body.get("status", "unread"))

    def trust(self, agent: AgentName = None) -> TrustResponse:
        """Use this to see how far an agent is trusted before you build on its records, or how far you are."""
        memory = self._stores.current()
        name = agent or memory.journal.author
        if not name:
            raise InvalidInput("Whose trust? Name the agent.")
        return TrustResponse.from_score(memory.trust.score(name))

    def snapshot(self, budget: TokenBudget = 1_000) -> BlockResponse:
        """Use this at the start of a session: notes, canon and current registers, which apply to every task."""
        block = self._stores.current().vault.build_snapshot_block(budget=budget)
        return BlockResponse(block=block.text or "Nothing has been remembered yet.", tokens=block.tokens)


def _choose_scope(memory: Memory, *, private: bool = False) -> str:
    """Return the scope that a tool writes to."""
    scope = choose_write_scope(memory.journal, private=private)
    if scope is None:
        reason = "This caller has no private scope." if private else "The scope to write to is ambiguous."
        raise InvalidInput(reason, hint="Ask the operator of the server to name an agent (--agent).")
    return scope


def _find_versions(memory: Memory, id: str, kind: str | None, scope: str | None) -> Sequence[Record] | Refused:
    """Return all versions of the record with an id."""
    journal = memory.journal
    places = {(row.scope, row.kind) for row in journal.tally() if row.scope != SYSTEM}
    keys = [Key(*place, id) for place in sorted(places) if scope in (None, place[0]) and kind in (None, place[1])]
    found = [versions for key in keys if (versions := journal.history(key))]
    if not found:
        return Refused("not_found", f"There is no record {id!r:.80}.")
    if len(found) > 1:
        several = ", ".join(f"{versions[0].kind} in {versions[0].scope}" for versions in found[:5])
        raise InvalidInput(f"Several records have this id: {several}.", hint="Choose one with `kind` and `scope`.")
    return found[0]


def _fence_records(records: Sequence[Record], budget: int) -> PromptBlock:
    """Return a fenced block with the text and the body of records."""
    items = [
        PromptItem(
            "\n".join(
                part for part in (record.text, encode(dict(record.body)).decode() if record.body else "") if part
            ),
            f"{record.key} version {record.version}",
            record.author,
            to_iso(record.recorded_at)[:16],
        )
        for record in records
    ]
    return build_fenced_block(items, budget=budget, counter=open_token_counter())


def fence_conversation(prompt: Any, session: str, budget: int) -> tuple[str, int]:
    """Return an assembled conversation as fenced text, and its tokens.

    The summary is fenced already. The newest turns are fenced here, because a client does not pass them on as messages.
    """
    counter, messages, parts = open_token_counter(), list(prompt.messages), []
    summary = messages[0]["content"] if messages else ""
    if summary.startswith("<lukasa ") and prompt.text.startswith(summary):
        parts.append(messages.pop(0)["content"])
    turns = [
        PromptItem(message["content"], f"{message['role']} in {session}", message.get("name", ""))
        for message in messages
    ]
    spent = counter("\n".join(parts))
    while turns:
        block = build_fenced_block(turns, budget=budget - spent, counter=counter)
        if len(turns) == 1 or (block.told == len(turns) and not block.cut):
            parts += [block.text] if block.text else []
            break
        turns = turns[1:]  # the newest turns matter most
    text = "\n".join(parts)
    return text, counter(text)


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)
