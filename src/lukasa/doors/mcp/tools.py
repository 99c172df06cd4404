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
from lukasa.doors.mcp import answers
from lukasa.doors.mcp.answers import Block, History, Hit, Inbox, Kept, Recalled, Standing, State, Version, kept, name
from lukasa.errors import InvalidInput
from lukasa.memory import Memory
from lukasa.outcome import Accepted, Refused
from lukasa.prompt import Told, fence, open_counter
from lukasa.record import Key, Record
from lukasa.scope import SHARED, SYSTEM

Of = Callable[[Context[Any, Any]], Memory]
Id = Annotated[str, Field(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(ge=100, le=50_000, description="At most so many tokens.")]
Session = Annotated[str, Field(min_length=1, max_length=200, description="The id of the conversation or run.")]

LOOKS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
SETS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
TAKES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

_OLDEST_VERSIONS = 20


class Tools:
    """The tools over one store. Public methods are the tools; ``ANNOTATED`` says what each does to it."""

    ANNOTATED: dict[str, tuple[str, ToolAnnotations]] = {  # noqa: RUF012 - read only
        "remember": ("Remember a fact", SETS),
        "recall": ("Recall memories", LOOKS),
        "forget": ("Forget a memory", TAKES),
        "history": ("Read a record and its history", LOOKS),
        "context_append": ("Add a turn to a conversation", ADDS),
        "context_assemble": ("Assemble a conversation for a prompt", LOOKS),
        "before_task": ("Prepare for a task", LOOKS),
        "record_episode": ("Record how a task went", ADDS),
        "checkpoint": ("Save or load the state of a run", SETS),
        "handoff": ("Hand work over", ADDS),
        "trust": ("Show how far an agent is trusted", LOOKS),
        "snapshot": ("Read what is always true here", LOOKS),
    }

    def __init__(self, of: Of) -> None:
        self._of = of

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
    ) -> Kept:
        """Use this when you learn something that will still matter next week: a decision, a preference of the user, a
        convention of the project, a fact about the system. Not for progress, status or logs, which are refused. It is
        kept unless it is noise, holds a secret, or says what is known already; the answer then says why."""
        vault, scope = (memory := self._of(ctx)).vault, _home(memory, private=private)
        if replaces is not None:
            return kept(vault.update(replaces, text, category=category, tags=tags or None, source="chat"))
        if topic is not None:
            return kept(vault.update_by_topic(topic, scope, text, category, tags=tags, source="chat"))
        return kept(vault.add_memory(text, scope, category, tags=tags, source="chat"))

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
        budget: Tokens = 2_000,
    ) -> Recalled:
        """Use this before you answer from memory, guess, or ask the user something they may have told already, and
        whenever the user says "as before", "again" or "you know". Finds by words and by meaning, over everything that
        was remembered, said or done. The block holds the texts, fenced; `history` gives a record in full."""
        from lukasa.recall.room import block

        found = self._of(ctx).recall(
            query, k, kinds=kinds, session=session, author=author, since=_time(since), until=_time(until)
        )
        made = block(found, budget)
        hits = [
            Hit(
                id=name(hit.record.id),
                kind=hit.record.kind,
                scope=name(hit.record.scope),
                author=name(hit.record.author) or None,
                at=to_iso(hit.record.moment),
                score=round(hit.score, 4),
                why=hit.why,
                version=hit.record.version,
            )
            for hit in found.hits
        ]
        text = made.text or ("Nothing was found." if not hits else "Nothing fits into the budget.")
        return Recalled(block=text, tokens=made.tokens, hits=hits, note=found.note or None)

    def forget(
        self,
        ctx: Context[Any, Any],
        id: Annotated[Id, Field(description="The id of a memory, note or directive, as `recall` gave it.")],
    ) -> Kept:
        """Use this when a memory is wrong or the user asks you to forget it. It disappears from every recall; its history
        stays, so the owner of the store can bring it back. To correct a memory, use `remember` with `replaces`."""
        return kept(self._of(ctx).vault.delete(id, source="chat"))

    def history(
        self,
        ctx: Context[Any, Any],
        id: Annotated[Id, Field(description="The id of a record, as another tool gave it.")],
        kind: Annotated[str | None, Field(description="Its kind, if several kinds have this id.")] = None,
        scope: Annotated[str | None, Field(description="Its scope, if several scopes have it.")] = None,
        budget: Tokens = 4_000,
    ) -> History:
        """Use this to read one record in full, and to see what it said before, when it changed and who changed it."""
        memory = self._of(ctx)
        found = _versions(memory, id, kind, scope)
        if isinstance(found, Refused):
            return answers.refusal(found, History)
        told = [_told(record) for record in found[::-1][:_OLDEST_VERSIONS] if not record.deleted]
        made = fence(told, budget=budget, counter=open_counter())
        newest = found[-1]
        return History(
            id=newest.id, kind=newest.kind, scope=newest.scope, deleted=newest.deleted or None, block=made.text,
            tokens=made.tokens, versions=[_version(record) for record in found],
        )  # fmt: skip

    def context_append(
        self,
        ctx: Context[Any, Any],
        session: Session,
        content: Annotated[str, Field(min_length=1, description="What was said, word for word.")],
        role: Annotated[Literal["user", "assistant", "system", "tool"], Field(description="Who said it.")] = "user",
        speaker: Annotated[
            str, Field(max_length=200, description="The speaker's own name, if there are several.")
        ] = "",
        key: Annotated[
            str | None, Field(max_length=200, description="Repeated with the same key it is added once.")
        ] = None,
    ) -> Kept:
        """Use this to keep a conversation word for word, turn by turn, so that nothing is lost when your context is
        compacted. Facts that a turn states are kept with it."""
        return kept(self._of(ctx).context.append(session, role, content, speaker=speaker, key=key))

    def context_assemble(
        self,
        ctx: Context[Any, Any],
        session: Session,
        question: Annotated[str | None, Field(description="What older turns should answer.")] = None,
        budget: Tokens = 4_000,
    ) -> Block:
        """Use this to pick up a conversation again, after compaction or in a new run: its summary, its facts, older turns
        that answer the question, and the newest turns, within a budget of tokens."""
        context = self._of(ctx).context
        if not (found := context.load(session)).origin.head:
            return answers.refusal(_no_session(found.session_id), Block)
        text, tokens = assembled(context.assemble(session, budget, question=question), session, budget)
        return Block(block=text, tokens=tokens)

    def before_task(
        self,
        ctx: Context[Any, Any],
        task: Annotated[str, Field(min_length=1, description="What is to be done, in a sentence.")],
        budget: Tokens = 1_500,
    ) -> Block:
        """Use this at the start of every task, before the first step: what worked in similar tasks, what to avoid, and
        which skills apply."""
        made = self._of(ctx).before_task(task).block(budget, full=True)
        return Block(block=made.text or "Nothing is known about such a task yet.", tokens=made.tokens)

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
    ) -> Kept:
        """Use this when a task is finished, failed or given up: what was wanted, what was done, what went wrong and how it
        was resolved. Episodes become the patterns and warnings that `before_task` gives."""
        memory = self._of(ctx)
        written = memory.episodes.record(
            goal,
            outcome=outcome,
            action_log=[{"action": step} for step in steps],
            errors=errors,
            artifacts=artifacts,
            duration_seconds=duration_seconds,
            task_id=task_id,
            git_commit=git_commit,
            scope=_home(memory),
            key=key,
        )
        return kept(written)

    def checkpoint(
        self,
        ctx: Context[Any, Any],
        session: Session,
        state: Annotated[
            dict[str, Any] | None,
            Field(description="The state to save, as a JSON object of your own; without it, the newest one is loaded."),
        ] = None,
    ) -> State:
        """Use this to save where a long run stands, so that a crash or a new session can go on from there, and to load it
        again. Saving makes the next checkpoint; earlier ones are kept."""
        sessions = self._of(ctx).sessions
        if state is not None:
            outcome = sessions.save_checkpoint(state, session)
            if not isinstance(outcome, Accepted):
                return answers.refusal(outcome, State)
            return State(session=session, number=sessions.checkpoints(session)[0].number)
        saved = sessions.state(session)
        if saved is None:
            return answers.refusal(_no_session(session), State)
        return State(session=session, number=saved["metadata"].get("checkpoint_number"), state=saved)

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
        budget: Tokens = 2_000,
    ) -> Inbox:
        """Use this to pass unfinished work to another agent, and at the start of a session to see what was passed to you.
        A handoff stays in the inbox until it is completed; only one agent can accept it."""
        handoffs = self._of(ctx).handoffs
        if action == "inbox":
            return _inbox(handoffs.inbox(), budget)
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
            return answers.refusal(written, Inbox)
        record = written.records[0]
        return Inbox(id=record.id, status=record.body.get("status", "unread"))

    def trust(
        self,
        ctx: Context[Any, Any],
        agent: Annotated[str | None, Field(max_length=200, description="Whose; without it, your own.")] = None,
    ) -> Standing:
        """Use this to see how far an agent is trusted before you build on what it wrote, or how far you are."""
        memory = self._of(ctx)
        who = agent or memory.journal.author
        if not who:
            raise InvalidInput("Whose trust? Name the agent.")
        score = memory.trust.score(who)
        return Standing(
            agent=name(who),
            trust=round(score.trust, 4),
            low=round(score.low, 4),
            high=round(score.high, 4),
            events=score.events,
        )

    def snapshot(self, ctx: Context[Any, Any], budget: Tokens = 1_000) -> Block:
        """Use this at the start of a session: notes, canon and current registers, which hold whatever the task."""
        made = self._of(ctx).vault.build_snapshot_block(budget=budget)
        return Block(block=made.text or "Nothing has been remembered yet.", tokens=made.tokens)


