"""Commands of trust: who objected, who was overridden, how far each is trusted."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lukasa.clock import from_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render, undo
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options, parse_time, require_utf8
from lukasa.outcome import Refused
from lukasa.record import Key, Record

if TYPE_CHECKING:
    from lukasa.trust import Trust, TrustScore

app = typer.Typer(
    help="Who has been right: dissents, overrides, and the trust that follows from them.", no_args_is_help=True
)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")]
RoundOption = Annotated[str, typer.Option("--round", metavar="ID", help="The round it belongs to.")]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="In whose name.")]
TimeOption = Annotated[str | None, typer.Option("--time", metavar="TIME", help="When it happened, if not now.")]
TaskOption = Annotated[str, typer.Option("--task", metavar="TEXT", help="What the agents were working on.")]
_MAX_TEXT_LENGTH = 60


@app.command("show")
def show_(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="One agent; without it, all of them.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="As it was known then, from the events.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far agents are trusted, and what that is made of.

    Example: lukasa trust show critic-1
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        if agent is None:
            _print_all_scores(memory.trust, parse_time(at), as_json=call.json)
        else:
            _print_agent(memory.trust, agent, parse_time(at), as_json=call.json)


def _print_all_scores(trust: Trust, at: datetime | None, *, as_json: bool) -> None:
    scores = sorted((trust.score(name, at=at) for name in trust.agents()), key=lambda each: (-each.trust, each.agent))
    if as_json:
        render.print_json([score.as_json() for score in scores])
    elif not scores:
        render.print_line("Nobody has been judged yet.")
    else:
        rows = [(each.agent, *_score_columns(each), "; ".join(trust.eligibility(each.agent).why)) for each in scores]
        columns = ("agent", "trust", "95 %", "impact", "depth", "regret", "dissents", "overrides", "not viable because")
        render.print_table(columns, rows, wrap=("not viable because",))


def _score_columns(score: TrustScore) -> tuple[str, ...]:
    parts = (score.impact_ratio, score.mean_depth, score.regret_ratio)
    interval = f"{score.low:.2f}–{score.high:.2f}"
    return (
        f"{score.trust:.2f}",
        interval,
        *(f"{part:.2f}" for part in parts),
        str(score.dissents),
        str(score.overrides),
    )


def _print_agent(trust: Trust, agent: str, at: datetime | None, *, as_json: bool) -> None:
    if agent not in trust.agents():
        raise CommandRefused(Refused("not_found", f"Nothing is known of the agent {agent!r:.80}."))
    memory, score = trust.agent(agent), trust.score(agent, at=at)
    eligible, various, standing = trust.eligibility(agent), trust.diversity(agent), trust.standing(agent)
    if as_json:
        more = {
            "score": score.as_json(),
            "viable": eligible.viable,
            "not_viable_because": list(eligible.why),
            "citation_diversity": {"entropy": various.entropy, "before": various.before, "flag": various.why},
            "set_aside": dict(standing.aside),
        }
        render.print_json(memory.as_json() | more)
        return
    fields = {
        "agent": agent,
        "model": memory.model,
        "role": memory.primary_role,
        "trust": f"{score.trust:.2f}  ({score.low:.2f} to {score.high:.2f}, from {render.format_count(score.events, 'event')})",
        "impact": f"0.4 × {score.impact_ratio:.2f}  ({_format_basis(score.dissents, 'dissent', score.dissents_from)})",
        "depth": f"0.3 × {score.mean_depth:.2f}",
        "steadiness": f"0.3 × {1 - score.regret_ratio:.2f}  ({_format_basis(score.overrides, 'override', score.overrides_from)})",
        "rounds": str(standing.rounds),
        "viable": "yes" if eligible.viable else "no: " + "; ".join(eligible.why),
        "citations": f"{various.entropy:.2f} bits" + (f"; look at this: {various.why}" if various.flagged else ""),
        "set aside": ", ".join(f"{many} {why}" for why, many in standing.aside.items()),
    }
    render.print_fields({name: render.escape_line(value) for name, value in fields.items() if value})


def _format_basis(events: int, what: str, source: str) -> str:
    where = {"window": " of the last 90 days", "history": " of all history", "nothing": ""}
    return render.format_count(events, what) + where[source]


@app.command()
def history(
    ctx: typer.Context,
    agent: AgentArgument,
    limit: Annotated[int, typer.Option(min=1, help="At most so many of the latest changes.")] = 20,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it into a .svg or .png file instead.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how an agent's trust has changed, and why each time.

    Example: lukasa trust history critic-1 --out critic-1.svg
    """
    from lukasa.trust import chart

    call = get_options(ctx, as_json)
    with call.open() as memory:
        changes = memory.trust.history(agent, limit=None if out else limit)
    if not changes:
        raise CommandRefused(Refused("not_found", f"Nothing is known of the agent {agent!r:.80}."))
    points = [(_event_time(change), float(change.body["event"]["score"])) for change in changes]
    if out is not None:
        chart.draw_trust_chart(agent, sorted(points)).save(out)
    if call.json:
        render.print_json([dict(each.body["event"]) | {"inputs": each.body["inputs"]} for each in changes])
    elif out is not None:
        render.print_line(f"Drew {render.format_count(len(changes), 'change')} into {out}.")
    else:
        render.print_line(chart.sparkline(sorted(points)))
        rows = [
            (render.format_time(when), f"{score:.3f}", change.body["event"].get("reason", ""))
            for change, (when, score) in zip(changes, points, strict=True)
        ]
        render.print_table(("time", "trust", "reason"), rows)


