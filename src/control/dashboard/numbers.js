// What is counted: the run, markers, checkpoints, READs by what became of them, the target.

import { fill, h, list, s } from "./dom.js";
import { markerChart } from "./history.js";
import { bytes, clock, duration, name, number, plural, reason } from "./words.js";

/** The run in a line. */
export function run(status) {
  const one = status.run;
  if (!one) return name(status.stage);
  const from = one.restored_from === null ? "fresh" : `from checkpoint ${one.restored_from}`;
  return [name(status.stage), `incarnation ${one.incarnation}`, plural(one.processes, "process")
    .replace("processs", "processes"), plural(one.workers, "worker"),
  `up ${duration(Math.floor(one.up_seconds))}`, from].join(" · ");
}

/** How many markers, and how large. */
export function markers(node, status) {
  fill(node, [status.at, node.clientWidth], () => {
    const one = status.markers;
    if (!one) return h("p", { class: "quiet" }, "Not known.");
    const each = one.count > 0 && one.bytes !== null ? `${(one.bytes / one.count).toFixed(1)} bytes`
      : null;
    return [h("p", { class: "figure" }, number(one.count)),
      list([["memory", bytes(one.bytes)], ["each", each],
        ["mutations read", status.mutations ? number(status.mutations.read) : null],
        ["mutations emitted", status.mutations ? number(status.mutations.emitted) : null]]),
      markerChart(Math.max(280, node.clientWidth))];
  });
}

/** Columns, one for each checkpoint, oldest first. */
function columns(values, label, said) {
  const most = Math.max(...values.map((value) => value ?? 0), Number.MIN_VALUE);
  const [width, height, step] = [300, 46, 300 / Math.max(20, values.length)];
  return h("div", {}, h("p", { class: "small quiet" }, `${label}: ${said}`),
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${said}` },
      s("line", { class: "axis", x1: 0, x2: width, y1: height - 1, y2: height - 1 }),
      values.map((value, index) => {
        const high = Math.max(1, (height - 6) * (value ?? 0) / most);
        return s("rect", { class: "column", x: (index * step).toFixed(1), y: height - 1 - high,
          width: (step * 0.7).toFixed(1), height: high });
      })));
}

/** The last checkpoint, and how those of this run grew. */
export function checkpoints(node, status, newestFirst) {
  fill(node, [status.checkpoint, newestFirst], () => {
    const last = status.checkpoint;
    if (!last) return h("p", { class: "quiet" }, "None in this run yet.");
    const all = [...newestFirst].reverse();
    const most = (values) => Math.max(0, ...values.filter((value) => value !== null));
    const [fresh, took] = [all.map((one) => one.bytes_new), all.map((one) => one.seconds)];
    return [h("p", { class: "figure" }, `number ${last.number}`),
      list([["durable at", last.at ? clock(last.at) : null], ["all of it", bytes(last.bytes)],
        ["new in it", last.bytes_new === null ? null : bytes(last.bytes_new)],
        ["took", last.seconds === null ? null : duration(last.seconds)]]),
      all.length < 2 ? null : [
        columns(fresh, "New bytes of the last checkpoints", `most ${bytes(most(fresh))}`),
        columns(took, "Seconds that they took", `most ${duration(most(took))}`)]];
  });
}

/** READs by what became of them. */
export function reads(node, status) {
  fill(node, [status.reads, status.read_control, status.ignored], () => {
    const one = status.reads;
    if (!one) return h("p", { class: "quiet" }, "Not known.");
    const some = (counts, kind) => Object.entries(counts).filter(([, count]) => count > 0)
      .map(([why, count]) => ({ kind, why, count }));
    const rows = [{ kind: "emitted", why: "", count: one.emitted },
      ...some(one.dropped, "dropped"), ...some(one.quarantined, "quarantined"),
      ...some({ "they may be stale": one.emitted_unsafe }, "emitted all the same"),
      ...some(status.ignored, "no row")];
    const control = status.read_control;
    const rate = control?.rate_set ? (control.per_second_max === null ? "without a limit, as set"
      : `at most ${number(control.per_second_max)} a second, as set`) : null;
    return [h("p", { class: "figure" }, `${number(one.read)} read`), bar(one),
      control?.paused ? h("p", { class: "warn", id: "paused" }, "READs are paused by a person.")
        : null,
      h("table", {}, h("tbody", {}, rows.map(({ kind, why, count }) => h("tr", { "data-kind": kind },
        h("td", { class: "count" }, number(count)), h("td", {}, kind),
        h("td", { class: "small" }, why ? reason(why) : ""))))),
      list([["read", rate]])];
  });
}

function bar(reads) {
  const sum = (counts) => Object.values(counts).reduce((all, count) => all + count, 0);
  const parts = [["emitted", reads.emitted], ["dropped", sum(reads.dropped)],
    ["held", sum(reads.quarantined) + reads.emitted_unsafe]];
  const all = parts.reduce((total, [, count]) => total + count, 0);
  if (all === 0) return null;
  let from = 0;
  return s("svg", { viewBox: "0 0 300 12", role: "img", "aria-label":
    parts.map(([kind, count]) => `${number(count)} ${kind}`).join(", ") },
  parts.map(([kind, count]) => {
    const width = 300 * count / all;
    from += width;
    return s("rect", { class: kind, x: from - width, y: 0, width, height: 12 });
  }));
}

/** The target. */
export function sink(node, status) {
  fill(node, status.sink, (one) => {
    if (!one) return h("p", { class: "quiet" }, "Not known.");
    const mood = { retrying: "warn", failed: "bad" }[one.state] ?? "good";
    const tries = one.attempts_failed ? `, ${plural(one.attempts_failed, "attempt")} failed` : "";
    return [h("p", { class: `figure ${mood}`, id: "sink-state" }, `${one.state}${tries}`),
      one.reason ? h("p", { class: "error" }, one.reason) : null,
      list([["kind", one.kind], ["rows written", number(one.rows_written)],
        ["behind", duration(one.behind_seconds)]])];
  });
}
