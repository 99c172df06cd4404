// Forecasts: are the probabilities right? Reliability diagram, Brier score by window, and the predictions that are open.
import { html, useState } from "../lib/html.js";
import { path as join, put, useApi, useCaller } from "../lib/api.js";
import { useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, formatNumber, formatPercent, Time } from "../lib/time.js";
import { Badge, Bars, Button, Card, Chart, Dialog, Empty, Load, Notice, Page as Frame, Select, Stat, Table, Tabs, toast } from "../lib/ui.js";
import { usePages } from "../lib/parts.js";

export const title = "Forecasts";
export const path = "/forecasts";

const DAY = 86_400;
const WINDOWS = [["", "all time"], [String(90 * DAY), "90 days"], [String(30 * DAY), "30 days"], [String(7 * DAY), "7 days"]];

export function Page() {
  const [query, setQuery] = useQuery();
  const [changed, setChanged] = useState(0);
  const filter = { window: query.window, category: query.category };
  const scores = useApi("/v1/forecasts/scores", { ...filter });
  const open = useApi("/v1/forecasts", { status: "active" });
  const pages = usePages("/v1/dashboard/records", { kind: "prediction", limit: 100 }, "records");
  const settled = { ...pages, data: pages.rows && { predictions: pages.rows.map((record) => record.body).filter((item) => item.status === "resolved").reverse() } };
  const categories = [...new Set([...(open.data?.predictions || []), ...(settled.data?.predictions || [])].map((item) => item.category).filter(Boolean))].sort();
  const reload = () => {
    scores.reload();
    open.reload();
    settled.reload();
    setChanged((value) => value + 1);
  };
  const tab = query.tab || "open";
  return html`<${Frame} title=${title} lead="What agents said would happen, and what happened." loading=${scores.loading && scores.data === null}
    actions=${html`<${Select} label="Window" value=${query.window || ""} onChange=${(value) => setQuery({ window: value })} options=${WINDOWS} /><${Select} label="Category" value=${query.category || ""} onChange=${(value) => setQuery({ category: value })} options=${[["", "all"], ...categories.map((name) => [name, name])]} />`}>
    <${Figures} state=${scores} />
    <div class="grid">
      <${Card} title="Reliability" note="do things come true as often as said?"><${Load} state=${scores} height=${330}>${(data) => html`<${Reliability} bins=${data.reliability} />`}<//><//>
      <div class="stack">
        <${Card} title="Brier score by window" note="0 is perfect, 0.25 is a coin"><${Windows} key=${changed} category=${query.category} /><//>
        <${Card} title="Correction"><${Calibration} key=${changed} window=${query.window} /><//>
      </div>
    </div>
    <${Tabs} label="Predictions" value=${tab} onChange=${(value) => setQuery({ tab: value })} tabs=${[{ key: "open", label: "Open", count: open.data?.predictions.length }, { key: "settled", label: "Settled", count: pages.more ? undefined : settled.data?.predictions.length }]}>
      ${tab === "open" ? html`<${Predictions} state=${open} isOpen category=${query.category} onChange=${reload} />` : html`<${Predictions} state=${settled} category=${query.category} onChange=${reload} />`}
    <//>
  <//>`;
}

function Figures({ state }) {
  const data = state.data;
  if (state.error) return html`<${Notice} problem=${state.error} retry=${state.reload} />`;
  const value = (show) => (data?.count ? show(data) : "–");
  return html`<div class="stats">
    <${Stat} label="Settled" value=${data ? formatNumber(data.count) : "–"} note=${value((d) => `${formatPercent(d.base_rate)} came true`)} />
    <${Stat} label="Brier score" value=${value((d) => formatNumber(d.brier_score, 3))} note="0 is perfect" />
    <${Stat} label="Skill" value=${value((d) => (d.skill === null ? "–" : formatPercent(d.skill)))} note="better than always saying the base rate" />
    <${Stat} label="Calibration error" value=${value((d) => formatNumber(d.calibration_error, 3))} note="mean distance from the diagonal" />
    <${Stat} label="Accuracy" value=${value((d) => formatPercent(d.accuracy))} note="on the right side of 50 %" />
  </div>`;
}

