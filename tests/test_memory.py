"""Opening a store: its location, its owner, its reach, and the public names of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

import lukasa
from lukasa.config import find_store, locate_store
from lukasa.errors import InvalidInput, StoreClosed, StoreForeign
from lukasa.memory import SERVICES


@pytest.mark.requirement("OPS-1")
def test_the_variable_names_the_store_else_the_nearest_folder_else_the_users_data(tmp_path):
    project = tmp_path / "project"
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    assert find_store({"LUKASA_STORE": "named.db"}, deep) == "named.db"
    assert Path(find_store({}, deep)).name == "memory.db"
    assert project not in Path(find_store({}, deep)).parents
    (project / ".lukasa").mkdir()
    assert Path(find_store({}, deep)) == project / ".lukasa" / "memory.db"


@pytest.mark.requirement("OPS-1")
def test_a_new_store_is_one_private_file(tmp_path):
    with lukasa.open(tmp_path / "new" / "agents.db") as memory:
        memory.journal.write("note", "hello")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["agents.db"]
    assert (tmp_path / "new" / "agents.db").stat().st_mode & 0o777 == 0o600


def test_a_folder_as_store_holds_the_default_file(tmp_path):
    assert locate_store(tmp_path).path == tmp_path / "memory.db"


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_an_impossible_name_is_refused(name):
    with pytest.raises(InvalidInput):
        lukasa.open(name)


def test_a_file_of_another_program_is_left_untouched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreForeign):
        lukasa.open(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_closed_store_raises_store_closed(tmp_path):
    memory = lukasa.open(tmp_path / "s.db")
    memory.close()
    memory.close()
    with pytest.raises(StoreClosed):
        memory.journal.write("note", "late")
    with pytest.raises(StoreClosed):
        memory.journal.tip()


def test_a_backup_is_a_separate_store(tmp_path):
    with lukasa.open(tmp_path / "s.db") as memory:
        memory.journal.write("note", "kept")
        memory.backup(tmp_path / "copy.db")
        memory.journal.write("note", "later")
        with pytest.raises(lukasa.LukasaError):
            memory.backup(tmp_path / "copy.db")
    with lukasa.open(tmp_path / "copy.db") as copy:
        assert [record.text for record in copy.journal.read()] == ["kept"]
        assert copy.verify().sound


def test_the_public_names_are_those_of_all():
    assert all(hasattr(lukasa, name) for name in lukasa.__all__)
    assert lukasa.__all__ == sorted(lukasa.__all__, key=str)


HEAVY = {"numpy", "typer", "rich", "pydantic", "asyncio", "apsw", "pytest", "hypothesis"}


def test_importing_lukasa_loads_nothing_heavy():
    code = "import sys, lukasa; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) & HEAVY == set()


@pytest.mark.requirement("OPS-5")
def test_nothing_opens_a_network_connection(tmp_path):
    code = f"""
import sys
def watch(event, arguments):
    if event.startswith("socket."):
        raise SystemExit(f"a socket was touched: {{event}}")
sys.addaudithook(watch)
import lukasa
with lukasa.open({str(tmp_path / "s.db")!r}) as memory:
    memory.journal.write("note", "quiet")
    memory.journal.find("quiet")
    memory.verify()
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0


def test_as_agent_shares_the_engine_and_does_not_close_it(tmp_path):
    with lukasa.open(tmp_path / "agents.db") as owner:
        owner.journal.write("note", "for all")
        owner.journal.write("note", "for bob", scope="bob")
        lent = owner.as_agent("ada")
        assert [record.text for record in lent.journal.read()] == ["for all"]
        assert lent.journal.write("note", "mine", scope="ada").unwrap().author == "ada"
        with pytest.raises(lukasa.errors.NotAllowed):
            lent.as_agent("bob")
        lent.close()
        assert len(list(owner.journal.read())) == 3


def test_every_service_tells_its_class_its_store_and_its_caller(tmp_path):
    with lukasa.open(tmp_path / "agents.db", agent="orion") as memory:
        place = f"{tmp_path / 'agents.db'} for orion"
        assert repr(memory) == f"<Memory of {place}>"
        for name in (*SERVICES, "jobs", "journal"):
            service = getattr(memory, name)
            assert repr(service) == f"<{type(service).__name__} of {place}>"
        assert repr(memory.trust.rubric) == f"<Rubrics of {place}>"
        assert repr(memory.sessions.start("demo")) == f"<Session 'demo', checkpoint 1, of {place}>"
    with lukasa.open("memory:") as owner:
        assert repr(owner.vault) == "<Vault of memory: for the owner>"
        assert repr(owner.as_agent(scopes=["b", "a"])) == "<Memory of memory: for a caller of a, b>"


def test_the_package_lists_its_public_names_alone():
    assert set(dir(lukasa)) == {*lukasa.__all__, "aio", "errors"}


def test_an_unknown_attribute_raises_attribute_error():
    with pytest.raises(AttributeError):
        lukasa.nonsense  # type: ignore[attr-defined]  # noqa: B018
