// The memory window, by wall time: which markers are kept, where the window of each generation
// starts, how far markers were forgotten, and how near forgetting, or the alarm, is. It is the
// picture of the three cases of a READ, live.
//
// An outage does not age a marker, and this axis is wall time: after one, the distance to the limit
// is right at "now" and grows no wider before it.

import { fill, h, s } from "./dom.js";
import { bar } from "./generations.js";
import { clock, duration, ms, number, percent } from "./words.js";

const TAKES_READS = ["open", "source_finished", "topic_consumed", "caught_up", "unsafe"];
const GUTTER = 48;
const ROW = 30;
const TOP = 40;

/** What the picture stands on, in ms; null where it is not known. */
export function facts(status) {
  const { retention } = status;
  const now = ms(status.at);
  const marginMs = retention.start_margin_seconds * 1000;
  const forgotten = ms(retention.forgotten_through);
  const takers = status.generations.filter((one) => TAKES_READS.includes(one.stage));
  const rows = status.generations.slice(-5).map((one) => {
    const takes = TAKES_READS.includes(one.stage);
    const opened = ms(one.opened_at);
    const began = ms(one.began?.at) ?? opened;
    const told = takes && takers.length === 1 ? ms(retention.window_started_at) : null;
    const start = told ?? (began === null ? null : began - marginMs);
    const last = one.timeline.at(-1);
    return { id: one.id, stage: one.stage, takes, opened, began, start,
      end: takes ? now : ms(last?.at) ?? now,
      risk: one.stage === "unsafe" || (takes && forgotten !== null && start !== null
        && forgotten >= start) };
  }).filter((row) => row.start !== null);
  const used = retention.window_seconds;
  const ratio = retention.used_ratio;
  const allowed = retention.ttl_seconds ?? (ratio > 0 ? used / ratio : null);
  const leftMs = used !== null && allowed !== null ? (allowed - used) * 1000 : null;
  const { budget } = retention;
  const needed = budget && used !== null
    ? now + (budget.needed_seconds - budget.elapsed_seconds) * 1000 : null;
  const known = [ms(status.run?.started_at), ...rows.map((row) => row.start)];
  const first = Math.min(now, ...known.filter((moment) => moment !== null));
  return { now, forgotten, rows, ratio, leftMs, needed, marginMs, since: forgotten ?? first,
    limit: leftMs === null ? null : now + leftMs, ttl: retention.policy === "ttl" };
}

/** From when to when the axis goes: moments far off are left to an arrow. */
export function axis(of) {
  const starts = of.rows.map((row) => row.start);
  const near = Math.min(of.now - 60_000, ...(starts.length ? starts : [of.since]));
  const span = of.now - near;
  const within = (moment, times) => moment !== null && Math.abs(moment - of.now) <= span * times;
  const from = [near, of.since].filter((moment) => within(moment, 3));
  const to = [of.now, of.limit, of.needed].filter((moment) => within(moment, 2));
  const [first, last] = [Math.min(...from), Math.max(...to)];
  const pad = (last - first) * 0.06;
  return { first: first - pad, last: last + pad };
}

const STEPS = [5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800,
  604_800, 2_592_000].map((seconds) => seconds * 1000);

function grid({ first, last }, x, width, bottom) {
  const fits = Math.max(2, Math.floor(width / 110));
  const step = STEPS.find((one) => (last - first) / one <= fits) ?? STEPS.at(-1);
  const lines = [];
  for (let moment = Math.ceil(first / step) * step; moment <= last; moment += step) {
    lines.push(s("line", { class: "grid", x1: x(moment), x2: x(moment), y1: TOP - 6, y2: bottom }),
      s("text", { class: "quiet", x: x(moment), y: bottom + 15,
        "text-anchor": x(moment) > x(last) - 30 ? "end" : "middle" }, clock(moment, last)));
  }
  return lines;
}

function row(one, index, x) {
  const y = TOP + ROW * (index + 1);
  const kind = one.risk ? "risk" : one.takes ? "" : "over";
  const [start, began, end] = [x(one.start), x(one.began), x(one.end)];
  return s("g", { class: kind, "data-window": one.id, "data-risk": String(one.risk) },
    s("text", { x: 0, y: y + 14 }, one.id),
    s("rect", { class: "margin", x: start, y: y + 4, width: Math.max(0, began - start),
      height: 12 }),
    s("rect", { class: "window", x: began, y, width: Math.max(2, end - began), height: 20, rx: 3 }),
    s("line", { class: "tick", x1: start, x2: start, y1: y - 2, y2: y + 22 }),
    s("text", { class: one.risk ? "bad" : "", x: Math.max(began, GUTTER) + 6, y: y + 14 },
      one.risk ? "behind: its READs may be stale" : one.stage.replaceAll("_", " ")));
}

/** A vertical line with its words above; off the axis, an arrow at the edge. */
function mark(kind, moment, text, { first, last }, x, bottom, y) {
  // About as wide as it is drawn.
  const wide = (text.length + 12) * 7;
  if (moment === null) return null;
  const off = moment > last ? "→ " : moment < first ? "← " : "";
  const place = x(Math.min(last, Math.max(first, moment)));
  const fits = kind === "nowline" ? place - wide < GUTTER : place + wide < x(last);
  const anchor = fits ? "start" : "end";
  const shift = anchor === "end" ? -5 : 5;
  const color = { limit: "bad", needed: "warn" }[kind] ?? "";
  return s("g", { "data-mark": kind },
    off ? null : s("line", { class: kind, x1: place, x2: place, y1: y - 10, y2: bottom }),
    s("text", { class: color, x: place + shift, y, "text-anchor": anchor },
      `${off}${text} ${clock(moment, last)}`));
}

