"""Backups to folders and buckets, their verification and restoration, hostile archives and failing buckets."""

import gzip
import hashlib
import importlib.util
import io
import json
import tarfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import lukasa
from lukasa.core import canonical_json
from lukasa.core.outcome import Refused
from lukasa.errors import FileMissing, FormatError, InvalidInput, NotAllowed, StoreDamaged, StoreUnavailable
from lukasa.storage.archive import Archives, list_archive_names
from lukasa.storage.encryption import decrypt, encrypt
from lukasa.storage.file_stores import open_file_store
from lukasa.storage.files import read_whole
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.memory_files import MemoryFiles
from lukasa.storage.tar import ArchivedFile, pack, unpack
from lukasa.testing import CountingIds
from lukasa.vault import VaultSettings
from support.narrow import present

pytestmark = pytest.mark.requirement("CHK-6")
_spec = importlib.util.spec_from_file_location("buckets", Path(__file__).with_name("buckets.py"))
assert _spec is not None
assert _spec.loader is not None
buckets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(buckets)


def export(location):
    """Return the exported log of a store."""
    with lukasa.open(location) as memory:
        target = io.BytesIO()
        memory.export(target)
        return target.getvalue()


@pytest.fixture
def store(tmp_path, make):
    """Path of a store with records and a session."""
    path = str(tmp_path / "agents.db")
    with lukasa.open(path) as memory:
        for number in range(30):
            memory.journal.write("note", f"note {number}", id=f"n{number % 20}")
        memory.journal.delete(lukasa.Key("shared", "note", "n3"))
        memory.journal.quarantine("mallory")
        with memory.sessions.start("demo") as session:
            session.replace(make.state())
    return path


@pytest.fixture
def folder(tmp_path):
    return f"file://{tmp_path}/backups"


# Whole stores


@pytest.mark.parametrize("secret", ["", "a long secret"])
def test_restore_returns_a_store_with_an_equal_export(store, folder, tmp_path, secret):
    before = export(store)
    with lukasa.open(store) as memory:
        made = memory.backup(folder, secret=secret)
    assert present(made).encrypted == bool(secret)
    into = tmp_path / "elsewhere" / "restored.db"
    done = lukasa.restore(folder, into, secret=secret)
    assert export(into) == before
    assert done.versions == before.count(b"\n") - 2
    assert json.loads(before.splitlines()[-1])["end"]["sha256"] == done.digest
    with lukasa.open(into) as memory:
        assert memory.verify().sound
        assert memory.sessions.recover("demo").unwrap().used == "checkpoint 3 of files and log"
    assert not list(into.parent.glob(".lukasa-restore-*"))


def test_backup_to_a_path_copies_the_store(store, tmp_path):
    with lukasa.open(store) as memory:
        assert memory.backup(tmp_path / "copy.db") is None
    assert export(tmp_path / "copy.db") == export(store)


def test_restore_refuses_to_overwrite(store, folder, tmp_path):
    with lukasa.open(store) as memory:
        memory.backup(folder)
    before = Path(store).read_bytes()
    for into in (store, tmp_path / "agents.db"):
        with pytest.raises(InvalidInput, match="never overwrites"):
            lukasa.restore(folder, into)
    with pytest.raises(InvalidInput, match="memory"):
        lukasa.restore(folder, "memory:")
    assert Path(store).read_bytes() == before


def test_restore_decrypts_only_with_the_secret(store, folder, tmp_path):
    with lukasa.open(store) as memory:
        memory.journal.write("note", "canary-4711")
        memory.backup(folder, secret="right")
    archive = b"".join(file.read_bytes() for file in (tmp_path / "backups").rglob("archive-*"))
    assert b"canary" not in archive
    for secret in ("wrong", ""):
        with pytest.raises((FormatError, InvalidInput)):
            lukasa.restore(folder, tmp_path / "t.db", secret=secret)
    assert not (tmp_path / "t.db").exists()


def test_backup_is_refused_to_agents(store, folder):
    with lukasa.open(store, agent="orion") as memory, pytest.raises(NotAllowed):
        memory.backup(folder)


