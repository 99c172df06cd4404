"""Commands of the vault: remember, forget, scan, audit, and the group ``vault``."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.config import read_profile
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, ExitCode, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options, progress_bar, require_utf8
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.record import Record
from lukasa.storage.files import atomic_write

if TYPE_CHECKING:
    from lukasa.vault import VaultMemory

_HELP = """Curated memory behind a write gate.

Example: lukasa vault list --tier canon"""
app = typer.Typer(help=_HELP, no_args_is_help=True)

_MAX_ROWS = 20
ScopeFilterOption = Annotated[
    str | None, typer.Option("--scope", metavar="NAME", help="The scope; without it, all within reach.")
]
TargetScopeOption = Annotated[str, typer.Option("--scope", metavar="NAME", help="The scope it is to stand in.")]
BudgetOption = Annotated[int | None, typer.Option(metavar="TOKENS", min=1, help="At most so many tokens.")]


def remember(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="What to remember; - reads it from stdin.")],
    scope: TargetScopeOption = "shared",
    category: Annotated[
        str, typer.Option(metavar="NAME", help="What it is about: bio, mission, project, goal, …")
    ] = "general",
    tier: Annotated[str, typer.Option(help="canon for what lasts, register for what changes.")] = "canon",
    topic: Annotated[
        str | None, typer.Option(metavar="ID", help="A register's topic: the same one is updated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag to filter by; may be repeated.")] = None,
    source: Annotated[str, typer.Option(help="chat, manual, tool, operator, …")] = "manual",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the gate would answer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep a memory in the vault, if the write gate lets it in. A refusal says why, and what to do instead.

    Example: lukasa remember "The staging database is called heron" --category infrastructure
    """
    call = get_options(ctx, as_json)
    said = sys.stdin.read().rstrip("\n") if text == "-" else text
    require_utf8(said)
    fields: dict[str, Any] = {"tier": tier, "topic_id": topic, "tags": tag or (), "source": source}
    with call.open() as memory:
        if dry_run:
            refused = memory.vault.judge({"text": said, "scope": scope, "category": category, **fields})
            if refused is not None:
                raise CommandRefused(refused)
        else:
            outcome = memory.vault.add_memory(said, scope, category, **fields)
    if dry_run:
        _print_answer({"accepted": True, "dry_run": True}, "The gate would let this in.", as_json=call.json)
        return
    record = require_accepted(outcome).record
    deed = "Remembered" if record.version == 1 else f"Updated (version {record.version})"
    _print_answer(_memory_json(record), f"{deed}: {record.id} in {record.scope}.", as_json=call.json)


def forget(
    ctx: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="The memories to forget.")],
    scope: ScopeFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget memories: they are no longer found, but their history stays. `lukasa erase` leaves no trace.

    Example: lukasa forget 4f9a2c1b77d0
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        outcomes = memory.vault.bulk_delete(ids, scope=scope)
    _print_outcomes(ids, outcomes, "Forgotten", as_json=call.json)


def scan(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Any text; - is stdin.")],
    as_json: JsonOption = False,
) -> None:
    """Look through a text for personal data and secrets. Says what and where, never the value; exit code 3 if any.

    Example: lukasa scan notes.txt
    """
    from lukasa.pii.detector import CLASS_NAMES
    from lukasa.pii.detector import find_pii as scanned

    call = get_options(ctx, as_json)
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    text = raw.decode("utf-8", "replace")
    found = scanned(text)
    rows = [(*_line_and_column(text, spotted.start), spotted.pii_class) for spotted in found]
    if call.json:
        render.print_json(
            {"file": file, "found": [{"line": line, "column": at, "class": sort} for line, at, sort in rows]}
        )
    elif rows:
        render.print_table(("line", "column", "what"), [(line, at, CLASS_NAMES[sort]) for line, at, sort in rows])
    else:
        render.print_line(f"Nothing personal or secret was found in {file}.")
    if rows:
        raise typer.Exit(ExitCode.REFUSED)


