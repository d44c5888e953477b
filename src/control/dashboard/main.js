// Asks for the status every second and hands it to the parts of the page. It asks its own origin
// only. While nothing answers it says since when, keeps what was shown, and goes on asking.

import { at, copy, fill, h, say } from "./dom.js";
import { alarms, notProven } from "./alarms.js";
import { explain, offerTables } from "./explain.js";
import { generations } from "./generations.js";
import { keep, showLag } from "./history.js";
import { memory } from "./memory.js";
import { checkpoints, markers, reads, run, sink } from "./numbers.js";
import { ACTS, alone, clock, duration, plural, verdict } from "./words.js";

const ASK_EVERY_MS = 1000;
const ASK_AGAIN_MS = 1500;
const ANSWER_WITHIN_MS = 5000;
/** The version of the document that this page knows. */
const VERSION = 1;

/** Kept in this variable only. */
let token = "";
let lastAnswerMs = null;
let job = null;
let checkpoint = null;
let announced = "";
let timer = null;
/** The last call of `poll`; what an older one meets is left. */
let latest = 0;

class Locked extends Error {}

/** Asks; the answer's JSON and HTTP code. */
async function ask(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const response = await fetch(path, { headers, signal, cache: "no-store" });
  if (response.status === 401) throw new Locked();
  const body = await response.json().catch(() => ({}));
  return { code: response.status, body };
}

async function poll() {
  clearTimeout(timer);
  const mine = (latest += 1);
  let next = ASK_EVERY_MS;
  try {
    const { code, body } = await ask("/v1/status");
    if (mine !== latest) return;
    if (code !== 200 || !body.verdict) throw new Error(body.error ?? `HTTP ${code}`);
    answered(body);
    if (body.checkpoint && body.checkpoint.number !== checkpoint) {
      const list = await ask("/v1/checkpoints");
      checkpoint = body.checkpoint.number;
      checkpoints(at("checkpoints"), body, list.body.checkpoints ?? []);
    }
  } catch (error) {
    if (mine !== latest) return;
    next = ASK_AGAIN_MS;
    if (error instanceof Locked) locked();
    else away(error);
  }
  if (mine === latest) timer = setTimeout(poll, next);
}

function answered(status) {
  lastAnswerMs = Date.now();
  at("away").hidden = true;
  at("unlock").hidden = true;
  at("main").classList.remove("old");
  if (job !== status.job) {
    job = status.job;
    checkpoint = null;
    keep(null);
    checkpoints(at("checkpoints"), status, []);
  }
  show(status);
}

function away(error) {
  const since = lastAnswerMs === null ? "yet" : `since ${clock(lastAnswerMs)} UTC`;
  const below = lastAnswerMs === null ? "" : " What is shown below is of that time.";
  const why = error.name === "TimeoutError" ? "it took too long" : error.message;
  at("away").hidden = false;
  say(at("away"), `No answer ${since} (${why}).${below} It is asked again and again; `
    + "headwater status tells what the last checkpoint knows.");
  at("main").classList.toggle("old", lastAnswerMs !== null);
  announce("away", `No answer ${since}`);
}

function locked() {
  const form = at("unlock");
  const wrong = token !== "";
  token = "";
  if (wrong) say(at("unlock-said"), "That is not the token.");
  if (!form.hidden) return;
  at("away").hidden = true;
  form.hidden = false;
  at("token").focus();
}

/** Said to a screen reader, once for each change of `what`: numbers in the text change often. */
function announce(what, text) {
  if (announced === what) return;
  announced = what;
  say(at("announce"), text);
}

function show(status) {
  const version = status.version > VERSION ? ` This page knows version ${VERSION} of the status and `
    + `the job answers version ${status.version}: load it again.` : "";
  say(at("seen"), `as of ${clock(status.at)} UTC, asked every second${version}`);
  say(at("job"), status.job);
  say(at("run"), run(status));
  showVerdict(status);
  generations(at("readiness"), status);
  memory(at("memory"), status);
  keep(status);
  showLag(at("lag-mutations"), status, "mutations");
  showLag(at("lag-snapshot"), status, "snapshot");
  markers(at("markers"), status);
  if (!status.checkpoint) {
    checkpoint = null;
    checkpoints(at("checkpoints"), status, []);
  }
  reads(at("reads"), status);
  sink(at("sink"), status);
  alarms(at("alarm-list"), status);
  notProven(at("not-proven"), status);
  offerTables(status);
}

function showVerdict(status) {
  const said = status.verdict;
  const [word, mood] = verdict(said.word);
  const box = at("verdict");
  box.dataset.word = said.word;
  box.dataset.mood = mood;
  say(at("word"), word);
  say(at("text"), said.text);
  say(at("acts"), `${ACTS[said.acts] ?? said.acts} ${alone(said.leave_alone)}`);
  at("command").hidden = !said.command;
  say(at("command").querySelector("code"), said.command ?? "");
  const count = status.alarms.length + status.troubles.length;
  at("alarm-link").hidden = count === 0;
  say(at("alarm-link").querySelector("a"), plural(count, "alarm"));
  document.title = `${word}: ${status.job} – Headwater`;
  const names = status.alarms.map((alarm) => alarm.name).join(" ");
  const texts = status.alarms.map((alarm) => alarm.text).join(" ");
  announce(`${said.word} ${said.acts} ${names}`, `${word}. ${ACTS[said.acts] ?? ""} ${texts}`);
}

function tick() {
  if (lastAnswerMs === null || at("away").hidden) return;
  fill(at("seen"), Math.round((Date.now() - lastAnswerMs) / 1000), (seconds) =>
    h("span", {}, `no answer for ${duration(seconds)}`));
}

document.addEventListener("click", (event) => {
  if (event.target.matches("button.copy")) copy(event.target);
});
at("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  poll();
});
at("explain").addEventListener("submit", (event) => {
  event.preventDefault();
  explain(at("explained"), ask, at("explain-table").value, at("explain-key").value);
});
setInterval(tick, 1000);
poll();
