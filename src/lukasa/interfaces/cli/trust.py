"""``lukasa trust``: dissents, overrides, and the trust in each agent that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lukasa.core.clock import from_iso
from lukasa.core.outcome import Outcome
from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render, rubric
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    ForceOption,
    argument,
    flag,
    option,
    parse_time,
    require_found,
    require_result,
    require_utf8,
)
from lukasa.interfaces.cli.render import format_count, shorten
from lukasa.interfaces.outcomes import ExitCode
from lukasa.interfaces.serialise import to_json

if TYPE_CHECKING:
    from lukasa.trust import Trust, TrustScore

app = CommandApp(
    "trust",
    "Score how far each agent can be trusted, from its objections (dissents) and overrides of its output.",
    example="lukasa trust show",
)
app.add_typer(rubric.app)

AgentArgument = Annotated[str, argument("AGENT", "The name of the agent.")]
AgentsArgument = Annotated[list[str], argument("AGENT…", "The names of the agents.")]
AgentFilterOption = Annotated[list[str] | None, option("AGENT", "Only this agent (repeatable).", "--agent")]
RoundOption = Annotated[str, option("ID", "The id of the round.", "--round")]
ByOption = Annotated[str, option("NAME", "The person who decided.", "--by")]
TimeOption = Annotated[str | None, option("TIME", "When it happened; default: now.", "--time")]
TaskOption = Annotated[str, option("TEXT", "The task that the agents worked on.", "--task")]
_PERIODS = {"window": " of the last 90 days", "history": " of all history", "nothing": ""}
_VERDICTS = {
    "": "It counts.",
    "unjudged": "It counts once it is judged: lukasa trust judge.",
    "shallow": "It counts; the adjusted score does not credit its impact, because it is too shallow.",
    "unheeded": "It counts; the adjusted score gives it no depth: hardly any of the last ten changed anything.",
}


@app.command()
def show_(
    call: Call,
    agent: Annotated[str | None, argument("[AGENT]", "One agent; default: all agents.")] = None,
    at: Annotated[str | None, option("TIME", "As the score was at this time.")] = None,
) -> None:
    """Show the trust score and the adjusted score of each agent, or of one agent with their parts.

    Example: lukasa trust show critic-1
    """
    moment = parse_time(at)
    trust = call.memory.trust
    if agent is not None:
        _show_agent(call, trust, agent, moment)
        return
    scores = [trust.score(name, at=moment) for name in trust.agents()]
    call.show(
        sorted(scores, key=lambda score: (-score.trust, score.agent)),
        columns=(
            "agent, trust:.2f, adjusted=adjusted_score:.2f",
            ("95 %", lambda score: f"{score.low:.2f}–{score.high:.2f}"),
            "impact=impact_ratio:.2f, depth=mean_depth:.2f, regret=regret_ratio:.2f, dissents, overrides",
            ("not viable because", lambda score: "; ".join(trust.eligibility(score.agent).why)),
        ),
        wrap="not viable because",
        empty="No agent has been judged yet.",
    )


def _show_agent(call: Call, trust: Trust, agent: str, at: datetime | None) -> None:
    _require_agent(agent in trust.agents(), agent)
    view, score = trust.agent(agent), trust.score(agent, at=at)
    eligible, citations, standing = trust.eligibility(agent), trust.diversity(agent), trust.standing(agent)
    diversity = {"entropy": citations.entropy, "before": citations.before, "flag": citations.why}
    answer = view.as_json() | {"adjusted_score": score.adjusted_score, "score": score.as_json()}
    answer |= {"viable": eligible.viable, "not_viable_because": eligible.why}
    answer |= {"citation_diversity": diversity, "set_aside": dict(standing.aside)}
    dissents = format_count(score.dissents, "dissent") + _PERIODS[score.dissents_from]
    overrides = format_count(score.overrides, "override") + _PERIODS[score.overrides_from]
    fields = {"agent": agent, **render.read_fields(view, "model, role=primary_role")} | {
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
    call.show(
        answer, fields={name: render.escape_line(value) for name, value in fields.items() if value not in ("", None)}
    )


def _require_agent(found: object, agent: str) -> None:
    require_found(found, f"Nothing is known of the agent {agent!r:.80}.", "`lukasa trust show` lists the agents.")


@app.command()
def history(
    call: Call,
    agent: AgentArgument,
    limit: Annotated[int, option("N", "Maximum number of changes, the latest.", min=1)] = 20,
    out: Annotated[Path | None, option("FILE", "Draw all changes to this .svg file instead.")] = None,
    force: ForceOption = False,
) -> None:
    """List the changes of an agent's trust, each with its reason.

    Example: lukasa trust history critic-1 --out critic-1.svg
    """
    from lukasa.trust import chart

    changes = call.memory.trust.history(agent, limit=None if out else limit)
    _require_agent(changes, agent)
    points = [(_event_time(change), float(change.body["event"]["score"])) for change in changes]
    answer = [dict(change.body["event"]) | {"inputs": change.body["inputs"]} for change in changes]
    if out is not None:
        chart.draw_trust_chart(agent, sorted(points)).save(out, replace=force)
        call.show(answer, f"Drew {format_count(len(changes), 'change')} to {out}.")
        return
    call.show(
        answer,
        chart.sparkline(sorted(points)),
        columns=(("time", _event_time), "trust=body.event.score:.3f, reason=body.event.reason"),
        rows=changes,
    )


def _event_time(change: Record) -> datetime:
    try:
        return from_iso(change.body["event"]["timestamp"])
    except (InvalidInput, KeyError, TypeError):
        return change.moment


@app.command()
def log_dissent(
    call: Call,
    agent: AgentArgument,
    text: Annotated[str, argument("TEXT", "The objection of the agent.")],
    cite: Annotated[list[str] | None, option("CRITERION", "A criterion of the rubric it cites (repeatable).")] = None,
    impact: Annotated[bool | None, flag("--impact/--no-impact", "Whether it changed the output, if known.")] = None,
    round_: RoundOption = "",
    of: Annotated[str, option("AGENT", "The agent whose output it is about.", "--of")] = "",
    task: TaskOption = "",
    time: TimeOption = None,
) -> None:
    """Record that an agent objected to an output. It counts once its impact is known.

    Example: lukasa trust log-dissent critic-1 "The decision ignores the REST tooling" --cite Accuracy --impact
    """
    require_utf8(agent, text)
    details = _event_details(round_, task, time)
    outcome = call.memory.trust.log_dissent(agent, text, rubric_citations=cite or (), impact=impact, of=of, **details)
    _show_dissent(call, outcome)


def _event_details(round_id: str, task: str, time: str | None) -> dict[str, Any]:
    """Return the arguments that dissents and overrides share."""
    return {"round_id": round_id, "context": {"task": task} if task else None, "timestamp": parse_time(time)}


@app.command()
def judge(
    call: Call,
    id: Annotated[str, argument("ID", "The id of the dissent.")],
    impact: Annotated[bool, flag("--impact/--no-impact", "Whether it changed the output.")],
) -> None:
    """Record whether an earlier dissent changed the output.

    Example: lukasa trust judge 019c… --impact
    """
    _show_dissent(call, call.memory.trust.judge(id, impact=impact))


def _show_dissent(call: Call, outcome: Outcome) -> None:
    record = outcome.unwrap_all()[0]
    agent, why, depth = record.body["agent"], record.body["why"], record.body["event"]["depth_score"]
    score = call.memory.trust.score(agent)
    verdict = _VERDICTS.get(why, f"The adjusted score does not count it: {why.replace('_', ' ')}.")
    answer = {"id": record.id, "depth_score": depth, "counted": record.body["counted"], "why": why, "agent": agent}
    call.show(
        answer | {"trust_score": score.trust, "adjusted_score": score.adjusted_score},
        [f"Dissent {record.id}: depth {depth:.2f}. {verdict}", _scores_line(score)],
    )


def _scores_line(score: TrustScore) -> str:
    return f"Trust of {score.agent}: {score.trust:.2f}, adjusted {score.adjusted_score:.2f}"


@app.command()
def override(
    call: Call,
    agent: AgentArgument,
    output: Annotated[str, option("TEXT", "The output of the agent.", "--output")],
    decision: Annotated[str, option("TEXT", "What the person decided instead.", "--decision")],
    by: ByOption = "human",
    round_: RoundOption = "",
    artifact: Annotated[
        str | None, option("SCOPE/KIND/ID", "The record with the decision, for `trust check-reverts`.")
    ] = None,
    criterion: Annotated[list[str] | None, option("NAME", "A criterion it is about (repeatable).")] = None,
    task: TaskOption = "",
    time: TimeOption = None,
) -> None:
    """Record that a person decided against an agent's output.

    Example: lukasa trust override creator --output "Use GraphQL" --decision "Stay with REST" --by ada
    """
    parts = [] if artifact is None else artifact.split("/", 2)
    if artifact is not None and (len(parts) != 3 or not all(parts)):
        raise InvalidInput(f"{artifact[:80]!r} does not name a record.", hint="Write it as SCOPE/KIND/ID.")
    key = Key(*parts) if parts else None
    details = _event_details(round_, task, time) | {"artifact": key, "criteria": criterion or ()}
    record = call.memory.trust.log_override(agent, output, decision, by=by, **details).unwrap_all()[0]
    score, deadline = call.memory.trust.score(agent), record.body["event"]["auto_check_deadline"]
    answer = {"id": record.id, "agent": agent, "auto_check_deadline": deadline}
    call.show(
        answer | {"trust_score": score.trust, "adjusted_score": score.adjusted_score},
        [f"Override {record.id}: checked after {deadline}.", _scores_line(score)],
    )


@app.command()
def revert(
    call: Call,
    id: Annotated[str, argument("ID", "The id of the override.")],
    by: Annotated[str, option("NAME", "The person who took it back.")],
) -> None:
    """Record that a person took an override back. It then counts as regretted.

    Example: lukasa trust revert 019c… --by ben
    """
    _show_regretted(call, [call.memory.trust.revert(id, by=by).unwrap_all()[0]])


@app.command()
def check_reverts(
    call: Call,
    round_: Annotated[str | None, option("ID", "Check this round against its final output.", "--round")] = None,
    final: Annotated[str | None, option("TEXT", "The final output of the round.", "--final")] = None,
) -> None:
    """Find overrides that did not last, and mark them as regretted.

    Without a round, compares all versions of each override's artifact with the decision.

    Example: lukasa trust check-reverts
    """
    changed = call.memory.trust.check_reverts(round_, final).unwrap_all()
    _show_regretted(call, [record for record in changed if record.kind == "override"])


def _show_regretted(call: Call, records: Sequence[Record]) -> None:
    answer = [{"id": record.id, "agent": record.body["agent"]} | dict(record.body["event"]) for record in records]
    sentence = "Regretted: override {id} of {agent}, reverted by {reverted_by}."
    call.show(answer, [sentence.format_map(row) for row in answer] or "Every override has lasted so far.")


@app.command()
def round_(call: Call, id: Annotated[str, argument("ROUND", "The id of the round.")], agents: AgentsArgument) -> None:
    """Record which agents took part in a round. The same round counts once.

    Example: lukasa trust round run-7/round-2 creator critic-1
    """
    call.memory.trust.participate(agents, id).unwrap_all()
    rounds = {agent: call.memory.trust.standing(agent).rounds for agent in agents}
    call.show(rounds, columns="agent, rounds", rows=rounds.items())


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
    call.memory.trust.set_probation(agent, parse_time(until), reason=reason, by=by).unwrap_all()
    eligible = call.memory.trust.eligibility(agent)
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
    drawn = require_result(call.memory.trust.assign_devils_advocate(candidates, seed=seed, round_id=round_))
    why: render.Column = ("not viable because", lambda candidate: "; ".join(candidate.why_not))
    call.show(
        drawn,
        f"{drawn.chosen} (seed {drawn.seed})" + (", drawn from all: no agent is viable" if drawn.fallback else ""),
        columns=("candidate=agent, trust:.2f, rounds", why),
        rows=drawn.candidates,
        wrap="not viable because",
    )


@app.command()
def influence(call: Call) -> None:
    """Show whose dissents changed whose output, and who reverted whose overrides.

    Example: lukasa trust influence
    """
    found = call.memory.trust.influence()
    call.show(
        found,
        columns="dissenter, on the output of, dissents, changed it",
        rows=[
            (dissenter, of, pair.dissents, pair.impacts)
            for dissenter, pairs in sorted(found.dissents.items())
            for of, pair in sorted(pairs.items(), key=lambda item: (-item[1].impacts, item[0]))
        ],
        empty="" if found.reverts else "There are no dissents and no reverts yet.",
    )
    reverts = [(name, by, count) for name, who in sorted(found.reverts.items()) for by, count in sorted(who.items())]
    call.show_more(columns="overrides of, reverted by, times", rows=reverts)


@app.command()
def predict(
    call: Call, topic: Annotated[str, argument("TOPIC", "What will be discussed.")], candidate: AgentFilterOption = None
) -> None:
    """Predict whose dissent on a topic is likely to have an impact, from similar past dissents.

    Example: lukasa trust predict "database migrations"
    """
    found = call.memory.trust.predict(topic, candidate)
    accuracy = "Too few past dissents to say how often such a prediction is right."
    if found.hit_rate is not None and found.base_rate is not None:
        accuracy = f"Right about {found.hit_rate:.0%} of {format_count(found.tested, 'past dissent')}; "
        accuracy += f"always predicting the more common outcome is right about {found.base_rate:.0%}."
    nearest: render.Column = ("nearest of them", lambda row: shorten(row.evidence[0].text, 60) if row.evidence else "")
    columns = ("agent, expected impact=expected:.2f, dissents", nearest)
    call.show(found, columns=columns, rows=found.prospects, wrap="nearest of them", after=accuracy)


@app.command()
def metrics(call: Call, agent: Annotated[str | None, option("AGENT", "Only this agent.", "--agent")] = None) -> None:
    """Show dissent impact, regret rate and usefulness of escalations.

    Example: lukasa trust metrics
    """
    figures: dict[str, Any] = to_json(call.memory.trust.metrics(agent))
    recent, total = figures["last_90_days"], figures["all_history"]
    forms = {name: "{:.2f}" if isinstance(value, float) else "{:,}" for name, value in total.items()}
    rows = [
        (name.replace("_", " "), form.format(recent[name]), form.format(total[name])) for name, form in forms.items()
    ]
    call.show(figures, columns=", last 90 days, all history", rows=rows)


@app.command()
def controversy(call: Call) -> None:
    """List rounds and artifacts with repeated overrides and reverts.

    Example: lukasa trust controversy
    """
    columns = "what, name, overrides, reverts, agents"
    call.show(call.memory.trust.controversy(), columns=columns, wrap="agents", empty="Nothing is controversial.")


@app.command()
def check(
    call: Call, repair: Annotated[bool, flag("--repair", "Recompute the sums that differ from the events.")] = False
) -> None:
    """Compare the stored sums of every agent with its events. Changes nothing without --repair.

    Exit code 6: sums differ and were not repaired.

    Example: lukasa trust check --repair
    """
    trust = call.existing_memory.trust
    agents = trust.agents()
    wrong = {name: found for name in agents if (found := trust.check(name))}
    for name in wrong if repair else ():
        trust.rebuild(name).unwrap_all()
    findings = [{"where": finding.where, "what": finding.what} for found in wrong.values() for finding in found]
    summary = f"The sums of {format_count(len(agents), 'agent')} agree with the events."
    if wrong:
        summary = f"{format_count(len(wrong), 'agent')} with sums that differ{', recomputed' if repair else ''}."
    call.show(
        {"agents": len(agents), "repaired": bool(repair and wrong), "findings": findings},
        [*(f"{finding['where']}: {finding['what']}" for finding in findings), summary],
        exit_code=ExitCode.DAMAGED if wrong and not repair else ExitCode.OK,
    )


@app.command(hidden=True)
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


@app.command(hidden=True)
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
