"""API tokens: what they grant, where they are stored, and when they end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi")

import lukasa
from lukasa.errors import FileTaken, InvalidInput, NotAllowed
from lukasa.interfaces.api_tokens import ApiTokens, write_secret
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.testing import FrozenClock

pytestmark = pytest.mark.requirement("DOO-4")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[lukasa.Memory]:
    place = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("url")
    with lukasa.open(place, embedder="hash") as memory:
        yield memory


@pytest.fixture
def tokens(memory: lukasa.Memory, clock: FrozenClock) -> ApiTokens:
    return ApiTokens(memory.journal, clock)


def test_a_token_is_found_by_its_secret_until_it_is_revoked(tokens: ApiTokens) -> None:
    secret = tokens.add("laptop", agent="ada", scopes=("ada",), read_only=True, rate=60)
    found = tokens.find(secret)
    assert found is not None
    assert (found.name, found.agent, found.scopes, found.access, found.rate) == ("laptop", "ada", ("ada",), "read", 60)
    assert tokens.find(secret + "x") is None
    assert tokens.revoke("laptop")
    assert tokens.find(secret) is None
    assert not tokens.revoke("laptop")
    assert tokens.list() == []


def test_another_process_on_the_store_sees_a_revocation_at_once(memory: lukasa.Memory, tokens: ApiTokens) -> None:
    secret = tokens.add("laptop", agent="ada")
    with lukasa.open(str(memory.place), embedder="hash") as other:
        others = ApiTokens(other.journal, FrozenClock())
        assert others.find(secret) is not None
        assert tokens.revoke("laptop")
        assert others.find(secret) is None


def test_a_token_ends_at_its_time(tokens: ApiTokens, clock: FrozenClock) -> None:
    secret = tokens.add("laptop", agent="ada", expires_at=clock.now() + timedelta(days=1))
    assert tokens.find(secret) is not None
    clock.advance(86_400)
    assert tokens.find(secret) is None


def test_only_the_hash_is_stored_and_no_agent_sees_it(memory: lukasa.Memory, tokens: ApiTokens) -> None:
    secret = tokens.add("laptop", agent="ada")
    log = io.BytesIO()
    memory.export(log)
    assert secret.encode() not in log.getvalue()
    ada = memory.as_agent("ada")
    seen = [record.kind for record in ada.journal.read()]
    assert "api_token" not in seen
    with pytest.raises(NotAllowed):
        ApiTokens(ada.journal, FrozenClock()).add("mine")


def test_the_last_use_is_recorded_once_an_hour(memory: lukasa.Memory, tokens: ApiTokens, clock: FrozenClock) -> None:
    found = tokens.find(tokens.add("laptop", agent="ada"))
    assert found is not None
    assert tokens.list()[0].last_used is None
    before = memory.journal.tip()
    for _ in range(5):
        tokens.note_use(found)
    assert memory.journal.tip() == before + 1
    assert tokens.list()[0].last_used is not None
    clock.advance(3_600)
    tokens.note_use(found)
    assert memory.journal.tip() == before + 2


def test_an_import_brings_no_token_of_another_store(memory: lukasa.Memory, tokens: ApiTokens, tmp_path: Path) -> None:
    secret = tokens.add("laptop")
    memory.journal.write("note", "before")
    memory.journal.write("note", "", {"kind": "api_token"})
    log = io.BytesIO()
    count = memory.export(log)
    log.seek(0)
    with lukasa.open(tmp_path / "other.db", embedder="hash") as other:
        result = other.import_(log)
        assert (result.added, len(result.refused)) == (count - 1, 1)
        assert "token" in result.refused[0][1]
        assert ApiTokens(other.journal, FrozenClock()).find(secret) is None


def test_erasing_a_subject_leaves_tokens_alone(memory: lukasa.Memory, tokens: ApiTokens) -> None:
    secrets = [tokens.add(f"token {number}", agent="ada") for number in range(3)]
    memory.journal.write("note", "Ada likes tea.")
    for subject in ("a", "0", "ada"):
        memory.journal.erase(subject=subject)
    assert all(tokens.find(secret) is not None for secret in secrets)


@pytest.mark.parametrize(
    "fields", [{"name": " "}, {"name": "x" * 101}, {"read_only": True}, {"rate": -1}, {"rate": 10**9}]
)
def test_a_token_that_makes_no_sense_is_refused(tokens: ApiTokens, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        tokens.add(**{"name": "laptop", **fields})  # type: ignore[arg-type]


def test_a_name_is_used_once(tokens: ApiTokens, clock: FrozenClock) -> None:
    tokens.add("laptop")
    with pytest.raises(FileTaken):
        tokens.add("laptop", agent="ada")
    with pytest.raises(InvalidInput, match="expired"):
        tokens.add("old", expires_at=clock.now())


def test_a_token_in_a_file_that_others_may_read_is_refused_while_serving(tmp_path: Path) -> None:
    stores = CallerStores(str(tmp_path / "a.db"), Caller(), embedder="hash")
    file = tmp_path / "owner.token"
    try:
        source = StoreTokenSource(stores, file)
        secret, other = source.open().add("owner"), source.open().add("laptop", agent="ada")
        write_secret(file, secret)
        assert file.stat().st_mode & 0o777 == 0o600
        assert source(secret) is not None
        file.chmod(0o644)
        with pytest.raises(NotAllowed):
            source(secret)
        assert source(other) is not None
        file.chmod(0o600)
        assert source(secret) is not None
    finally:
        stores.close()


def test_the_command_makes_a_token_of_the_owner_only_with_the_option_that_says_so(tmp_path):
    store = ["--store", str(tmp_path / "a.db")]
    refused = CliRunner().invoke(app, [*store, "token", "add", "laptop"])
    assert refused.exit_code == 2
    assert all(option in refused.stderr for option in ("--agent", "--scope", "--owner"))
    assert CliRunner().invoke(app, [*store, "--agent", "ada", "token", "add", "laptop", "--owner"]).exit_code == 2
    assert not (tmp_path / "a.db").exists()
    made = CliRunner().invoke(app, [*store, "token", "add", "laptop", "--owner"])
    assert made.exit_code == 0
    assert "the owner of the store" in made.stderr
    listed = CliRunner().invoke(app, [*store, "--json", "token", "list"]).stdout
    assert [token["access"] for token in json.loads(listed)] == ["owner"]
