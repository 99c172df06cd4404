// Graph: the records that links reach from one record, drawn and as a table.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { useApi } from "../lib/api.js";
import { Link, navigate, recordHref, useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, Time } from "../lib/time.js";
import { Button, Card, Empty, Kind, kindLabel, kindTone, Load, Notice, Page as Frame, resolveColor, Select, Table } from "../lib/ui.js";

export const title = "Graph";
export const path = "/graph";

const name = (key) => JSON.stringify([key.scope, key.kind, key.id]);
const graphHref = (key) => `/graph?${new URLSearchParams({ scope: key.scope, kind: key.kind, id: key.id })}`;

export function Page() {
  const [query, setQuery] = useQuery();
  const depth = query.depth || "2";
  const limit = query.limit || "150";
  const state = useApi("/v1/graph", { scope: query.scope, kind: query.kind, id: query.id, depth, limit });
  const start = query.id ? state.data?.nodes[0] : null;
  const lead = query.id
    ? html`Around <${Link} href=${recordHref({ scope: query.scope, kind: query.kind, id: query.id })}><${Name} value=${start?.text?.split("\n")[0].slice(0, 80) || query.id} /><//>`
    : "Around the newest records that are linked. Open a record and choose “Graph” to see its own neighbourhood.";
  return html`<${Frame} title="Graph" lead=${lead} loading=${state.data === null && !state.error}
    actions=${html`<${Select} label="Steps" value=${depth} options=${["1", "2", "3", "4"].map((n) => [n, n])} onChange=${(value) => setQuery({ depth: value })} />
      <${Select} label="At most" value=${limit} options=${["50", "150", "300", "500"].map((n) => [n, `${n} records`])} onChange=${(value) => setQuery({ limit: value })} />`}>
    <${Load} state=${state} height=${420}>
      ${(data) => (data.nodes.length ? html`<${Neighbourhood} data=${data} startName=${query.id ? name(query) : null} />` : html`<${Card}><${Empty} title="Nothing is linked yet.">Links appear when something is derived: a pattern from episodes, a skill from tasks, a promotion from corroborations.<//><//>`)}
    <//>
  <//>`;
}

