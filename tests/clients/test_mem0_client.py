"""mem0's own client against ``lukasa serve --compat mem0``, with nothing changed but its host."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.narrow import present

os.environ["MEM0_TELEMETRY"] = "False"  # read when the package is imported
os.environ["MEM0_DIR"] = tempfile.mkdtemp(prefix="mem0-")  # it would write its configuration into the user's home
sys.path.append(str(Path(__file__).parents[2] / "build" / "clients" / "mem0"))
pytest.importorskip("mem0", reason="run by `make test-clients`, which installs mem0ai")

from mem0 import AsyncMemoryClient, MemoryClient
from mem0.exceptions import MemoryError as Mem0Error

httpx = pytest.importorskip("httpx", reason="run by `make test-clients`, which installs it")

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-6")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return the address and the owner's token of a running server."""
    folder = tmp_path_factory.mktemp("server")
    environment = {**os.environ, "LUKASA_STORE": str(folder / "agents.db"), "LUKASA_EMBEDDER": "hash"}
    command = [sys.executable, "-m", "lukasa.interfaces.cli"]
    made = subprocess.run(
        [*command, "token", "add", "mem0", "--owner"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    command += ["serve", "--port", "0", "--compat", "mem0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        while not (found := re.search(r"http://[^/\s,]+", line := present(process.stderr).readline())):
            lines.append(line)
            assert line, "".join(lines)
        yield found[0], made.stdout.strip()
        process.terminate()


@pytest.fixture
def client(server):
    client = MemoryClient(host=server[0], api_key=server[1])
    yield client
    client.client.close()


def test_the_client_adds_searches_changes_and_deletes(client):
    messages = [
        {"role": "user", "content": "My name is Ada and I live in Berlin. I am allergic to nuts."},
        {"role": "assistant", "content": "Good to know."},
    ]
    added = client.add(messages, user_id="ada-1", metadata={"source": "chat"})
    ids = [item["id"] for item in added["results"] if item["event"] == "ADD"]
    assert len(ids) >= 2
    found = client.search("Where does she live?", filters={"user_id": "ada-1"}, top_k=3)["results"]
    assert "Berlin" in found[0]["memory"]
    assert found[0]["metadata"] == {"source": "chat"}
    assert client.search("Where does she live?", filters={"user_id": "ben-1"})["results"] == []
    listed = client.get_all(filters={"AND": [{"user_id": "ada-1"}]}, page=1, page_size=1)
    assert (listed["count"], len(listed["results"])) == (len(ids), 1)
    assert client.get(ids[0])["user_id"] == "ada-1"
    client.update(ids[0], text="User's name is Ada Schmidt")
    assert [event["event"] for event in client.history(ids[0])] == ["ADD", "UPDATE"]
    client.batch_update([{"memory_id": ids[0], "text": "User's name is Ada Weber"}])
    client.batch_delete([{"memory_id": ids[0]}])
    with pytest.raises(Mem0Error):
        client.get(ids[0])
    assert [entity["name"] for entity in client.users()["results"]] == ["ada-1"]
    client.delete_all(user_id="ada-1")
    assert client.get_all(filters={"user_id": "ada-1"})["results"] == []
    client.add("Tea at four.", user_id="ada-2", infer=False)
    client.delete_users(user_id="ada-2")
    assert client.users()["results"] == []


def test_a_wrong_token_and_a_refused_text_are_errors_of_the_client(client, server):
    with httpx.Client() as connection, pytest.raises(ValueError, match="missing or not valid"):
        MemoryClient(host=server[0], api_key="wrong", client=connection)
    with pytest.raises(Mem0Error, match="social security number"):
        client.add("My SSN is 536-22-8145.", user_id="ada-1", infer=False)


async def _use_async_client(host, key):
    async with AsyncMemoryClient(host=host, api_key=key) as client:
        await client.add("The printer is on the third floor.", user_id="ada-3", infer=False)
        found = await client.search("Where is the printer?", filters={"user_id": "ada-3"})
        await client.delete_all(user_id="ada-3")
        return [item["memory"] for item in found["results"]]


def test_the_async_client_does_the_same(server):
    assert asyncio.run(_use_async_client(*server)) == ["The printer is on the third floor."]
