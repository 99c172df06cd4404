"""How the answers of built commands are printed: by the columns and the sentence of a row, or by a function below.

A function is registered for the method of an operation. It gets the call, the answer, and the arguments by name.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from string import Formatter
from typing import Any, TypeVar

import typer

from lukasa.core.clock import from_iso
from lukasa.core.freshness import describe_freshness, describe_left_out
from lukasa.core.outcome import Accepted, Conflict, Refused
from lukasa.core.record import Record
from lukasa.errors import InvalidInput, NotAccepted
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, require_found, require_result
from lukasa.interfaces.cli.render import Column, format_cell, format_count, format_size, read_fields, shorten
from lukasa.interfaces.outcomes import ExitCode, describe_details, not_found
from lukasa.interfaces.serialise import briefing_json, quarantine_json, to_json, vault_record_json
from lukasa.operations import OPERATIONS, Operation
from lukasa.storage.engine import QUARANTINE

Given = ChainMap[str, Any]
"""The arguments by name: those that the caller gave, before the defaults."""
Printer = Callable[[Call, Any, Given], None]
PrinterT = TypeVar("PrinterT", bound=Printer)
PRINTERS: dict[str, Printer] = {}
CHECKS: dict[str, Callable[[Call, Mapping[str, Any]], None]] = {}
"""Lookups before methods that would treat a missing thing as an empty one."""

NOUNS = {"forecast": "prediction", "checkpoint": "session", "trust rubric": "rubric", "proposals": "proposal"}
HINTS = {
    "episodes.finish": "`lukasa episode list --unfinished` lists unfinished episodes.",
    "handoffs.get": "`lukasa handoff inbox --agent AGENT` lists the handoffs of an agent.",
    "journal.release": "`lukasa quarantined` shows who is.",
}
_MAX_ROWS = 50
_ARROWS = {"out": "→", "in": "←"}


def _prints(*methods: str) -> Callable[[PrinterT], PrinterT]:
    def register(printer: PrinterT) -> PrinterT:
        PRINTERS.update(dict.fromkeys(methods, printer))
        return printer

    return register


def check(call: Call, method: str, given: Mapping[str, Any]) -> None:
    """Refuse a call about a thing that does not exist."""
    if method in CHECKS:
        CHECKS[method](call, given)


def show_answer(call: Call, operation: Operation, answer: Any, given: Given) -> None:
    """Print the answer of a method."""
    if isinstance(answer, Refused) and (known := answer.details.get("duplicate_of")):
        advice = f'Different fact? Add --distinct-from {known}. Changed? lukasa update {known} "…"'
        raise NotAccepted(outcome=Refused(answer.code, f"Already known ({known}).", answer.details), hint=advice)
    if isinstance(answer, Accepted | Refused | Conflict):
        answer.unwrap_all(HINTS.get(operation.method))
    if operation.method in PRINTERS:
        PRINTERS[operation.method](call, answer, given)
    elif isinstance(answer, Accepted):
        show_written(call, operation, answer, given)
    elif answer is None:
        group = operation.shell.rpartition(" ")[0]
        id = next((value for value in given.values() if isinstance(value, str)), "")
        lists = any(row.shell == f"{group} list" for row in OPERATIONS)
        hint = f"`lukasa {group} list` shows them." if lists else None
        raise not_found(f"There is no {NOUNS.get(group, group)} {id[:80]!r}.", hint)
    elif operation.columns:
        rows = list(answer)
        last = operation.columns.rpartition(", ")[2].partition("=")[0].partition(":")[0]
        call.show(rows, columns=operation.columns, wrap=last, empty=operation.sentence)
    elif operation.sentence:
        found = to_json(answer)
        found = found if isinstance(found, dict) else {operation.answer: found}
        call.show(found, _SENTENCES.format(operation.sentence, **found))
    else:
        found = to_json(answer)
        call.show(found, fields={name.replace("_", " "): _format_field(value) for name, value in found.items()})


def view(record: Record) -> Any:
    """Return the JSON of a record as its service shows it."""
    from lukasa.experience import Episode, Handoff, Ledger, Skill
    from lukasa.experience.knowledge import KnowledgeItem

    def body(record: Record) -> Any:
        return record.body

    views: dict[str, Callable[[Record], Any]] = {
        "memory": vault_record_json,
        "episode": Episode,
        "handoff": Handoff,
        "skill": Skill,
        "ledger": Ledger,
        "prediction": body,
        "rubric_proposal": lambda made: {"id": made.id} | dict(made.body),
        **dict.fromkeys(("pattern", "antipattern", "fact"), KnowledgeItem),
    }
    return to_json(views[record.kind](record) if record.kind in views else record)


class SentenceFormatter(Formatter):
    """Fills fields into a sentence, in the forms of the columns of a table or, as ``{files:count file}``, counted with a noun."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value in its form."""
        if format_spec.startswith("count "):
            return format_count(value if isinstance(value, int) else len(value), format_spec.removeprefix("count "))
        form = render.FORMS.get(format_spec)
        return str(super().format_field(value, format_spec) if form is None else form(value))


_SENTENCES = SentenceFormatter()