def test_restore_brings_a_postgresql_store_into_an_empty_database_or_a_file(
    server, folder, tmp_path, monkeypatch, make
):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    with server.database() as source, server.database() as target:
        with lukasa.open(source) as memory:
            memory.journal.write("note", "kept")
            memory.sessions.save_checkpoint(make.state(), "demo")
            memory.backup(folder)
        before = export(source)
        monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "other-files"))
        done = lukasa.restore(folder, target)
        assert export(target) == before
        assert done.files > 0
        with pytest.raises(InvalidInput, match=r"already"):
            lukasa.restore(folder, target)
        monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "third-files"))
        with pytest.raises(InvalidInput, match="records in this database already"):
            lukasa.restore(folder, target)
        into = tmp_path / "elsewhere" / "t.db"
        assert lukasa.restore(folder, into) == replace(done, place=str(into))
        assert export(into) == before
        assert not list(into.parent.glob(".lukasa-restore-*"))


def test_restore_accepts_personal_data_that_the_store_accepted(server, folder, tmp_path, monkeypatch):
    """The gate of the restored store may be stricter than the one that accepted the record."""
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    with server.database() as source:
        with lukasa.open(source, profile=VaultSettings(pii={"memory": "allow"})) as memory:
            assert memory.remember("Reach Ada at ada@example.org about the deployment of the payments service.")
            memory.backup(folder)
        lukasa.restore(folder, tmp_path / "t.db")
        assert export(tmp_path / "t.db") == export(source)


def test_backup_of_a_postgresql_store_to_a_path_is_its_export(server, tmp_path):
    with server.database() as source:
        with lukasa.open(source) as memory:
            memory.journal.write("note", "kept")
            assert memory.backup(tmp_path / "copy.jsonl") is None
        assert (tmp_path / "copy.jsonl").read_bytes() == export(source)


@pytest.mark.parametrize("fact", [{"digest": "0" * 64}, {"versions": 7}])
def test_restore_refuses_a_log_with_another_fingerprint(store, folder, tmp_path, fact):
    with lukasa.open(store) as memory:
        manifest = memory.backup(folder)
    archives = lukasa.find_backups(folder)
    archives.put([("store", Path(store))], {**present(manifest).facts, **fact})
    with pytest.raises(StoreDamaged, match="not the one that was backed up"):
        lukasa.restore(folder, tmp_path / "t.db")
    assert not (tmp_path / "t.db").exists()


def test_restore_refuses_an_altered_entry_of_a_log(store, folder, tmp_path):
    with lukasa.open(store) as memory:
        manifest = memory.backup(folder)
        memory.export(tmp_path / "log.jsonl")
    (tmp_path / "log.jsonl").write_bytes((tmp_path / "log.jsonl").read_bytes().replace(b"note 7", b"lie 77"))
    lukasa.find_backups(folder).put([("store", tmp_path / "log.jsonl")], present(manifest).facts)
    with pytest.raises(StoreDamaged, match="does not match its digest"):
        lukasa.restore(folder, tmp_path / "t.db")
    assert not (tmp_path / "t.db").exists()


def test_restore_brings_a_file_store_into_a_database(store, folder, server, tmp_path, monkeypatch):
    before = export(store)
    with lukasa.open(store) as memory:
        memory.backup(folder)
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "other-files"))
    with server.database() as target:
        lukasa.restore(folder, target)
        assert export(target) == before


# Single sessions


def test_restore_brings_a_session_into_another_store(store, folder, tmp_path, content):
    with lukasa.open(store) as memory:
        made = memory.sessions.backup("demo", folder).unwrap()
        state = memory.sessions.state("demo")
    assert made.name == "session-demo"
    with lukasa.open(tmp_path / "other.db") as memory:
        report = memory.sessions.restore("demo", folder)
        assert report.mode == "normal"
        assert content(report.state) == content(state)
        with pytest.raises(InvalidInput, match="never overwrites"):
            memory.sessions.restore("demo", folder)
    with lukasa.open(store) as memory:
        refused = memory.sessions.backup("missing", folder)
        assert isinstance(refused, Refused)
        assert (refused.code, "no files" in refused.reason) == ("not_found", True)


def test_a_session_backs_up_every_two_hours_and_on_close(in_file, clock, tmp_path):
    session = in_file.sessions.start("demo", backup=str(tmp_path / "b"))
    clock.advance(timedelta(hours=1, minutes=59).total_seconds())
    assert "backup" not in session.tick()
    clock.advance(60)
    assert "backup" in session.tick()
    session.close()
    archives = Archives(open_file_store(tmp_path / "b"), "session-demo", clock, CountingIds())
    assert archives.numbers() == [1, 2]
    assert [event["event"] for event in in_file.sessions.events("demo")][-3:] == ["backed_up", "closed", "backed_up"]


