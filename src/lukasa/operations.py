"""Every operation of the library by its method, with its name at each interface: the source of HTTP, shell, client and MCP.

A row is one operation. Parameters, defaults, help texts and the type of the answer come from the method itself, so a new
operation is its method and one row. A parameter has the name of the method's parameter at every interface; the shell writes
it with dashes, and an option that is repeated in the singular.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Effect = Literal["reads", "writes", "deletes", "erases"]
"""What an operation does to the store. What is deleted keeps its history; what is erased leaves no trace."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: ``method`` names a method of ``Memory``, or a service and its method, such as ``vault.list``."""

    method: str
    effect: Effect
    http: str = ""
    """Verb and path; the path names parameters in braces. Empty: not offered over HTTP, so not by ``lukasa.connect``."""
    shell: str = ""
    """The command with its group; empty: no command of its own."""
    tool: str = ""
    """The MCP tool; empty: none."""
    answer: str = ""
    """The field of the JSON answer that holds a list or a number."""
    columns: str = ""
    """The columns of the table in the shell, as ``render.show`` takes them."""
    sentence: str = ""
    """What the shell prints: after a write or for a report, with fields of it in braces, or instead of a table without rows."""
    help: str = ""
    """What the shell says about the command, where the docstring speaks of Python."""
    example: str = ""
    """An example of the command, without the program's name."""
    arguments: str = ""
    """The arguments of the command in their order, if they are not the parameters without a default."""
    offers: str = ""
    """Parameters about the caller's identity that the command takes all the same."""
    omit: str = ""
    """Parameters that the command does not take."""
    short: str = ""
    """A parameter that the shell calls by a shorter name: ``agent_state=state``."""
    progress: str = ""
    """The title of the progress bar, for a method that reports its progress."""

    @property
    def verb(self) -> str:
        """Return the HTTP verb."""
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        """Return the HTTP path."""
        return self.http.partition(" ")[2]

    @property
    def name(self) -> str:
        """Return the id of the operation in OpenAPI: ``vault_list``."""
        return self.method.replace(".", "_")


