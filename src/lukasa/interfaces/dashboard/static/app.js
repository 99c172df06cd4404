// The frame around every page: navigation, search, theme, shortcuts, and who is signed in.
import { html, render, useCallback, useEffect, useRef, useState } from "./lib/html.js";
import { CallerContext, forgetReads, get, onUnauthorized, post } from "./lib/api.js";
import { Link, navigate, useLocation } from "./lib/router.js";
import { Badge, Button, Dialog, Notice, Page, Skeleton, toast, Toasts, undoLast } from "./lib/ui.js";
import { Name } from "./lib/text.js";

// Each page is a module in pages/ that exports {title, path, Page}. `key` goes there after `g`.
export const PAGES = [
  { title: "Overview", path: "/", key: "o", group: "", load: () => import("./pages/overview.js") },
  { title: "Recall", path: "/recall", key: "r", group: "Memory", load: () => import("./pages/recall.js") },
  { title: "Memories", path: "/memories", key: "m", group: "Memory", load: () => import("./pages/memories.js") },
  { title: "Graph", path: "/graph", key: "n", group: "Memory", load: () => import("./pages/graph.js") },
  { title: "Record", path: "/record", load: () => import("./pages/record.js") },
  { title: "Sessions", path: "/sessions", key: "s", group: "Work", load: () => import("./pages/sessions.js") },
  { title: "Experience", path: "/experience", key: "e", group: "Work", load: () => import("./pages/experience.js") },
  { title: "Agents", path: "/agents", key: "a", group: "Work", load: () => import("./pages/agents.js") },
  { title: "Trust", path: "/trust", key: "t", group: "Judgement", load: () => import("./pages/trust.js") },
  { title: "Proposals", path: "/proposals", key: "d", group: "Judgement", load: () => import("./pages/proposals.js") },
  { title: "Forecasts", path: "/forecasts", key: "f", group: "Judgement", load: () => import("./pages/forecasts.js") },
  { title: "Live", path: "/live", key: "l", group: "Server", load: () => import("./pages/live.js") },
  { title: "Operations", path: "/operations", key: "p", group: "Server", load: () => import("./pages/operations.js") },
  { title: "Sign in", path: "/login", open: true, load: () => import("./pages/login.js") },
];
const GROUPS = ["", "Memory", "Work", "Judgement", "Server"];

function App() {
  const { path } = useLocation();
  const [caller, setCaller] = useState(undefined); // undefined: not known yet, null: nobody
  const [problem, setProblem] = useState(null);
  const [dialog, setDialog] = useState(null);
  const page = PAGES.find((item) => item.path === path);
  const askToSignIn = useCallback(() => {
    setCaller(null);
    if (location.pathname !== "/login") navigate(`/login?next=${encodeURIComponent(location.pathname + location.search)}`, { replace: true });
  }, []);
  const readCaller = useCallback(async () => {
    try {
      if (!(await get("/login/status")).signed_in) return askToSignIn();
      setCaller(await get("/v1/caller"));
      setProblem(null);
    } catch (error) {
      setCaller(null);
      if (error.status !== 401) setProblem(error);
    }
  }, []);
  useEffect(() => {
    onUnauthorized(askToSignIn);
    readCaller();
  }, []);
  useShortcuts({ signedIn: Boolean(caller), setDialog });
  if (page?.open) return html`<${PageModule} page=${page} signIn=${readCaller} /><${Toasts} />`;
  if (problem) return html`<${Page} title="Lukasa"><${Notice} problem=${problem} retry=${readCaller} /><//>`;
  if (!caller) return html`<div class="frame waiting" aria-busy="true"></div>`;
  return html`<${CallerContext.Provider} value=${caller}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main")?.querySelector("h1")?.focus(); }}>Skip to the page</a>
    <div class="frame">
      <${Side} path=${path} caller=${caller} setDialog=${setDialog} />
      <div class="content">
        <${Top} setDialog=${setDialog} caller=${caller} />
        ${page ? html`<${PageModule} key=${path} page=${page} />` : html`<${Page} title="There is no such page"><p>The address is not one of this dashboard. <${Link} href="/">Go to the overview.<//></p><//>`}
      </div>
    </div>
    ${dialog === "help" && html`<${Help} onClose=${() => setDialog(null)} />`}
    ${dialog === "menu" && html`<${Dialog} title="Pages" onClose=${() => setDialog(null)}><${Navigation} path=${path} onFollow=${() => setDialog(null)} /><${Theme} /><${Account} caller=${caller} /><//>`}
    <${Toasts} />
  <//>`;
}

// The module of a page, read when the page is first opened.
function PageModule({ page, ...props }) {
  const [state, setState] = useState({ page: null, Module: null, failed: null });
  useEffect(() => {
    forgetReads();
    page.load().then(
      (module) => setState({ page, Module: module.Page, failed: null }),
      (error) => setState({ page, Module: null, failed: error }),
    );
    return () => {
      document.body.dataset.moved = "1";
    };
  }, [page]);
  if (state.failed) return html`<${Page} title=${page.title}><${Notice} tone="bad" title="The page could not be read.">Reload; the server may have been updated.<//><//>`;
  if (state.page !== page) return html`<${Page} title=${page.title} loading><${Skeleton} lines=${6} /><//>`;
  return html`<${state.Module} ...${props} />`;
}

