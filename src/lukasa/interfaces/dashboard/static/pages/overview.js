// Overview: is everything well, how much is there, what changed since the last visit.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { post, useApi, useCaller } from "../lib/api.js";
import { Link } from "../lib/router.js";
import { RecordLine } from "../lib/records.js";
import { formatCount, formatNumber, formatSeconds, Time, zone } from "../lib/time.js";
import { Badge, Bars, Button, Card, Chart, Empty, kindLabel, kindTone, Load, Page as Frame, Stat, toast } from "../lib/ui.js";

export const title = "Overview";
export const path = "/";

const VISIT = "lukasa.visit"; // {position, at} of the last visit in this browser
const MAX_SERIES = 5;

function readVisit() {
  try {
    return JSON.parse(localStorage.getItem(VISIT)) || null;
  } catch {
    return null;
  }
}

// Sums of writes by day for the commonest kinds and the rest, stacked by adding.
function toSeries(writes) {
  const totals = {};
  for (const row of writes.rows) for (const [kind, count] of Object.entries(row.kinds)) totals[kind] = (totals[kind] || 0) + count;
  const kinds = Object.keys(totals).sort((a, b) => totals[b] - totals[a]).slice(0, MAX_SERIES);
  const step = writes.unit === "hour" ? 3600 : 86_400;
  const byTime = new Map(writes.rows.map((row) => [Math.round(Date.parse(row.at) / 1000), row.kinds]));
  const starts = [...byTime.keys()];
  const x = [];
  for (let at = starts[0]; at <= starts.at(-1); at += step) x.push(starts.find((start) => Math.abs(start - at) < step / 2) ?? at);
  const sum = (row) => Object.values(row || {}).reduce((all, count) => all + count, 0);
  return { x, all: x.map((at) => sum(byTime.get(at))), kinds: kinds.map((kind) => ({ kind, total: totals[kind] })) };
}

export function Page() {
  const caller = useCaller();
  const [visit] = useState(readVisit);
  const state = useApi("/v1/overview", { zone, since: visit?.position });
  const jobs = useApi(caller.isOwner ? "/v1/jobs/status" : null);
  const data = state.data;
  useEffect(() => {
    if (!data) return undefined;
    const note = () => localStorage.setItem(VISIT, JSON.stringify({ position: data.position, at: new Date().toISOString() }));
    const timer = setTimeout(note, 4000); // a glance does not count as a visit
    return () => clearTimeout(timer);
  }, [data?.position]);
  return html`<${Frame} title="Overview" loading=${state.data === null && !state.error} lead=${visit && data?.new ? html`${data.new.count ? html`<strong>${data.new.count >= 1000 ? "1,000 or more" : formatNumber(data.new.count)}</strong> ${data.new.count === 1 ? "write" : "writes"}` : "Nothing was written"} since your last visit <${Time} at=${visit.at} />.` : "What is stored, what is new, and whether all is well."}>
    <${Figures} data=${data} jobs=${jobs.data} error=${state.error} />
    <${Load} state=${state} height=${300}>
      ${(found) => html`<div class="columns">
        <div class="stack">
          <${Writes} writes=${found.writes} />
          <${Card} title="What is new" flush>
            ${found.latest.length
              ? html`<ul class="record-list">${found.latest.map((record) => html`<${RecordLine} key=${record.seq} record=${record} isNew=${visit && record.seq > visit.position} />`)}</ul>`
              : html`<${Empty} title="Nothing is remembered yet.">Connect an agent with <code>lukasa install</code>, or write a first memory: <code>lukasa remember "…"</code><//>`}
          <//>
        </div>
        <div class="stack">
          <${Health} data=${found} jobs=${jobs.data} />
          <${Card} title="By kind">
            ${found.kinds.length ? html`<${Bars} label="Records by kind" items=${found.kinds.slice(0, 10).map((row) => ({ label: html`<span class="kind"><i class=${`bead tone-${kindTone(row.name)}`}></i>${kindLabel(row.name)}</span>`, value: row.count }))} />` : html`<${Empty} title="No records." />`}
          <//>
          <${Card} title="Refused by the gate" action=${html`<${Link} href="/memories?view=refusals">All codes<//>`}>
            ${found.refusals.length ? html`<${Bars} label="Refusals by code" items=${found.refusals.slice(0, 6).map((row) => ({ label: row.name.replaceAll("_", " "), value: row.count, tone: "warn" }))} />` : html`<p class="muted">Nothing was refused so far.</p>`}
          <//>
        </div>
      </div>`}
    <//>
  <//>`;
}