def show_written(call: Call, operation: Operation, accepted: Accepted, given: Given) -> None:
    """Print the record that was written, and the sentence of the row with its fields."""
    records = [record for record in accepted.records if record.kind == accepted.records[0].kind]
    if not records:
        call.show({"records": []}, "Already stored." if "Stored" in operation.sentence else "Nothing to change.")
        return
    found = [view(record) for record in records]
    lines = []
    for record, shown in zip(records, found, strict=True):
        cells = {**record.body, **shown}
        words = {name: format_cell(cell) if isinstance(cell, bool | None) else cell for name, cell in cells.items()}
        own = {"id": record.id, "version": record.version, "scope": record.scope, "record": record, "given": given}
        lines.append(_SENTENCES.vformat(operation.sentence, (), words | own))
    call.show(found[0] if len(found) == 1 else found, dict.fromkeys(lines))


def _format_field(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_field(item)}" for name, item in value.items())
    if isinstance(value, list):
        return "\n".join(map(_format_field, value))
    return format_cell(value)


# what every caller uses, and the vault


@_prints("remember", "vault.add_memory", "vault.update")
def _show_memory(call: Call, accepted: Accepted, _: Given) -> None:
    """Show the memory that was written, and the memories that say something similar."""
    record = accepted.record
    verb = "Remembered" if record.version == 1 else f"Updated (version {record.version})"
    if QUARANTINE in accepted.details:
        verb = "Kept, but hidden"
    lines = [f"{verb}: {record.id} in {record.scope}.", *describe_details(accepted.details)]
    for other in accepted.details.get("similar_to", ()):
        found = other["difference"]
        words = f"{found['here'] or 'nothing'} here, {found['there'] or 'nothing'} there"
        lines.append(f"Similar to {other['id']}, which states another fact ({found['kind']}: {words}).")
    call.show(vault_record_json(record) | dict(accepted.details), lines)


@_prints("vault.judge")
def _show_verdict(call: Call, refused: Refused | None, _: Given) -> None:
    require_result(refused)
    call.show({"accepted": True}, "The gate would accept this.")


@_prints("vault.promote_to_canon")
def _show_promotion(call: Call, accepted: Accepted, given: Given) -> None:
    record, by = accepted.record, given["by"]
    why = f"decided by {by}" if by else f"corroborated by {', '.join(record.body.get('corroborated_by', ()))}"
    call.show(vault_record_json(record), f"{record.id} is canon now, {why}.")


@_prints("vault.find_consolidation_candidates")
def _show_pairs(call: Call, pairs: Any, _: Given) -> None:
    texts: Column = ("texts", lambda pair: f"{pair.one.text} / {pair.other.text}")
    difference: Column = ("difference", lambda pair: str(pair.difference or ""))
    columns = ("overlap:.2f, sequence:.2f, meaning:.2f, one=one.id, other=other.id", difference, texts)
    call.show(pairs, columns=columns, wrap="texts", empty="No two memories are that similar.")


@_prints("vault.build_snapshot", "vault.build_snapshot_block", "vault.build_memory_block")
def _show_block(call: Call, made: Any, _: Given) -> None:
    from lukasa.models.token_counter import open_token_counter

    text = made if isinstance(made, str) else made.text
    tokens = made.tokens if not isinstance(made, str) else open_token_counter()(text) if text else 0
    if call.json or text:
        call.show({"text": text, "tokens": tokens}, lambda: typer.echo(text))
    else:
        render.print_to_stderr(
            "The vault is empty, or nothing fits into the budget; `lukasa vault list` shows all memories."
        )


@_prints("vault.vault_stats")
def _show_vault_stats(call: Call, figures: Mapping[str, Any], _: Given) -> None:
    fields = {}
    for name, value in figures.items():
        counts = [f"{word} {count:,}" for word, count in value.items()] if isinstance(value, dict) else [f"{value:,}"]
        fields[name.replace("_", " ")] = ", ".join(counts) or "–"
    call.show(figures, fields=fields)


@_prints("describe")
def _show_stats(call: Call, facts: Mapping[str, Any], _: Given) -> None:
    tally = call.memory.journal.tally()
    described = {name: format_cell(value) for name, value in facts.items()}
    described |= {"bytes": format_size(facts["bytes"])} if isinstance(facts.get("bytes"), int) else {}
    live, versions = sum(row.live for row in tally), sum(row.versions for row in tally)
    call.show(
        {"store": dict(facts), "live": live, "versions": versions, "tally": tally},
        f"{format_count(live, 'live record')}, {format_count(versions, 'version')} in the log.",
        columns="scope, kind, live:,d, versions:,d",
        rows=tally,
        fields={name.replace("_", " "): render.escape_line(value) for name, value in described.items()},
    )


@_prints("before_task")
def _show_briefing(call: Call, briefing: Any, given: Given) -> None:
    from lukasa.recall.unconfirmed_orders import split_by_reason

    if "budget" in given.maps[0] and not call.json:
        typer.echo(briefing.block(given["budget"]).text)
        return

    def print_briefing() -> None:
        sections = {"Known": briefing.known} if given["include"] else {}
        sections |= {"Relevant": briefing.relevant, "Avoid": briefing.avoid, "Skills": briefing.skills}
        for heading, entries in sections.items():
            render.print_line(f"{heading}:" if entries else f"{heading}: nothing known.")
            for entry in entries:
                render.print_line(f"  {entry.line} ({describe_freshness(entry.record, briefing.asked_at)})")
        if briefing.left_out:
            render.print_line(describe_left_out(*split_by_reason(briefing.left_out)))

    call.show(briefing_json(briefing), print_briefing)


# conversations


