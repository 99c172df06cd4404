"""Backups: to a folder and to a bucket, read back, brought back with a proof; hostile archives and failing buckets."""

import gzip
import hashlib
import importlib.util
import io
import json
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest

import lukasa
from lukasa import canonical_json
from lukasa.errors import FileMissing, FormatError, InvalidInput, NotAllowed, StoreUnavailable
from lukasa.storage.archive import Archives, list_archive_names
from lukasa.storage.encryption import decrypt, encrypt
from lukasa.storage.file_stores import open_file_store
from lukasa.storage.files import read_whole
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.memory_files import MemoryFiles
from lukasa.storage.tar import ArchivedFile, pack, unpack
from lukasa.testing import CountingIds

pytestmark = pytest.mark.requirement("CHK-6")
_spec = importlib.util.spec_from_file_location("buckets", Path(__file__).with_name("buckets.py"))
buckets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(buckets)


def exported(place):
    with lukasa.open(place) as memory:
        target = io.BytesIO()
        memory.export(target)
        return target.getvalue()


@pytest.fixture
def store(tmp_path, make):
    """A store with records and a session, and its export."""
    place = str(tmp_path / "agents.db")
    with lukasa.open(place) as memory:
        for number in range(30):
            memory.journal.write("note", f"note {number}", id=f"n{number % 20}")
        memory.journal.delete(lukasa.Key("shared", "note", "n3"))
        memory.journal.quarantine("mallory")
        with memory.sessions.start("demo") as session:
            session.replace(make.state())
    return place


@pytest.fixture
def folder(tmp_path):
    return f"file://{tmp_path}/backups"


# The whole store


@pytest.mark.parametrize("secret", ["", "a secret that nobody knows"])
def test_a_store_comes_back_on_an_empty_machine_with_an_equal_export(store, folder, tmp_path, secret):
    before = exported(store)
    with lukasa.open(store) as memory:
        made = memory.backup(folder, secret=secret)
    assert made.encrypted == bool(secret)
    into = tmp_path / "elsewhere" / "restored.db"
    done = lukasa.restore(folder, into, secret=secret)
    assert exported(into) == before
    assert done.versions == before.count(b"\n") - 2
    assert json.loads(before.splitlines()[-1])["end"]["sha256"] == done.digest
    with lukasa.open(into) as memory:
        assert memory.verify().sound
        assert memory.sessions.recover("demo").used == "checkpoint 3 of files and log"
    assert not list(into.parent.glob(".lukasa-restore-*"))


def test_a_plain_path_is_still_a_plain_copy(store, tmp_path):
    with lukasa.open(store) as memory:
        assert memory.backup(tmp_path / "copy.db") is None
    assert exported(tmp_path / "copy.db") == exported(store)


def test_nothing_is_ever_overwritten(store, folder, tmp_path):
    with lukasa.open(store) as memory:
        memory.backup(folder)
    before = Path(store).read_bytes()
    for into in (store, tmp_path / "agents.db"):
        with pytest.raises(InvalidInput, match="never overwrites"):
            lukasa.restore(folder, into)
    with pytest.raises(InvalidInput, match="memory"):
        lukasa.restore(folder, "memory:")
    assert Path(store).read_bytes() == before


def test_an_encrypted_backup_shows_nothing_and_opens_with_its_secret_only(store, folder, tmp_path):
    with lukasa.open(store) as memory:
        memory.journal.write("note", "canary-4711")
        memory.backup(folder, secret="right")
    held = b"".join(file.read_bytes() for file in (tmp_path / "backups").rglob("archive-*"))
    assert b"canary" not in held
    for secret in ("wrong", ""):
        with pytest.raises((FormatError, InvalidInput)):
            lukasa.restore(folder, tmp_path / "t.db", secret=secret)
    assert not (tmp_path / "t.db").exists()


def test_only_the_owner_backs_up(store, folder):
    with lukasa.open(store, agent="orion") as memory, pytest.raises(NotAllowed):
        memory.backup(folder)


def test_a_postgresql_store_comes_back_in_an_empty_database(server, folder, tmp_path, monkeypatch, make):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    with server.database() as source, server.database() as target:
        with lukasa.open(source) as memory:
            memory.journal.write("note", "kept")
            memory.sessions.save_checkpoint(make.state(), "demo")
            memory.backup(folder)
        before = exported(source)
        monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "other-files"))
        done = lukasa.restore(folder, target)
        assert exported(target) == before
        assert done.files > 0
        with pytest.raises(InvalidInput, match=r"already"):
            lukasa.restore(folder, target)
        monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "third-files"))
        with pytest.raises(InvalidInput, match="records in this database already"):
            lukasa.restore(folder, target)
        with pytest.raises(InvalidInput, match="PostgreSQL"):
            lukasa.restore(folder, tmp_path / "t.db")


