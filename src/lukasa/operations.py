"""Every operation of the library by its method, with its name at each interface: the source of HTTP, shell, client and MCP.

A row is one operation. Parameters, defaults, help texts and the type of the answer come from the method itself, so a new
operation is its method and one row. A parameter has the name of the method's parameter at every interface; the shell writes
it with dashes, and an option that is repeated in the singular.
"""

from __future__ import annotations

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
    """What the shell prints after a write, with fields of the record in braces, or for an empty list."""

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


# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    # What every caller uses
    Operation("remember", "writes", "POST /v1/memories", "remember", "remember"),
    Operation("recall", "reads", "POST /v1/recall", "recall", "recall"),
    Operation("forget", "deletes", "DELETE /v1/memories/{id}", "forget", "forget"),
    Operation("confirm", "writes", "POST /v1/memories/{id}/confirmations", "confirm"),
    Operation("before_task", "reads", "POST /v1/before-task", "before-task", "before_task"),
    Operation("retrieve_relevant_memory", "reads", "GET /v1/relevant-memories"),
    Operation("describe", "reads", "GET /v1/stats", "stats"),
    # The vault
    Operation("vault.list", "reads", "GET /v1/memories", "vault list", answer="memories"),
    Operation("vault.get", "reads", "GET /v1/memories/{id}"),
    Operation("vault.history", "reads", "GET /v1/memories/{id}/history", answer="versions"),
    Operation("vault.update", "writes", "PATCH /v1/memories/{id}", "update"),
    Operation("vault.promote_to_canon", "writes", "POST /v1/memories/{id}/promotion", "vault promote-to-canon"),
    Operation("vault.corroborate", "writes", "POST /v1/memories/{id}/corroborations", "vault corroborate"),
    Operation("vault.add_memory", "writes", "POST /v1/vault/memories"),
    Operation("vault.delete", "deletes", "DELETE /v1/vault/memories/{id}"),
    Operation("vault.bulk_add", "writes", "POST /v1/memories/bulk", answer="outcomes"),
    Operation("vault.bulk_delete", "deletes", "POST /v1/memories/deletions", answer="outcomes"),
    Operation("vault.update_by_topic", "writes", "PUT /v1/vault/topics/{topic_id}"),
    Operation("vault.judge", "reads", "POST /v1/vault/verdicts", answer="refused"),
    Operation("vault.search", "reads", "GET /v1/vault/search", "vault search", answer="hits"),
    Operation("vault.build_snapshot", "reads", "GET /v1/vault/snapshot", "vault snapshot", "snapshot", answer="text"),
    Operation("vault.build_snapshot_block", "reads", "GET /v1/vault/snapshot-block"),
    Operation("vault.build_memory_block", "reads", "GET /v1/vault/memory-block"),
    Operation("vault.vault_stats", "reads", "GET /v1/vault/stats", "vault stats"),
    Operation("vault.refusals", "reads", "GET /v1/vault/refusals"),
    Operation("vault.propose_deletions", "reads", "GET /v1/vault/deletion-proposals", "vault propose-deletions", answer="proposals"),
    Operation("vault.find_consolidation_candidates", "reads", "GET /v1/vault/candidates", "vault find-consolidation-candidates", answer="pairs"),
    Operation("vault.add_tick", "writes", "POST /v1/vault/ticks", "vault add-tick"),
    Operation("vault.ticks", "reads", "GET /v1/vault/ticks", "vault ticks", answer="ticks"),
    Operation("vault.note", "writes", "POST /v1/vault/notes", "vault note"),
    Operation("vault.notes", "reads", "GET /v1/vault/notes", "vault notes", answer="notes"),
    Operation("vault.directive", "writes", "POST /v1/vault/directives", "vault directive"),
    Operation("vault.directives", "reads", "GET /v1/vault/directives", "vault directives", answer="directives"),
    # Conversations
    Operation("context.list", "reads", "GET /v1/conversations", "context list", answer="conversations"),
    Operation("context.list_sessions", "reads", "GET /v1/conversation-ids", answer="ids"),
    Operation("context.load", "reads", "GET /v1/conversations/{conversation_id}", "context load"),
    Operation("context.delete", "deletes", "DELETE /v1/conversations/{conversation_id}", "context delete"),
    Operation("context.append", "writes", "POST /v1/conversations/{conversation_id}/turns", "context append", "context_append"),
    Operation("context.extend", "writes", "POST /v1/conversations/{conversation_id}/turns/bulk"),
    Operation("context.transcript", "reads", "GET /v1/conversations/{conversation_id}/turns", answer="turns"),
    Operation("context.assemble", "reads", "GET /v1/conversations/{conversation_id}/prompt", "context assemble", "context_assemble"),
    Operation("context.compact", "writes", "POST /v1/conversations/{conversation_id}/compaction", "context compact"),
    Operation("context.configure", "writes", "PATCH /v1/conversations/{conversation_id}/settings", "context configure"),
    Operation("context.facts", "reads", "GET /v1/conversations/{conversation_id}/facts", answer="facts"),
    Operation("context.add_fact", "writes", "POST /v1/conversations/{conversation_id}/facts"),
    Operation("context.find_facts", "reads", "GET /v1/conversations/{conversation_id}/facts/search", answer="facts"),
    Operation("context.fork", "writes", "POST /v1/conversations/{conversation_id}/forks", "context fork"),
    Operation("context.versions", "reads", "GET /v1/conversations/{conversation_id}/versions", answer="versions"),
    Operation("context.environment", "writes", "PUT /v1/conversations/{conversation_id}/environment"),
    Operation("context.task", "writes", "PUT /v1/conversations/{conversation_id}/tasks/{id}"),
    Operation("context.tool_call", "writes", "POST /v1/conversations/{conversation_id}/tool-calls"),
    Operation("context.usage", "writes", "POST /v1/conversations/{conversation_id}/usage"),
    # Episodes
    Operation("episodes.list", "reads", "GET /v1/episodes", "episode list", answer="episodes"),
    Operation("episodes.record", "writes", "POST /v1/episodes", "episode record", "record_episode"),
    Operation("episodes.add", "writes", "POST /v1/episodes/bulk"),
    Operation("episodes.prune", "writes", "POST /v1/episodes/pruning", "episode prune"),
    Operation("episodes.get", "reads", "GET /v1/episodes/{id}", "episode get"),
    Operation("episodes.step", "writes", "POST /v1/episodes/{id}/steps", "episode step"),
    Operation("episodes.error", "writes", "POST /v1/episodes/{id}/errors", "episode error"),
    Operation("episodes.finish", "writes", "PUT /v1/episodes/{id}/outcome", "episode finish"),
    Operation("episodes.restore", "writes", "POST /v1/episodes/{id}/restoration", "episode restore"),
    # Knowledge
    Operation("knowledge.patterns", "reads", "GET /v1/knowledge/patterns", "knowledge patterns", answer="patterns"),
    Operation("knowledge.add_pattern", "writes", "POST /v1/knowledge/patterns", "knowledge add-pattern"),
    Operation("knowledge.antipatterns", "reads", "GET /v1/knowledge/antipatterns", "knowledge antipatterns", answer="antipatterns"),
    Operation("knowledge.add_antipattern", "writes", "POST /v1/knowledge/antipatterns", "knowledge add-antipattern"),
    Operation("knowledge.facts", "reads", "GET /v1/knowledge/facts", "knowledge facts", answer="facts"),
    Operation("knowledge.add_fact", "writes", "POST /v1/knowledge/facts", "knowledge add-fact"),
    Operation("knowledge.get", "reads", "GET /v1/knowledge/items/{ref}", "knowledge get"),
    Operation("knowledge.use", "writes", "POST /v1/knowledge/items/{ref}/uses", "knowledge use"),
    Operation("knowledge.neighbours", "reads", "GET /v1/knowledge/items/{ref}/neighbours", "knowledge neighbours", answer="neighbours"),
    Operation("knowledge.link", "writes", "POST /v1/knowledge/links", "knowledge link"),
    Operation("knowledge.unlink", "deletes", "DELETE /v1/knowledge/links", "knowledge unlink"),
    Operation("knowledge.path", "reads", "GET /v1/knowledge/path", "knowledge path", answer="path"),
    Operation("knowledge.contradictions", "reads", "GET /v1/knowledge/contradictions", "knowledge contradictions", answer="contradictions"),
    Operation("knowledge.learnings", "reads", "GET /v1/knowledge/learnings", "knowledge learnings", answer="learnings"),
    Operation("knowledge.merge_duplicates", "writes", "POST /v1/knowledge/merges", "knowledge merge-duplicates"),
    # Skills
    Operation("skills.list", "reads", "GET /v1/skills", "skill list", answer="skills"),
    Operation("skills.add", "writes", "POST /v1/skills", "skill add"),
    Operation("skills.search", "reads", "GET /v1/skills/search", "skill search", answer="skills"),
    Operation("skills.get", "reads", "GET /v1/skills/{id}", "skill get"),
    Operation("skills.delete", "deletes", "DELETE /v1/skills/{id}", "skill delete"),
    Operation("skills.record_use", "writes", "POST /v1/skills/{id}/uses", "skill record-use"),
    # Handoffs, ledgers, metrics
    Operation("handoffs.inbox", "reads", "GET /v1/handoffs", "handoff inbox", answer="handoffs"),
    Operation("handoffs.sent", "reads", "GET /v1/handoffs/sent", "handoff sent", answer="handoffs"),
    Operation("handoffs.create", "writes", "POST /v1/handoffs", "handoff create", "handoff"),
    Operation("handoffs.get", "reads", "GET /v1/handoffs/{id}", "handoff get"),
    Operation("handoffs.read", "writes", "POST /v1/handoffs/{id}/reading", "handoff read"),
    Operation("handoffs.accept", "writes", "POST /v1/handoffs/{id}/acceptance", "handoff accept"),
    Operation("handoffs.complete", "writes", "POST /v1/handoffs/{id}/completion", "handoff complete"),
    Operation("handoffs.reassign", "writes", "POST /v1/handoffs/{id}/reassignment", "handoff reassign"),
    Operation("handoffs.reopen", "writes", "POST /v1/handoffs/{id}/reopening", "handoff reopen"),
    Operation("ledgers.list", "reads", "GET /v1/ledgers", "ledger list", answer="ledgers"),
    Operation("ledgers.get", "reads", "GET /v1/ledgers/{agent}", "ledger get"),
    Operation("ledgers.checkpoint", "writes", "POST /v1/ledgers", "ledger checkpoint"),
    Operation("metrics.dashboard", "reads", "GET /v1/metrics/dashboard", "metrics dashboard"),
    Operation("metrics.efficiency", "reads", "GET /v1/metrics/efficiency", "metrics efficiency", answer="tasks"),
    Operation("metrics.rewards", "reads", "GET /v1/metrics/rewards", "metrics rewards", answer="rewards"),
    Operation("metrics.prefer", "writes", "POST /v1/metrics/preferences", "metrics prefer"),
    Operation("consolidate", "writes", "POST /v1/consolidation", "consolidate"),
    # Proposals
    Operation("proposals.list", "reads", "GET /v1/proposals", "proposals list", answer="proposals"),
    Operation("proposals.count", "reads", "GET /v1/proposals/count", answer="count"),
    Operation("proposals.get", "reads", "GET /v1/proposals/{id}", "proposals get"),
    Operation("proposals.accept", "writes", "POST /v1/proposals/{id}/acceptance", "proposals accept"),
    Operation("proposals.refuse", "writes", "POST /v1/proposals/{id}/refusal", "proposals refuse"),
    # Sessions of agents
    Operation("sessions.list", "reads", "GET /v1/sessions", "checkpoint list", answer="sessions"),
    Operation("sessions.state", "reads", "GET /v1/sessions/{session_id}", "checkpoint state"),
    Operation("sessions.save_checkpoint", "writes", "POST /v1/sessions/{session_id}/checkpoints", "checkpoint save", "checkpoint"),
    Operation("sessions.checkpoints", "reads", "GET /v1/sessions/{session_id}/checkpoints", "checkpoint checkpoints", answer="checkpoints"),
    Operation("sessions.checkpoint", "reads", "GET /v1/sessions/{session_id}/checkpoints/{number}", "checkpoint show"),
    Operation("sessions.latest", "reads", "GET /v1/sessions/{session_id}/latest-checkpoint"),
    Operation("sessions.load_latest_checkpoint", "reads", "GET /v1/sessions/{session_id}/latest-state"),
    Operation("sessions.recover", "writes", "POST /v1/sessions/{session_id}/recovery", "recover"),
    Operation("sessions.verify", "reads", "GET /v1/sessions/{session_id}/verification", "checkpoint verify", answer="checkpoints"),
    Operation("sessions.events", "reads", "GET /v1/sessions/{session_id}/events", "checkpoint events", answer="events"),
    Operation("sessions.incidents", "reads", "GET /v1/sessions/{session_id}/incidents", "checkpoint incidents", answer="incidents"),
    Operation("sessions.archive", "reads", "GET /v1/sessions/{session_id}/archive", "checkpoint archive", answer="pruned"),
    Operation("sessions.compress_old_checkpoints", "writes", "POST /v1/sessions/{session_id}/compression", "checkpoint compress-old-checkpoints"),
    Operation("sessions.prune", "writes", "POST /v1/sessions/{session_id}/pruning"),
    Operation("sessions.configuration", "reads", "GET /v1/session-configuration"),
    Operation("sessions.erase", "erases", "POST /v1/sessions/{session_id}/erasure", answer="erased"),
    # Forecasts
    Operation("forecasts.list", "reads", "GET /v1/forecasts", "forecast list", answer="predictions"),
    Operation("forecasts.predict", "writes", "POST /v1/forecasts", "forecast predict"),
    Operation("forecasts.scores", "reads", "GET /v1/forecasts/scores", "forecast scores"),
    Operation("forecasts.learning", "reads", "GET /v1/forecasts/learning"),
    Operation("forecasts.metrics", "reads", "GET /v1/forecasts/metrics"),
    Operation("forecasts.calibrate", "reads", "GET /v1/forecasts/calibration", answer="probability"),
    Operation("forecasts.signals", "reads", "GET /v1/forecasts/signals", answer="signals"),
    Operation("forecasts.received", "reads", "GET /v1/forecasts/received", answer="signals"),
    Operation("forecasts.receive", "writes", "POST /v1/forecasts/received", answer="signals"),
    Operation("forecasts.retry_signals", "writes", "POST /v1/forecasts/signals/retries"),
    Operation("forecasts.expire_due", "writes", "POST /v1/forecasts/expiry", "forecast expire-due", answer="expired"),
    Operation("forecasts.reasoning", "reads", "GET /v1/forecasts/markets/{market_id}"),
    Operation("forecasts.reason", "writes", "POST /v1/forecasts/markets/{market_id}"),
    Operation("forecasts.estimate", "reads", "GET /v1/forecasts/markets/{market_id}/estimate", answer="probability"),
    Operation("forecasts.get", "reads", "GET /v1/forecasts/{prediction_id}", "forecast get"),
    Operation("forecasts.history", "reads", "GET /v1/forecasts/{prediction_id}/history", "forecast history", answer="versions"),
    Operation("forecasts.revise", "writes", "POST /v1/forecasts/{prediction_id}/revisions", "forecast revise"),
    Operation("forecasts.resolve", "writes", "PUT /v1/forecasts/{prediction_id}/resolution", "forecast resolve"),
    Operation("forecasts.expire", "writes", "POST /v1/forecasts/{prediction_id}/expiry", "forecast expire"),
    Operation("forecasts.signal", "writes", "POST /v1/forecasts/{prediction_id}/signals"),
    # Trust
    Operation("trust.filed", "reads", "GET /v1/trust/dissents", "trust filed", answer="dissents"),
    Operation("trust.file_dissent", "writes", "POST /v1/trust/dissents", "trust file-dissent"),
    Operation("trust.log_dissent", "writes", "POST /v1/trust/dissents/logged", "trust log-dissent"),
    Operation("trust.judge", "writes", "PUT /v1/trust/dissents/{id}/judgement", "trust judge"),
    Operation("trust.dissent_depth", "reads", "POST /v1/trust/dissent-depth", answer="depth"),
    Operation("trust.log_override", "writes", "POST /v1/trust/overrides", "trust log-override"),
    Operation("trust.revert", "writes", "POST /v1/trust/overrides/{id}/reversal", "trust revert"),
    Operation("trust.check_reverts", "writes", "POST /v1/trust/overrides/check", "trust check-reverts"),
    Operation("trust.agents", "reads", "GET /v1/trust/agents", "trust agents", answer="agents"),
    Operation("trust.register", "writes", "POST /v1/trust/agents", "trust register"),
    Operation("trust.score", "reads", "GET /v1/trust/agents/{agent}", "trust score", "trust"),
    Operation("trust.history", "reads", "GET /v1/trust/agents/{agent}/history", "trust history", answer="changes"),
    Operation("trust.standing", "reads", "GET /v1/trust/agents/{agent}/aggregate"),
    Operation("trust.diversity", "reads", "GET /v1/trust/agents/{agent}/diversity", "trust diversity"),
    Operation("trust.eligibility", "reads", "GET /v1/trust/agents/{agent}/eligibility", "trust eligibility"),
    Operation("trust.set_probation", "writes", "PUT /v1/trust/agents/{agent}/probation", "trust set-probation"),
    Operation("trust.rebuild", "writes", "POST /v1/trust/agents/{agent}/rebuild"),
    Operation("trust.check", "reads", "GET /v1/trust/findings", "trust check", answer="findings"),
    Operation("trust.participate", "writes", "POST /v1/trust/rounds/{round_id}/participations", "trust participate"),
    Operation("trust.assign_devils_advocate", "writes", "POST /v1/trust/advocates", "trust assign-devils-advocate"),
    Operation("trust.predict", "reads", "GET /v1/trust/prediction", "trust predict"),
    Operation("trust.weigh", "reads", "POST /v1/trust/weights"),
    Operation("trust.metrics", "reads", "GET /v1/trust/metrics", "trust metrics"),
    Operation("trust.controversy", "reads", "GET /v1/trust/controversy", "trust controversy", answer="controversies"),
    Operation("trust.influence", "reads", "GET /v1/trust/influence", "trust influence"),
    # Rubrics
    Operation("trust.rubric.proposals", "reads", "GET /v1/rubrics/proposals", "trust rubric proposals", answer="proposals"),
    Operation("trust.rubric.apply", "writes", "POST /v1/rubrics/proposals/{id}/application", "trust rubric apply"),
    Operation("trust.rubric.reject", "writes", "POST /v1/rubrics/proposals/{id}/rejection", "trust rubric reject"),
    Operation("trust.rubric.effect", "reads", "GET /v1/rubrics/proposals/{id}/effect"),
    Operation("trust.rubric.get", "reads", "GET /v1/rubrics/{name}", "trust rubric get"),
    Operation("trust.rubric.set", "writes", "PUT /v1/rubrics/{name}", "trust rubric set"),
    Operation("trust.rubric.versions", "reads", "GET /v1/rubrics/{name}/versions", "trust rubric versions", answer="versions"),
    Operation("trust.rubric.propose", "writes", "POST /v1/rubrics/{name}/proposals", "trust rubric propose", answer="proposals"),
    # The knowledge graph of the reference MCP memory server
    Operation("graph.read_graph", "reads", "GET /v1/entities"),
    Operation("graph.search_nodes", "reads", "GET /v1/entities/search"),
    Operation("graph.open_nodes", "reads", "GET /v1/entities/named"),
    Operation("graph.create_entities", "writes", "POST /v1/entities", answer="entities"),
    Operation("graph.create_relations", "writes", "POST /v1/entities/relations", answer="relations"),
    Operation("graph.add_observations", "writes", "POST /v1/entities/observations", answer="observations"),
    Operation("graph.delete_entities", "deletes", "DELETE /v1/entities"),
    Operation("graph.delete_relations", "deletes", "DELETE /v1/entities/relations"),
    Operation("graph.delete_observations", "deletes", "DELETE /v1/entities/observations"),
    # The log
    Operation("journal.read", "reads", "GET /v1/records", "log", answer="records"),
    Operation("journal.find", "reads", "GET /v1/records/search", answer="matches"),
    Operation("journal.write", "writes", "POST /v1/records"),
    Operation("journal.get", "reads", "GET /v1/records/{scope}/{kind}/{id}", "show"),
    Operation("journal.history", "reads", "GET /v1/records/{scope}/{kind}/{id}/history", "history", "history", answer="versions"),
    Operation("journal.neighbours", "reads", "GET /v1/records/{scope}/{kind}/{id}/links", answer="links"),
    Operation("journal.delete", "deletes", "DELETE /v1/records/{scope}/{kind}/{id}"),
    Operation("journal.tally", "reads", "GET /v1/journal/tally", answer="kinds"),
    Operation("journal.tip", "reads", "GET /v1/journal/tip", answer="tip"),
    Operation("journal.undo", "deletes", "POST /v1/journal/undo", "undo"),
    Operation("journal.quarantine", "writes", "POST /v1/journal/quarantines", "quarantine"),
    Operation("journal.quarantined", "reads", "GET /v1/journal/quarantines", answer="quarantines"),
    Operation("journal.release", "writes", "DELETE /v1/journal/quarantines/{author}", "release"),
    Operation("journal.erase", "erases", "POST /v1/journal/erasures", "erase"),
    Operation("journal.verify", "reads", "POST /v1/journal/verification", "verify"),
    Operation("journal.compact", "erases", "POST /v1/journal/compaction", "compact"),
    # Background work
    Operation("jobs.list", "reads", "GET /v1/jobs", "jobs", answer="jobs"),
    Operation("jobs.defer", "writes", "POST /v1/jobs"),
    Operation("jobs.status", "reads", "GET /v1/jobs/status"),
    Operation("jobs.result", "reads", "GET /v1/jobs/{id}/result"),
    Operation("jobs.retry", "writes", "POST /v1/jobs/{id}/retry"),
    Operation("jobs.drop", "deletes", "DELETE /v1/jobs/{id}"),
)
"""All operations, by service; within HTTP the more exact path comes first."""
# fmt: on
