// Readiness: for each generation the stages it has come through, with their time, what they stand
// on and what that leaves open, and what it waits for.

import { command, fill, h, list } from "./dom.js";
import { ACTS, STAGES, STAGE_MEANS, alone, clock, evidence, name, number, plural, reason }
  from "./words.js";

const ENDS = ["unsafe", "aborted", "superseded"];

/** The six stages, or those that were reached and the one it ended in. */
export function steps(generation) {
  const reached = new Map(generation.timeline.map((step) => [step.stage, step]));
  const ended = ENDS.includes(generation.stage);
  const stages = ended ? STAGES.filter((stage) => reached.has(stage)) : STAGES;
  const found = stages.map((stage) => ({
    stage,
    step: reached.get(stage) ?? null,
    // A stage that was passed over between two looks is behind, too.
    state: STAGES.indexOf(stage) <= STAGES.indexOf(generation.stage) || ended ? "done" : "todo",
  }));
  if (ended) {
    const step = reached.get(generation.stage) ?? null;
    return [...found, { stage: generation.stage, step, state: "ended" }];
  }
  const next = found.find((one) => one.state === "todo");
  if (next && generation.waits_for) next.state = "now";
  return found;
}

const WORDS = { done: "reached", now: "waited for", todo: "not yet", ended: "ended" };

function step({ stage, step, state }) {
  return h("li", { class: state, "aria-current": state === "now" ? "step" : null,
    "data-stage": stage },
    h("strong", {}, name(stage)), h("span", { class: "unseen" }, ` (${WORDS[state]})`),
    step ? h("p", {}, h("time", { datetime: step.at }, clock(step.at))) : null,
    h("p", {}, STAGE_MEANS[stage]),
    step?.evidence ? h("p", { class: "evidence" }, "Stands on ", evidence(step.evidence)) : null,
    step?.not_proven ? h("p", { class: "warn" }, "Not proven: ", step.not_proven) : null);
}

function waits(generation) {
  const wait = generation.waits_for;
  if (!wait) return null;
  return h("div", { class: "waits" },
    h("p", {}, h("strong", {}, "Waits for: "), wait.text),
    h("p", { class: "small" }, `${ACTS[wait.acts] ?? wait.acts} ${alone(wait.leave_alone)}`),
    wait.command ? command(wait.command, `copy-${generation.id}`) : null);
}

function progress(generation) {
  const { reads, reads_total: total } = generation;
  const parts = [`${number(reads.read)} READs read${total ? ` of ${number(total)}` : ""}`];
  if (generation.partitions) {
    parts.push(`${generation.partitions_at_end} of ${plural(generation.partitions,
      "snapshot partition")} at the end`);
  }
  if (generation.targets) {
    parts.push(`${generation.targets_reached} of ${plural(generation.targets,
      "mutation partition")} at the target`);
  }
  const part = total ? Math.min(1, reads.read / total) : null;
  return [h("p", { class: "small" }, parts.join(", ")), part === null ? null
    : bar(part, "READs read", "")];
}

/** A bar for a part of 1. */
export function bar(part, label, mood) {
  const inner = h("div", { class: mood });
  inner.style.width = `${Math.min(100, part * 100)}%`;
  return h("div", { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": 0,
    "aria-valuemax": 100, "aria-valuenow": Math.floor(part * 100) }, inner);
}

function promotion(generation) {
  const one = generation.promotion;
  if (!one) return null;
  const how = one.demoted ? `taken back at ${clock(one.demoted.at)} by ${one.demoted.by}: `
    + one.demoted.reason : one.done_at ? `done at ${clock(one.done_at)}` : "not known to be done";
  return list([["promotion", `begun at ${clock(one.begun_at)} by ${one.by}, judged by checkpoint `
    + `${one.manifest}; ${how}`], ["hook", one.hook]]);
}

function more(generation) {
  const kept = Object.entries(generation.reads.kept_back).filter(([, count]) => count > 0);
  const topics = Object.entries(generation.topics).map(([table, topic]) => `${table}: ${topic}`);
  return h("details", { "data-focus": `more-${generation.id}` },
    h("summary", { class: "small", "data-focus": `more-of-${generation.id}` }, "More"),
    list([["snapshot topics", topics.length ? topics.join(", ") : null],
      ["dropped tables", generation.dropped_tables.length ? generation.dropped_tables.join(", ")
        : null],
      ["snapshot began", generation.began
        ? `${clock(generation.began.at)}, known by ${generation.began.known_by}` : "not known"],
      ["live cutoff", generation.live_cutoff ? clock(generation.live_cutoff.at) : null],
      ["connector", generation.connector], ["notifications", generation.notifications],
      ["READs emitted", number(generation.reads.emitted)],
      ["READs kept back", kept.length
        ? kept.map(([why, count]) => `${number(count)} ${reason(why)}`).join("; ") : "none"],
      ["accepted", generation.accepted.length ? generation.accepted.join(", ") : null]]));
}

function one(generation) {
  return h("article", { class: "generation", "data-generation": generation.id,
    "data-stage": generation.stage },
    h("h3", {}, `${generation.id} (${generation.tables.join(", ")}): ${name(generation.stage)}`),
    h("ol", { class: "steps" }, steps(generation).map(step)),
    waits(generation), progress(generation), promotion(generation), more(generation));
}

/** Shows all generations, newest first. */
export function generations(node, status) {
  fill(node, status.generations, (all) => (all.length
    ? [...all].reverse().map(one) : h("p", { class: "quiet" }, "No generation is known.")));
}
