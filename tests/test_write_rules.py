"""Who may write what: every kind of record, through every way into the log, for an agent, a reader and the owner."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import lukasa
from lukasa import Accepted, Draft, Key, Link, Refused
from lukasa.core.clock import to_iso
from lukasa.core.record import digest_of, encode_draft, entry_suffix
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.memory import declared_kinds
from lukasa.storage.engine import RESERVED_KINDS
from lukasa.storage.file_stores import open_file_store
from lukasa.testing import FrozenClock
from support.narrow import present
from support.store_reads import write_unchecked

pytestmark = pytest.mark.requirement("LOG-8")
NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)
KINDS = declared_kinds()

STORE = frozenset(
    """
advocate cluster consolidation controversy corroboration graph_checkpoint graph_writes job job_result network_agent
network_cursor network_news network_signal network_taken override participation proposal rubric rubric_proposal running setting
skill_sync trust_agent trust_change trust_days trust_person trust_standing verdicts
""".split()  # noqa: SIM905 - easier to read and to extend
)
SERVICE = frozenset(
    """
agent_event checkpoint context conversation_head conversation_message dissent graph_item memory_file note_file session
session_archive session_delta session_event session_incident session_item signal summary sync_conflict sync_position transcript transcript_entry
""".split()  # noqa: SIM905 - easier to read and to extend
)
ANYONE = frozenset(
    """