# Archives


@pytest.fixture
def members(tmp_path):
    """Files to archive."""
    (tmp_path / "one").write_bytes(b"1" * 3_000_000)
    (tmp_path / "two").write_bytes(b"")
    return [("one", tmp_path / "one"), ("deep/er/two", tmp_path / "two")]


def test_put_keeps_the_newest_archives_and_deletes_interrupted_uploads(clock, members):
    files = MemoryFiles()
    archives = Archives(files, "store", clock, CountingIds())
    files.put("store/archive-left-behind.tar.gz", b"half", at=clock.now())
    for _ in range(5):
        archives.put(members, {}, keep=2)
    assert archives.numbers() == [4, 5]
    assert len(files.list_files("store")) == 5
    clock.advance(25 * 3600)
    archives.put(members, {}, keep=2)
    assert (
        sorted(file.name.partition("/")[2][:9] for file in files.list_files("store"))
        == ["archive-i"] * 2 + ["manifest-"] * 2
    )
    assert list_archive_names(files) == ["store"]
    assert archives.verify().number == 6


def test_put_on_two_machines_at_once_takes_two_numbers(clock, members, monkeypatch):
    files = MemoryFiles()
    first, second = (Archives(files, "store", clock, CountingIds(name)) for name in ("a", "b"))

    def put(name, data, **options):
        if name == "store/manifest-000001.json" and name not in files._files:
            monkeypatch.undo()
            second.put(members, {})
        MemoryFiles.put(files, name, data, **options)

    monkeypatch.setattr(files, "put", put)
    assert first.put(members, {}).number == 2
    assert first.numbers() == [1, 2]
    assert first.verify(1).archive != first.verify(2).archive


