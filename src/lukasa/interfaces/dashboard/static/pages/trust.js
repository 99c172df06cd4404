// Trust: both scores of each agent with their interval over time, what they are made of, dissents, overrides and the rubric.
import { html, useState } from "../lib/html.js";
import { path as join, post, put, useApi, useCaller } from "../lib/api.js";
import { Link, recordHref, useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, formatNumber, formatPercent, Time } from "../lib/time.js";
import { Badge, Bars, Button, Card, Chart, Dialog, Empty, Field, Load, Notice, Page as Frame, Stat, Table, Tabs, toast } from "../lib/ui.js";
import { usePages, usePerson } from "../lib/parts.js";

export const title = "Trust";
export const path = "/trust";

export function Page() {
  const [query, setQuery] = useQuery();
  const caller = useCaller();
  if (!caller.isOwner) return html`<${OwnScore} agent=${caller.agent} />`;
  if (query.agent) return html`<${Agent} key=${query.agent} agent=${query.agent} />`;
  return html`<${All} tab=${query.tab || "agents"} setTab=${(tab) => setQuery({ tab })} />`;
}

function OwnScore({ agent }) {
  const state = useApi(agent ? join("/v1/trust/agents", agent) : null);
  return html`<${Frame} title=${title} lead="An agent sees its own score. The scores of others, dissents to judge and the rubric are for the owner of the store." loading=${state.loading}>
    ${agent ? html`<${Load} state=${state} lines=${6}>${(score) => html`<${ScoreFigures} score=${score} /><${Parts} score=${score} />`}<//>` : html`<${Empty} title="This token stands for no agent.">Sign in with the token of an agent or of the owner.<//>`}
  <//>`;
}

function All({ tab, setTab }) {
  const agents = useApi("/v1/dashboard/agents");
  const filed = useApi("/v1/trust/dissents");
  const metrics = useApi("/v1/trust/metrics");
  const tabs = [
    { key: "agents", label: "Agents", count: agents.data?.agents.length },
    { key: "judge", label: "To judge", count: filed.data?.dissents.length },
    { key: "dissents", label: "Dissents" },
    { key: "overrides", label: "Overrides" },
    { key: "rubric", label: "Rubric" },
  ];
  return html`<${Frame} title=${title} lead="How far each agent is trusted, and why. A score follows from dissents that changed an output and from decisions against the agent." loading=${agents.loading && agents.data === null}>
    <${Metrics} state=${metrics} />
    <${Tabs} label="Parts of trust" value=${tab} onChange=${setTab} tabs=${tabs}>
      ${tab === "agents" && html`<${Agents} state=${agents} />`} ${tab === "judge" && html`<${ToJudge} state=${filed} />`}
      ${tab === "dissents" && html`<${Dissents} />`} ${tab === "overrides" && html`<${Overrides} />`} ${tab === "rubric" && html`<${Rubric} />`}
    <//>
  <//>`;
}

function Metrics({ state }) {
  const data = state.data?.last_90_days;
  const value = (show) => (data ? show(data) : "–");
  return html`<div class="stats">
    <${Stat} label="Dissents" value=${value((d) => formatNumber(d.dissents))} note="in 90 days" />
    <${Stat} label="Changed the output" value=${value((d) => formatPercent(d.dissent_impact))} note="of the judged dissents" />
    <${Stat} label="Mean depth" value=${value((d) => formatNumber(d.mean_dissent_depth, 2))} note="of 2" />
    <${Stat} label="Overrides" value=${value((d) => formatNumber(d.overrides))} note="decisions against an agent" />
    <${Stat} label="Taken back" value=${value((d) => formatPercent(d.regret_rate))} note="of the overrides" />
  </div>`;
}

const trusted = (agents) => agents.filter((row) => row.trust);

