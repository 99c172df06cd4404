"""Every noun of the library over HTTP: each route does what the library's call does, with the caller of the token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.jobs import REGISTRY, Task
from lukasa.memory import Memory

pytestmark = pytest.mark.requirement("DOO-4")
Connect = Callable[[str], TestClient]


def post(client: TestClient, path: str, status: int = 201, /, **body: Any) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def put(client: TestClient, path: str, status: int = 200, /, **body: Any) -> Any:
    answer = client.put(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def get(client: TestClient, path: str, status: int = 200, /, **query: Any) -> Any:
    answer = client.get(f"/v1/{path}", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_sessions_save_checkpoints_and_recover(connect: Connect) -> None:
    ada = connect("ada")
    for step, status in (("read", 201), ("write", 200)):
        post(ada, "sessions/s1/checkpoints", status, state={"goal": "ship", "step": step})
    assert [session["id"] for session in get(ada, "sessions")["sessions"]] == ["s1"]
    assert get(ada, "sessions/s1")["step"] == "write"
    first = get(ada, "sessions/s1/checkpoints")["checkpoints"][0]
    assert get(ada, f"sessions/s1/checkpoints/{first['number']}")["state"]["goal"] == "ship"
    assert post(ada, "sessions/s1/recovery", 200)["state"]["step"] == "write"
    assert all(entry["fault"] is None for entry in get(ada, "sessions/s1/verification")["checkpoints"])
    assert isinstance(get(ada, "sessions/s1/events")["events"], list)
    assert get(ada, "sessions/s1/incidents")["incidents"] == []
    assert get(ada, "sessions/none", 404)["code"] == "not_found"
    assert post(ada, "sessions/s1/erasure", 403)["code"] == "not_allowed"
    post(connect(""), "sessions/s2/checkpoints", state={"goal": "ship"})
    assert post(connect(""), "sessions/s2/erasure", 200)["erased"]
    assert post(ada, "sessions/s1/checkpoints", 422)["code"] == "usage"


def test_conversations_keep_facts_tasks_and_forks(ada: TestClient) -> None:
    turns = [{"role": "user", "content": "Good morning."}, {"role": "assistant", "content": "Noted."}]
    assert post(ada, "conversations/c1/turns/bulk", turns=turns)
    post(ada, "conversations/c1/facts", text="The user is called Ada.")
    assert [fact["text"] for fact in get(ada, "conversations/c1/facts")["facts"]] == ["The user is called Ada."]
    put(ada, "conversations/c1/tasks/t1", description="Write the page", status="active")
    post(ada, "conversations/c1/forks", new_id="c2")
    assert len(get(ada, "conversations/c2/turns")["turns"]) == 2
    post(ada, "conversations/c1/compaction", 200)
    assert ada.delete("/v1/conversations/c1").status_code == 200
    assert [talk["session_id"] for talk in get(ada, "conversations")["conversations"]] == ["c2"]


def test_conversations_count_tokens_and_calls(ada: TestClient) -> None:
    post(ada, "conversations/c1/turns", role="user", content="Good morning.")
    post(ada, "conversations/c1/usage", 200, input=10, output=5)
    post(ada, "conversations/c1/tool-calls", 200, tool="search", failed=True)
    assert "search" in str(get(ada, "conversations/c1"))


def test_a_record_has_a_history_and_links_and_can_be_deleted(ada: TestClient) -> None:
    id = post(ada, "memories", text="We deploy on Tuesdays.")["id"]
    path = f"records/shared/memory/{id}"
    assert len(get(ada, f"{path}/history")["versions"]) == 1
    assert get(ada, f"{path}/links") == {"links": []}
    assert ada.delete(f"/v1/{path}").json()["deleted"] is True
    assert get(ada, path, 404)["code"] == "not_found"


def test_episodes_are_recorded_by_the_caller_and_listed_by_filter(ada: TestClient) -> None:
    done = post(ada, "episodes", goal="Fix the login page", outcome="success", task_id="t1")
    assert get(ada, f"episodes/{done['id']}")["agent"] == "ada"
    assert ada.post("/v1/episodes", json={"goal": "x", "agent": "ben"}).status_code == 422
    running = post(ada, "episodes/running", 200, goal="Write the docs", task_id="t2")["id"]
    post(ada, f"episodes/{running}/steps", 201, action="edit", target="docs/index.md", result="done")
    post(ada, f"episodes/{running}/errors", 201, type="Typo", message="a word was wrong")
    assert [each["id"] for each in get(ada, "episodes", unfinished=True)["episodes"]] == [running]
    put(ada, f"episodes/{running}/outcome", outcome="failure")
    for query in ({"task_id": "t2"}, {"outcome": "failure"}):
        assert [each["id"] for each in get(ada, "episodes", **query)["episodes"]] == [running]
    assert len(get(ada, "episodes", agent="ada")["episodes"]) == 2
    assert post(ada, "episodes/pruning", 200, summarise_after=0, archive_after=0)["archived"]
    post(ada, f"episodes/{running}/restoration", 200)
    assert get(ada, f"episodes/{running}")["action_log"]


def test_knowledge_is_linked_and_walked(ada: TestClient) -> None:
    one = post(ada, "knowledge/patterns", pattern="Read the switch for each request", category="operations")
    other = post(ada, "knowledge/facts", fact="Switches live in the database.")
    post(ada, "knowledge/antipatterns", what_fails="Caching a switch", why="It cannot be turned off.")
    assert [item["id"] for item in get(ada, "knowledge/patterns", category="operations")["patterns"]] == [one["id"]]
    post(ada, "knowledge/links", 200, source=one["id"], relation="elaborates", target=other["id"])
    assert get(ada, f"knowledge/items/{one['id']}/neighbours")["neighbours"][0]["id"] == other["id"]
    path = get(ada, "knowledge/path", source=one["id"], target=other["id"])["path"]
    assert [key["id"] for key in path] == [one["id"], other["id"]]
    post(ada, f"knowledge/items/{one['id']}/uses", 200)
    assert get(ada, f"knowledge/items/{one['id']}")["usage_count"] == 1
    query = {"source": one["id"], "relation": "elaborates", "target": other["id"]}
    assert ada.delete("/v1/knowledge/links", params=query).status_code == 200
    assert get(ada, "knowledge/contradictions")["contradictions"] == []
    assert get(ada, "knowledge/antipatterns")["antipatterns"][0]["what_fails"] == "Caching a switch"
    assert [item["id"] for item in get(ada, "knowledge/facts")["facts"]] == [other["id"]]
    assert get(ada, "knowledge/learnings")["learnings"] == []
    assert post(ada, "knowledge/merges", 200, dry_run=True)["into"] == {}
    assert ada.post("/v1/knowledge/patterns", json={"pattern": "x", "extra": {"author": "ben"}}).status_code == 422


SKILL = "# Release\n\n## Prerequisites\n- A branch\n\n## Steps\n1. Tag it.\n\n## Exit Criteria\n- [ ] It is tagged.\n"


def test_skills_are_stored_searched_and_counted(ada: TestClient) -> None:
    id = post(ada, "skills", skill=SKILL)["id"]
    assert [skill["id"] for skill in get(ada, "skills")["skills"]] == [id]
    assert get(ada, "skills/search", words="tag a release")["skills"][0]["id"] == id
    post(ada, f"skills/{id}/uses", 200, success=True)
    assert get(ada, f"skills/{id}")["success_rate"] == 1
    assert ada.delete(f"/v1/skills/{id}").status_code == 200
    assert get(ada, f"skills/{id}", 404)["next"]


def test_consolidation_is_shown_run_deferred_and_undone(ada: TestClient) -> None:
    for number in range(4):
        steps = [{"action": "test", "target": "tests/test_login.py", "result": "passed"}]
        post(
            ada, "episodes", goal="Fix the login page again", outcome="success", action_log=steps, task_id=f"t{number}"
        )
    assert "proposals" in post(ada, "consolidation", 200, dry_run=True)
    label = post(ada, "consolidation", 200)["label"]
    assert "reverted" in post(ada, "journal/undo", 200, label=label)
    deferred = ada.post("/v1/consolidation", json={}, headers={"Prefer": "respond-async"})
    assert (deferred.status_code, deferred.headers["preference-applied"]) == (202, "respond-async")
    (job,) = get(ada, "jobs")["jobs"]
    assert (job["id"], get(ada, "jobs/status")["waiting"]) == (deferred.json()["id"], 1)
    assert ada.delete(f"/v1/jobs/{job['id']}").status_code == 200
    assert post(ada, f"jobs/{job['id']}/retry", 404)["code"] == "not_found"
    assert post(ada, "jobs", 422, name="no.such.job")["code"] == "unknown_job"


def test_a_task_gets_what_is_known_and_its_ledger_and_metrics(ada: TestClient) -> None:
    post(ada, "episodes", goal="Fix the login page", outcome="success", task_id="t1", duration_seconds=60)
    briefing = post(ada, "before-task", 200, task="Fix the login page once more", full=True)
    assert briefing["memories"][0]["record"]["author"] == "ada"
    post(ada, "ledgers", current_task="login", completed=1)
    assert [ledger["agent_id"] for ledger in get(ada, "ledgers")["ledgers"]] == ["ada"]
    assert get(ada, "ledgers/ada")["tasks_completed"] == 1
    episode = get(ada, "episodes", task_id="t1")["episodes"][0]["id"]
    post(ada, "metrics/preferences", episode=episode, score=0.9)
    for name in ("dashboard", "efficiency", "rewards"):
        assert get(ada, f"metrics/{name}", days=7) is not None


def test_a_handoff_goes_from_the_caller_to_another_agent(connect: Connect) -> None:
    ada, ben = connect("ada"), connect("ben")
    id = post(ada, "handoffs", to_agent="ben", what_was_done="The page is written.")["id"]
    assert (
        ada.post("/v1/handoffs", json={"to_agent": "ben", "what_was_done": "x", "from_agent": "cleo"}).status_code
        == 422
    )
    (waiting,) = get(ben, "handoffs")["handoffs"]
    assert (waiting["id"], waiting["from_agent"]) == (id, "ada")
    for verb in ("reading", "acceptance", "completion"):
        post(ben, f"handoffs/{id}/{verb}", 200)
    assert get(ben, "handoffs")["handoffs"] == []
    assert [handoff["id"] for handoff in get(ada, "handoffs/sent")["handoffs"]] == [id]
    assert get(ada, f"handoffs/{id}")["status"] == "completed"
    other = post(ada, "handoffs", to_agent="ben", what_was_done="The tests are written.")["id"]
    post(ben, f"handoffs/{other}/reading", 200)
    post(ben, f"handoffs/{other}/reopening", 200)
    post(ada, f"handoffs/{other}/reassignment", 200, to_agent="cleo")
    assert post(ben, f"handoffs/{id}/reopening", 422)["code"] == "bad_status"


def test_forecasts_are_made_revised_resolved_and_scored(ada: TestClient) -> None:
    post(ada, "forecasts", question="Will it rain?", probability=0.7, prediction_id="rain", category="weather")
    post(ada, "forecasts/rain/revisions", 200, probability=0.8)
    assert get(ada, "forecasts/rain")["probability"] == 0.8
    assert len(get(ada, "forecasts/rain/history")["versions"]) == 2
    put(ada, "forecasts/rain/resolution", outcome=True)
    assert get(ada, "forecasts/scores", category="weather")["brier_score"] == pytest.approx(0.04)
    assert get(ada, "forecasts", status="resolved")["predictions"]
    for name in ("learning", "metrics", "received"):
        assert get(ada, f"forecasts/{name}") is not None
    post(ada, "forecasts/markets/m1", base_rate=0.3, factors={"season": 0.2})
    assert get(ada, "forecasts/markets/m1")["base_rate"] == 0.3
    assert post(ada, "forecasts/expiry", 200) == {"expired": []}
    assert put(ada, "forecasts/none/resolution", 404, outcome=True)["code"] == "not_found"
    post(ada, "forecasts", question="Will it snow?", probability=0.1, prediction_id="snow")
    post(ada, "forecasts/snow/signals", confidence=0.9)
    post(ada, "forecasts/snow/expiry", 200)
    assert get(ada, "forecasts/snow")["status"] == "expired"


def test_trust_is_written_by_agents_and_read_by_the_owner(connect: Connect) -> None:
    ada, owner = connect("ada"), connect("")
    filed = post(ada, "trust/dissents", text="The plan has no way back if the deploy fails.", round_id="r1")
    assert [record["id"] for record in get(owner, "trust/dissents")["dissents"]] == [filed["id"]]
    assert get(ada, "trust/agents", 403)["code"] == "not_allowed"
    post(owner, "trust/agents", agent="ada", primary_role="planner")
    post(
        owner,
        "trust/dissents/logged",
        agent="ada",
        text="No way back.",
        round_id="r1",
        impact=True,
        feedback_incorporated=True,
    )
    post(owner, "trust/overrides", agent="ada", agent_output="Ship it.", human_decision="Wait.", by="ben")
    assert get(owner, "trust/agents")["agents"] == ["ada"]
    assert 0 <= get(owner, "trust/agents/ada")["trust_score"] <= 1
    assert get(owner, "trust/agents/ada/history", limit=10)["changes"]
    for name in ("agents/ada/diversity", "agents/ada/eligibility", "metrics", "controversy", "influence"):
        assert get(owner, f"trust/{name}") is not None
    put(owner, "rubrics/default", 201, criteria={"Accuracy": 3.0, "Clarity": 1.0}, by="ben")
    assert get(owner, "rubrics/default")["criteria"]["Accuracy"]
    assert len(get(owner, "rubrics/default/versions")["versions"]) == 1
    assert get(owner, "rubrics/proposals") == {"proposals": []}


def test_the_owner_judges_reverts_weighs_and_changes_rubrics(connect: Connect) -> None:
    ada, owner = connect("ada"), connect("")
    for agent in ("ada", "ben"):
        post(owner, "trust/agents", agent=agent, primary_role="planner")
    filed = post(ada, "trust/dissents", text="The plan has no way back if the deploy fails.", round_id="r1")
    put(owner, f"trust/dissents/{filed['id']}/judgement", 201, impact=True)
    post(owner, "trust/rounds/r1/participations", agents=["ada", "ben"])
    assert post(owner, "trust/advocates", 200, candidates=["ada", "ben"], seed=1)["chosen"] in ("ada", "ben")
    assert post(owner, "trust/weights", 200, feedback={"ada": 0.5, "ben": 1.0}) is not None
    put(owner, "trust/agents/ada/probation", until="2036-01-01T00:00:00Z", reason="a test", by="ben")
    put(owner, "rubrics/default", 201, criteria={"Accuracy": 3.0, "Clarity": 1.0}, by="ben")
    for criterion in ("Accuracy", "Clarity"):
        for number in range(3):
            override = post(
                owner,
                "trust/overrides",
                agent="ada",
                agent_output="Ship it.",
                human_decision="Wait.",
                by="ben",
                criteria=[criterion],
                round_id=f"r{number}",
            )
    one, other = post(owner, "rubrics/default/proposals", 200)["proposals"]
    post(owner, f"rubrics/proposals/{one['id']}/application", 200, by="ben")
    post(owner, f"rubrics/proposals/{other['id']}/rejection", 200, by="ben")
    assert len(get(owner, "rubrics/default/versions")["versions"]) == 2
    post(owner, f"trust/overrides/{override['id']}/reversal", 200, by="cleo")


def test_a_failed_job_is_retried(owner: TestClient, stores: CallerStores, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(memory: Memory) -> None:
        raise RuntimeError("It always fails.")

    monkeypatch.setitem(REGISTRY, "test.http.fails", Task("test.http.fails", fail, attempts=1))
    id = post(owner, "jobs", 202, name="test.http.fails")["id"]
    stores.for_caller(Caller()).jobs.run_waiting()
    assert get(owner, f"jobs/{id}")["state"] == "failed"
    post(owner, f"jobs/{id}/retry", 200)
    assert get(owner, f"jobs/{id}")["state"] == "waiting"


def test_the_journal_undoes_quarantines_erases_and_verifies(connect: Connect) -> None:
    ada, owner = connect("ada"), connect("")
    id = post(ada, "memories", text="We deploy on Tuesdays.")["id"]
    assert post(ada, "journal/quarantines", 403, author="ada")["code"] == "not_allowed"
    post(owner, "journal/quarantines", author="ada", reason="a test")
    assert get(owner, "journal/quarantines")["quarantines"][0]["author"] == "ada"
    assert get(ada, f"memories/{id}", 404)
    assert owner.delete("/v1/journal/quarantines/ada").status_code == 200
    assert get(ada, f"memories/{id}")["text"] == "We deploy on Tuesdays."
    assert post(owner, "journal/undo", 200, author="ada")["reverted"]
    key = {"scope": "shared", "kind": "memory", "id": id}
    assert post(owner, "journal/erasures", 200, keys=[key], dry_run=True)["would_erase"] == [key]
    assert post(ada, "journal/erasures", 403, keys=[key])["code"] == "not_allowed"
    assert post(owner, "journal/erasures", 200, keys=[key], reason="asked")["records"] == 1
    assert get(owner, f"memories/{id}/history", 404)
    assert post(owner, "journal/verification", 200)["sound"] is True
    assert post(owner, "journal/compaction", 200)["versions"] >= 0
    assert post(owner, "journal/erasures", 422)["code"] == "invalid_input"


def test_a_log_is_exported_and_imported_as_lines(connect: Connect, stores: CallerStores) -> None:
    ada, owner = connect("ada"), connect("")
    for number in range(50):
        post(ada, "conversations/c1/turns", role="user", content=f"Line {number}: " + "x" * 10_000)
    log = ada.get("/v1/export")
    assert log.headers["content-type"] == "application/x-ndjson"
    lines = log.content.splitlines()
    assert b'"versions"' in lines[-1]
    again = owner.post("/v1/import", content=log.content, headers={"Content-Type": "application/x-ndjson"})
    assert again.json() == {"added": 0, "present": len(lines) - 2, "refused": []}
    cut = owner.post("/v1/import", content=log.content[:-40])
    assert (cut.status_code, cut.json()["code"]) == (422, "format_error")


def test_backups_go_where_the_server_says_and_only_for_the_owner(
    stores: CallerStores, secrets: dict[str, str], connect: Connect, tmp_path: Path
) -> None:
    app = build_app(stores, StoreTokenSource(stores), ["testserver"], backup_url=f"file://{tmp_path}/backups")
    owner, ada = (
        TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {secrets[agent]}"})
        for agent in ("", "ada")
    )
    made = owner.post("/v1/backups")
    assert made.status_code == 201, made.text
    assert [each["number"] for each in get(owner, "backups")["backups"]] == [made.json()["number"]]
    assert ada.post("/v1/backups").status_code == 403
    assert get(ada, "backups", 403)
    assert post(connect(""), "backups", 422)["code"] == "invalid_input"


def test_the_owner_makes_and_revokes_tokens(connect: Connect, tokens: ApiTokens) -> None:
    owner, ada = connect(""), connect("ada")
    secret = post(owner, "tokens", name="guest", agent="guest", read_only=True, rate=60)["token"]
    guest = connect(secret)
    assert get(guest, "stats")
    listed = {token["name"]: token for token in get(owner, "tokens")["tokens"]}
    assert (listed["guest"]["access"], listed["owner"]["access"], listed["ada"]["access"]) == ("read", "owner", "write")
    assert secret not in str(listed)
    assert post(owner, "tokens", 409, name="guest", agent="guest")["code"] == "file_taken"
    assert owner.delete("/v1/tokens/guest").status_code == 200
    assert guest.get("/v1/stats").status_code == 401
    assert get(ada, "tokens", 403)["code"] == "not_allowed"
    assert owner.delete("/v1/tokens/guest").status_code == 404


def test_a_token_of_the_owner_is_made_only_by_asking_for_it(connect: Connect) -> None:
    owner = connect("")
    assert "--owner" in post(owner, "tokens", 422, name="second")["next"]
    assert post(owner, "tokens", 422, name="second", owner=True, agent="ada")["code"] == "invalid_input"
    assert post(owner, "tokens", 422, name="second", owner=True, scopes=["shared"])["code"] == "invalid_input"
    assert [token["name"] for token in get(owner, "tokens")["tokens"] if token["access"] == "owner"] == ["owner"]
    assert get(connect(post(owner, "tokens", name="second", owner=True)["token"]), "tokens")
