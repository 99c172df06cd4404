// Sessions and conversations: a list, and one time line each of turns, compactions, checkpoints and recoveries.
import { html, useMemo, useRef, useState } from "../lib/html.js";
import { get, path as join, post, useApi, useCaller } from "../lib/api.js";
import { Link, useQuery } from "../lib/router.js";
import { Name, showHidden, Text } from "../lib/text.js";
import { formatBytes, formatClock, formatCount, formatDay, Time } from "../lib/time.js";
import { Badge, Button, Card, Diff, Empty, Load, Notice, Page as Frame, Select, Skeleton, Table, Tabs, toast } from "../lib/ui.js";
import { asText, compareStates, usePages } from "../lib/parts.js";

export const title = "Sessions";
export const path = "/sessions";

export function Page() {
  const [query] = useQuery();
  return query.id ? html`<${Session} key=${`${query.scope}/${query.id}`} scope=${query.scope || "shared"} id=${query.id} />` : html`<${Sessions} />`;
}

const href = (row) => `/sessions?${new URLSearchParams({ scope: row.scope, id: row.id })}`;

function Sessions() {
  const [query, setQuery] = useQuery();
  const pages = usePages("/v1/dashboard/sessions", { limit: 50 }, "sessions");
  const what = query.what || "";
  const rows = (pages.rows || []).filter((row) => !what || row.what === what);
  const columns = [
    { key: "id", label: "Name", render: (row) => html`<${Name} value=${row.id} max=${40} />` },
    { key: "what", label: "Kind", render: (row) => html`<${Badge} tone=${row.what === "session" ? "info" : ""}>${row.what}<//>` },
    { key: "agent_id", label: "Agent", render: (row) => html`<${Name} value=${row.agent_id || "owner"} />`, sort: (row) => row.agent_id },
    { key: "text", label: "Last", wide: true, narrow: false, render: (row) => (row.what === "session" ? html`<span class="muted">checkpoint ${row.number}, ${row.status}</span>` : html`<${Text} value=${row.text} max=${110} links=${false} kind="small" />`) },
    { key: "at", label: "When", align: "end", render: (row) => html`<${Time} at=${row.at} />`, sort: (row) => row.at },
  ];
  const empty = html`<${Empty} title="No sessions and no conversations yet.">An agent begins one with <code>memory.sessions.start("name")</code> or <code>memory.context.append("name", "user", "…")</code>, or over MCP.<//>`;
  return html`<${Frame} title=${title} lead="What agents did and said, step by step. Open one to see its time line and its state at any point." loading=${pages.loading && pages.rows === null}
    actions=${html`<${Select} label="Show" value=${what} onChange=${(value) => setQuery({ what: value })} options=${[["", "everything"], ["session", "sessions"], ["conversation", "conversations"]]} />`}>
    <${Card} flush>
      <${Load} state=${pages} lines=${6}>${() => html`<${Table} label="Sessions and conversations" columns=${columns} rows=${rows} rowKey=${(row) => `${row.what}${row.scope}/${row.id}`} href=${href} more=${pages.more} loading=${pages.loading} empty=${empty} />`}<//>
    <//>
  <//>`;
}

