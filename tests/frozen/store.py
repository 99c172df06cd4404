"""Build one store through the public calls of every service, and write down all that a caller can see of it.

Run as ``python store.py FOLDER``. The same bytes come out on every run: time, ids and randomness are injected, the
embedder is the one that hashes, and tokens are estimated by length, whatever tokenizer is installed. The tests run this
in a separate process, so that neither the environment nor other tests have an effect on it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.modules["rs_bpe"] = None  # type: ignore[assignment]  # counts tokens by length, also where the extra is installed
for variable in [name for name in os.environ if name.startswith(("LUKASA_", "VOXSIGIL_"))]:
    del os.environ[variable]

import lukasa  # noqa: E402
from lukasa.jobs import TaskRegistry  # noqa: E402
from lukasa.memory_graph import Entity, Relation  # noqa: E402
from lukasa.testing import CountingIds, FrozenClock  # noqa: E402

BEGINNING = datetime(2025, 3, 10, 9, tzinfo=UTC)  # long ago, so that no window of 90 days reaches the present
NONCE = re.compile(r"(<lukasa |same word as here: |</lukasa )[0-9a-f]{16}")
QUESTIONS = (
    "Which database does the project use?",
    "What does Anna prefer?",
    "When is the release planned?",
    "How do I implement a new API endpoint?",
    "Who maintains the billing service?",
)
SKILL = """# Skill: API Endpoint

## Prerequisites
- The specification is agreed

## Steps
1. Read the spec
2. Write the handler
3. Run the tests

## Common Errors & Fixes
- Missing return type: add it

