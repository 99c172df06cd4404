"""Files of ``lukasa checkpoint``: the state of a session in the document's JSON."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from lukasa.interfaces.cli import answers
from lukasa.interfaces.cli.options import Call, ForceOption, argument
from lukasa.interfaces.cli.render import format_size


def export(
    call: Call,
    session_id: Annotated[str, argument("SESSION_ID", "The id of the session.")],
    file: Annotated[str, argument("FILE|-", "The file to write; - writes to stdout.")],
    force: ForceOption = False,
) -> None:
    """Write the current state of a session to a JSON file, which `lukasa checkpoint save --state` reads.

    Example: lukasa checkpoint export demo state.json
    """
    from lukasa.storage.files import open_output_file
    from lukasa.transfer.layouts.session_json import write_session

    answers.check(call, "sessions.state", {"session_id": session_id})
    data = write_session(call.existing_memory.sessions.state(session_id) or {})
    target = nullcontext(sys.stdout.buffer) if file == "-" else open_output_file(Path(file).absolute(), replace=force)
    with target as output:
        output.write(data)
        output.flush()
    if file != "-":
        answer = {"session": session_id, "file": file, "bytes": len(data)}
        call.show(answer, f"Wrote the state of {session_id} to {file} ({format_size(len(data))}).")
