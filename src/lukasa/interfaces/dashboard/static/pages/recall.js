// Recall: ask as an agent would, and see why each record was found, what was left out, and what an agent would get.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useApi, usePost } from "../lib/api.js";
import { Link, recordHref, useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatAbsolute, formatCount, formatNumber, Time, zone } from "../lib/time.js";
import { Badge, Bars, Button, Card, Copy, Empty, Field, Kind, Load, Notice, Page as Frame, Select, Tabs } from "../lib/ui.js";

export const title = "Recall";
export const path = "/recall";

const SIGNALS = {
  words: "words in common", meaning: "close in meaning", coverage: "words of the question covered", phrases: "phrases in common",
  trust: "trust in the author", recency: "how recent", time: "the time asked for", session: "same session", tier: "tier of the memory",
  linked: "linked to another hit", subject: "same subject", rule: "a rule of behaviour", preference: "a preference", opening: "begins the same",
  personal: "about the asker", specific: "names something specific", telling: "states a fact", dated: "names a date",
  topic: "words of the topic", adjacent: "next to a better hit",
};
const BLOCK_TOKENS = 1200;

// Signals that add to the score, the largest first.
function toBars(signals) {
  return Object.entries(signals)
    .filter(([, signal]) => Math.abs(signal.share) > 0.0005)
    .sort((a, b) => Math.abs(b[1].share) - Math.abs(a[1].share))
    .map(([name, signal]) => ({
      label: name,
      title: `${SIGNALS[name] || name}: value ${signal.value.toFixed(2)} × weight ${signal.weight}`,
      value: signal.share,
      text: `${signal.share < 0 ? "−" : "+"}${Math.abs(signal.share).toFixed(2)}`,
      tone: signal.share < 0 ? "bad" : "",
    }));
}

