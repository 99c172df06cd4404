// Live: what is written, as it is written. A stream that breaks goes on after the last event it brought.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { get, url, useApi } from "../lib/api.js";
import { recordHref, useQuery } from "../lib/router.js";
import { Name, Text } from "../lib/text.js";
import { formatCount, formatNumber, Time } from "../lib/time.js";
import { Badge, Button, Card, Empty, Field, Kind, kindLabel, Notice, Page as Frame, Select, Table } from "../lib/ui.js";
import { summarise } from "../lib/parts.js";

export const title = "Live";
export const path = "/live";

const KEPT = 500;
const BACK = 100;
const STATES = { connecting: ["warn", "connecting"], open: ["good", "live"], waiting: ["warn", "connection lost, trying again"], paused: ["", "paused"], ended: ["bad", "ended"] };

export function Page() {
  const [query, setQuery] = useQuery();
  const stats = useApi("/v1/stats");
  const [paused, setPaused] = useState(false);
  const stream = useEvents({ kind: query.kind, scope: query.scope, start: stats.data?.position, paused });
  const words = (query.words || "").toLowerCase();
  const rows = useMemo(() => stream.rows.filter((row) => !words || `${row.text} ${row.id} ${row.author}`.toLowerCase().includes(words)), [stream.rows, words]);
  useLayoutEffect(() => {
    const listener = (event) => {
      if (event.detail !== "p") return;
      event.preventDefault();
      setPaused((value) => !value);
    };
    window.addEventListener("lukasa-key", listener);
    return () => window.removeEventListener("lukasa-key", listener);
  }, []);
  const options = (name) => [["", "all"], ...[...new Set((stats.data?.records || []).map((row) => row[name]))].sort().map((value) => [value, name === "kind" ? kindLabel(value) : value])];
  const [tone, said] = STATES[stream.state];
  const columns = [
    { key: "what", label: "What", wide: true, render: (row) => html`<span class="narrow-only"><${Kind} kind=${row.kind} /> <span class="muted">${row.event}</span></span><${Text} value=${summarise(row)} max=${140} links=${false} kind=${row.text ? "small" : "plain"} />` },
    { key: "event", label: "Event", narrow: false, render: (row) => html`<${Badge} tone=${{ created: "good", updated: "info", deleted: "bad" }[row.event]}>${row.event}<//>` },
    { key: "kind", label: "Kind", narrow: false, render: (row) => html`<${Kind} kind=${row.kind} />` },
    { key: "author", label: "By", narrow: false, render: (row) => html`<${Name} value=${row.author || "owner"} max=${24} />` },
    { key: "scope", label: "Scope", narrow: false, render: (row) => html`<${Name} value=${row.scope} max=${24} />` },
    { key: "at", label: "When", align: "end", render: (row) => html`<${Time} at=${row.recorded_at} />` },
  ];
  const empty = html`<${Empty} title=${stream.rows.length ? "No event has these words." : "Nothing was written yet."}>${stream.rows.length ? "Change the filter." : "Leave the page open; what agents write appears here by itself."}<//>`;
  return html`<${Frame} title=${title} lead="What agents write, as they write it." loading=${stats.loading && stats.data === null}
    actions=${html`<${Badge} tone=${tone}><span role="status">${said}</span><//><${Button} onClick=${() => setPaused(!paused)} aria-pressed=${paused}>${paused ? "Resume" : "Pause"} <kbd>p</kbd><//>`}>
    ${stats.error && html`<${Notice} problem=${stats.error} retry=${stats.reload} />`} ${stream.problem && html`<${Notice} tone="warn" title="The stream has ended.">${stream.problem}<//>`}
    <div class="filters">
      <${Select} label="Kind" inline=${false} value=${query.kind || ""} onChange=${(kind) => setQuery({ kind })} options=${options("kind")} />
      <${Select} label="Scope" inline=${false} value=${query.scope || ""} onChange=${(scope) => setQuery({ scope })} options=${options("scope")} />
      <${Field} label="Words">${(id) => html`<input id=${id} type="search" value=${query.words || ""} maxlength="200" onInput=${(event) => setQuery({ words: event.target.value })} />`}<//>
    </div>
    <${Card} title="Events" note=${`newest first, position ${formatNumber(stream.position)}`} flush>
      <${Table} label="Events" columns=${columns} rows=${rows} rowKey=${(row) => row.seq} href=${(row) => recordHref(row)} pageSize=${25} loading=${stream.state === "connecting"} empty=${empty} />
    <//>
    <p class="muted">At most ${formatCount(KEPT, "event")} are kept on this page. The log keeps all of them.</p>
  <//>`;
}

// Read the events of before once, then those that come. `paused` closes the stream; it goes on after the last position.
function useEvents({ kind, scope, start, paused }) {
  const [rows, setRows] = useState([]);
  const [state, setState] = useState("connecting");
  const [problem, setProblem] = useState("");
  const position = useRef(null);
  const add = (found) =>
    setRows((old) => {
      const seen = new Set(old.map((row) => row.seq));
      return [...found.filter((row) => !seen.has(row.seq)).reverse(), ...old].slice(0, KEPT);
    });
  const named = (record) => ({ ...record, event: record.deleted ? "deleted" : record.version === 1 ? "created" : "updated" });
  useEffect(() => {
    position.current = null;
    setRows([]);
  }, [kind, scope]);
  useEffect(() => {
    if (start === undefined) return undefined;
    if (paused) {
      setState("paused");
      return undefined;
    }
    let source = null;
    let gone = false;
    const open = () => {
      source = new EventSource(url("/v1/events", { kind, scope, after: position.current }));
      source.onopen = () => setState("open");
      source.onerror = () => {
        if (source.readyState === EventSource.CLOSED) {
          setState("ended");
          setProblem("The server closed the stream. Sign in again, or reload the page.");
        } else setState("waiting"); // the browser connects again and sends the last position
      };
      const take = (event) => {
        position.current = Number(event.lastEventId);
        add([{ ...JSON.parse(event.data), event: event.type }]);
      };
      for (const name of ["created", "updated", "deleted"]) source.addEventListener(name, take);
      source.addEventListener("problem", (event) => {
        source.close();
        setState("ended");
        setProblem(JSON.parse(event.data).detail);
      });
    };
    const begin = async () => {
      setState("connecting");
      if (position.current === null) {
        const page = await get("/v1/events", { kind, scope, after: Math.max(0, start - BACK), limit: 1000 });
        if (gone) return;
        add(page.events.slice(-BACK).map(named));
        position.current = page.position;
      }
      open();
    };
    begin();
    return () => {
      gone = true;
      source?.close();
    };
  }, [kind, scope, start, paused]);
  return { rows, state, problem, position: position.current ?? start ?? 0 };
}
