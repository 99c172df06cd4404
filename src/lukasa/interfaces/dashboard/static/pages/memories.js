// Memories: the curated facts, their tiers and topics, what might be merged or deleted, and what the gate refused.
import { html, useEffect, useState } from "../lib/html.js";
import { del, get, path as join, post, url, useApi, useCaller } from "../lib/api.js";
import { Link, recordHref, useQuery } from "../lib/router.js";
import { forget } from "../lib/records.js";
import { Name, nameHidden, Text } from "../lib/text.js";
import { formatCount, formatNumber, formatPercent, Time } from "../lib/time.js";
import { Badge, Bars, Button, Card, Dialog, Empty, Field, Load, Notice, Page as Frame, Select, Skeleton, Stat, Table, Tabs, toast } from "../lib/ui.js";

export const title = "Memories";
export const path = "/memories";

const PAGE_SIZE = 50;
const LABELS = ["tier", "category", "topic", "tag"];

export function Page() {
  const caller = useCaller();
  const [query, setQuery] = useQuery();
  const [adds, setAdds] = useState(false);
  const [count, setCount] = useState(0); // counts writes, so that lists are read again
  const vault = useApi("/v1/vault", { scope: query.scope });
  const view = query.view || "all";
  const changed = () => {
    setCount((value) => value + 1);
    vault.reload();
  };
  const ofTier = (tier) => (vault.data ? formatNumber(vault.data.facets.tier.find((row) => row.name === tier)?.count || 0) : "…");
  return html`<${Frame} title="Memories" lead="Curated facts: each passed the gate, and each can be changed or taken back." loading=${vault.data === null && !vault.error}
    actions=${caller.canWrite && html`<${Button} kind="primary" onClick=${() => setAdds(true)}>Remember something<//>`}>
    <div class="stats">
      <${Stat} label="Memories" value=${vault.data ? formatNumber(vault.data.memories) : "…"} note=${vault.data && `${formatPercent(vault.data.memories / vault.data.capacity, 1)} of ${formatNumber(vault.data.capacity)}`} />
      <${Stat} label="Canon" value=${ofTier("canon")} note="lasts until it is changed" href="/memories?tier=canon" />
      <${Stat} label="Register" value=${ofTier("register")} note="replaced by topic" href="/memories?tier=register" />
      <${Stat} label="Refused" value=${vault.data ? formatNumber(vault.data.refusals.reduce((sum, row) => sum + row.count, 0)) : "…"} note="by the gate" href="/memories?view=refusals" />
    </div>
    ${vault.data && vault.data.counted < vault.data.memories && html`<p class="muted small">Tiers, topics and tags are those of the newest ${formatNumber(vault.data.counted)} memories.</p>`}
    <${Tabs} label="Views" value=${view} onChange=${(key) => setQuery({ view: key === "all" ? null : key })} tabs=${[{ key: "all", label: "All" }, { key: "topics", label: "Topics" }, { key: "proposals", label: "Proposals" }, { key: "refusals", label: "Refusals" }]}>
      ${view === "all" && html`<${List} query=${query} setQuery=${setQuery} vault=${vault.data} count=${count} changed=${changed} />`}
      ${view === "topics" && html`<${Topics} vault=${vault} query=${query} count=${count} />`}
      ${view === "proposals" && html`<${Proposals} query=${query} setQuery=${setQuery} vault=${vault.data} count=${count} changed=${changed} />`}
      ${view === "refusals" && html`<${Refusals} vault=${vault} />`}
    <//>
    ${adds && html`<${NewMemory} onClose=${() => setAdds(false)} changed=${changed} scopes=${Object.keys(vault.data?.scopes || {})} />`}
  <//>`;
}