def require_conversation(call: Call, id: str, as_of: Any = None) -> None:
    """Refuse a conversation that was never begun, instead of showing an empty one."""
    found = call.memory.context.load(id, as_of=as_of)
    origin, place = found.origin, f"in the scope {call.memory.context.scope!r}."
    if not (origin.state_version or origin.turns or origin.summary_version or found.recovered):
        if as_of is not None:
            raise not_found(f"There was no conversation {id!r} at that time {place}")
        raise not_found(f"There is no conversation {id!r} {place}", "`lukasa context list` shows all of them.")


def _check_conversation(call: Call, given: Mapping[str, Any]) -> None:
    require_conversation(call, given["conversation_id"], given.get("as_of"))


CHECKS |= dict.fromkeys(
    ("context.load", "context.compact", "context.assemble", "context.transcript"), _check_conversation
)


@_prints("context.load")
def _show_conversation(call: Call, found: Any, _: Given) -> None:
    for note in found.recovered:
        call.warn(note)
    open_tasks = [task for task in found.active_tasks if str(task.get("status", "")).lower() != "completed"]
    tools, usage = found.tool_stats, found.token_usage
    fields = {
        "conversation": f"{found.session_id} in {found.scope}",
        "turns": f"{len(found.recent_history):,} recent ({found.tokens:,} tokens), {found.folded:,} summarised",
        "summary": found.long_term_summary,
        "facts": "\n".join(found.facts),
        "tasks": "\n".join(f"{t.get('status', '')}: {t.get('description') or t.get('id')}" for t in open_tasks),
        "tools": f"{tools.get('total_calls', 0):,} calls, {tools.get('failures', 0):,} failed",
        "usage": f"{usage.get('total_input', 0):,} tokens in, {usage.get('total_output', 0):,} out",
    }
    call.show(to_json(found), fields=fields)
    content: Column = ("content", lambda turn: " ".join(turn.content.split())[:200])
    call.show_more(columns=("turn=id, time=timestamp, who=name, tokens", content), rows=found.turns, wrap="content")


@_prints("context.delete")
def _show_deleted_conversation(call: Call, accepted: Accepted, given: Given) -> None:
    id, count = given["conversation_id"], len(accepted.records)
    call.show({"conversation_id": id, "records": count}, f"Deleted {id}: {format_count(count, 'record')}.")


@_prints("context.compact")
def _show_compaction(call: Call, report: Any, _: Given) -> None:
    parts = []
    if report.folded:
        turns, why = format_count(len(report.folded), "turn"), f" ({report.why})" if report.why else ""
        parts.append(f"summarised {turns} ({report.folded_tokens:,} tokens), kept {report.kept}")
        parts.append(f"summary by {report.by}: {report.summary_tokens:,} tokens{why}")
    if report.pruned_tasks:
        parts.append(f"removed {format_count(len(report.pruned_tasks), 'completed task')}")
    if report.duplicate_facts:
        parts.append(f"dropped {format_count(len(report.duplicate_facts), 'duplicate fact')}")
    sentence = "; ".join(parts) if report.happened else "nothing to compact"
    call.show(report, f"{sentence[:1].upper()}{sentence[1:]}.")


@_prints("context.assemble")
def _show_prompt(call: Call, prompt: Any, _: Given) -> None:
    call.show(prompt, lambda: typer.echo(render.escape_text(prompt.text)))
    if prompt.expired:
        call.warn(f"{describe_left_out(prompt.expired, prompt.orders)}.")
    if prompt.memories_left_out:
        call.warn(f"Left out, for lack of budget: {', '.join(map(str, prompt.memories_left_out))}.")
    call.warn(f"{prompt.tokens:,} of {prompt.budget:,} tokens, counted by {prompt.counted_by}.")


@_prints("context.configure")
def _show_settings(call: Call, _: Accepted, given: Given) -> None:
    settings = to_json(call.memory.context.load(given["conversation_id"]).settings)
    call.show(settings, fields={name.replace("_", " "): value for name, value in settings.items()})


@_prints("context.fork")
def _show_fork(call: Call, _: Accepted, given: Given) -> None:
    found = call.memory.context.load(given["new_id"])
    total = format_count(found.folded + len(found.recent_history), "turn")
    call.show(found, f"Forked {given['conversation_id']} to {given['new_id']} with {total}.")


# experience


@_prints("episodes.get")
def _show_episode(call: Call, episode: Any, given: Given) -> None:
    hint = "`lukasa episode list` shows the newest episodes."
    episode = require_found(episode, f"There is no episode {given['id'][:80]!r}.", hint)
    body = episode.record.body
    names = "id, goal, began=timestamp, agent, task=task_id, outcome, seconds=duration_seconds:g"
    fields = read_fields(episode, names) | {
        "steps": "\n".join(map(_format_step, episode.action_log)) or body.get("summary", ""),
        "errors": "\n".join(map(_format_error, episode.errors)),
        "artifacts": "\n".join(map(str, body.get("artifacts_produced", ()))),
        "commit": body.get("git_commit", ""),
        "detail": episode.detail,
    }
    call.show(episode, fields=fields)


def _format_step(step: Any) -> str:
    details = ", ".join(f"{name}: {step[name]}" for name in ("target", "result", "error") if step.get(name))
    action = step.get("action", json.dumps(dict(step)))
    return f"{step.get('t', '')} {action}" + (f" ({details})" if details else "")


def _format_error(error: Any) -> str:
    what = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return f"{what} → {error['resolution']}" if error.get("resolution") else what