function Session({ scope, id }) {
  const [query, setQuery] = useQuery();
  const pages = usePages(join("/v1/dashboard/timeline", scope, id), { limit: 60 }, "entries");
  const entries = pages.rows || [];
  const only = query.only || "";
  const shown = entries.filter((entry) => !only || GROUPS[only].includes(group(entry)));
  const at = Number(query.at) || (entries[0]?.seq ?? null);
  const isSession = entries.some((entry) => !["turn", "fact", "state", "compaction"].includes(entry.what));
  const isConversation = entries.some((entry) => entry.what === "turn");
  const kind = isSession && isConversation ? "Session and conversation" : isConversation ? "Conversation" : "Session";
  const lead = html`${kind} of <${Name} value=${scope} />. Choose a point to see the state as it was then, and what changed there.`;
  return html`<${Frame} title=${id} lead=${lead} loading=${pages.loading && pages.rows === null} actions=${html`<${Link} class="button" href="/sessions">All sessions<//>`}>
    <div class="split">
      <${Card} title="Time line" note="newest first" action=${html`<${Select} label="Show" value=${only} onChange=${(value) => setQuery({ only: value })} options=${[["", "everything"], ["said", "what was said"], ["saved", "checkpoints and recoveries"], ["changed", "changes of the state"]]} />`}>
        <${Load} state=${pages} lines=${8}>
          ${() => html`<${TimeLine} entries=${shown} at=${at} choose=${(seq) => setQuery({ at: seq })} />
            ${pages.more && html`<${Button} kind="quiet" onClick=${pages.more}>Show what came before<//>`}`}
        <//>
      <//>
      <div class="stack alongside">
        ${at !== null && html`<${StateAt} scope=${scope} id=${id} at=${at} entries=${entries} newest=${at === entries[0]?.seq} />`}
        ${isSession && html`<${Checkpoints} scope=${scope} id=${id} onRecovered=${pages.reload} />`}
      </div>
    </div>
  <//>`;
}

const GROUPS = { said: ["said"], saved: ["saved", "bad"], changed: ["changed"] };
const TONES = { said: "tone-2", saved: "tone-1", changed: "tone-7", bad: "tone-3" };

function group(entry) {
  if (["turn", "fact", "compaction"].includes(entry.what)) return "said";
  if (entry.what === "change" || entry.what === "state") return "changed";
  return entry.what === "incident" || (entry.what === "recovered" && entry.facts?.mode !== "normal") ? "bad" : "saved";
}

function TimeLine({ entries, at, choose }) {
  const list = useRef(null);
  if (!entries.length) return html`<${Empty} title="Nothing of this kind.">Show everything to see the rest.<//>`;
  const move = (event) => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || event.target.closest("input, select, textarea")) return;
    const points = [...list.current.querySelectorAll("button.point")];
    const to = points[points.indexOf(document.activeElement) + step];
    if (to) {
      event.preventDefault();
      to.focus();
    }
  };
  let day = "";
  return html`<ol class="timeline" ref=${list} onKeyDown=${move}>
    ${entries.map((entry) => {
      const today = formatDay(entry.at);
      const heading = today === day ? null : html`<li class="day" key=${`day-${today}`}>${today}</li>`;
      day = today;
      const isChosen = entry.seq === at;
      return html`${heading}<li key=${entry.seq} class=${`entry ${isChosen ? "chosen" : ""}`}>
        <i class=${`bead ${TONES[group(entry)]}`} aria-hidden="true"></i>
        <div class="entry-body"><${Entry} entry=${entry} /></div>
        <button type="button" class="point" aria-pressed=${isChosen} aria-label=${`State at ${formatClock(entry.at)}, ${entry.what}`} onClick=${() => choose(entry.seq)}>${formatClock(entry.at)}</button>
      </li>`;
    })}
  </ol>`;
}

function Entry({ entry }) {
  const facts = entry.facts || {};
  switch (entry.what) {
    case "turn":
      return html`<span class="entry-title"><${Name} value=${entry.role} /> <span class="muted">${formatCount(entry.tokens ?? 0, "token")}</span></span><${Text} value=${entry.text} max=${420} kind="small" />`;
    case "fact":
      return html`<span class="entry-title">${entry.deleted ? "Fact removed" : "Fact"}</span><${Text} value=${entry.text} kind="small" />`;
    case "compaction":
      return html`<span class="entry-title">Compaction ${entry.round}: ${formatCount(entry.folded, "turn")} in the summary</span> <span class="muted">by <${Name} value=${entry.by} /></span>
        <details><summary>The summary then</summary><${Text} value=${entry.text} max=${1200} kind="small" /></details>`;
    case "state":
      return html`<span class="entry-title">Tasks, counters or settings</span> <span class="muted">version ${entry.version}</span>`;
    case "change":
      return html`<ul class="changes">${entry.changes.map((change) => html`<li><code>${asText(change.path).slice(0, 80) || "the whole state"}</code> <span class="muted">${change.op === "remove" ? "removed" : change.value === undefined ? "replaced" : "is"}</span> ${change.value !== undefined && html`<${Text} value=${asText(change.value)} max=${100} kind="mono" />`}</li>`)}</ul>`;
    case "checkpoint":
      return html`<span class="entry-title">Checkpoint ${facts.number}</span>`;
    case "recovered":
      return html`<span class="entry-title">Recovered <${Badge} tone=${facts.lost?.length ? "bad" : "good"}>${facts.lost?.length ? `${formatCount(facts.lost.length, "change")} lost` : "nothing lost"}<//></span>
        <p class="muted">After: <${Name} value=${facts.mode} />. From ${asText(facts.used)}; ${formatCount(facts.replayed ?? 0, "change")} replayed.</p>`;
    case "incident":
      return html`<span class="entry-title">Incident</span><${Text} value=${entry.text || asText(facts)} kind="small" />
        ${(facts.damaged || []).map((file) => html`<p class="muted">Checkpoint ${file.number}: <${Name} value=${file.reason} max=${160} /></p>`)}`;
    case "archive":
      return html`<span class="entry-title">Moved to the archive: <${Name} value=${facts.section} /></span> <${Text} value=${entry.text} kind="small" />`;
    default:
      return html`<span class="entry-title"><${Name} value=${entry.what.replaceAll("_", " ")} /></span>${facts.number ? html` <span class="muted">checkpoint ${facts.number}</span>` : null}`;
  }
}

