import { html } from "../lib/html.js";
import { Empty, Page as Frame } from "../lib/ui.js";

export const title = "Memories";
export const path = "/memories";

export function Page() {
  return html`<${Frame} title=${title}><${Empty} title="This page is being built." /><//>`;
}
