// Agents and hub: who was heard and when, what waits in their inboxes, and the work handed from one to another.
import { html, useState } from "../lib/html.js";
import { path as join, post, useApi, useCaller } from "../lib/api.js";
import { Link, useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, formatNumber, formatPercent, Time } from "../lib/time.js";
import { Badge, Button, Card, Dialog, Empty, Field, Load, Page as Frame, Stat, Table, Tabs, toast } from "../lib/ui.js";

export const title = "Agents";
export const path = "/agents";

export function Page() {
  const [query] = useQuery();
  return query.agent ? html`<${Agent} key=${query.agent} agent=${query.agent} />` : html`<${All} />`;
}

const later = (a, b) => (!a || (b && b > a) ? b : a);

function All() {
  const agents = useApi("/v1/dashboard/agents");
  const handoffs = useApi("/v1/handoffs");
  const rows = agents.data?.agents || [];
  const sum = (name) => rows.reduce((total, row) => total + (row[name] || 0), 0);
  const columns = [
    { key: "agent", label: "Agent", render: (row) => html`<${Name} value=${row.agent} max=${40} />`, sort: (row) => row.agent },
    { key: "task", label: "Works on", wide: true, narrow: false, render: (row) => (row.task ? html`<${Text} value=${row.task} max=${100} links=${false} kind="small" />` : html`<span class="muted">–</span>`) },
    { key: "seen", label: "Last heard", render: (row) => html`<${Time} at=${later(row.heard_at, row.wrote_at)} />`, sort: (row) => later(row.heard_at, row.wrote_at) || "" },
    { key: "waiting", label: "Signals", align: "end", render: (row) => waiting(row.waiting, agents.data.max_waiting), sort: (row) => row.waiting ?? -1 },
    { key: "handoffs", label: "Handoffs", align: "end", render: (row) => waiting(row.handoffs), sort: (row) => row.handoffs ?? -1 },
    { key: "trust", label: "Trust", align: "end", narrow: false, render: (row) => (row.quarantined ? html`<${Badge} tone="bad">in quarantine<//>` : row.trust ? formatNumber(row.trust.trust_score, 2) : html`<span class="muted">–</span>`), sort: (row) => row.trust?.trust_score ?? -1 },
  ];
  const empty = html`<${Empty} title="No agent has written anything yet.">Make a token for one on the page <${Link} href="/operations">Operations<//>, or open the store with <code>lukasa.open(agent="ada")</code>.<//>`;
  return html`<${Frame} title="Agents and hub" lead="When each agent was last heard, and what is waiting for it." loading=${agents.loading && agents.data === null}>
    <div class="stats">
      <${Stat} label="Agents" value=${agents.data ? formatNumber(rows.length) : "–"} note="known to this store" />
      <${Stat} label="Signals waiting" value=${agents.data ? formatNumber(sum("waiting")) : "–"} tone=${sum("waiting") ? "warn" : ""} note="sent, but not taken yet" />
      <${Stat} label="Handoffs open" value=${handoffs.data ? formatNumber(handoffs.data.handoffs.length) : "–"} note="work that was handed over" />
    </div>
    <${Card} title="Agents" flush><${Load} state=${agents} lines=${5}>${() => html`<${Table} label="Agents" columns=${columns} rows=${rows} rowKey=${(row) => row.agent} href=${(row) => `/agents?${new URLSearchParams({ agent: row.agent })}`} empty=${empty} />`}<//><//>
    <${Card} title="Open handoffs" note="oldest first"><${Load} state=${handoffs} lines=${4}>${(data) => html`<${Handoffs} rows=${data.handoffs} onChange=${() => { handoffs.reload(); agents.reload(); }} />`}<//><//>
  <//>`;
}

function waiting(count, max) {
  if (count === null || count === undefined) return html`<span class="muted">–</span>`;
  return count ? html`<${Badge} tone="warn">${max && count >= max ? `${formatNumber(max)} or more` : formatNumber(count)}<//>` : html`<span class="muted">0</span>`;
}

