/** Start the page: load the fabric, follow the stream, show the view that the address names. */

import { get } from "./api.js";
import { h, morph } from "./dom.js";
import { askForLogin, listenForLogout, loggedIn, session } from "./login.js";
import { clock, duration, plural } from "./format.js";
import { problems, STALE_MS } from "./load.js";
import { addEvents, changed, isPast, loadFabric, picture, setLive, showMoment, shown, subscribe } from "./picture.js";
import { current, start } from "./router.js";
import { follow } from "./stream.js";
import { renderTime } from "./timebar.js";
import { congestionView } from "./views/congestion.js";
import { fabricView } from "./views/fabric.js";
import { healthView } from "./views/health.js";
import { jobsView } from "./views/jobs.js";
import { matrixView } from "./views/matrix.js";
import { networksView } from "./views/networks.js";
import { timelineView } from "./views/timeline.js";

const VIEWS = {
  fabric: ["Fabric", fabricView],
  matrix: ["Matrix", matrixView],
  jobs: ["Jobs", jobsView],
  congestion: ["Congestion", congestionView],
  timeline: ["Timeline", timelineView],
  networks: ["Networks", networksView],
  health: ["Health", healthView],
};
const TICK_MS = 2000;
const place = (id) => document.getElementById(id);
let marked = false;
let judged = { state: undefined, fabric: null, found: [] };
let open = { name: null, view: null };

function show(route) {
  const moment = Number(route.query.get("at_ms")) || null;
  if (moment !== picture.atMs) showMoment(moment);
  if (open.name !== route.view) {
    open.view?.close?.();
    place("view").replaceChildren();
    open = { name: route.view, view: VIEWS[route.view]?.[1](place("view")) ?? null };
    place("view").className = `view-${route.view}`;
    place("view").scrollTop = 0;
  }
  draw();
}

function draw() {
  const route = current();
  const found = foundIn(shown());
  morph(place("head"), heading(route, found));
  morph(place("banner"), banner());
  place("banner").className = picture.lostMs !== null ? "lost" : current().query.get("at_ms") ? "past" : "";
  renderTime(place("time"), route);
  const name = VIEWS[route.view]?.[0] ?? "Not found";
  const title = `${found.length ? `▲ ${plural(found.length, "problem")} · ` : ""}${name} · ${picture.fabric?.fabric ?? "Heddle"}`;
  if (document.title !== title) document.title = title;
  if (!open.view) morph(place("view"), [h("p", { class: "quiet" }, `There is no view ${route.view}.`)]);
  else if (picture.fabric && (shown() || isPast())) {
    open.view.update(route, found);
    mark();
  }
}

/** Mark the first picture once the frame is painted, for programs that measure the page. */
function mark() {
  if (marked) return;
  marked = true;
  requestAnimationFrame(() => setTimeout(() => performance.mark("first-picture")));
}

/** Return the problems of a state; a state is judged once. */
function foundIn(state) {
  if (judged.state !== state || judged.fabric !== picture.fabric) {
    judged = { state, fabric: picture.fabric, found: problems(picture.fabric, picture.index, state) };
  }
  return judged.found;
}

function heading(route, found) {
  const tabs = Object.entries(VIEWS).map(([name, [title]]) =>
    h("a", { href: `/${name}`, "aria-current": name === route.view ? "page" : null, "data-key": name }, title));
  return [
    h("a", { class: "brand", href: "/fabric" }, h("b", null, "Heddle"), " ", h("span", null, picture.fabric?.fabric ?? "")),
    h("nav", { "aria-label": "Views" }, tabs),
    h("div", { class: "chips" }, chips(found), loggedIn(picture.session)),
  ];
}

function chips(found) {
  const state = shown();
  if (!state) return [];
  const errors = found.filter((item) => item.severity === "error").length;
  const worst = errors ? "error" : found.length ? "warning" : isPast() ? "" : "good";
  const counts = state.counts;
  const parts = [h("a", { class: `chip ${worst}`, href: "/fabric", id: "verdict" }, found.length ? `▲ ${plural(found.length, "problem")}` : isPast() ? (state.links?.up ? "no problem recorded" : "no congestion recorded") : "✓ No problem")];
  if (counts) {
    const switches = picture.fabric?.switches.length;
    parts.push(chip("switches", counts.switches_connected === null ? switches : `${counts.switches_connected}/${switches ?? "–"}`), chip("jobs", counts.jobs), chip("flows", counts.flows));
  }
  const age = state.telemetry;
  if (age && !isPast()) parts.push(h("span", { class: "chip" }, "telemetry ", h("b", null, telemetryText(age))));
  return parts;
}

const chip = (name, value) => h("span", { class: "chip" }, h("b", null, value ?? "–"), ` ${name}`);

function telemetryText({ configured, age_ms }) {
  if (!configured) return "none";
  if (age_ms === null) return "not yet";
  return age_ms < STALE_MS ? "fresh" : `${duration(age_ms)} old`;
}

function banner() {
  if (picture.lostMs !== null) {
    return [h("span", null, h("b", null, `No connection to the controller since ${clock(picture.lostMs)}`), " (",
      duration(Date.now() - picture.lostMs), "). This is the last picture; the page connects again by itself.")];
  }
  const asked = current().query.get("at_ms");
  if (!asked) return [];
  const what = !isPast() ? `“${asked}” is no moment: at_ms counts milliseconds since 1970. This is the present.`
    : picture.pastError ? `${clock(picture.atMs)}: ${picture.pastError}.` : `The past: ${clock(picture.atMs)}.`;
  return [h("span", null, h("b", null, what), " "), h("button", { type: "button", "data-time": "live" }, "Back to live")];
}

async function begin() {
  // The picture first; the rest of the page can wait for it.
  const [failure, found] = await Promise.all([
    Promise.all([loadFabric(), get("/api/state").then(setLive)]).then(() => null, (error) => error), session()]);
  if (failure?.status === 401) return askForLogin(place("view"));
  if (failure) picture.lostMs = Date.now();
  if (found) picture.session = found;
  if (current().view === "login") {
    if (found?.login && !found.user) return askForLogin(place("view"));
    window.history.replaceState(null, "", "/fabric");
  }
  listenForLogout(() => picture.session.csrf);
  start(show);
  subscribe(draw);
  setInterval(changed, TICK_MS);
  show(current());
  follow();
  get("/api/timeline?limit=500").then(({ events, recorded_from_ms }) => {
    picture.recordedFromMs = recorded_from_ms;
    addEvents(events);
    changed();
  }, () => {});
}

begin();
