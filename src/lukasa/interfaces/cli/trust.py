"""Commands of ``lukasa trust`` that are no single operation: the chart of an agent, and files of agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from lukasa.interfaces.cli import answers
from lukasa.interfaces.cli.options import Call, ForceOption, argument, option
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.outcomes import ExitCode

AgentArgument = Annotated[str, argument("AGENT", "The name of the agent.")]
AgentFilterOption = Annotated[list[str] | None, option("AGENT", "Only this agent (repeatable).", "--agent")]


def plot(
    call: Call,
    agent: AgentArgument,
    out: Annotated[Path, option("FILE", "The .svg file to draw to.")],
    force: ForceOption = False,
) -> None:
    """Draw all changes of an agent's trust as a diagram.

    Example: lukasa trust plot critic-1 --out critic-1.svg
    """
    from lukasa.trust import chart

    answers.check(call, "trust.history", {"agent": agent})
    changes = call.existing_memory.trust.history(agent)
    points = sorted((answers.event_time(change), float(change.body["event"]["score"])) for change in changes)
    chart.draw_trust_chart(agent, points).save(out, replace=force)
    answer = {"agent": agent, "file": str(out), "changes": len(changes)}
    call.show(answer, f"Drew {format_count(len(changes), 'change')} to {out}.")


def import_(
    call: Call, files: Annotated[list[Path], argument("FILE…", "JSON files of agents, or folders of them.")]
) -> None:
    """Add agents with their dissents and overrides from JSON files, as `lukasa import --format trust` does.

    Known agents are not changed.

    Example: lukasa trust import memory/
    """
    from lukasa.transfer.layouts import agent_memory

    paths = [path for file in files for path in (sorted(file.glob("*.json")) if file.is_dir() else [file])]
    found = [agent_memory.import_file(call.memory.trust, path) for path in paths]
    call.show(
        found,
        columns="agent, dissents, overrides, refused because=refused",
        wrap="refused because",
        empty="There were no files to import.",
        exit_code=ExitCode.REFUSED if any(result.refused for result in found) else ExitCode.OK,
    )


def export(
    call: Call,
    folder: Annotated[Path, argument("FOLDER", "The folder to write to.", file_okay=False)],
    agent: AgentFilterOption = None,
    force: ForceOption = False,
) -> None:
    """Write one JSON file per agent, as `lukasa export --format trust` does for all of them.

    Example: lukasa trust export memory/
    """
    from lukasa.transfer.layouts import agent_memory

    written = agent_memory.export_agents(call.existing_memory.trust, folder, agent, replace=force)
    call.show(written, f"Wrote {format_count(len(written), 'file')} to {folder}.")
