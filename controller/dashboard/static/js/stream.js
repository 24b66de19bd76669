/** The live stream: the newest state and new events. Comes back by itself when the controller does. */

import { session } from "./login.js";
import { addEvents, changed, loadFabric, picture, setLive } from "./picture.js";

const RETRY_MS = 1000;
const SILENCE_MS = 15_000;
const REPLY_MS = 3000;

let source = null;
let retry = 0;
let heardMs = 0;

/** Open the stream and keep it open. */
export function follow() {
  connect();
  // A page that the browser keeps for its back button would hold its stream, and a browser opens six connections at most.
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && connect());
  setInterval(() => {
    // A half-open connection reports no error: a stream that stays silent beyond its heartbeat is opened anew.
    if (source && picture.lostMs === null && heardMs && Date.now() - heardMs > SILENCE_MS) checkSilent();
  }, 1000);
}

async function checkSilent() {
  heardMs = Date.now();
  try {
    const reply = await fetch("/healthz", { signal: AbortSignal.timeout(REPLY_MS), cache: "no-store" });
    if (!reply.ok && reply.status >= 500) lost();
  } catch {
    lost();
  }
}

/** Connect again once the controller replies. Its next life has other tokens, and has ended the sessions of its login. */
async function again() {
  const found = await session(AbortSignal.timeout(REPLY_MS));
  if (found?.login && found.user === null) return window.location.reload(); // asks for the login
  if (!found) return (retry = setTimeout(again, RETRY_MS));
  picture.session = found;
  connect();
}

function close() {
  clearTimeout(retry);
  source?.close();
}

function connect() {
  close();
  source = new EventSource("/api/stream");
  source.onopen = found;
  source.onerror = lost;
  source.addEventListener("state", (message) => {
    found();
    const state = JSON.parse(message.data);
    const reborn = picture.live && picture.live.boot !== state.boot;
    setLive(state);
    if (reborn || !picture.fabric) loadFabric().catch(() => {});
  });
  source.addEventListener("timeline", (message) => {
    found();
    const data = JSON.parse(message.data);
    addEvents(Array.isArray(data) ? data : data.events ?? [data]);
  });
}

function found() {
  heardMs = Date.now();
  if (picture.lostMs === null) return;
  picture.lostMs = null;
  changed();
}

function lost() {
  if (picture.lostMs === null) {
    picture.lostMs = Date.now();
    changed();
  }
  close();
  retry = setTimeout(again, RETRY_MS);
}