@pytest.mark.parametrize("part", ["archive", "manifest"])
def test_verify_and_fetch_detect_damage_anywhere(clock, members, part, tmp_path):
    files = MemoryFiles()
    archives = Archives(files, "store", clock, CountingIds())
    archives.put(members, {"engine": "sqlite"})
    (name,) = [file.name for file in files.list_files("store") if part in file.name]
    data = read_whole(files, name)
    for offset in range(0, len(data), max(1, len(data) // 200)):
        files.put(name, data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        with pytest.raises(FormatError):
            archives.fetch(tmp_path / "out", 1)
    for damaged in (b"", data[:-1], data + b"x"):
        files.put(name, damaged)
        with pytest.raises(FormatError):
            archives.verify(1)
    files.put(name, data)
    archives.fetch(tmp_path / "out")
    assert (tmp_path / "out" / "one").read_bytes() == b"1" * 3_000_000
    assert (tmp_path / "out" / "deep" / "er" / "two").read_bytes() == b""


def test_verify_finds_no_backup_without_a_manifest(clock):
    archives = Archives(MemoryFiles(), "store", clock, CountingIds())
    with pytest.raises(FileMissing, match="no backup"):
        archives.verify()


def craft_archive(*entries, **options):
    """Return an archive as an attacker would make it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=options.get("format", tarfile.USTAR_FORMAT)) as archive:
        for entry, data in entries:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(file.getvalue())


def tar_entry(name, type=tarfile.REGTYPE, target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = type, target
    return entry


HOSTILE = {
    "climbing": [(tar_entry("../../escaped"), b"x")],
    "absolute": [(tar_entry("/tmp/escaped"), b"x")],
    "symbolic link": [(tar_entry("good", tarfile.SYMTYPE, "/etc/passwd"), b"")],
    "hard link": [(tar_entry("good", tarfile.LNKTYPE, "/etc/passwd"), b"")],
    "device": [(tar_entry("good", tarfile.CHRTYPE), b"")],
    "pipe": [(tar_entry("good", tarfile.FIFOTYPE), b"")],
    "folder": [(tar_entry("good", tarfile.DIRTYPE), b"")],
    "another name": [(tar_entry("evil"), b"x")],
    "one too many": [(tar_entry("good"), b"good"), (tar_entry("evil"), b"x")],
    "the same twice": [(tar_entry("good"), b"good"), (tar_entry("good"), b"good")],
    "another content": [(tar_entry("good"), b"evil")],
    "another size": [(tar_entry("good"), b"good and more")],
    "nothing": [],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_unpack_refuses_a_hostile_archive_and_writes_nothing_outside(tmp_path, case):
    expected = [ArchivedFile("good", 4, hashlib.sha256(b"good").hexdigest())]
    with pytest.raises(FormatError):
        unpack(iter([craft_archive(*HOSTILE[case])]), expected, tmp_path / "out" / "in")
    assert not list(tmp_path.rglob("escaped"))
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/tmp/escaped").exists()


def test_unpack_stops_a_decompression_bomb(tmp_path):
    bomb = gzip.compress(bytes(50_000_000))
    with pytest.raises(FormatError):
        unpack(iter([bomb]), [ArchivedFile("good", 4, "")], tmp_path / "out")
    long_name = tarfile.TarInfo("x" * 5_000_000)
    with pytest.raises(FormatError, match="no file"):
        unpack(iter([craft_archive((long_name, b""), format=tarfile.PAX_FORMAT)]), [], tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"garbage", gzip.compress(b"garbage"), gzip.compress(b"x" * 1024)], ids=range(4))
def test_unpack_refuses_other_files(tmp_path, data):
    with pytest.raises(FormatError):
        unpack(iter([data]), [ArchivedFile("good", 4, "")], tmp_path / "out")


@pytest.mark.parametrize(
    "changes",
    [
        {"archive": "../../etc/passwd"},
        {"archive": "other/archive-1.tar.gz"},
        {"files": [{"name": "../x", "size": 1, "sha256": ""}]},
        {"files": [{"name": "x", "size": -1, "sha256": ""}]},
        {"files": [{"name": "x", "size": 1, "sha256": ""}] * 2},
        {"files": 7},
        {"number": 9},
        {"name": "other"},
        {"schema": "x"},
        {"made_at": "soon"},
    ],
)
def test_verify_refuses_a_hostile_manifest_with_a_valid_seal(clock, members, changes):
    files = MemoryFiles()
    archives = Archives(files, "store", clock, CountingIds())
    archives.put(members, {})
    body = json.loads(read_whole(files, "store/manifest-000001.json")) | changes
    del body["seal"]
    sealed = {**body, "seal": hashlib.sha256(canonical_json.encode(body)).hexdigest()}
    files.put("store/manifest-000001.json", canonical_json.encode(sealed) + b"\n")
    with pytest.raises(FormatError):
        archives.verify(1)


def test_decrypt_detects_every_change():
    plain = [b"a" * 700_000, b"b" * 900_000, b"", b"c"]
    sealed = b"".join(encrypt(plain, "secret"))
    assert b"".join(decrypt([sealed], "secret")) == b"".join(plain)
    chunks = (sealed[start : start + 7919] for start in range(0, len(sealed), 7919))
    assert b"".join(decrypt(chunks, "secret")) == b"".join(plain)
    assert b"".join(decrypt(encrypt([], "secret"), "secret")) == b""
    cut_between_chunks = sealed[: 32 + 4 + (1 << 20) + 16]
    for damaged in (
        sealed[:-1],
        sealed[:40],
        b"",
        sealed + b"\0\0\0\x10" + bytes(16),
        cut_between_chunks,
        sealed[:99] + b"?" + sealed[100:],
    ):
        with pytest.raises(FormatError):
            list(decrypt([damaged], "secret"))
    with pytest.raises(FormatError):
        list(decrypt([sealed], "wrong"))


def test_pack_returns_what_was_packed(tmp_path, members):
    with (tmp_path / "archive").open("wb") as target:
        packed = pack(members, target)
    assert packed[0] == ArchivedFile("one", 3_000_000, hashlib.sha256(b"1" * 3_000_000).hexdigest())
    assert len((tmp_path / "archive").read_bytes()) < 100_000


# Buckets


@pytest.fixture(scope="module")
def bucket_port():
    with buckets.bucket_server() as port:
        yield port


@pytest.fixture
def faulty(bucket_port, monkeypatch):
    """Proxy in front of a bucket that fails on demand."""
    buckets.make_bucket(bucket_port)
    with buckets.Faulty(bucket_port) as proxy:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
        }.items():
            monkeypatch.setenv(name, value)
        yield proxy


URL = f"s3://{buckets.BUCKET}/some/prefix"


def test_restore_reads_a_backup_from_a_bucket(store, faulty, tmp_path):
    before = export(store)
    with lukasa.open(store) as memory:
        for number in (1, 2, 3):
            assert present(memory.backup(URL, keep=2)).number == number
    assert lukasa.find_backups(URL).numbers() == [2, 3]
    lukasa.restore(URL, tmp_path / "t.db", number=2)
    assert export(tmp_path / "t.db") == before


def test_a_bucket_stores_files_like_a_folder(faulty):
    files = open_file_store(URL)
    files.put("a/one", [b"1", b"2"])
    files.put("a/b/two", b"22", new=True)
    with pytest.raises(Exception, match="already"):
        files.put("a/b/two", b"22", new=True)
    assert read_whole(files, "a/one") == b"12"
    assert [(file.name, file.size) for file in files.list_files("a")] == [("a/one", 2)]
    assert files.list_folders("a") == ["b"]
    files.rename("a/one", "a/uno")
    files.delete("a/one")
    assert [file.name for file in files.list_files("a")] == ["a/uno"]
    assert not files.append("a/uno", b"3")
    assert files.delete_partial_files("a") == 0
    with pytest.raises(FileMissing):
        read_whole(files, "a/one")


def test_recover_reads_checkpoints_from_a_bucket(faulty, tmp_path, monkeypatch):
    monkeypatch.setenv("LUKASA_FILES", URL)
    with lukasa.open(tmp_path / "agents.db") as memory, memory.sessions.start("demo") as session:
        session.update("/configuration/x", 1)
    (tmp_path / "agents.db").unlink()
    with lukasa.open(tmp_path / "agents.db") as memory:
        assert memory.sessions.recover("demo").unwrap().state["configuration"]["x"] == 1


@pytest.mark.parametrize(("fault", "method"), [("500", "PUT"), ("500", "GET"), ("cut", "GET")])
def test_backup_retries_failed_requests(store, faulty, tmp_path, fault, method):
    left = {"PUT": 2, "GET": 2}

    def fail_twice(request_method, path):
        if request_method == method and "archive" in path and left[method]:
            left[method] -= 1
            return fault
        return None

    faulty.fault = fail_twice
    with lukasa.open(store) as memory:
        memory.backup(URL)
    assert faulty.reached == 2
    faulty.fault = lambda method, path: None
    lukasa.restore(URL, tmp_path / "t.db")
    assert export(tmp_path / "t.db") == export(store)


def test_backup_fails_if_the_archive_comes_back_different(store, faulty):
    faulty.fault = lambda method, path: "garble" if method == "GET" and "archive" in path else None
    with lukasa.open(store) as memory, pytest.raises(StoreUnavailable, match="came back different"):
        memory.backup(URL)
    faulty.fault = lambda method, path: None
    assert list_archive_names(open_file_store(URL)) == []


def test_backup_recognises_its_manifest_after_a_lost_response(store, faulty):
    """The bucket stores the manifest and responds 500; the client retries and finds the name taken."""
    real = buckets._Passing.answer
    left = [1]

    def lose_response(self, status, headers, data, **options):
        if self.command == "PUT" and "manifest" in self.path and left:
            left.pop()
            return real(self, 500, {}, b"")
        return real(self, status, headers, data, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets._Passing, "answer", lose_response)
        with lukasa.open(store) as memory:
            assert present(memory.backup(URL)).number == 1
    assert not left
    assert lukasa.find_backups(URL).numbers() == [1]


def test_backup_refuses_a_bucket_that_ignores_conditional_writes_before_it_writes(store, faulty):
    faulty.fault = lambda method, path: "forget"
    with lukasa.open(store) as memory:
        with pytest.raises(StoreUnavailable, match="ignores conditional writes"):
            memory.backup(URL)
        assert open_file_store(URL).list_files("agents.db") == []
        assert present(memory.backup(URL, alone=True)).number == 1


def test_backup_reports_a_missing_bucket(store, faulty):
    with lukasa.open(store) as memory, pytest.raises((StoreUnavailable, FileMissing)):
        memory.backup("s3://no-such-bucket/x")


def test_probe_writes_nothing_to_a_folder(tmp_path, clock):
    Archives(LocalFiles(tmp_path), "store", clock, CountingIds()).probe()
    assert list(tmp_path.iterdir()) == []
