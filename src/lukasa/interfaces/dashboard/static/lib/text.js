// Stored text is shown as text nodes alone. Characters that a reader cannot see are shown as marks.
import { html, useState } from "./html.js";

// Invisible, directional and control characters, tags and variation selectors; tab and line feed stay.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e0fff}]|[\u{1bca0}-\u{1bca3}]|[\u{1d173}-\u{1d17a}]|\p{Co}|\p{Cs}/gu;
const ADDRESS = /https?:\/\/[^\s<>"'`{}|\\^]+[^\s<>"'`{}|\\^.,;:!?)\]]/gu;
const NAMES = {
  0x200b: "zero width space", 0x200c: "zero width non-joiner", 0x200d: "zero width joiner", 0x200e: "left-to-right mark",
  0x200f: "right-to-left mark", 0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding", 0x202c: "end of direction",
  0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate",
  0x2068: "first strong isolate", 0x2069: "end of isolate", 0xfeff: "byte order mark", 0x00ad: "soft hyphen", 0x1b: "escape",
};
const JOINS_EMOJI = /\p{Extended_Pictographic}\ufe0f?[\u{1f3fb}-\u{1f3ff}]?$/u;

function mark(char) {
  const code = char.codePointAt(0);
  const name = code.toString(16).toUpperCase().padStart(4, "0");
  const said = NAMES[code] || "invisible character";
  return html`<span class="mark" title=${`U+${name}, ${said}`}>U+${name}</span>`;
}

// Return the nodes for a text: plain strings, and marks for what cannot be seen. A joiner inside an emoji stays.
export function showHidden(text) {
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(HIDDEN)) {
    const char = found[0];
    if (char === "\u200d" && JOINS_EMOJI.test(text.slice(0, found.index)) && /^\p{Extended_Pictographic}/u.test(text.slice(found.index + 1))) continue;
    if (found.index > last) nodes.push(text.slice(last, found.index));
    nodes.push(mark(char));
    last = found.index + char.length;
  }
  if (last < text.length) nodes.push(text.slice(last));
  return nodes;
}

// Return a text for places that take no nodes, such as options, titles and labels: what cannot be seen is named.
export function nameHidden(text) {
  return String(text ?? "").replace(HIDDEN, (char) => `[U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

// Return an address that is safe to follow, or null: http and https alone.
export function safeUrl(text) {
  try {
    const parsed = new URL(text);
    return parsed.protocol === "http:" || parsed.protocol === "https:" ? parsed.href : null;
  } catch {
    return null;
  }
}

function withLinks(text) {
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(ADDRESS)) {
    const href = HIDDEN.test(found[0]) ? null : safeUrl(found[0]);
    HIDDEN.lastIndex = 0;
    if (href === null) continue;
    nodes.push(...showHidden(text.slice(last, found.index)));
    nodes.push(html`<a href=${href} rel="noopener noreferrer nofollow" target="_blank">${found[0]}</a>`);
    last = found.index + found[0].length;
  }
  nodes.push(...showHidden(text.slice(last)));
  return nodes;
}

function clip(text, max) {
  if (text.length <= max) return text;
  const cut = text.slice(0, max);
  return cut.slice(0, Math.max(cut.lastIndexOf(" "), max - 40)).replace(/[\ud800-\udbff]$/, "");
}

// <Text value=… /> shows a stored text: folded after `max` characters, links for http(s), direction isolated.
// `links=false` inside another link or button; `kind="mono"` for JSON and code.
export function Text({ value, max = 400, links = true, kind = "" }) {
  const [open, setOpen] = useState(false);
  const text = typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value, null, 1);
  const folded = !open && text.length > max;
  const shown = folded ? clip(text, max) : text;
  return html`<span class=${`text ${kind}`} dir="auto">${links ? withLinks(shown) : showHidden(shown)}${folded && "…"}${
    text.length > max && links
      ? html` <button type="button" class="more" aria-expanded=${open} onClick=${() => setOpen(!open)}>
          ${open ? "less" : `more (${(text.length - shown.length).toLocaleString()} characters)`}
        </button>`
      : null
  }</span>`;
}

// <Name value=… /> shows an id, an author, a scope or another short stored word on one line.
export function Name({ value, max = 80 }) {
  const text = String(value ?? "");
  return html`<bdi class="name" title=${text.length > max ? nameHidden(text.slice(0, 400)) : undefined}>${showHidden(text.length > max ? `${text.slice(0, max)}…` : text)}</bdi>`;
}
