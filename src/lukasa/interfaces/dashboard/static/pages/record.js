import { html } from "../lib/html.js";
import { Empty, Page as Frame } from "../lib/ui.js";

export const title = "Record";
export const path = "/record";

export function Page() {
  return html`<${Frame} title=${title}><${Empty} title="This page is being built." /><//>`;
}
