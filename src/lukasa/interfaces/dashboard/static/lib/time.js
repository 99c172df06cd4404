// Times in the reader's zone and numbers in the reader's language.
import { html, useEffect, useState } from "./html.js";

const language = navigator.language;
const absolute = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(language, { year: "numeric", month: "short", day: "numeric" });
const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "long" });
const plain = new Intl.NumberFormat(language);
const STEPS = [["year", 31_557_600], ["month", 2_629_800], ["week", 604_800], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function formatAbsolute(at) {
  return absolute.format(new Date(at));
}

export function formatDay(at) {
  return day.format(new Date(at));
}

export function formatClock(at) {
  return clock.format(new Date(at));
}

export function formatRelative(at, now = Date.now()) {
  const seconds = (new Date(at).getTime() - now) / 1000;
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  }
  return seconds > 5 ? "in a moment" : "just now";
}

export function formatNumber(value, digits) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return digits === undefined ? plain.format(value) : Number(value).toFixed(digits);
}

// formatCount(1, "record") is "1 record"; formatCount(2, "memory", "memories") is "2 memories".
export function formatCount(value, one, many = `${one}s`) {
  return `${formatNumber(value)} ${value === 1 ? one : many}`;
}

export function formatPercent(value, digits = 0) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`;
}

export function formatBytes(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${formatNumber(bytes)} bytes`;
}

export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

// One timer for all times on the page.
const shown = new Set();
setInterval(() => shown.forEach((update) => update()), 30_000);

// <Time at="2026-11-17T09:00:00Z" /> shows "2 hours ago", with the full time as its title; <Time at=… full /> the full time.
export function Time({ at, full = false }) {
  const [, update] = useState(0);
  useEffect(() => {
    const tick = () => update((value) => value + 1);
    shown.add(tick);
    return () => shown.delete(tick);
  }, []);
  if (!at) return html`<span class="muted">never</span>`;
  const exact = formatAbsolute(at);
  return html`<time datetime=${at} title=${`${exact} (${zone})`}>${full ? exact : formatRelative(at)}</time>`;
}