def audit(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, dir_okay=False, help="The file to look over.")],
    import_passed: Annotated[bool, typer.Option("--import", help="Bring what passes into the store.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Tell what the write gate would refuse of another system's memories, and why. Nothing is kept unless --import.

    Reads a vault.jsonl, a knowledge graph of MCP's memory server, or an export of mem0.

    Example: lukasa audit memory.json
    """
    import lukasa
    from lukasa.transfer.layouts.other_systems import read_proposals
    from lukasa.vault import VaultSettings

    call = get_options(ctx, as_json)
    name, proposals = read_proposals(path)
    with progress_bar("Judging") as bar:
        rules = read_profile(None) or VaultSettings()
        trial = lukasa.open("memory:", profile=_without_capacity(rules)) if not import_passed else call.open()
        with trial as memory:
            outcomes: list[Outcome] = []
            for at in range(0, len(proposals), 500):
                outcomes += memory.vault.bulk_add(proposals[at : at + 500])
                if bar is not None:
                    bar(len(outcomes), len(proposals))
    refused = [(at, outcome) for at, outcome in enumerate(outcomes, 1) if isinstance(outcome, Refused)]
    codes = Counter(outcome.code for _, outcome in refused)
    passed = len(outcomes) - len(refused)
    answer = {
        "file": str(path),
        "format": name,
        "entries": len(outcomes),
        "passed": passed,
        "refused": dict(codes.most_common()),
        "imported": passed if import_passed else 0,
    }
    if call.json:
        render.print_json(
            answer | {"refusals": [{"entry": at, "code": o.code, "reason": o.reason} for at, o in refused]}
        )
        return
    share = len(refused) / len(outcomes) if outcomes else 0.0
    render.print_line(
        f"{path} is a {name} with {render.format_count(len(outcomes), 'entry', 'entries')}; the gate refuses {len(refused):,} ({share:.0%})."
    )
    if codes:
        reasons = {outcome.code: outcome.reason for _, outcome in reversed(refused)}
        render.print_table(
            ("refused", "code", "for example"),
            [(n, code, reasons[code]) for code, n in codes.most_common()],
            wrap=("for example",),
        )
    if import_passed:
        render.print_line(f"Brought in: {render.format_count(passed, 'memory', 'memories')}.")


@app.command("list")
def list_(
    ctx: typer.Context,
    scope: ScopeFilterOption = None,
    tier: Annotated[str | None, typer.Option(help="Only canon, or only register.")] = None,
    category: Annotated[str | None, typer.Option(metavar="NAME", help="Only this category.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="ID", help="Only this topic.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only with this tag.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List memories, oldest first.

    Example: lukasa vault list --tier canon
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        found = memory.vault.list(scope, tier=tier, category=category, topic_id=topic, tag=tag, limit=limit)
    if call.json:
        render.print_json([told.as_json() for told in found])
    elif not found:
        render.print_line("The vault holds no such memory.")
    else:
        columns = ("id", "scope", "tier", "category", "topic", "text")
        render.print_table(
            columns, [(m.id, m.scope, m.tier, m.category, m.topic_id or "", m.text) for m in found], wrap=("text",)
        )


@app.command()
def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to find.")],
    scope: ScopeFilterOption = None,
    profile: Annotated[
        str, typer.Option(help="hybrid: by words and meaning; lexical: the document's scoring.")
    ] = "hybrid",
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Find memories of the vault, best first.

    Example: lukasa vault search "staging database" --profile lexical
    """
    call = get_options(ctx, as_json)
    require_utf8(query)
    with call.open(create=False) as memory:
        found = memory.vault.search(query, () if scope is None else (scope,), k=k, profile=profile)
    if call.json:
        render.print_json([{"score": hit.score, "memory": hit.memory.as_json()} for hit in found])
    elif not found:
        render.print_line("Nothing was found.")
    else:
        rows = [
            (f"{hit.score:.2f}", hit.memory.id, hit.memory.scope, hit.memory.tier, hit.memory.text) for hit in found
        ]
        render.print_table(("score", "id", "scope", "tier", "text"), rows, wrap=("text",))


@app.command()
def stats(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Tell how full, how bloated and how divided the vault is, and what was refused and why.

    Example: lukasa vault stats
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        figures = memory.vault.vault_stats()
    if call.json:
        render.print_json(figures)
        return
    render.print_fields({name.replace("_", " "): _format_figure(value) for name, value in figures.items()})


@app.command()
def snapshot(
    ctx: typer.Context,
    scope: TargetScopeOption = "shared",
    block: Annotated[
        bool, typer.Option("--block", help="The fenced block for a prompt: notes too, every scope.")
    ] = False,
    query: Annotated[str | None, typer.Option(metavar="TEXT", help="The block for a question instead.")] = None,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print canon and registers as compact Markdown, within a budget of tokens.

    Example: lukasa vault snapshot --budget 500
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        if query is not None:
            made = memory.vault.build_memory_block(query=query, budget=budget)
            text, tokens = made.text, made.tokens
        elif block:
            made = memory.vault.build_snapshot_block(budget=budget)
            text, tokens = made.text, made.tokens
        else:
            from lukasa.models.token_counter import open_token_counter

            text = memory.vault.build_snapshot(scope, budget=budget)
            tokens = open_token_counter()(text) if text else 0
    if call.json:
        render.print_json({"text": text, "tokens": tokens})
    elif text:
        typer.echo(text)
    else:
        render.print_to_stderr("There is nothing to tell, or the budget is too small for it.")


@app.command("propose-deletions")
def propose_deletions(ctx: typer.Context, scope: TargetScopeOption = "shared", as_json: JsonOption = False) -> None:
    """Name memories that might be deleted, and why. Deletes nothing.

    Example: lukasa vault propose-deletions
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        found = memory.vault.propose_deletions(scope)
    if call.json:
        render.print_json(
            [{"id": s.memory.id, "code": s.code, "reason": s.reason, "text": s.memory.text} for s in found]
        )
    elif not found:
        render.print_line("Nothing stands out.")
    else:
        render.print_table(
            ("id", "why", "text"), [(s.memory.id, s.reason, s.memory.text) for s in found], wrap=("text",)
        )


@app.command()
def candidates(
    ctx: typer.Context,
    scope: TargetScopeOption = "shared",
    floor: Annotated[float, typer.Option(min=0.01, max=1.0, help="How alike two memories must be.")] = 0.45,
    as_json: JsonOption = False,
) -> None:
    """Name pairs of memories that are alike and might become one. Changes nothing.

    Example: lukasa vault candidates --floor 0.6
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        pairs = memory.vault.find_consolidation_candidates(scope, floor)
    if call.json:
        render.print_json(
            [
                {
                    "ids": [p.one.id, p.other.id],
                    "overlap": p.overlap,
                    "sequence": p.sequence,
                    "texts": [p.one.text, p.other.text],
                }
                for p in pairs
            ]
        )
    elif not pairs:
        render.print_line("No two memories are that alike.")
    else:
        rows = [
            (f"{p.overlap:.2f}", f"{p.sequence:.2f}", p.one.id, p.other.id, f"{p.one.text} / {p.other.text}")
            for p in pairs
        ]
        render.print_table(("overlap", "sequence", "one", "other", "texts"), rows, wrap=("texts",))


@app.command()
def promote(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The register.")],
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="How canon is to say it; without it, as it is.")
    ] = None,
    by: Annotated[str, typer.Option(metavar="NAME", help="The person on whose word it becomes canon.")] = "",
    scope: ScopeFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a register canon: when independent authors say the same, or on the word of a named person.

    Example: lukasa vault promote 4f9a2c1b77d0 --by Ada
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        outcome = memory.vault.promote_to_canon(id, text, by=by, scope=scope)
    record = require_accepted(outcome).record
    why = f"on the word of {by}" if by else f"corroborated by {', '.join(record.body.get('corroborated_by', ()))}"
    _print_answer(_memory_json(record), f"{record.id} is canon now, {why}.", as_json=call.json)


@app.command()
def corroborate(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory.")],
    author: Annotated[str, typer.Option(metavar="NAME", help="Who says the same; an agent speaks for itself.")] = "",
    scope: ScopeFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record that somebody else says the same as a memory does.

    Example: lukasa --agent elysia vault corroborate 4f9a2c1b77d0
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        record = require_accepted(memory.vault.corroborate(id, scope=scope, author=author)).record
    _print_answer({"memory": id, "author": record.author}, f"{record.author} corroborates {id}.", as_json=call.json)


@app.command()
def compact(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Drop superseded versions for good and give the space back; the same as `lukasa compact`.

    Example: lukasa vault compact
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        done = memory.vault.compact()
    _print_answer(
        {"versions": done.versions},
        f"Dropped {render.format_count(done.versions, 'superseded version')}.",
        as_json=call.json,
    )


@app.command()
def journal(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A passing event; without it, what is there is shown.")
    ] = None,
    scope: ScopeFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a tick, a runtime snapshot or a check-in into the burst journal: capped, and gone after a day.

    Example: lukasa vault journal "tick marker for burst 5"
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        if text is not None:
            record = require_accepted(memory.vault.journal(text, scope)).record
            _print_answer(
                render.record_json(record), f"Noted in the burst journal of {record.scope}.", as_json=call.json
            )
            return
        ticks = memory.vault.ticks(scope)
    if call.json:
        render.print_json(
            [
                {"id": t.id, "scope": t.scope, "author": t.author, "text": t.text, "at": render.format_time(t.at)}
                for t in ticks
            ]
        )
    elif not ticks:
        render.print_line("The burst journal is empty.")
    else:
        render.print_table(
            ("at", "scope", "author", "text"),
            [(render.format_time(t.at), t.scope, t.author, t.text) for t in ticks],
            wrap=("text",),
        )


@app.command()
def note(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A short note; without it, the notes are shown.")
    ] = None,
    scope: ScopeFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a short note that stands in every snapshot block.

    Example: lukasa vault note "Call me Ada."
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        if text is not None:
            record = require_accepted(memory.vault.note(text, scope or "shared")).record
            _print_answer(render.record_json(record), f"Noted: {record.id} in {record.scope}.", as_json=call.json)
            return
        found = memory.vault.notes(() if scope is None else (scope,))
    _print_texts(found, "There are no notes.", as_json=call.json)


@app.command()
def directive(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A rule; without it, the rules are shown.")
    ] = None,
    scope: ScopeFilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a rule of behaviour, which a memory block brings when it is relevant. For everybody only by the owner.

    Example: lukasa vault directive "Answer in British spelling."
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        if text is not None:
            record = require_accepted(memory.vault.directive(text, scope)).record
            _print_answer(render.record_json(record), f"Set: {record.id} in {record.scope}.", as_json=call.json)
            return
        found = memory.vault.directives(() if scope is None else (scope,))
    _print_texts(found, "There are no directives.", as_json=call.json)


@app.command()
def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Where to write; - is stdout.")],
    as_json: JsonOption = False,
) -> None:
    """Write the vault as vault.jsonl, in the document's format: every version of every memory.

    Example: lukasa vault export vault.jsonl
    """
    from lukasa.transfer.layouts.vault_jsonl import export_vault

    call = get_options(ctx, as_json)
    target = nullcontext(sys.stdout.buffer) if file == "-" else atomic_write(Path(file).absolute())
    with call.open(create=False) as memory, progress_bar("Exporting") as bar, target as lines:
        count = export_vault(memory.journal, lines, bar)
        lines.flush()
    if file == "-":
        render.print_to_stderr(f"Exported {render.format_count(count, 'version')}.")
    else:
        _print_answer(
            {"file": file, "versions": count},
            f"Exported {render.format_count(count, 'version')} to {file}.",
            as_json=call.json,
        )


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A vault.jsonl; - is stdin.")],
    as_json: JsonOption = False,
) -> None:
    """Take in a vault.jsonl with its ids, versions and times. Every memory passes the gate; it can be run again.

    Example: lukasa vault import vault.jsonl
    """
    from lukasa.transfer.layouts.vault_jsonl import import_vault

    call = get_options(ctx, as_json)
    source = nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")  # noqa: SIM115 - closed by the with below
    with source as lines, call.open() as memory, progress_bar("Importing") as bar:
        done = import_vault(memory.vault, lines, bar)
    if call.json:
        refused = [{"line": line, "code": why.code, "reason": why.reason} for line, why in done.refused]
        render.print_json(
            {"memories": done.memories, "versions": done.versions, "present": done.present, "refused": refused}
        )
    else:
        render.print_line(
            f"{render.format_count(done.memories, 'memory', 'memories')} ({render.format_count(done.versions, 'version')}) brought in, "
            f"{done.present:,} already here, {len(done.refused):,} refused."
        )
        if done.refused:
            render.print_table(
                ("line", "code", "reason"),
                [(n, why.code, why.reason) for n, why in done.refused[:_MAX_ROWS]],
                wrap=("reason",),
            )
        if len(done.refused) > _MAX_ROWS:
            render.print_line(f"and {len(done.refused) - _MAX_ROWS:,} more; --json names them all.")
    if done.refused:
        raise typer.Exit(ExitCode.REFUSED)


def _without_capacity(rules: Any) -> Any:
    """The rules without a limit on how many: an audit judges what is said, not how much there is of it."""
    from dataclasses import replace

    return replace(rules, capacity=1_000_000_000, scopes=None)


def _print_answer(value: Any, sentence: str, *, as_json: bool) -> None:
    if as_json:
        render.print_json(value)
    else:
        render.print_line(sentence)


def _memory_json(record: Record) -> dict[str, Any]:
    from lukasa.vault.memory import parse_memory

    told: VaultMemory = parse_memory(record)
    return told.as_json()


def _print_outcomes(ids: list[str], outcomes: Any, verb: str, *, as_json: bool) -> None:
    rows = [
        {"id": id, "done": isinstance(outcome, Accepted), "reason": getattr(outcome, "reason", "")}
        for id, outcome in zip(ids, outcomes, strict=True)
    ]
    failed = next((outcome for outcome in outcomes if not isinstance(outcome, Accepted)), None)
    if failed is not None and len(ids) == 1:
        raise CommandRefused(failed)
    if as_json:
        render.print_json(rows)
    else:
        for row in rows:
            render.print_line(f"{verb}: {row['id']}." if row["done"] else f"{row['id']}: {row['reason']}")
    if failed is not None:
        raise typer.Exit(ExitCode.NOT_FOUND)


def _print_texts(found: Any, empty_message: str, *, as_json: bool) -> None:
    if as_json:
        render.print_json([render.record_json(record) for record in found])
    elif not found:
        render.print_line(empty_message)
    else:
        render.print_table(
            ("id", "scope", "text"), [(record.id, record.scope, record.text) for record in found], wrap=("text",)
        )


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    """Line and column of a position, both from 1 on."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _format_figure(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items()) or "–"
    return f"{value:,}"
