// The parts that pages are made of. docs/reference/dashboard.md lists them with their properties.
import { html, render, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { listReads } from "./api.js";
import { Link, navigate } from "./router.js";
import { nameHidden, showHidden, Text } from "./text.js";
import { formatNumber } from "./time.js";

const join = (...names) => names.filter(Boolean).join(" ");

// <Page title lead actions>: the frame of a page, with its only h1. Set `loading` until the first data is there.
export function Page({ title: given, lead, actions, loading = false, children }) {
  const title = nameHidden(given);
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${title} · Lukasa`;
  }, [title]);
  useEffect(() => {
    if (document.body.dataset.moved) heading.current?.focus();
  }, []);
  return html`<main id="main" class="page" aria-busy=${loading}>
    <header class="page-head">
      <div>
        <h1 ref=${heading} tabindex="-1">${showHidden(title)}</h1>
        ${lead && html`<p class="lead">${lead}</p>`}
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}
    <${Sources} done=${!loading} />
  </main>`;
}

function Sources({ done }) {
  const [list, setList] = useState([]);
  useEffect(() => {
    const timer = setTimeout(() => setList(listReads()), 400);
    return () => clearTimeout(timer);
  }, [done]);
  return html`<footer class="sources">
    ${list.length > 0 && html`<span>The data of this page as JSON:</span> ${list.map((address) => html`<a href=${address}>${showHidden(address)}</a> `)}`}
  </footer>`;
}

// <Card title action wide>: one subject of a page. `flush` for a table that touches the edges.
export function Card({ title, note, action, flush = false, wide = false, children, ...props }) {
  const id = useId();
  return html`<section class=${join("card", flush && "flush", wide && "wide")} aria-labelledby=${title ? id : undefined} ...${props}>
    ${title &&
    html`<header class="card-head">
      <h2 id=${id}>${title}</h2>
      ${note && html`<span class="muted">${note}</span>`}
      ${action && html`<div class="card-action">${action}</div>`}
    </header>`}
    <div class="card-body">${children}</div>
  </section>`;
}

// <Stat label value unit note href>: one figure.
export function Stat({ label, value, unit, note, href, tone }) {
  const inner = html`<span class="stat-label">${label}</span>
    <span class=${join("stat-value", tone)}>${value}${unit && html`<small> ${unit}</small>`}</span>
    <span class="stat-note">${note || " "}</span>`;
  return href ? html`<${Link} class="stat" href=${href}>${inner}<//>` : html`<div class="stat">${inner}</div>`;
}

// <Badge tone="good | warn | bad | info">
export function Badge({ tone = "", children, title }) {
  return html`<span class=${join("badge", tone)} title=${title}>${children}</span>`;
}

// A coloured bead for a kind of record, the same colour everywhere, and the kind in words.
const KIND_TONES = {
  memory: 1, note: 1, directive: 1, fact: 6, pattern: 6, skill: 6, antipattern: 3, episode: 2, turn: 4, context: 4, session: 4,
  checkpoint: 4, session_event: 4, session_delta: 4, prediction: 5, handoff: 5, learning: 2, corroboration: 1, cluster: 7,
};
export function kindTone(kind) {
  const known = KIND_TONES[kind];
  if (known) return known;
  let sum = 0;
  for (const char of kind) sum = (sum * 31 + char.codePointAt(0)) % 997;
  return 1 + (sum % 7);
}
export function kindLabel(kind) {
  return kind.replaceAll("_", " ");
}
export function Kind({ kind }) {
  return html`<span class="kind"><i class=${`bead tone-${kindTone(kind)}`} aria-hidden="true"></i><bdi>${showHidden(kindLabel(kind))}</bdi></span>`;
}

// <Button kind="primary | danger | quiet" busy>: shows that it works while its promise runs.
export function Button({ kind = "", busy = false, onClick, children, ...props }) {
  const [running, setRunning] = useState(false);
  const run = async (event) => {
    const result = onClick?.(event);
    if (result?.then) {
      setRunning(true);
      try {
        await result;
      } finally {
        setRunning(false);
      }
    }
  };
  const works = busy || running;
  return html`<button type="button" class=${join("button", kind)} aria-busy=${works} disabled=${works || props.disabled} onClick=${run} ...${{ ...props, disabled: works || props.disabled }}>${children}</button>`;
}

// <Field label hint error>{(id) => <input id=… />}: a labelled control.
export function Field({ label, hint, error, children, inline = false }) {
  const id = useId();
  return html`<div class=${join("field", inline && "inline")}>
    <label for=${id}>${label}</label>
    ${typeof children === "function" ? children(id) : children}
    ${hint && html`<small class="muted">${hint}</small>`} ${error && html`<small class="error" role="alert">${error}</small>`}
  </div>`;
}