antipattern directive entity episode fact file_operation handoff injection learning ledger lesson memory note observation pattern prediction
preference reasoning received_signal relation skill step tick turn
""".split()  # noqa: SIM905 - easier to read and to extend
)
BODIES: dict[str, dict[str, Any]] = {
    "entity": {"name": "Heron", "type": "bird"},
    "episode": {"context": {}, "timestamp": to_iso(NOON), "outcome": "success", "errors_encountered": []},
    "handoff": {"from_agent": "", "to_agent": "ben", "timestamp": to_iso(NOON), "context": {}},
    "job": {"name": "x", "arguments": {}, "state": "done", "attempts": 0},
    "job_result": {"name": "x", "result": {"exported_file": "../../etc/passwd"}},
    "ledger": {"last_checkpoint": to_iso(NOON), "tasks_completed": 0},
    "injection": {"event": "prompt", "session": "s1", "notes": [], "tokens": 0},
    "lesson": {"about": "note"},
    "memory": {"tier": "register", "category": "general"},
    "observation": {"entity": "Heron"},
    "prediction": {"prediction_id": "p", "market_id": "m", "probability": 0.5, "status": "active"},
    "preference": {"score": 1},
    "relation": {"from": "Heron", "to": "Pond", "type": "fishes in"},
    "skill": {"title": "Fish", "markdown": "# Fish"},
}
"""Bodies of kinds that require fields, where a writer who is allowed has to get through."""
NAMED_AGENTS = {"episode": "agent", "handoff": "from_agent", "dissent": "agent", "session": "agent_id"}


@pytest.fixture(params=["file", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture
def owner(location: str) -> Iterator[lukasa.Memory]:
    with lukasa.open(location, clock=FrozenClock(NOON), embedder="hash") as memory:
        yield memory


@pytest.fixture
def mallory(owner: lukasa.Memory) -> lukasa.Memory:
    return owner.as_agent("mallory")


def line_of(draft: Draft) -> tuple[bytes, bytes]:
    """Return a log entry with its digest, as another store would have written it."""
    time = to_iso(NOON)
    entry = encode_draft(draft).content[:-1] + entry_suffix(1, time, time)
    return entry, digest_of(entry)


def draft_of(kind: str, author: str = "", **fields: Any) -> Draft:
    return Draft(kind, "The heron fishes.", dict(BODIES.get(kind, {})), id=f"{kind}-1", author=author, **fields)


def by_append(memory: lukasa.Memory, draft: Draft) -> str:
    return outcome_code(memory.journal.append(draft))


def by_append_if(memory: lukasa.Memory, draft: Draft) -> str:
    return outcome_code(memory.journal.append_if(lambda _: [draft]))


def by_batch(memory: lukasa.Memory, draft: Draft) -> str:
    """Append among so many drafts that they are validated at once."""
    return outcome_code(memory.journal.append([*(Draft("note", f"Note {number}") for number in range(20)), draft]))


def by_import(memory: lukasa.Memory, draft: Draft) -> str:
    (result,) = memory.journal.replay([line_of(draft)])
    return "accepted" if result.state == "added" else str(result.reason)


def by_hub_effect(memory: lukasa.Memory, draft: Draft) -> str:
    owner = memory.journal.reach.unlimited
    try:
        memory.hub.acknowledge("owner-agent" if owner else memory.journal.author, "s-1", "anna", [draft])
    except lukasa.NotAccepted as error:
        return str(error)
    return "accepted"


def outcome_code(outcome: Any) -> str:
    return "accepted" if isinstance(outcome, Accepted) else outcome.code if isinstance(outcome, Refused) else "conflict"


RAW: Mapping[str, Callable[[lukasa.Memory, Draft], str]] = {
    "append": by_append,
    "append_if": by_append_if,
    "batch": by_batch,
    "effect": by_hub_effect,
}
NOT_RAW = ("service_kind", "are written by a service of the store")


def test_every_kind_says_who_writes_it() -> None:
    writers = ("store", "service", "anyone")
    declared = {name: {kind for kind in KINDS if KINDS[kind].written_by == name} for name in writers}
    assert declared == {"store": STORE, "service": SERVICE, "anyone": ANYONE}
    rows = (Path(__file__).parents[1] / "docs/reference/security.md").read_text("utf-8").splitlines()
    documented = [
        set(re.findall("`([a-z_]+)`", row.split("|")[1])) for row in rows if row.startswith(("| `adv", "| `agent_"))
    ]
    assert documented == [STORE, SERVICE]


@pytest.mark.parametrize("kind", sorted(STORE | SERVICE | ANYONE))
def test_each_kind_is_written_only_by_whom_its_rule_names(owner: lukasa.Memory, kind: str) -> None:
    owner.hub.broadcast("anna", "signal", {"signal_id": "s-1"})
    before = owner.journal.tip()
    for way, write in (*RAW.items(), ("import", by_import)):
        answer = write(owner.as_agent("reader", read_only=True), draft_of(kind, "reader" if way == "import" else ""))
        assert answer != "accepted", (way, answer)
    assert owner.journal.tip() == before
    for number, (way, write) in enumerate(RAW.items()):
        agent = owner.as_agent(f"agent{number}")
        answer = write(agent, draft_of(kind)._replace(id=f"by-{way}"))
        if kind in STORE | SERVICE:
            assert any(word in answer for word in NOT_RAW), (way, answer)
        elif kind == "directive":
            assert "not_allowed" in answer or "Only the owner" in answer, (way, answer)
        elif kind == "ledger":
            assert "author_not_yours" in answer or "acts (id)" in answer, (way, answer)
        else:
            assert answer == "accepted", (way, answer)
    ada = owner.as_agent("ada")
    answer = by_import(ada, draft_of(kind, "ada"))
    assert (answer == "accepted") == (kind in (SERVICE | ANYONE) - {"directive", "ledger"}), answer
    if kind in STORE:
        assert "Only the owner of the store imports" in answer
    for way, write in list(RAW.items())[:3]:
        answer = write(owner, draft_of(kind)._replace(id=f"owner-by-{way}"))
        assert (answer == "service_kind") == (kind in STORE), (way, answer)


@pytest.mark.parametrize("kind", sorted(RESERVED_KINDS))
def test_nobody_writes_a_record_of_the_log_itself(owner: lukasa.Memory, mallory: lukasa.Memory, kind: str) -> None:
    for memory in (owner, mallory):
        assert by_append(memory, Draft(kind, body={"author": "ada"})) == "reserved_kind"
    assert by_import(mallory, Draft(kind, body={"author": "ada"}, id="q", author="mallory")) != "accepted"


def test_nothing_is_written_in_the_scope_of_the_store_by_an_agent(owner: lukasa.Memory, mallory: lukasa.Memory) -> None:
    for kind in ("note", "api_token", "api_token_use", "backup_proof", "job_result", "trust_agent"):
        for write in (by_append, by_import, by_batch):
            assert write(mallory, Draft(kind, "x", id="x", scope=SYSTEM, author="mallory")) != "accepted"


@pytest.mark.parametrize("kind", sorted(NAMED_AGENTS))
def test_no_record_says_that_another_agent_acts(owner: lukasa.Memory, mallory: lukasa.Memory, kind: str) -> None:
    body = BODIES.get(kind, {}) | {NAMED_AGENTS[kind]: "ben"}
    draft = Draft(kind, "Ben did it.", body, id="x", author="mallory")
    for write in (by_append, by_append_if, by_batch, by_import):
        assert write(mallory, draft) != "accepted"
    assert mallory.valid_journal.append(Draft(kind, "Ben did it.", body)) != "accepted"
    assert owner.journal.get(Key("shared", kind, "x")) is None


def test_a_ledger_is_written_by_its_agent_alone(owner: lukasa.Memory, mallory: lukasa.Memory) -> None:
    assert owner.as_agent("ben").ledgers.checkpoint("ben", completed=3)
    for write in (by_append, by_append_if, by_batch, by_import):
        assert write(mallory, Draft("ledger", body={"tasks_completed": 0}, id="ben", author="mallory")) != "accepted"
    assert mallory.journal.delete(Key("shared", "ledger", "ben")).code == "author_not_yours"
    assert present(owner.ledgers.get("ben")).tasks_completed == 3
    assert owner.as_agent("ben").ledgers.checkpoint("ben", completed=1)


def test_another_agents_handoff_or_episode_is_not_rewritten_or_deleted_but_may_be_accepted(
    owner: lukasa.Memory, mallory: lukasa.Memory
) -> None:
    ben = owner.as_agent("ben")
    handoff = ben.handoffs.create("mallory", "Half of the port is done.").unwrap()
    episode = ben.episodes.record("Fix the port", outcome="success").unwrap()
    for record in (handoff, episode):
        changed = Draft(record.kind, "Nothing is done.", dict(record.body), id=record.id, scope=record.scope)
        assert mallory.journal.append(changed).code == "author_not_yours"
        assert (
            mallory.journal.append(changed._replace(body={**record.body, "agent": "", "from_agent": ""})).code
            == "author_not_yours"
        )
        assert mallory.journal.delete(record.key).code == "author_not_yours"
    assert mallory.handoffs.accept(handoff.id)
    assert present(owner.journal.get(handoff.key)).body["from_agent"] == "ben"


def test_nobody_deletes_a_signal_of_another(owner: lukasa.Memory, mallory: lukasa.Memory) -> None:
    owner.as_agent("anna").hub.broadcast("anna", "signal", {"signal_id": "s-1"})
    (signal,) = (record for record in owner.journal.read() if record.kind == "network_signal")
    assert mallory.journal.delete(signal.key).code == "service_kind"
    assert (
        mallory.journal.append(Draft("network_signal", body=dict(signal.body), id=signal.id, deleted=True)).code
        == "service_kind"
    )
    assert [news["signal_id"] for news in owner.as_agent("ben").hub.inbox("ben")] == ["s-1"]


def test_the_hub_believes_the_author_of_a_record_and_not_its_body(owner: lukasa.Memory, mallory: lukasa.Memory) -> None:
    """A store of an earlier version may hold records that an agent forged."""
    owner.as_agent("anna").hub.broadcast("anna", "prediction", {"prediction_id": "p", "probability": 0.9})
    (news,) = (record for record in owner.journal.read() if record.kind == "network_news")
    forged = {"agent_id": "anna", "sort": "prediction", "news": {"prediction_id": "p", "probability": 0.1}}
    write_unchecked(
        owner,
        Draft("network_news", body=forged, id="forged", labels=news.labels, scope="shared", author="mallory"),
        Draft("network_agent", body={"agent_id": "anna"}, id="forged", scope="shared", author="mallory"),
    )
    state = owner.hub.fetch_state("anna")
    assert [prediction["probability"] for prediction in state.active_predictions] == [0.9]
    assert sorted(peer.agent_id for peer in owner.hub.peers("ben")) == ["anna", "mallory"]


def test_no_link_supersedes_what_only_another_may_change(owner: lukasa.Memory, mallory: lukasa.Memory) -> None:
    kept = [owner.remember(text).unwrap() for text in ("The port is 8080.", "Deploys run on Tuesday.", "Anna leads.")]
    for relation in ("supersedes", "superseded_by"):
        links = tuple(Link(relation, record.key) for record in kept)
        refused = mallory.journal.append(Draft("note", "None of it holds.", links=links))
        assert (refused.code, "proposal" in refused.details) == ("proposed", True)
    assert [hit.superseded_by for hit in owner.recall("port deploys Anna").hits] == [None] * 3


def test_over_http_an_agent_forges_nothing(tmp_path: Any) -> None:
    """The attack: a forged result of a job names a file of the server, and the server sends it."""
    (tmp_path / "secret").write_text("the owner's token", encoding="utf-8")
    forged = {"name": "server.export", "result": {"exported_file": str(tmp_path / "secret")}}
    with ExitStack() as stack:
        stores = CallerStores(str(tmp_path / "agents.db"), Caller(), embedder="hash")
        stack.callback(stores.close)
        tokens = StoreTokenSource(stores).open()
        secrets = {agent: tokens.add(agent or "owner", agent=agent) for agent in ("", "mallory", "anna")}
        app = build_app(stores, StoreTokenSource(stores), ["testserver"])
        clients = {
            agent: stack.enter_context(TestClient(app, headers={"Authorization": f"Bearer {secret}"}))
            for agent, secret in secrets.items()
        }
        mallory = clients["mallory"]
        assert clients["anna"].post("/v1/agents/anna/signals", json={"signal_id": "s-1"}).status_code == 201
        effect = {"kind": "job_result", "id": "job-1", "body": forged}
        answer = mallory.post(
            "/v1/agents/mallory/acknowledgements", json={"sender": "anna", "signal_id": "s-1", "effect": [effect]}
        )
        assert (answer.status_code, "job_result" in answer.json()["detail"]) == (422, True)
        entry, digest = line_of(Draft("job_result", body=forged, id="job-1", author="mallory"))
        (result,) = mallory.post("/v1/log", json={"entries": [entry.decode()]}).json()["results"]
        assert (result["state"], "Only the owner" in result["reason"]) == ("refused", True)
        line = json.dumps({"sha256": digest.hex(), "record": json.loads(entry)})
        answer = mallory.post("/v1/import", content=f'{{"lukasa":"log","format":1}}\n{line}\n')
        assert "job-1" not in clients[""].get("/v1/records", params={"kinds": "job_result"}).text, answer.text
        # A store of an earlier version may hold such a record.
        for scope in ("shared", SYSTEM):
            write_unchecked(
                stores.for_caller(Caller()),
                Draft("job_result", body=forged, id=f"old-{scope}", scope=scope, author="mallory"),
            )
            for client in clients.values():
                answer = client.get(f"/v1/jobs/old-{scope}/result")
                assert (answer.status_code in (403, 404), "owner's token" in answer.text) == (True, False)


@pytest.mark.parametrize("location", ["", "  "])
def test_an_empty_place_for_files_is_an_error(location: str) -> None:
    with pytest.raises(InvalidInput, match="No place for files"):
        open_file_store(location)
