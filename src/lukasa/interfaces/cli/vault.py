"""``lukasa vault``, and the commands remember, forget, scan and audit, which use the vault's checks."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.core.choices import SEARCH_PROFILES, TIERS
from lukasa.core.outcome import Outcome
from lukasa.errors import NotAccepted
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    ForceOption,
    TargetScopeOption,
    argument,
    choice,
    flag,
    open_input,
    option,
    parse_time,
    progress_bar,
    read_input,
    read_text,
    require_choice,
    require_result,
    require_scopes,
    require_utf8,
)
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.cli.transfer import SOURCE_FORMATS, describe_added, show_export, show_import
from lukasa.interfaces.outcomes import ExitCode, describe_details
from lukasa.interfaces.serialise import to_json, vault_record_json
from lukasa.storage.engine import QUARANTINE

app = CommandApp(
    "vault",
    "List, search and review the memories of `lukasa remember`, and print them for a prompt.",
    example="lukasa vault list --tier canon",
)

IdArgument = Annotated[str, argument("ID", "The id of the memory.")]
ScopeFilterOption = Annotated[str | None, option("NAME", "Only this scope; default: all that you may read.", "--scope")]
DistinctFromOption = Annotated[
    list[str] | None, option("ID", "A similar memory that states another fact (repeatable).", "--distinct-from")
]
ExpiresOption = Annotated[str | None, option("TIME", "From this time on it is left out of recall and blocks.")]
BudgetOption = Annotated[int | None, option("TOKENS", "Maximum number of tokens.", min=1)]


def remember(
    call: Call,
    text: Annotated[str, argument("TEXT|-", "The memory, in a sentence or two; - reads stdin.")],
    scope: TargetScopeOption = "shared",
    category: Annotated[str, option("NAME", "Category: bio, mission, project, goal, …")] = "general",
    tier: Annotated[
        str | None,
        choice("TIER", "canon for lasting facts, register for facts that change. Default: by topic and caller.", TIERS),
    ] = None,
    topic: Annotated[str | None, option("ID", "Topic of a register; a new text replaces the old one.")] = None,
    tag: Annotated[list[str] | None, option("TAG", "A tag to filter by (repeatable).")] = None,
    source: Annotated[str, option("WORD", "Where it comes from: chat, manual, tool, operator, …")] = "manual",
    distinct_from: DistinctFromOption = None,
    expires_at: ExpiresOption = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only check; write nothing.")] = False,
) -> None:
    """Remember a fact. Noise, secrets, personal data and duplicates are refused.

    The memory is stored in the vault, the curated part of the store. A refusal says why; nothing is written then.

    Example: lukasa remember "The staging database is called heron" --category infrastructure
    """
    content = read_text("-").rstrip("\n") if text == "-" else text
    require_utf8(content)
    fields: dict[str, Any] = {"tier": tier, "topic_id": topic, "tags": tag or (), "source": source}
    fields["distinct_from"] = distinct_from or ()
    fields["expires_at"] = parse_time(expires_at)
    if dry_run:
        require_result(call.memory.vault.judge({"text": content, "scope": scope, "category": category, **fields}))
        call.show({"accepted": True, "dry_run": True}, "The gate would accept this.")
        return
    _show_written(call, call.memory.vault.add_memory(content, scope, category, **fields))


def _show_written(call: Call, written: Outcome) -> None:
    """Show the memory that was written, and those that say something similar."""
    outcome = written or written.unwrap()
    record, similar = outcome.record, outcome.details.get("similar_to", ())
    verb = "Remembered" if record.version == 1 else f"Updated (version {record.version})"
    if QUARANTINE in outcome.details:
        verb = "Kept, but hidden"
    lines = [f"{verb}: {record.id} in {record.scope}.", *describe_details(outcome.details)]
    for other in similar:
        found = other["difference"]
        words = f"{found['here'] or 'nothing'} here, {found['there'] or 'nothing'} there"
        lines.append(f"Similar to {other['id']}, which states another fact ({found['kind']}: {words}).")
    call.show(vault_record_json(record) | dict(outcome.details), lines)


def confirm(call: Call, id: IdArgument, expires_at: ExpiresOption = None, scope: ScopeFilterOption = None) -> None:
    """Confirm that a memory still holds. Blocks for prompts then say when it was last confirmed.

    The confirmation is a new version; `lukasa history` shows it. Reading a memory never confirms it.

    Example: lukasa confirm 4f9a2c1b77d0
    """
    outcome = call.existing_memory.vault.confirm(id, scope=scope, expires_at=parse_time(expires_at))
    record = outcome.unwrap()
    call.show(vault_record_json(record), f"Confirmed (version {record.version}): {record.id} in {record.scope}.")


def forget(
    call: Call, ids: Annotated[list[str], argument("ID…", "The ids of the memories.")], scope: ScopeFilterOption = None
) -> None:
    """Delete memories, so that they are no longer found.

    Their history stays in the log; `lukasa undo` brings them back and `lukasa erase` removes every trace.

    Example: lukasa forget 4f9a2c1b77d0
    """
    outcomes = call.existing_memory.vault.bulk_delete(ids, scope=scope)
    failed = next((outcome for outcome in outcomes if not outcome), None)
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


@app.command()
def list_(
    call: Call,
    scope: ScopeFilterOption = None,
    tier: Annotated[str | None, choice("TIER", "canon (lasting facts) or register (facts that change).", TIERS)] = None,
    category: Annotated[str | None, option("NAME", "Only this category.")] = None,
    topic: Annotated[str | None, option("ID", "Only this topic.")] = None,
    tag: Annotated[str | None, option("TAG", "Only with this tag.")] = None,
    limit: Annotated[int, option("N", "Maximum number of memories.", min=0)] = 100,
) -> None:
    """List the memories in the vault, oldest first.

    Example: lukasa vault list --tier canon
    """
    require_scopes(call.existing_memory.journal, scope)
    known_tier = require_choice(tier, TIERS, "a tier")
    found = call.existing_memory.vault.list(
        scope, tier=known_tier, category=category, topic_id=topic, tag=tag, limit=limit
    )
    columns = "id, scope, tier, category, topic=topic_id, text"
    call.show(found, columns=columns, wrap="text", empty="The vault holds no such memory.")


def update(
    call: Call,
    id: IdArgument,
    text: Annotated[str, argument("TEXT|-", "The new text; - reads stdin.")],
    category: Annotated[str | None, option("NAME", "Another category.")] = None,
    tag: Annotated[list[str] | None, option("TAG", "Other tags (repeatable).")] = None,
    distinct_from: DistinctFromOption = None,
    scope: ScopeFilterOption = None,
) -> None:
    """Change the text of a memory whose fact has changed. Its history stays.

    Example: lukasa update 4f9a2c1b77d0 "Deploys run on Thursday."
    """
    content = read_text("-").rstrip("\n") if text == "-" else text
    require_utf8(content)
    vault = call.existing_memory.vault
    outcome = vault.update(id, content, category=category, tags=tag, scope=scope, distinct_from=distinct_from or ())
    _show_written(call, outcome)


@app.command()
def search(
    call: Call,
    query: Annotated[str, argument("QUERY", "What to search for.")],
    scope: ScopeFilterOption = None,
    profile: Annotated[
        str, choice("NAME", "hybrid: words and meaning; lexical: words only.", SEARCH_PROFILES)
    ] = "hybrid",
    k: Annotated[int, option("N", "Maximum number of memories.", "-k", min=1)] = 10,
) -> None:
    """Search the vault, best match first. `lukasa recall` searches all records.

    Example: lukasa vault search "staging database" --profile lexical
    """
    require_utf8(query)
    require_scopes(call.existing_memory.journal, scope)
    known = require_choice(profile, SEARCH_PROFILES, "a profile of search")
    found = call.existing_memory.vault.search(query, () if scope is None else (scope,), k=k, profile=known)
    columns = "score:.2f, id=memory.id, scope=memory.scope, tier=memory.tier, text=memory.text"
    call.show(found, columns=columns, wrap="text", empty="Nothing was found.")


@app.command()
def stats(call: Call) -> None:
    """Show how full the vault is, which memories it holds, and why others were refused.

    Example: lukasa vault stats
    """
    figures = call.existing_memory.vault.vault_stats()
    fields = {}
    for name, value in figures.items():
        counts = [f"{word} {count:,}" for word, count in value.items()] if isinstance(value, dict) else [f"{value:,}"]
        fields[name.replace("_", " ")] = ", ".join(counts) or "–"
    call.show(figures, fields=fields)


@app.command()
def snapshot(
    call: Call,
    scope: TargetScopeOption = "shared",
    block: Annotated[bool, flag("--block", "Print the fenced prompt block, with notes, of every scope.")] = False,
    query: Annotated[str | None, option("TEXT", "Print the prompt block that answers this question instead.")] = None,
    budget: BudgetOption = None,
) -> None:
    """Print the memories as compact Markdown, to be put into a prompt.

    Example: lukasa vault snapshot --budget 500
    """
    vault = call.existing_memory.vault
    if query is not None:
        made = vault.build_memory_block(query=query, budget=budget)
        text, tokens = made.text, made.tokens
    elif block:
        made = vault.build_snapshot_block(budget=budget)
        text, tokens = made.text, made.tokens
    else:
        from lukasa.models.token_counter import open_token_counter

        text = vault.build_snapshot(scope, budget=budget)
        tokens = open_token_counter()(text) if text else 0
    if call.json or text:
        call.show({"text": text, "tokens": tokens}, lambda: typer.echo(text))
    else:
        render.print_to_stderr(
            "The vault is empty, or nothing fits into the budget; `lukasa vault list` shows all memories."
        )


@app.command()
def propose_deletions(call: Call, scope: TargetScopeOption = "shared") -> None:
    """List memories that might be deleted, with the reason. Deletes nothing.

    Example: lukasa vault propose-deletions
    """
    found = call.existing_memory.vault.propose_deletions(scope)
    columns = "id=memory.id, why=reason, text=memory.text"
    call.show(found, columns=columns, wrap="text", empty="No memory looks superfluous.")


@app.command()
def candidates(
    call: Call,
    scope: TargetScopeOption = "shared",
    floor: Annotated[float, option("SHARE", "How similar two memories must be.", min=0.01, max=1.0)] = 0.45,
) -> None:
    """List pairs of similar memories that might be merged. Changes nothing.

    Example: lukasa vault candidates --floor 0.6
    """
    pairs = call.existing_memory.vault.find_consolidation_candidates(scope, floor)
    texts: render.Column = ("texts", lambda pair: f"{pair.one.text} / {pair.other.text}")
    difference: render.Column = ("difference", lambda pair: str(pair.difference or ""))
    columns = ("overlap:.2f, sequence:.2f, meaning:.2f, one=one.id, other=other.id", difference, texts)
    call.show(pairs, columns=columns, wrap="texts", empty="No two memories are that similar.")


@app.command()
def promote(
    call: Call,
    id: Annotated[str, argument("ID", "The id of the register.")],
    text: Annotated[str | None, option("TEXT", "The text for canon; without it, the register's text.")] = None,
    by: Annotated[str, option("NAME", "The person who decides it.")] = "",
    scope: ScopeFilterOption = None,
) -> None:
    """Turn a register (a fact that changes) into canon (a lasting fact).

    A person decides it, or independent authors say the same.

    Example: lukasa vault promote 4f9a2c1b77d0 --by Ada
    """
    record = call.existing_memory.vault.promote_to_canon(id, text, by=by, scope=scope).unwrap()
    why = f"decided by {by}" if by else f"corroborated by {', '.join(record.body.get('corroborated_by', ()))}"
    call.show(vault_record_json(record), f"{record.id} is canon now, {why}.")


@app.command()
def corroborate(
    call: Call,
    id: IdArgument,
    author: Annotated[str, option("NAME", "Who says the same; an agent can only name itself.")] = "",
    scope: ScopeFilterOption = None,
) -> None:
    """Record that another author says the same as a memory.

    Example: lukasa --agent elysia vault corroborate 4f9a2c1b77d0
    """
    record = call.existing_memory.vault.corroborate(id, scope=scope, author=author).unwrap()
    call.show({"memory": id, "author": record.author}, f"{record.author} corroborates {id}.")


@app.command()
def add_tick(
    call: Call,
    text: Annotated[str | None, argument("[TEXT]", "The event; without it, the entries are shown.")] = None,
    scope: ScopeFilterOption = None,
) -> None:
    """Add an entry to the burst journal, which keeps entries for a day, or show the entries.

    Use it for progress marks, runtime snapshots and check-ins. The number of entries is limited.

    Example: lukasa vault add-tick "tick marker for burst 5"
    """
    if text is not None:
        record = call.memory.vault.add_tick(text, scope).unwrap()
        call.show(record, f"Added to the burst journal of {record.scope}.")
        return
    columns = "at, scope, author, text"
    call.show(call.memory.vault.ticks(scope), columns=columns, wrap="text", empty="The burst journal is empty.")


@app.command()
def note(
    call: Call,
    text: Annotated[str | None, argument("[TEXT]", "The note; without it, the notes are shown.")] = None,
    scope: ScopeFilterOption = None,
) -> None:
    """Store a short note that is part of every snapshot block, or show the notes.

    Example: lukasa vault note "Call me Ada."
    """
    if text is not None:
        record = call.memory.vault.note(text, scope or "shared").unwrap()
        call.show(record, f"Noted: {record.id} in {record.scope}.")
        return
    notes = call.memory.vault.notes(() if scope is None else (scope,))
    call.show(notes, columns="id, scope, text", wrap="text", empty="There are no notes.")


@app.command()
def directive(
    call: Call,
    text: Annotated[str | None, argument("[TEXT]", "The rule; without it, the rules are shown.")] = None,
    scope: ScopeFilterOption = None,
) -> None:
    """Store a rule of behaviour, or show the rules. Relevant rules are part of memory blocks.

    Only the owner of the store may set a rule for all agents.

    Example: lukasa vault directive "Answer in British spelling."
    """
    if text is not None:
        record = call.memory.vault.directive(text, scope).unwrap()
        call.show(record, f"Set: {record.id} in {record.scope}.")
        return
    directives = call.memory.vault.directives(() if scope is None else (scope,))
    call.show(directives, columns="id, scope, text", wrap="text", empty="There are no directives.")


@app.command(hidden=True)
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


@app.command(hidden=True)
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
