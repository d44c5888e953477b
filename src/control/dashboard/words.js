// Numbers, times and the words of the status document, as a person reads them. A word that is not
// known here is shown as it is.

export const number = (count) => (count === null || count === undefined ? "not known"
  : count.toLocaleString("en-US"));

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export function bytes(count) {
  if (count === null || count === undefined) return "not known";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) { count /= 1024; unit += 1; }
  return `${unit === 0 ? count : count.toFixed(count < 10 ? 2 : 1)} ${units[unit]}`;
}

/** A length of time, its two greatest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "not known";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) parts.push(`${count} ${unit}`);
    if (parts.length > 0 && (parts.length === 2 || count === 0)) break;
  }
  return parts.join(" ");
}

export const ms = (instant) => (instant ? Date.parse(instant) : null);

/** A moment (ms or RFC 3339): the time, with the day when it is not that of `near`. */
export function clock(moment, near = Date.now()) {
  if (moment === null || moment === undefined) return "not known";
  const text = new Date(moment).toISOString();
  const other = text.slice(0, 10) !== new Date(near).toISOString().slice(0, 10);
  return (other ? `${text.slice(0, 10)} ` : "") + text.slice(11, 19);
}

/** Whole percent, rounded down; what is exact but for the last bit stays. */
export const percent = (ratio) => `${Math.floor(ratio * 100 + 1e-9)} %`;

const WORDS = {
  starting: ["STARTING", ""], not_ready: ["NOT PROMOTABLE", ""], caught_up: ["CAUGHT UP", "good"],
  ready: ["READY, NOT PROMOTABLE", "good"], promotable: ["PROMOTABLE", "good"],
  promoted: ["PROMOTED", "good"], spoiled: ["NEVER PROMOTABLE", "bad"], unsafe: ["UNSAFE", "bad"],
  aborted: ["ABORTED", "bad"], stopping: ["STOPPING", ""], failed: ["FAILED", "bad"],
  down: ["DOWN", "bad"],
};

/** The word of a verdict as it is shown, and its mood: good, bad or neither. */
export const verdict = (word) => WORDS[word] ?? [word.toUpperCase(), ""];

export const ACTS = {
  job: "The job acts by itself.", person: "A person must act.", nobody: "Nobody needs to act.",
};

export const alone = (leave) => (leave ? "It can be left alone." : "Do not leave it alone.");

export const STAGES = ["open", "source_finished", "topic_consumed", "caught_up", "ready",
  "promoted"];

/** What a stage means, once it is reached. */
export const STAGE_MEANS = {
  open: "READs are read as they come",
  source_finished: "the snapshot has delivered all its READs",
  topic_consumed: "all READs have left the merge",
  caught_up: "READs and mutations are in the target",
  ready: "a durable checkpoint says so",
  promoted: "its target is the one that is used",
  unsafe: "the target may hold stale rows, or lacks some",
  aborted: "a person gave it up",
  superseded: "a newer generation has its tables",
};

export const name = (word) => word.replaceAll("_", " ");

const EVIDENCE = {
  connect_offsets: "Kafka Connect’s offsets say that the snapshot connector is finished",
  ordered: "the end came in the same partition behind all READs",
  counted: "as many READs came as Debezium says it has scanned",
  operator_said: "a person, or an end-of-snapshot record, said so",
  quiet: "no READ came for a while",
  live_offsets: "the live connector’s offset has passed the cutoff",
  delivered: "every partition has delivered a record past the cutoff",
  seen: "a record past the cutoff was seen",
  unproven: "nothing shows that the live connector has passed the cutoff",
};

export const evidence = (word) => (EVIDENCE[word] ? `${name(word)}: ${EVIDENCE[word]}` : word);

const REASONS = {
  marker: "a newer mutation of the key had been read",
  superseded: "its generation is not open for the table",
  late: "it came behind the frozen end",
  poisoned: "the last mutation of its key could not be decoded",
  unsafe: "it may be stale: a marker of its window was forgotten",
  forgotten: "it may be stale: a marker of its window was forgotten",
  forgotten_markers: "it may be stale: a marker of its window was forgotten",
};

export const reason = (word) => (REASONS[word] ? `${name(word)}: ${REASONS[word]}` : name(word));
