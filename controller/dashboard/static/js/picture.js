/** What the page shows: the fabric, the newest state, or the state of a past moment. Views read it and subscribe. */

import { ApiError, get } from "./api.js";
import { index } from "./fabric/index.js";

/** The one picture. `past` is the recorded state of `atMs`; `lostMs` is when the controller went away. */
export const picture = {
  fabric: null,
  index: null,
  live: null,
  atMs: null,
  past: null,
  pastError: null,
  lostMs: null,
  events: [],
  recordedFromMs: null,
  session: { user: null, may_act: false, csrf: null },
};

const listeners = new Set();
let drawing = 0;

/** Call `listener` after each change, at most once per frame. @param {() => void} listener */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Announce a change. Hidden pages draw when they are seen again. */
export function changed() {
  if (drawing) return;
  drawing = requestAnimationFrame(() => {
    drawing = 0;
    for (const listener of [...listeners]) listener();
  });
}

/** Return the state that the page shows, or null before the first and for a moment that is not recorded. */
export const shown = () => (picture.atMs === null ? picture.live : picture.past);

export const isPast = () => picture.atMs !== null;

/** @param {any} state an object of /api/state */
export function setLive(state) {
  const reload = picture.fabric && state.generation !== undefined && state.generation !== picture.fabric.generation;
  picture.live = state;
  changed();
  if (reload) loadFabric().catch(() => {}); // the next state tries again
}

export async function loadFabric() {
  picture.fabric = await get("/api/fabric");
  picture.index = index(picture.fabric);
  changed();
}

let wantedMs = null;
let loading = false;

/** Show a moment, or the present for null. While one moment loads only the newest wish waits. @param {number|null} ms */
export async function showMoment(ms) {
  wantedMs = ms;
  picture.atMs = ms;
  if (ms === null) {
    picture.past = picture.pastError = null;
    return changed();
  }
  if (loading) return;
  loading = true;
  while (wantedMs !== null) {
    const ms = wantedMs;
    await loadMoment(ms);
    if (wantedMs === ms) break;
  }
  loading = false;
}

async function loadMoment(ms) {
  try {
    const past = await get(`/api/at?at_ms=${ms}`);
    if (wantedMs !== null) [picture.past, picture.pastError] = [past, null];
  } catch (error) {
    const text = error instanceof ApiError ? error.message : "the controller does not reply";
    if (wantedMs !== null) [picture.past, picture.pastError] = [null, text];
  }
  changed();
}

const MAX_EVENTS = 2000;

/** Add events that are not known yet, oldest first. @param {any[]} events */
export function addEvents(events) {
  const known = new Set(picture.events.map(eventKey));
  const more = events.filter((event) => !known.has(eventKey(event)));
  if (more.length === 0) return;
  picture.events = [...picture.events, ...more].sort((a, b) => a.at_ms - b.at_ms).slice(-MAX_EVENTS);
  changed();
}

export const eventKey = (event) => `${event.at_ms} ${event.kind} ${event.subject} ${event.text}`;
