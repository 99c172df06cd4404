"""What the pages of the dashboard read beyond the API of the library: time lines, states, agents, doctor, proofs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.http.routes.dashboard_pages import MAX_TEXT
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-5")
Connect = Callable[[str], TestClient]


def get(client: TestClient, path: str, status: int = 200, /, **query: Any) -> Any:
    answer = client.get(f"/v1/{path}", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


def post(client: TestClient, path: str, status: int = 200, /, **body: Any) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_time_line_of_a_session_has_its_changes_checkpoints_and_recoveries(
    ada: TestClient, stores: CallerStores
) -> None:
    memory = stores.for_caller(Caller("ada"))
    session = memory.sessions.start("rollout")
    for step in ("build", "test"):
        session.update("step", step)
    session.checkpoint()
    session.update("step", "x" * 3 * MAX_TEXT)
    session.abandon()
    memory.sessions.start("rollout").close()
    page = get(ada, "dashboard/timeline/ada/rollout")
    what = [entry["what"] for entry in page["entries"]]
    for name in ("started", "change", "checkpoint", "recovered", "resumed", "closed"):
        assert name in what
    assert page["next"] is None
    changed = [entry["changes"][0] for entry in page["entries"] if entry["what"] == "change"]
    assert [len(change["value"]) for change in changed if change["path"] == "/step"] == [MAX_TEXT, 4, 5]
    positions = [entry["seq"] for entry in page["entries"]]
    assert positions == sorted(positions, reverse=True)
    seen: list[int] = []
    before = None
    while before is not None or not seen:
        part = get(ada, "dashboard/timeline/ada/rollout", limit=3, **({"before": before} if before else {}))
        seen += [entry["seq"] for entry in part["entries"]]
        before = part["next"]
    assert seen == positions


def test_the_state_of_a_session_can_be_read_at_every_point_of_its_time_line(
    ada: TestClient, stores: CallerStores
) -> None:
    memory = stores.for_caller(Caller("ada"))
    with memory.sessions.start("rollout") as session:
        for step in ("build", "test"):
            session.update("step", step)
        session.checkpoint()
        session.update("step", "deploy")
    entries = get(ada, "dashboard/timeline/ada/rollout")["entries"]
    points = [entry["seq"] for entry in reversed(entries) if entry.get("changes", [{}])[0].get("path") == "/step"]
    states = [get(ada, "dashboard/states/ada/rollout", at=point)["session"]["step"] for point in points]
    assert states == ["build", "test", "deploy"]
    assert get(ada, "dashboard/states/ada/rollout")["session"]["step"] == "deploy"
    assert get(ada, "dashboard/states/ada/rollout", 404, at=1)["code"] == "not_found"
    assert get(ada, "dashboard/states/ada/none", 404)["code"] == "not_found"


def test_the_time_line_of_a_conversation_has_its_turns_facts_and_compactions(ada: TestClient) -> None:
    turns = [{"role": "user", "content": f"Question number {number} about the harbour."} for number in range(6)]
    post(ada, "conversations/talk/turns/bulk", 201, turns=turns)
    before_compaction = get(ada, "dashboard/timeline/ada/talk")["entries"][0]["seq"]
    post(ada, "conversations/talk/facts", 201, text="The harbour opens at six.")
    post(ada, "conversations/talk/compaction", keep=2)
    entries = get(ada, "dashboard/timeline/ada/talk")["entries"]
    assert entries[0] | {"what": "compaction", "folded": 4} == entries[0]
    assert {entry["what"] for entry in entries} == {"compaction", "fact", "turn", "state"}
    then = get(ada, "dashboard/states/ada/talk", at=before_compaction)["conversation"]
    now = get(ada, "dashboard/states/ada/talk")["conversation"]
    assert (then["folded"], len(then["recent_history"])) == (0, 6)
    assert (now["folded"], len(now["recent_history"]), now["facts"]) == (4, 2, ["The harbour opens at six."])
    (listed,) = get(ada, "dashboard/sessions")["sessions"]
    assert listed | {"id": "talk", "what": "conversation", "text": turns[-1]["content"]} == listed


def test_sessions_and_conversations_are_listed_newest_first_page_by_page(ada: TestClient) -> None:
    for number in range(5):
        post(ada, f"sessions/s{number}/checkpoints", 201, state={"goal": "x"})
    first = get(ada, "dashboard/sessions", limit=3)
    second = get(ada, "dashboard/sessions", limit=3, before=first["next"])
    assert [entry["id"] for entry in first["sessions"] + second["sessions"]] == ["s4", "s3", "s2", "s1", "s0"]
    assert second["next"] is None


def test_nobody_sees_the_time_line_or_state_of_a_scope_beyond_reach(ada: TestClient, connect: Connect) -> None:
    post(ada, "sessions/s1/checkpoints", 201, state={"goal": "secret"})
    post(ada, "conversations/talk/turns", 201, role="user", content="A secret thing.")
    ben = connect("ben")
    assert get(ben, "dashboard/sessions")["sessions"] == []
    for path in ("timeline/ada/s1", "timeline/ada/talk", "states/ada/s1", "states/ada/talk"):
        assert "secret" not in str(get(ben, f"dashboard/{path}", 404))


def test_agents_are_listed_with_what_the_caller_may_see(ada: TestClient, owner: TestClient, connect: Connect) -> None:
    post(ada, "memories", 201, text="The harbour office opens at six in the morning.")
    ben = connect("ben")
    post(ben, "agents/ben/signals", 201, signal_id="s1", prediction=0.7)
    post(ben, "handoffs", 201, to_agent="ada", what_was_done="Counted the boats.")
    post(ben, "ledgers", 201, current_task="count boats", completed=3)
    rows = {row["agent"]: row for row in get(owner, "dashboard/agents")["agents"]}
    assert (rows["ada"]["waiting"], rows["ada"]["handoffs"]) == (1, 1)
    assert rows["ada"]["wrote_at"]
    assert rows["ada"]["heard_at"] is None
    assert (rows["ben"]["task"], rows["ben"]["completed"], rows["ben"]["waiting"]) == ("count boats", 3, 0)
    assert rows["ben"]["heard_at"]
    assert rows["ben"]["trust"]["trust_score"] == 0.6
    seen = {row["agent"]: row for row in get(ada, "dashboard/agents")["agents"]}
    assert (seen["ada"]["waiting"], seen["ben"]["waiting"], seen["ben"]["trust"]) == (1, None, None)


def test_the_doctor_is_for_the_owner(owner: TestClient, ada: TestClient) -> None:
    found = post(owner, "doctor")
    assert found["healthy"]
    assert {"store", "schema", "log and indexes"} <= {check["name"] for check in found["checks"]}
    assert post(ada, "doctor", 403)["code"] == "not_allowed"


def test_a_backup_is_proved_by_reading_it(stores: CallerStores, secrets: dict[str, str], tmp_path: Path) -> None:
    app = build_app(stores, StoreTokenSource(stores), ["testserver"])
    with TestClient(app, headers={"Authorization": f"Bearer {secrets['']}"}) as owner:
        assert get(owner, "backups") == {"backups": [], "has_place": False}
    app = build_app(stores, StoreTokenSource(stores), ["testserver"], backup_url=(tmp_path / "b").as_uri())
    with TestClient(app, headers={"Authorization": f"Bearer {secrets['']}"}) as owner:
        assert get(owner, "backups")["backups"] == []
        made = post(owner, "backups", 201)
        (listed,) = get(owner, "backups")["backups"]
        assert listed["proved_at"] == made["made_at"]
        proved = post(owner, f"backups/{made['number']}/proof")["proved_at"]
        assert get(owner, "backups")["backups"][0]["proved_at"] == proved > made["made_at"]
        assert post(owner, "backups/77/proof", 404)["code"] == "not_found"
        (archive,) = (tmp_path / "b").rglob("archive-*")
        archive.write_bytes(archive.read_bytes()[:-1] + b"?")
        assert post(owner, f"backups/{made['number']}/proof", 422)["detail"].endswith("it is damaged.")
        assert get(owner, "backups")["backups"][0]["proved_at"] == proved


def test_an_export_comes_as_a_file(ada: TestClient) -> None:
    answer = ada.get("/v1/export")
    assert answer.headers["content-disposition"] == 'attachment; filename="lukasa.jsonl"'
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_changes_of_an_agents_trust_say_why_and_between_what_bounds(owner: TestClient) -> None:
    answer = owner.post(
        "/v1/trust/overrides", json={"agent": "ada", "agent_output": "Ship it.", "human_decision": "Wait.", "by": "ben"}
    )
    assert answer.status_code == 201, answer.text
    *_, change = get(owner, "dashboard/trust/ada")["changes"]
    assert change["score"] != change["was"]
    assert change["reason"]
    assert change["low"] <= change["adjusted"] <= change["high"]
    assert get(owner, "dashboard/trust/nobody")["changes"] == []
