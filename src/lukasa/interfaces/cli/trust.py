"""``lukasa trust``: dissents, overrides, and the trust in each agent that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.clock import from_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render, rubric, undo
from lukasa.interfaces.cli.options import Call, CommandApp, argument, flag, option, parse_time, require_utf8
from lukasa.interfaces.cli.render import format_count, shorten
from lukasa.interfaces.outcomes import ExitCode, NotAccepted, not_found, require_accepted
from lukasa.interfaces.serialise import to_json
from lukasa.outcome import Refused
from lukasa.record import Key, Record

if TYPE_CHECKING:
    from lukasa.trust import Trust, TrustScore

app = CommandApp(
    help="""Measure how far each agent can be trusted, from its dissents and from overrides of its output.

    Example: lukasa trust show"""
)
app.add_typer(rubric.app, name="rubric")

AgentArgument = Annotated[str, argument("AGENT", "The name of the agent.")]
AgentsArgument = Annotated[list[str], argument("AGENT…", "The names of the agents.")]
RoundOption = Annotated[str, option("ID", "The id of the round.", "--round")]
ByOption = Annotated[str, option("NAME", "The person who decided.", "--by")]
TimeOption = Annotated[str | None, option("TIME", "When it happened; default: now.", "--time")]
TaskOption = Annotated[str, option("TEXT", "The task that the agents worked on.", "--task")]
_PERIODS = {"window": " of the last 90 days", "history": " of all history", "nothing": ""}
_VERDICTS = {
    "": "It counts.",
    "unjudged": "It counts once it is judged: lukasa trust judge.",
    "shallow": "It counts, but it is too shallow for its impact to be credited.",
    "unheeded": "It counts without depth: hardly any of the last ten changed anything.",
}


@app.command("show")
def show_(
    call: Call,
    agent: Annotated[str | None, argument("[AGENT]", "One agent; default: all agents.")] = None,
    at: Annotated[str | None, option("TIME", "As the score was at this time.")] = None,
) -> None:
    """Show the trust score of each agent, or of one agent with its parts.

    Example: lukasa trust show critic-1
    """
    moment = parse_time(at)
    with call.open() as memory:
        trust = memory.trust
        if agent is not None:
            _show_agent(call, trust, agent, moment)
            return
        scores = [trust.score(name, at=moment) for name in trust.agents()]
        scores.sort(key=lambda score: (-score.trust, score.agent))
        call.show(
            scores,
            columns=(
                "agent",
                ("trust", lambda score: f"{score.trust:.2f}"),
                ("95 %", lambda score: f"{score.low:.2f}–{score.high:.2f}"),
                ("impact", lambda score: f"{score.impact_ratio:.2f}"),
                ("depth", lambda score: f"{score.mean_depth:.2f}"),
                ("regret", lambda score: f"{score.regret_ratio:.2f}"),
                "dissents",
                "overrides",
                ("not viable because", lambda score: "; ".join(trust.eligibility(score.agent).why)),
            ),
            wrap=("not viable because",),
            empty="No agent has been judged yet.",
        )


def _show_agent(call: Call, trust: Trust, agent: str, at: datetime | None) -> None:
    if agent not in trust.agents():
        raise _unknown_agent(agent)
    view, score = trust.agent(agent), trust.score(agent, at=at)
    eligible, citations, standing = trust.eligibility(agent), trust.diversity(agent), trust.standing(agent)
    answer = view.as_json() | {
        "score": score.as_json(),
        "viable": eligible.viable,
        "not_viable_because": list(eligible.why),
        "citation_diversity": {"entropy": citations.entropy, "before": citations.before, "flag": citations.why},
        "set_aside": dict(standing.aside),
    }
    dissents = format_count(score.dissents, "dissent") + _PERIODS[score.dissents_from]
    overrides = format_count(score.overrides, "override") + _PERIODS[score.overrides_from]
    events = format_count(score.events, "event")
    fields = {
        "agent": agent,
        "model": view.model,
        "role": view.primary_role,
        "trust": f"{score.trust:.2f}  ({score.low:.2f} to {score.high:.2f}, from {events})",
        "impact": f"0.4 × {score.impact_ratio:.2f}  ({dissents})",
        "depth": f"0.3 × {score.mean_depth:.2f}",
        "steadiness": f"0.3 × {1 - score.regret_ratio:.2f}  ({overrides})",
        "rounds": str(standing.rounds),
        "viable": "yes" if eligible.viable else "no: " + "; ".join(eligible.why),
        "citations": f"{citations.entropy:.2f} bits" + (f"; check this: {citations.why}" if citations.flagged else ""),
        "set aside": ", ".join(f"{count} {why}" for why, count in standing.aside.items()),
    }
    call.show(answer, fields={name: render.escape_line(value) for name, value in fields.items() if value})


def _unknown_agent(agent: str) -> NotAccepted:
    return not_found(f"Nothing is known of the agent {agent!r:.80}.")


@app.command()
def history(
    call: Call,
    agent: AgentArgument,
    limit: Annotated[int, option("N", "Maximum number of changes, the latest.", min=1)] = 20,
    out: Annotated[Path | None, option("FILE", "Draw all changes to this .svg file instead.")] = None,
) -> None:
    """List the changes of an agent's trust, each with its reason.

    Example: lukasa trust history critic-1 --out critic-1.svg
    """
    from lukasa.trust import chart

    with call.open() as memory:
        changes = memory.trust.history(agent, limit=None if out else limit)
    if not changes:
        raise _unknown_agent(agent)
    points = [(_event_time(change), float(change.body["event"]["score"])) for change in changes]
    answer = [dict(change.body["event"]) | {"inputs": change.body["inputs"]} for change in changes]
    if out is not None:
        chart.draw_trust_chart(agent, sorted(points)).save(out)
        call.show(answer, f"Drew {format_count(len(changes), 'change')} to {out}.")
        return
    rows = [
        (when, f"{score:.3f}", change.body["event"].get("reason", ""))
        for change, (when, score) in zip(changes, points, strict=True)
    ]
    call.show(answer, chart.sparkline(sorted(points)), columns=("time", "trust", "reason"), rows=rows)


def _event_time(change: Record) -> datetime:
    try:
        return from_iso(change.body["event"]["timestamp"])
    except (InvalidInput, KeyError, TypeError):
        return change.moment


@app.command()
def dissent(
    call: Call,
    agent: AgentArgument,
    text: Annotated[str, argument("TEXT", "The objection of the agent.")],
    cite: Annotated[
        list[str] | None, option("CRITERION", "A criterion of the rubric that it cites (repeatable).")
    ] = None,
    impact: Annotated[
        bool | None, flag("--impact/--no-impact", "Whether it changed the output; without it, judged later.")
    ] = None,
    round_: RoundOption = "",
    of: Annotated[str, option("AGENT", "The agent whose output it is about.", "--of")] = "",
    task: TaskOption = "",
    time: TimeOption = None,
) -> None:
    """Record that an agent objected to an output. It counts once its impact is known.

    Example: lukasa trust dissent critic-1 "The decision ignores the REST tooling" --cite Accuracy --impact
    """
    require_utf8(agent, text)
    with call.open() as memory:
        outcome = memory.trust.log_dissent(
            agent,
            text,
            rubric_citations=cite or (),
            impact=impact,
            round_id=round_,
            of=of,
            context={"task": task} if task else None,
            timestamp=parse_time(time),
        )
        _show_dissent(call, memory.trust, require_accepted(outcome).records[0])


@app.command()
def judge(
    call: Call,
    id: Annotated[str, argument("ID", "The id of the dissent.")],
    impact: Annotated[bool, flag("--impact/--no-impact", "Whether it changed the output.")],
) -> None:
    """Record whether an earlier dissent changed the output.

    Example: lukasa trust judge 019c… --impact
    """
    with call.open() as memory:
        _show_dissent(call, memory.trust, require_accepted(memory.trust.judge(id, impact=impact)).records[0])


def _show_dissent(call: Call, trust: Trust, record: Record) -> None:
    body, depth = record.body, record.body["event"]["depth_score"]
    score: TrustScore = trust.score(body["agent"])
    verdict = _VERDICTS.get(body["why"], f"It was set aside: {body['why'].replace('_', ' ')}.")
    answer = {"id": record.id, "depth_score": depth, "counted": body["counted"], "why": body["why"]}
    call.show(
        answer | {"agent": body["agent"], "trust_score": score.trust},
        [f"Dissent {record.id}: depth {depth:.2f}. {verdict}", f"Trust of {body['agent']}: {score.trust:.2f}"],
    )


@app.command()
def override(
    call: Call,
    agent: AgentArgument,
    output: Annotated[str, option("TEXT", "The output of the agent.", "--output")],
    decision: Annotated[str, option("TEXT", "What the person decided instead.", "--decision")],
    by: ByOption = "human",
    round_: RoundOption = "",
    artifact: Annotated[
        str | None, option("SCOPE/KIND/ID", "The record that holds the decision; `trust check` watches it.")
    ] = None,
    criterion: Annotated[list[str] | None, option("NAME", "A criterion it is about (repeatable).")] = None,
    task: TaskOption = "",
    time: TimeOption = None,
) -> None:
    """Record that a person decided against an agent's output.

    Example: lukasa trust override creator --output "Use GraphQL" --decision "Stay with REST" --by ada
    """
    key = None
    if artifact is not None:
        parts = artifact.split("/", 2)
        if len(parts) != 3 or not all(parts):
            raise InvalidInput(f"{artifact[:80]!r} does not name a record.", hint="Write it as SCOPE/KIND/ID.")
        key = Key(*parts)
    with call.open() as memory:
        outcome = memory.trust.log_override(
            agent,
            output,
            decision,
            by=by,
            round_id=round_,
            artifact=key,
            criteria=criterion or (),
            context={"task": task} if task else None,
            timestamp=parse_time(time),
        )
        record, score = require_accepted(outcome).records[0], memory.trust.score(agent)
    deadline = record.body["event"]["auto_check_deadline"]
    call.show(
        {"id": record.id, "agent": agent, "auto_check_deadline": deadline, "trust_score": score.trust},
        [f"Override {record.id}: checked after {deadline}.", f"Trust of {agent}: {score.trust:.2f}"],
    )


@app.command()
def revert(
    call: Call,
    id: Annotated[str, argument("ID", "The id of the override.")],
    by: Annotated[str, option("NAME", "The person who took it back.", "--by")],
) -> None:
    """Record that a person took an override back. It then counts as regretted.

    Example: lukasa trust revert 019c… --by ben
    """
    with call.open() as memory:
        _show_regretted(call, [require_accepted(memory.trust.revert(id, by=by)).records[0]])


@app.command()
def check(
    call: Call,
    round_: Annotated[str | None, option("ID", "Check this round against its final output.", "--round")] = None,
    final: Annotated[str | None, option("TEXT", "The final output of the round.", "--final")] = None,
) -> None:
    """Find overrides that did not last, and mark them as regretted.

    Without a round, compares the artifacts of last week's overrides with the decisions.

    Example: lukasa trust check
    """
    with call.open() as memory:
        changed = require_accepted(memory.trust.check_reverts(round_, final)).records
        _show_regretted(call, [record for record in changed if record.kind == "override"])


def _show_regretted(call: Call, records: Sequence[Record]) -> None:
    lines = [
        f"Regretted: override {record.id} of {record.body['agent']}, reverted by {record.body['event']['reverted_by']}."
        for record in records
    ]
    answer = [{"id": record.id, "agent": record.body["agent"]} | dict(record.body["event"]) for record in records]
    call.show(answer, lines or "Every override has lasted so far.")


@app.command("round")
def round_(call: Call, id: Annotated[str, argument("ROUND", "The id of the round.")], agents: AgentsArgument) -> None:
    """Record which agents took part in a round. The same round counts once.

    Example: lukasa trust round run-7/round-2 creator critic-1
    """
    with call.open() as memory:
        require_accepted(memory.trust.participate(agents, id))
        rounds = {agent: memory.trust.standing(agent).rounds for agent in agents}
    call.show(rounds, columns=("agent", "rounds"), rows=rounds.items())


@app.command()
def probation(
    call: Call,
    agent: AgentArgument,
    until: Annotated[str | None, option("TIME", "When probation ends; without it, probation ends now.")] = None,
    reason: Annotated[str, option("TEXT", "The reason.")] = "",
    by: ByOption = "owner",
) -> None:
    """Exclude an agent from critical roles until a time, or end its probation.

    Example: lukasa trust probation critic-1 --until 2026-03-01 --reason "odd answers" --by ada
    """
    with call.open() as memory:
        require_accepted(memory.trust.set_probation(agent, parse_time(until), reason=reason, by=by))
        eligible = memory.trust.eligibility(agent)
    call.show(eligible, "; ".join(eligible.why) or f"{agent} may take critical roles.")


@app.command()
def advocate(
    call: Call,
    candidates: AgentsArgument,
    seed: Annotated[str | None, option("SEED", "The same seed draws the same agent.")] = None,
    round_: RoundOption = "",
) -> None:
    """Draw a devil's advocate from the viable agents; more trusted agents are more likely. Records the draw.

    Example: lukasa trust advocate critic-1 critic-2 creator --seed 7
    """
    with call.open() as memory:
        drawn = memory.trust.assign_devils_advocate(candidates, seed=seed, round_id=round_)
    if isinstance(drawn, Refused):
        raise NotAccepted(drawn)
    call.show(
        drawn,
        f"{drawn.chosen} (seed {drawn.seed})" + (", drawn from all: no agent is viable" if drawn.fallback else ""),
        columns=(
            ("candidate", "agent"),
            ("trust", lambda candidate: f"{candidate.trust:.2f}"),
            "rounds",
            ("not viable because", lambda candidate: "; ".join(candidate.why_not)),
        ),
        rows=drawn.candidates,
        wrap=("not viable because",),
    )


@app.command()
def influence(call: Call) -> None:
    """Show whose dissents changed whose output, and who reverted whose overrides.

    Example: lukasa trust influence
    """
    with call.open() as memory:
        found = memory.trust.influence()
    call.show(
        found,
        columns=("dissenter", "on the output of", "dissents", "changed it"),
        rows=[
            (dissenter, of, pair.dissents, pair.impacts)
            for dissenter, pairs in sorted(found.dissents.items())
            for of, pair in sorted(pairs.items(), key=lambda item: (-item[1].impacts, item[0]))
        ],
        empty="" if found.reverts else "There are no dissents and no reverts yet.",
    )
    if found.reverts and not call.json:
        reverts = [
            (person, by, count) for person, who in sorted(found.reverts.items()) for by, count in sorted(who.items())
        ]
        render.print_table(("overrides of", "reverted by", "times"), reverts)


@app.command()
def predict(
    call: Call,
    topic: Annotated[str, argument("TOPIC", "What will be discussed.")],
    candidate: Annotated[list[str] | None, option("AGENT", "Only this agent (repeatable).", "--agent")] = None,
) -> None:
    """Predict whose dissent on a topic is likely to have an impact, from similar past dissents.

    Example: lukasa trust predict "database migrations"
    """
    with call.open() as memory:
        found = memory.trust.predict(topic, candidate)
    if found.hit_rate is None or found.base_rate is None:
        accuracy = "Too few past dissents to say how often such a prediction is right."
    else:
        accuracy = (
            f"Right about {found.hit_rate:.0%} of {format_count(found.tested, 'past dissent')}; "
            f"always predicting the more common outcome is right about {found.base_rate:.0%}."
        )
    call.show(
        found,
        columns=(
            "agent",
            ("expected impact", lambda prospect: f"{prospect.expected:.2f}"),
            "dissents",
            ("nearest of them", lambda prospect: shorten(prospect.evidence[0].text, 60) if prospect.evidence else ""),
        ),
        rows=found.prospects,
        wrap=("nearest of them",),
        after=accuracy,
    )


@app.command()
def metrics(call: Call, agent: Annotated[str | None, option("AGENT", "Only this agent.", "--agent")] = None) -> None:
    """Show dissent impact, regret rate and usefulness of escalations.

    Example: lukasa trust metrics
    """
    with call.open() as memory:
        figures: dict[str, Any] = to_json(memory.trust.metrics(agent))
    recent, total = figures["last_90_days"], figures["all_history"]
    rows = [(name.replace("_", " "), _format_number(recent[name]), _format_number(total[name])) for name in total]
    call.show(figures, columns=("", "last 90 days", "all history"), rows=rows)


def _format_number(value: float | int) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"


@app.command()
def controversy(call: Call) -> None:
    """List rounds and artifacts with repeated overrides and reverts.

    Example: lukasa trust controversy
    """
    with call.open() as memory:
        found = memory.trust.controversy()
    columns = ("what", "name", "overrides", "reverts", "agents")
    call.show(found, columns=columns, wrap=("agents",), empty="Nothing is controversial.")


@app.command()
def verify(
    call: Call, repair: Annotated[bool, flag("--repair", "Recompute the sums that differ from the events.")] = False
) -> None:
    """Compare the stored sums of every agent with its events. Changes nothing without --repair.

    Exit code 6: sums differ and were not repaired.

    Example: lukasa trust verify --repair
    """
    with call.open(create=False) as memory:
        agents = memory.trust.agents()
        wrong = {name: found for name in agents if (found := memory.trust.check(name))}
        for name in wrong if repair else ():
            require_accepted(memory.trust.rebuild(name))
    findings = [finding for found in wrong.values() for finding in found]
    lines = [f"{finding.where}: {finding.what}" for finding in findings]
    if wrong:
        end = ", recomputed." if repair else "."
        lines.append(f"{format_count(len(wrong), 'agent')} with sums that differ{end}")
    else:
        lines.append(f"The sums of {format_count(len(agents), 'agent')} agree with the events.")
    answer = {
        "agents": len(agents),
        "repaired": bool(repair and wrong),
        "findings": [{"where": finding.where, "what": finding.what} for finding in findings],
    }
    call.show(answer, lines)
    if wrong and not repair:
        raise typer.Exit(ExitCode.DAMAGED)


@app.command("import")
def import_(
    call: Call, files: Annotated[list[Path], argument("FILE…", "JSON files of agents, or folders of them.")]
) -> None:
    """Add agents with their dissents and overrides from JSON files. Known agents are not changed.

    Example: lukasa trust import memory/
    """
    from lukasa.transfer.layouts import agent_memory

    paths = [path for file in files for path in (sorted(file.glob("*.json")) if file.is_dir() else [file])]
    with call.open() as memory:
        found = [agent_memory.import_file(memory.trust, path) for path in paths]
    columns = ("agent", "dissents", "overrides", ("refused because", "refused"))
    call.show(found, columns=columns, wrap=("refused because",), empty="There were no files to import.")
    if any(result.refused for result in found):
        raise typer.Exit(ExitCode.REFUSED)


@app.command()
def export(
    call: Call,
    folder: Annotated[Path, argument("FOLDER", "The folder to write to.", file_okay=False)],
    agent: Annotated[list[str] | None, option("AGENT", "Only this agent (repeatable).", "--agent")] = None,
) -> None:
    """Write one JSON file per agent, with its dissents, overrides and trust.

    Example: lukasa trust export memory/
    """
    from lukasa.transfer.layouts import agent_memory

    with call.open(create=False) as memory:
        written = agent_memory.export_agents(memory.trust, folder, agent)
    call.show(written, f"Wrote {format_count(len(written), 'file')} to {folder}.")


app.command("quarantine")(undo.quarantine)
app.command("release")(undo.release)
