// Record: what it says, how it came to say it, what it leads to; correct it, forget it, erase it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { get, path as join, post, Problem, useApi, useCaller } from "../lib/api.js";
import { Link, navigate, recordHref, setGuard, useQuery } from "../lib/router.js";
import { changeOf, forget, quarantine, restore, saveMemory } from "../lib/records.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, formatNumber, Time } from "../lib/time.js";
import { Badge, Bars, Button, Card, Dialog, Diff, Empty, Field, Kind, kindLabel, Load, Notice, Page as Frame, Skeleton, toast } from "../lib/ui.js";

export const title = "Record";
export const path = "/record";

export function Page() {
  const [key] = useQuery();
  if (!key.scope || !key.kind || !key.id) {
    return html`<${Frame} title="Record"><${Card}><${Empty} title="No record is chosen." action=${html`<${Link} class="button" href="/recall">Find one<//>`}>Every list of the dashboard leads here.<//><//><//>`;
  }
  return html`<${RecordView} key=${recordHref(key)} scope=${key.scope} kind=${key.kind} id=${key.id} />`;
}

function RecordView({ scope, kind, id }) {
  const caller = useCaller();
  const history = useApi(join("/v1/records", scope, kind, id, "history"));
  const links = useApi(join("/v1/records", scope, kind, id, "links"));
  const [dialog, setDialog] = useState(null); // null, "edit", "erase", "quarantine"
  const versions = (!history.error && history.data?.versions) || [];
  const newest = versions.at(-1);
  const shown = newest?.deleted ? versions.findLast((version) => !version.deleted) : newest;
  const writable = caller.canWrite && caller.mayWrite(scope);
  const editable = writable && kind === "memory" && newest && !newest.deleted;
  const reload = () => {
    history.reload();
    links.reload();
  };
  useLayoutEffect(() => { // what is drawn answers to its key at once
    const listener = (event) => {
      if (event.detail === "e" && editable) {
        event.preventDefault();
        setDialog("edit");
      }
    };
    window.addEventListener("lukasa-key", listener);
    return () => window.removeEventListener("lukasa-key", listener);
  }, [editable]);
  const takeBack = async () => {
    try {
      await restore(newest, shown.version, `"v${newest.version}"`);
      toast("It is remembered again.");
      reload();
    } catch (problem) {
      toast(problem);
    }
  };
  const actions = html`
    <${Link} class="button" href=${`/graph?${new URLSearchParams({ scope, kind, id })}`}>Graph<//>
    ${editable && html`<${Button} kind="primary" onClick=${() => setDialog("edit")}>Edit<//>`}
    ${writable && newest && !newest.deleted && html`<${Button} onClick=${() => forget(newest, reload).catch(toast)}>Forget<//>`}
    ${writable && newest?.deleted && shown && html`<${Button} kind="primary" onClick=${takeBack}>Remember again<//>`}
    ${caller.isOwner && shown?.author && html`<${Button} onClick=${() => setDialog("quarantine")}>Quarantine author<//>`}
    ${caller.isOwner && shown && html`<${Button} kind="danger" onClick=${() => setDialog("erase")}>Erase<//>`}`;
  const heading = `${kindLabel(kind).replace(/^./, (char) => char.toUpperCase())} ${id.length > 40 ? `${id.slice(0, 40)}…` : id}`;
  return html`<${Frame} title=${heading} actions=${shown && actions} loading=${history.data === null && !history.error}>
    ${history.error?.status === 404 && html`<${Card}><${Empty} title="There is no such record." action=${html`<${Link} class="button" href="/recall">Find another<//>`}>It may have been erased, be hidden by a quarantine, or lie in a scope that this token does not read.<//><//>`}
    ${history.error && history.error.status !== 404 && html`<${Notice} problem=${history.error} retry=${history.reload} />`}
    ${!history.error && !shown && html`<${Skeleton} lines=${8} />`}
    ${shown &&
    html`<div class="columns">
      <div class="stack">
        ${newest.deleted && html`<${Notice} tone="warn" title="This record is forgotten.">It is not recalled any more. Its history stays until it is erased.<//>`}
        <${Card}>
          ${shown.text ? html`<p class="statement"><${Text} value=${shown.text} max=${3000} /></p>` : html`<p class="muted">This record has no text of its own; its fields are below.</p>`}
          ${shown.labels.length > 0 && html`<p class="row tags">${shown.labels.filter((label) => !/^(like|undo|run)=/.test(label)).map((label) => html`<${Badge}><${Name} value=${label.replace("=", ": ")} max=${60} /><//>`)}</p>`}
        <//>
        <${Versions} versions=${versions} writable=${writable} reload=${reload} />
        <${Links} state=${links} record=${shown} />
        <${Card} title="Fields"><details open=${!shown.text}><summary>The body as it is stored</summary><pre class="block" tabindex="0" aria-label="The body"><${Text} kind="mono" value=${shown.body} max=${8000} links=${false} /></pre></details><//>
      </div>
      <div class="stack">
        <${Facts} record=${shown} newest=${newest} />
        ${kind === "memory" && !newest.deleted && shown.body.tier === "register" && html`<${Promotion} record=${shown} links=${links.data?.links || []} writable=${writable} reload=${reload} />`}
        ${shown.author && html`<${AuthorTrust} author=${shown.author} />`}
      </div>
    </div>`}
    ${dialog === "edit" && html`<${Editor} record=${newest} onClose=${() => setDialog(null)} reload=${reload} />`}
    ${dialog === "erase" && html`<${Erasure} record=${shown} onClose=${() => setDialog(null)} />`}
    ${dialog === "quarantine" && html`<${Quarantine} author=${shown.author} onClose=${() => setDialog(null)} reload=${reload} />`}
  <//>`;
}

function Facts({ record, newest }) {
  const rows = [
    ["Kind", html`<${Kind} kind=${record.kind} />`],
    ["Scope", html`<${Name} value=${record.scope} />`],
    ["Author", record.author ? html`<${Name} value=${record.author} />` : "the owner"],
    ["Origin", html`<${Name} value=${record.origin} />`],
    ["Written", html`<${Time} at=${record.created_at} />`],
    newest.version > 1 && ["Changed", html`<${Time} at=${newest.recorded_at} />`],
    record.happened_at && ["Happened", html`<${Time} at=${record.happened_at} />`],
    record.body.confirmed_at && ["Last confirmed", html`<${Time} at=${record.body.confirmed_at} />`],
    record.body.expires_at && ["Expires", html`<${Time} at=${record.body.expires_at} />`],
    ["Version", formatNumber(newest.version)],
    ["Position", `${formatNumber(newest.seq)} in the log`],
    ["Digest", html`<code title=${newest.digest}>${newest.digest.slice(0, 12)}…</code>`],
  ].filter(Boolean);
  return html`<${Card} title="About"><dl class="facts">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl><//>`;
}

function AuthorTrust({ author }) {
  const [trust, setTrust] = useState(undefined);
  useEffect(() => {
    get(join("/v1/trust/agents", author)).then(setTrust, () => setTrust(null));
  }, [author]);
  if (trust === undefined) return html`<${Card} title="Trust"><${Skeleton} lines=${3} /><//>`;
  if (trust === null) return null;
  const [low, high] = trust.interval;
  return html`<${Card} title="Trust in the author" action=${html`<${Link} href=${`/trust?agent=${encodeURIComponent(author)}`}>Why<//>`}>
    <${Bars} label="Trust" max=${1} items=${[{ label: html`<${Name} value=${author} max=${30} />`, value: trust.trust_score, text: trust.trust_score.toFixed(2) }]} />
    <p class="muted small">Between ${low.toFixed(2)} and ${high.toFixed(2)}, after ${formatCount(trust.events, "event")}.</p>
  <//>`;
}

// A register becomes canon by the word of a person, or when independent authors say the same.
function Promotion({ record, links, writable, reload }) {
  const caller = useCaller();
  const [asks, setAsks] = useState(false);
  const voices = links.filter((link) => link.kind === "corroboration" && link.direction === "in").length;
  const run = async (part, body, said) => {
    try {
      const written = await post(join("/v1/memories", record.id, part), { scope: record.scope, ...body });
      toast(said, part === "promotion" ? { undo: async () => { await restore(record, record.version, `"v${written.version}"`); reload(); } } : {});
      setAsks(false);
      reload();
    } catch (problem) {
      toast(problem);
    }
  };
  return html`<${Card} title="Register">
    <p class="small muted">It holds until it is replaced by a newer statement on its topic. ${voices ? `${formatCount(voices, "other author")} ${voices === 1 ? "says" : "say"} the same.` : "Nobody else has said the same yet."}</p>
    ${writable && html`<div class="actions">
      ${caller.isOwner ? html`<${Button} onClick=${() => setAsks(true)}>Promote to canon<//>` : html`<${Button} onClick=${() => run("promotion", {}, "It is canon now.")}>Promote to canon<//>`}
      ${caller.agent && caller.agent !== record.author && html`<${Button} onClick=${() => run("corroborations", undefined, "Your agreement is recorded.")}>I say the same<//>`}
    </div>`}
    ${asks && html`<${Promoter} onClose=${() => setAsks(false)} onDone=${(by) => run("promotion", by ? { by } : {}, "It is canon now.")} />`}
  <//>`;
}

function Promoter({ onClose, onDone }) {
  const [by, setBy] = useState("");
  return html`<${Dialog} title="Promote to canon" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" onClick=${() => onDone(by.trim())}>Promote<//>`}>
    <p>Canon lasts until somebody changes it. A person vouches for it by name; without a name, independent authors must have said the same.</p>
    <${Field} label="Who vouches for it?">${(id) => html`<input id=${id} value=${by} onInput=${(event) => setBy(event.target.value)} maxlength="200" />`}<//>
  <//>`;
}

const MAX_VERSIONS = 20;

function Versions({ versions, writable, reload }) {
  const [all, setAll] = useState(false);
  const newest = versions.at(-1);
  const shown = [...versions].reverse().slice(0, all ? undefined : MAX_VERSIONS);
  const bring = async (version) => {
    try {
      const written = await restore(version, version.version, `"v${newest.version}"`);
      toast(`Version ${version.version} holds again.`, { undo: newest.deleted ? undefined : async () => { await restore(newest, newest.version, `"v${written.version}"`); reload(); } });
      reload();
    } catch (problem) {
      toast(problem);
    }
  };
  return html`<${Card} title="Versions" note=${formatCount(versions.length, "version")}>
    <ol class="versions">
      ${shown.map((version) => {
        const before = versions.findLast((other) => other.version < version.version && !other.deleted);
        return html`<li key=${version.version}>
          <div class="version-head">
            <strong>${version.version}</strong> <span>${changeOf(version)}</span> ${version.author && html`<span>by <${Name} value=${version.author} max=${40} /></span>`} <${Time} at=${version.recorded_at} />
            ${version.origin !== "manual" && html`<${Badge}><${Name} value=${version.origin} max=${30} /><//>`}
            ${writable && !version.deleted && version.version !== newest.version && html`<${Button} kind="quiet" onClick=${() => bring(version)}>Restore<//>`}
          </div>
          ${version.deleted ? html`<p class="muted">Not recalled from here on.</p>` : html`<${VersionDiff} before=${before} version=${version} />`}
        </li>`;
      })}
    </ol>
    ${versions.length > shown.length && html`<${Button} kind="quiet" onClick=${() => setAll(true)}>Show all ${formatNumber(versions.length)}<//>`}
  <//>`;
}

// The changed text, and the names and values of changed fields.
function VersionDiff({ before, version }) {
  const names = [...new Set([...Object.keys(before?.body || {}), ...Object.keys(version.body)])];
  const same = (name) => JSON.stringify(before?.body[name]) === JSON.stringify(version.body[name]);
  const changed = before ? names.filter((name) => !same(name)) : [];
  const text = version.text || before?.text;
  return html`${text ? html`<${Diff} before=${before ? before.text : version.text} after=${version.text} />` : null}
    ${changed.length > 0 && html`<ul class="changes">${changed.slice(0, 12).map((name) => html`<li><code><${Name} value=${name} max=${40} /></code> ${before.body[name] !== undefined && html`<del><${Text} kind="mono" value=${before.body[name]} max=${160} links=${false} /></del>`} ${version.body[name] !== undefined && html`<ins><${Text} kind="mono" value=${version.body[name]} max=${160} links=${false} /></ins>`}</li>`)}</ul>`}
    ${before && !changed.length && before.text === version.text && html`<p class="muted">Written again without a change.</p>`}`;
}

function Links({ state, record }) {
  return html`<${Card} title="Connections">
    <${Load} state=${state} lines=${2}>
      ${({ links }) => {
        if (!links.length) return html`<p class="muted">No record is linked with this one.</p>`;
        const groups = [
          ["Derived from", links.filter((link) => link.relation === "derived_from" && link.direction === "out")],
          ["Led to", links.filter((link) => link.relation === "derived_from" && link.direction === "in")],
          ["Linked", links.filter((link) => link.relation !== "derived_from")],
        ];
        return groups.map(([name, items]) => items.length > 0 && html`<h3 class="group-title">${name} <span class="count">${items.length}</span></h3>
          <ul class="plain">${items.slice(0, 50).map((link) => html`<li><${Kind} kind=${link.kind} /> <${Link} href=${recordHref(link)}><${Name} value=${link.id} max=${60} /><//> ${link.relation !== "derived_from" && html`<span class="muted">${link.direction === "out" ? "" : "says: "}${link.relation.replaceAll("_", " ")}</span>`} ${link.scope !== record.scope && html`<span class="muted">in <${Name} value=${link.scope} /></span>`}</li>`)}</ul>
          ${items.length > 50 && html`<p class="muted">and ${formatNumber(items.length - 50)} more; the graph shows them.</p>`}`);
      }}
    <//>
  <//>`;
}

// Edit with If-Match. When somebody else was faster, both texts are shown and the reader decides.
function Editor({ record, onClose, reload }) {
  const start = { text: record.text, category: record.body.category || "general", topic: record.body.topic_id || "", tags: (record.body.tags || []).join(", ") };
  const [fields, setFields] = useState(start);
  const [base, setBase] = useState(record);
  const [problem, setProblem] = useState(null);
  const [theirs, setTheirs] = useState(null);
  const area = useRef(null);
  const set = (name) => (event) => setFields((old) => ({ ...old, [name]: event.target.value }));
  const isChanged = JSON.stringify(fields) !== JSON.stringify(start);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(area.current.value.length, area.current.value.length);
  }, []);
  useEffect(() => {
    setGuard(isChanged ? () => confirm("Leave without saving?") : null);
    return () => setGuard(null);
  }, [isChanged]);
  const changes = () => {
    const found = {};
    if (fields.text !== base.text) found.text = fields.text;
    if (fields.category !== (base.body.category || "general")) found.category = fields.category;
    if (fields.topic && fields.topic !== (base.body.topic_id || "")) found.topic_id = fields.topic;
    const tags = fields.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
    if (tags.join() !== (base.body.tags || []).join()) found.tags = tags;
    return found;
  };
  const save = async () => {
    const wanted = changes();
    if (!Object.keys(wanted).length) return onClose();
    setProblem(null);
    try {
      const written = await saveMemory(record, wanted, `"v${base.version}"`);
      setGuard(null);
      toast("Saved. The earlier version stays in the history.", {
        undo: async () => {
          await restore(base, base.version, `"v${written.version}"`);
          reload();
        },
      });
      reload();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 412) setTheirs(await get(join("/v1/records", record.scope, record.kind, record.id)).catch(() => ({ gone: true })));
      else setProblem(error);
    }
  };
  const overwrite = () => {
    setBase(theirs);
    setTheirs(null);
  };
  if (theirs) {
    return html`<${Dialog} wide title="Somebody else has changed this memory" onClose=${onClose} actions=${html`<${Button} onClick=${() => { reload(); onClose(); }}>Keep theirs<//>${!theirs.gone && html`<${Button} kind="primary" onClick=${overwrite}>Go on editing mine<//>`}`}>
      ${theirs.gone ? html`<${Notice} tone="warn">It was forgotten or erased in the meantime.<//>` : html`<p>Nothing is lost: yours is not saved yet, and theirs is version ${theirs.version}${theirs.author ? html` by <${Name} value=${theirs.author} />` : ""}, written <${Time} at=${theirs.recorded_at} />.</p>
        <div class="grid both"><section><h3>Theirs, stored</h3><p><${Text} value=${theirs.text} max=${4000} /></p></section><section><h3>Yours, not saved</h3><p><${Text} value=${fields.text} max=${4000} /></p></section></div>
        <section><h3>From theirs to yours</h3><${Diff} before=${theirs.text} after=${fields.text} /></section>`}
    <//>`;
  }
  return html`<${Dialog} wide title="Edit the memory" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" onClick=${save}>Save<//>`}>
    <${Field} label="Text">${(id) => html`<textarea id=${id} ref=${area} class="text" rows="5" maxlength="20000" value=${fields.text} onInput=${set("text")} onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && save()}></textarea>`}<//>
    <div class="filters">
      <${Field} label="Category">${(id) => html`<input id=${id} value=${fields.category} onInput=${set("category")} maxlength="100" />`}<//>
      <${Field} label="Topic">${(id) => html`<input id=${id} value=${fields.topic} onInput=${set("topic")} maxlength="200" placeholder="none" />`}<//>
      <${Field} label="Tags, with commas">${(id) => html`<input id=${id} value=${fields.tags} onInput=${set("tags")} maxlength="500" />`}<//>
    </div>
    <p class="muted small"><kbd>Ctrl</kbd> <kbd>Enter</kbd> saves. The gate checks the text as it does for agents.</p>
    <${Notice} problem=${problem} />
  <//>`;
}

