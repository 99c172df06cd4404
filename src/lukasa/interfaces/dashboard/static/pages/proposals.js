// Proposals: what agents would change of the owner's records, with what is there now; the owner accepts or refuses.
import { html, useState } from "../lib/html.js";
import { path as join, post, useApi, useCaller } from "../lib/api.js";
import { useQuery } from "../lib/router.js";
import { RecordLink } from "../lib/parts.js";
import { Name, Text } from "../lib/text.js";
import { Time } from "../lib/time.js";
import { Badge, Button, Card, Diff, Empty, Load, Notice, Page as Frame, Tabs, toast } from "../lib/ui.js";

export const title = "Proposals";
export const path = "/proposals";

const STATES = [{ key: "open", label: "Open" }, { key: "accepted", label: "Accepted" }, { key: "refused", label: "Refused" }];
const SHOWN = 5; // changes of one proposal, before the rest is asked for

export function Page() {
  const [query, setQuery] = useQuery();
  const caller = useCaller();
  const state = STATES.some((item) => item.key === query.state) ? query.state : "open";
  const proposals = useApi("/v1/proposals", { state });
  const lead = caller.isOwner ? "What agents would change of your records. Nothing is changed until you accept it." : "Changes of the owner's records that agents asked for. The owner decides.";
  return html`<${Frame} title=${title} lead=${lead} loading=${proposals.data === null && !proposals.error}>
    <${Tabs} label="States" value=${state} onChange=${(value) => setQuery({ state: value })} tabs=${STATES}>
      <${Load} state=${proposals} lines=${6}>
        ${(data) => data.proposals.length
          ? html`<div class="stack">${data.proposals.map((proposal) => html`<${Proposal} key=${proposal.scope + proposal.id} proposal=${proposal} canDecide=${caller.isOwner && state === "open"} onDecided=${proposals.reload} />`)}</div>`
          : html`<${Empty} title=${state === "open" ? "No proposal waits." : `No proposal was ${state}.`}>An agent's change of what you said waits here until you decide.<//>`}
      <//>
    <//>
  <//>`;
}

function Proposal({ proposal, canDecide, onDecided }) {
  const [all, setAll] = useState(false);
  const [problem, setProblem] = useState(null);
  const decide = async (verb) => {
    setProblem(null);
    try {
      await post(join("/v1/proposals", proposal.id) + `/${verb}`, { scope: proposal.scope });
      toast(verb === "acceptance" ? "Accepted: the change is made." : "Refused: nothing was changed.");
      onDecided();
    } catch (error) {
      setProblem(error);
    }
  };
  const changes = all ? proposal.changes : proposal.changes.slice(0, SHOWN);
  const hidden = proposal.changes.length - changes.length;
  return html`<${Card} title=${html`<${Name} value=${proposal.by || "a caller without a name"} />`} note=${html`<${Time} at=${proposal.at} />, ${proposal.changes.length === 1 ? "one record" : `${proposal.changes.length} records`}`}>
    <p class="muted"><${Text} value=${proposal.why} max=${300} kind="small" /></p>
    <ul class="proposals">${changes.map((change) => html`<li class="proposal"><${Change} change=${change} /></li>`)}</ul>
    ${hidden > 0 && html`<${Button} kind="quiet" onClick=${() => setAll(true)}>Show ${hidden} more<//>`}
    <${Notice} problem=${problem} />
    ${canDecide && html`<div class="row"><${Button} kind="primary" disabled=${hidden > 0} onClick=${() => decide("acceptance")}>Accept<//><${Button} onClick=${() => decide("refusal")}>Refuse<//>${hidden > 0 && html`<span class="muted">Look at all changes before you accept.</span>`}</div>`}
  <//>`;
}

function Change({ change }) {
  return html`<div class="row"><${RecordLink} ...${change} /><span class="muted"><${Name} value=${`${change.kind} in ${change.scope}`} /></span>${change.deletes && html`<${Badge} tone="bad">deletes it<//>`}${!change.now && !change.deletes && html`<${Badge}>new<//>`}</div>
    ${change.deletes ? html`<p><del><${Text} value=${change.now} max=${600} /></del></p>` : change.now ? html`<${Diff} before=${change.now} after=${change.proposed} />` : html`<p><${Text} value=${change.proposed} max=${600} /></p>`}
    ${change.links.length > 0 && html`<p class="muted">Links: <${Text} value=${change.links.join("\n")} max=${300} kind="small" /></p>`}`;
}