// Each bin of predictions as a point with its interval; a perfect forecaster lies on the diagonal.
function Reliability({ bins }) {
  if (!bins.length) return html`<${Empty} title="No settled predictions yet.">Say what you expect with <code>memory.forecasts.predict("Will it …?", 0.7)</code> and settle it with <code>resolve</code>. From about thirty on, the diagram says something.<//>`;
  const most = Math.max(...bins.map((bin) => bin.count));
  const x = (value) => 34 + 290 * value;
  const y = (value) => 300 - 290 * value;
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1];
  const columns = [
    { key: "said", label: "Said", render: (bin) => formatNumber(bin.mean_probability, 2) },
    { key: "observed", label: "Came true", align: "end", render: (bin) => formatNumber(bin.observed, 2) },
    { key: "interval", label: "95 %", align: "end", render: (bin) => `${formatNumber(bin.interval[0], 2)}–${formatNumber(bin.interval[1], 2)}` },
    { key: "count", label: "Predictions", align: "end" },
  ];
  return html`<figure class="chart">
    <svg class="diagram" viewBox="0 0 336 334" role="img" aria-label="Reliability diagram. The table below holds the same figures.">
      ${ticks.map((tick) => html`<path class="grid-line" d=${`M${x(0)} ${y(tick)}H${x(1)}M${x(tick)} ${y(0)}V${y(1)}`} /><text x=${x(tick)} y="316" text-anchor="middle">${tick}</text><text x="28" y=${y(tick) + 4} text-anchor="end">${tick}</text>`)}
      <path class="diagonal" d=${`M${x(0)} ${y(0)}L${x(1)} ${y(1)}`} />
      ${bins.map((bin) => html`<path class="whisker" d=${`M${x(bin.mean_probability)} ${y(bin.interval[0])}V${y(bin.interval[1])}`} /><circle class="bin" cx=${x(bin.mean_probability)} cy=${y(bin.observed)} r=${3.5 + 4 * Math.sqrt(bin.count / most)}><title>said ${formatNumber(bin.mean_probability, 2)}, came true ${formatNumber(bin.observed, 2)}, ${formatCount(bin.count, "prediction")}</title></circle>`)}
      <text x=${x(0.5)} y="331" text-anchor="middle">said</text>
    </svg>
    <figcaption class="muted">Height: the share that came true, with its 95 % interval. Size: the number of predictions. On the dashed line, words and outcomes agree.</figcaption>
    <details><summary>Figures as a table</summary><${Table} label="Reliability" columns=${columns} rows=${bins} rowKey=${(bin) => bin.lower} /></details>
  </figure>`;
}

function Windows({ category }) {
  const states = WINDOWS.map(([window]) => useApi("/v1/forecasts/scores", { window, category }));
  if (states.some((state) => state.error)) return html`<${Notice} problem=${states.find((state) => state.error).error} />`;
  const items = states.map((state, i) => ({ label: WINDOWS[i][1], value: state.data?.count ? state.data.brier_score : 0, text: state.data?.count ? `${formatNumber(state.data.brier_score, 3)} (${state.data.count})` : "–", title: state.data ? formatCount(state.data.count, "settled prediction") : "" }));
  return html`<div class="wide-values"><${Bars} label="Brier score by window" max=${0.25} items=${items} /></div>`;
}

function Calibration({ window }) {
  const state = useApi("/v1/forecasts/learning", { window });
  return html`<${Load} state=${state} lines=${3}>
    ${(data) => html`<p>${data.applies ? html`<${Badge} tone="info">corrected<//> New probabilities are moved by what was learned.` : html`<${Badge}>not corrected<//> `} <${Text} value=${data.why} kind="plain" /></p>
      <dl class="facts"><dt>Mean error</dt><dd>${formatNumber(data.mean_error, 3)} <span class="muted">${data.mean_error < 0 ? "things come true more often than said" : data.mean_error > 0 ? "things come true less often than said" : ""}</span></dd>
        <dt>Trend</dt><dd><${Name} value=${data.performance_trend} /></dd>
        ${data.areas_for_improvement.length > 0 && html`<dt>To improve</dt><dd><${Name} value=${data.areas_for_improvement.join(", ")} max=${200} /></dd>`}</dl>`}
  <//>`;
}

