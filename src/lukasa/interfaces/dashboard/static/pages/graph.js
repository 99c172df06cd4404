import { html } from "../lib/html.js";
import { Empty, Page as Frame } from "../lib/ui.js";

export const title = "Graph";
export const path = "/graph";

export function Page() {
  return html`<${Frame} title=${title}><${Empty} title="This page is being built." /><//>`;
}