## Exit Criteria
- All tests pass
"""


class Clock(FrozenClock):
    """A clock that the script advances."""

    def tick(self, seconds: float = 1.0) -> None:
        """Advance the time."""
        self.advance(seconds)


def kept(outcome: Any) -> Any:
    """Return an outcome that must be accepted."""
    assert outcome, outcome
    return outcome


def open_store(path: Path, clock: FrozenClock, **options: Any) -> Any:
    """Open a store with a fixed clock, ids and randomness."""
    return lukasa.open(path, clock=clock, new_id=CountingIds(), embedder="hash", rng=random.Random(7), **options)


def fill(memory: Any, clock: Clock) -> None:
    """Write something with every service."""
    for service in (
        fill_vault,
        hold_conversations,
        keep_sessions,
        gather_experience,
        hand_over_work,
        make_predictions,
        record_trust,
        build_graph,
        run_jobs,
        take_back,
    ):
        service(memory, clock)
        clock.tick(60)


def fill_vault(memory: Any, clock: Clock) -> None:
    """Keep memories, registers, notes, directives and ticks; change and delete some."""
    vault = memory.vault
    mission = kept(vault.add_memory("Mission: stabilise the runtime, add tools in layers", "shared", "mission")).record
    clock.tick()
    kept(vault.add_memory("The project database is PostgreSQL 16 in Frankfurt", tags=("database", "infra")))
    kept(vault.add_memory("Anna prefers short answers without small talk", category="people", source="chat"))
    kept(vault.add_memory("Billing invoices are kept for ten years", category="rule"))
    clock.tick()
    for projects in ("dashboard", "dashboard, email integration", "dashboard, email integration, billing"):
        kept(
            vault.add_memory(f"Projects: {projects}", "shared", "project", tier="register", topic_id="current_projects")
        )
        clock.tick()
    kept(
        vault.update_by_topic("release", "shared", "The release is planned for 4 April 2025", "project", tags=("date",))
    )
    clock.tick()
    kept(vault.update_by_topic("release", "shared", "The release is planned for 11 April 2025"))
    kept(vault.update(mission.id, "Mission: stabilise the runtime first, then add tools in layers", tags=("goal",)))
    clock.tick()
    gone = kept(vault.add_memory("The office plant is watered by the facility team")).record
    kept(vault.delete(gone.id))
    added = vault.bulk_add(
        [
            "Deployments happen on Tuesdays only",
            {"text": "Grafana shows the error budget of each service", "category": "tool", "tags": ["metrics"]},
            "tick marker for burst 5",
            "Deployments happen on Tuesdays only.",
        ]
    )
    assert [bool(each) for each in added] == [True, True, False, False], added
    clock.tick()
    voiced = kept(vault.update_by_topic("style", "shared", "Code reviews need two approvals", author="ada")).record
    kept(vault.corroborate(voiced.id, author="ben"))
    clock.tick()
    kept(vault.promote_to_canon(voiced.id, "Code reviews need two approvals"))
    promoted = kept(vault.update_by_topic("tone", "shared", "Commit messages use the imperative mood")).record
    kept(vault.promote_to_canon(promoted.id, by="Ada"))
    clock.tick()
    kept(vault.note("Staging: https://staging.example.org"))
    dropped = kept(vault.note("Lunch is at noon")).record
    kept(vault.delete(dropped.id))
    kept(vault.directive("Never deploy on a Friday", "shared"))
    kept(vault.add_tick("heartbeat received from node 3"))
    clock.tick()
    kept(vault.add_tick("runtime snapshot: 40 % load"))
    clock.tick()
    orion = memory.as_agent("orion")
    kept(orion.vault.add_memory("Orion keeps its scratch files under build/tmp", "orion", "tool"))
    kept(orion.vault.directive("Orion answers in English"))


def hold_conversations(memory: Any, clock: Clock) -> None:
    """Hold conversations, with tasks, tools, facts, compaction, a fork, a deletion and settings."""
    context = memory.context
    kept(context.append("talk", "user", "We decided to use PostgreSQL 16. I prefer short answers.", speaker="Anna"))
    clock.tick()
    kept(context.append("talk", "assistant", "Noted. The schema is in src/schema.sql.", token_count=9))
    clock.tick()
    kept(context.configure("talk", entries=12, keep=6, summary_tokens=200))
    for number in range(1, 13):
        clock.tick(5)
        kept(
            context.append(
                "talk", "user", f"Step {number}: please update module number {number} of the billing service."
            )
        )
        kept(
            context.append(
                "talk",
                "assistant",
                f"Module {number} is updated in src/billing/part_{number}.py.",
                tool_calls=[{"id": f"call-{number}", "name": "file_write"}],
            )
        )
    kept(context.append("talk", "tool", "ok", tool_call_id="call-12", extra={"exit": 0}))
    kept(context.append("talk", "user", "When is the release?", speaker="Anna", key="asked-once"))
    kept(context.append("talk", "user", "When is the release?", speaker="Anna", key="asked-once"))
    clock.tick()
    kept(context.task("talk", "t1", "Write the schema", progress=0.5))
    kept(context.task("talk", "t2", "Write the tests", status="completed", progress=1.0))
    kept(context.tool_call("talk", "file_write", count=3))
    kept(context.tool_call("talk", "run_test", failed=True))
    kept(context.usage("talk", input=1200, output=340))
    kept(context.environment("talk", "/srv/billing", snapshot={"branch": "main"}))
    kept(context.add_fact("talk", "The billing service is maintained by Ben"))
    clock.tick()
    loaded = context.load("talk")
    loaded.system_state["last_workspace"] = "/srv/billing"
    kept(context.save(loaded))
    kept(context.compact("talk", keep=4))
    clock.tick()
    kept(
        context.extend(
            "other",
            [
                {
                    "role": "user",
                    "content": "My name is Carla and I live in Lisbon.",
                    "timestamp": "2025-03-09T08:00:00Z",
                },
                {"role": "assistant", "content": "Hello Carla."},
            ],
        )
    )
    kept(context.fork("other", "other-2"))
    kept(context.append("short", "user", "Forget this conversation."))
    kept(context.delete("short"))


def keep_sessions(memory: Any, clock: Clock) -> None:
    """Keep the state of sessions: changes, checkpoints, a crash with recovery, pruning, closing."""
    session = memory.sessions.start("demo", agent_type="forecaster")
    made = {"created_at": "2025-03-10T09:00:00Z", "status": "active"}
    for number in (1, 2):
        clock.tick()
        prediction = {"prediction_id": f"pred-{number}", "market_id": "release", "probability": 0.6, **made}
        kept(session.update("/active_predictions/-", prediction))
    kept(session.update("/active_predictions/pred-1/probability", 0.65))
    clock.tick()
    kept(session.update_prediction("pred-1", 0.9))
    kept(session.patch([{"op": "add", "path": "/learning_state/notes", "value": ["calm"]}]))
    clock.tick()
    kept(session.checkpoint())
    kept(session.update("/configuration/confidence_threshold", 0.8))
    clock.tick()
    kept(session.update("/reasoning_cache/release", {"base_rate": 0.4, "factors": []}))
    session.abandon()
    clock.tick(60)
    session = memory.sessions.start("demo")
    session.prune()
    session.sync()
    clock.tick(60)
    session.close()
    clock.tick()
    state = {"metadata": {"agent_id": "orion", "version": "1.0.0"}, "unknown": {"kept": True}}
    kept(memory.sessions.save_checkpoint(state, "Odd Name/1"))
    running = memory.sessions.start("crashed")
    kept(running.update("/learning_state/step", 1))
    running.abandon()


def gather_experience(memory: Any, clock: Clock) -> None:
    """Record episodes with errors, keep knowledge with links, skills and preferences, and consolidate."""
    for agent, thing in (("eng-001", "todos"), ("eng-002", "users"), ("eng-001", "orders")):
        with memory.episodes.start(
            f"Implement POST /api/{thing} endpoint", agent=agent, task_id=f"task-{thing}"
        ) as run:
            clock.tick(10)
            kept(run.step("read_file", target="openapi.yaml"))
            clock.tick(10)
            kept(run.step("write_file", target=f"src/routes/{thing}.ts"))
            kept(run.error("TypeScript", "Missing return type", resolution="Add `: void` to the handler"))
            clock.tick(10)
            kept(run.step("run_test", result="pass"))
    failed = kept(
        memory.episodes.record(
            "Fix the login page",
            outcome="failure",
            agent="qa-001",
            timestamp="2025-02-01T08:00:00Z",
            duration_seconds=120,
            context={"phase": "test", "files_involved": ["src/login.ts"]},
            action_log=[{"t": 0, "action": "read_logs"}, {"t": 40, "action": "edit_file"}],
            errors=[{"type": "Timeout", "message": "Login took 30 seconds", "resolution": ""}],
            artifacts=["report.md"],
            git_commit="abc1234",
            extra={"mood": "tense"},
        )
    ).record
    kept(memory.episodes.record("Tidy the backlog", agent="pm-001", timestamp="2025-01-05T08:00:00Z"))
    memory.episodes.start("Migrate the billing data", agent="eng-001", task_id="task-billing")
    clock.tick(60)
    fields = {
        "category": "database",
        "conditions": ["a schema changes"],
        "correct_approach": "migration, then model",
        "incorrect_approach": "model first",
    }
    first = kept(memory.knowledge.add_pattern("Write the migration before the model", confidence=0.8, **fields)).record
    second = kept(memory.knowledge.add_pattern("Write a migration before the model", confidence=0.7, **fields)).record
    third = kept(memory.knowledge.add_pattern("Keep handlers thin", confidence=0.9)).record
    fact = kept(memory.knowledge.add_fact("The API runs on port 8080")).record
    kept(
        memory.knowledge.add_antipattern(
            "Editing generated files", why="They are overwritten", prevention="Edit the source"
        )
    )
    kept(memory.knowledge.link(first.id, "elaborates", third.id))
    kept(memory.knowledge.link(third.id, "contradicts", fact.id))
    kept(memory.knowledge.unlink(third.id, "contradicts", fact.id))
    kept(memory.knowledge.link(third.id, "related_to", fact.id))
    clock.tick()
    kept(memory.knowledge.use(first.id))
    merged = memory.knowledge.merge_duplicates(0.8)
    assert set(merged.into) == {first.id}, merged
    assert second.id in merged.into[first.id]
    clock.tick()
    skill = kept(memory.skills.add(SKILL)).record
    kept(memory.skills.record_use(skill.id, True))
    kept(memory.skills.record_use(skill.id, False))
    other = kept(memory.skills.add("# Skill: Old Way\n\n## Steps\n1. Guess\n")).record
    kept(memory.skills.delete(other.id))
    clock.tick()
    assert memory.consolidate(dry_run=True).proposals
    memory.consolidate(skills=True)
    clock.tick()
    kept(memory.metrics.prefer(failed.id, -0.5, note="The customer was upset"))
    memory.episodes.prune()
    kept(memory.episodes.restore(failed.id))


def hand_over_work(memory: Any, clock: Clock) -> None:
    """Keep ledgers and pass work on."""
    kept(memory.ledgers.checkpoint("eng-001", current_task="task-billing", completed=3, state={"files": 2}))
    clock.tick()
    kept(memory.ledgers.checkpoint("eng-001", completed=1, context={"goal": "Migrate the billing data"}))
    kept(memory.ledgers.put({"agent_id": "qa-001", "tasks_completed": 7, "last_checkpoint": "2025-03-01T00:00:00Z"}))
    clock.tick()
    handed = kept(
        memory.handoffs.create(
            "qa-001",
            "Implemented the endpoint",
            from_agent="eng-001",
            artifacts=["src/routes/todos.ts"],
            git_state="main@abc1234",
            needs_testing=["errors"],
            known_issues=["slow"],
            relevant_patterns=["sem-001"],
        )
    ).record
    kept(memory.handoffs.read(handed.id))
    clock.tick()
    kept(memory.handoffs.accept(handed.id, "qa-001"))
    kept(memory.handoffs.complete(handed.id, "All green"))
    moved = kept(memory.handoffs.create("eng-002", "Started the report", from_agent="pm-001")).record
    kept(memory.handoffs.reassign(moved.id, "eng-003"))
    kept(memory.handoffs.accept(moved.id, "eng-003"))
    kept(memory.handoffs.reopen(moved.id))


def make_predictions(memory: Any, clock: Clock) -> None:
    """Predict, revise, signal, reason, resolve and expire, for the owner and for an agent."""
    orion, vega = memory.as_agent("orion").forecasts, memory.as_agent("vega").forecasts
    kept(
        orion.predict(
            "Will the release ship by Friday?",
            0.6,
            market_id="release",
            prediction_id="ship",
            confidence_interval=(0.5, 0.7),
            confidence_level=0.8,
            category="releases",
            due=clock.now() + timedelta(days=4),
        )
    )
    clock.tick()
    kept(orion.revise("ship", 0.8))
    kept(
        orion.reason(
            "release", base_rate=0.4, factors={"tests are green": 0.15}, evidence=[{"source": "CI", "credibility": 0.9}]
        )
    )
    kept(orion.signal("ship", confidence=0.9))
    clock.tick()
    assert len(vega.receive()) == 1
    orion.retry_signals()
    kept(orion.predict("Will it rain?", 0.4, prediction_id="rain", due=clock.now() + timedelta(seconds=5)))
    kept(orion.predict("Will the tests pass?", 0.9, category="builds"))
    clock.tick(10)
    assert orion.expire_due() == ["rain"]
    kept(orion.resolve("ship", True))
    for number in range(4):
        kept(
            memory.forecasts.predict(
                f"Will build {number} pass?", 0.75, prediction_id=f"build-{number}", category="builds"
            )
        )
        clock.tick()
        kept(memory.forecasts.resolve(f"build-{number}", number != 2))
    kept(memory.forecasts.predict("Will build 9 pass?", 0.7, prediction_id="build-9"))
    kept(memory.forecasts.expire("build-9"))


def record_trust(memory: Any, clock: Clock) -> None:
    """Log dissents and overrides, judge and revert them, draw an advocate, and change the rubric."""
    trust = memory.trust
    for agent, role in (("creator", "creator"), ("critic-1", "reviewer"), ("critic-2", "reviewer")):
        kept(trust.register(agent, model="m-1", primary_role=role))
    for number in range(1, 6):
        kept(trust.participate(["creator", "critic-1"], f"round-{number}"))
        clock.tick()
    text = "The decision to use GraphQL ignores the REST tooling that every client of ours already depends on today."
    kept(
        trust.log_dissent(
            "critic-1",
            text,
            round_id="round-1",
            rubric_citations=["Accuracy", "Completeness"],
            impact=True,
            feedback_incorporated=True,
            context={"task": "API"},
            of="creator",
        )
    )
    clock.tick()
    open_ = kept(trust.log_dissent("critic-2", "Nobody owns the old clients once the new API is live", of="creator"))
    clock.tick()
    kept(trust.judge(open_.records[0].id, impact=False))
    filed = kept(
        memory.as_agent("critic-3").trust.file_dissent("The budget is missing in the plan", round_id="round-2")
    )
    kept(trust.judge(filed.records[0].id, impact=True))
    clock.tick()
    kept(trust.rubric.set({"Accuracy": 2, "Completeness": 1, "Clarity": 1}, by="ada"))
    held = [
        kept(
            trust.log_override(
                "creator", "Use GraphQL", "Stay with REST", by="ada", round_id=f"round-{number}", criteria=["Accuracy"]
            )
        )
        for number in range(1, 5)
    ]
    clock.tick()
    proposals = trust.rubric.propose()
    kept(trust.rubric.apply(proposals[0].id, by="ada"))
    clock.tick()
    kept(trust.revert(held[0].records[0].id, by="ben"))
    clock.tick(25 * 3600)  # an override is checked after a day
    assert len(kept(trust.check_reverts("round-2", "Use GraphQL")).records) > 0
    kept(trust.set_probation("critic-2", clock.now() + timedelta(days=3), reason="odd answers", by="ada"))
    kept(trust.assign_devils_advocate(["creator", "critic-1", "critic-2"], round_id="round-6"))
    kept(trust.assign_devils_advocate(["creator", "critic-1", "critic-2"], seed=7))
    document = {
        "agent_name": "Visitor 1",
        "model": "m-0",
        "primary_role": "guest",
        "trust_score": 0.7,
        "favourite": "tea",
    }
    kept(trust.adopt(document))


def build_graph(memory: Any, clock: Clock) -> None:
    """Make entities, observations and relations, and delete some of each."""
    graph = memory.graph
    kept(
        graph.create_entities(
            [
                Entity("Billing", "service", ("Runs on port 8081", "Is written in Go")),
                Entity("Ben", "person", ("Maintains the billing service",)),
                Entity("Old API", "service"),
            ]
        )
    )
    clock.tick()
    kept(graph.create_relations([Relation("Ben", "Billing", "maintains"), Relation("Old API", "Billing", "calls")]))
    kept(graph.add_observations([("Billing", ["Has 12 modules"])]))
    clock.tick()
    kept(graph.delete_observations([("Billing", ["Is written in Go"])]))
    kept(graph.delete_relations([Relation("Old API", "Billing", "calls")]))
    kept(graph.delete_entities(["Old API"]))


def run_jobs(memory: Any, clock: Clock) -> None:
    """Defer jobs, do one, let one fail, and leave one waiting."""

    def remember(lent: Any, text: str) -> None:
        kept(lent.journal.write("note", text))

    def fail(lent: Any) -> None:
        raise ValueError("This job never works.")

    register = TaskRegistry()
    register.job("frozen.remember")(remember)
    register.job("frozen.fail", attempts=1)(fail)
    jobs = memory.jobs.serving(register)
    kept(jobs.defer("frozen.remember", key="once", text="A job wrote this"))
    kept(jobs.defer("frozen.remember", key="once", text="A job wrote this"))
    kept(jobs.defer("frozen.fail"))
    clock.tick()
    jobs.run_waiting()
    kept(jobs.defer("frozen.remember", delay=3600, text="A job will write this"))
    jobs.close()


def take_back(memory: Any, clock: Clock) -> None:
    """Write plain records, then undo, quarantine, release and erase."""
    journal = memory.journal
    first = kept(
        journal.write("note", "Plain note", labels=("topic=plain",), body={"b": 2, "a": [1, 2.5, None]})
    ).record
    clock.tick()
    kept(journal.write("note", "Plain note, changed", id=first.id, expected=1, origin="chat"))
    link = lukasa.Link("derived_from", first.key)
    moment = datetime(2025, 1, 1, 12, 0, 0, 250000, tzinfo=UTC)
    kept(journal.write("note", "Drawn from it", links=(link,), happened_at=moment, author="drawer"))
    kept(
        journal.append(
            [lukasa.Draft("note", "one", scope="orion"), lukasa.Draft("note", "two 日本語 “quoted”")], key="pair"
        )
    )
    clock.tick()
    kept(journal.write("note", "Mistake one", author="mallory", labels=("run=bad",)))
    kept(journal.write("note", "Mistake two", id=first.id, author="mallory", labels=("run=bad",)))
    clock.tick()
    assert len(journal.undo(label="run=bad").reverted) == 2
    kept(journal.write("note", "Rumour about the release", author="mallory"))
    kept(journal.quarantine("mallory", reason="writes rumours"))
    clock.tick()
    kept(journal.write("note", "Trusted again", author="trent"))
    kept(journal.quarantine("trent"))
    kept(journal.release("trent"))
    gone = kept(journal.write("note", "Please erase Zoe from everything")).record
    kept(journal.write("note", "Something about Zoe too", links=(lukasa.Link("derived_from", gone.key),)))
    clock.tick()
    journal.erase(gone.key, reason="asked for")
    kept(memory.vault.add_tick("check-in after the erasure"))
    deleted = kept(journal.write("note", "To be deleted")).record
    kept(journal.delete(deleted.key))


def command(*arguments: str) -> str:
    """Run a command of the command line in this process, and give what it prints."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["scripts"]["lukasa"].partition(":")
    main = getattr(__import__(module, fromlist=[function]), function)
    before, sys.argv = sys.argv, ["lukasa", *arguments]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before
    return printed.getvalue()