// <Select label value onChange options=[["value", "label"], …]>
export function Select({ label, value, onChange, options, inline = true }) {
  return html`<${Field} label=${label} inline=${inline}>
    ${(id) => html`<select id=${id} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${nameHidden(text).slice(0, 80)}</option>`)}
    </select>`}
  <//>`;
}

// <Notice problem=… /> says what went wrong and what to do next; <Notice tone="warn" title=…>text</Notice> says anything else.
export function Notice({ problem, tone, title, children, retry }) {
  if (!problem && !title && !children) return null;
  return html`<div class=${join("notice", tone || (problem && "bad"))} role=${problem ? "alert" : undefined}>
    ${title && html`<strong>${title}</strong>`}
    ${problem && html`<p><${Text} value=${problem.message} /></p>`} ${problem?.next && html`<p class="muted">${problem.next}</p>`} ${children}
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;
}

// <Empty title action>what to do</Empty>
export function Empty({ title, children, action }) {
  return html`<div class="empty">
    <svg viewBox="0 0 48 24" width="48" height="24" aria-hidden="true"><circle cx="8" cy="12" r="5" /><circle cx="24" cy="12" r="5" /><circle cx="40" cy="12" r="5" /></svg>
    <p class="empty-title">${title}</p>
    ${children && html`<p>${children}</p>`} ${action}
  </div>`;
}

// <Skeleton lines=3 /> or <Skeleton height=180 />: the place that data will take.
export function Skeleton({ lines = 3, height }) {
  if (height) return html`<div class="skeleton block" style=${{ height: `${height}px` }} aria-hidden="true"></div>`;
  return html`<div class="skeletons" aria-hidden="true">${Array.from({ length: lines }, (_, i) => html`<div class="skeleton" style=${{ width: `${92 - ((i * 23) % 45)}%` }}></div>`)}</div>`;
}

// <Load state=${useApi(…)} lines=5>{(data) => …}</Load>: skeleton, problem or data. Old data stays while new is read.
export function Load({ state, lines = 4, height, children }) {
  if (state.error) return html`<${Notice} problem=${state.error} retry=${state.reload} />`;
  if (state.data === null) return html`<${Skeleton} lines=${lines} height=${height} />`;
  return html`<div class=${state.loading ? "stale" : ""}>${children(state.data)}</div>`;
}

// <Table label columns rows rowKey href pageSize more empty>
//   columns: [{key, label, render: (row) => node, align: "end", wide: true, narrow: false (hidden on phones), sort: (row) => value}]
//   href: (row) => address; the first column becomes a link. pageSize rows are in the document at a time.
//   more: function that reads the next page from the server, or null; loading: whether it runs.
export function Table({ label, columns, rows, rowKey, href, pageSize = 50, more, loading, empty }) {
  const [page, setPage] = useState(0);
  const [order, setOrder] = useState(null); // [column key, 1 or -1]
  const frame = useRef(null);
  const [scrolls, setScrolls] = useState(false); // a table that is wider than its frame can be scrolled with the keyboard
  const sorted = useMemo(() => {
    const column = order && columns.find((item) => item.key === order[0]);
    if (!column) return rows;
    const value = column.sort === true ? (row) => row[column.key] : column.sort;
    return [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return order[1] * (x < y || x === null ? -1 : x > y || y === null ? 1 : 0);
    });
  }, [rows, order]);
  const pages = Math.max(1, Math.ceil(sorted.length / pageSize));
  const current = Math.min(page, pages - 1);
  const shown = sorted.slice(current * pageSize, (current + 1) * pageSize);
  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    const look = () => setScrolls(frame.current !== null && frame.current.scrollWidth > frame.current.clientWidth);
    const observer = new ResizeObserver(look);
    observer.observe(frame.current);
    look();
    return () => observer.disconnect();
  }, [shown.length, current]);
  if (!rows.length && !loading) return empty || html`<${Empty} title="Nothing here yet." />`;
  const next = async () => {
    if (current < pages - 1) setPage(current + 1);
    else if (more) {
      await more();
      setPage(current + 1);
    }
  };
  const move = (event) => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || event.target.matches("input, textarea, select")) return;
    const links = [...event.currentTarget.querySelectorAll("tbody [data-row]")];
    const at = links.indexOf(document.activeElement);
    if (at >= 0 && links[at + step]) {
      event.preventDefault();
      links[at + step].focus();
    }
  };
  const cell = (column, row, first) => {
    const content = column.render ? column.render(row) : row[column.key];
    return first && href ? html`<${Link} href=${href(row)} data-row="">${content}<//>` : content;
  };
  return html`<div class="table-frame" ref=${frame} onKeyDown=${move} role=${scrolls ? "region" : undefined} aria-label=${scrolls ? label || "Table" : undefined} tabindex=${scrolls ? 0 : undefined}>
    <table>
      ${label && html`<caption class="hidden">${label}</caption>`}
      <thead>
        <tr>
          ${columns.map((column) => {
            const sort = order?.[0] === column.key ? order[1] : 0;
            return html`<th scope="col" class=${join(column.align, column.wide && "wide", column.narrow === false && "wide-only")} aria-sort=${sort ? (sort > 0 ? "ascending" : "descending") : undefined}>
              ${column.sort
                ? html`<button type="button" class="sort" onClick=${() => setOrder([column.key, sort > 0 ? -1 : 1])}>${column.label}<span aria-hidden="true">${sort > 0 ? " ↑" : sort < 0 ? " ↓" : ""}</span></button>`
                : column.label}
            </th>`;
          })}
        </tr>
      </thead>
      <tbody>
        ${shown.map((row) => html`<tr key=${rowKey ? rowKey(row) : undefined}>
          ${columns.map((column, i) => html`<td class=${join(column.align, column.wide && "wide", column.narrow === false && "wide-only")} data-label=${column.label}>${cell(column, row, i === 0)}</td>`)}
        </tr>`)}
      </tbody>
    </table>
    ${(pages > 1 || more) &&
    html`<nav class="pager" aria-label=${`Pages of ${label || "the table"}`}>
      <span class="muted">${formatNumber(current * pageSize + 1)}–${formatNumber(current * pageSize + shown.length)} of ${more ? "at least " : ""}${formatNumber(rows.length)}</span>
      <${Button} kind="quiet" disabled=${current === 0} onClick=${() => setPage(current - 1)}>Previous<//>
      <${Button} kind="quiet" disabled=${(current >= pages - 1 && !more) || loading} onClick=${next}>Next<//>
    </nav>`}
  </div>`;
}