@_prints("episodes.prune")
def _show_pruned_episodes(call: Call, done: Any, given: Given) -> None:
    verbs = ("Would summarise", "archive") if given["dry_run"] else ("Summarised", "archived")
    call.show(
        read_fields(done, "summarised, archived, kept") | {"dry_run": given["dry_run"]},
        f"{verbs[0]} {len(done.summarised):,}, {verbs[1]} {len(done.archived):,}; knowledge keeps {len(done.kept):,}.",
    )


@_prints("knowledge.get")
def _show_item(call: Call, item: Any, given: Given) -> None:
    hint = "`lukasa knowledge list` shows all ids."
    item = require_found(item, f"Nothing is known as {given['ref'][:80]!r}.", hint)
    neighbours = call.memory.knowledge.neighbours(given["ref"])
    fields = {"id": item.id, "kind": item.kind} | {
        name: _format_field(value) for name, value in item.record.body.items()
    }
    fields["links"] = "\n".join(f"{_ARROWS[link.direction]} {link.relation} {link.key.id}" for link in neighbours)
    call.show({**to_json(item), "neighbours": to_json(neighbours)}, fields=fields)


@_prints("knowledge.link")
def _show_link(call: Call, accepted: Accepted, given: Given, verb: str = "Linked") -> None:
    changed = len(accepted.records)
    ends = {"from": given["source"], "relation": given["relation"], "to": given["target"]}
    sentence = f"{verb}: {' '.join(ends.values())}." if changed else "Nothing to change."
    call.show(ends | {"removed": verb != "Linked", "changed": changed}, sentence)


PRINTERS["knowledge.unlink"] = partial(_show_link, verb="Unlinked")


@_prints("knowledge.path")
def _show_path(call: Call, keys: Any, given: Given) -> None:
    none = f"No links lead from {given['source']} to {given['target']}."
    call.show(keys, " – ".join(key.id for key in keys) if keys else none)


@_prints("knowledge.merge_duplicates")
def _show_merged_patterns(call: Call, merged: Any, given: Given) -> None:
    merged = require_result(merged)
    verb = "would supersede" if given["dry_run"] else "supersedes"
    lines = [f"{id} {verb} {', '.join(others)}." for id, others in merged.into.items()]
    if merged.label:
        lines.append(f"To take this back: lukasa undo --label {merged.label}")
    call.show(merged, lines or "No two patterns say the same.")


@_prints("skills.get")
def _show_skill(call: Call, skill: Any, given: Given) -> None:
    hint = "`lukasa skill list` shows all skills."
    skill = require_found(skill, f"There is no skill {given['id'][:80]!r}.", hint)
    answer, text = to_json(skill) | {"markdown": skill.markdown}, render.escape_text(skill.markdown)
    call.show(answer, lambda: typer.echo(text, nl=not text.endswith("\n")))


@_prints("handoffs.get")
def _show_handoff(call: Call, handoff: Any, given: Given) -> None:
    handoff = require_found(handoff, f"There is no handoff {given['id'][:80]!r}.", HINTS["handoffs.get"])
    fields = read_fields(handoff, "id, from=from_agent, to=to_agent, status") | dict(handoff.context)
    lists = {name: "\n".join(map(str, value)) for name, value in fields.items() if isinstance(value, list)}
    call.show(handoff, fields=fields | lists)


@_prints("skills.record_use")
def _show_use(call: Call, accepted: Accepted, given: Given) -> None:
    from lukasa.experience import Skill

    skill = Skill(accepted.record)
    call.show(skill, f"{given['id']}: {skill.successes} worked, {skill.failures} failed.")


@_prints("trust.rubric.set")
def _show_rubric(call: Call, accepted: Accepted, given: Given) -> None:
    record, criteria = accepted.record, accepted.record.body["criteria"]
    words = ", ".join(f"{name} {weight:.2f}" for name, weight in criteria.items())
    name = given["name"] or "default"
    answer = {"rubric": name, "version": record.version, "criteria": criteria}
    call.show(answer, f"Rubric {name}, version {record.version}: {words}")


@_prints("metrics.dashboard")
def _show_dashboard(call: Call, board: Any, _: Given) -> None:
    episodes = f"{board.episodes:,} of {board.tasks:,} tasks by {board.agents:,} agents"
    rate, seconds = board.success_rate, board.mean_seconds
    call.show(
        board,
        columns="day, episodes, succeeded, failed, seconds:g, errors",
        rows=board.days,
        fields={
            "episodes": f"{episodes}; {board.unfinished:,} unfinished",
            "success": "–" if rate is None else f"{100 * rate:.0f} %",
            "per task": "–" if board.mean_retries is None else f"{board.mean_retries:.2f} retries",
            "per episode": "–" if seconds is None else f"{seconds:.0f} s",
            "reward": "–" if board.mean_reward is None else f"{board.mean_reward:.2f}",
        },
    )


@_prints("consolidate")
def _show_consolidation(call: Call, done: Any, given: Given) -> None:
    lines = [f"Rejected: {r.what[:120]} ({r.why}; {', '.join(r.sources[:3])})" for r in done.held[:_MAX_ROWS]]
    episodes, verb = f"{format_count(done.looked_at, 'episode')} examined", "would be" if given["dry_run"] else "are"
    new = sum(proposal.action == "new" for proposal in done.proposals)
    if done.proposals:
        lines.append(f"{episodes}: {new} {verb} new, {len(done.proposals) - new} {verb} updated.")
    else:
        lines.append(f"{episodes}; nothing new follows from them." if done.looked_at else "No new episodes.")
    if done.label:
        lines.append(f"To take this back: lukasa undo --label {done.label}")
    sources: Column = ("sources", _format_sources)
    voices: Column = ("voices", lambda row: row.voices or "")
    columns = (("", lambda row: row.action), "id=key.id, kind=key.kind, confidence:.2f", voices, sources, "says")
    table: Any = {"columns": columns, "rows": done.proposals, "truncate": "says", "limit": _MAX_ROWS, "after": lines}
    call.show({"dry_run": given["dry_run"], **to_json(done)}, **table)


