// Experience: episodes, what was learned from them, and the review of a consolidation before it is written.
import { html, useState } from "../lib/html.js";
import { path as join, post, useApi, useCaller, usePost } from "../lib/api.js";
import { recordHref, useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, formatNumber, formatPercent, formatSeconds, Time } from "../lib/time.js";
import { Badge, Bars, Button, Card, Chart, Empty, Kind, Load, Notice, Page as Frame, Select, Stat, Table, Tabs, toast } from "../lib/ui.js";
import { RecordLink, usePages } from "../lib/parts.js";

export const title = "Experience";
export const path = "/experience";

const records = "/v1/dashboard/records";

export function Page() {
  const [query, setQuery] = useQuery();
  const caller = useCaller();
  const tab = query.tab || (caller.canWrite ? "review" : "patterns");
  const [changed, setChanged] = useState(0);
  const figures = useApi("/v1/metrics/dashboard", { days: 28 });
  const tabs = [
    ...(caller.canWrite ? [{ key: "review", label: "Review" }] : []),
    { key: "patterns", label: "Patterns" },
    { key: "episodes", label: "Episodes" },
    { key: "skills", label: "Skills" },
    { key: "work", label: "Work by day" },
    { key: "gain", label: "Shown to agents" },
  ];
  return html`<${Frame} title=${title} lead="What agents did, and what can be learned from it." loading=${figures.loading && figures.data === null}>
    <${Figures} state=${figures} />
    <${Tabs} label="Parts of experience" value=${tab} onChange=${(value) => setQuery({ tab: value, outcome: null, agent: null })} tabs=${tabs}>
      ${tab === "review" && html`<${Review} key=${changed} onChange=${() => setChanged((value) => value + 1)} />`}
      ${tab === "patterns" && html`<${Knowledge} />`} ${tab === "episodes" && html`<${EpisodeList} />`} ${tab === "skills" && html`<${Skills} />`}
      ${tab === "work" && html`<${Work} state=${figures} />`} ${tab === "gain" && html`<${Gain} />`}
    <//>
  <//>`;
}

function Figures({ state }) {
  const data = state.data;
  if (state.error) return html`<${Notice} problem=${state.error} retry=${state.reload} />`;
  const value = (show) => (data ? show(data) : "–");
  return html`<div class="stats">
    <${Stat} label="Episodes" value=${value((d) => formatNumber(d.episodes))} note="in 28 days" />
    <${Stat} label="Succeeded" value=${value((d) => formatPercent(d.success_rate))} note=${value((d) => `${formatCount(d.unfinished, "episode")} running`)} />
    <${Stat} label="Mean time" value=${value((d) => formatSeconds(d.mean_seconds))} note="per episode" />
    <${Stat} label="Retries" value=${value((d) => formatNumber(d.mean_retries, 2))} note="per task" />
    <${Stat} label="Reward" value=${value((d) => formatNumber(d.mean_reward, 2))} note="of 1" />
  </div>`;
}

function Gain() {
  const state = useApi("/v1/metrics/gain", { since: "28d" });
  return html`<${Card} title="What agents were shown of the memory" note="in 28 days">
    <${Load} state=${state} lines=${3}>
      ${(data) => html`<div class="stats">
          <${Stat} label="Notes shown" value=${formatNumber(data.notes)} note=${`${formatCount(data.tokens, "token")} in ${formatCount(data.sessions, "session")}`} />
          <${Stat} label="Used" value=${formatNumber(data.used)} note="named again by the session" />
          <${Stat} label="Failures avoided" value=${formatNumber(data.failures_avoided)} note=${`${formatNumber(data.failures_repeated)} met again`} />
          <${Stat} label="Corrected" value=${formatNumber(data.corrected)} note="changed or deleted since" />
        </div>
        <p class="muted">${data.comparison.said}</p>`}
    <//>
  <//>`;
}

