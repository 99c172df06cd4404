"""One of everything in a store, and the ids by which requests reach it."""

from __future__ import annotations

from collections.abc import Mapping

from lukasa.experience.consolidation.jobs import TASK_NAME
from lukasa.memory import Memory
from support.narrow import present


def seed_store(owner: Memory, agent: str) -> Mapping[str, Mapping[str, object]]:
    """Write one of everything as an agent or, for "", as the owner. Return parameters by a pattern of their paths.

    What a request ends or deletes is not what the others use.
    """
    own = owner.as_agent(agent) if agent else owner
    name = agent or "eng-001"
    facts = (
        ("Deploys run on Tuesdays after the review.", "The gateway caches answers for an hour.")
        if agent
        else ("Backups are kept for thirty days in the cellar.", "The printer needs cyan toner.")
    )
    fact, old_fact = (own.remember(text, topic=text[:12]).unwrap() for text in facts)
    episode, last_episode = (own.episodes.start(goal, agent=name) for goal in ("Fix the login page", "Move the queue"))
    for ref, text in (
        (f"cache-{name}", f"The cache of {name} runs on port 6379"),
        (f"queue-{name}", f"The queue of {name} runs on port 6380"),
    ):
        own.knowledge.add_fact(text, id=ref)
    own.knowledge.link(f"cache-{name}", "related_to", f"queue-{name}")
    for skill in (f"deploy-{name}", f"restore-{name}"):
        own.skills.add(f"# Step by step: {skill}\n\n## Steps\n\n1. Stop the workers\n2. Run {skill}\n", id=skill)
    handoffs = [
        own.handoffs.create(name, f"Form {number} of {name} is done; test it.", from_agent=name).unwrap().id
        for number in range(4)
    ]
    own.handoffs.read(handoffs[1])
    own.ledgers.checkpoint(name, current_task="task-7", completed=1)
    for talk in (f"talk-{name}", f"old-talk-{name}"):
        own.context.append(talk, "user", "We deploy on Tuesday.")
    for session in (f"demo-{name}", f"old-{name}"):
        own.sessions.save_checkpoint({"learning_state": {"step": 7}}, session)
    predictions = [
        own.forecasts.predict(f"{name} ships release {number}", 0.7, market_id=f"ship-{name}-{number}").unwrap().id
        for number in range(3)
    ]
    jobs = [own.jobs.defer(TASK_NAME, key=f"seed-{name}-{number}", delay=100_000) for number in range(2)]
    owner.trust.register(name, model="local", primary_role="critic")
    owner.trust.register("writer", model="local")
    dissent = owner.trust.log_dissent("writer", "The figure is wrong.", rubric_citations=["Accuracy"]).unwrap_all()[0]
    override = owner.trust.log_override("writer", "Ship on Friday", "Ship on Monday", by="anna").unwrap_all()[0]
    owner.hub.broadcast("writer", "signal", {"signal_id": "signal-1", "prediction_id": f"ship-{name}-0"})
    owner.journal.quarantine("stranger")
    notes = [owner.journal.write("note", f"Note {number} on {name}").unwrap() for number in range(3)]
    proposals = [owner.as_agent("writer").journal.delete(note.key).details["proposal"] for note in notes]
    memory = {"path.id": fact.id, "query.scope": fact.scope}
    return {
        "/v1/memories/.*": memory,
        "/v1/dashboard/states/.*": {"path.scope": "shared", "path.id": f"demo-{name}"},
        "/v1/dashboard/timeline/.*": {"path.scope": "shared", "path.id": f"talk-{name}"},
        "/v1/records/.*": {
            "path.scope": old_fact.scope,
            "path.kind": old_fact.kind,
            "path.id": old_fact.id,
            "query.version": 1,
        },
        "/v1/episodes/[^/]+/(outcome|restoration)": {"path.id": present(last_episode).id},
        "/v1/episodes/[^/]+(/steps|/errors)?": {"path.id": present(episode).id},
        "/v1/knowledge/items/.*": {"path.ref": f"cache-{name}"},
        "/v1/knowledge/links": {
            "query.source": f"cache-{name}",
            "query.relation": "related_to",
            "query.target": f"queue-{name}",
        },
        "/v1/skills/.*": {"path.id": f"deploy-{name}", "query.scope": "shared"},
        "/v1/handoffs/[^/]+(/acceptance|/completion)": {"path.id": handoffs[0]},
        "/v1/handoffs/[^/]+/reopening": {"path.id": handoffs[1]},
        "/v1/handoffs/[^/]+(/reading|/reassignment)?": {"path.id": handoffs[2]},
        "/v1/ledgers/.*": {"path.agent": name},
        "/v1/conversations/.*": {"path.conversation_id": f"talk-{name}", "path.id": "task-1"},
        "/v1/sessions/.*": {"path.session_id": f"demo-{name}", "path.number": 1},
        "/v1/forecasts/[^/]+/resolution": {"path.prediction_id": predictions[1]},
        "/v1/forecasts/[^/]+/expiry": {"path.prediction_id": predictions[2]},
        "/v1/forecasts/(markets/[^/]+|[^/]+(/(revisions|signals|history|reasoning))?)": {
            "path.prediction_id": predictions[0],
            "path.market_id": f"ship-{name}-0",
        },
        "/v1/jobs/[^/]+(/retry|/result)?": {"path.id": present(jobs[0]).id},
        "/v1/(trust/agents|dashboard/trust|agents)/.*": {"path.agent": name},
        "/v1/trust/dissents/.*": {"path.id": dissent.id},
        "/v1/trust/overrides/.*": {"path.id": override.id},
        "/v1/journal/quarantines/.*": {"path.author": "stranger"},
        "/v1/proposals/[^/]+/acceptance": {"path.id": proposals[0]},
        "/v1/proposals/[^/]+/refusal": {"path.id": proposals[1]},
        "/v1/proposals/[^/]+": {"path.id": proposals[2]},
        "/v1/tokens/.*": {"path.name": "spare"},
    }