def _format_sources(proposal: Any) -> str:
    more = len(proposal.sources) - 3
    return ", ".join(proposal.sources[:3]) + (f" +{more}" if more > 0 else "")


@_prints("proposals.list")
def _show_proposals(call: Call, found: Any, given: Given) -> None:
    from lukasa.interfaces.cli.proposals import print_proposals

    call.show(found, lambda: print_proposals(found, given["state"] or "open"))


@_prints("proposals.get")
def _show_proposal(call: Call, proposal: Any, given: Given) -> None:
    from lukasa.interfaces.cli.proposals import print_proposal

    proposal = require_found(proposal, f"There is no proposal {given['id']!r:.80}.")
    call.show(proposal, lambda: print_proposal(proposal))


@_prints("proposals.refuse", "proposals.accept")
def _show_decision(call: Call, accepted: Accepted, given: Given) -> None:
    record, id = accepted.record, given["id"]
    decided = call.memory.proposals.get(id, scope=record.scope)
    call.show(decided, f"Proposal {id} by {record.body['by']} was {record.body['state']}.")


# sessions


def _require_session(call: Call, given: Mapping[str, Any]) -> None:
    """Refuse a session of which neither the log nor the files have anything."""
    sessions, id = call.existing_memory.sessions, given["session_id"]
    known = sessions.state(id) is not None or any(info.id == id for info in sessions.list()) or sessions.verify(id)
    hint = "`lukasa checkpoint list` shows the sessions."
    require_found(known, f"Nothing is known of the session {id[:80]!r}.", hint)


CHECKS |= dict.fromkeys(("sessions.recover", "sessions.prune", "sessions.compress_old_checkpoints"), _require_session)
CHECKS |= dict.fromkeys(("sessions.state", "sessions.verify"), _require_session)


@_prints("sessions.state", "sessions.checkpoint")
def _show_state(_: Call, found: Any, given: Given) -> None:
    hint = f"`lukasa checkpoint checkpoints {given['session_id'][:80]}` shows its checkpoints."
    missing = f"{given['session_id'][:80]!r} has no valid checkpoint {given.get('number', '')}."
    render.print_json(to_json(getattr(require_found(found, missing, hint), "state", found)))


@_prints("sessions.save_checkpoint")
def _show_checkpoint(call: Call, _: Accepted, given: Given) -> None:
    session = given["session_id"]
    newest = call.memory.sessions.checkpoints(session)[0]
    call.show(
        {"session": session, "number": newest.number, "file": newest.name, "bytes": newest.size},
        f"Saved checkpoint {newest.number} of {session} ({format_size(newest.size)}).",
    )


@_prints("sessions.events", "sessions.incidents", "sessions.archive")
def _show_events(call: Call, entries: Any, _: Given) -> None:
    call.show(
        entries, columns="when, what, how", rows=map(_event_row, entries), wrap="how", empty="There are no events."
    )


def _event_row(entry: Any) -> tuple[object, ...]:
    rest = {name: value for name, value in entry.items() if name not in ("event", "section", "at")}
    details = ", ".join(f"{name} {shorten(value)}" for name, value in sorted(rest.items()) if value not in ([], {}))
    return entry.get("at", ""), entry.get("event") or f"archived {entry.get('section')}", details


@_prints("sessions.verify")
def _show_verified_files(call: Call, checked: Any, given: Given) -> None:
    require_found(checked, f"The session {given['session_id'][:80]!r} has no checkpoint files.")
    damaged = [check for check in checked if check.fault is not None]
    lines = [f"{check.entry.name}: {check.fault}" for check in damaged]
    lines.append(f"{format_count(len(checked), 'checkpoint')} checked, {len(damaged)} damaged.")
    call.show(checked, lines, exit_code=ExitCode.DAMAGED if damaged else ExitCode.OK)


@_prints("sessions.prune")
def _show_pruned_state(call: Call, plan: Any, _: Given) -> None:
    archived = ", ".join(f"{count} of {section}" for section, count in plan.counts.items()) or "nothing"
    above = [f"Still above the budget: {line}." for line in plan.above]
    call.show({"archived": plan.counts, "above_budget": list(plan.above)}, [f"Archived {archived}.", *above])