function Neighbourhood({ data, startName }) {
  const [chosen, setChosen] = useState(null);
  const degrees = useMemo(() => {
    const found = new Map();
    for (const edge of data.edges) for (const end of [edge.from, edge.to]) found.set(name(end), (found.get(name(end)) || 0) + 1);
    return found;
  }, [data]);
  const kinds = [...new Set(data.nodes.map((node) => node.kind))];
  const node = chosen && data.nodes.find((item) => name(item) === chosen);
  const columns = [
    { key: "text", label: "Record", wide: true, render: (row) => (row.missing ? html`<span class="muted">not readable: <${Name} value=${row.id} max=${50} /></span>` : html`<${Text} value=${row.text?.split("\n")[0] || row.id} max=${110} links=${false} />`) },
    { key: "kind", label: "Kind", sort: (row) => row.kind, render: (row) => html`<${Kind} kind=${row.kind} />` },
    { key: "degree", label: "Links", align: "end", sort: (row) => degrees.get(name(row)) || 0, render: (row) => degrees.get(name(row)) || 0 },
    { key: "distance", label: "Steps", align: "end", narrow: false, sort: (row) => row.distance, render: (row) => row.distance },
  ];
  return html`<div class="stack">
    ${data.truncated && html`<${Notice} tone="warn">There are more records than are shown. Take fewer steps, or start from another record.<//>`}
    <${Card} title=${`${formatCount(data.nodes.length, "record")}, ${formatCount(data.edges.length, "link")}`} action=${html`<p class="legend kinds">${kinds.slice(0, 8).map((kind) => html`<${Kind} kind=${kind} />`)}</p>`}>
      <${Drawing} data=${data} degrees=${degrees} startName=${startName} chosen=${chosen} choose=${setChosen} />
      <div class="chosen" aria-live="polite">
        ${node ? html`<${Kind} kind=${node.kind} /> <strong><${Text} kind="small" value=${node.text?.split("\n")[0] || node.id} max=${140} links=${false} /></strong> ${node.author && html`<span class="muted">by <${Name} value=${node.author} /></span>`} ${node.recorded_at && html`<span class="muted"><${Time} at=${node.recorded_at} /></span>`}
          <${Link} href=${recordHref(node)}>Open<//> <${Link} href=${graphHref(node)}>Start from here<//>` : html`<span class="muted">Choose a record in the drawing to read it; the table below holds the same records.</span>`}
      </div>
    <//>
    <${Card} title="The same as a table" flush><${Table} label="Records of the graph" columns=${columns} rows=${data.nodes} rowKey=${name} href=${graphHref} pageSize=${25} /><//>
    <${Card} title="Links" flush><${Table} label="Links of the graph" rows=${data.edges} pageSize=${25} columns=${[
      { key: "from", label: "From", render: (row) => html`<${Link} href=${recordHref(row.from)}>${kindLabel(row.from.kind)} <${Name} value=${row.from.id} max=${40} /><//>` },
      { key: "relation", label: "Relation", sort: (row) => row.relation, render: (row) => html`<${Name} value=${row.relation.replaceAll("_", " ")} />` },
      { key: "to", label: "To", render: (row) => html`<${Link} href=${recordHref(row.to)}>${kindLabel(row.to.kind)} <${Name} value=${row.to.id} max=${40} /><//>` },
    ]} empty=${html`<${Empty} title="No links." />`} /><//>
  </div>`;
}

// Places for the nodes: forces that pull linked nodes together and push all others apart, always the same for the same data.
export function layOut(count, edges) {
  const x = Float64Array.from({ length: count }, (_, i) => Math.sqrt(i + 0.5) * Math.cos(i * 2.399963));
  const y = Float64Array.from({ length: count }, (_, i) => Math.sqrt(i + 0.5) * Math.sin(i * 2.399963));
  const rounds = count > 300 ? 80 : 200;
  for (let round = 0; round < rounds; round++) {
    const dx = new Float64Array(count);
    const dy = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      for (let j = i + 1; j < count; j++) {
        const [ax, ay] = [x[i] - x[j], y[i] - y[j]];
        const force = 1 / Math.max(0.05, ax * ax + ay * ay);
        dx[i] += ax * force;
        dy[i] += ay * force;
        dx[j] -= ax * force;
        dy[j] -= ay * force;
      }
      dx[i] -= 0.02 * x[i];
      dy[i] -= 0.035 * y[i];
    }
    for (const [a, b] of edges) {
      const [ax, ay] = [x[b] - x[a], y[b] - y[a]];
      dx[a] += 0.09 * ax;
      dy[a] += 0.09 * ay;
      dx[b] -= 0.09 * ax;
      dy[b] -= 0.09 * ay;
    }
    const heat = 0.9 * (1 - round / rounds) + 0.02;
    for (let i = 0; i < count; i++) {
      const length = Math.hypot(dx[i], dy[i]) || 1;
      const step = Math.min(heat, length * 0.3);
      x[i] += (dx[i] / length) * step;
      y[i] += (dy[i] / length) * step;
    }
  }
  return { x, y };
}

function Drawing({ data, degrees, startName, chosen, choose }) {
  const box = useRef(null);
  const drawn = useRef(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let gone = false;
    const draw = async () => {
      const [{ default: Sigma }, { default: graphology }] = await Promise.all([import("../vendor/sigma.js"), import("../vendor/graphology.js")]);
      if (gone || !box.current) return;
      drawn.current?.kill();
      try {
        drawn.current = drawGraph(Sigma, graphology, box.current, { data, degrees, startName, choose });
        box.current.dataset.drawn = "1";
      } catch {
        setFailed(true); // no WebGL; the table holds the same
      }
    };
    draw();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    window.addEventListener("lukasa-theme", draw);
    scheme.addEventListener("change", draw);
    return () => {
      gone = true;
      window.removeEventListener("lukasa-theme", draw);
      scheme.removeEventListener("change", draw);
      drawn.current?.kill();
      drawn.current = null;
    };
  }, [data]);
  useEffect(() => {
    drawn.current?.setSetting("nodeReducer", (node, look) => (node === chosen ? { ...look, highlighted: true, size: look.size + 3 } : look));
  }, [chosen]);
  if (failed) return html`<${Notice} tone="warn">This browser cannot draw the graph. The table below holds the same records.<//>`;
  const zoom = (call) => () => drawn.current?.getCamera()[call]({ duration: 150 });
  return html`<div class="drawing">
    <div ref=${box} class="drawing-box" role="img" aria-label="Drawing of the graph. The tables below hold the same records and links."></div>
    <div class="drawing-tools"><${Button} aria-label="Nearer" onClick=${zoom("animatedZoom")}>+<//><${Button} aria-label="Farther" onClick=${zoom("animatedUnzoom")}>−<//><${Button} onClick=${zoom("animatedReset")}>All<//></div>
  </div>`;
}