def _event_time(change: Record) -> datetime:
    try:
        return from_iso(change.body["event"]["timestamp"])
    except (InvalidInput, KeyError, TypeError):
        return change.moment


@app.command()
def dissent(
    ctx: typer.Context,
    agent: AgentArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it objected.")],
    cite: Annotated[
        list[str] | None, typer.Option(metavar="CRITERION", help="A rubric criterion it cites; may be repeated.")
    ] = None,
    impact: Annotated[
        bool | None, typer.Option("--impact/--no-impact", help="Whether it changed the output; not said: judged later.")
    ] = None,
    round_: RoundOption = "",
    of: Annotated[str, typer.Option("--of", metavar="AGENT", help="Whose output it was about.")] = "",
    task: TaskOption = "",
    time: TimeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Log a dissent; it counts once it is known whether it changed the output.

    Example: lukasa trust dissent critic-1 "The decision ignores the REST tooling" --cite Accuracy --impact
    """
    call = get_options(ctx, as_json)
    require_utf8(agent, text)
    with call.open() as memory:
        outcome = memory.trust.log_dissent(
            agent, text, rubric_citations=cite or (), impact=impact, round_id=round_, of=of,
            context={"task": task} if task else None, timestamp=parse_time(time),
        )  # fmt: skip
        record = require_accepted(outcome).records[0]
        _print_dissent(memory.trust, record, as_json=call.json)


@app.command()
def judge(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The dissent, logged or filed by an agent.")],
    impact: Annotated[bool, typer.Option("--impact/--no-impact", help="Whether it changed the output.")],
    as_json: JsonOption = False,
) -> None:
    """Say whether a dissent changed the output, when that was not known before.

    Example: lukasa trust judge 019c… --impact
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        record = require_accepted(memory.trust.judge(id, impact=impact)).records[0]
        _print_dissent(memory.trust, record, as_json=call.json)


def _print_dissent(trust: Trust, record: Record, *, as_json: bool) -> None:
    """What became of a dissent."""
    body, event = record.body, record.body["event"]
    score = trust.score(body["agent"])
    if as_json:
        told = {"id": record.id, "depth_score": event["depth_score"], "counted": body["counted"], "why": body["why"]}
        render.print_json(told | {"agent": body["agent"], "trust_score": score.trust})
        return
    verdicts = {
        "": "It counts.",
        "unjudged": "It counts once it is judged: lukasa trust judge.",
        "shallow": "It counts, but too little of substance stands behind it for its impact to be credited.",
        "unheeded": "It counts without depth: hardly any of the last ten changed anything.",
    }
    told_why = verdicts.get(body["why"], f"It was set aside: {body['why'].replace('_', ' ')}.")
    render.print_line(f"Dissent {record.id}: depth {event['depth_score']:.2f}. {told_why}")
    render.print_line(f"Trust of {body['agent']}: {score.trust:.2f}")


@app.command()
def override(
    ctx: typer.Context,
    agent: AgentArgument,
    output: Annotated[str, typer.Option("--output", metavar="TEXT", help="What the agent put out.")],
    decision: Annotated[str, typer.Option("--decision", metavar="TEXT", help="What the person decided instead.")],
    by: ByOption = "human",
    round_: RoundOption = "",
    artifact: Annotated[
        str | None, typer.Option(metavar="SCOPE/KIND/ID", help="The record that holds the decision; it is watched.")
    ] = None,
    criterion: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="What it was about; may be repeated.")
    ] = None,
    task: TaskOption = "",
    time: TimeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Log a person's decision against an agent's output.

    Example: lukasa trust override creator --output "Use GraphQL" --decision "Stay with REST" --by ada
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        outcome = memory.trust.log_override(
            agent, output, decision, by=by, round_id=round_, artifact=None if artifact is None else _parse_key(artifact),
            criteria=criterion or (), context={"task": task} if task else None, timestamp=parse_time(time),
        )  # fmt: skip
        record, score = require_accepted(outcome).records[0], memory.trust.score(agent)
    deadline = record.body["event"]["auto_check_deadline"]
    if call.json:
        render.print_json(
            {"id": record.id, "agent": agent, "auto_check_deadline": deadline, "trust_score": score.trust}
        )
    else:
        render.print_line(f"Override {record.id}: checked after {deadline}.")
        render.print_line(f"Trust of {agent}: {score.trust:.2f}")


