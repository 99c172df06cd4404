// Pages by URL over the History API. What a page shows is in the query, so every view can be shared and reloaded.
import { html, useEffect, useState } from "./html.js";

const listeners = new Set();
let guard = null; // asked before a page with unsaved changes is left

function notify() {
  for (const listener of listeners) listener();
}

window.addEventListener("popstate", notify);

export function navigate(address, { replace = false } = {}) {
  if (guard && !guard()) return;
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  notify();
}

export function setGuard(question) {
  guard = question;
}

export function useLocation() {
  const [place, setPlace] = useState({ path: location.pathname, search: location.search });
  useEffect(() => {
    const listener = () => setPlace({ path: location.pathname, search: location.search });
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return place;
}

// const [query, setQuery] = useQuery(); query.kind is a string or undefined. setQuery({kind: "x", page: null}) merges.
// Pass {push: true} when the reader should get back with the browser's back button.
export function useQuery() {
  const { search } = useLocation();
  const query = Object.fromEntries(new URLSearchParams(search));
  const setQuery = (changes, { push = false } = {}) => {
    const params = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") params.delete(name);
      else params.set(name, String(value));
    }
    const text = params.toString();
    navigate(text ? `${location.pathname}?${text}` : location.pathname, { replace: !push });
  };
  return [query, setQuery];
}

export function isPlainClick(event) {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

// A link within the dashboard. href starts with "/".
export function Link({ href, children, ...props }) {
  const follow = (event) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(href);
  };
  return html`<a href=${href} onClick=${follow} ...${props}>${children}</a>`;
}

export function recordHref(key) {
  return `/record?${new URLSearchParams({ scope: key.scope, kind: key.kind, id: key.id })}`;
}