function drawGraph(Sigma, graphology, box, { data, degrees, startName, choose }) {
  const colors = {};
  for (let tone = 1; tone <= 7; tone++) colors[tone] = resolveColor(box, `--tone-${tone}`);
  const [ink, line, surface] = ["--ink", "--line-strong", "--surface"].map((token) => resolveColor(box, token));
  const graph = new graphology.MultiDirectedGraph();
  const index = new Map(data.nodes.map((node, i) => [name(node), i]));
  const pairs = data.edges.map((edge) => [index.get(name(edge.from)), index.get(name(edge.to))]);
  const { x, y } = layOut(data.nodes.length, pairs);
  data.nodes.forEach((node, i) => {
    const key = name(node);
    const label = (node.text || node.id).split("\n")[0].replace(/[\p{Cc}\p{Cf}]/gu, "·");
    graph.addNode(key, { x: x[i], y: y[i], label: label.length > 28 ? `${label.slice(0, 27)}…` : label, color: node.missing ? line : colors[kindTone(node.kind)], size: (key === startName ? 12 : 6) + Math.min(8, 1.6 * Math.sqrt(degrees.get(key) || 0)) });
  });
  for (const edge of data.edges) graph.addEdge(name(edge.from), name(edge.to), { color: line, size: 2, type: "arrow" });
  const sigma = new Sigma(graph, box, {
    allowInvalidContainer: true, labelColor: { color: ink }, labelFont: getComputedStyle(box).fontFamily, labelSize: 13, labelDensity: 0.4, labelGridCellSize: 200, labelRenderedSizeThreshold: 7,
    defaultEdgeType: "arrow", stagePadding: 50, zIndex: true,
    defaultDrawNodeHover: (context, node, settings) => {
      context.font = `600 ${settings.labelSize}px ${settings.labelFont}`;
      const width = context.measureText(node.label || "").width + 12;
      context.fillStyle = surface;
      context.fillRect(node.x + node.size + 1, node.y - 11, width, 22);
      context.strokeStyle = line;
      context.strokeRect(node.x + node.size + 1, node.y - 11, width, 22);
      context.fillStyle = ink;
      context.fillText(node.label || "", node.x + node.size + 6, node.y + settings.labelSize / 3);
    },
  });
  sigma.on("clickNode", ({ node }) => choose(node));
  sigma.on("clickStage", () => choose(null));
  sigma.on("doubleClickNode", ({ node, event }) => {
    event.preventSigmaDefault();
    const [scope, kind, id] = JSON.parse(node);
    navigate(graphHref({ scope, kind, id }));
  });
  return sigma;
}