def _parse_key(text: str) -> Key:
    parts = text.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise InvalidInput(f"{text[:80]!r} does not name a record.", hint="Write it as SCOPE/KIND/ID.")
    return Key(*parts)


@app.command()
def revert(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The override that was taken back.")],
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who took it back.")],
    as_json: JsonOption = False,
) -> None:
    """Mark an override as regretted, because a person took it back.

    Example: lukasa trust revert 019c… --by ben
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        record = require_accepted(memory.trust.revert(id, by=by)).records[0]
        _print_regretted([record], as_json=call.json)


@app.command()
def check(
    ctx: typer.Context,
    round_: Annotated[
        str | None, typer.Option("--round", metavar="ID", help="Check this round against its final output.")
    ] = None,
    final: Annotated[str | None, typer.Option("--final", metavar="TEXT", help="The round's final output.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find overrides that did not stand and mark them as regretted.

    Without a round, the artifacts of last week's overrides are compared with what was decided.

    Example: lukasa trust check
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        marked = [
            record
            for record in require_accepted(memory.trust.check_reverts(round_, final)).records
            if record.kind == "override"
        ]
        _print_regretted(marked, as_json=call.json)


def _print_regretted(records: list[Record], *, as_json: bool) -> None:
    if as_json:
        render.print_json([{"id": each.id, "agent": each.body["agent"]} | dict(each.body["event"]) for each in records])
    elif not records:
        render.print_line("Every override stands so far.")
    for each in () if as_json else records:
        render.print_line(
            f"Regretted: override {each.id} of {each.body['agent']}, reverted by {each.body['event']['reverted_by']}."
        )


@app.command("round")
def round_(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ROUND", help="The round's id.")],
    agents: Annotated[list[str], typer.Argument(metavar="AGENT…", help="Who took part.")],
    as_json: JsonOption = False,
) -> None:
    """Count a round for those who took part; the same round counts once.

    Example: lukasa trust round run-7/round-2 creator critic-1
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        require_accepted(memory.trust.participate(agents, id))
        rounds = {agent: memory.trust.standing(agent).rounds for agent in agents}
    if call.json:
        render.print_json(rounds)
    else:
        render.print_table(("agent", "rounds"), rounds.items())