function picture(of, width) {
  const range = axis(of);
  const x = (moment) => GUTTER + (width - GUTTER) * (moment - range.first)
    / (range.last - range.first);
  const edge = (moment) => x(Math.min(range.last, Math.max(range.first, moment)));
  const bottom = TOP + ROW * (of.rows.length + 1);
  const since = edge(of.since);
  return s("svg", { viewBox: `0 0 ${width} ${bottom + 20}`, role: "img",
    "aria-labelledby": "memory-said" },
    grid(range, x, width - GUTTER, bottom),
    of.forgotten === null ? null : s("rect", { class: "gone", "data-band": "forgotten", x: GUTTER,
      y: TOP, width: Math.max(0, since - GUTTER), height: 20 }),
    s("rect", { class: "kept", "data-band": "kept", x: since, y: TOP,
      width: Math.max(2, edge(of.now) - since), height: 20 }),
    s("text", { x: since + 6, y: TOP + 14 }, "markers kept"),
    of.forgotten !== null && since - GUTTER > 64
      ? s("text", { class: "bad", x: since - 6, y: TOP + 14, "text-anchor": "end" }, "forgotten")
      : null,
    of.rows.map((one, index) => row({ ...one, start: Math.max(one.start, range.first),
      began: Math.max(one.began, range.first), end: Math.max(one.end, range.first) }, index, x)),
    mark("nowline", of.now, "now", range, x, bottom, 12),
    mark("limit", of.limit, of.ttl ? "forgetting" : "alarm", range, x, bottom, 26),
    mark("needed", of.needed, "needed until", range, x, bottom, of.limit === null ? 26 : 12));
}

/** The picture in words. */
export function words(of, retention) {
  const said = [of.forgotten === null ? "No marker was forgotten."
    : `Markers are kept since ${clock(of.forgotten, of.now)}; what was before is forgotten.`];
  for (const one of of.rows.filter((row) => row.takes)) {
    said.push(`The window of ${one.id} starts at ${clock(one.start, of.now)}: its snapshot’s begin `
      + `less the margin of ${duration(of.marginMs / 1000)}.`);
  }
  if (of.leftMs !== null) {
    const what = of.ttl ? "markers of the window are forgotten" : "an alarm is raised";
    said.push(of.leftMs > 0 ? `${duration(of.leftMs / 1000)} are left until ${what}.`
      : `The window is used up by ${duration(-of.leftMs / 1000)}: ${what} now.`);
  }
  const { budget } = retention;
  if (budget) {
    const rate = budget.rows_per_second === null ? ""
      : ` at ${number(budget.rows_per_second)} READs a second (${budget.rate_from})`;
    const rows = budget.rows_left === null ? "" : `; ${number(budget.rows_left)} READs are left`;
    said.push(`Needed: ${duration(budget.needed_seconds)} with factor and margin${rows}${rate}.`);
    if (of.limit !== null && of.needed !== null && of.needed > of.limit) {
      said.push(of.ttl ? "That is more than markers are kept."
        : "The alarm will be raised before, and no marker is forgotten.");
    }
  }
  return said.join(" ");
}

function cases(status, of) {
  const { reads } = status;
  const count = (value) => (reads ? number(value) : "not known");
  const held = reads ? Object.entries(reads.quarantined).filter(([why]) => why === "forgotten")
    .reduce((sum, [, value]) => sum + value, reads.emitted_unsafe) : 0;
  const behind = of.rows.some((row) => row.risk);
  return h("ul", { class: "cases" },
    h("li", { "data-case": "inside" }, h("b", {}, "Inside: "), "a newer mutation of the key is "
      + `remembered, so its READ is dropped. ${count(reads?.dropped?.marker ?? 0)} so far.`),
    h("li", { "data-case": "ahead" }, h("b", {}, "Ahead: "), "no newer mutation was read yet, so "
      + `the READ is emitted, and the mutation comes after it. ${count(reads?.emitted)} emitted.`),
    h("li", { "data-case": "behind", "data-on": String(behind) },
      h("b", { class: behind ? "bad" : "" }, "Behind: "), behind
        ? "markers of a window were forgotten, so a READ without a marker may be stale and is kept "
          + `back. ${count(held)} so far.`
        : `no marker of an open window was forgotten. ${count(held)} READs were kept back.`));
}

/** Shows the window. */
export function memory(node, status) {
  if (!status.retention) {
    fill(node, null, () => h("p", { class: "quiet" }, "Not known."));
    return;
  }
  const of = facts(status);
  const width = Math.max(320, node.clientWidth);
  fill(node, [of, width, status.reads, status.retention], () => {
    const mood = of.ratio >= 0.95 ? "bad" : of.ratio >= 0.8 ? "warn" : "";
    const used = of.ratio === null ? null : [
      h("p", { class: `small ${mood}`, "data-used": percent(of.ratio) },
        `${percent(of.ratio)} of the window is used`
        + ` (${of.ttl ? "then markers are forgotten" : "then an alarm is raised"})`),
      bar(of.ratio, "window used", mood)];
    return [picture(of, width), h("p", { class: "small", id: "memory-said" },
      `Markers: ${status.retention.keeps}. ${words(of, status.retention)}`),
    used, cases(status, of)];
  });
}