// <Bars label items=[{label, value, text, tone, title}] max>: values as horizontal bars, each with its number.
export function Bars({ label, items, max, small = false }) {
  const top = max ?? Math.max(1e-9, ...items.map((item) => Math.abs(item.value)));
  return html`<ul class=${join("bars", small && "small")} aria-label=${label}>
    ${items.map((item) => html`<li title=${item.title}>
      <span class="bar-label">${item.label}</span>
      <span class="bar-track" aria-hidden="true"><span class=${join("bar", item.tone)} style=${{ width: `${Math.max(0, Math.min(100, (100 * Math.abs(item.value)) / top))}%` }}></span></span>
      <span class="bar-value">${item.text ?? formatNumber(item.value)}</span>
    </li>`)}
  </ul>`;
}

// <Tabs label value onChange tabs=[{key, label, count}]>content of the chosen tab</Tabs>; arrow keys move.
export function Tabs({ label, value, onChange, tabs, children }) {
  const id = useId();
  const move = (event) => {
    const at = tabs.findIndex((tab) => tab.key === value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const target = tabs[(to + tabs.length) % tabs.length];
    onChange(target.key);
    document.getElementById(`${id}-${target.key}`)?.focus();
  };
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} onKeyDown=${move}>
      ${tabs.map((tab) => html`<button type="button" role="tab" id=${`${id}-${tab.key}`} aria-selected=${tab.key === value} aria-controls=${`${id}-panel`} tabindex=${tab.key === value ? 0 : -1} onClick=${() => onChange(tab.key)}>
        ${tab.label}${tab.count !== undefined && html` <span class="count">${formatNumber(tab.count)}</span>`}
      </button>`)}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${value}`} tabindex="-1">${children}</div>
  </div>`;
}

// <Dialog title onClose actions>: a modal dialog; Escape closes it, and the focus returns to where it was.
export function Dialog({ title, onClose, actions, children, wide = false }) {
  const ref = useRef(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog.showModal();
    return () => {
      dialog.close(); // while it is open, nothing behind it takes the focus
      if (before?.isConnected) before.focus();
    };
  }, []);
  const backdrop = (event) => event.target === ref.current && onClose();
  return html`<dialog ref=${ref} class=${join("dialog", wide && "wide")} aria-labelledby=${id} onClick=${backdrop} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <div class="dialog-box">
      <header><h2 id=${id}>${title}</h2><button type="button" class="close" aria-label="Close" onClick=${onClose}>×</button></header>
      <div class="dialog-body">${children}</div>
      ${actions && html`<footer class="actions">${actions}</footer>`}
    </div>
  </dialog>`;
}