@app.command()
def probation(
    ctx: typer.Context,
    agent: AgentArgument,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until when; without it, probation ends.")] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    by: ByOption = "owner",
    as_json: JsonOption = False,
) -> None:
    """Keep an agent from critical roles until a time, or no longer.

    Example: lukasa trust probation critic-1 --until 2026-03-01 --reason "odd answers" --by ada
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        require_accepted(memory.trust.set_probation(agent, parse_time(until), reason=reason, by=by))
        eligible = memory.trust.eligibility(agent)
    if call.json:
        render.print_json({"agent": agent, "viable": eligible.viable, "not_viable_because": list(eligible.why)})
    else:
        render.print_line("; ".join(eligible.why) or f"{agent} may take critical roles.")


@app.command()
def advocate(
    ctx: typer.Context,
    candidates: Annotated[list[str], typer.Argument(metavar="AGENT…", help="Whom to draw from.")],
    seed: Annotated[str | None, typer.Option(metavar="SEED", help="The same seed draws the same agent.")] = None,
    round_: RoundOption = "",
    as_json: JsonOption = False,
) -> None:
    """Draw the devil's advocate: among those who are viable, the more trusted the likelier.

    Example: lukasa trust advocate critic-1 critic-2 creator --seed 7
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        drawn = memory.trust.assign_devils_advocate(candidates, seed=seed, round_id=round_)
    if isinstance(drawn, Refused):
        raise CommandRefused(drawn)
    if call.json:
        render.print_json(drawn.as_json())
        return
    render.print_line(
        f"{drawn.chosen} (seed {drawn.seed})" + (", drawn from all: nobody is viable" if drawn.fallback else "")
    )
    rows = [(each.agent, f"{each.trust:.2f}", str(each.rounds), "; ".join(each.why_not)) for each in drawn.candidates]
    render.print_table(("candidate", "trust", "rounds", "not viable because"), rows, wrap=("not viable because",))