@_prints("sessions.recover")
def _show_recovery(call: Call, report: Any, given: Given) -> None:
    session, changes = given["session_id"], format_count(report.replayed, "change")
    if report.mode == "alive":
        call.show(
            report, f"{session} is open in a running process. Nothing was changed; stop that process to recover it."
        )
        return
    lines = [f"Recovered {session} ({report.mode}) from {report.used} and {changes} since."]
    lines += [f"Damaged: {file.name}: {file.reason}; kept as {file.moved_to}." for file in report.damaged]
    if report.lost:
        lines.append(f"Lost: {format_count(len(report.lost), 'change')} ({report.lost[0]} to {report.lost[-1]}).")
    lines += [f"Damaged in the log: {line}; the files were used." for line in report.damaged_records]
    if report.disagreements:
        lines.append(f"Log and files differ on {format_count(len(report.disagreements), 'change')}; the log was used.")
    lines += [f"Conflict on {c['prediction_id']}: the {c['kept']} version was kept." for c in report.conflicts]
    lines += [f"Not verified: {id}: {why}." for id, why in report.flagged.items()]
    is_damaged = bool(report.damaged or report.lost or report.damaged_records or report.disagreements)
    if not report.whole:
        lines.append("The log could not be read, so it is unknown whether something is missing.")
    else:
        lines.append(
            f"{'Nothing' if is_damaged else 'Everything'} that was acknowledged is {'missing' if is_damaged else 'there'}."
        )
    call.show(report, lines, exit_code=ExitCode.DAMAGED if is_damaged else ExitCode.OK)


# forecasts


@_prints("forecasts.list")
def _show_predictions(call: Call, found: Any, _: Given) -> None:
    hidden = len(found) - _MAX_ROWS
    call.show(
        found,
        columns="id=prediction_id, status, p=probability:g, outcome, question",
        rows=found[-_MAX_ROWS:],
        wrap="question",
        after=f"and {format_count(hidden, 'earlier one')}; --json shows all of them." if hidden > 0 else (),
        empty="There are no predictions.",
    )


@_prints("forecasts.scores")
def _show_scores(call: Call, scored: Any, given: Given) -> None:
    learned = call.memory.forecasts.learning(given["window"])
    answer = {**scored.as_json(), "learning": learned.as_json()}
    if not scored.count:
        call.show(answer, "No prediction is resolved yet.")
        return
    decomposition = asdict(scored.decomposition) if scored.decomposition is not None else {}
    bias, scaling = learned.correction.bias_correction, learned.correction.confidence_scaling
    fields = read_fields(scored, "resolved=count:,d, Brier score=brier_score:.4f, log score=log_score:.4f")
    fields |= read_fields(scored, "calibration score=calibration_score:.4f, accuracy:.4f, skill:.4f") | {
        "decomposition": ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in decomposition.items()),
        "trend": learned.performance_trend,
        "weak areas": learned.areas_for_improvement,
        "correction": f"bias {bias:+.3f}, scaling {scaling:.3f}. {learned.why}",
    }
    call.show(answer, fields=fields)
    buckets = scored.by_confidence_bucket.items()
    rows = [{"confidence": name, "count": bucket.count, "accuracy": bucket.accuracy} for name, bucket in buckets]
    call.show_more(columns="confidence, count, accuracy:.3f", rows=rows)


# trust

_PERIODS = {"window": " of the last 90 days", "history": " of all history", "nothing": ""}
_VERDICTS = {
    "": "It counts.",
    "unjudged": "It counts once it is judged: lukasa trust judge.",
    "shallow": "It counts; the adjusted score does not credit its impact, because it is too shallow.",
    "unheeded": "It counts; the adjusted score gives it no depth: hardly any of the last ten changed anything.",
}


@_prints("trust.agents")
def _show_agents(call: Call, names: Sequence[str], _: Given) -> None:
    trust = call.memory.trust
    why: Column = ("not viable because", lambda score: "; ".join(trust.eligibility(score.agent).why))
    spread: Column = ("95 %", lambda score: f"{score.low:.2f}–{score.high:.2f}")
    parts = "impact=impact_ratio:.2f, depth=mean_depth:.2f, regret=regret_ratio:.2f, dissents, overrides"
    call.show(
        sorted((trust.score(name) for name in names), key=lambda score: (-score.trust, score.agent)),
        columns=("agent, trust:.2f, adjusted=adjusted_score:.2f", spread, parts, why),
        wrap="not viable because",
        empty="No agent has been judged yet.",
    )


def _require_agent(call: Call, given: Mapping[str, Any]) -> None:
    hint = "`lukasa trust agents` lists the agents."
    known = given["agent"] in call.memory.trust.agents()
    require_found(known, f"Nothing is known of the agent {given['agent']!r:.80}.", hint)


CHECKS |= dict.fromkeys(("trust.score", "trust.history"), _require_agent)


@_prints("trust.score")
def _show_agent(call: Call, score: Any, given: Given) -> None:
    agent, trust = given["agent"], call.memory.trust
    known = trust.agent(agent)
    eligible, citations, standing = trust.eligibility(agent), trust.diversity(agent), trust.standing(agent)
    diversity = {"entropy": citations.entropy, "before": citations.before, "flag": citations.why}
    answer = known.as_json() | {"adjusted_score": score.adjusted_score, "score": score.as_json()}
    answer |= {"viable": eligible.viable, "not_viable_because": eligible.why}
    answer |= {"citation_diversity": diversity, "set_aside": dict(standing.aside)}
    dissents = format_count(score.dissents, "dissent") + _PERIODS[score.dissents_from]
    overrides = format_count(score.overrides, "override") + _PERIODS[score.overrides_from]
    fields = {"agent": agent, **read_fields(known, "model, role=primary_role")} | {
        "trust": f"{score.trust:.2f}  ({score.low:.2f} to {score.high:.2f}, from {format_count(score.events, 'event')})",
        "impact": f"0.4 × {score.impact_ratio:.2f}  ({dissents})",
        "depth": f"0.3 × {score.mean_depth:.2f}",
        "steadiness": f"0.3 × {1 - score.regret_ratio:.2f}  ({overrides})",
        "adjusted": f"{score.adjusted_score:.2f}  (impact {score.adjusted_impact_ratio:.2f}, "
        f"depth {score.adjusted_mean_depth:.2f}, from {format_count(score.counted, 'counted dissent')})",
        "rounds": standing.rounds,
        "viable": "yes" if eligible.viable else "no: " + "; ".join(eligible.why),
        "citations": f"{citations.entropy:.2f} bits" + (f"; check this: {citations.why}" if citations.flagged else ""),
        "set aside": ", ".join(f"{count} {why}" for why, count in standing.aside.items()),
    }
    shown = {name: render.escape_line(value) for name, value in fields.items() if value not in ("", None)}
    call.show(answer, fields=shown)


