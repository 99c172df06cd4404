"""Commands that draw on experience: consolidate, before-task, continuity, metrics."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options, parse_time, progress_bar

if TYPE_CHECKING:
    from lukasa.experience.briefing import BriefingEntry
    from lukasa.experience.consolidation import ConsolidationProposal, ConsolidationResult

_MAX_ROWS = 40


def consolidate(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be written.")] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Look at what happened since, not at what is new since the last run."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Look at all episodes again.")] = False,
    skills: Annotated[bool, typer.Option("--skills", help="Make skills of what several authors bear out.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw patterns and anti-patterns from episodes. One run is one batch, and can be taken back.

    Example: lukasa consolidate --dry-run
    """
    call = get_options(ctx, as_json)
    with call.open() as memory, progress_bar("Consolidating") as bar:
        done = memory.consolidate(
            since=parse_time(since), everything=everything, dry_run=dry_run, skills=skills, progress=bar
        )
    if call.json:
        render.print_json(_consolidation_json(done, dry_run=dry_run))
        return
    if done.proposals:
        columns = ("", "id", "kind", "confidence", "voices", "sources", "says")
        render.print_table(
            columns, [_proposal_row(proposal) for proposal in done.proposals[:_MAX_ROWS]], truncate="says"
        )
        if len(done.proposals) > _MAX_ROWS:
            render.print_line(f"and {len(done.proposals) - _MAX_ROWS:,} more; --json names them all.")
    for held in done.held[:_MAX_ROWS]:
        render.print_line(f"Held back: {held.what[:120]} ({held.why}; {', '.join(held.sources[:3])})")
    render.print_line(_summary_sentence(done, dry_run=dry_run))
    if done.label:
        render.print_line(f"To take this back: lukasa undo --label {done.label}")


def _proposal_row(proposal: ConsolidationProposal) -> tuple[Any, ...]:
    sure = "" if proposal.confidence is None else f"{proposal.confidence:.2f}"
    sources = ", ".join(proposal.sources[:3]) + (f" +{len(proposal.sources) - 3}" if len(proposal.sources) > 3 else "")
    return proposal.action, proposal.key.id, proposal.key.kind, sure, proposal.voices or "", sources, proposal.says


def _summary_sentence(done: ConsolidationResult, *, dry_run: bool) -> str:
    looked = f"{render.format_count(done.looked_at, 'episode')} looked at"
    if not done.proposals:
        return f"{looked}; nothing new follows from them." if done.looked_at else "No new episodes."
    new = sum(proposal.action == "new" for proposal in done.proposals)
    verb = "would be" if dry_run else "are"
    return f"{looked}: {new} {verb} new, {len(done.proposals) - new} {verb} updated."


def _consolidation_json(done: ConsolidationResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "looked_at": done.looked_at,
        "label": done.label,
        "proposals": [
            {
                "action": proposal.action, **render.key_json(proposal.key), "says": proposal.says,
                "confidence": proposal.confidence, "voices": proposal.voices, "sources": list(proposal.sources),
                "body": dict(proposal.draft.body),
            }
            for proposal in done.proposals
        ],
        "held": [{"what": held.what, "why": held.why, "sources": list(held.sources)} for held in done.held],
    }  # fmt: skip