function Agents({ state }) {
  const columns = [
    { key: "agent", label: "Agent", render: (row) => html`<${Name} value=${row.agent} max=${40} />`, sort: (row) => row.agent },
    { key: "score", label: "Score and its 95 % interval", wide: true, sort: (row) => row.trust.trust_score, render: (row) => html`<${Interval} score=${row.trust} />` },
    { key: "adjusted", label: "Adjusted", align: "end", sort: (row) => row.trust.adjusted_score, render: (row) => formatNumber(row.trust.adjusted_score, 2) },
    { key: "dissents", label: "Dissents", align: "end", narrow: false, render: (row) => formatNumber(row.trust.dissents) },
    { key: "overrides", label: "Overrides", align: "end", narrow: false, render: (row) => formatNumber(row.trust.overrides) },
    { key: "state", label: "", narrow: false, render: (row) => (row.quarantined ? html`<${Badge} tone="bad">in quarantine<//>` : row.trust.events < 5 ? html`<${Badge} title="Fewer than five events: the interval is wide.">few events<//>` : null) },
  ];
  const empty = html`<${Empty} title="No agents yet.">Register one: <code>memory.trust.register("ada", primary_role="planner")</code>. Every agent begins with a score of 0.6.<//>`;
  return html`<${Card} title="Agents" flush note="open one to see its score over time">
    <${Load} state=${state} lines=${5}>${(data) => html`<${Table} label="Trust in agents" columns=${columns} rows=${trusted(data.agents)} rowKey=${(row) => row.agent} href=${(row) => `/trust?${new URLSearchParams({ agent: row.agent })}`} empty=${empty} />`}<//>
  <//>`;
}

// A score on a line from 0 to 1, with its interval as a band; the number is next to it.
function Interval({ score }) {
  const [low, high] = score.interval;
  return html`<div class="interval">
    <span class="interval-track" aria-hidden="true">
      <span class="interval-band" style=${{ left: `${100 * low}%`, width: `${100 * (high - low)}%` }}></span>
      <span class="interval-point" style=${{ left: `${100 * score.trust_score}%` }}></span>
    </span>
    <span><strong>${formatNumber(score.trust_score, 2)}</strong> <span class="muted">${formatNumber(low, 2)}–${formatNumber(high, 2)}</span></span>
  </div>`;
}

function ScoreFigures({ score }) {
  return html`<div class="stats">
    <${Stat} label="Score" value=${formatNumber(score.trust_score, 2)} note=${`95 %: ${formatNumber(score.interval[0], 2)} to ${formatNumber(score.interval[1], 2)}`} />
    <${Stat} label="Adjusted score" value=${formatNumber(score.adjusted_score, 2)} note="after the rules against gaming" />
    <${Stat} label="Dissents" value=${formatNumber(score.dissents)} note=${`${formatNumber(score.adjusted.dissents)} counted, ${PERIODS[score.dissents_from]}`} />
    <${Stat} label="Overrides" value=${formatNumber(score.overrides)} note=${`${formatPercent(score.regret_ratio)} taken back`} />
  </div>`;
}

function Parts({ score }) {
  const names = { impact_ratio: "changed the output", mean_depth: "depth of dissents", steadiness: "overrides not taken back" };
  return html`<${Card} title="What the score is made of" note="value × weight">
    <div class="wide-values"><${Bars} label="Parts of the score" max=${0.6} items=${Object.entries(score.parts).map(([name, part]) => ({ label: names[name] || name, value: part.share, text: `${formatNumber(part.value, 2)} × ${formatNumber(part.weight, 1)} = ${formatNumber(part.share, 2)}` }))} /></div>
  <//>`;
}

// What a ratio was computed from.
const PERIODS = { window: "of the last 90 days", history: "of all history", nothing: "none so far" };
const REASONS = { initial: "first score", dissent_impact_true: "a dissent changed the output", dissent_impact_false: "a dissent changed nothing", override: "an override", override_regretted: "an override was taken back", rebuilt: "computed again" };