function Predictions({ state, isOpen = false, category, onChange }) {
  const caller = useCaller();
  const [chosen, setChosen] = useState(null);
  const resolve = async (item, outcome) => {
    await put(join("/v1/forecasts", item.prediction_id) + "/resolution", { outcome });
    toast(`Settled: it ${outcome ? "happened" : "did not happen"}.`);
    onChange();
  };
  const columns = [
    { key: "question", label: "Question", wide: true, render: (item) => html`<button type="button" class="link" onClick=${() => setChosen(item)}><${Text} value=${item.question} max=${160} links=${false} kind="small" /></button>` },
    { key: "probability", label: "Said", align: "end", sort: true, render: (item) => html`<strong>${formatPercent(item.probability)}</strong>${item.num_updates > 0 ? html` <span class="muted" title="revised">(${item.num_updates}×)</span>` : null}` },
    { key: "category", label: "Category", narrow: false, render: (item) => html`<${Name} value=${item.category} />`, sort: (item) => item.category },
    ...(isOpen
      ? [
          { key: "due", label: "Since", align: "end", narrow: false, render: (item) => html`<${Time} at=${item.created_at} />`, sort: (item) => item.created_at },
          ...(caller.canWrite ? [{ key: "act", label: "", align: "end", render: (item) => html`<div class="row tight end"><${Button} kind="quiet" onClick=${() => resolve(item, true)}>Happened<//><${Button} kind="quiet" onClick=${() => resolve(item, false)}>Did not<//></div>` }] : []),
        ]
      : [
          { key: "outcome", label: "Outcome", render: (item) => html`<${Badge} tone=${item.outcome ? "good" : ""}>${item.outcome ? "happened" : "did not"}<//>` },
          { key: "resolved_at", label: "Settled", align: "end", narrow: false, render: (item) => html`<${Time} at=${item.resolved_at} />`, sort: (item) => item.resolved_at },
        ]),
  ];
  const empty = isOpen
    ? html`<${Empty} title="No open predictions.">An agent makes one with <code>memory.forecasts.predict("Will it …?", 0.7)</code>.<//>`
    : html`<${Empty} title="No settled predictions yet.">Settle an open one when its outcome is known.<//>`;
  return html`<${Card} flush>
    <${Load} state=${state} lines=${5}>${(data) => html`<${Table} label=${isOpen ? "Open predictions" : "Settled predictions"} columns=${columns} rows=${[...data.predictions].filter((item) => !category || item.category === category).reverse()} rowKey=${(item) => item.prediction_id} pageSize=${20} more=${state.more} empty=${empty} />`}<//>
    ${chosen && html`<${History} item=${chosen} onClose=${() => setChosen(null)} />`}
  <//>`;
}

function History({ item, onClose }) {
  const history = useApi(join("/v1/forecasts", item.prediction_id) + "/history");
  const reasons = useApi("/v1/dashboard/records", { kind: "reasoning", limit: 200 });
  const reasoning = { data: reasons.data?.records.find((record) => record.id === item.market_id)?.body };
  return html`<${Dialog} title="Prediction" wide onClose=${onClose}>
    <p><${Text} value=${item.question} /></p>
    <${Load} state=${history} lines=${3}>
      ${(data) => html`<${Chart} label="Probability over time" height=${160} yRange=${[0, 1.05]} format=${(value) => formatPercent(value)} x=${data.versions.map((version) => Date.parse(version.last_updated) / 1000)} series=${[{ label: "probability", values: data.versions.map((version) => version.probability), tone: 1 }]} />`}
    <//>
    ${reasoning.data && html`<div><h3>Reasons</h3><${Bars} label="Factors" small max=${0.5} items=${reasoning.data.key_factors.map((factor) => ({ label: html`<${Name} value=${factor.factor} max=${60} />`, value: factor.adjustment, tone: factor.adjustment < 0 ? "bad" : "", text: (factor.adjustment > 0 ? "+" : "") + formatNumber(factor.adjustment, 2) }))} />
      <p class="muted">Base rate ${formatPercent(reasoning.data.base_rate)}. ${reasoning.data.evidence.map((item) => html`Source: <${Name} value=${item.source} max=${100} />. `)}</p></div>`}
  <//>`;
}