function Agent({ agent }) {
  const [query, setQuery] = useQuery();
  const caller = useCaller();
  const own = caller.isOwner || caller.agent === agent;
  const base = join("/v1/agents", agent);
  const inbox = useApi(own ? `${base}/inbox` : null);
  const state = useApi(`${base}/state`);
  const received = useApi(own ? "/v1/handoffs" : null, { agent, completed: true });
  const sent = useApi(own ? "/v1/handoffs/sent" : null, { agent });
  const peers = useApi(`${base}/peers`);
  const tab = query.tab || "inbox";
  const tabs = [
    ...(own ? [{ key: "inbox", label: "Inbox", count: inbox.data?.signals.length }, { key: "handoffs", label: "Handoffs", count: received.data && sent.data ? received.data.handoffs.length + sent.data.handoffs.length : undefined }] : []),
    { key: "sent", label: "What it sent", count: state.data ? state.data.signal_history.length : undefined },
    { key: "peers", label: "Peers", count: peers.data?.peers.length },
  ];
  const shown = tabs.some((item) => item.key === tab) ? tab : tabs[0].key;
  const reload = () => {
    received.reload();
    sent.reload();
  };
  return html`<${Frame} title=${agent} lead="What waits for this agent, and what it has sent." loading=${state.loading && state.data === null} actions=${html`<${Link} class="button" href="/agents">All agents<//>${caller.isOwner && html`<${Link} class="button" href=${`/trust?${new URLSearchParams({ agent })}`}>Trust<//>`}`}>
    <${Tabs} label="Parts of an agent" value=${shown} onChange=${(value) => setQuery({ tab: value })} tabs=${tabs}>
      ${shown === "inbox" && html`<${Card} title="Signals waiting" note="oldest first" flush><${Load} state=${inbox} lines=${4}>${(data) => html`<${Signals} rows=${data.signals} base=${base} mayTake=${caller.agent === agent && caller.canWrite} onChange=${inbox.reload} />`}<//><//>`}
      ${shown === "handoffs" && html`<div class="stack"><${Card} title="Handed to this agent"><${Load} state=${received} lines=${4}>${(data) => html`<${Handoffs} rows=${data.handoffs} onChange=${reload} />`}<//><//><${Card} title="Handed over by it"><${Load} state=${sent} lines=${4}>${(data) => html`<${Handoffs} rows=${data.handoffs} onChange=${reload} />`}<//><//></div>`}
      ${shown === "sent" && html`<${Card} title="Signals it sent" note="newest first" flush><${Load} state=${state} lines=${4}>${(data) => html`<${Signals} rows=${[...data.signal_history].reverse()} sent />`}<//><//>`}
      ${shown === "peers" && html`<${Card} title="Agents it can hear" flush><${Load} state=${peers} lines=${4}>${(data) => html`<${Table} label="Peers" rows=${data.peers} rowKey=${(peer) => peer.agent_id} href=${(peer) => `/agents?${new URLSearchParams({ agent: peer.agent_id })}`} empty=${html`<${Empty} title="Nobody has sent anything on this hub yet." />`} columns=${[{ key: "agent_id", label: "Agent", wide: true, render: (peer) => html`<${Name} value=${peer.agent_id} />` }, { key: "at", label: "Last sent", render: (peer) => html`<${Time} at=${peer.last_interaction} />` }, { key: "trust", label: "Trust", align: "end", render: (peer) => (peer.trust === null ? html`<span class="muted">not judged</span>` : formatNumber(peer.trust, 2)) }]} />`}<//><//>`}
    <//>
  <//>`;
}

function Signals({ rows, base, sent = false, mayTake = false, onChange }) {
  const take = async (signal) => {
    await post(`${base}/acknowledgements`, { sender: signal.agent_id, signal_id: signal.signal_id });
    toast("Taken.");
    onChange();
  };
  const columns = [
    { key: "what", label: "About", wide: true, render: (signal) => html`<${Name} value=${signal.market_id || signal.prediction_id || signal.signal_id} max=${60} />` },
    ...(sent ? [] : [{ key: "from", label: "From", render: (signal) => html`<${Name} value=${signal.agent_id} />` }]),
    { key: "prediction", label: "Says", align: "end", render: (signal) => (typeof signal.prediction === "number" ? formatPercent(signal.prediction) : html`<${Text} value=${signal.prediction} max=${40} links=${false} kind="mono" />`) },
    { key: "confidence", label: "Confidence", align: "end", narrow: false, render: (signal) => (typeof signal.confidence === "number" ? formatPercent(signal.confidence) : "–") },
    { key: "at", label: "Sent", align: "end", render: (signal) => html`<${Time} at=${typeof signal.timestamp === "string" ? signal.timestamp : null} />` },
    ...(mayTake ? [{ key: "take", label: "", align: "end", render: (signal) => html`<${Button} kind="quiet" onClick=${() => take(signal)}>Take<//>` }] : []),
  ];
  const empty = sent
    ? html`<${Empty} title="It has sent no signals.">An agent sends a prediction to the others with <code>memory.forecasts.signal("prediction-id")</code>.<//>`
    : html`<${Empty} title="The inbox is empty.">Everything that was sent has been taken. An agent takes its signals with <code>memory.forecasts.receive()</code>.<//>`;
  return html`<${Table} label="Signals" columns=${columns} rows=${rows} rowKey=${(signal) => `${signal.agent_id}/${signal.signal_id}`} pageSize=${25} empty=${empty} />`;
}