function Agent({ agent }) {
  const base = join("/v1/trust/agents", agent);
  const score = useApi(base);
  const history = useApi(join("/v1/dashboard/trust", agent));
  const eligible = useApi(`${base}/eligibility`);
  const [dialog, setDialog] = useState(false);
  return html`<${Frame} title=${agent} lead="The score of one agent over time, what it is made of, and every event behind it." loading=${score.loading && score.data === null}
    actions=${html`<${Link} class="button" href="/trust">All agents<//><${Button} onClick=${() => setDialog(true)}>Set probation<//>`}>
    <${Load} state=${score} lines=${4}>${(data) => html`<${ScoreFigures} score=${data} />`}<//>
    <${Card} title="Scores over time"><${Load} state=${history} height=${260}>${(data) => html`<${ScoreChart} changes=${data.changes} />`}<//><//>
    <div class="grid">
      ${score.data && html`<${Parts} score=${score.data} />`}
      <${Card} title="Critical roles"><${Load} state=${eligible} lines=${2}>
        ${(data) => (data.viable ? html`<p><${Badge} tone="good">eligible<//></p>` : html`<p><${Badge} tone="warn">not eligible<//></p><ul class="plain">${data.not_viable_because.map((why) => html`<li><${Name} value=${why} max=${200} /></li>`)}</ul>`)}
      <//><//>
    </div>
    <${Card} title="Events" note="newest first" flush><${Load} state=${history} lines=${6}>${(data) => html`<${Changes} changes=${data.changes} />`}<//><//>
    ${dialog && html`<${Probation} base=${base} onClose=${() => setDialog(false)} onDone=${() => { setDialog(false); eligible.reload(); }} />`}
  <//>`;
}

function ScoreChart({ changes }) {
  if (!changes.length) return html`<${Empty} title="No events yet.">The score is 0.6 until a dissent is judged or a person decides against the agent.<//>`;
  const values = (name) => changes.map((change) => change[name]);
  return html`<${Chart} label="Scores over time" height=${260} yRange=${[0, 1.05]} format=${(value) => formatNumber(value, 2)}
    x=${changes.map((change) => Date.parse(change.at) / 1000)}
    series=${[
      { label: "score", values: values("score"), tone: 1 },
      { label: "adjusted", values: values("adjusted"), tone: 4 },
      { label: "at least (95 %)", values: values("low"), tone: 7, dash: [4, 4] },
      { label: "at most (95 %)", values: values("high"), tone: 7, dash: [4, 4] },
    ]} />`;
}

function Changes({ changes }) {
  const columns = [
    { key: "at", label: "When", render: (change) => html`<${Time} at=${change.at} />` },
    { key: "why", label: "Event", wide: true, render: (change) => { const said = html`<${Name} value=${REASONS[change.reason] || change.reason} max=${80} />`; return change.event ? html`<${Link} href=${recordHref(change.event)}>${said}<//>` : said; } },
    { key: "score", label: "Score", align: "end", render: (change) => html`${change.was === null ? "" : html`<span class="muted">${formatNumber(change.was, 2)} → </span>`}<strong>${formatNumber(change.score, 2)}</strong>` },
  ];
  return html`<${Table} label="Events" columns=${columns} rows=${[...changes].reverse()} rowKey=${(change) => change.seq} pageSize=${15} empty=${html`<${Empty} title="No events yet." />`} />`;
}