// Records page by page, the newest first. Only the rows of one page are in the document.
function usePages(params, count) {
  const key = JSON.stringify([params, count]);
  const [state, setState] = useState({ key: "", rows: [], next: null, loading: true, error: null });
  const read = async (cursor, rows) => {
    setState((old) => ({ ...old, loading: true }));
    try {
      const found = await get("/v1/records", { ...params, newest_first: true, limit: PAGE_SIZE, cursor });
      setState({ key, rows: [...rows, ...found.records], next: found.next, loading: false, error: null });
    } catch (error) {
      setState((old) => ({ ...old, key, loading: false, error }));
    }
  };
  useEffect(() => {
    read(undefined, []);
  }, [key]);
  return { ...state, more: state.next ? () => read(state.next, state.rows) : null };
}

function List({ query, setQuery, vault, count, changed }) {
  const caller = useCaller();
  const labels = LABELS.filter((name) => query[name]).map((name) => `${name}=${query[name]}`);
  const pages = usePages({ kinds: "memory", scopes: query.scope, author: query.author, labels }, count);
  const options = (name, all) => [["", all], ...(vault?.facets[name] || []).filter((row) => row.name).map((row) => [row.name, `${row.name} (${formatNumber(row.count)})`])];
  const columns = [
    { key: "text", label: "Memory", wide: true, render: (row) => html`<${Text} value=${row.text} max=${260} links=${false} />` },
    { key: "tier", label: "Tier", narrow: false, render: (row) => html`<${Badge} tone=${row.body.tier === "canon" ? "good" : "info"}>${row.body.tier}<//>` },
    { key: "category", label: "Category", narrow: false, render: (row) => html`<${Name} value=${row.body.category} max=${30} />` },
    { key: "author", label: "Author", narrow: false, render: (row) => html`<${Name} value=${row.author || "owner"} max=${24} />` },
    { key: "scope", label: "Scope", narrow: false, render: (row) => html`<${Name} value=${row.scope} max=${24} />` },
    { key: "at", label: "Written", align: "end", render: (row) => html`<${Time} at=${row.recorded_at} />` },
    caller.canWrite && { key: "do", label: html`<span class="hidden">Actions</span>`, align: "end", narrow: false, render: (row) => caller.mayWrite(row.scope) && html`<${Button} kind="quiet" aria-label=${`Forget ${nameHidden(row.text.slice(0, 40))}`} onClick=${() => forget(row, changed).catch(toast)}>Forget<//>` },
  ].filter(Boolean);
  const filtered = labels.length || query.scope || query.author;
  return html`<${Card} flush>
    <div class="filters in-card">
      <${Select} label="Tier" value=${query.tier || ""} options=${options("tier", "all tiers")} onChange=${(tier) => setQuery({ tier })} />
      <${Select} label="Category" value=${query.category || ""} options=${options("category", "all categories")} onChange=${(category) => setQuery({ category })} />
      <${Select} label="Tag" value=${query.tag || ""} options=${options("tag", "all tags")} onChange=${(tag) => setQuery({ tag })} />
      <${Select} label="Author" value=${query.author || ""} options=${options("author", "all authors")} onChange=${(author) => setQuery({ author })} />
      <${Select} label="Scope" value=${query.scope || ""} options=${[["", "all scopes"], ...Object.entries(vault?.scopes || {}).map(([name, live]) => [name, `${name} (${formatNumber(live)})`])]} onChange=${(scope) => setQuery({ scope })} />
      ${filtered && html`<${Button} kind="quiet" onClick=${() => setQuery({ tier: null, category: null, tag: null, topic: null, author: null, scope: null })}>Show all<//>`}
    </div>
    ${pages.error && html`<${Notice} problem=${pages.error} />`}
    ${!pages.key ? html`<${Skeleton} lines=${8} />` : html`<${Table} label="Memories" columns=${columns} rows=${pages.rows} rowKey=${(row) => `${row.scope} ${row.id}`} href=${recordHref} pageSize=${PAGE_SIZE} more=${pages.more} loading=${pages.loading}
      empty=${filtered ? html`<${Empty} title="No memory matches." action=${html`<${Button} onClick=${() => setQuery({ tier: null, category: null, tag: null, topic: null, author: null, scope: null })}>Show all<//>`} />` : html`<${Empty} title="Nothing is remembered yet.">Agents write here with <code>remember</code>; so can you.<//>`} />`}
  <//>`;
}

function Topics({ vault, query, count }) {
  const pages = usePages({ kind: "memory", scope: query.scope, label: ["tier=register"] }, count);
  const columns = [
    { key: "topic", label: "Topic", sort: (row) => row.body.topic_id || "", render: (row) => html`<${Name} value=${row.body.topic_id || "without a topic"} max=${50} />` },
    { key: "text", label: "Holds now", wide: true, render: (row) => html`<${Text} value=${row.text} max=${260} />` },
    { key: "version", label: "Changed", align: "end", narrow: false, sort: (row) => row.version, render: (row) => (row.version > 1 ? formatCount(row.version - 1, "time") : "never") },
    { key: "at", label: "Since", align: "end", render: (row) => html`<${Time} at=${row.recorded_at} />` },
  ];
  return html`<${Card} flush>
    ${!pages.key ? html`<${Skeleton} lines=${6} />` : html`<${Table} label="Topics" columns=${columns} rows=${pages.rows} rowKey=${(row) => `${row.scope} ${row.id}`} href=${recordHref} more=${pages.more} loading=${pages.loading}
      empty=${html`<${Empty} title="No topics yet.">A memory with a topic replaces the one before it: <code>lukasa remember --topic deploy-days "…"</code><//>`} />`}
  <//>`;
}

function Proposals({ query, setQuery, vault, count, changed }) {
  const caller = useCaller();
  const scopes = Object.keys(vault?.scopes || { shared: 0 });
  const scope = query.scope || (scopes.includes("shared") || !scopes.length ? "shared" : scopes[0]);
  const state = useApi("/v1/vault/proposals", { scope });
  useEffect(() => {
    if (count) state.reload();
  }, [count]);
  const writable = caller.canWrite && caller.mayWrite(scope);
  return html`<div class="stack">
    <div class="filters"><${Select} label="Scope" value=${scope} options=${(scopes.length ? scopes : ["shared"]).map((name) => [name, name])} onChange=${(value) => setQuery({ scope: value })} /></div>
    <${Load} state=${state} lines=${6}>
      ${({ similar, deletions }) => html`<div class="stack">
        <${Card} title="Might be merged" note=${similar.length ? `${formatCount(similar.length, "pair")}, most alike first` : ""}>
          ${similar.length === 0 && html`<${Empty} title="No two memories are alike." />`}
          <ul class="pairs">${similar.map((pair) => html`<li key=${pair.ids.join()}>
            <div class="pair-head"><${Badge} tone=${pair.score > 0.8 ? "warn" : ""}>${formatPercent(pair.score)} alike<//> ${pair.difference ? html`<span class="muted">differ in ${pair.difference.kind}: “<${Name} value=${pair.difference.here} max=${40} />” and “<${Name} value=${pair.difference.there} max=${40} />”</span>` : html`<span class="muted">no difference in what they state was found</span>`}</div>
            <div class="grid both">${[["one", "other"], ["other", "one"]].map(([here, there]) => html`<section>
              <p><${Link} class="record-text" href=${recordHref({ ...pair[here], kind: "memory" })}><${Text} value=${pair[here].text} max=${300} links=${false} /><//></p>
              <p class="byline"><${Badge}>${pair[here].tier}<//> <${Time} at=${pair[here].created_at} /> ${writable && html`<${Button} kind="quiet" aria-label=${`Keep only this: ${nameHidden(pair[here].text.slice(0, 40))}`} onClick=${() => forget({ ...pair[there], kind: "memory" }, changed).catch(toast)}>Keep only this<//>`}</p>
            </section>`)}</div>
          </li>`)}</ul>
        <//>
        <${Card} title="Might be deleted" flush>
          <${Table} label="Might be deleted" rows=${deletions} rowKey=${(row) => row.id} href=${(row) => recordHref({ scope, kind: "memory", id: row.id })} columns=${[
            { key: "text", label: "Memory", wide: true, render: (row) => html`<${Text} value=${row.text} max=${200} links=${false} />` },
            { key: "reason", label: "Why", render: (row) => html`<${Text} kind="small" value=${row.reason} max=${200} />` },
            writable && { key: "do", label: html`<span class="hidden">Actions</span>`, align: "end", render: (row) => html`<${Button} kind="quiet" onClick=${() => forget({ scope, kind: "memory", ...row }, changed).catch(toast)}>Forget<//>` },
          ].filter(Boolean)} empty=${html`<${Empty} title="Nothing looks stale or out of place." />`} />
        <//>
      </div>`}
    <//>
  </div>`;
}

const CODES = {
  duplicate: "said before", noise: "a passing event, not a fact", secret: "holds a secret", pii: "holds personal data", too_long: "too long", too_short: "too short",
  empty: "no text", full: "the vault is full", bad_scope: "a scope that the author may not write", not_corroborated: "too few authors say it",
};

function Refusals({ vault }) {
  return html`<${Card} title="Refused by the gate" note="counted, never kept: a refused text is nowhere stored">
    <${Load} state=${vault} lines=${5}>
      ${(data) => (data.refusals.length ? html`<${Bars} label="Refusals by code" items=${data.refusals.map((row) => ({ label: row.name.replaceAll("_", " "), title: CODES[row.name], value: row.count, tone: "warn" }))} />` : html`<${Empty} title="Nothing was refused so far.">The gate refuses noise, duplicates, secrets and personal data, and says why.<//>`)}
    <//>
  <//>`;
}

function NewMemory({ onClose, changed, scopes }) {
  const caller = useCaller();
  const choices = caller.writes || [...new Set(["shared", ...scopes])];
  const [fields, setFields] = useState({ text: "", scope: choices.includes("shared") ? "shared" : choices[0], category: "general", topic: "", tags: "" });
  const [problem, setProblem] = useState(null);
  const set = (name) => (event) => setFields((old) => ({ ...old, [name]: event.target.value }));
  const save = async (more = {}) => {
    setProblem(null);
    const tags = fields.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
    try {
      const written = await post("/v1/memories", { text: fields.text, scope: fields.scope, category: fields.category || "general", ...(fields.topic && { topic: fields.topic }), ...(tags.length && { tags }), ...more });
      toast("Remembered.", { undo: async () => { await del(url(join("/v1/memories", written.id), { scope: written.scope })); changed(); } });
      changed();
      onClose();
    } catch (error) {
      setProblem(error);
    }
  };
  const same = problem?.code === "duplicate" && problem.details?.duplicate_of;
  return html`<${Dialog} wide title="Remember something" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>${same && html`<${Button} onClick=${() => save({ distinct_from: [].concat(same) })}>It is another fact<//>`}<${Button} kind="primary" disabled=${!fields.text.trim()} onClick=${() => save()}>Remember<//>`}>
    <${Field} label="What should be remembered?">${(id) => html`<textarea id=${id} class="text" rows="4" maxlength="20000" autofocus value=${fields.text} onInput=${set("text")} onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && save()}></textarea>`}<//>
    <div class="filters">
      <${Select} label="Scope" value=${fields.scope} options=${choices.map((name) => [name, name])} onChange=${(scope) => setFields((old) => ({ ...old, scope }))} />
      <${Field} label="Category">${(id) => html`<input id=${id} value=${fields.category} onInput=${set("category")} maxlength="100" />`}<//>
      <${Field} label="Topic">${(id) => html`<input id=${id} value=${fields.topic} onInput=${set("topic")} maxlength="200" placeholder="none" />`}<//>
      <${Field} label="Tags, with commas">${(id) => html`<input id=${id} value=${fields.tags} onInput=${set("tags")} maxlength="500" />`}<//>
    </div>
    <${Notice} problem=${problem} />
  <//>`;
}