function Figures({ data, jobs, error }) {
  if (error) return null;
  const memories = data?.kinds.find((row) => row.name === "memory")?.count ?? 0;
  const recalls = data?.recalls;
  const wait = "…";
  return html`<div class="stats">
    <${Stat} label="Memories" value=${data ? formatNumber(memories) : wait} href="/memories" note="curated facts" />
    <${Stat} label="All records" value=${data ? formatNumber(data.records) : wait} note=${data && `${formatCount(data.versions, "version")} in the log`} />
    <${Stat} label="Scopes" value=${data ? formatNumber(data.scopes.length) : wait} note=${data?.scopes.slice(0, 3).map((row) => row.name).join(", ")} />
    <${Stat} label="Recalls over HTTP" value=${data ? formatNumber(recalls.count) : wait} note=${recalls?.mean_seconds ? `${formatSeconds(recalls.mean_seconds)} on average` : "since the server started"} href="/recall" />
    ${jobs && html`<${Stat} label="Jobs waiting" value=${formatNumber(jobs.waiting)} note=${jobs.failed ? `${jobs.failed} failed` : "none failed"} tone=${jobs.failed ? "bad" : ""} href="/operations" />`}
  </div>`;
}

function Writes({ writes }) {
  const series = useMemo(() => toSeries(writes), [JSON.stringify(writes)]);
  const unit = writes.unit === "hour" ? "hour" : "day";
  return html`<${Card} title=${`Writes by ${unit}`} note=${writes.complete ? `${formatCount(writes.counted, "write")} in all` : `the newest ${formatNumber(writes.counted)}; the first ${unit} in part`}>
    ${writes.rows.length ? html`<${Chart} label=${`Writes by ${unit}`} x=${series.x} series=${[{ label: "Writes", values: series.all, kind: "bars", tone: 1 }]} height=${200} step=${unit === "hour" ? 3600 : 86_400} xLabel=${unit === "hour" ? "Hour" : "Day"} />` : html`<${Empty} title="Nothing was written yet." />`}
    ${series.kinds.length > 1 && html`<p class="legend">Mostly ${series.kinds.map((item, i) => html`${i ? ", " : ""}<span class="kind"><i class=${`bead tone-${kindTone(item.kind)}`} aria-hidden="true"></i>${kindLabel(item.kind)} (${formatNumber(item.total)})</span>`)}.</p>`}
  <//>`;
}

function Health({ data, jobs }) {
  const caller = useCaller();
  const [report, setReport] = useState(() => JSON.parse(localStorage.getItem("lukasa.verified") || "null"));
  const verify = async () => {
    try {
      const found = await post("/v1/journal/verification", undefined, { key: false });
      const kept = { at: new Date().toISOString(), sound: found.sound, versions: found.versions, findings: found.findings.length };
      localStorage.setItem("lukasa.verified", JSON.stringify(kept));
      setReport(kept);
      toast(found.sound ? "Every entry and every index is sound." : `${found.findings.length} problems were found; run lukasa doctor.`, { tone: found.sound ? "" : "bad" });
    } catch (problem) {
      toast(problem);
    }
  };
  const rows = [
    ["Server", html`<${Badge} tone="good">running<//>`],
    ["Store", data.damaged ? html`<${Badge} tone="bad">${formatCount(data.damaged, "damaged entry", "damaged entries")}<//>` : html`<${Badge} tone="good">no damage found<//>`],
    caller.isOwner && ["Last check", report ? html`<${Time} at=${report.at} />, ${report.sound ? html`${formatCount(report.versions, "version")} sound` : html`<${Badge} tone="bad">${report.findings} problems<//>`}` : "never checked"],
    data.quarantines !== null && ["Quarantine", data.quarantines ? html`<${Badge} tone="warn">${formatCount(data.quarantines, "author")} hidden<//>` : "nobody"],
    ["Proposals", data.proposals ? html`<${Link} href="/proposals">${data.proposals >= 100 ? "100 or more" : formatNumber(data.proposals)} open<//>` : "none open"],
    jobs && ["Jobs", jobs.failed ? html`<${Badge} tone="bad">${jobs.failed} failed<//>` : `${jobs.running} running, ${jobs.waiting} waiting`],
    data.first_at && ["First record", html`<${Time} at=${data.first_at} full />`],
  ].filter(Boolean);
  return html`<${Card} title="Health" action=${caller.isOwner && html`<${Button} kind="quiet" onClick=${verify}>Check now<//>`}>
    <dl class="facts">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
  <//>`;
}