function Probation({ base, onClose, onDone }) {
  const [person, personField] = usePerson();
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState(null);
  const save = async (end) => {
    try {
      await put(`${base}/probation`, { until: end, reason, by: person || "owner" });
      toast(end ? "The agent is on probation." : "The probation is ended.");
      onDone();
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<${Dialog} title="Probation" onClose=${onClose} actions=${html`<${Button} onClick=${() => save(null)}>End probation<//><${Button} kind="primary" disabled=${!until} onClick=${() => save(new Date(`${until}T00:00:00`).toISOString())}>Set<//>`}>
    <p>While on probation, the agent takes no critical roles. It still works and is still heard.</p>
    <${Field} label="Until">${(id) => html`<input id=${id} type="date" value=${until} onInput=${(event) => setUntil(event.target.value)} />`}<//>
    <${Field} label="Reason">${(id) => html`<input id=${id} value=${reason} maxlength="300" onInput=${(event) => setReason(event.target.value)} />`}<//>
    ${personField} <${Notice} problem=${problem} />
  <//>`;
}

function ToJudge({ state }) {
  const judge = async (record, impact) => {
    await put(join("/v1/trust/dissents", record.id) + "/judgement", { impact });
    toast(impact ? "Judged: it changed the output." : "Judged: it changed nothing.");
    state.reload();
  };
  return html`<${Card} title="Dissents to judge" note="a filed dissent counts for nothing until you judge it">
    <${Load} state=${state} lines=${5}>
      ${(data) => data.dissents.length
        ? html`<ul class="proposals">${data.dissents.map((record) => html`<li class="proposal" key=${record.id}>
            <div class="row"><strong><${Name} value=${record.body.agent} /></strong>${record.body.event.round_id && html`<span class="muted">in <${Name} value=${record.body.event.round_id} /></span>`}${record.body.event.rubric_citations.map((name) => html`<${Badge}><${Name} value=${name} /><//>`)}<span class="muted push"><${Time} at=${record.recorded_at} /></span></div>
            <p><${Text} value=${record.text} max=${600} /></p>
            <div class="row"><${Button} onClick=${() => judge(record, true)}>It changed the output<//><${Button} onClick=${() => judge(record, false)}>It changed nothing<//></div>
          </li>`)}</ul>`
        : html`<${Empty} title="Nothing to judge.">Agents file dissents with <code>memory.trust.file_dissent("…")</code> or over MCP; they appear here.<//>`}
    <//>
  <//>`;
}

function Dissents() {
  const pages = usePages("/v1/dashboard/records", { kind: "dissent", limit: 30 }, "records");
  const impact = (event) => (event.impact === null ? html`<${Badge} tone="warn">not judged<//>` : event.impact ? html`<${Badge} tone="good">changed the output<//>` : html`<${Badge}>changed nothing<//>`);
  const columns = [
    { key: "text", label: "Dissent", wide: true, render: (record) => html`<${Text} value=${record.body.event.dissent_text} max=${160} links=${false} kind="small" />` },
    { key: "agent", label: "By", render: (record) => html`<${Name} value=${record.body.agent} />${record.body.of && html` <span class="muted">on <${Name} value=${record.body.of} /></span>`}` },
    { key: "impact", label: "Judgement", render: (record) => impact(record.body.event) },
    { key: "depth", label: "Depth", align: "end", narrow: false, render: (record) => formatNumber(record.body.event.depth_score ?? null, 2) },
    { key: "at", label: "When", align: "end", narrow: false, render: (record) => html`<${Time} at=${record.body.event.timestamp} />` },
  ];
  return html`<${Card} title="Dissents" note="newest first" flush><${Load} state=${pages} lines=${6}>${(rows) => html`<${Table} label="Dissents" columns=${columns} rows=${rows} rowKey=${(record) => record.seq} href=${recordHref} more=${pages.more} loading=${pages.loading} empty=${html`<${Empty} title="No dissents yet.">A dissent is an agent's objection to an output: <code>memory.trust.file_dissent("…")</code>.<//>`} />`}<//><//>`;
}

function Overrides() {
  const pages = usePages("/v1/dashboard/records", { kind: "override", limit: 30 }, "records");
  const disputes = useApi("/v1/trust/controversy");
  const [chosen, setChosen] = useState(null);
  return html`<div class="stack">
    <${Card} title="Overrides" note="a person decided against an agent; newest first">
      <${Load} state=${pages} lines=${6}>
        ${(rows) => rows.length
          ? html`<ul class="proposals">${rows.map((record) => html`<li class="proposal" key=${record.seq}>
              <div class="row"><strong><${Name} value=${record.body.agent} /></strong><span class="muted">decided by <${Name} value=${record.body.by} /></span>${record.body.event.regret && html`<${Badge} tone="bad">taken back by ${record.body.event.reverted_by || "somebody"}<//>`}<span class="muted push"><${Time} at=${record.body.event.timestamp} /></span></div>
              <dl class="facts"><dt>The agent</dt><dd><${Text} value=${record.body.event.agent_output} max=${300} /></dd><dt>The person</dt><dd><${Text} value=${record.body.event.human_decision} max=${300} /></dd></dl>
              ${!record.body.event.regret && html`<div class="row"><${Button} kind="quiet" onClick=${() => setChosen(record)}>Take this override back<//></div>`}
            </li>`)}</ul>${pages.more && html`<${Button} kind="quiet" onClick=${pages.more}>Show older ones<//>`}`
          : html`<${Empty} title="No overrides yet.">Record a decision against an agent: <code>memory.trust.log_override("ben", "its output", "your decision", by="ada")</code>.<//>`}
      <//>
    <//>
    ${disputes.data?.controversies.length > 0 && html`<${Card} title="Disputed" note="rounds and artifacts with repeated overrides and reverts" flush><${Table} label="Disputed" rows=${disputes.data.controversies} rowKey=${(row) => row.what + row.name} columns=${[{ key: "name", label: "What", wide: true, render: (row) => html`${row.what} <${Name} value=${row.name} />` }, { key: "agents", label: "Agents", render: (row) => html`<${Name} value=${row.agents.join(", ")} />` }, { key: "overrides", label: "Overrides", align: "end" }, { key: "reverts", label: "Taken back", align: "end" }]} /><//>`}
    ${chosen && html`<${TakeBack} record=${chosen} onClose=${() => setChosen(null)} onDone=${() => { setChosen(null); pages.reload(); }} />`}
  </div>`;
}

function TakeBack({ record, onClose, onDone }) {
  const [person, personField] = usePerson();
  const [problem, setProblem] = useState(null);
  const save = async () => {
    try {
      await post(join("/v1/trust/overrides", record.id) + "/reversal", { by: person });
      toast("The override is marked as regretted.");
      onDone();
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<${Dialog} title="Take an override back" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Keep it<//><${Button} kind="primary" disabled=${!person} onClick=${save}>Take back<//>`}>
    <p>The decision against <${Name} value=${record.body.agent} /> is marked as regretted. The share of overrides taken back is part of the agent's score.</p>
    ${personField} <${Notice} problem=${problem} />
  <//>`;
}

function Rubric() {
  const versions = useApi("/v1/rubrics/default/versions");
  const rubric = { ...versions, data: versions.data?.versions.at(-1) ?? null };
  const proposals = useApi("/v1/rubrics/proposals");
  const [person, personField] = usePerson();
  if (versions.data?.versions.length === 0) return html`<${Card} title="Rubric"><${Empty} title="There is no rubric yet.">A rubric weighs the criteria by which outputs are judged: <code>memory.trust.rubric.set({"Correctness": 3, "Clarity": 2}, by="ada")</code>.<//><//>`;
  const decide = async (record, verb) => {
    await post(join("/v1/rubrics/proposals", record.id) + `/${verb}`, { by: person });
    toast(verb === "application" ? "The rubric has a new version." : "The proposal is rejected.");
    versions.reload();
    proposals.reload();
  };
  const waiting = (proposals.data?.proposals || []).filter((record) => record.body.state === "open");
  const shares = (criteria) => Object.entries(criteria).sort((a, b) => b[1] - a[1]);
  return html`<div class="grid">
    <${Card} title="Rubric" note=${rubric.data ? `version ${rubric.data.version}` : ""}><${Load} state=${rubric} lines=${4}>${(data) => html`<${Bars} label="Criteria" max=${1} items=${shares(data.criteria).map(([name, share]) => ({ label: html`<${Name} value=${name} />`, value: share, text: formatPercent(share) }))} />`}<//><//>
    <${Card} title="Versions" flush><${Load} state=${versions} lines=${3}>${(data) => html`<${Table} label="Versions of the rubric" rows=${[...data.versions].reverse()} rowKey=${(row) => row.version} pageSize=${8} columns=${[{ key: "version", label: "Version" }, { key: "by", label: "By", render: (row) => html`<${Name} value=${row.by} />` }, { key: "criteria", label: "Criteria", wide: true, render: (row) => html`<${Name} value=${shares(row.criteria).map(([name, share]) => `${name} ${formatPercent(share)}`).join(", ")} max=${200} />` }]} />`}<//><//>
    <${Card} title="Proposals" wide note="from overrides that cite criteria">
      ${waiting.length ? html`${personField}<ul class="proposals">${waiting.map((record) => html`<li class="proposal" key=${record.id}><${Text} value=${record.body.reason || record.text} max=${400} kind="small" /><div class="row"><${Button} kind="primary" disabled=${!person} onClick=${() => decide(record, "application")}>Apply<//><${Button} disabled=${!person} onClick=${() => decide(record, "rejection")}>Reject<//></div></li>`)}</ul>` : html`<p class="muted">No proposals wait. They are made when decisions keep going against the same criterion.</p>`}
    <//>
  </div>`;
}