def before_task(
    ctx: typer.Context,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done.")],
    kind: Annotated[str, typer.Option("--type", metavar="WORD", help="What sort of task it is.")] = "",
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Print a fenced block for a prompt instead.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts instead of one line each.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What is known that matters for a task: patterns, what to avoid, skills. One line each.

    Example: lukasa before-task "Implement POST /api/todos endpoint"
    """
    call = get_options(ctx, as_json)
    task: dict[str, Any] = {"goal": goal} | ({"type": kind} if kind else {})
    with call.open() as memory:
        briefing = memory.before_task(task)
    if call.json:
        entries = (*briefing.relevant, *briefing.avoid, *briefing.skills)
        render.print_json(briefing.task | {"memories": [_entry_json(entry, full=full) for entry in entries]})
    elif budget is not None:
        typer.echo(briefing.block(budget, full=full).text)
    else:
        headed = (("Relevant", briefing.relevant), ("Avoid", briefing.avoid), ("Skills", briefing.skills))
        for heading, entries in headed:
            render.print_line(f"{heading}:" if entries else f"{heading}: nothing known.")
            for entry in entries:
                render.print_entry(f"  {entry.line}", entry.record.text) if full else render.print_line(
                    f"  {entry.line}"
                )


def _entry_json(entry: BriefingEntry, *, full: bool) -> dict[str, Any]:
    told: dict[str, Any] = {**render.key_json(entry.record.key), "line": entry.line, "score": round(entry.score, 4)}
    return told | {"record": render.record_json(entry.record)} if full else told


def continuity(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="The file to keep current.")] = Path(
        "CONTINUITY.md"
    ),
    goal: Annotated[str, typer.Option(metavar="TEXT", help="What is to be done.")] = "",
    agent: Annotated[
        str, typer.Option("--for", metavar="NAME", help="Whose work; the calling agent's, if not said.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Keep it current until interrupted.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.05, help="How often to look.")] = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Bring the file's own sections up to date; the rest of it stays byte for byte.

    Example: lukasa continuity --goal "Implement POST /api/todos endpoint"
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        seen = memory.continuity.tip()
        kept = memory.continuity.update(file, goal=goal, agent=agent)
        if call.json:
            sections = {name: list(lines) for name, lines in kept.sections.items()}
            render.print_json({"file": str(file), "changed": kept.changed, "goal": kept.goal, "sections": sections})
        else:
            render.print_line(f"{file} is {'brought up to date' if kept.changed else 'up to date'}.")
        sys.stdout.flush()  # whoever watches through a pipe is told now, not at the end
        while watch:
            time.sleep(every)
            if (tip := memory.continuity.tip()) != seen:
                seen = tip
                if memory.continuity.update(file, goal=goal, agent=agent).changed:
                    render.print_to_stderr(f"{file} is brought up to date.")


def metrics(
    ctx: typer.Context,
    days: Annotated[int, typer.Option(min=1, max=60, help="How many days, today included.")] = 7,
    tasks: Annotated[bool, typer.Option("--tasks", help="What each task took.")] = False,
    rewards: Annotated[bool, typer.Option("--rewards", help="What each episode was worth.")] = False,
    prefer: Annotated[
        str | None, typer.Option(metavar="ID=SCORE", help="Note what you think of an episode, from -1 to 1.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How tasks fare: time, agents, retries, rewards; the last seven days at a glance.

    Example: lukasa metrics --tasks
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        room = memory.metrics
        if prefer is not None:
            id, _, score = prefer.rpartition("=")
            require_accepted(room.prefer(id, _parse_score(score)))
        if tasks:
            _print_tasks(room.efficiency(days), as_json=call.json)
        elif rewards:
            _print_rewards(room.rewards(days), as_json=call.json)
        else:
            _print_dashboard(room.dashboard(days), as_json=call.json)


def _parse_score(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter("write an episode's id and a number, such as ep-2026-01-06-001=1") from error


def _print_tasks(costs: Any, *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        render.print_json([asdict(cost) for cost in costs])
        return
    rows = [
        (c.task, f"{c.seconds:g}", ", ".join(c.agents), c.attempts, c.retries, "yes" if c.succeeded else "no")
        for c in costs
    ]
    render.print_table(("task", "seconds", "agents", "attempts", "retries", "succeeded"), rows)


def _print_rewards(rewards: Any, *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        render.print_json([asdict(reward) for reward in rewards])
        return
    rows = [
        (
            r.episode,
            r.task,
            f"{r.outcome:.2f}",
            f"{r.efficiency:.2f}",
            "" if r.preference is None else f"{r.preference:.2f}",
            f"{r.total:.2f}",
        )
        for r in rewards
    ]
    render.print_table(("episode", "task", "outcome", "efficiency", "preference", "total"), rows)


def _print_dashboard(board: Any, *, as_json: bool) -> None:
    if as_json:
        render.print_json(board.as_json())
        return
    rows = [(d.day, d.episodes, d.succeeded, d.failed, f"{d.seconds:g}", d.errors) for d in board.days]
    render.print_table(("day", "episodes", "succeeded", "failed", "seconds", "errors"), rows)
    figures = {
        "episodes": f"{board.episodes:,} of {board.tasks:,} tasks by {board.agents:,} agents; {board.unfinished:,} unfinished",
        "success": "–" if board.success_rate is None else f"{100 * board.success_rate:.0f} %",
        "per task": "–" if board.mean_retries is None else f"{board.mean_retries:.2f} retries",
        "per episode": "–" if board.mean_seconds is None else f"{board.mean_seconds:.0f} s",
        "reward": "–" if board.mean_reward is None else f"{board.mean_reward:.2f}",
    }
    render.print_fields(figures)