@app.command()
def influence(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show whose dissents changed whose output, and whose overrides were reverted by whom.

    Example: lukasa trust influence
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.trust.influence()
    if call.json:
        render.print_json(found.as_json())
        return
    rows = [
        (dissenter, of, str(pair.dissents), str(pair.impacts))
        for dissenter, pairs in sorted(found.dissents.items())
        for of, pair in sorted(pairs.items(), key=lambda item: (-item[1].impacts, item[0]))
    ]
    render.print_table(("dissenter", "on the output of", "dissents", "changed it"), rows)
    if found.reverts:
        reverts = [
            (person, by, str(many)) for person, who in sorted(found.reverts.items()) for by, many in sorted(who.items())
        ]
        render.print_table(("overrides of", "reverted by", "times"), reverts)


@app.command()
def predict(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What will be discussed.")],
    candidate: Annotated[
        list[str] | None, typer.Option("--agent", metavar="AGENT", help="Only these; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell who is likely to dissent effectively on a topic, from what came of past dissents near it.

    Example: lukasa trust predict "database migrations"
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.trust.predict(topic, candidate)
    if call.json:
        render.print_json(found.as_json())
        return
    rows = [
        (
            each.agent,
            f"{each.expected:.2f}",
            str(each.dissents),
            _shorten(each.evidence[0].text) if each.evidence else "",
        )
        for each in found.prospects
    ]
    render.print_table(("agent", "expected impact", "dissents", "nearest of them"), rows, wrap=("nearest of them",))
    if found.hit_rate is None or found.base_rate is None:
        render.print_line("Too few past dissents to say how often such a prediction is right.")
    else:
        render.print_line(
            f"Right about {found.hit_rate:.0%} of {render.format_count(found.tested, 'past dissent')}; "
            f"always saying the commoner outcome, {found.base_rate:.0%}."
        )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_LENGTH else line[: _MAX_TEXT_LENGTH - 1] + "…"


@app.command()
def metrics(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Of this agent alone.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show dissent impact, regret rate and escalation usefulness.

    Example: lukasa trust metrics
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        told = memory.trust.metrics(agent).as_json()
    if call.json:
        render.print_json(told)
        return
    spans = ("last_90_days", "all_history")
    rows = [
        (name.replace("_", " "), *(_format_number(told[span][name]) for span in spans)) for name in told["all_history"]
    ]
    render.print_table(("", "last 90 days", "all history"), rows)


def _format_number(value: float | int) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"


@app.command()
def controversy(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show rounds and artifacts with repeated overrides and reverts.

    Example: lukasa trust controversy
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.trust.controversy()
    if call.json:
        names = ("what", "name", "overrides", "reverts", "agents")
        render.print_json([{name: getattr(each, name) for name in names} for each in found])
    elif not found:
        render.print_line("Nothing is controversial.")
    else:
        rows = [
            (each.what, each.name, str(each.overrides), str(each.reverts), ", ".join(each.agents)) for each in found
        ]
        render.print_table(("what", "name", "overrides", "reverts", "agents"), rows, wrap=("agents",))


@app.command()
def verify(
    ctx: typer.Context,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the sums that are wrong anew from the events.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute every agent's running sums from the events, and tell where they differ.

    Example: lukasa trust verify --repair
    """
    from lukasa.interfaces.cli.exit_codes import ExitCode

    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        agents = memory.trust.agents()
        wrong = {name: found for name in agents if (found := memory.trust.check(name))}
        for name in wrong if repair else ():
            require_accepted(memory.trust.rebuild(name))
    findings = [finding for found in wrong.values() for finding in found]
    if call.json:
        render.print_json(
            {
                "agents": len(agents),
                "repaired": bool(repair and wrong),
                "findings": [{"where": each.where, "what": each.what} for each in findings],
            }
        )
    else:
        for finding in findings:
            render.print_line(f"{finding.where}: {finding.what}")
        wrong_ones = f"{render.format_count(len(wrong), 'agent')} with sums that differ" + (
            ", made anew." if repair else "."
        )
        render.print_line(
            wrong_ones if wrong else f"The sums of {render.format_count(len(agents), 'agent')} agree with the events."
        )
    if wrong and not repair:
        raise typer.Exit(ExitCode.DAMAGED)


@app.command("import")
def import_(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files or folders of agents' memories.")],
    as_json: JsonOption = False,
) -> None:
    """Take in agents' memories from the document's JSON files. Agents that are known already are left as they are.

    Example: lukasa trust import memory/
    """
    from lukasa.interfaces.cli.exit_codes import ExitCode
    from lukasa.transfer.layouts import agent_memory

    call = get_options(ctx, as_json)
    paths = [path for each in files for path in (sorted(each.glob("*.json")) if each.is_dir() else [each])]
    with call.open() as memory:
        found = [agent_memory.import_file(memory.trust, path) for path in paths]
    if call.json:
        names = ("file", "agent", "dissents", "overrides", "refused")
        render.print_json([{name: getattr(each, name) for name in names} for each in found])
    else:
        rows = [(each.agent, str(each.dissents), str(each.overrides), each.refused) for each in found]
        render.print_table(("agent", "dissents", "overrides", "refused because"), rows, wrap=("refused because",))
    if any(each.refused for each in found):
        raise typer.Exit(ExitCode.REFUSED)


@app.command()
def export(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="Where the files go.")],
    agent: Annotated[
        list[str] | None, typer.Option("--agent", metavar="AGENT", help="Only this; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write agents' memories as the document's JSON files, one per agent.

    Example: lukasa trust export memory/
    """
    from lukasa.transfer.layouts import agent_memory

    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        written = agent_memory.export_agents(memory.trust, folder, agent)
    if call.json:
        render.print_json([str(path) for path in written])
    else:
        render.print_line(f"Wrote {render.format_count(len(written), 'file')} to {folder}.")


app.command("quarantine")(undo.quarantine)
app.command("release")(undo.release)