function Review({ onChange }) {
  const preview = usePost("/v1/consolidation", { dry_run: true });
  const approve = async () => {
    const done = await post("/v1/consolidation", {});
    onChange();
    if (!done.label) toast("There was nothing to write.");
    else toast(`Written: ${formatCount(done.proposals.length, "record")}.`, { undo: () => undo(done.label, onChange) });
  };
  return html`<div class="stack">
    <${Card} title="What a consolidation would write now" note="a dry run; nothing is written yet"
      action=${preview.data?.proposals.length > 0 && html`<${Button} kind="primary" onClick=${approve}>Approve ${formatCount(preview.data.proposals.length, "proposal")}<//>`}>
      <${Load} state=${preview} lines=${6}>
        ${(data) => data.proposals.length
          ? html`<p class="muted gap-below">From ${formatCount(data.looked_at, "new episode")}. All of them are written together, and can be undone together.</p>
              <ul class="proposals">${data.proposals.map((proposal) => html`<${Proposal} key=${proposal.kind + proposal.id} proposal=${proposal} />`)}</ul>`
          : html`<${Empty} title="Nothing to review.">${data.looked_at ? `${formatCount(data.looked_at, "new episode")} had nothing in common yet.` : "There are no new episodes since the last run."} Agents record episodes with <code>memory.episodes.record("goal", outcome="success", …)</code>; two that agree make a pattern.<//>`}
      <//>
    <//>
    ${preview.data?.held.length > 0 && html`<${Card} title="Held back" note="statements that did not become knowledge">
      <ul class="plain">${preview.data.held.map((item) => html`<li><${Text} value=${item.what} max=${200} kind="small" /> <span class="muted">— <${Name} value=${item.why} max=${200} /></span></li>`)}</ul>
    <//>`}
    <${Runs} onChange=${onChange} />
  </div>`;
}

async function undo(label, onChange) {
  await post("/v1/journal/undo", { label });
  onChange();
}

function Proposal({ proposal }) {
  const body = proposal.body;
  return html`<li class="proposal">
    <div class="row"><${Kind} kind=${proposal.kind} /><${Badge} tone=${proposal.action === "new" ? "good" : "info"}>${proposal.action}<//><span class="muted">in <${Name} value=${proposal.scope} /></span></div>
    <p><${Text} value=${proposal.says} max=${400} /></p>
    ${proposal.confidence !== null && html`<${Bars} label="Support of the proposal" small max=${1} items=${[{ label: "confidence", value: proposal.confidence, text: formatNumber(proposal.confidence, 2) }]} />`}
    <p class="muted">${formatCount(proposal.voices, "independent author")}${body.evidence ? `, ${formatCount(body.evidence.successes, "success", "successes")}, ${formatCount(body.evidence.failures, "failure")}` : ""}. From ${proposal.sources.slice(0, 8).map((source, i) => html`${i ? ", " : ""}<${RecordLink} scope=${proposal.scope} kind="episode" id=${source} />`)}${proposal.sources.length > 8 ? ` and ${proposal.sources.length - 8} more` : ""}.</p>
  </li>`;
}

function Runs({ onChange }) {
  const caller = useCaller();
  const cursors = useApi(records, { kind: "consolidation", limit: 1 });
  const scope = cursors.data?.records[0]?.scope;
  const state = useApi(scope === undefined ? null : join("/v1/records", scope, "consolidation", "cursor") + "/history");
  if (scope === undefined) return null; // no run yet
  const take = async (label) => {
    await post("/v1/journal/undo", { label });
    toast("The run is undone. What it read is new again.");
    onChange();
  };
  const label = (record) => record.labels.find((name) => name.startsWith("run="));
  const columns = [
    { key: "at", label: "Run", render: (record) => html`<${Time} at=${record.recorded_at} full />` },
    { key: "author", label: "By", render: (record) => html`<${Name} value=${record.author || "owner"} />` },
    { key: "origin", label: "", render: (record) => (record.origin === "undo" ? html`<${Badge}>undone<//>` : null) },
    { key: "undo", label: "", align: "end", render: (record) => (record.origin !== "undo" && caller.mayWrite(scope) && label(record) ? html`<${Button} kind="quiet" onClick=${() => take(label(record))}>Undo this run<//>` : null) },
  ];
  return html`<${Card} title="Earlier runs" flush>
    <${Load} state=${state} lines=${2}>${(data) => html`<${Table} label="Earlier runs" columns=${columns} rows=${[...data.versions].reverse()} rowKey=${(record) => record.version} pageSize=${6} />`}<//>
  <//>`;
}

