// Operations: is the store sound, is it backed up, who may use it, what runs in the background, and how to take it along.
import { html, useState } from "../lib/html.js";
import { del, path as join, post, useApi, useCaller } from "../lib/api.js";
import { useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatBytes, formatCount, formatNumber, Time } from "../lib/time.js";
import { Badge, Button, Card, Copy, Dialog, Empty, Field, Load, Notice, Page as Frame, Table, Tabs, toast } from "../lib/ui.js";

export const title = "Operations";
export const path = "/operations";

export function Page() {
  const [query, setQuery] = useQuery();
  const caller = useCaller();
  const tabs = [
    ...(caller.isOwner ? [{ key: "health", label: "Health" }, { key: "backups", label: "Backups" }, { key: "tokens", label: "Tokens" }] : []),
    { key: "jobs", label: "Jobs" },
    { key: "export", label: "Export" },
  ];
  const tab = tabs.some((item) => item.key === query.tab) ? query.tab : tabs[0].key;
  const Part = { health: Health, backups: Backups, tokens: Tokens, jobs: Jobs, export: Export }[tab];
  return html`<${Frame} title=${title} lead=${caller.isOwner ? "Health, backups, tokens and background work of this store." : "Background work and export. Health, backups and tokens are for the owner of the store."}>
    <${Tabs} label="Parts of operations" value=${tab} onChange=${(value) => setQuery({ tab: value })} tabs=${tabs}><${Part} /><//>
  <//>`;
}

const CHECK_TONES = { fine: "good", note: "warn", wrong: "bad" };