// toast("Forgotten.", {undo: async () => …}) says what was done. `u` or the button takes it back while it is shown.
// toast(problem) says what went wrong.
let toasts = [];
let toastSeen = () => {};
let toastId = 0;

export function toast(message, { undo, tone, seconds = undo ? 12 : 6 } = {}) {
  const problem = message instanceof Error ? message : null;
  const item = { id: ++toastId, text: problem ? problem.message : message, next: problem?.next, tone: tone || (problem ? "bad" : ""), undo };
  toasts = [...toasts.slice(-2), item];
  toastSeen();
  item.timer = setTimeout(() => closeToast(item.id), 1000 * (problem ? 12 : seconds));
}

function closeToast(id) {
  toasts = toasts.filter((item) => item.id !== id);
  toastSeen();
}

export async function undoLast() {
  const item = toasts.findLast((each) => each.undo);
  if (!item) return;
  closeToast(item.id);
  try {
    await item.undo();
    toast("Taken back.");
  } catch (problem) {
    toast(problem);
  }
}

export function Toasts() {
  const [, update] = useState(0);
  useEffect(() => {
    toastSeen = () => update((value) => value + 1);
  }, []);
  const stop = (item) => clearTimeout(item.timer);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map((item) => html`<div key=${item.id} class=${join("toast", item.tone)} onMouseEnter=${() => stop(item)} onFocusIn=${() => stop(item)}>
      <span>${showHidden(item.text)}${item.next && html`<small>${item.next}</small>`}</span>
      ${item.undo && html`<button type="button" class="toast-undo" onClick=${undoLast}>Undo <kbd>u</kbd></button>`}
      <button type="button" class="close" aria-label="Close" onClick=${() => closeToast(item.id)}>×</button>
    </div>`)}
  </div>`;
}

// <Copy text label>: a button that copies.
export function Copy({ text, label = "Copy" }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      toast("The browser did not allow copying; select the text instead.", { tone: "warn" });
    }
  };
  return html`<${Button} kind="quiet" onClick=${copy}>${label}<//>`;
}

const dayLabel = (at) => new Date(1000 * at).toLocaleDateString(navigator.language, { day: "numeric", month: "short" });