const STATUS = { unread: "warn", read: "info", accepted: "info", completed: "good" };

function Handoffs({ rows, onChange }) {
  const caller = useCaller();
  const [chosen, setChosen] = useState(null);
  if (!rows.length) return html`<${Empty} title="No handoffs.">An agent hands work over with <code>memory.handoffs.create("ben", "what was done", …)</code>. It waits until it is completed, even if either agent dies.<//>`;
  const act = async (handoff, verb, body, said) => {
    await post(join("/v1/handoffs", handoff.id) + `/${verb}`, body);
    toast(said, verb === "acceptance" ? { undo: async () => { await post(join("/v1/handoffs", handoff.id) + "/reopening"); onChange(); } } : {});
    setChosen(null);
    onChange();
  };
  return html`<ul class="proposals">
    ${rows.map((handoff) => {
      const mine = caller.canWrite && (caller.isOwner || caller.agent === handoff.to_agent);
      const { context } = handoff;
      return html`<li class="proposal" key=${handoff.id}>
        <div class="row"><strong><${Name} value=${handoff.from_agent} /> → <${Name} value=${handoff.to_agent} /></strong><${Badge} tone=${STATUS[handoff.status]}>${handoff.status}<//><span class="muted push"><${Time} at=${handoff.timestamp} /></span></div>
        <p><${Text} value=${context.what_was_done} max=${400} /></p>
        <dl class="facts">
          ${context.needs_testing?.length > 0 && html`<dt>To test</dt><dd><${Text} value=${context.needs_testing.join("; ")} max=${300} kind="small" /></dd>`}
          ${context.known_issues?.length > 0 && html`<dt>Known issues</dt><dd><${Text} value=${context.known_issues.join("; ")} max=${300} kind="small" /></dd>`}
          ${context.artifacts?.length > 0 && html`<dt>Files</dt><dd><${Text} value=${context.artifacts.join(", ")} max=${300} kind="mono" /></dd>`}
          ${handoff.result && html`<dt>Result</dt><dd><${Text} value=${handoff.result} max=${300} kind="small" /></dd>`}
        </dl>
        ${mine && handoff.status !== "completed" && html`<div class="row">
          ${handoff.status === "accepted" ? html`<${Button} onClick=${() => setChosen({ handoff, verb: "completion" })}>Complete<//>` : html`<${Button} onClick=${() => act(handoff, "acceptance", undefined, "Accepted.")}>Accept<//>`}
          <${Button} kind="quiet" onClick=${() => setChosen({ handoff, verb: "reassignment" })}>Give to another agent<//>
        </div>`}
      </li>`;
    })}
    ${chosen && html`<${Change} ...${chosen} onClose=${() => setChosen(null)} act=${act} />`}
  </ul>`;
}

function Change({ handoff, verb, onClose, act }) {
  const [text, setText] = useState("");
  const completes = verb === "completion";
  const save = () => act(handoff, verb, completes ? { result: text } : { to_agent: text.trim() }, completes ? "Completed." : "Given to another agent.");
  return html`<${Dialog} title=${completes ? "Complete a handoff" : "Give a handoff to another agent"} onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" disabled=${!completes && !text.trim()} onClick=${save}>${completes ? "Complete" : "Give"}<//>`}>
    <${Field} label=${completes ? "What came of it" : "Name of the agent"}>${(id) => html`<input id=${id} value=${text} maxlength=${completes ? 2000 : 100} onInput=${(event) => setText(event.target.value)} />`}<//>
  <//>`;
}