function Navigation({ path, onFollow }) {
  return html`<nav class="navigation" aria-label="Pages" onClick=${(event) => event.target.closest("a") && onFollow?.()}>
    ${GROUPS.map((group) => html`<div class="nav-group">
      ${group && html`<span class="nav-title">${group}</span>`}
      ${PAGES.filter((item) => item.group === group).map((item) => html`<${Link} href=${item.path} aria-current=${item.path === path ? "page" : undefined}>${item.title}<//>`)}
    </div>`)}
  </nav>`;
}

function Side({ path, caller, setDialog }) {
  return html`<aside class="side">
    <${Link} href="/" class="brand"><${Mark} /><span>Lukasa</span><//>
    <${Navigation} path=${path} />
    <${Account} caller=${caller} setDialog=${setDialog} />
  </aside>`;
}

function Mark() {
  return html`<svg class="brand-mark" viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
    <path d="M9 2h14c2 0 3 1 2.6 3C24 11 24 21 25.6 27c.4 2-.6 3-2.6 3H9c-2 0-3-1-2.6-3C8 21 8 11 6.4 5 6 3 7 2 9 2Z" />
    <circle class="tone-a" cx="12" cy="10" r="2.6" /><circle class="tone-b" cx="20" cy="10" r="2.6" />
    <circle class="tone-b" cx="12" cy="18" r="2.6" /><circle class="tone-c" cx="20" cy="18" r="2.6" /><circle class="tone-d" cx="16" cy="25" r="2.6" />
  </svg>`;
}

function Account({ caller }) {
  const leave = async () => {
    try {
      await post("/logout", {}, { key: false });
    } finally {
      location.assign("/login");
    }
  };
  return html`<div class="account">
    <div><${Name} value=${caller.agent || caller.token} max=${24} /> ${(caller.agent || caller.token) !== caller.access && html`<${Badge} tone=${caller.access === "read" ? "warn" : ""}>${{ owner: "owner", write: "read and write", read: "read only" }[caller.access]}<//>`}</div>
    <${Button} kind="quiet" onClick=${leave}>Sign out<//>
  </div>`;
}

function Top({ setDialog }) {
  const input = useRef(null);
  const ask = (event) => {
    event.preventDefault();
    const text = input.current.value.trim();
    if (text) navigate(`/recall?q=${encodeURIComponent(text)}`);
  };
  return html`<header class="top">
    <button type="button" class="menu-button" onClick=${() => setDialog("menu")} aria-label="Pages">☰</button>
    <form class="search" role="search" onSubmit=${ask}>
      <label class="hidden" for="search">Ask the memory</label>
      <input id="search" ref=${input} type="search" placeholder="Ask the memory" autocomplete="off" maxlength="2000" />
      <kbd aria-hidden="true">/</kbd>
    </form>
    <${Theme} />
    <button type="button" class="icon-button" onClick=${() => setDialog("help")} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">?</button>
  </header>`;
}

const THEMES = { "": "System", light: "Light", dark: "Dark" };

function Theme() {
  const [chosen, setChosen] = useState(document.documentElement.dataset.theme || "");
  const choose = (value) => {
    setChosen(value);
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
    if (value) localStorage.setItem("lukasa.theme", value);
    else localStorage.removeItem("lukasa.theme");
    window.dispatchEvent(new Event("lukasa-theme"));
  };
  return html`<label class="theme"><span class="hidden">Theme</span>
    <select value=${chosen} onChange=${(event) => choose(event.target.value)}>${Object.entries(THEMES).map(([key, text]) => html`<option value=${key} selected=${key === chosen}>${text}</option>`)}</select>
  </label>`;
}

const SHORTCUTS = [
  ["/", "Ask the memory"],
  ["u", "Take back what was just done"],
  ["j k", "Next and previous row of a table"],
  ["e", "Edit (on a record)"],
  ["?", "Show this help"],
  ["Esc", "Close a dialog, leave a field"],
];

function Help({ onClose }) {
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="shortcuts">
      ${SHORTCUTS.map(([keys, text]) => html`<dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${text}</dd>`)}
      ${PAGES.filter((item) => item.key).map((item) => html`<dt><kbd>g</kbd> <kbd>${item.key}</kbd></dt><dd>Go to ${item.title}</dd>`)}
    </dl>
  <//>`;
}

// Single keys work outside fields and dialogs. A page adds its own with the event "lukasa-key", whose detail is the key.
function useShortcuts({ signedIn, setDialog }) {
  useEffect(() => {
    if (!signedIn) return undefined;
    let afterG = 0;
    const listener = (event) => {
      const typing = event.target.closest("input, textarea, select, [contenteditable]");
      if (event.key === "Escape" && typing) typing.blur();
      if (typing || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
      const goes = Date.now() - afterG < 1500 && PAGES.find((item) => item.key === event.key);
      afterG = event.key === "g" ? Date.now() : 0;
      const actions = { "/": () => document.getElementById("search")?.focus(), "?": () => setDialog("help"), u: undoLast };
      const action = goes ? () => navigate(goes.path) : actions[event.key];
      if (action) {
        event.preventDefault();
        action();
      } else if (event.key.length === 1 && !window.dispatchEvent(new CustomEvent("lukasa-key", { detail: event.key, cancelable: true }))) {
        event.preventDefault(); // the page has used the key
      }
    };
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, [signedIn]);
}

window.addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "Problem" || event.reason?.code) {
    event.preventDefault();
    if (event.reason.status !== 401) toast(event.reason);
  }
});
render(html`<${App} />`, document.getElementById("app"));
