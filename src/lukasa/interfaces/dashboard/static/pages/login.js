// Sign in: a token is sent once and becomes a cookie that no script can read.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { post } from "../lib/api.js";
import { navigate, useQuery } from "../lib/router.js";
import { Field } from "../lib/ui.js";

export const title = "Sign in";
export const path = "/login";

export function Page({ signIn }) {
  const [query] = useQuery();
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const input = useRef(null);
  useEffect(() => {
    document.title = "Sign in · Lukasa";
    input.current.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post("/login", { token: input.current.value }, { key: false });
      await signIn();
      const next = query.next || "/";
      navigate(next.startsWith("/") && !next.startsWith("//") ? next : "/", { replace: true });
    } catch (error) {
      setProblem(error);
      input.current.select();
    } finally {
      setBusy(false);
    }
  };
  return html`<main class="login" id="main">
    <form onSubmit=${submit}>
      <h1>Lukasa</h1>
      <p class="lead">What your agents remember, why, and whom to believe.</p>
      <${Field} label="Token" error=${problem?.message}>
        ${(id) => html`<input id=${id} ref=${input} type="password" autocomplete="current-password" spellcheck="false" required maxlength="1000" aria-invalid=${Boolean(problem)} />`}
      <//>
      <button class="button primary" disabled=${busy} aria-busy=${busy}>Sign in</button>
      <p class="muted">The server prints the file with the owner’s token when it starts. For an agent, or a person who works as one: <code>lukasa --agent ada token add ada-laptop</code></p>
    </form>
  </main>`;
}