function Quarantine({ author, onClose, reload }) {
  const [reason, setReason] = useState("");
  const run = async () => {
    try {
      await quarantine(author, reason, reload);
      onClose();
    } catch (problem) {
      toast(problem);
    }
  };
  return html`<${Dialog} title="Quarantine the author" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" onClick=${run}>Hide what they wrote<//>`}>
    <p>Everything that <strong><${Name} value=${author} /></strong> wrote, and all that was derived from it, is hidden from every agent until the quarantine ends. Nothing is removed.</p>
    <${Field} label="Reason">${(id) => html`<input id=${id} value=${reason} onInput=${(event) => setReason(event.target.value)} maxlength="400" />`}<//>
  <//>`;
}

// Erasure cannot be taken back, so it shows first what would go, and afterwards the receipt.
function Erasure({ record, onClose }) {
  const key = { scope: record.scope, kind: record.kind, id: record.id };
  const [preview, setPreview] = useState(null);
  const [problem, setProblem] = useState(null);
  const [receipt, setReceipt] = useState(null);
  const [reason, setReason] = useState("");
  useEffect(() => {
    post("/v1/journal/erasures", { keys: [key], dry_run: true }, { key: false }).then((found) => setPreview(found.would_erase), setProblem);
  }, []);
  const erase = async () => {
    try {
      setReceipt(await post("/v1/journal/erasures", { keys: [key], reason }, { key: false }));
    } catch (error) {
      setProblem(error);
    }
  };
  const leave = () => {
    onClose();
    navigate("/memories", { replace: true });
  };
  if (receipt) {
    return html`<${Dialog} title="Erased for good" onClose=${leave} actions=${html`<${Button} kind="primary" onClick=${leave}>Done<//>`}>
      <p>The receipt is part of the log and holds nothing of the content.</p>
      <dl class="facts">
        <dt>Receipt</dt><dd><code>${receipt.receipt}</code></dd><dt>Records</dt><dd>${formatNumber(receipt.records)}</dd><dt>Versions</dt><dd>${formatNumber(receipt.versions)}</dd>
        <dt>Kinds</dt><dd>${Object.entries(receipt.by_kind).map(([kind, count]) => `${formatNumber(count)} ${kindLabel(kind)}`).join(", ")}</dd>
        <dt>Still on disk</dt><dd>${receipt.residue || "nothing"}</dd>
      </dl>
    <//>`;
  }
  return html`<${Dialog} title="Erase for good?" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="danger" disabled=${!preview?.length} onClick=${erase}>Erase ${preview ? formatCount(preview.length, "record") : ""}<//>`}>
    <p>Every version, every index entry and everything derived from the record is removed. This cannot be taken back; to stop recalling it, <em>Forget</em> is enough.</p>
    ${preview === null && !problem && html`<${Skeleton} lines=${2} />`}
    ${preview && html`<ul class="plain limited">${preview.slice(0, 100).map((item) => html`<li><${Kind} kind=${item.kind} /> <${Name} value=${item.id} max=${50} /> <span class="muted">in <${Name} value=${item.scope} max=${40} /></span></li>`)}</ul>`}
    <${Field} label="Reason, for the receipt">${(id) => html`<input id=${id} value=${reason} onInput=${(event) => setReason(event.target.value)} maxlength="400" />`}<//>
    <${Notice} problem=${problem} />
  <//>`;
}
