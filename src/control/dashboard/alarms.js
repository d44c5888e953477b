// Alarms in plain words with what to do; what is waited for; what cannot be proven.

import { fill, h } from "./dom.js";

function alarm({ name, text, remedy, critical }) {
  return h("div", { class: critical ? "alarm critical" : "alarm", "data-alarm": name },
    h("p", {}, h("strong", {}, critical ? "Act now: " : "Look at this: "), text),
    remedy ? h("p", {}, h("strong", {}, "What to do: "), remedy) : null);
}

/** Shows alarms, and troubles beside them. */
export function alarms(node, status) {
  const lease = status.run?.lease_trouble;
  const troubles = [...status.troubles,
    ...(lease ? [{ who: "the lease that shows that this run lives", what: lease }] : [])];
  fill(node, [status.alarms, troubles], () => (status.alarms.length + troubles.length === 0
    ? h("p", { class: "quiet" }, "None.")
    : [...status.alarms].sort((a, b) => Number(b.critical) - Number(a.critical)).map(alarm)
      .concat(troubles.map(({ who, what }) => h("div", { class: "alarm", "data-trouble": who },
        h("p", {}, h("strong", {}, "Waiting: "), who), h("p", { class: "error" }, what))))));
}

/** Shows what is not proven. */
export function notProven(node, status) {
  const fence = status.run?.not_fenced;
  const notes = [...status.not_proven, ...(fence ? [`not fenced: ${fence}`] : [])];
  fill(node, notes, () => (notes.length === 0
    ? h("p", { class: "quiet" }, "Nothing is left open that the job knows of.")
    : h("ul", { class: "plain" }, notes.map((note) => h("li", {}, note)))));
}
