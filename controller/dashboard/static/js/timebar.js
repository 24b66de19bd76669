/** The time bar: drag back in time. Fabric, matrix, congestion and timeline show the moment. */

import { h, morph, svg } from "./dom.js";
import { clock } from "./format.js";
import { isPast, picture } from "./picture.js";
import { setQuery } from "./router.js";

export const RECORDED_VIEWS = new Set(["fabric", "matrix", "congestion", "timeline"]);
const STEP_MS = 1000;
const DEFAULT_SPAN_MS = 3_600_000;

/** Return the recorded span: from when history reaches back, at most a day. @returns {[number, number]} */
function span() {
  const now = picture.live?.at_ms ?? Date.now();
  const first = picture.recordedFromMs ?? now - DEFAULT_SPAN_MS;
  const from = Math.min(Math.max(first, now - 24 * DEFAULT_SPAN_MS), now - STEP_MS);
  return [from + ((now - from) % STEP_MS), now]; // a whole number of steps, so that the present is at the end
}

/** @param {HTMLElement} place @param {import("./router.js").Route} route */
export function renderTime(place, route) {
  listen(place);
  const [first, last] = span();
  const at = picture.atMs ?? last;
  const text = isPast() ? clock(at) : "Live";
  const recorded = picture.recordedFromMs !== null;
  morph(place, [
    h("button", { type: "button", "data-time": "back", disabled: !recorded, title: "10 seconds back" }, "−10 s"),
    h("div", { class: "track" }, ticks(first, last),
      h("input", { type: "range", min: first, max: last, step: STEP_MS, "data-own": true, disabled: !recorded,
        "aria-label": "Moment", "aria-valuetext": text })),
    h("button", { type: "button", "data-time": "forward", disabled: !recorded || !isPast(), title: "10 seconds forward" }, "+10 s"),
    h("output", null, recorded ? clock(at) : "No history recorded"),
    h("button", { type: "button", class: isPast() ? "primary" : "live", "data-time": "live", disabled: !isPast(), title: RECORDED_VIEWS.has(route.view) ? null : "This view shows the present only" }, "Live"),
  ]);
  const slider = place.querySelector("input");
  if (slider !== document.activeElement || !slider.matches(":active")) slider.value = at;
}

function ticks(first, last) {
  const shown = picture.events.filter((event) => event.at_ms >= first);
  return svg("svg", { class: "ticks", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    shown.slice(-300).map((event) => svg("rect", { class: event.severity, x: (1000 * (event.at_ms - first)) / (last - first), width: 2, height: 10 })));
}

/** Go to a moment; near the present the page is live again. @param {number} ms @param {boolean} replace */
export function goTo(ms, replace = false) {
  const [first, last] = span();
  const to = Math.max(first, ms);
  setQuery({ at_ms: to >= last - STEP_MS ? null : Math.round(to) }, replace);
}

let listening = false;

function listen(place) {
  if (listening) return;
  listening = true;
  place.addEventListener("input", (event) => goTo(Number(event.target.value), true));
  document.addEventListener("click", (event) => {
    const wish = event.target.closest?.("[data-time]")?.dataset.time;
    if (wish === "live") setQuery({ at_ms: null });
    else if (wish === "back") goTo((picture.atMs ?? span()[1]) - 10 * STEP_MS);
    else if (wish === "forward") goTo((picture.atMs ?? span()[1]) + 10 * STEP_MS);
    else if (wish) goTo(Number(wish));
  });
}

/** Return what a view shows for a past moment when history does not hold its data, or null. */
export function notRecorded(what) {
  if (!isPast()) return null;
  return h("section", { class: "card quiet" }, h("h2", null, "Not recorded"),
    h("p", null, `History holds links, congestion and events, not ${what}.`),
    h("button", { type: "button", class: "primary", "data-time": "live" }, "Back to live"));
}
