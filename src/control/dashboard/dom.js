// Makes elements, and changes them only when what they show has changed: so that the focus, a
// selection, and what a screen reader is reading stay where they are.

const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined
    && child !== false));
  return node;
}

/** An HTML element. Text children are text, never markup. */
export const h = (name, attributes = {}, ...children) =>
  put(document.createElement(name), attributes, children);

/** An SVG element. */
export const s = (name, attributes = {}, ...children) =>
  put(document.createElementNS(SVG, name), attributes, children);

export const at = (id) => document.getElementById(id);

const shown = new WeakMap();

/** Shows in `node` what `build` makes of `value`, if it is another value than the last time. */
export function fill(node, value, build) {
  const key = JSON.stringify(value);
  if (shown.get(node) === key) return false;
  shown.set(node, key);
  const focus = node.contains(document.activeElement)
    ? document.activeElement.dataset.focus : undefined;
  const open = [...node.querySelectorAll("details[open]")].map((one) => one.dataset.focus);
  node.replaceChildren(...[build(value)].flat(Infinity).filter(Boolean));
  for (const details of node.querySelectorAll("details")) {
    details.open = open.includes(details.dataset.focus);
  }
  if (focus) node.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
  return true;
}

/** Text that is put only when it differs. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A command and the button that copies it. */
export const command = (text, focus) => h("p", { class: "command" }, h("code", {}, text), " ",
  h("button", { class: "copy", type: "button", "data-focus": focus }, "Copy"));

/** Copies the command beside a button. Without a secure address there is no clipboard: then the
 * text is selected, for a key to copy it. */
export async function copy(button) {
  const code = button.parentElement.querySelector("code");
  let done = "Copied";
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    done = "Selected";
  }
  button.textContent = done;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

/** Terms and what they are; pairs without a value are left out. */
export function list(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h("dl", {}, known.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