def prompts(memory: Any, folder: Path) -> None:
    """Write the blocks that go into prompts, and the answers of recall. A fence's word is new each time: see NONCE."""
    folder.mkdir()

    def write(name: str, text: str) -> None:
        (folder / name).write_bytes(NONCE.sub(r"\g<1>NONCE", text).encode())

    vault = memory.vault
    write("vault_snapshot.md", vault.build_snapshot("shared"))
    write("vault_snapshot_small.md", vault.build_snapshot("shared", budget=60))
    write("vault_snapshot_block.txt", vault.build_snapshot_block().text)
    for number, question in enumerate(QUESTIONS[:3], 1):
        block = vault.build_memory_block(query=question)
        write(f"vault_memory_block_{number}.txt", f"{block.text}\n[{block.told} told, cut: {block.cut}]\n")
    small = vault.build_memory_block(query=QUESTIONS[0], budget=150)
    write("vault_memory_block_small.txt", f"{small.text}\n[{small.told} told, cut: {small.cut}]\n")
    for name, budget in (("whole", 4000), ("tight", 300)):
        prompt = memory.context.assemble("talk", budget, query="Who maintains the billing service?")
        write(f"conversation_{name}.txt", prompt.text)
        facts = {
            "tokens": prompt.tokens,
            "counted_by": prompt.counted_by,
            "messages": prompt.messages,
            "recent": prompt.recent,
            "older": prompt.older,
            "facts": prompt.facts,
            "left_out": prompt.left_out,
            "shortened": prompt.shortened,
        }
        write(f"conversation_{name}.json", as_json(facts))
    task = {"goal": "Implement PUT /api/invoices endpoint", "type": "implementation", "action_type": "write_file"}
    briefing = memory.before_task(task)
    write("before_task.json", as_json({"task": briefing.task, "context": briefing.context}))
    write("before_task_budget.json", as_json(memory.before_task("Fix the login page", budget=200).context))
    relevant = memory.retrieve_relevant_memory("Implement PUT /api/invoices endpoint")
    entries = [(entry.id, round(entry.score, 6), round(entry.likeness, 6), entry.line) for entry in relevant.entries]
    write("relevant_memory.json", as_json(entries))
    page = folder / "CONTINUITY.md"
    page.write_text(
        "# My page\n\nWords of my own.\n\n## Current Goal\nold goal\n\n## Mine\n- stays\n", encoding="utf-8"
    )
    memory.continuity.update(page, agent="eng-001")
    memory.continuity.update(folder / "CONTINUITY_new.md", goal="Implement PUT /api/invoices endpoint")
    hits: dict[str, Any] = {}
    for question in QUESTIONS:
        recalled = memory.recall(question, k=6)
        hits[question] = {
            "hits": [
                [f"{hit.record.scope}/{hit.record.kind}/{hit.record.id}", hit.record.text[:60], round(hit.score, 4)]
                for hit in recalled.hits
            ],
            "signals": sorted({", ".join(signal.name for signal in hit.signals) for hit in recalled.hits}),
            "dropped": [f"{hit.record.scope}/{hit.record.kind}/{hit.record.id}" for hit in recalled.dropped],
            "unindexed": recalled.unindexed,
            "note": recalled.note,
        }
    write("recall.json", as_json(hits))
    found = {
        profile: [
            (each.memory.text, round(each.score, 4)) for each in vault.search("release date", k=4, profile=profile)
        ]
        for profile in ("hybrid", "lexical")
    }
    write("vault_search.json", as_json(found))