@_prints("trust.history")
def _show_trust_history(call: Call, changes: Sequence[Record], _: Given) -> None:
    from lukasa.trust import chart

    points = [(event_time(change), float(change.body["event"]["score"])) for change in changes]
    answer = [dict(change.body["event"]) | {"inputs": change.body["inputs"]} for change in changes]
    columns = (("time", event_time), "trust=body.event.score:.3f, reason=body.event.reason")
    call.show(answer, chart.sparkline(sorted(points)), columns=columns, rows=changes)


def event_time(change: Record) -> Any:
    """Return when a change of trust happened."""
    try:
        return from_iso(change.body["event"]["timestamp"])
    except (InvalidInput, KeyError, TypeError):
        return change.moment


@_prints("trust.log_dissent", "trust.file_dissent", "trust.judge")
def _show_dissent(call: Call, accepted: Accepted, _: Given) -> None:
    record = accepted.records[0]
    if record.kind != "dissent" or "why" not in record.body:
        call.show(record, f"Filed {record.id}. It counts once the owner judges it.")
        return
    agent, why, depth = record.body["agent"], record.body["why"], record.body["event"]["depth_score"]
    verdict = _VERDICTS.get(why, f"The adjusted score does not count it: {why.replace('_', ' ')}.")
    answer = {"id": record.id, "depth_score": depth, "counted": record.body["counted"], "why": why, "agent": agent}
    _show_event_scores(call, agent, answer, f"Dissent {record.id}: depth {depth:.2f}. {verdict}")


def _show_event_scores(call: Call, agent: str, answer: dict[str, Any], sentence: str) -> None:
    score = call.memory.trust.score(agent)
    answer |= {"trust_score": score.trust, "adjusted_score": score.adjusted_score}
    call.show(answer, [sentence, f"Trust of {agent}: {score.trust:.2f}, adjusted {score.adjusted_score:.2f}"])


@_prints("trust.log_override")
def _show_override(call: Call, accepted: Accepted, given: Given) -> None:
    record = accepted.records[0]
    deadline = record.body["event"]["auto_check_deadline"]
    answer = {"id": record.id, "agent": given["agent"], "auto_check_deadline": deadline}
    _show_event_scores(call, given["agent"], answer, f"Override {record.id}: checked after {deadline}.")


@_prints("trust.revert", "trust.check_reverts")
def _show_regretted(call: Call, accepted: Accepted, _: Given) -> None:
    records = [record for record in accepted.records if record.kind == "override"]
    answer = [{"id": record.id, "agent": record.body["agent"]} | dict(record.body["event"]) for record in records]
    sentence = "Regretted: override {id} of {agent}, reverted by {reverted_by}."
    call.show(answer, [sentence.format_map(row) for row in answer] or "Every override has lasted so far.")


@_prints("trust.participate")
def _show_rounds(call: Call, _: Accepted, given: Given) -> None:
    rounds = {agent: call.memory.trust.standing(agent).rounds for agent in given["agents"]}
    call.show(rounds, columns="agent, rounds", rows=rounds.items())


@_prints("trust.set_probation")
def _show_probation(call: Call, _: Accepted, given: Given) -> None:
    eligible = call.memory.trust.eligibility(given["agent"])
    call.show(eligible, "; ".join(eligible.why) or f"{given['agent']} may take critical roles.")


@_prints("trust.assign_devils_advocate")
def _show_advocate(call: Call, drawn: Any, _: Given) -> None:
    drawn = require_result(drawn)
    why: Column = ("not viable because", lambda candidate: "; ".join(candidate.why_not))
    call.show(
        drawn,
        f"{drawn.chosen} (seed {drawn.seed})" + (", drawn from all: no agent is viable" if drawn.fallback else ""),
        columns=("candidate=agent, trust:.2f, rounds", why),
        rows=drawn.candidates,
        wrap="not viable because",
    )


@_prints("trust.influence")
def _show_influence(call: Call, found: Any, _: Given) -> None:
    rows = [
        (dissenter, of, pair.dissents, pair.impacts)
        for dissenter, pairs in sorted(found.dissents.items())
        for of, pair in sorted(pairs.items(), key=lambda item: (-item[1].impacts, item[0]))
    ]
    empty = "" if found.reverts else "There are no dissents and no reverts yet."
    call.show(found, columns="dissenter, on the output of, dissents, changed it", rows=rows, empty=empty)
    reverts = [(name, by, count) for name, who in sorted(found.reverts.items()) for by, count in sorted(who.items())]
    call.show_more(columns="overrides of, reverted by, times", rows=reverts)


