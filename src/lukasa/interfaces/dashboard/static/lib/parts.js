// Parts that several pages share: lists that grow page by page, a person's name for decisions, values as text.
import { html, useEffect, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { recordHref, Link } from "./router.js";
import { Name } from "./text.js";
import { Field } from "./ui.js";

// usePages("/v1/dashboard/records", {kind: "episode"}, "records") reads the newest page; `more` reads the one before it.
// Returns {rows, error, loading, more, reload}; `more` is null when everything is there.
export function usePages(address, params, field) {
  const [state, setState] = useState({ rows: null, next: null, error: null, loading: true });
  const [count, setCount] = useState(0);
  const key = JSON.stringify([address, params]);
  const current = useRef(key);
  const read = async (before) => {
    setState((old) => ({ ...old, loading: true, error: null }));
    try {
      const data = await get(address, { ...params, before });
      if (current.current !== key) return;
      setState((old) => ({ rows: before ? [...(old.rows || []), ...data[field]] : data[field], next: data.next, error: null, loading: false }));
    } catch (error) {
      if (current.current === key) setState((old) => ({ ...old, error, loading: false }));
    }
  };
  useEffect(() => {
    current.current = key;
    if (address !== null) read(undefined);
  }, [key, count]);
  return { ...state, data: state.rows, more: state.next ? () => read(state.next) : null, reload: () => setCount((value) => value + 1) };
}

// A link to a record.
export function RecordLink({ scope, kind, id }) {
  return html`<${Link} href=${recordHref({ scope, kind, id })}><${Name} value=${id} max=${40} /><//>`;
}

// The name of the person who decides; the browser remembers it.
export function usePerson() {
  const [person, setPerson] = useState(localStorage.getItem("lukasa.person") || "");
  const keep = (value) => {
    setPerson(value);
    localStorage.setItem("lukasa.person", value);
  };
  return [person.trim(), html`<${Field} label="Your name" hint="It is stored with the decision.">
    ${(id) => html`<input id=${id} value=${person} maxlength="100" autocomplete="name" onInput=${(event) => keep(event.target.value)} />`}
  <//>`];
}

// A stored value as one line: text as it is, everything else as JSON.
export function asText(value) {
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

// flatten({a: {b: 1}, c: [2]}) is a Map of "a.b" → 1 and "c.0" → 2; an item with an id stands under its id.
export function flatten(value, path = "", found = new Map()) {
  const isObject = value !== null && typeof value === "object";
  const entries = isObject ? Object.entries(value) : [];
  if (!isObject || !entries.length) {
    if (path) found.set(path, value);
    return found;
  }
  if (path && typeof value.role === "string" && typeof value.content === "string") {
    return found.set(path, `${value.role}: ${value.content}`); // a turn is one thing
  }
  for (const [name, item] of entries) {
    const id = Array.isArray(value) && item && typeof item === "object" ? item.id || item.prediction_id || item.signal_id : null;
    flatten(item, path ? `${path}.${id || name}` : id || name, found);
  }
  return found;
}

// What a record says, as one line: its text, or else the words and numbers of its body.
export function summarise(record) {
  if (record.text) return record.text;
  const says = (value) => value === true || typeof value === "number" || (typeof value === "string" && value !== "" && value.length < 120 && !/^\d{4}-\d\d-\d\dT/.test(value));
  const words = [...flatten(record.body || {})].filter(([, value]) => says(value)).map(([path, value]) => `${path.split(".").at(-1).replaceAll("_", " ")} ${value}`);
  return words.length ? words.slice(0, 6).join(" · ") : record.id;
}

// Return [{path, before, after}] for everything that differs between two states.
export function compareStates(before, after) {
  const [old, now] = [flatten(before || {}), flatten(after || {})];
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort();
  return paths
    .filter((path) => JSON.stringify(old.get(path)) !== JSON.stringify(now.get(path)))
    .map((path) => ({ path, before: old.get(path), after: now.get(path) }));
}