def test_a_file_store_comes_back_in_a_database(store, folder, server, tmp_path, monkeypatch):
    before = exported(store)
    with lukasa.open(store) as memory:
        memory.backup(folder)
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "other-files"))
    with server.database() as target:
        lukasa.restore(folder, target)
        assert exported(target) == before


# One session


def test_a_session_comes_back_in_another_store(store, folder, tmp_path, content):
    with lukasa.open(store) as memory:
        made = memory.sessions.backup("demo", folder)
        state = memory.sessions.state("demo")
    assert made.name == "session-demo"
    with lukasa.open(tmp_path / "other.db") as memory:
        report = memory.sessions.restore("demo", folder)
        assert report.mode == "normal"
        assert content(report.state) == content(state)
        with pytest.raises(InvalidInput, match="never overwrites"):
            memory.sessions.restore("demo", folder)
    with lukasa.open(store) as memory, pytest.raises(InvalidInput, match="no files"):
        memory.sessions.backup("nobody", folder)


def test_a_session_is_backed_up_every_two_hours_and_when_it_is_closed(in_file, clock, tmp_path):
    session = in_file.sessions.start("demo", backup=str(tmp_path / "b"))
    clock.advance(timedelta(hours=1, minutes=59).total_seconds())
    assert session.tick() == ()
    clock.advance(60)
    assert session.tick() == ("backup",)
    session.close()
    archives = Archives(open_file_store(tmp_path / "b"), "session-demo", clock, CountingIds())
    assert archives.numbers() == [1, 2]
    assert [event["event"] for event in in_file.sessions.events("demo")][-3:] == ["backed_up", "closed", "backed_up"]


# Archives


@pytest.fixture
def some(tmp_path):
    """Files to archive."""
    (tmp_path / "one").write_bytes(b"1" * 3_000_000)
    (tmp_path / "two").write_bytes(b"")
    return [("one", tmp_path / "one"), ("deep/er/two", tmp_path / "two")]


def test_the_newest_few_are_kept_and_what_a_broken_upload_left_is_cleared_away(clock, some):
    blobs = MemoryFiles()
    archives = Archives(blobs, "store", clock, CountingIds())
    blobs.put("store/archive-left-behind.tar.gz", b"half", at=clock.now())
    for _ in range(5):
        archives.put(some, {}, keep=2)
    assert archives.numbers() == [4, 5]
    assert len(blobs.list_files("store")) == 5
    clock.advance(25 * 3600)
    archives.put(some, {}, keep=2)
    assert (
        sorted(blob.name.partition("/")[2][:9] for blob in blobs.list_files("store"))
        == ["archive-i"] * 2 + ["manifest-"] * 2
    )
    assert list_archive_names(blobs) == ["store"]
    assert archives.verify().number == 6


def test_two_machines_that_back_up_at_once_get_two_numbers(clock, some):
    blobs = MemoryFiles()
    one, other = (Archives(blobs, "store", clock, CountingIds(name)) for name in ("a", "b"))
    real = blobs.put

    def put(name, data, **options):
        if name == "store/manifest-000001.json" and name not in blobs._files:
            blobs.put = real
            other.put(some, {})
        real(name, data, **options)

    blobs.put = put
    assert one.put(some, {}).number == 2
    assert one.numbers() == [1, 2]
    assert one.verify(1).archive != one.verify(2).archive