function Knowledge() {
  const [query, setQuery] = useQuery();
  const kinds = query.kind ? [query.kind] : ["pattern", "antipattern"];
  const pages = usePages(records, { kind: kinds, limit: 30 }, "records");
  return html`<${Card} title="Patterns and anti-patterns" note="newest first" action=${html`<${Select} label="Show" value=${query.kind || ""} onChange=${(value) => setQuery({ kind: value })} options=${[["", "both"], ["pattern", "what works"], ["antipattern", "what fails"]]} />`}>
    <${Load} state=${pages} lines=${6}>
      ${(rows) => rows.length
        ? html`<ul class="proposals">${rows.map((record) => html`<${KnowledgeItem} key=${record.seq} record=${record} />`)}</ul>${pages.more && html`<${Button} kind="quiet" onClick=${pages.more}>Show older ones<//>`}`
        : html`<${Empty} title="Nothing was learned yet.">Patterns come from episodes: record some, then review the consolidation. <code>memory.knowledge.add_pattern("…")</code> adds one by hand.<//>`}
    <//>
  <//>`;
}

function KnowledgeItem({ record }) {
  const { body } = record;
  const isPattern = record.kind === "pattern";
  const sources = body.source_episodes || body.sources || [];
  return html`<li class="proposal">
    <div class="row"><${Kind} kind=${record.kind} /><${RecordLink} scope=${record.scope} kind=${record.kind} id=${record.id} />${body.category && html`<${Badge}><${Name} value=${body.category} /><//>`}<span class="muted push"><${Time} at=${record.recorded_at} /></span></div>
    <p><${Text} value=${isPattern ? body.pattern : body.what_fails} max=${400} /></p>
    <dl class="facts">
      ${isPattern && body.correct_approach && html`<dt>Do</dt><dd><${Text} value=${body.correct_approach} max=${300} kind="small" /></dd>`}
      ${!isPattern && body.why && html`<dt>Why</dt><dd><${Text} value=${body.why} max=${300} kind="small" /></dd>`}
      ${!isPattern && body.prevention && html`<dt>Instead</dt><dd><${Text} value=${body.prevention} max=${300} kind="small" /></dd>`}
      <dt>Support</dt><dd class="muted">${body.confidence !== undefined ? `confidence ${formatNumber(body.confidence, 2)}` : "stated by hand"}${body.voices ? `, ${formatCount(body.voices, "author")}` : ""}${sources.length ? `, ${formatCount(sources.length, "episode")}` : ""}${body.usage_count ? `, used ${formatCount(body.usage_count, "time")}` : ""}</dd>
    </dl>
  </li>`;
}

const OUTCOMES = { success: "good", failure: "bad", partial: "warn" };

function EpisodeList() {
  const [query, setQuery] = useQuery();
  const label = [...(query.outcome ? [`outcome=${query.outcome}`] : [])];
  const pages = usePages(records, { kind: "episode", label, limit: 50 }, "records");
  const columns = [
    { key: "goal", label: "Goal", wide: true, render: (record) => html`<${Text} value=${record.body.context?.goal || record.text} max=${120} links=${false} kind="small" />` },
    { key: "outcome", label: "Outcome", render: (record) => html`<${Badge} tone=${OUTCOMES[record.body.outcome]}><${Name} value=${record.body.outcome || "running"} /><//>` },
    { key: "agent", label: "Agent", render: (record) => html`<${Name} value=${record.body.agent || record.author} />` },
    { key: "task", label: "Task", narrow: false, render: (record) => html`<${Name} value=${record.body.task_id} max=${24} />` },
    { key: "steps", label: "Steps", align: "end", narrow: false, render: (record) => formatNumber(record.body.action_log?.length ?? 0) },
    { key: "time", label: "Took", align: "end", narrow: false, render: (record) => formatSeconds(record.body.duration_seconds ?? null) },
    { key: "at", label: "When", align: "end", render: (record) => html`<${Time} at=${record.happened_at || record.recorded_at} />` },
  ];
  const empty = html`<${Empty} title=${query.outcome ? "No episode ended like this." : "No episodes yet."}>An agent records one with <code>memory.episodes.record("goal", outcome="success")</code>.<//>`;
  return html`<${Card} title="Episodes" note="newest first" flush action=${html`<${Select} label="Outcome" value=${query.outcome || ""} onChange=${(value) => setQuery({ outcome: value })} options=${[["", "any"], ["success", "success"], ["failure", "failure"], ["partial", "partial"]]} />`}>
    <${Load} state=${pages} lines=${8}>${(rows) => html`<${Table} label="Episodes" columns=${columns} rows=${rows} rowKey=${(record) => record.seq} href=${recordHref} more=${pages.more} loading=${pages.loading} empty=${empty} />`}<//>
  <//>`;
}

