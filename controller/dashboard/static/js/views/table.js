/** Small pieces that several views render: tables, bars, cards, errors. */

import { h, svg } from "../dom.js";
import { heat } from "../load.js";
import { percent } from "../format.js";

/**
 * Return a table that scrolls sideways inside its own box.
 * @param {string} label @param {string[]} heads "n:" before a head right-aligns its column
 * @param {any[][]} rows the first entry of a row is its key
 */
export function table(label, heads, rows, empty = "None.") {
  if (rows.length === 0) return h("p", { class: "quiet" }, empty);
  const right = heads.map((head) => head.startsWith("n:"));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", null,
      h("thead", null, h("tr", null, heads.map((head, at) => h("th", { scope: "col", class: right[at] ? "n" : null }, right[at] ? head.slice(2) : head)))),
      h("tbody", null, rows.map(([key, ...cells]) =>
        h("tr", { "data-key": key }, cells.map((cell, at) => h("td", { class: right[at] ? "n" : null }, cell)))))));
}

/** Return a share as a bar with its text. @param {number|null} share 0..1 @param {string} [text] */
export function bar(share, text = percent(share)) {
  if (share === null || share === undefined) return h("span", { class: "quiet" }, text);
  const width = Math.max(0, Math.min(1, share)) * 100;
  return h("span", { class: "bar" },
    svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "track", width: 100, height: 10 }), svg("rect", { class: `fill heat-${heat(share)}`, width, height: 10 })),
    h("span", null, text));
}

/** Return a state as a coloured word; its shape says the same without colour. @param {"good"|"warning"|"error"|"quiet"} look */
export const verdict = (look, text) => h("span", { class: `verdict ${look}` }, text);

/** Return a button group in which one is pressed, as links so that each has an address. @param {[string, string, string, boolean][]} items key, text, href, pressed */
export const choice = (label, items) =>
  h("div", { class: "choice", role: "group", "aria-label": label },
    items.map(([key, text, href, pressed]) => h("a", { "data-key": key, href, "aria-current": pressed ? "true" : null }, text)));

/** Return what stands in for data that is missing: an error, or that it loads. */
export function missing({ error }, what) {
  if (!error) return h("p", { class: "quiet" }, "Loading …");
  return h("p", { class: "error" }, error.status === 404 ? `${what}: ${error.message}` : `${what} cannot be shown: ${error.message}`);
}

/** Return a number with its name beneath. */
export const figure = (name, value, note = null, look = "") =>
  h("div", { class: `figure ${look}` }, h("b", null, value), h("span", null, name), note ? h("small", null, note) : null);