def _home(memory: Memory, *, private: bool = False) -> str:
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


def _versions(memory: Memory, id: str, kind: str | None, scope: str | None) -> Sequence[Record] | Refused:
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


def _version(record: Record) -> Version:
    return Version(
        version=record.version,
        at=to_iso(record.recorded_at),
        author=name(record.author) or None,
        origin=record.origin,
        deleted=record.deleted or None,
    )


def _told(record: Record) -> Told:
    """One version with everything that is in it."""
    from lukasa.canonical import encode

    body = encode(dict(record.body)).decode() if record.body else ""
    text = "\n".join(part for part in (record.text, body) if part)
    return Told(text, f"{record.key} version {record.version}", record.author, to_iso(record.recorded_at)[:16])


def assembled(made: Any, session: str, budget: int) -> tuple[str, int]:
    """A session with its newest turns behind a fence too: to whoever reads this, they are recalled text as well."""
    counter, messages = open_counter(), list(made.messages)
    parts = []
    if messages and made.text.startswith(f"{messages[0]['content']}") and messages[0]["content"].startswith("<lukasa "):
        parts.append(messages.pop(0)["content"])
    told = [
        Told(message["content"], f"{message['role']} in {session}", message.get("name", "")) for message in messages
    ]
    spent = counter("\n".join(parts))
    while told:
        block = fence(told, budget=budget - spent, counter=counter)
        if block.told == len(told) and not block.cut:
            parts.append(block.text)
            break
        if len(told) == 1:
            parts += [block.text] if block.text else []
            break
        told = told[1:]  # the newest matter most
    text = "\n".join(parts)
    return text, counter(text)


def _inbox(found: Sequence[Any], budget: int) -> Inbox:
    told = [_told(handoff.record) for handoff in found]
    made = fence(told, budget=budget, counter=open_counter())
    listed = [
        {"id": handoff.id, "from": name(handoff.from_agent), "status": handoff.status, "at": to_iso(handoff.timestamp)}
        for handoff in found
    ]
    return Inbox(block=made.text or "The inbox is empty.", tokens=made.tokens, handoffs=listed)


def _no_session(session: str) -> Refused:
    return Refused("not_found", f"Nothing is known of the session {session[:80]!r}.")


def _time(text: str | None) -> Any:
    return None if text is None else from_iso(text)
