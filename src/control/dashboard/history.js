// What was seen over the last minutes: how far behind its end each topic is read, mutations and the
// snapshot apart, and how many markers there are. The page keeps it: one that is loaded begins anew.

import { fill, h, s } from "./dom.js";
import { clock, duration, ms, number } from "./words.js";

const KEPT_MS = 10 * 60_000;
/** Without an answer for so long, the line is broken. */
const GAP_MS = 5_000;
const HEIGHT = 110;
const LEFT = 80;

let seen = [];

/** Sum of the records and the greatest age over the topics of a role; null where not known. */
export function lagOf(status, role) {
  const known = (values) => values.filter((value) => value !== null && value !== undefined);
  const lags = status.lag.filter((one) => one.role === role);
  const records = known(lags.map((one) => one.records));
  const seconds = known(lags.map((one) => one.seconds));
  return { records: records.length ? records.reduce((sum, one) => sum + one, 0) : null,
    seconds: seconds.length ? Math.max(...seconds) : null };
}

/** Remembers a status, or forgets all. */
export function keep(status) {
  if (status === null) { seen = []; return; }
  const now = ms(status.at);
  seen.push({ at: now, mutations: lagOf(status, "mutations"), snapshot: lagOf(status, "snapshot"),
    markers: status.markers?.count ?? null });
  seen = seen.filter((one) => one.at > now - KEPT_MS && one.at <= now);
}

/** Pieces of the line: points that follow each other without a gap. */
export function pieces(points) {
  const found = [];
  let last = null;
  for (const point of points) {
    if (point.value === null) { last = null; continue; }
    if (last === null || point.at - last > GAP_MS) found.push([]);
    found.at(-1).push(point);
    last = point.at;
  }
  return found;
}

function chart(points, unit, width) {
  const now = points.at(-1).at;
  const from = Math.min(points[0].at, now - 60_000);
  const most = Math.max(unit === "seconds" ? 1 : 10, ...points.map((one) => one.value ?? 0));
  const x = (moment) => LEFT + (width - LEFT - 6) * (moment - from) / (now - from);
  const y = (value) => 8 + (HEIGHT - 30) * (1 - value / most);
  const label = (value) => (unit === "seconds" ? duration(value) : number(Math.round(value)));
  const levels = [0, most].map((value) => [
    s("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
    s("text", { class: "quiet", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" },
      label(value))]);
  const text = (moment, anchor) => s("text", { class: "quiet", x: x(moment), y: HEIGHT - 4,
    "text-anchor": anchor }, clock(moment, now));
  const lines = pieces(points).map((piece) => s("polyline", { class: "line", points: piece
    .map((one) => `${x(one.at).toFixed(1)},${y(one.value).toFixed(1)}`).join(" ") }));
  const values = points.map((one) => one.value).filter((value) => value !== null);
  const said = `In ${unit} since ${clock(from)}: now ${label(values.at(-1))}, most ${
    label(Math.max(...values))}`;
  return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": said },
    levels, lines, text(from, "start"), text(now, "end"));
}

/** How the count of markers went, or nothing while that is not known. */
export function markerChart(width) {
  const points = seen.map((one) => ({ at: one.at, value: one.markers }));
  return points.some((one) => one.value !== null) ? chart(points, "markers", width) : null;
}

/** Shows the lag of a role. */
export function showLag(node, status, role) {
  const lags = status.lag.filter((one) => one.role === role);
  const now = lagOf(status, role);
  const ofRole = seen.map((one) => ({ at: one.at, ...one[role] }));
  const unit = ofRole.some((one) => one.seconds !== null) ? "seconds" : "records";
  const points = ofRole.map((one) => ({ at: one.at, value: one[unit] }));
  const width = Math.max(280, node.clientWidth);
  fill(node, [lags, points, width], () => {
    if (now.records === null && now.seconds === null) {
      return h("p", { class: "quiet" }, "It is not measured, or not yet.");
    }
    return [
      h("p", { class: "figure" }, now.seconds === null ? `${number(now.records)} records`
        : duration(now.seconds)),
      h("p", { class: "small quiet" }, now.records === null ? "records not known"
        : `${number(now.records)} records are not read yet`),
      chart(points, unit, width),
      lags.length < 2 ? null : h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "topic"),
        h("th", { class: "count" }, "records"), h("th", { class: "count" }, "behind"))),
      h("tbody", {}, lags.map((one) => h("tr", {}, h("td", {}, one.topic),
        h("td", { class: "count" }, number(one.records)),
        h("td", { class: "count" }, duration(one.seconds)))))),
    ];
  });
}