// <Chart label x series height unit times>: lines, bars or points by uPlot, with the same figures as a table behind it.
//   x: numbers (seconds since 1970 when `times`), series: [{label, values, kind: "line" | "bars" | "points", tone: 1…7, dash}]
//   step: seconds between bars (86400 for days); xLabel, yRange: [min, max], xRange, format: (value) => text
export function Chart({ label, x, series, height = 220, times = true, xLabel = "Time", step = 0, yRange, xRange, format = (v) => formatNumber(v) }) {
  const ref = useRef(null);
  useEffect(() => {
    if (!x.length) return undefined;
    let plot = null;
    let gone = false;
    const draw = async () => {
      const { default: UPlot } = await import("../vendor/uplot.js");
      if (gone) return;
      plot?.destroy();
      plot = new UPlot(chartOptions(UPlot), [x, ...series.map((item) => item.values)], ref.current);
    };
    const chartOptions = (UPlot) => {
      const style = getComputedStyle(ref.current);
      const color = (name) => style.getPropertyValue(name).trim();
      const resolve = (name) => resolveColor(ref.current, name);
      const axis = { stroke: resolve("--muted"), grid: { stroke: resolve("--line"), width: 1 }, ticks: { show: false }, font: `12px ${color("--sans")}` };
      return {
        width: ref.current.clientWidth || 600,
        height,
        legend: { show: series.length > 1 },
        cursor: { y: false, points: { size: 6 } },
        scales: { x: { time: times, ...((xRange || step) && { range: xRange || ((u, min, max) => [min - step * 0.6, max + step * 0.6]) }) }, y: { range: yRange || ((u, min, max) => [Math.min(0, min ?? 0), Math.max(1e-9, (max ?? 1) * 1.08)]) } },
        axes: [step ? { ...axis, incrs: [1, 2, 3, 7, 14, 28, 56, 112, 365].map((n) => n * step), ...(step === 86_400 && { splits: (u, i, min, max, incr) => x.filter((at, n) => n % Math.max(1, Math.round(incr / step)) === 0), values: (u, ticks) => ticks.map((at) => dayLabel(at)) }) } : axis, { ...axis, size: 48, values: (u, ticks) => ticks.map(format) }],
        series: [
          { label: xLabel, ...(times && { value: (u, at) => (at ? new Date(1000 * at).toLocaleDateString(navigator.language) : "") }) },
          ...series.map((item, i) => {
            const stroke = resolve(`--tone-${item.tone || i + 1}`);
            const kind = item.kind || "line";
            return {
              label: item.label,
              stroke,
              width: kind === "bars" ? 0 : 2,
              dash: item.dash,
              fill: kind === "bars" ? stroke : undefined,
              paths: kind === "bars" ? UPlot.paths.bars({ size: [0.7, 28], radius: 0.2 }) : kind === "points" ? () => null : undefined,
              points: { show: kind === "points" || (kind === "line" && x.length < 40), size: kind === "points" ? 8 : 5, fill: stroke },
              value: (u, value) => (value === null || value === undefined ? "–" : format(value)),
            };
          }),
        ],
      };
    };
    draw();
    const resize = new ResizeObserver(() => plot && ref.current && plot.setSize({ width: ref.current.clientWidth, height }));
    resize.observe(ref.current);
    const redraw = () => draw();
    window.addEventListener("lukasa-theme", redraw);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    return () => {
      gone = true;
      resize.disconnect();
      window.removeEventListener("lukasa-theme", redraw);
      scheme.removeEventListener("change", redraw);
      plot?.destroy();
    };
  }, [JSON.stringify([x, series.map((item) => [item.label, item.values, item.kind, item.tone])]), height]);
  const columns = [
    { key: "x", label: xLabel, render: (row) => row[0] },
    ...series.map((item, i) => ({ key: `s${i}`, label: item.label, align: "end", render: (row) => row[i + 1] })),
  ];
  const rows = x.map((at, i) => [times ? new Date(1000 * at).toLocaleDateString(navigator.language) : format(at), ...series.map((item) => (item.values[i] === null || item.values[i] === undefined ? "–" : format(item.values[i])))]);
  if (!x.length) return html`<${Empty} title="No figures yet." />`;
  return html`<figure class="chart">
    <div ref=${ref} class="chart-canvas" role="img" aria-label=${`Chart: ${label}. The table below holds the same figures.`} style=${{ minHeight: `${height}px` }}></div>
    <details><summary>Figures as a table</summary><${Table} label=${label} columns=${columns} rows=${rows.reverse()} pageSize=${20} /></details>
  </figure>`;
}

// Return the colour that a custom property has now, as the canvas and WebGL understand it.
export function resolveColor(element, name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

// <Diff before after>: what changed from one text to the other, word by word.
export function Diff({ before, after }) {
  const parts = useMemo(() => diffWords(String(before ?? ""), String(after ?? "")), [before, after]);
  return html`<p class="diff text" dir="auto">
    ${parts.map(([kind, text]) => (kind === 0 ? html`<span>${showHidden(text)}</span>` : kind < 0 ? html`<del>${showHidden(text)}</del>` : html`<ins>${showHidden(text)}</ins>`))}
  </p>`;
}

// Return [[−1 | 0 | 1, text], …]: removed, kept, added. Long texts are compared by line, very long ones as a whole.
export function diffWords(before, after) {
  if (before === after) return [[0, before]];
  const split = before.length + after.length > 8_000 ? /(?<=\n)/ : /(?<=\s)|(?=\s)/;
  const [a, b] = [before.split(split), after.split(split)];
  if (a.length * b.length > 4e6) return [[-1, before], [1, after]];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const parts = [];
  const push = (kind, text) => {
    if (parts.length && parts.at(-1)[0] === kind) parts.at(-1)[1] += text;
    else parts.push([kind, text]);
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push(0, a[i++]);
      j++;
    } else if (i < a.length && (j === b.length || lengths[i + 1][j] >= lengths[i][j + 1])) push(-1, a[i++]);
    else push(1, b[j++]);
  }
  return joinChanges(parts);
}

// Changes with nothing but a blank between them are one change: first what was removed, then what was added.
function joinChanges(parts) {
  const joined = [];
  let [removed, added] = ["", ""];
  const end = () => {
    if (removed) joined.push([-1, removed]);
    if (added) joined.push([1, added]);
    [removed, added] = ["", ""];
  };
  parts.forEach(([kind, text], i) => {
    if (kind < 0) removed += text;
    else if (kind > 0) added += text;
    else if (!text.trim() && (removed || added) && i < parts.length - 1) {
      removed += text;
      added += text;
    } else {
      end();
      joined.push([0, text]);
    }
  });
  end();
  return joined;
}

export { html, render, Link, navigate, Text };
