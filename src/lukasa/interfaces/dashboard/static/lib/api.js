// Requests to the API of this server. A refusal or an error is thrown as a Problem; the cookie carries the token.
import { createContext, useContext, useEffect, useRef, useState } from "./html.js";

export class Problem extends Error {
  // status, code (stable), detail (a sentence), next (what to do), details (an object or null)
  constructor(fields) {
    super(fields.detail || fields.title || "The server did not answer.");
    Object.assign(this, { code: "unknown", next: null, details: null, ...fields });
  }
}

const handlers = { unauthorized: () => {} };
const reads = new Map(); // the GET requests behind the page that is shown, for its links to JSON

export function onUnauthorized(handler) {
  handlers.unauthorized = handler;
}

export function listReads() {
  return [...reads.keys()];
}

export function forgetReads() {
  reads.clear();
}

// url("/v1/records", {kind: ["a", "b"], limit: 5, scope: undefined}) leaves out what is undefined, null or "".
export function url(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== "") query.append(name, String(item));
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

// path("/v1/records", scope, kind, id) encodes each name, slashes included.
export function path(base, ...names) {
  return [base, ...names.map((name) => encodeURIComponent(name))].join("/");
}

// send(method, address, body?, {ifMatch, signal, key}) returns {data, etag}.
// Every write carries an Idempotency-Key, so a repeated request is done once.
export async function send(method, address, body, options = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (options.ifMatch) headers["If-Match"] = options.ifMatch;
  if (method !== "GET" && options.key !== false) headers["Idempotency-Key"] = options.key || crypto.randomUUID?.() || `${Date.now()}-${Math.random()}`;
  let response;
  try {
    response = await fetch(address, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: options.signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, code: "unreachable", detail: "The server cannot be reached.", next: "Check that `lukasa serve` is running, then try again." });
  }
  const text = await response.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = null;
  }
  if (!response.ok) {
    const problem = new Problem({ status: response.status, ...(data || {}) });
    if (response.status === 401 && address !== "/login") handlers.unauthorized(problem);
    throw problem;
  }
  return { data, etag: response.headers.get("ETag") };
}

export async function get(address, params, options) {
  return (await send("GET", url(address, params), undefined, options)).data;
}

export async function post(address, body = {}, options) {
  return (await send("POST", address, body, options)).data;
}

export async function patch(address, body, options) {
  return (await send("PATCH", address, body, options)).data;
}

export async function put(address, body = {}, options) {
  return (await send("PUT", address, body, options)).data;
}

export async function del(address, params, options) {
  return (await send("DELETE", url(address, params), undefined, options)).data;
}

// useApi(address, params) reads on mount and when the address changes; null as the address reads nothing.
// Returns {data, etag, error, loading, reload}. The data of before stays while the new is read, so nothing jumps.
export function useApi(address, params) {
  const target = address === null ? null : url(address, params);
  const [state, setState] = useState({ data: null, etag: null, error: null, loading: target !== null, target: null });
  const [count, setCount] = useState(0);
  const shown = useRef(null);
  useEffect(() => {
    if (target === null) {
      setState({ data: null, etag: null, error: null, loading: false, target });
      return undefined;
    }
    const abort = new AbortController();
    reads.set(target, true);
    setState((old) => ({ ...old, loading: true, error: null }));
    send("GET", target, undefined, { signal: abort.signal }).then(
      ({ data, etag }) => setState({ data, etag, error: null, loading: false, target }),
      (error) => {
        if (error.name !== "AbortError") setState((old) => ({ ...old, error, loading: false, target }));
      },
    );
    return () => abort.abort();
  }, [target, count]);
  shown.current = state;
  return { ...state, reload: () => setCount((value) => value + 1) };
}

// usePost(address, body) is useApi for questions that are asked by POST, such as /v1/recall. null asks nothing.
export function usePost(address, body) {
  const target = body === null ? null : JSON.stringify(body);
  const [state, setState] = useState({ data: null, error: null, loading: target !== null });
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (target === null) {
      setState({ data: null, error: null, loading: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((old) => ({ ...old, loading: true, error: null }));
    send("POST", address, JSON.parse(target), { signal: abort.signal, key: false }).then(
      ({ data }) => setState({ data, error: null, loading: false }),
      (error) => {
        if (error.name !== "AbortError") setState((old) => ({ ...old, error, loading: false }));
      },
    );
    return () => abort.abort();
  }, [address, target, count]);
  return { ...state, reload: () => setCount((value) => value + 1) };
}

// Who is signed in: {token, agent, access: "owner" | "write" | "read", reads, writes, version}.
export const CallerContext = createContext(null);

export function useCaller() {
  const caller = useContext(CallerContext);
  return {
    ...caller,
    isOwner: caller?.access === "owner",
    canWrite: caller?.access === "owner" || caller?.access === "write",
    mayWrite: (scope) => caller?.writes === null || Boolean(caller?.writes?.includes(scope)),
  };
}