export function Page() {
  const [query, setQuery] = useQuery();
  const overview = useApi("/v1/overview", { zone });
  const asked = (query.q || "").trim();
  const question = asked
    ? { query: asked, k: Number(query.k) || 10, explain: true, budget: BLOCK_TOKENS, ...(query.kind && { kinds: [query.kind] }), ...(query.scope && { scopes: [query.scope] }), ...(query.author && { author: query.author }), ...(query.as_of && { as_of: query.as_of }) }
    : null;
  const state = usePost("/v1/recall", question);
  const view = query.view || "hits";
  const found = state.data;
  return html`<${Frame} title="Recall" lead="Ask as an agent would, and see why each record was found." loading=${state.loading}>
    <${Question} query=${query} setQuery=${setQuery} overview=${overview.data} />
    ${!asked &&
    html`<${Card}><${Empty} title="Ask something that was remembered.">Type a question or a few words above. Each answer shows the signals that ranked it.
      ${overview.data?.latest.length > 0 && html`<br />For example: ${overview.data.latest.filter((record) => record.kind === "memory" && record.text.split(/\s+/).length > 4).slice(0, 2).map((record) => html`<${Link} href=${`/recall?q=${encodeURIComponent(record.text.split(/\s+/).slice(1, 5).join(" ").replace(/[.,;:]$/, ""))}`}>${record.text.split(/\s+/).slice(1, 5).join(" ").replace(/[.,;:]$/, "")}<//> `)}`}<//><//>`}
    ${asked &&
    html`<${Load} state=${state} lines=${8}>
      ${(data) => html`${data.note && html`<${Notice} tone="warn">${data.note}<//>`}
        ${data.unindexed > 0 && html`<p class="muted small">${formatCount(data.unindexed, "record")} wait for their vectors; words alone find them until then.</p>`}
        <${Tabs} label="Answers" value=${view} onChange=${(key) => setQuery({ view: key === "hits" ? null : key })}
          tabs=${[{ key: "hits", label: "Found", count: data.hits.length }, { key: "dropped", label: "Left out", count: data.dropped.length + (data.left_out?.length || 0) }, { key: "block", label: "What an agent gets", count: undefined }]}>
          ${view === "hits" && html`<${Hits} data=${data} query=${query} />`}
          ${view === "dropped" && html`<${Dropped} data=${data} />`}
          ${view === "block" && html`<${Block} block=${data.block} />`}
        <//>`}
    <//>`}
  <//>`;
}

function Question({ query, setQuery, overview }) {
  const input = useRef(null);
  const [text, setText] = useState(query.q || "");
  useEffect(() => setText(query.q || ""), [query.q]);
  useEffect(() => {
    if (!query.q) input.current?.focus({ preventScroll: true });
  }, []);
  const ask = (event) => {
    event.preventDefault();
    setQuery({ q: text.trim() }, { push: true });
  };
  const kinds = [["", "all kinds"], ...(overview?.kinds || []).map((row) => [row.name, row.name.replaceAll("_", " ")])];
  const scopes = [["", "all scopes"], ...(overview?.scopes || []).map((row) => [row.name, row.name])];
  return html`<${Card}>
    <form class="stack" onSubmit=${ask} role="search" aria-label="Recall">
      <div class="ask">
        <label class="hidden" for="question">Question</label>
        <input id="question" ref=${input} class="text" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="What do you want to know?" maxlength="2000" autocomplete="off" />
        <button class="button primary">Ask</button>
      </div>
      <div class="filters">
        <${Select} label="Kind" value=${query.kind || ""} options=${kinds} onChange=${(kind) => setQuery({ kind })} />
        <${Select} label="Scope" value=${query.scope || ""} options=${scopes} onChange=${(scope) => setQuery({ scope })} />
        <${Select} label="At most" value=${query.k || "10"} options=${["5", "10", "20", "50"].map((k) => [k, `${k} hits`])} onChange=${(k) => setQuery({ k: k === "10" ? null : k })} />
        ${overview?.first_at && html`<${AsOf} first=${Date.parse(overview.first_at)} value=${query.as_of} onChange=${(as_of) => setQuery({ as_of })} />`}
      </div>
    </form>
  <//>`;
}

const STEPS = 200;

// A slider over the life of the store; its right end is now.
function AsOf({ first, value, onChange }) {
  const [now] = useState(() => Date.now());
  const toStep = (moment) => Math.round((STEPS * (moment - first)) / Math.max(1, now - first));
  const [step, setStep] = useState(value ? toStep(Date.parse(value)) : STEPS);
  useEffect(() => setStep(value ? toStep(Date.parse(value)) : STEPS), [value]);
  const moment = new Date(first + ((now - first) * step) / STEPS);
  const text = step >= STEPS ? "now" : formatAbsolute(moment);
  return html`<div class="as-of">
    <${Field} label=${html`As the store was: <output>${text}</output>`}>
      ${(id) => html`<input id=${id} type="range" min="0" max=${STEPS} value=${step} aria-valuetext=${text} onInput=${(event) => setStep(Number(event.target.value))} onChange=${(event) => onChange(Number(event.target.value) >= STEPS ? null : new Date(first + ((now - first) * Number(event.target.value)) / STEPS).toISOString())} />`}
    <//>
  </div>`;
}

function Hits({ data, query }) {
  if (!data.hits.length) return html`<${Card}><${Empty} title="Nothing was found.">Use other words, take a filter away${query.as_of ? ", or move the time towards now" : ""}. What nearly matched is under “Left out”.<//><//>`;
  const top = Math.max(...data.hits.flatMap((hit) => Object.values(hit.signals).map((signal) => Math.abs(signal.share))));
  return html`<ol class="stack hits">${data.hits.map((hit, i) => html`<li key=${hit.record.seq}><${Hit} hit=${hit} rank=${i + 1} top=${top} /></li>`)}</ol>`;
}

function Hit({ hit, rank, top, reason }) {
  const { record } = hit;
  return html`<article class="card hit">
    <div class="hit-main">
      <p><${Text} value=${record.text || record.id} max=${320} /></p>
      ${hit.superseded_by && html`<${Notice} tone="warn">A newer statement replaces this: <${Link} href=${recordHref(hit.superseded_by)}><${Name} value=${hit.superseded_by.id} /><//><//>`}
      ${hit.contradicts && html`<${Notice} tone="warn">This contradicts what somebody said who is trusted more: <${Link} href=${recordHref(hit.contradicts)}><${Name} value=${hit.contradicts.id} /><//><//>`}
      ${hit.supersedes && html`<p class="muted small">Replaces ${formatCount(hit.supersedes.length, "earlier statement")}.</p>`}
      <div class="byline">
        ${rank && html`<strong>${rank}.</strong>`} <${Kind} kind=${record.kind} />
        ${record.author && html`<span>by <${Name} value=${record.author} max=${40} />${hit.trust !== null && hit.trust !== undefined ? `, trust ${hit.trust.toFixed(2)}` : ""}</span>`}
        <span>in <${Name} value=${record.scope} max=${40} /></span><${Time} at=${record.happened_at || record.recorded_at} />
        ${reason && html`<${Badge} tone="warn">${reason}<//>`}
        <${Link} href=${recordHref(record)}>Open the record<//>
      </div>
    </div>
    <div class="hit-why">
      <p class="hit-score"><span>Score</span> <strong>${hit.score.toFixed(2)}</strong></p>
      <${Signals} items=${toBars(hit.signals)} top=${top} />
    </div>
  </article>`;
}

const MAX_SIGNALS = 4;

function Signals({ items, top }) {
  return html`<${Bars} small label="Signals" items=${items.slice(0, MAX_SIGNALS)} max=${top} />
    ${items.length > MAX_SIGNALS && html`<details><summary>${items.length - MAX_SIGNALS} more</summary><${Bars} small label="More signals" items=${items.slice(MAX_SIGNALS)} max=${top} /></details>`}`;
}

function whyDropped(hit) {
  if (hit.repeats) return "says the same as a better hit";
  if (hit.crowded) return "too many hits of one source";
  return "ranked below the last hit";
}

function Dropped({ data }) {
  const top = Math.max(0.1, ...data.dropped.flatMap((hit) => Object.values(hit.signals).map((signal) => Math.abs(signal.share))));
  if (!data.dropped.length && !data.left_out?.length) return html`<${Card}><${Empty} title="Nothing was left out." /><//>`;
  return html`<div class="stack">
    ${data.left_out?.length > 0 && html`<${Card} title="Left out on purpose"><ul class="plain">${data.left_out.map((entry) => html`<li><${Kind} kind=${entry.kind} /> <${Link} href=${recordHref(entry)}><${Name} value=${entry.id} /><//> <span class="muted"><${Text} kind="small" value=${entry.reason} /></span></li>`)}</ul><//>`}
    <ol class="stack hits">${data.dropped.map((hit) => html`<li key=${hit.record.seq}><${Hit} hit=${hit} top=${top} reason=${whyDropped(hit)} /></li>`)}</ol>
  </div>`;
}

function Block({ block }) {
  return html`<${Card} title="The block for a prompt" note=${`${formatNumber(block.tokens)} of ${formatNumber(BLOCK_TOKENS)} tokens`} action=${html`<${Copy} text=${block.text} />`}>
    <pre class="block" tabindex="0" aria-label="The block"><${Text} kind="mono" value=${block.text} max=${20_000} links=${false} /></pre>
  <//>`;
}