function Health() {
  const caller = useCaller();
  const [doctor, setDoctor] = useState(null);
  const [problem, setProblem] = useState(null);
  const run = async () => {
    setProblem(null);
    try {
      setDoctor({ ...(await post("/v1/doctor")), at: new Date().toISOString() });
    } catch (error) {
      setProblem(error);
    }
  };
  const ready = useApi("/readyz");
  const stats = useApi("/v1/stats");
  const versions = stats.data?.records.reduce((sum, row) => sum + row.versions, 0);
  return html`<div class="stack">
    <${Card} title="Doctor" note=${doctor ? html`run <${Time} at=${doctor.at} />` : "verifies every entry of the log and every index; nothing is repaired"} action=${html`<${Button} kind="primary" onClick=${run}>Run the doctor<//>`}>
      <${Notice} problem=${problem} />
      ${doctor
        ? html`<p class="gap-below">${doctor.healthy ? html`<${Badge} tone="good">healthy<//>` : html`<${Badge} tone="bad">something is wrong<//>`} <span class="muted">${formatCount(doctor.versions, "version")} proved.</span></p>
            <ul class="checks">${doctor.checks.map((check) => html`<li><${Badge} tone=${CHECK_TONES[check.state]}>${check.state}<//><strong>${check.name}</strong><span><${Name} value=${check.said} max=${300} /></span></li>`)}</ul>
            ${!doctor.healthy && html`<${Notice} tone="warn" title="What to do">Run <code>lukasa doctor --repair</code> on the machine of the store. It rebuilds indexes and sets damaged records aside.<//>`}`
        : html`<${Empty} title="Not run since this page was opened.">It reads the whole log, so it takes a while on a large store.<//>`}
    <//>
    <${Card} title="Server">
      <dl class="facts">
        <dt>Store</dt><dd>${ready.error ? html`<${Badge} tone="bad">does not answer<//> <${Name} value=${ready.error.message} max=${200} />` : ready.data ? html`<${Badge} tone="good">answers<//>` : "…"}</dd>
        <dt>Versions</dt><dd>${formatNumber(versions ?? null)} <span class="muted">stored; the log is at position ${formatNumber(stats.data?.position ?? null)}</span></dd>
        <dt>Lukasa</dt><dd>${caller.version}</dd>
        <dt>For machines</dt><dd><a href="/metrics">metrics</a> for Prometheus, <a href="/healthz">health</a>, <a href="/openapi.json">description of the API</a></dd>
      </dl>
    <//>
  </div>`;
}

function Backups() {
  const state = useApi("/v1/backups");
  const backUp = async () => {
    const made = await post("/v1/backups", undefined, { key: false });
    toast(`Backup ${made.number} is made, read back and proved.`);
    state.reload();
  };
  const prove = async (backup) => {
    await post(join("/v1/backups", backup.number) + "/proof");
    toast(`Backup ${backup.number} was read and matches its manifest.`);
    state.reload();
  };
  const columns = [
    { key: "number", label: "Backup", render: (backup) => html`<strong>${backup.number}</strong>` },
    { key: "made", label: "Made", render: (backup) => html`<${Time} at=${backup.made_at} />` },
    { key: "proved", label: "Last proved", render: (backup) => html`<${Time} at=${backup.proved_at} />` },
    { key: "versions", label: "Versions", align: "end", narrow: false, render: (backup) => formatNumber(backup.facts.versions) },
    { key: "bytes", label: "Size", align: "end", narrow: false, render: (backup) => html`${formatBytes(backup.bytes)}${backup.encrypted ? html` <${Badge} tone="good">encrypted<//>` : null}` },
    { key: "damaged", label: "", render: (backup) => (backup.facts.damaged?.length ? html`<${Badge} tone="bad">${formatCount(backup.facts.damaged.length, "damaged record")}<//>` : null) },
    { key: "prove", label: "", align: "end", render: (backup) => html`<${Button} kind="quiet" onClick=${() => prove(backup)}>Prove<//>` },
  ];
  if (state.data?.has_place === false) return html`<${Card} title="Backups"><${Empty} title="The server has no place for backups.">Start it with <code>lukasa serve --backups file:///srv/backups</code>, or back up by hand: <code>lukasa backup file:///srv/backups</code>.<//><//>`;
  return html`<${Card} title="Backups" flush note="each is read back and compared when it is made" action=${html`<${Button} kind="primary" onClick=${backUp}>Back up now<//>`}>
    <${Load} state=${state} lines=${4}>${(data) => html`<${Table} label="Backups" columns=${columns} rows=${[...data.backups].reverse()} rowKey=${(backup) => backup.number} pageSize=${15} empty=${html`<${Empty} title="No backup yet.">Make the first one now. <code>lukasa restore</code> brings a store back from it.<//>`} />`}<//>
  <//>`;
}

const ACCESS = { owner: ["warn", "owner"], write: ["info", "read and write"], read: ["", "read only"] };

function Tokens() {
  const caller = useCaller();
  const state = useApi("/v1/tokens");
  const [dialog, setDialog] = useState(null); // "new", a token to revoke, or {secret}
  const columns = [
    { key: "name", label: "Token", wide: true, render: (token) => html`<strong><${Name} value=${token.name} max=${50} /></strong>${token.name === caller.token ? html` <${Badge} tone="good">this one<//>` : null}${token.agent ? html`<span class="narrow-only muted">as <${Name} value=${token.agent} /></span>` : null}` },
    { key: "access", label: "May", render: (token) => html`<${Badge} tone=${ACCESS[token.access][0]}>${ACCESS[token.access][1]}<//>` },
    { key: "agent", label: "As", narrow: false, render: (token) => (token.agent ? html`<${Name} value=${token.agent} />` : html`<span class="muted">${token.scopes ? "" : "the owner"}</span>`) },
    { key: "scopes", label: "Scopes", narrow: false, render: (token) => (token.scopes ? html`<${Name} value=${token.scopes.join(", ")} />` : html`<span class="muted">${token.agent ? "shared, own" : "all"}</span>`) },
    { key: "expires", label: "Ends", narrow: false, render: (token) => (token.expires_at ? html`<${Time} at=${token.expires_at} />` : html`<span class="muted">never</span>`), sort: (token) => token.expires_at || "9" },
    { key: "used", label: "Last used", narrow: false, render: (token) => html`<${Time} at=${token.last_used} />`, sort: (token) => token.last_used || "" },
    { key: "revoke", label: "", align: "end", render: (token) => html`<${Button} kind="quiet" aria-label=${`Revoke ${token.name}`} onClick=${() => setDialog({ token })}>Revoke<//>` },
  ];
  return html`<${Card} title="Tokens" flush note="the secrets are not stored" action=${html`<${Button} kind="primary" onClick=${() => setDialog("new")}>Make a token<//>`}>
    <${Load} state=${state} lines=${4}>${(data) => html`<${Table} label="Tokens" columns=${columns} rows=${data.tokens} rowKey=${(token) => token.name} pageSize=${25} />`}<//>
    ${dialog === "new" && html`<${NewToken} onClose=${() => setDialog(null)} onMade=${(secret) => { setDialog({ secret }); state.reload(); }} />`}
    ${dialog?.secret && html`<${Secret} made=${dialog.secret} onClose=${() => setDialog(null)} />`}
    ${dialog?.token && html`<${Revoke} token=${dialog.token} isOwn=${dialog.token.name === caller.token} onClose=${() => setDialog(null)} onDone=${() => { setDialog(null); state.reload(); }} />`}
  <//>`;
}

function NewToken({ onClose, onMade }) {
  const [fields, setFields] = useState({ name: "", agent: "", scopes: "", read_only: false, owner: false, days: "90" });
  const [problem, setProblem] = useState(null);
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const scopes = fields.scopes.split(",").map((scope) => scope.trim()).filter(Boolean);
  const isNamed = fields.agent.trim() || scopes.length;
  const make = async (event) => {
    event?.preventDefault();
    setProblem(null);
    const body = { name: fields.name.trim(), agent: fields.agent.trim(), read_only: fields.read_only, owner: fields.owner && !isNamed };
    if (scopes.length) body.scopes = scopes;
    if (fields.days) body.expires_at = new Date(Date.now() + Number(fields.days) * 86_400_000).toISOString();
    try {
      onMade(await post("/v1/tokens", body, { key: false }));
    } catch (error) {
      setProblem(error);
    }
  };
  const input = (name, id, more = {}) => html`<input id=${id} value=${fields[name]} onInput=${set(name)} autocomplete="off" maxlength="100" ...${more} />`;
  return html`<${Dialog} title="Make a token" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" disabled=${!fields.name.trim() || !(isNamed || fields.owner)} onClick=${make}>Make the token<//>`}>
    <form onSubmit=${make} class="stack">
      <${Field} label="Name" hint="To recognise it later, such as the machine that uses it.">${(id) => input("name", id)}<//>
      <${Field} label="Agent" hint="Whom the token stands for. Its writes carry this name.">${(id) => input("agent", id)}<//>
      <${Field} label="Scopes" hint="Separated by commas. Without any: the shared scope and the agent's own.">${(id) => input("scopes", id, { maxlength: 1000 })}<//>
      <label class="check"><input type="checkbox" checked=${fields.read_only} onChange=${set("read_only")} /> May only read</label>
      <${Field} label="Ends after">${(id) => html`<select id=${id} value=${fields.days} onChange=${set("days")}>${[["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"], ["", "never"]].map(([key, text]) => html`<option value=${key} selected=${key === fields.days}>${text}</option>`)}</select>`}<//>
      ${!isNamed && html`<label class="check"><input type="checkbox" checked=${fields.owner} onChange=${set("owner")} /> The rights of the owner: read, change and erase everything</label>`}
      <${Notice} problem=${problem} /><button type="submit" hidden></button>
    </form>
  <//>`;
}

function Secret({ made, onClose }) {
  return html`<${Dialog} title="The new token" onClose=${onClose} actions=${html`<${Copy} text=${made.token} label="Copy the token" /><${Button} kind="primary" onClick=${onClose}>I have stored it<//>`}>
    <p>This is the only time that the token is shown. The server keeps a hash of it alone.</p>
    <p class="block secret" tabindex="0">${made.token}</p>
    <p class="muted">A program sends it as <code>Authorization: Bearer …</code>; a person signs in to this dashboard with it.</p>
  <//>`;
}

function Revoke({ token, isOwn, onClose, onDone }) {
  const [problem, setProblem] = useState(null);
  const revoke = async () => {
    try {
      await del(join("/v1/tokens", token.name), {}, { key: false });
      toast(`${token.name.slice(0, 60)} is revoked.`);
      onDone();
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<${Dialog} title="Revoke a token" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Keep it<//><${Button} kind="danger" onClick=${revoke}>Revoke<//>`}>
    <p>From the next request on, every server refuses <strong><${Name} value=${token.name} /></strong>, and its open streams end. This cannot be taken back; a new token can be made.</p>
    ${isOwn && html`<${Notice} tone="warn" title="You are signed in with this token.">You will have to sign in with another one.<//>`} <${Notice} problem=${problem} />
  <//>`;
}

const JOB_TONES = { waiting: "", running: "info", failed: "bad" };

function Jobs() {
  const caller = useCaller();
  const state = useApi("/v1/jobs");
  const act = async (job, verb, said) => {
    if (verb === "drop") await del(join("/v1/jobs", job.id));
    else await post(join("/v1/jobs", job.id) + "/retry");
    toast(said);
    state.reload();
  };
  const columns = [
    { key: "name", label: "Job", wide: true, render: (job) => html`<strong><${Name} value=${job.name} /></strong>${job.error ? html`<br /><${Text} value=${job.error} max=${160} kind="mono" />` : null}` },
    { key: "state", label: "State", render: (job) => html`<${Badge} tone=${JOB_TONES[job.state]}>${job.state}<//>` },
    { key: "attempts", label: "Attempts", align: "end", narrow: false, render: (job) => formatNumber(job.attempts) },
    { key: "by", label: "By", narrow: false, render: (job) => html`<${Name} value=${job.author || "owner"} />` },
    { key: "due", label: "Due", render: (job) => html`<${Time} at=${job.due} />` },
    ...(caller.canWrite ? [{ key: "act", label: "", align: "end", render: (job) => html`<div class="row tight end">${job.state === "failed" && html`<${Button} kind="quiet" onClick=${() => act(job, "retry", "The job waits for a worker again.")}>Retry<//>`}<${Button} kind="quiet" onClick=${() => act(job, "drop", "The job is dropped.")}>Drop<//></div>` }] : []),
  ];
  const empty = html`<${Empty} title="No jobs wait.">A worker runs jobs in the background: <code>lukasa worker</code>. Consolidation can be deferred to one with <code>memory.jobs.defer("experience.consolidate")</code>.<//>`;
  return html`<${Card} title="Jobs" flush action=${html`<${Button} kind="quiet" onClick=${state.reload}>Refresh<//>`}><${Load} state=${state} lines=${4}>${(data) => html`<${Table} label="Jobs" columns=${columns} rows=${data.jobs} rowKey=${(job) => job.id} pageSize=${25} empty=${empty} />`}<//><//>`;
}

function Export() {
  const caller = useCaller();
  const stats = useApi("/v1/stats");
  const versions = stats.data?.records.reduce((sum, row) => sum + row.versions, 0);
  return html`<${Card} title="Export">
    <p class="gap-below">Every version that this token may read, as lines of JSON. The last line proves that the file is whole; <code>lukasa import</code> brings it into another store without loss.</p>
    <p class="row"><a class="button primary" href="/v1/export" download=${`lukasa-${new Date().toISOString().slice(0, 10)}.jsonl`}>Download ${versions === undefined ? "" : formatCount(versions, "version")}</a>${caller.isOwner && html`<span class="muted">Tokens are left out.</span>`}</p>
  <//>`;
}
