"""The commands forget, scan and audit, and the files of ``lukasa vault``."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from lukasa.core.outcome import Accepted
from lukasa.errors import NotAccepted
from lukasa.interfaces.cli.options import (
    Call,
    ForceOption,
    argument,
    flag,
    open_input,
    option,
    progress_bar,
    read_input,
    require_choice,
)
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.cli.transfer import SOURCE_FORMATS, describe_added, show_export, show_import
from lukasa.interfaces.outcomes import ExitCode
from lukasa.interfaces.serialise import to_json

ScopeFilterOption = Annotated[str | None, option("NAME", "Only this scope; default: all that you may read.", "--scope")]


def forget(
    call: Call, ids: Annotated[list[str], argument("ID…", "The ids of the memories.")], scope: ScopeFilterOption = None
) -> None:
    """Delete memories, so that they are no longer found.

    Their history stays in the log; `lukasa undo` brings them back and `lukasa erase` removes every trace.

    Example: lukasa forget 4f9a2c1b77d0
    """
    outcomes = call.existing_memory.vault.bulk_delete(ids, scope=scope)
    failed = next((outcome for outcome in outcomes if not isinstance(outcome, Accepted)), None)
    if failed is not None and len(ids) == 1:
        raise NotAccepted(outcome=failed)
    reasons = [(id, "" if outcome else outcome.reason) for id, outcome in zip(ids, outcomes, strict=True)]
    call.show(
        [{"id": id, "done": not reason, "reason": reason} for id, reason in reasons],
        [f"{id}: {reason}" if reason else f"Forgotten: {id}." for id, reason in reasons],
        exit_code=ExitCode.OK if failed is None else ExitCode.NOT_FOUND,
    )


def scan(
    call: Call,
    file: Annotated[str, argument("FILE|-", "A text file; - reads stdin.")],
    strict: Annotated[bool, flag("--strict", "Report published examples too, such as 123-45-6789.")] = False,
) -> None:
    """Find personal data and secrets in a text. Does not use the store.

    Prints the class and the position of each finding, never its value. Exit code 3 if there is any.

    Example: lukasa scan notes.txt
    """
    from lukasa.pii.detector import CLASS_NAMES, find_pii

    text = read_input(file).decode("utf-8", "replace")
    found = [
        (text.count("\n", 0, hit.start) + 1, hit.start - text.rfind("\n", 0, hit.start), hit.pii_class)
        for hit in find_pii(text, strict=strict)
    ]
    call.show(
        {"file": file, "found": [{"line": line, "column": column, "class": name} for line, column, name in found]},
        columns="line, column, what",
        rows=[(line, column, CLASS_NAMES[name]) for line, column, name in found],
        empty=f"No personal data and no secrets were found in {file}.",
        exit_code=ExitCode.REFUSED if found else ExitCode.OK,
    )


def audit(
    call: Call,
    path: Annotated[Path, argument("PATH", "The file or folder to check.", exists=True)],
    format_name: Annotated[
        str | None, option("NAME", "Its format, as for `lukasa import`; default: by its content.", "--format")
    ] = None,
) -> None:
    """Report what `lukasa import` would store and refuse of another program's memories. Stores nothing.

    Example: lukasa audit memory.json
    """
    import lukasa

    require_choice(format_name, (*SOURCE_FORMATS, "vault"), "a format of another program")
    with progress_bar("Checking") as bar:
        found = lukasa.audit_source(path, format=format_name or "", progress=bar)
    counts = Counter(code for _, code, _ in found.refusals)
    examples = {code: (where, reason) for where, code, reason in reversed(found.refusals)}
    entries, refused = found.added + found.present + len(found.refusals), len(found.refusals)
    share = f"{refused:,} ({refused / max(entries, 1):.0%})"
    call.show(
        {"path": str(path), "entries": entries, **to_json(found), "refused_by_code": dict(counts.most_common())},
        f"{path} is of the format {found.format}: {format_count(entries, 'entry', 'entries')}; {share} would be refused.",
        columns="refused, code, where, for example",
        rows=[(count, code, *examples[code]) for code, count in counts.most_common()],
        wrap="for example",
        after=f"`lukasa import {path} --format {found.format}` would add {describe_added(found)}.",
    )


def export(
    call: Call,
    file: Annotated[str, argument("FILE|-", "The file to write; - writes to stdout.")],
    force: ForceOption = False,
) -> None:
    """Write every version of every memory to a vault.jsonl file, as `lukasa export --format vault` does.

    Example: lukasa vault export vault.jsonl
    """
    from lukasa.storage.files import open_output_file
    from lukasa.transfer.layouts.vault_jsonl import export_vault

    target = nullcontext(sys.stdout.buffer) if file == "-" else open_output_file(Path(file).absolute(), replace=force)
    with progress_bar("Exporting") as bar, target as lines:
        count = export_vault(call.existing_memory.journal, lines, bar)
        lines.flush()
    show_export(call, file, count)


def import_(call: Call, file: Annotated[str, argument("FILE|-", "A vault.jsonl file; - reads stdin.")]) -> None:
    """Add the memories of a vault.jsonl file, with their ids and times, as `lukasa import --format vault` does.

    Every memory must pass the write gate. Memories that are present are skipped, so the command can be repeated.

    Example: lukasa vault import vault.jsonl
    """
    from lukasa.transfer.layouts.vault_jsonl import import_vault

    with open_input(file) as lines, progress_bar("Importing") as bar:
        done = import_vault(call.memory.vault, lines, bar)
    added = f"{format_count(done.memories, 'memory', 'memories')} ({format_count(done.versions, 'version')})"
    rows = [(line, why.code, why.reason) for line, why in done.refused]
    show_import(call, done, added, done.present, "line, code, reason", rows)
