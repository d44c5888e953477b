// Asks why a READ of a key is, or would be, dropped or emitted, and shows the answer: the members
// that it knows in words, and all of them as they came.

import { at, fill, h, list } from "./dom.js";
import { clock, duration, ms, name } from "./words.js";

const OUTCOMES = {
  emitted: "emitted",
  emitted_rule_off: "emitted, as the marker rule is off",
  dropped_marker: "dropped: its key has a marker of the window",
  dropped_superseded: "dropped: the generation is not open for the table",
  quarantined: "quarantined: it may be stale",
  emitted_unsafe: "emitted although it may be stale",
  ends_job: "it may be stale, and ends the job",
};

/** Tables of the job, to choose from. */
export function offerTables(status) {
  const tables = [...new Set(status.generations.flatMap((one) => one.tables))];
  fill(at("tables"), tables, () => tables.map((table) => h("option", { value: table })));
  const field = at("explain-table");
  if (tables.length === 1 && field.value === "" && document.activeElement !== field) {
    field.value = tables[0];
  }
}

/** A moment of job time, by the wall clock where that is known. */
function moment(one) {
  const [early, late] = [one.wall_earliest, one.wall_latest];
  if (!early || !late) return `${duration(one.job_ms / 1000)} of job time`;
  const near = ms(late);
  return early === late ? clock(early) : `${clock(early)} to ${clock(late, near)}`;
}

function kept(how) {
  if (!how) return null;
  if (how === "no_longer") return "no longer";
  if (how.until_ready) return `until ${how.until_ready.join(", ")} is ready`;
  if (how.for_ms !== undefined) return `${duration(how.for_ms / 1000)} more`;
  return JSON.stringify(how);
}

/** A value as nested lists. */
function tree(value) {
  if (value === null || typeof value !== "object") return String(value ?? "none");
  if (Array.isArray(value)) {
    return value.length ? h("ul", { class: "plain" }, value.map((one) => h("li", {}, tree(one))))
      : "none";
  }
  return list(Object.entries(value).map(([member, inner]) => [name(member), tree(inner)]));
}

function inWords(answer) {
  const known = Array.isArray(answer.generations) && "marked" in answer;
  if (!known) return null;
  return [
    list([["last mutation", answer.marked ? `read at ${moment(answer.marked)}`
      : "none is remembered"],
    ["marker kept", kept(answer.kept)],
    ["forgotten through", answer.forgotten_through ? moment(answer.forgotten_through) : null]]),
    h("table", {}, h("thead", {}, h("tr", {}, ["generation", "window from", "a READ of it is"]
      .map((head) => h("th", {}, head)))),
    h("tbody", {}, answer.generations.map((one) => h("tr", { "data-outcome": one.outcome },
      h("td", {}, `${one.id}, ${name(one.stage)}`),
      h("td", {}, one.window_from ? moment(one.window_from) : ""),
      h("td", {}, OUTCOMES[one.outcome] ?? name(String(one.outcome))))))),
    (answer.notes ?? []).map((note) => h("p", { class: "small" }, note)),
  ];
}

function show(answer, table, key) {
  const words = inWords(answer);
  const all = tree(answer);
  return [h("h3", {}, `${answer.table ?? table} ${answer.key ?? key}`), words,
    words ? h("details", { "data-focus": "all" }, h("summary", { "data-focus": "all-of" },
      "All that was answered"), all) : all];
}

let asked = 0;

/** Asks, and shows what comes back in `node`. */
export async function explain(node, ask, table, key) {
  const mine = (asked += 1);
  const say = (kind, text) => fill(node, [mine, kind, text],
    () => h("p", { class: kind }, text));
  say("quiet", "Asking…");
  const query = `table=${encodeURIComponent(table)}&key=${encodeURIComponent(key)}`;
  let found;
  try {
    found = await ask(`/v1/explain?${query}`);
  } catch (error) {
    if (mine === asked) say("error", `No answer: ${error.message || "the token is needed"}`);
    return;
  }
  // Another question was put meanwhile.
  if (mine !== asked) return;
  const { code, body } = found;
  if (code !== 200) {
    say("error", body.error ?? `The job answers with HTTP ${code} and no reason.`);
    return;
  }
  fill(node, [mine, body], () => show(body, table, key));
}
