"""Commands that use past experience: consolidate, before-task, continuity and metrics."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.core.freshness import describe_freshness, describe_left_out
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    BlockBudgetOption,
    Call,
    IncludeOption,
    argument,
    flag,
    option,
    parse_time,
    progress_bar,
)
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.serialise import briefing_json, to_json
from lukasa.recall.unconfirmed_orders import split_by_reason

if TYPE_CHECKING:
    from lukasa.experience.consolidation import ConsolidationProposal

_MAX_ROWS = 40


def consolidate(
    call: Call,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be written.")] = False,
    since: Annotated[str | None, option("TIME", "Use episodes since this time; default: since the last run.")] = None,
    everything: Annotated[bool, flag("--all", "Use all episodes again.")] = False,
    skills: Annotated[bool, flag("--skills", "Also write skills for patterns that several authors support.")] = False,
) -> None:
    """Derive patterns and anti-patterns from episodes and store them as knowledge.

    One run is one batch; the answer names the label with which `lukasa undo` takes it back.

    Example: lukasa consolidate --dry-run
    """
    with progress_bar("Consolidating") as bar:
        options: Any = {"everything": everything, "dry_run": dry_run, "skills": skills, "progress": bar}
        done = call.memory.consolidate(since=parse_time(since), **options)
    lines = [f"Rejected: {r.what[:120]} ({r.why}; {', '.join(r.sources[:3])})" for r in done.held[:_MAX_ROWS]]
    episodes, verb = f"{format_count(done.looked_at, 'episode')} examined", "would be" if dry_run else "are"
    new = sum(proposal.action == "new" for proposal in done.proposals)
    if done.proposals:
        lines.append(f"{episodes}: {new} {verb} new, {len(done.proposals) - new} {verb} updated.")
    else:
        lines.append(f"{episodes}; nothing new follows from them." if done.looked_at else "No new episodes.")
    if done.label:
        lines.append(f"To take this back: lukasa undo --label {done.label}")
    call.show(
        {"dry_run": dry_run, **to_json(done)},
        columns=(
            ("", lambda proposal: proposal.action),
            "id=key.id, kind=key.kind, confidence:.2f",
            ("voices", lambda proposal: proposal.voices or ""),
            ("sources", _format_sources),
            "says",
        ),
        rows=done.proposals,
        truncate="says",
        limit=_MAX_ROWS,
        after=lines,
    )


def _format_sources(proposal: ConsolidationProposal) -> str:
    more = len(proposal.sources) - 3
    return ", ".join(proposal.sources[:3]) + (f" +{more}" if more > 0 else "")


def before_task(
    call: Call,
    goal: Annotated[str, argument("GOAL", "What is to be done.")],
    kind: Annotated[str, option("WORD", "The type of the task.", "--type")] = "",
    budget: BlockBudgetOption = None,
    full: Annotated[bool, flag("--full", "Whole texts instead of one line each.")] = False,
    include: IncludeOption = None,
) -> None:
    """List what is known for a task: patterns that worked, what to avoid, and skills.

    Example: lukasa before-task "Implement POST /api/todos endpoint"
    """
    task: dict[str, Any] = {"goal": goal} | ({"type": kind} if kind else {})
    sources: Any = include or ()
    options = {} if budget is None else {"budget": budget}
    briefing = call.memory.before_task(task, include=sources, **options)
    if budget is not None and not call.json:
        typer.echo(briefing.block(budget, full=full).text)
        return

    def print_briefing() -> None:
        sections = {"Known": briefing.known} if include else {}
        sections |= {"Relevant": briefing.relevant, "Avoid": briefing.avoid, "Skills": briefing.skills}
        for heading, entries in sections.items():
            render.print_line(f"{heading}:" if entries else f"{heading}: nothing known.")
            for entry in entries:
                line = f"  {entry.line} ({describe_freshness(entry.record, briefing.asked_at)})"
                if full:
                    render.print_entry(line, entry.record.text)
                else:
                    render.print_line(line)
        if briefing.left_out:
            render.print_line(describe_left_out(*split_by_reason(briefing.left_out)))

    call.show(briefing_json(briefing, full=full), print_briefing)


def continuity(
    call: Call,
    file: Annotated[Path, argument("FILE", "The file to update.", dir_okay=False)] = Path("CONTINUITY.md"),
    goal: Annotated[str, option("TEXT", "The current goal.")] = "",
    agent: Annotated[str, option("NAME", "The agent whose work it describes; default: --agent.", "--for")] = "",
    watch: Annotated[bool, flag("--watch", "Keep the file up to date until interrupted.")] = False,
    every: Annotated[float, option("SECONDS", "How often --watch checks the store.", min=0.05)] = 2.0,
) -> None:
    """Write the current goal, state and relevant memories into CONTINUITY.md, for the next session.

    Only Lukasa's sections of the file are updated; the rest stays as it is. The store is not changed.

    Example: lukasa continuity --goal "Implement POST /api/todos endpoint"
    """
    memory = call.memory
    position = memory.continuity.tip()
    update = memory.continuity.update(file, goal=goal, agent=agent)
    call.show(to_json(update) | {"file": str(file)}, f"Updated {file}." if update.changed else f"{file} is up to date.")
    sys.stdout.flush()  # a reader of the pipe gets the answer now, not when watching ends
    while watch:
        time.sleep(every)
        if (tip := memory.continuity.tip()) != position:
            position = tip
            if memory.continuity.update(file, goal=goal, agent=agent).changed:
                render.print_to_stderr(f"Updated {file}.")


def metrics(
    call: Call,
    days: Annotated[int, option("N", "Number of days, including today.", min=1, max=60)] = 7,
    tasks: Annotated[bool, flag("--tasks", "Show time and attempts of each task instead.")] = False,
    rewards: Annotated[bool, flag("--rewards", "Show the reward of each episode instead.")] = False,
    prefer: Annotated[str | None, option("ID=SCORE", "Store your rating of an episode, from -1 to 1, first.")] = None,
) -> None:
    """Show how tasks went in the last days: success, time, retries and rewards.

    Example: lukasa metrics --tasks
    """
    memory = call.memory
    if prefer is not None:
        id, _, score = prefer.rpartition("=")
        try:
            rating = float(score)
        except ValueError as error:
            message = "write an episode's id and a number, such as ep-2026-01-06-001=1"
            raise typer.BadParameter(message) from error
        memory.metrics.prefer(id, rating).unwrap_all()
    if tasks:
        columns = "task, seconds:g, agents, attempts, retries, succeeded"
        call.show(memory.metrics.efficiency(days), columns=columns, empty="No tasks in these days.")
    elif rewards:
        columns = "episode, task, outcome:.2f, efficiency:.2f, preference:.2f, total:.2f"
        call.show(memory.metrics.rewards(days), columns=columns, empty="No episodes in these days.")
    else:
        board = memory.metrics.dashboard(days)
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
