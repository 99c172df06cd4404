"""What the pages ask the API for: figures, proposals, neighbourhoods, earlier versions. All bounded, all within the reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from lukasa.core.record import Key, Link
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.http.routes import dashboard as routes
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-5")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallerStores]:
    path: Path = tmp_path_factory.mktemp("figures") / "memory.db"
    stores = CallerStores(str(path), Caller(), embedder="hash")
    memory = stores.for_caller(Caller())
    ada, ben = memory.as_agent("ada"), memory.as_agent("ben")
    ada.remember("The ferry leaves at noon.", category="travel", topic="ferry")
    ada.remember("The ferry leaves at one.", category="travel", topic="ferry")
    ada.remember("Ada keeps bees.", scope="ada")
    ben.remember("Ben keeps the secret of the cellar.", scope="ben")
    ben.remember("tick marker for burst 5")
    hub = Key("shared", "fact", "hub")
    memory.journal.write("fact", "the hub", id="hub")
    for number in range(30):
        links = (Link("relates_to", hub),)
        memory.journal.write("fact", f"spoke {number}", id=f"spoke{number}", links=links)
        memory.journal.write(
            "fact",
            f"rim {number}",
            id=f"rim{number}",
            links=(Link("relates_to", Key("shared", "fact", f"spoke{number}")),),
        )
    memory.journal.write("fact", "hidden from ada", id="cellar", scope="ben", links=(Link("relates_to", hub),))
    yield stores
    stores.close()


@pytest.fixture(scope="module")
def app(stores: CallerStores) -> ASGIApp:
    return build_app(stores, StoreTokenSource(stores), ["testserver"])


@pytest.fixture(scope="module")
def secrets(stores: CallerStores) -> dict[str, str]:
    tokens = StoreTokenSource(stores).open()
    return {
        "": tokens.add("owner"),
        "ada": tokens.add("ada", agent="ada"),
        "reader": tokens.add("reader", agent="ada", read_only=True),
    }


@pytest.fixture
def ask(app: ASGIApp, secrets: dict[str, str]) -> Callable[..., Any]:
    """Return a function that sends a request and returns its JSON after a check of the status."""

    def send(agent: str, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {secrets[agent]}"})
        answer = client.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    return send


def test_a_caller_learns_what_its_token_may_do(ask: Callable[..., Any]) -> None:
    assert ask("", "GET", "/v1/caller")["writes"] is None
    ada = ask("ada", "GET", "/v1/caller")
    assert (ada["access"], ada["agent"], ada["reads"], ada["writes"]) == (
        "write",
        "ada",
        ["ada", "shared"],
        ["ada", "shared"],
    )
    reader = ask("reader", "GET", "/v1/caller")
    assert (reader["access"], reader["reads"], reader["writes"]) == ("read", ["ada", "shared"], [])


def test_the_overview_counts_what_the_caller_may_read(ask: Callable[..., Any]) -> None:
    whole, ada = ask("", "GET", "/v1/overview?zone=Europe/Berlin"), ask("ada", "GET", "/v1/overview?zone=No/Such")
    assert whole["records"] > ada["records"] > 0
    assert {row["name"] for row in ada["scopes"]} == {"shared", "ada"}
    assert "cellar" not in str(ada)
    assert (
        sum(sum(row["kinds"].values()) for row in whole["writes"]["rows"])
        == whole["writes"]["counted"]
        == whole["versions"]
    )
    assert whole["writes"]["complete"]
    assert len(whole["latest"]) == 12
    assert whole["latest"][0]["seq"] > whole["latest"][-1]["seq"]
    assert all(record["scope"] != "_lukasa" for record in whole["latest"])
    assert ask("", "GET", f"/v1/overview?since={whole['latest'][2]['seq']}")["new"]["count"] == 2


def test_the_vault_is_described_by_tier_topic_and_refusal(ask: Callable[..., Any], stores: CallerStores) -> None:
    found = ask("ada", "GET", "/v1/vault")
    assert found["scopes"] == {"shared": 1, "ada": 1}
    assert found["facets"]["topic"] == [{"name": "ferry", "count": 1}]
    assert {row["name"] for row in found["facets"]["tier"]} == {"register"}
    memory = stores.for_caller(Caller())
    assert memory.vault.refusals() == {row["name"]: row["count"] for row in ask("", "GET", "/v1/vault")["refusals"]}


def test_a_large_scope_is_not_compared_while_a_page_waits(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("", "GET", "/v1/vault/proposals")["similar"] == []
    monkeypatch.setattr(routes, "MAX_COMPARED", 0)
    refused = ask("", "GET", "/v1/vault/proposals", status=422)
    assert "lukasa vault find-consolidation-candidates --scope shared" in refused["next"]


def test_a_neighbourhood_is_walked_breadth_first_up_to_its_limits(ask: Callable[..., Any]) -> None:
    path = "/v1/graph?scope=shared&kind=fact&id=hub"
    near = ask("ada", "GET", f"{path}&depth=1")
    assert {node["distance"] for node in near["nodes"]} == {0, 1}
    assert (len(near["nodes"]), len(near["edges"]), near["truncated"]) == (31, 30, False)
    far = ask("ada", "GET", f"{path}&depth=2")
    assert (len(far["nodes"]), len(far["edges"])) == (61, 60)
    few = ask("ada", "GET", f"{path}&depth=4&limit=10")
    assert (len(few["nodes"]), few["truncated"]) == (10, True)
    assert "cellar" not in str(far)
    assert "cellar" in str(ask("", "GET", path))
    assert len(ask("", "GET", "/v1/graph?limit=500")["nodes"]) <= 500
    ask("ada", "GET", "/v1/graph?scope=ben&kind=fact&id=cellar", status=404)
    ask("", "GET", "/v1/graph?limit=501", status=422)


def test_an_earlier_version_is_written_again_if_nobody_was_faster(ask: Callable[..., Any]) -> None:
    old = ask("ada", "GET", "/v1/records?kinds=memory&labels=topic%3Dferry")["records"][0]
    assert old["version"] == 2
    path = f"/v1/records/shared/memory/{old['id']}/restoration"
    ask("ada", "POST", path, json={"version": 1}, headers={"If-Match": '"v1"'}, status=412)
    ask("reader", "POST", path, json={"version": 1}, status=403)
    written = ask("ada", "POST", path, json={"version": 1}, headers={"If-Match": '"v2"'})
    assert (written["text"], written["version"], written["origin"]) == ("The ferry leaves at noon.", 3, "undo")
    ask("ada", "DELETE", f"/v1/memories/{old['id']}")
    ask("ada", "POST", path, json={"version": 4}, status=404)
    assert ask("ada", "POST", path, json={"version": 2})["text"] == "The ferry leaves at one."


def test_a_revoked_token_cannot_be_restored(ask: Callable[..., Any], stores: CallerStores) -> None:
    tokens = StoreTokenSource(stores).open()
    tokens.add("eve", agent="eve")
    record = ask("", "GET", "/v1/records?kinds=api_token&newest_first=true&limit=1")["records"][0]
    tokens.revoke("eve")
    ask("", "POST", f"/v1/records/_lukasa/api_token/{record['id']}/restoration", json={"version": 1}, status=403)
    assert {token.name for token in tokens.list()} == {"owner", "ada", "reader"}


def test_a_register_is_corroborated_and_promoted(ask: Callable[..., Any], stores: CallerStores) -> None:
    ben = stores.for_caller(Caller()).as_agent("ben")
    written = ben.remember("The harbour closes at dusk.", topic="harbour").unwrap()
    path = f"/v1/memories/{written.id}"
    assert ask("ada", "POST", f"{path}/promotion", json={"by": "Mia"}, status=403)["code"] == "author_not_yours"
    assert ask("ada", "POST", f"{path}/promotion", json={}, status=422)["code"] == "not_corroborated"
    assert ask("ada", "POST", f"{path}/corroborations", status=201)["kind"] == "corroboration"
    assert ask("ada", "POST", f"{path}/promotion", json={})["body"]["tier"] == "canon"
    ben.close()


def test_records_are_listed_newest_first_page_by_page(ask: Callable[..., Any]) -> None:
    seen: list[int] = []
    cursor = ""
    while cursor is not None:
        page = ask("", "GET", f"/v1/records?kinds=fact&newest_first=true&limit=20{cursor and '&cursor=' + cursor}")
        seen += [record["seq"] for record in page["records"]]
        cursor = page["next"]
    assert len(seen) == 62
    assert seen == sorted(seen, reverse=True)
    first = ask("", "GET", "/v1/records?kinds=fact&newest_first=true&limit=20")["next"]
    ask("", "GET", f"/v1/records?kinds=fact&limit=20&cursor={first}", status=422)