def as_json(value: Any) -> str:
    """Return a value as JSON text."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def answers(memory: Any) -> str:
    """Return what the services compute from the store, as JSON text."""
    trust = memory.trust
    scores = {name: trust.score(name) for name in trust.agents()}
    whole = memory.metrics.dashboard(days=60).as_json()
    found = {
        "trust": {
            name: {
                "trust": round(score.trust, 9),
                "raw": round(score.raw, 9),
                "low": round(score.low, 9),
                "high": round(score.high, 9),
                "events": score.events,
                "impact_ratio": score.impact_ratio,
                "mean_depth": round(score.mean_depth, 9),
                "regret_ratio": score.regret_ratio,
                "why": list(trust.eligibility(name).why),
                "why_flagged": trust.diversity(name).why,
            }
            for name, score in scores.items()
        },
        "weigh": round(trust.weigh({"critic-1": 1.0, "creator": 0.0}).value, 9),
        "controversy": [(each.what, each.name, each.overrides, each.reverts) for each in trust.controversy()],
        "predicted": [(each.agent, round(each.expected, 6)) for each in trust.predict("the API").prospects],
        "rubric": [(each.version, each.changed_by, dict(each.criteria)) for each in trust.rubric.versions()],
        "findings": len(list(trust.check())),
        "forecasts": memory.forecasts.metrics(),
        "forecast sections": memory.forecasts.sections(),
        "learning": memory.forecasts.learning().why,
        "metrics": {**whole, "days": [day for day in whole["days"] if day["episodes"]]},
        "efficiency": [
            (each.task, each.attempts, each.retries, each.seconds) for each in memory.metrics.efficiency(60)
        ],
        "rewards": [(each.episode, round(each.total, 9)) for each in memory.metrics.rewards(60)],
        "vault": memory.vault.vault_stats(),
        "candidates": [
            (each.one.text, each.other.text, round(each.score, 6))
            for each in memory.vault.find_consolidation_candidates()
        ],
        "deletions": [(each.code, each.memory.text) for each in memory.vault.propose_deletions()],
        "ticks": [each.text for each in memory.vault.ticks()],
        "sessions": [(each.id, each.scope, each.status, each.number) for each in memory.sessions.list()],
        "events": memory.sessions.events("demo"),
        "incidents": memory.sessions.incidents("demo"),
        "jobs": [(each.name, each.state, each.attempts, each.error) for each in memory.jobs.list()],
        "tally": [(each.scope, each.kind, each.live, each.versions) for each in memory.journal.tally()],
        "inbox": [(each.id, each.status) for each in memory.handoffs.inbox("eng-003")],
        "ledgers": [each.as_json() for each in memory.ledgers.list()],
        "contradictions": [
            tuple(getattr(each, name) for name in ("what", "relation")) for each in memory.knowledge.contradictions()
        ],
        "verified": memory.verify().sound,
    }
    return as_json(found)


def layouts(memory: Any, folder: Path) -> None:
    """Write the layouts that the library itself writes."""
    folder.mkdir()
    memory.export(folder / "loki", format="loki")
    memory.export(folder / "memory.json", format="memory-graph")
    agents = {name: memory.trust.agent(name).as_json() for name in memory.trust.agents()}
    (folder / "agents.json").write_text(as_json(agents), encoding="utf-8")


def exported(store: Path, folder: Path) -> None:
    """Write the layouts that only the command line writes."""
    options = ("--store", str(store))
    command(*options, "vault", "export", str(folder / "vault.jsonl"))
    command(*options, "checkpoint", "export", "demo", str(folder / "session_demo.json"))
    (folder / "context").mkdir()
    command(*options, "context", "export", "talk", str(folder / "context"))
    (folder / "context_whole").mkdir()
    command(*options, "context", "export", "talk", str(folder / "context_whole"), "--all")
    command(*options, "context", "export", "other", str(folder / "context"))
    command(*options, "trust", "export", str(folder / "memory"))


def build(folder: Path) -> None:
    """Build the store and write everything that is frozen into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "memory.db"
    clock = Clock(BEGINNING)
    with open_store(store, clock) as memory:
        fill(memory, clock)
        clock.tick(3600)
        memory.export(folder / "log.jsonl")
        prompts(memory, folder / "prompts")
        (folder / "answers.json").write_text(answers(memory), encoding="utf-8")
        layouts(memory, folder / "layouts")
        memory.export(folder / "log_again.jsonl")
    exported(store, folder / "layouts")
    with open_store(store, clock) as memory:
        memory.compact()
        memory.export(folder / "log_compacted.jsonl")
        orion = memory.as_agent("orion")
        orion.export(folder / "log_of_an_agent.jsonl")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
