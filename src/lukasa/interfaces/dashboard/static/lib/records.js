// Parts that several pages need for records: a line of a list, and what is done to a record, with its undo.
import { html } from "./html.js";
import { del, path, post, send, url } from "./api.js";
import { Link, recordHref } from "./router.js";
import { Name, Text } from "./text.js";
import { Time } from "./time.js";
import { Badge, Kind, kindLabel, toast } from "./ui.js";

// The change that a version is, in one word.
export function changeOf(record) {
  return record.deleted ? "forgotten" : record.version === 1 ? "added" : "changed";
}

// <RecordLine record=…>: what it says, and below it who wrote it, where and when.
export function RecordLine({ record, isNew = false, children }) {
  return html`<li class="record-line">
    <${Link} href=${recordHref(record)} class="record-text" data-row=""><${Text} value=${record.text ? record.text.trim().replaceAll(/\s*\n\s*/g, " · ") : `${kindLabel(record.kind)} ${record.id}`} max=${220} links=${false} /><//>
    <div class="byline">
      <${Kind} kind=${record.kind} />
      ${record.author && html`<span>by <${Name} value=${record.author} max=${40} /></span>`}
      <span>in <${Name} value=${record.scope} max=${40} /></span>
      <span>${changeOf(record)} <${Time} at=${record.recorded_at} /></span>
      ${isNew && html`<${Badge} tone="info">new<//>`} ${children}
    </div>
  </li>`;
}

function recordPath(record, ...more) {
  return path("/v1/records", record.scope, record.kind, record.id, ...more);
}

// Write the content of an earlier version again.
export function restore(record, version, ifMatch) {
  return post(recordPath(record, "restoration"), { version }, { ifMatch });
}

// Forget a record; the toast takes it back.
export async function forget(record, done) {
  const address = record.kind === "memory" ? url(path("/v1/memories", record.id), { scope: record.scope }) : recordPath(record);
  const written = await del(address);
  toast("Forgotten. Its history stays.", {
    undo: async () => {
      await restore(record, record.version, written.version ? `"v${written.version}"` : undefined);
      done?.();
    },
  });
  done?.();
}

// Hide what an author wrote, and everything derived from it; the toast shows it again.
export async function quarantine(author, reason, done) {
  await post("/v1/journal/quarantines", { author, reason });
  toast(`What ${author} wrote is hidden now.`, {
    undo: async () => {
      await del(path("/v1/journal/quarantines", author));
      done?.();
    },
  });
  done?.();
}

// Save a memory's fields; returns the written record. Throws a Problem with status 412 when somebody was faster.
export async function saveMemory(memory, changes, ifMatch) {
  return (await send("PATCH", path("/v1/memories", memory.id), { scope: memory.scope, ...changes }, { ifMatch })).data;
}