_IDENTITY = frozenset({"author", "origin", "from_agent", "key", "progress", "network", "propose"})
"""Parameters that say who the caller is, and those that only a call within the process can have."""
_SUBJECTS: Mapping[str, str] = {
    "recall": "author",
    "journal.undo": "author",
    "journal.quarantine": "author",
    "journal.release": "author",
    "jobs.defer": "key",
}
"""Operations whose author is not the caller but whom the operation is about."""
_NOT_TAKEN: Mapping[str, str] = {
    "episodes.record": "agent",
    "episodes.start": "agent",
    "handoffs.accept": "agent",
    "journal.history": "hidden",
    "ledgers.checkpoint": "agent",
    "sessions.save_checkpoint": "checkpoint_number retention last_updated",
    "skills.add": "links labels",
    "vault.add_memory": "source",
    "vault.bulk_delete": "source",
    "vault.corroborate": "source",
    "vault.delete": "source",
    "vault.update": "source",
    "vault.update_by_topic": "source",
}
"""Parameters that say who the caller is or where a record comes from, or that only the library itself sets."""

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    # What every caller uses
    Operation("remember", "writes", "POST /v1/memories", "remember", "remember",
              help="Remember a fact. Noise, secrets, personal data and duplicates are refused.\n\nThe memory is stored in the vault, the curated part of the store. A refusal says why; nothing is written then.",
              example='remember "The staging database is called heron" --category infrastructure'),
    Operation("recall", "reads", "POST /v1/recall", "recall", "recall", example='recall "when do we deploy?" -k 5'),
    Operation("forget", "deletes", "DELETE /v1/memories/{id}", "forget", "forget", example="forget 4f9a2c1b77d0"),
    Operation("confirm", "writes", "POST /v1/memories/{id}/confirmations", "confirm", sentence="Confirmed (version {version}): {id} in {scope}.",
              help="Confirm that a memory still holds. Blocks for prompts then say when it was last confirmed.\n\nThe confirmation is a new version; `lukasa history` shows it. Reading a memory never confirms it.",
              example="confirm 4f9a2c1b77d0"),
    Operation("before_task", "reads", "POST /v1/before-task", "before-task", "before_task", help="List what is known for a task: patterns that worked, what to avoid, and skills.",
              example='before-task "Implement POST /api/todos endpoint"'),
    Operation("retrieve_relevant_memory", "reads", "GET /v1/relevant-memories"),
    Operation("describe", "reads", "", "stats", help="Count records and versions by scope and kind, and describe the store.", example="stats --json"),
    # The vault
    Operation("vault.list", "reads", "GET /v1/memories", "vault list", answer="memories", columns="id, scope, tier, category, topic=topic_id, text", sentence="The vault holds no such memory.",
              example="vault list --tier canon"),
    Operation("vault.get", "reads", "GET /v1/memories/{id}"),
    Operation("vault.history", "reads", "GET /v1/memories/{id}/history", answer="versions"),
    Operation("vault.update", "writes", "PATCH /v1/memories/{id}", "update", arguments="id text", help="Change the text of a memory whose fact has changed. Its history stays.",
              example='update 4f9a2c1b77d0 "Deploys run on Thursday."'),
    Operation("vault.promote_to_canon", "writes", "POST /v1/memories/{id}/promotion", "vault promote-to-canon",
              help="Turn a register (a fact that changes) into canon (a lasting fact).\n\nA person decides it, or independent authors say the same.", example="vault promote-to-canon 4f9a2c1b77d0 --by Ada"),
    Operation("vault.corroborate", "writes", "POST /v1/memories/{id}/corroborations", "vault corroborate", offers="author", sentence="{record.author} corroborates {given[id]}.",
              example="--agent elysia vault corroborate 4f9a2c1b77d0"),
    Operation("vault.add_memory", "writes", "POST /v1/vault/memories", "vault add-memory", arguments="text", offers="author",
              help="Store a memory with its tier and source, which `lukasa remember` chooses by itself.", example='vault add-memory "Deploys run on Tuesday." --tier register --topic-id deploy-day'),
    Operation("vault.delete", "deletes", "DELETE /v1/vault/memories/{id}"),
    Operation("vault.bulk_add", "writes", "POST /v1/memories/bulk", answer="outcomes"),
    Operation("vault.bulk_delete", "deletes", "POST /v1/memories/deletions", answer="outcomes"),
    Operation("vault.update_by_topic", "writes", "PUT /v1/vault/topics/{topic_id}"),
    Operation("vault.judge", "reads", "POST /v1/vault/verdicts", "vault judge", answer="refused", help="Check whether the gate would accept a memory. Writes nothing.",
              example='vault judge "The office cat must never be fed chocolate."'),
    Operation("vault.search", "reads", "GET /v1/vault/search", "vault search", answer="hits", omit="filters", columns="score:.2f, id=memory.id, scope=memory.scope, tier=memory.tier, text=memory.text", sentence="Nothing was found.",
              help="Search the vault, best match first. `lukasa recall` searches all records.", example='vault search "staging database" --profile lexical'),
    Operation("vault.build_snapshot", "reads", "GET /v1/vault/snapshot", "vault snapshot", "snapshot", answer="text", help="Print the memories as compact Markdown, to be put into a prompt.",
              example="vault snapshot --budget 500"),
    Operation("vault.build_snapshot_block", "reads", "GET /v1/vault/snapshot-block", "vault snapshot-block", help="Print the fenced block for every prompt: notes, canon and registers.",
              example="vault snapshot-block --budget 500"),
    Operation("vault.build_memory_block", "reads", "GET /v1/vault/memory-block", "vault memory-block", arguments="query",
              help="Print the fenced prompt block that answers a question: relevant directives and memories, canon first.", example='vault memory-block "Which staging database?"'),
    Operation("vault.vault_stats", "reads", "GET /v1/vault/stats", "vault stats", help="Show how full the vault is, which memories it holds, and why others were refused.", example="vault stats"),
    Operation("vault.refusals", "reads", "GET /v1/vault/refusals"),
    Operation("vault.propose_deletions", "reads", "GET /v1/vault/deletion-proposals", "vault propose-deletions", answer="proposals", columns="id=memory.id, why=reason, text=memory.text", sentence="No memory looks superfluous.",
              help="List memories that might be deleted, with the reason. Deletes nothing.", example="vault propose-deletions"),
    Operation("vault.find_consolidation_candidates", "reads", "GET /v1/vault/candidates", "vault find-consolidation-candidates", answer="pairs", sentence="No two memories are that similar.",
              help="List pairs of similar memories that might be merged. Changes nothing.", example="vault find-consolidation-candidates --floor 0.6"),
    Operation("vault.add_tick", "writes", "POST /v1/vault/ticks", "vault add-tick", sentence="Added to the burst journal of {scope}.",
              help="Add an entry to the burst journal, which keeps entries for a day.\n\nUse it for progress marks, runtime snapshots and check-ins. The number of entries is limited.",
              example='vault add-tick "tick marker for burst 5"'),
    Operation("vault.ticks", "reads", "GET /v1/vault/ticks", "vault ticks", answer="ticks", columns="at, scope, author, text", sentence="The burst journal is empty.", example="vault ticks --limit 5"),
    Operation("vault.note", "writes", "POST /v1/vault/notes", "vault note", sentence="Noted: {id} in {scope}.", help="Store a short note that is part of every snapshot block.",
              example='vault note "Call me Ada."'),
    Operation("vault.notes", "reads", "GET /v1/vault/notes", "vault notes", answer="notes", columns="id, scope, text", sentence="There are no notes.", example="vault notes"),
    Operation("vault.directive", "writes", "POST /v1/vault/directives", "vault directive", sentence="Set: {id} in {scope}.",
              help="Store a rule of behaviour. Relevant rules are part of memory blocks.\n\nOnly the owner of the store may set a rule for all agents.", example='vault directive "Answer in British spelling."'),
    Operation("vault.directives", "reads", "GET /v1/vault/directives", "vault directives", answer="directives", columns="id, scope, text", sentence="There are no directives.", example="vault directives"),
    # Conversations
    Operation("context.list", "reads", "GET /v1/conversations", "context list", answer="conversations", columns="conversation=id, scope, created=created_at", sentence="There are no conversations.",
              help="List the conversations that you may read.", example="context list"),
    Operation("context.list_sessions", "reads", "GET /v1/conversation-ids", answer="ids"),
    Operation("context.load", "reads", "GET /v1/conversations/{conversation_id}", "context show", help="Show a conversation: its summary, facts, tasks and newest turns.", example="context show s1"),
    Operation("context.delete", "deletes", "DELETE /v1/conversations/{conversation_id}", "context delete",
              help="Delete a conversation with its turns, facts and summary.\n\n`lukasa undo` brings it back; `lukasa erase` removes it for good.", example="context delete s1"),
    Operation("context.append", "writes", "POST /v1/conversations/{conversation_id}/turns", "context append", "context_append", offers="key", sentence="Stored turn {id} ({tokens:count token}).",
              help="Add a turn to a conversation. A new id starts a new conversation.", example='context append s1 user "We decided to use PostgreSQL."'),
    Operation("context.extend", "writes", "POST /v1/conversations/{conversation_id}/turns/bulk"),
    Operation("context.transcript", "reads", "GET /v1/conversations/{conversation_id}/turns", "context transcript", answer="turns", columns="turn=id, time=timestamp, who=name, tokens, content", sentence="There are no turns.",
              help="List all turns of a conversation, also those already summarised.", example="context transcript s1"),
    Operation("context.assemble", "reads", "GET /v1/conversations/{conversation_id}/prompt", "context assemble", "context_assemble",
              help="Print a conversation for a prompt: summary, facts, relevant older turns and newest turns.", example="context assemble s1 --budget 2000 --include vault"),
    Operation("context.compact", "writes", "POST /v1/conversations/{conversation_id}/compaction", "context compact", help="Summarise the older turns of a conversation now. The turns stay in the transcript.",
              example="context compact s1 --keep 10"),
    Operation("context.configure", "writes", "PATCH /v1/conversations/{conversation_id}/settings", "context configure", help="Change the settings of a conversation; `lukasa context show --json` has all of them.",
              example="context configure s1 --change tokens=50000"),
    Operation("context.facts", "reads", "GET /v1/conversations/{conversation_id}/facts", answer="facts"),
    Operation("context.add_fact", "writes", "POST /v1/conversations/{conversation_id}/facts"),
    Operation("context.find_facts", "reads", "GET /v1/conversations/{conversation_id}/facts/search", answer="facts"),
    Operation("context.fork", "writes", "POST /v1/conversations/{conversation_id}/forks", "context fork", help="Copy a conversation, as it is or was, to a new one.", example="context fork s1 s1-again"),
    Operation("context.versions", "reads", "GET /v1/conversations/{conversation_id}/versions", answer="versions"),
    Operation("context.environment", "writes", "PUT /v1/conversations/{conversation_id}/environment"),
    Operation("context.task", "writes", "PUT /v1/conversations/{conversation_id}/tasks/{id}"),
    Operation("context.tool_call", "writes", "POST /v1/conversations/{conversation_id}/tool-calls"),
    Operation("context.usage", "writes", "POST /v1/conversations/{conversation_id}/usage"),
    # Episodes
    Operation("episodes.list", "reads", "GET /v1/episodes", "episode list", answer="episodes", columns="id, began=timestamp, agent, outcome, detail, goal", sentence="No episodes.",
              help="List episodes, the newest last.", example="episode list --outcome failure"),
    Operation("episodes.start", "writes", "POST /v1/episodes/running"),
    Operation("episodes.record", "writes", "POST /v1/episodes", "episode record", "record_episode", sentence="Stored {id}.", help="Store an episode: one task with its steps, errors and outcome.",
              example='episode record "Implement POST /api/todos" --action-log read_file --agent eng-001'),
    Operation("episodes.add", "writes", "POST /v1/episodes/bulk", "episode add", sentence="Stored {id}.", help="Store the episodes of a JSON file: one object or a list.", example="episode add episodes.json"),
    Operation("episodes.prune", "writes", "POST /v1/episodes/pruning", "episode prune",
              help="Summarise old episodes and archive older ones, unless knowledge refers to them.\n\nNothing is lost: `lukasa episode restore` brings an episode back in full.",
              example="episode prune --dry-run"),
    Operation("episodes.get", "reads", "GET /v1/episodes/{id}", "episode show", help="Show one episode with all its steps and errors.", example="episode show ep-2026-01-06-001"),
    Operation("episodes.step", "writes", "POST /v1/episodes/{id}/steps", "episode step", sentence="Added a step to {given[id]}.", example="episode step ep-2026-01-06-001 write_file --target login.py"),
    Operation("episodes.error", "writes", "POST /v1/episodes/{id}/errors", "episode error", arguments="id type message", sentence="Added an error to {given[id]}.",
              example='episode error ep-2026-01-06-001 TypeError "x is undefined" --resolution "Check for null"'),
    Operation("episodes.finish", "writes", "PUT /v1/episodes/{id}/outcome", "episode finish", arguments="id outcome", sentence="{id} ended as {outcome}.",
              help="Set the outcome of an episode that was never finished.", example="episode finish ep-2026-01-06-002 failure"),
    Operation("episodes.restore", "writes", "POST /v1/episodes/{id}/restoration", "episode restore", sentence="{id} is restored in full.", help="Restore a summarised or archived episode in full.",
              example="episode restore ep-2026-01-06-001"),
    # Knowledge
    Operation("knowledge.patterns", "reads", "GET /v1/knowledge/patterns", "knowledge patterns", answer="patterns", columns="id, kind, confidence=record.body.confidence:.2f, sources:count, used=usage_count, says", sentence="No patterns are known yet.",
              help="List patterns, the oldest first.", example="knowledge patterns"),
    Operation("knowledge.add_pattern", "writes", "POST /v1/knowledge/patterns", "knowledge add-pattern", sentence="Stored {id}.", help="Store a pattern: what works, in one sentence.",
              example='knowledge add-pattern "Run the migrations first" --confidence 0.8'),
    Operation("knowledge.antipatterns", "reads", "GET /v1/knowledge/antipatterns", "knowledge antipatterns", answer="antipatterns", columns="id, kind, confidence=record.body.confidence:.2f, sources:count, used=usage_count, says", sentence="No anti-patterns are known yet.",
              help="List anti-patterns, the oldest first.", example="knowledge antipatterns"),
    Operation("knowledge.add_antipattern", "writes", "POST /v1/knowledge/antipatterns", "knowledge add-antipattern", sentence="Stored {id}.", help="Store an anti-pattern: what fails, why, and how to prevent it.",
              example='knowledge add-antipattern "Retrying without a limit" --prevention "Set a limit"'),
    Operation("knowledge.facts", "reads", "GET /v1/knowledge/facts", "knowledge facts", answer="facts", columns="id, kind, confidence=record.body.confidence:.2f, sources:count, used=usage_count, says", sentence="No facts are known yet.",
              help="List facts, the oldest first.", example="knowledge facts"),
    Operation("knowledge.add_fact", "writes", "POST /v1/knowledge/facts", "knowledge add-fact", sentence="Stored {id}.", help="Store a fact.",
              example='knowledge add-fact "The staging database is called heron" --confidence 1'),
    Operation("knowledge.get", "reads", "GET /v1/knowledge/items/{ref}", "knowledge show", help="Show one item with all its fields and links.", example="knowledge show sem-001"),
    Operation("knowledge.use", "writes", "POST /v1/knowledge/items/{ref}/uses", "knowledge use", sentence="{id}: used {usage_count} times.", example="knowledge use sem-001"),
    Operation("knowledge.neighbours", "reads", "GET /v1/knowledge/items/{ref}/neighbours", "knowledge neighbours", answer="neighbours", columns="relation, direction, kind=key.kind, id=key.id", sentence="No links.",
              help="List the links from and to an item.", example="knowledge neighbours sem-001"),
    Operation("knowledge.link", "writes", "POST /v1/knowledge/links", "knowledge link", help="Link two records. A relation with an inverse is also stored at the other end.",
              example="knowledge link sem-002 supersedes sem-001"),
    Operation("knowledge.unlink", "deletes", "DELETE /v1/knowledge/links", "knowledge unlink", help="Remove a link and its inverse.", example="knowledge unlink sem-002 supersedes sem-001"),
    Operation("knowledge.path", "reads", "GET /v1/knowledge/path", "knowledge path", answer="path", help="Find the shortest path of links between two records.", example="knowledge path sem-001 sem-002"),
    Operation("knowledge.contradictions", "reads", "GET /v1/knowledge/contradictions", "knowledge contradictions", answer="contradictions", columns="what=kind, a=a.id, relation, b=b.id", sentence="There are no contradictions and no broken links.",
              help="List items that contradict each other, and links to records that do not exist.", example="knowledge contradictions"),
    Operation("knowledge.learnings", "reads", "GET /v1/knowledge/learnings", "knowledge learnings", answer="learnings", columns="date, error, message, learning", sentence="No learnings.",
              help="List what was learned from errors, day by day.", example="knowledge learnings --day 2026-01-06"),
    Operation("knowledge.merge_duplicates", "writes", "POST /v1/knowledge/merges", "knowledge merge-duplicates", help="Merge patterns that say the same: the most confident one supersedes the others.",
              example="knowledge merge-duplicates --dry-run"),
    # Skills
    Operation("skills.list", "reads", "GET /v1/skills", "skill list", answer="skills", columns="id, version=record.version, steps:count, worked=successes, failed=failures, title", sentence="No skills.",
              help="List all skills, with how often each worked and failed.", example="skill list"),
    Operation("skills.add", "writes", "POST /v1/skills", "skill add", sentence="Stored {id}, version {version}.", help="Store a skill. An existing skill gets a new version.",
              example="skill add api-implementation.md --id api-implementation"),
    Operation("skills.search", "reads", "GET /v1/skills/search", "skill search", answer="skills", columns="id, version=record.version, steps:count, worked=successes, failed=failures, title", sentence="No skills.",
              help="Search skills by key words.", example='skill search "contract tests"'),
    Operation("skills.get", "reads", "GET /v1/skills/{id}", "skill show", help="Print the Markdown of a skill.", example="skill show api-implementation"),
    Operation("skills.delete", "deletes", "DELETE /v1/skills/{id}", "skill delete", sentence="Deleted {given[id]}.", example="skill delete api-implementation"),
    Operation("skills.record_use", "writes", "POST /v1/skills/{id}/uses", "skill record-use", help="Record that a skill was used, and whether it worked.", example="skill record-use api-implementation --success"),
    # Lessons
    Operation("lessons.list", "reads", "GET /v1/lessons", "lesson list", answer="lessons", columns="id, sessions=count, about, seen=last_seen, command, text", sentence="No lessons.",
              help="List what sessions of agents learned, the lessons of most sessions first.", example="lesson list --about remedy"),
    Operation("lessons.add", "writes", "POST /v1/lessons", "lesson add", sentence="Stored {id}.", help="Add a lesson in one sentence. A lesson that is known is counted.",
              example='lesson add "Run `make lint` before a commit." --about convention --command "git commit"'),
    Operation("lessons.of_session", "reads", "GET /v1/sessions/{session}/lessons", answer="lessons"),
    Operation("lessons.delete", "deletes", "DELETE /v1/lessons/{id}", "lesson delete", sentence="Deleted {given[id]}.", example="lesson delete a84fa743"),
    # Handoffs, ledgers, metrics
    Operation("handoffs.inbox", "reads", "GET /v1/handoffs", "handoff inbox", answer="handoffs", columns="id, from=from_agent, to=to_agent, status, handed over=timestamp, what was done=what_was_done", sentence="The inbox is empty.",
              help="List the handoffs that wait for an agent, the oldest first.", example="handoff inbox --agent qa-001"),
    Operation("handoffs.sent", "reads", "GET /v1/handoffs/sent", "handoff sent", answer="handoffs", columns="id, from=from_agent, to=to_agent, status, handed over=timestamp, what was done=what_was_done", sentence="Nothing was handed over.",
              help="List the handoffs that an agent created, with their status.", example="handoff sent --agent eng-001"),
    Operation("handoffs.create", "writes", "POST /v1/handoffs", "handoff create", "handoff", offers="from_agent", sentence="{id} for {to_agent}: {status}.",
              help="Hand work over to another agent: stores a handoff in its inbox.", example='handoff create qa-001 "Implemented POST /api/todos" --from-agent eng-001 --needs-testing "contract tests"'),
    Operation("handoffs.get", "reads", "GET /v1/handoffs/{id}", "handoff show", help="Show all fields of one handoff.", example="handoff show handoff-001"),
    Operation("handoffs.read", "writes", "POST /v1/handoffs/{id}/reading", "handoff read", sentence="{id} for {to_agent}: {status}.", example="handoff read handoff-001"),
    Operation("handoffs.accept", "writes", "POST /v1/handoffs/{id}/acceptance", "handoff accept", sentence="{id} for {to_agent}: {status}.",
              help="Accept a handoff. Only the agent it is for can accept it, and only once.", example="handoff accept handoff-001 --agent qa-001"),
    Operation("handoffs.complete", "writes", "POST /v1/handoffs/{id}/completion", "handoff complete", sentence="{id} for {to_agent}: {status}.", help="Mark a handoff as completed, with its result.",
              example='handoff complete handoff-001 --result "all green"'),
    Operation("handoffs.reassign", "writes", "POST /v1/handoffs/{id}/reassignment", "handoff reassign", sentence="{id} for {to_agent}: {status}.", help="Give a handoff that is not completed to another agent.",
              example="handoff reassign handoff-001 qa-002"),
    Operation("handoffs.reopen", "writes", "POST /v1/handoffs/{id}/reopening", "handoff reopen", sentence="{id} for {to_agent}: {status}.", help="Put an accepted handoff back into the inbox.",
              example="handoff reopen handoff-001"),
    Operation("ledgers.list", "reads", "GET /v1/ledgers", "ledger list", answer="ledgers", columns="agent=agent_id, checkpoint=last_checkpoint, completed=tasks_completed, task=current_task, goal=context.current_goal", sentence="No ledgers.",
              help="List the progress of agents: current task, goal and completed tasks.", example="ledger list"),
    Operation("ledgers.get", "reads", "GET /v1/ledgers/{agent}", "ledger show", arguments="agent", help="Show the progress of one agent.", example="ledger show eng-001"),
    Operation("ledgers.checkpoint", "writes", "POST /v1/ledgers", "ledger checkpoint", arguments="agent", sentence="{agent_id}: {tasks_completed} completed, now {current_task}.",
              help="Record the progress of an agent. What is left out stays as it is.", example="ledger checkpoint eng-001 --current-task task-042 --completed 1"),
    Operation("metrics.dashboard", "reads", "GET /v1/metrics/dashboard", "metrics dashboard", help="Show how tasks went in the last days: success, time, retries and rewards.",
              example="metrics dashboard --days 30"),
    Operation("metrics.gain", "reads", "GET /v1/metrics/gain", "gain", sentence="{sessions:count session} since {since}: {notes:count note} shown, {tokens} tokens. {used} used, {corrected} corrected; {failures_avoided} known failures avoided, {failures_repeated} repeated. {comparison[said]}",
              help="Show what agents were shown of the memory, what they used of it, and how sessions went with and without it.",
              example="gain --since 7d"),
    Operation("metrics.efficiency", "reads", "GET /v1/metrics/efficiency", "metrics efficiency", answer="tasks", columns="task, seconds:g, agents, attempts, retries, succeeded", sentence="No tasks in these days.",
              help="Show time and attempts of each task.", example="metrics efficiency --days 30"),
    Operation("metrics.rewards", "reads", "GET /v1/metrics/rewards", "metrics rewards", answer="rewards", columns="episode, task, outcome:.2f, efficiency:.2f, preference:.2f, total:.2f", sentence="No episodes in these days.",
              help="Show the reward of each episode.", example="metrics rewards --days 30"),
    Operation("metrics.prefer", "writes", "POST /v1/metrics/preferences", "metrics prefer", sentence="{given[episode]} is rated {given[score]:g}.",
              help="Store your rating of an episode, from -1 (useless) to 1 (just right). The latest counts.", example="metrics prefer ep-2026-01-06-001 1"),
    Operation("consolidate", "writes", "POST /v1/consolidation", "consolidate", progress="Consolidating",
              help="Derive patterns and anti-patterns from episodes and store them as knowledge.\n\nOne run is one batch; the answer names the label with which `lukasa undo` takes it back.",
              example="consolidate --dry-run"),
    # Proposals
    Operation("proposals.list", "reads", "GET /v1/proposals", "proposals list", answer="proposals",
              help="List what agents would change of the owner's records: who, why, what is there now and what would be.\n\nAn agent's change of what the owner said is a proposal until the owner accepts or refuses it.",
              example="proposals list --state open"),
    Operation("proposals.count", "reads", "GET /v1/proposals/count", answer="count"),
    Operation("proposals.get", "reads", "GET /v1/proposals/{id}", "proposals show", help="Show one proposal with its whole texts.", example="proposals show 4bd07eaee300434b"),
    Operation("proposals.accept", "writes", "POST /v1/proposals/{id}/acceptance", "proposals accept", example="proposals accept 4bd07eaee300434b"),
    Operation("proposals.refuse", "writes", "POST /v1/proposals/{id}/refusal", "proposals refuse", help="Refuse a proposal; nothing is changed. The same change is not proposed again.",
              example="proposals refuse 4bd07eaee300434b"),
    # Sessions of agents
    Operation("sessions.list", "reads", "GET /v1/sessions", "checkpoint list", answer="sessions", columns="session=id, scope, agent=agent_id, status, checkpoint=number, since=at", sentence="There are no sessions.",
              help="List the sessions, the one written last first.", example="checkpoint list"),
    Operation("sessions.state", "reads", "GET /v1/sessions/{session_id}", "checkpoint state", help="Print the current state of a session as JSON, including changes since the last checkpoint.",
              example="checkpoint state demo"),
    Operation("sessions.save_checkpoint", "writes", "POST /v1/sessions/{session_id}/checkpoints", "checkpoint save", "checkpoint", arguments="session_id", short="agent_state=state",
              help="Save a whole state as the next checkpoint of a session. A new id starts a new session.", example="checkpoint save demo --state state.json"),
    Operation("sessions.checkpoints", "reads", "GET /v1/sessions/{session_id}/checkpoints", "checkpoint checkpoints", answer="checkpoints", columns="number, saved=modified, size:size, compressed", sentence="There are no checkpoints.",
              help="List the checkpoints of a session, newest first.", example="checkpoint checkpoints demo"),
    Operation("sessions.checkpoint", "reads", "GET /v1/sessions/{session_id}/checkpoints/{number}", "checkpoint show", help="Print the state of one checkpoint as JSON.", example="checkpoint show demo 1"),
    Operation("sessions.latest", "reads", "GET /v1/sessions/{session_id}/latest-checkpoint"),
    Operation("sessions.load_latest_checkpoint", "reads", "GET /v1/sessions/{session_id}/latest-state"),
    Operation("sessions.recover", "writes", "POST /v1/sessions/{session_id}/recovery", "recover",
              help="Restore a session to its newest state that can be verified, and report what was lost.\n\nDamaged files are renamed and reported, not deleted. A session that a running process has open is not changed. Exit code 6: something was damaged or lost.",
              example="recover demo"),
    Operation("sessions.verify", "reads", "GET /v1/sessions/{session_id}/verification", "checkpoint verify", answer="checkpoints",
              help="Check every checkpoint file of a session for damage. Changes nothing.\n\nExit code 6: a file is damaged.", example="checkpoint verify demo"),
    Operation("sessions.events", "reads", "GET /v1/sessions/{session_id}/events", "checkpoint events", answer="events", sentence="There are no events.", help="List the events of a session, oldest first.",
              example="checkpoint events demo"),
    Operation("sessions.incidents", "reads", "GET /v1/sessions/{session_id}/incidents", "checkpoint incidents", answer="incidents", sentence="There are no incidents.",
              help="List damage and lost changes of a session, oldest first.", example="checkpoint incidents demo"),
    Operation("sessions.archive", "reads", "GET /v1/sessions/{session_id}/archive", "checkpoint archive", answer="pruned", sentence="Nothing was archived.",
              help="List what pruning moved from a session's state to the archive, oldest first.", example="checkpoint archive demo"),
    Operation("sessions.compress_old_checkpoints", "writes", "POST /v1/sessions/{session_id}/compression", "checkpoint compress-old-checkpoints", sentence="Compressed {compressed:count checkpoint}, dropped {dropped:count}.",
              help="Compress old checkpoint files of a session, and drop compressed ones beyond a number.", example="checkpoint compress-old-checkpoints demo --keep 5"),
    Operation("sessions.prune", "writes", "POST /v1/sessions/{session_id}/pruning", "checkpoint prune", help="Move old entries of a session's state to the archive.", example="checkpoint prune demo"),
    Operation("sessions.configuration", "reads", "GET /v1/session-configuration"),
    Operation("sessions.erase", "erases", "POST /v1/sessions/{session_id}/erasure", answer="erased"),
    # Forecasts
    Operation("forecasts.list", "reads", "GET /v1/forecasts", "forecast list", answer="predictions", columns="id=prediction_id, status, p=probability:g, outcome, question", sentence="There are no predictions.",
              help="List predictions, the newest last.", example="forecast list --status active"),
    Operation("forecasts.predict", "writes", "POST /v1/forecasts", "forecast predict", sentence="{prediction_id}: {probability:g}, {status}.", help="Store a prediction with its probability.",
              example='forecast predict "Will the release ship by Friday?" 0.7 --category releases'),
    Operation("forecasts.scores", "reads", "GET /v1/forecasts/scores", "forecast scores", help="Show how accurate and how well calibrated the resolved predictions were.", example="forecast scores --window 30"),
    Operation("forecasts.learning", "reads", "GET /v1/forecasts/learning"),
    Operation("forecasts.metrics", "reads", "GET /v1/forecasts/metrics"),
    Operation("forecasts.calibrate", "reads", "GET /v1/forecasts/calibration", answer="probability"),
    Operation("forecasts.signals", "reads", "GET /v1/forecasts/signals", answer="signals"),
    Operation("forecasts.received", "reads", "GET /v1/forecasts/received", answer="signals"),
    Operation("forecasts.receive", "writes", "POST /v1/forecasts/received", answer="signals"),
    Operation("forecasts.retry_signals", "writes", "POST /v1/forecasts/signals/retries"),
    Operation("forecasts.expire_due", "writes", "POST /v1/forecasts/expiry", "forecast expire-due", answer="expired", sentence="{expired:count prediction} expired.", help="Close every prediction whose due time has passed.", example="forecast expire-due"),
    Operation("forecasts.reasoning", "reads", "GET /v1/forecasts/markets/{market_id}"),
    Operation("forecasts.reason", "writes", "POST /v1/forecasts/markets/{market_id}"),
    Operation("forecasts.estimate", "reads", "GET /v1/forecasts/markets/{market_id}/estimate", answer="probability"),
    Operation("forecasts.get", "reads", "GET /v1/forecasts/{prediction_id}", "forecast show", help="Show all fields of one prediction, with the probabilities that it had before.",
              example="forecast show pred-001"),
    Operation("forecasts.history", "reads", "GET /v1/forecasts/{prediction_id}/history", "forecast history", answer="versions", columns="at=last_updated, status, p=probability:g, outcome", sentence="There is no such prediction.",
              help="List every version of a prediction, oldest first.", example="forecast history pred-001"),
    Operation("forecasts.revise", "writes", "POST /v1/forecasts/{prediction_id}/revisions", "forecast revise", sentence="{prediction_id}: {probability:g}, {status}.",
              help="Change the probability of a prediction. Earlier ones stay in its history.", example="forecast revise pred-001 0.8"),
    Operation("forecasts.resolve", "writes", "PUT /v1/forecasts/{prediction_id}/resolution", "forecast resolve", sentence="{prediction_id}: {probability:g}, {status}, {outcome}.",
              help="Record whether a prediction came true. From then on it is scored.", example="forecast resolve pred-001 yes"),
    Operation("forecasts.expire", "writes", "POST /v1/forecasts/{prediction_id}/expiry", "forecast expire", sentence="{prediction_id}: {probability:g}, {status}.",
              help="Close a prediction that will not be resolved. It is not scored.", example="forecast expire pred-001"),
    Operation("forecasts.signal", "writes", "POST /v1/forecasts/{prediction_id}/signals"),
    Operation("forecasts.take_in", "writes", "", "forecast take-in", help="Store the predictions, signals and reasoning of a session's state. What exists already stays.", example="forecast take-in state.json"),
    # Trust
    Operation("trust.filed", "reads", "GET /v1/trust/dissents", "trust filed", answer="dissents", columns="id, agent=body.agent, text", sentence="No dissent waits for a judgement.", example="trust filed"),
    Operation("trust.file_dissent", "writes", "POST /v1/trust/dissents", "trust file-dissent", help="Write a dissent as the calling agent. It counts for nothing until the owner judges it.",
              example='--agent critic-1 trust file-dissent "The figure is wrong."'),
    Operation("trust.log_dissent", "writes", "POST /v1/trust/dissents/logged", "trust log-dissent", help="Record that an agent objected to an output. It counts once its impact is known.",
              example='trust log-dissent critic-1 "The decision ignores the REST tooling" --rubric-citation Accuracy --impact'),
    Operation("trust.judge", "writes", "PUT /v1/trust/dissents/{id}/judgement", "trust judge", help="Record whether an earlier dissent changed the output.", example="trust judge 019c… --impact"),
    Operation("trust.dissent_depth", "reads", "POST /v1/trust/dissent-depth", answer="depth"),
    Operation("trust.log_override", "writes", "POST /v1/trust/overrides", "trust log-override", help="Record that a person decided against an agent's output.",
              example='trust log-override creator "Use GraphQL" "Stay with REST" --by ada'),
    Operation("trust.revert", "writes", "POST /v1/trust/overrides/{id}/reversal", "trust revert", help="Record that a person took an override back. It then counts as regretted.",
              example="trust revert 019c… --by ben"),
    Operation("trust.check_reverts", "writes", "POST /v1/trust/overrides/check", "trust check-reverts",
              help="Find overrides that did not last, and mark them as regretted.\n\nWithout a round, compares all versions of each override's artifact with the decision.", example="trust check-reverts"),
    Operation("trust.agents", "reads", "GET /v1/trust/agents", "trust agents", answer="agents", help="Show the trust score and the adjusted score of each agent.", example="trust agents"),
    Operation("trust.register", "writes", "POST /v1/trust/agents", "trust register", sentence="{given[agent]} is registered.", example="trust register critic-1 --primary-role critic"),
    Operation("trust.score", "reads", "GET /v1/trust/agents/{agent}", "trust score", "trust", help="Show the scores of one agent with their parts.", example="trust score critic-1"),
    Operation("trust.history", "reads", "GET /v1/trust/agents/{agent}/history", "trust history", answer="changes", help="List the changes of an agent's trust, each with its reason.",
              example="trust history critic-1 --limit 20"),
    Operation("trust.standing", "reads", "GET /v1/trust/agents/{agent}/aggregate"),
    Operation("trust.diversity", "reads", "GET /v1/trust/agents/{agent}/diversity", "trust diversity", example="trust diversity critic-1"),
    Operation("trust.eligibility", "reads", "GET /v1/trust/agents/{agent}/eligibility", "trust eligibility", example="trust eligibility critic-1"),
    Operation("trust.set_probation", "writes", "PUT /v1/trust/agents/{agent}/probation", "trust set-probation", arguments="agent", help="Exclude an agent from critical roles until a time, or end its probation.",
              example='trust set-probation critic-1 --until 2026-03-01 --reason "odd answers" --by ada'),
    Operation("trust.rebuild", "writes", "POST /v1/trust/agents/{agent}/rebuild", "trust rebuild", sentence="The sums of {given[agent]} are recomputed.", help="Recompute the sums of an agent from its events.",
              example="trust rebuild critic-1"),
    Operation("trust.check", "reads", "GET /v1/trust/findings", "trust check", answer="findings",
              help="Compare the stored sums of every agent with its events. Changes nothing.\n\nExit code 6: sums differ; `lukasa trust rebuild` recomputes them.", example="trust check"),
    Operation("trust.participate", "writes", "POST /v1/trust/rounds/{round_id}/participations", "trust participate", arguments="round_id agents",
              help="Record which agents took part in a round. The same round counts once.", example="trust participate run-7/round-2 creator critic-1"),
    Operation("trust.assign_devils_advocate", "writes", "POST /v1/trust/advocates", "trust assign-devils-advocate",
              help="Draw a devil's advocate from the viable agents; more trusted agents are more likely. Records the draw.", example="trust assign-devils-advocate critic-1 critic-2 creator --seed 7"),
    Operation("trust.predict", "reads", "GET /v1/trust/prediction", "trust predict", help="Predict whose dissent on a topic is likely to have an impact, from similar past dissents.",
              example='trust predict "database migrations"'),
    Operation("trust.weigh", "reads", "POST /v1/trust/weights"),
    Operation("trust.metrics", "reads", "GET /v1/trust/metrics", "trust metrics", help="Show dissent impact, regret rate and usefulness of escalations.", example="trust metrics"),
    Operation("trust.controversy", "reads", "GET /v1/trust/controversy", "trust controversy", answer="controversies", columns="what, name, overrides, reverts, agents", sentence="Nothing is controversial.",
              help="List rounds and artifacts with repeated overrides and reverts.", example="trust controversy"),
    Operation("trust.influence", "reads", "GET /v1/trust/influence", "trust influence", help="Show whose dissents changed whose output, and who reverted whose overrides.", example="trust influence"),
    # Rubrics
    Operation("trust.rubric.proposals", "reads", "GET /v1/rubrics/proposals", "trust rubric proposals", answer="proposals", sentence="There are no proposals.", help="List proposals to change a rubric.",
              example="trust rubric proposals --state open"),
    Operation("trust.rubric.apply", "writes", "POST /v1/rubrics/proposals/{id}/application", "trust rubric apply", sentence="Proposal {id} was {state} by {by}.",
              help="Accept a proposal: stores a new version of the rubric.", example="trust rubric apply 019c… --by ada"),
    Operation("trust.rubric.reject", "writes", "POST /v1/rubrics/proposals/{id}/rejection", "trust rubric reject", sentence="Proposal {id} was {state} by {by}.",
              help="Reject a proposal. The rubric is not changed.", example="trust rubric reject 019c… --by ada"),
    Operation("trust.rubric.effect", "reads", "GET /v1/rubrics/proposals/{id}/effect"),
    Operation("trust.rubric.get", "reads", "GET /v1/rubrics/{name}", "trust rubric show", help="Show a rubric, or one version of it.", example="trust rubric show --version 1"),
    Operation("trust.rubric.set", "writes", "PUT /v1/rubrics/{name}", "trust rubric set", help="Store a rubric as a new version. Weights are scaled to add up to 1.",
              example="trust rubric set Accuracy=3 Completeness=2 Clarity=1 --by ada"),
    Operation("trust.rubric.versions", "reads", "GET /v1/rubrics/{name}/versions", "trust rubric versions", answer="versions", columns="version, by=changed_by, criteria:weights", sentence="There is no such rubric.",
              help="List every version of a rubric, the newest last.", example="trust rubric versions"),
    Operation("trust.rubric.propose", "writes", "POST /v1/rubrics/{name}/proposals", "trust rubric propose", answer="proposals", sentence="There are no proposals.",
              help="Store proposals for criteria that were overridden repeatedly, and list the new ones.", example="trust rubric propose"),
    # The knowledge graph of the reference MCP memory server
    Operation("graph.read_graph", "reads", "GET /v1/entities"),
    Operation("graph.search_nodes", "reads", "GET /v1/entities/search"),
    Operation("graph.open_nodes", "reads", "GET /v1/entities/named"),
    Operation("graph.create_entities", "writes", "POST /v1/entities", answer="entities"),
    Operation("graph.create_relations", "writes", "POST /v1/entities/relations", answer="relations"),
    Operation("graph.add_observations", "writes", "POST /v1/entities/observations", answer="observations"),
    Operation("graph.delete_entities", "deletes", "POST /v1/entities/deletions"),
    Operation("graph.delete_relations", "deletes", "POST /v1/entities/relations/deletions"),
    Operation("graph.delete_observations", "deletes", "POST /v1/entities/observations/deletions"),
    # The log
    Operation("journal.read", "reads", "GET /v1/records", "log", answer="records", example="log --kind note --author orion --since 2026-02-01"),
    Operation("journal.find", "reads", "GET /v1/records/search", answer="matches"),
    Operation("journal.write", "writes", "POST /v1/records"),
    Operation("journal.get", "reads", "GET /v1/records/{scope}/{kind}/{id}", "show", example="show 4f9a2c1b77d0 --version 1"),
    Operation("journal.history", "reads", "GET /v1/records/{scope}/{kind}/{id}/history", "history", "history", answer="versions", example="history 4f9a2c1b77d0"),
    Operation("journal.neighbours", "reads", "GET /v1/records/{scope}/{kind}/{id}/links", answer="links"),
    Operation("journal.delete", "deletes", "DELETE /v1/records/{scope}/{kind}/{id}"),
    Operation("journal.tally", "reads", "GET /v1/journal/tally", answer="kinds"),
    Operation("journal.tip", "reads", "GET /v1/journal/tip", answer="tip"),
    Operation("journal.undo", "deletes", "POST /v1/journal/undo", "undo", example="undo --author mallory --since 2026-02-03T12:00:00Z"),
    Operation("journal.quarantine", "writes", "POST /v1/journal/quarantines", "quarantine", arguments="author", offers="author",
              help="Hide what an author wrote, and everything derived from it, until it is released.\n\nNothing is deleted: `lukasa release` makes all of it visible again.",
              example='quarantine mallory --reason "writes nonsense"'),
    Operation("journal.quarantined", "reads", "GET /v1/journal/quarantines", "quarantined", answer="quarantines", sentence="No author is in quarantine.", help="List the authors in quarantine.",
              example="quarantined"),
    Operation("journal.release", "writes", "DELETE /v1/journal/quarantines/{author}", "release", arguments="author", offers="author", help="Make visible again what a quarantine hid.", example="release mallory"),
    Operation("journal.erase", "erases", "POST /v1/journal/erasures", "erase", example='erase --subject "Ada Lovelace" --reason "asked to be forgotten"'),
    Operation("journal.verify", "reads", "POST /v1/journal/verification", "verify", progress="Verifying",
              help="Check the log, the indexes and the vectors for damage, and list what is damaged.\n\nChanges nothing. Exit code 6: something is damaged.", example='verify || echo "the store is damaged"'),
    Operation("journal.compact", "erases", "POST /v1/journal/compaction", "compact", progress="Compacting", sentence="Dropped {versions:count superseded version}: from {bytes_before:size} to {bytes_after:size}.", help="Drop superseded versions for good and free their space. The newest version of a record stays.",
              example="compact --before 2026-01-01"),
    # Background work
    Operation("jobs.list", "reads", "GET /v1/jobs", "jobs list", answer="jobs", help="List background jobs that are waiting, running or failed.", example="jobs list --state failed"),
    Operation("jobs.defer", "writes", "POST /v1/jobs"),
    Operation("jobs.status", "reads", "GET /v1/jobs/status", "jobs status", sentence="{waiting:,} waiting, {running:,} running, {failed:,} failed.", help="Count background jobs by state.", example="jobs status"),
    Operation("jobs.result", "reads", "GET /v1/jobs/{id}/result", "jobs result", help="Print what a job returned when it was done.", example="jobs result 019c…"),
    Operation("jobs.retry", "writes", "POST /v1/jobs/{id}/retry", "jobs retry", help="Queue a failed job again.", example="jobs retry 019c…"),
    Operation("jobs.drop", "deletes", "DELETE /v1/jobs/{id}", "jobs drop", help="Delete a waiting or failed job.", example="jobs drop 019c…"),
)
"""All operations, by service; within HTTP the more exact path comes first."""
# fmt: on
OVER_HTTP: Mapping[str, Operation] = {operation.method: operation for operation in OPERATIONS if operation.http}
"""The operations that HTTP offers, by their methods."""


def is_taken(operation: Operation, parameter: str) -> bool:
    """Tell whether a request may give a parameter: it does not say who the caller is, nor where a record comes from."""
    if parameter in ("self", "memory") or parameter in _NOT_TAKEN.get(operation.method, "").split():
        return False
    return parameter not in _IDENTITY or parameter in _SUBJECTS.get(operation.method, "").split()
