"""Import and export of the document's session JSON."""

import json

import pytest

from lukasa.errors import FormatError
from lukasa.sessions.state import SECTIONS
from lukasa.transfer.layouts.session_json import import_session, read_session, write_session

pytestmark = pytest.mark.requirement("CHK-13")


def test_an_imported_state_is_exported_unchanged_but_for_time_and_number(in_file, make, content):
    state = make.state()
    state["extra"] = {"ünï": "\u2028"}
    assert import_session(in_file.sessions, json.dumps(state).encode())
    data = write_session(in_file.sessions.state("demo"))
    assert content(json.loads(data)) == content(state)
    assert list(json.loads(data))[:8] == list(SECTIONS)
    assert data.decode().startswith('{\n  "metadata": {')
    assert import_session(in_file.sessions, data, "another")
    assert in_file.sessions.state("another")["metadata"]["session_id"] == "another"


def test_a_checkpoint_file_is_read_as_its_state(in_file, make, tmp_path, content):
    in_file.sessions.save_checkpoint(make.state(), "demo")
    data = (tmp_path / "files/sessions/demo/checkpoint_001.json").read_bytes()
    assert content(read_session(data)) == content(make.state())
    assert json.loads(data)["metadata"]["checkpoint_number"] == 1  # other programs read it as the document has it


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"7", b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff\xfe", b'{"a": "\\ud83d"}', b"[" * 100_000,
     b'{"n": ' + b"9" * 5000 + b"}"],
    ids=range(10),
)  # fmt: skip
def test_import_refuses_what_is_not_a_state(in_file, data):
    with pytest.raises(FormatError, match="session"):
        import_session(in_file.sessions, data)


def test_a_state_without_a_session_id_needs_one(in_file, make):
    state = make.state()
    del state["metadata"]
    with pytest.raises(FormatError, match="which session"):
        import_session(in_file.sessions, write_session(state))
    assert import_session(in_file.sessions, b"\xef\xbb\xbf" + write_session(state), "named")