function StateAt({ scope, id, at, entries, newest }) {
  const [query, setQuery] = useQuery();
  const index = entries.findIndex((entry) => entry.seq === at);
  const earlier = index >= 0 ? entries[index + 1]?.seq : undefined;
  const address = join("/v1/dashboard/states", scope, id);
  const now = useApi(address, { at });
  const before = useApi(earlier === undefined ? null : address, { at: earlier });
  const moment = entries[index]?.at;
  const view = query.view || "changes";
  const pick = (state) => state.data && { ...(state.data.session || {}), ...(state.data.conversation ? { conversation: state.data.conversation } : {}) };
  const changes = useMemo(() => (now.data && (before.data || earlier === undefined) ? compareStates(pick(before), pick(now)) : null), [now.data, before.data, earlier]);
  const step = (by) => entries[index + by] && setQuery({ at: entries[index + by].seq });
  return html`<${Card} title=${newest ? "State now" : html`State at <${Time} at=${moment} full />`} action=${html`<div class="row tight">
      <${Button} kind="quiet" disabled=${index < 0 || index >= entries.length - 1} onClick=${() => step(1)} title="The point before">Earlier<//>
      <${Button} kind="quiet" disabled=${index <= 0} onClick=${() => step(-1)} title="The point after">Later<//></div>`}>
    <${Tabs} label="What to see of the state" value=${view} onChange=${(value) => setQuery({ view: value })} tabs=${[{ key: "changes", label: "What changed here", count: changes?.length }, { key: "state", label: "The whole state" }]}>
      <${Load} state=${now} lines=${6}>
        ${() => view === "state" ? html`<pre class="block" tabindex="0" aria-label="The state as JSON"><${Text} value=${JSON.stringify(pick(now), null, 1)} max=${6000} links=${true} kind="mono" /></pre>` : html`<${StateChanges} changes=${changes} before=${before} first=${earlier === undefined} />`}
      <//>
    <//>
  <//>`;
}

function StateChanges({ changes, before, first }) {
  if (before.error && before.error.status !== 404) return html`<${Notice} problem=${before.error} />`;
  if (changes === null) return html`<${Skeleton} lines=${4} />`;
  if (!changes.length) return html`<p class="muted">${first ? "This is the first point." : "The state did not change here."}</p>`;
  return html`<ul class="state-changes">
    ${changes.slice(0, 60).map((change) => html`<li>
      <code>${change.path.slice(0, 120)}</code>
      ${change.before === undefined ? html`<${Badge} tone="good">added<//> <${Text} value=${asText(change.after)} max=${300} kind="small" />` : change.after === undefined ? html`<${Badge} tone="bad">removed<//> <del><${Text} value=${asText(change.before)} max=${300} kind="small" /></del>` : asText(change.before).length + asText(change.after).length < 120 ? html`<${Badge} tone="info">changed<//> <del>${showHidden(asText(change.before))}</del> <span class="muted">to</span> ${showHidden(asText(change.after))}` : html`<${Badge} tone="info">changed<//> <${Diff} before=${asText(change.before).slice(0, 2000)} after=${asText(change.after).slice(0, 2000)} />`}
    </li>`)}
    ${changes.length > 60 && html`<li class="muted">and ${changes.length - 60} more; the whole state has them.</li>`}
  </ul>`;
}

function Checkpoints({ scope, id, onRecovered }) {
  const caller = useCaller();
  const base = join("/v1/sessions", id);
  const files = useApi(`${base}/checkpoints`, { scope });
  const [proof, setProof] = useState(null);
  const verify = async () => {
    setProof((await get(`${base}/verification`, { scope })).checkpoints);
  };
  const recover = async () => {
    const report = await post(`${base}/recovery`, { scope });
    toast(report.mode === "alive" ? "A running process has this session open; it was only read." : `Recovered: ${report.mode}, ${formatCount(report.replayed, "change")} replayed, ${formatCount(report.lost.length, "change")} lost.`);
    onRecovered();
    files.reload();
  };
  const fault = (entry) => proof?.find((item) => item.number === entry.number);
  const columns = [
    { key: "number", label: "Number", render: (entry) => entry.number },
    { key: "modified", label: "Saved", render: (entry) => html`<${Time} at=${entry.modified} />` },
    { key: "size", label: "Size", align: "end", render: (entry) => html`${formatBytes(entry.size)}${entry.compressed ? html` <span class="muted">gzip</span>` : null}` },
    ...(proof ? [{ key: "fault", label: "Proof", render: (entry) => (fault(entry)?.fault ? html`<${Badge} tone="bad" title=${fault(entry).fault}>damaged<//>` : html`<${Badge} tone="good">sound<//>`) }] : []),
  ];
  return html`<${Card} title="Checkpoint files" flush action=${html`<div class="row tight"><${Button} kind="quiet" onClick=${verify}>Verify<//>${caller.mayWrite(scope) && html`<${Button} kind="quiet" onClick=${recover}>Recover<//>`}</div>`}>
    <${Load} state=${files} lines=${3}>${(data) => html`<${Table} label="Checkpoint files" columns=${columns} rows=${data.checkpoints} rowKey=${(entry) => entry.number} pageSize=${8} empty=${html`<${Empty} title="No checkpoint files.">The log still has every checkpoint.<//>`} />`}<//>
  <//>`;
}