@pytest.mark.parametrize("part", ["archive", "manifest"])
def test_every_damage_of_a_backup_is_noticed(clock, some, part, tmp_path):
    blobs = MemoryFiles()
    archives = Archives(blobs, "store", clock, CountingIds())
    archives.put(some, {"engine": "sqlite"})
    (name,) = [blob.name for blob in blobs.list_files("store") if part in blob.name]
    data = read_whole(blobs, name)
    for place in range(0, len(data), max(1, len(data) // 200)):
        blobs.put(name, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(FormatError):
            archives.fetch(tmp_path / "out", 1)
    for hurt in (b"", data[:-1], data + b"x"):
        blobs.put(name, hurt)
        with pytest.raises(FormatError):
            archives.verify(1)
    blobs.put(name, data)
    archives.fetch(tmp_path / "out")
    assert (tmp_path / "out" / "one").read_bytes() == b"1" * 3_000_000
    assert (tmp_path / "out" / "deep" / "er" / "two").read_bytes() == b""


def test_there_is_no_backup_without_a_manifest(clock):
    archives = Archives(MemoryFiles(), "store", clock, CountingIds())
    with pytest.raises(FileMissing, match="no backup"):
        archives.verify()


def crafted(tmp_path, *members, **options):
    """An archive as somebody with bad intentions would make it, and a manifest that goes with it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=options.get("format", tarfile.USTAR_FORMAT)) as archive:
        for member, data in members:
            member.size = options.get("size", len(data))
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(file.getvalue())


def member(name, sort=tarfile.REGTYPE, target=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = sort, target
    return made


HOSTILE = {
    "climbing": [(member("../../escaped"), b"x")],
    "absolute": [(member("/tmp/escaped"), b"x")],
    "symbolic link": [(member("good", tarfile.SYMTYPE, "/etc/passwd"), b"")],
    "hard link": [(member("good", tarfile.LNKTYPE, "/etc/passwd"), b"")],
    "device": [(member("good", tarfile.CHRTYPE), b"")],
    "pipe": [(member("good", tarfile.FIFOTYPE), b"")],
    "folder": [(member("good", tarfile.DIRTYPE), b"")],
    "another name": [(member("evil"), b"x")],
    "one too many": [(member("good"), b"good"), (member("evil"), b"x")],
    "the same twice": [(member("good"), b"good"), (member("good"), b"good")],
    "another content": [(member("good"), b"evil")],
    "another size": [(member("good"), b"good and more")],
    "nothing": [],
}


@pytest.mark.parametrize("sort", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_lands_outside(tmp_path, sort):
    expected = [ArchivedFile("good", 4, hashlib.sha256(b"good").hexdigest())]
    with pytest.raises(FormatError):
        unpack(iter([crafted(tmp_path, *HOSTILE[sort])]), expected, tmp_path / "out" / "in")
    assert not list(tmp_path.rglob("escaped"))
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/tmp/escaped").exists()


def test_a_bomb_is_stopped_at_the_size_its_manifest_says(tmp_path):
    bomb = gzip.compress(bytes(50_000_000))
    with pytest.raises(FormatError):
        unpack(iter([bomb]), [ArchivedFile("good", 4, "")], tmp_path / "out")
    long_name = tarfile.TarInfo("x" * 5_000_000)
    with pytest.raises(FormatError, match="no file"):
        unpack(iter([crafted(tmp_path, (long_name, b""), format=tarfile.PAX_FORMAT)]), [], tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"rubbish", gzip.compress(b"rubbish"), gzip.compress(b"x" * 1024)], ids=range(4))
def test_what_is_no_archive_is_refused(tmp_path, data):
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
def test_a_hostile_manifest_is_refused_even_when_its_seal_is_right(clock, some, changes):
    blobs = MemoryFiles()
    archives = Archives(blobs, "store", clock, CountingIds())
    archives.put(some, {})
    body = json.loads(read_whole(blobs, "store/manifest-000001.json")) | changes
    del body["seal"]
    sealed = {**body, "seal": hashlib.sha256(canonical_json.encode(body)).hexdigest()}
    blobs.put("store/manifest-000001.json", canonical_json.encode(sealed) + b"\n")
    with pytest.raises(FormatError):
        archives.verify(1)


def test_sealing_hides_everything_and_notices_every_change():
    plain = [b"a" * 700_000, b"b" * 900_000, b"", b"c"]
    sealed = b"".join(encrypt(plain, "secret"))
    assert b"".join(decrypt([sealed], "secret")) == b"".join(plain)
    assert b"".join(decrypt((sealed[at : at + 7919] for at in range(0, len(sealed), 7919)), "secret")) == b"".join(
        plain
    )
    assert b"".join(decrypt(encrypt([], "secret"), "secret")) == b""
    cut_between_pieces = sealed[: 32 + 4 + (1 << 20) + 16]
    for hurt in (
        sealed[:-1],
        sealed[:40],
        b"",
        sealed + b"\0\0\0\x10" + bytes(16),
        cut_between_pieces,
        sealed[:99] + b"?" + sealed[100:],
    ):
        with pytest.raises(FormatError):
            list(decrypt([hurt], "secret"))
    with pytest.raises(FormatError):
        list(decrypt([sealed], "another"))


def test_packing_tells_what_was_packed(tmp_path, some):
    with (tmp_path / "archive").open("wb") as target:
        packed = pack(some, target)
    assert packed[0] == ArchivedFile("one", 3_000_000, hashlib.sha256(b"1" * 3_000_000).hexdigest())
    assert len((tmp_path / "archive").read_bytes()) < 100_000


# Buckets


@pytest.fixture(scope="module")
def bucket_port():
    with buckets.bucket_server() as port:
        yield port


@pytest.fixture
def faulty(bucket_port, monkeypatch):
    """A bucket behind a proxy that fails on demand."""
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


def test_a_store_goes_to_a_bucket_and_comes_back(store, faulty, tmp_path):
    before = exported(store)
    with lukasa.open(store) as memory:
        for number in (1, 2, 3):
            assert memory.backup(URL, keep=2).number == number
    assert lukasa.find_backups(URL).numbers() == [2, 3]
    lukasa.restore(URL, tmp_path / "t.db", number=2)
    assert exported(tmp_path / "t.db") == before


def test_a_bucket_keeps_blobs_like_a_folder(faulty):
    blobs = open_file_store(URL)
    blobs.put("a/one", [b"1", b"2"])
    blobs.put("a/b/two", b"22", new=True)
    with pytest.raises(Exception, match="already"):
        blobs.put("a/b/two", b"22", new=True)
    assert read_whole(blobs, "a/one") == b"12"
    assert [(blob.name, blob.size) for blob in blobs.list_files("a")] == [("a/one", 2)]
    assert blobs.list_folders("a") == ["b"]
    blobs.rename("a/one", "a/uno")
    blobs.delete("a/one")
    assert [blob.name for blob in blobs.list_files("a")] == ["a/uno"]
    assert not blobs.append("a/uno", b"3")
    assert blobs.delete_partial_files("a") == 0
    with pytest.raises(FileMissing):
        read_whole(blobs, "a/one")


def test_checkpoints_may_lie_in_a_bucket(faulty, tmp_path, monkeypatch):
    monkeypatch.setenv("LUKASA_FILES", URL)
    with lukasa.open(tmp_path / "agents.db") as memory, memory.sessions.start("demo") as session:
        session.update("/configuration/x", 1)
    (tmp_path / "agents.db").unlink()
    with lukasa.open(tmp_path / "agents.db") as memory:
        assert memory.sessions.recover("demo").state["configuration"]["x"] == 1


@pytest.mark.parametrize(("fault", "method"), [("500", "PUT"), ("500", "GET"), ("cut", "GET")])
def test_trouble_on_the_way_is_tried_again(store, faulty, tmp_path, fault, method):
    left = {"PUT": 2, "GET": 2}

    def sometimes(asked, path):
        if asked == method and "archive" in path and left[method]:
            left[method] -= 1
            return fault
        return None

    faulty.fault = sometimes
    with lukasa.open(store) as memory:
        memory.backup(URL)
    assert faulty.reached == 2
    faulty.fault = lambda method, path: None
    lukasa.restore(URL, tmp_path / "t.db")
    assert exported(tmp_path / "t.db") == exported(store)


def test_an_archive_that_comes_back_different_is_no_backup(store, faulty):
    faulty.fault = lambda method, path: "garble" if method == "GET" and "archive" in path else None
    with lukasa.open(store) as memory, pytest.raises(StoreUnavailable, match="came back different"):
        memory.backup(URL)
    faulty.fault = lambda method, path: None
    assert list_archive_names(open_file_store(URL)) == []


def test_a_lost_answer_to_the_last_write_makes_no_second_backup(store, faulty):
    """The manifest arrived, the bucket said 500, the client tried again and was told that the name is taken."""
    real = buckets._Passing.answer
    left = [1]

    def lose(self, status, headers, data, **options):
        if self.command == "PUT" and "manifest" in self.path and left:
            left.pop()
            return real(self, 500, {}, b"")
        return real(self, status, headers, data, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets._Passing, "answer", lose)
        with lukasa.open(store) as memory:
            assert memory.backup(URL).number == 1
    assert not left
    assert lukasa.find_backups(URL).numbers() == [1]


def test_a_bucket_that_ignores_conditional_writes_is_found_out_before_anything_is_written(store, faulty):
    faulty.fault = lambda method, path: "forget"
    with lukasa.open(store) as memory:
        with pytest.raises(StoreUnavailable, match="ignores conditional writes"):
            memory.backup(URL)
        assert open_file_store(URL).list_files("agents.db") == []
        assert memory.backup(URL, alone=True).number == 1


def test_a_bucket_that_is_not_there_is_told(store, faulty):
    with lukasa.open(store) as memory, pytest.raises((StoreUnavailable, FileMissing)):
        memory.backup("s3://no-such-bucket/x")


def test_a_folder_is_trusted_to_give_a_name_once(tmp_path, clock):
    Archives(LocalFiles(tmp_path), "store", clock, CountingIds()).probe()
    assert list(tmp_path.iterdir()) == []
