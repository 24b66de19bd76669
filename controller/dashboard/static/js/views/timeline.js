/** The timeline: events and decisions, newest first; each leads back to its moment. */

import { h, morph } from "../dom.js";
import { clock } from "../format.js";
import { eventKey, isPast, picture } from "../picture.js";
import { setQuery, withQuery } from "../router.js";
import { goTo } from "../timebar.js";
import { choice } from "./table.js";

const MAX_ROWS = 300;
const SIGNS = { error: "■", warning: "▲", info: "●" };

/** @param {HTMLElement} place */
export function timelineView(place) {
  const bar = h("div", { class: "toolbar" });
  const list = h("div", { class: "events" });
  place.append(h("h1", { class: "hidden" }, "Timeline"), bar, list);
  bar.addEventListener("input", (event) => setQuery({ find: event.target.value || null }, true));
  list.addEventListener("click", (event) => {
    const at = event.target.closest("[data-moment]")?.dataset.moment;
    if (at) goTo(Number(at));
  });
  return {
    update({ query }) {
      const severity = query.get("severity") ?? "all";
      const wanted = (query.get("find") ?? "").toLowerCase();
      const until = picture.atMs ?? Infinity;
      const events = picture.events.filter((event) => event.at_ms <= until && (severity === "all" || event.severity === severity) &&
        `${event.kind} ${event.subject} ${event.text}`.toLowerCase().includes(wanted));
      morph(bar, [
        choice("Severity", ["all", "info", "warning", "error"].map((name) => [name, name === "all" ? "All" : `${SIGNS[name]} ${name}`, withQuery({ severity: name === "all" ? null : name }), severity === name])),
        h("input", { type: "search", placeholder: "Find in events", "aria-label": "Find in events", value: query.get("find") ?? "" }),
        h("span", { class: "quiet" }, isPast() ? `Until ${clock(picture.atMs)}` : `${events.length} events`),
      ]);
      morph(list, [events.length === 0 ? h("p", { class: "quiet" }, "No events.") : h("ol", null, events.slice(-MAX_ROWS).reverse().map(row))]);
    },
  };
}

function row(event) {
  return h("li", { class: event.severity, "data-key": eventKey(event) },
    h("button", { type: "button", class: "moment", "data-moment": event.at_ms, title: "Show this moment" }, clock(event.at_ms)),
    h("span", { class: "sign", "aria-label": event.severity, role: "img" }, SIGNS[event.severity] ?? "●"),
    h("span", { class: "kind" }, event.kind), h("span", null, subject(event), event.text));
}

/** Return what an event is about, as a link where the page has a view of it. */
function subject(event) {
  if (!event.subject) return null;
  const id = encodeURIComponent(event.subject);
  const job = picture.live?.jobs?.some((item) => item.id === event.subject);
  const href = job ? `/jobs/${id}` : picture.index?.switchAt.has(event.subject) ? `/fabric?switch=${id}` : null;
  return [href ? h("a", { href }, event.subject) : h("b", null, event.subject), " "];
}