function Skills() {
  const state = useApi("/v1/skills");
  const columns = [
    { key: "title", label: "Skill", wide: true, render: (skill) => html`<${Name} value=${skill.title} max=${100} />` },
    { key: "steps", label: "Steps", align: "end", render: (skill) => formatNumber(skill.steps?.length ?? 0) },
    { key: "rate", label: "Succeeded", align: "end", render: (skill) => (skill.success_rate === null ? html`<span class="muted">not used</span>` : formatPercent(skill.success_rate)) },
    { key: "version", label: "Version", align: "end", render: (skill) => skill.version },
  ];
  const empty = html`<${Empty} title="No skills yet.">A skill is a procedure in Markdown: <code>lukasa skill add FILE</code>, or let a consolidation write it with <code>--skills</code>.<//>`;
  return html`<${Card} title="Skills" flush><${Load} state=${state} lines=${4}>${(data) => html`<${Table} label="Skills" columns=${columns} rows=${data.skills} rowKey=${(skill) => skill.scope + skill.id} href=${(skill) => recordHref({ scope: skill.scope, kind: "skill", id: skill.id })} empty=${empty} />`}<//><//>`;
}

function Work({ state }) {
  const tasks = useApi("/v1/metrics/efficiency", { days: 28 });
  const columns = [
    { key: "task", label: "Task", wide: true, render: (task) => html`<${Name} value=${task.task} max=${60} />` },
    { key: "agents", label: "Agents", render: (task) => html`<${Name} value=${task.agents.join(", ")} />` },
    { key: "attempts", label: "Attempts", align: "end", sort: true },
    { key: "seconds", label: "Took", align: "end", render: (task) => formatSeconds(task.seconds), sort: true },
    { key: "succeeded", label: "", render: (task) => html`<${Badge} tone=${task.succeeded ? "good" : "bad"}>${task.succeeded ? "done" : "not done"}<//>` },
  ];
  return html`<div class="stack">
    <${Card} title="Episodes by day" note="28 days"><${Load} state=${state} height=${220}>
      ${(data) => html`<${Chart} label="Episodes by day" x=${data.days.map((day) => Date.parse(`${day.day}T12:00:00Z`) / 1000)} series=${[{ label: "succeeded", values: data.days.map((day) => day.succeeded), kind: "bars", tone: 1 }, { label: "failed", values: data.days.map((day) => day.failed), kind: "points", tone: 3 }]} />`}
    <//><//>
    <${Card} title="Tasks" note="28 days" flush><${Load} state=${tasks} lines=${5}>${(data) => html`<${Table} label="Tasks" columns=${columns} rows=${data.tasks} rowKey=${(task) => task.task} pageSize=${20} empty=${html`<${Empty} title="No finished tasks.">Name the task of an episode: <code>task_id="…"</code>.<//>`} />`}<//><//>
  </div>`;
}