@_prints("trust.predict")
def _show_prospects(call: Call, found: Any, _: Given) -> None:
    accuracy = "Too few past dissents to say how often such a prediction is right."
    if found.hit_rate is not None and found.base_rate is not None:
        accuracy = f"Right about {found.hit_rate:.0%} of {format_count(found.tested, 'past dissent')}; "
        accuracy += f"always predicting the more common outcome is right about {found.base_rate:.0%}."
    nearest: Column = ("nearest of them", lambda row: shorten(row.evidence[0].text, 60) if row.evidence else "")
    columns = ("agent, expected impact=expected:.2f, dissents", nearest)
    call.show(found, columns=columns, rows=found.prospects, wrap="nearest of them", after=accuracy)


@_prints("trust.metrics")
def _show_trust_metrics(call: Call, measured: Any, _: Given) -> None:
    figures: dict[str, Any] = to_json(measured)
    recent, total = figures["last_90_days"], figures["all_history"]
    forms = {name: "{:.2f}" if isinstance(value, float) else "{:,}" for name, value in total.items()}
    rows = [
        (name.replace("_", " "), form.format(recent[name]), form.format(total[name])) for name, form in forms.items()
    ]
    call.show(figures, columns=", last 90 days, all history", rows=rows)


@_prints("trust.check")
def _show_differences(call: Call, found: Any, _: Given) -> None:
    lines = [f"{finding.where}: {finding.what}" for finding in found]
    summary = (
        "Sums differ; `lukasa trust rebuild AGENT` recomputes them." if found else "The sums agree with the events."
    )
    end = ExitCode.DAMAGED if found else ExitCode.OK
    call.show({"findings": to_json(found)}, [*lines, summary], exit_code=end)


@_prints("trust.rubric.proposals", "trust.rubric.propose")
def _show_rubric_proposals(call: Call, records: Sequence[Record], _: Given) -> None:
    rubric = call.memory.trust.rubric
    effect = "{before} → {after} in {days} days"
    call.show(
        [{"id": r.id} | dict(r.body) | {"effect": to_json(rubric.effect(r.id))} for r in records],
        columns=(
            "id, criterion",
            ("weight", lambda row: f"{row['weight']:.2f} → {row['proposed']:.2f}"),
            "state, because of=reason",
            ("overrides since", lambda row: effect.format_map(row["effect"]) if row["effect"] else ""),
        ),
        wrap="because of",
        empty="There are no proposals.",
    )


# the log and background work


@_prints("journal.quarantine")
def _show_quarantine(call: Call, accepted: Accepted, given: Given) -> None:
    record, author = accepted.record, given["author"]
    start = f" since {record.body['since']}" if record.body["since"] else ""
    hidden = f"In quarantine: what {author!r} wrote{start}, and what was derived from it, is hidden."
    call.show(quarantine_json(record), [hidden, f"`lukasa release {author}` makes it visible again."])


@_prints("journal.quarantined")
def _show_quarantined(call: Call, found: Mapping[str, Record], _: Given) -> None:
    held = list(found.values())
    call.show(
        [quarantine_json(record) for record in held],
        columns="author, hidden since, put there, reason",
        rows=[(r.body["author"], r.body["since"] or "always", r.recorded_at, r.body["reason"]) for r in held],
        wrap="reason",
        empty="No author is in quarantine.",
    )


@_prints("journal.release")
def _show_release(call: Call, _: Accepted, given: Given) -> None:
    author = given["author"]
    call.show({"author": author, "released": True}, f"Released: what {author!r} wrote is visible again.")


@_prints("journal.verify")
def _show_verified_log(call: Call, report: Any, _: Given) -> None:
    from lukasa.interfaces.doctor import describe_forged_rules

    aside = f" {format_count(report.set_aside, 'damaged record')} set aside." if report.set_aside else ""
    sound = f"Sound: {format_count(report.versions, 'version')} proved, indexes match the log.{aside}"
    damaged = f"Damaged: {format_count(len(report.findings), 'finding')} in {report.versions:,} versions."
    call.show(
        report,
        sound if report.sound else damaged,
        columns=("where, what", ("repairable", _name_remedy)),
        rows=report.findings,
        wrap="what",
        after=describe_forged_rules(report),
        exit_code=ExitCode.OK if report.sound else ExitCode.DAMAGED,
    )


def _name_remedy(finding: Any) -> str:
    if finding.position is not None:
        return "lukasa doctor --repair sets it aside"
    return "lukasa doctor --repair" if finding.repairable else "no"


@_prints("jobs.list")
def _show_jobs(call: Call, found: Any, _: Given) -> None:
    counts = asdict(call.memory.jobs.status())
    call.show(
        {**counts, "jobs": found},
        columns="id, job=name, scope, state, attempts, due, error",
        rows=found,
        wrap="error",
        limit=_MAX_ROWS,
        after=format_counts(counts),
    )


def format_counts(counts: Mapping[str, int]) -> str:
    """Return how many jobs there are in each state."""
    return ", ".join(f"{count:,} {state}" for state, count in counts.items()) + "."


@_prints("jobs.result")
def _show_job_result(call: Call, returned: Any, given: Given) -> None:
    if returned is None:
        raise not_found(f"There is no result of a job {given['id'][:60]}.")
    call.show(returned, json.dumps(to_json(returned), ensure_ascii=False))


@_prints("jobs.retry", "jobs.drop")
def _show_job_change(call: Call, _: Accepted, given: Given) -> None:
    PRINTERS["jobs.list"](call, call.memory.jobs.list(), given)
