/** Panels beside the fabric: what needs attention, the busiest ports, a switch, a NIC. */

import { actionButton } from "../actions.js";
import { h } from "../dom.js";
import { portName } from "../fabric/index.js";
import { cableText, cablingOf, isDown, isDrained, isLost, linkLoad, nodeDrained } from "../fabric/marks.js";
import { count, rate } from "../format.js";
import { isPaused } from "../load.js";
import { isPast } from "../picture.js";
import { withQuery } from "../router.js";
import { bar, table, verdict } from "./table.js";

const MAX_PROBLEMS = 12;
const MAX_BUSIEST = 10;
const SIGNS = { error: "■", warning: "▲" };

/** @param {any[]} found of `problems` */
export function attention(found, state) {
  const body = !state ? h("p", { class: "quiet" }, "No state.")
    : found.length === 0 && isPast() ? h("p", { class: "quiet" }, state.links?.up ? "No failure and no congestion was recorded. Jobs of this moment are in the timeline." : "No congestion was recorded. Failures and jobs of this moment are in the timeline.")
    : found.length === 0 ? h("p", { class: "good" }, "✓ Nothing needs attention.")
      : h("ul", { class: "problems" }, found.slice(0, MAX_PROBLEMS).map((item) =>
        h("li", { class: item.severity, "data-key": item.text },
          h("a", { href: item.href }, h("span", { class: "sign", "aria-label": item.severity }, SIGNS[item.severity]), h("span", null, item.text, item.detail ? h("small", null, item.detail) : null)))));
  const more = found.length > MAX_PROBLEMS ? h("p", { class: "quiet" }, `and ${found.length - MAX_PROBLEMS} more`) : null;
  return h("section", { class: "card", id: "attention", "data-key": "attention" }, h("h2", null, "Attention"), body, more);
}

/** Return the ports with the largest load of the picture. */
export function busiest(scene) {
  const { fabric, tables } = scene;
  const top = [];
  let least = 0.005;
  fabric.links.forEach((link, at) => {
    const load = linkLoad(scene, at);
    if (load === null || load < least || tables.nicAt.has(link.from.node)) return;
    top.push({ at, load });
    if (top.length < MAX_BUSIEST * 8) return;
    top.sort((a, b) => b.load - a.load).length = MAX_BUSIEST;
    least = top.at(-1).load;
  });
  top.sort((a, b) => b.load - a.load).splice(MAX_BUSIEST);
  const rows = top.map(({ at, load }) => {
    const { from, to } = fabric.links[at];
    const name = `${from.node}:${from.port}`;
    return [name, h("a", { href: withQuery({ port: name }) }, name), to.node, bar(load)];
  });
  return h("section", { class: "card", "data-key": "busiest" }, h("h2", null, "Busiest ports"),
    table("Busiest ports", ["Port", "to", "Load"], rows, "No load on any link."));
}

export function switchPanel(scene, id) {
  const { fabric, tables, state } = scene;
  const at = tables.switchAt.get(id);
  if (at === undefined) return unknown("switch", id);
  const drained = nodeDrained(scene, id);
  const limit = state?.switches?.rule_limit?.[at];
  const rules = state?.switches?.rules?.[at];
  const rows = (tables.out.get(id) ?? []).map((link) => portRow(scene, link));
  return h("section", { class: "card", "data-key": `switch ${id}` },
    heading(id, { switch: null }),
    h("p", null, isLost(scene, id) ? verdict("error", "not connected") : state?.switches?.connected ? verdict("good", "connected") : verdict("quiet", state?.switches ? "hashes, without a session" : "session not recorded"),
      drained ? verdict("warning", "drained") : null,
      rules === undefined || rules === null ? null : ` ${count(rules)} rules${limit ? ` of ${count(limit)}` : ""}`),
    h("p", { class: "buttons" }, actionButton(drained ? "undrain" : "drain", id, drained ? "Undrain …" : "Drain …")),
    table(`Ports of ${id}`, ["Port", "to", "Load"], rows));
}

function portRow(scene, link) {
  const { from, to } = scene.fabric.links[link];
  const name = `${from.node}:${from.port}`;
  return [name, h("a", { href: withQuery({ port: name, switch: null }) }, String(from.port)), portName(to, scene.tables.nicAt), portState(scene, link)];
}

const CABLE_SEVERITY = { wrong: "error", missing: "error", unknown: "quiet" };

/** Return the load of a port, or that it is down or drained. */
export function portState(scene, link) {
  if (isDown(scene, link)) return verdict("error", cablingOf(scene, link) === "missing" ? "missing" : "down");
  const load = bar(linkLoad(scene, link));
  const drained = isDrained(scene, link) ? verdict("warning", "drained") : null;
  const cable = cableText(scene, link);
  return [cable ? verdict(CABLE_SEVERITY[cablingOf(scene, link)] ?? "warning", cable) : null, load, isPaused(scene.state?.links, link) ? verdict("error", "paused") : null, drained];
}

export function nicPanel(scene, id) {
  const { fabric, tables } = scene;
  const nic = fabric.nics[tables.nicAt.get(id)];
  if (!nic) return unknown("NIC", id);
  const [out] = tables.out.get(id) ?? [-1];
  const into = out < 0 ? -1 : tables.back[out];
  const port = `${nic.switch}:${nic.port}`;
  return h("section", { class: "card", "data-key": `nic ${id}` },
    heading(id, { nic: null }),
    h("dl", null, h("dt", null, "Host"), h("dd", null, nic.host), h("dt", null, "Port"), h("dd", null, h("a", { href: withQuery({ port, nic: null }) }, port)),
      h("dt", null, "Rate"), h("dd", null, rate(nic.rate_bps)),
      h("dt", null, "Sends"), h("dd", null, out < 0 ? "–" : portState(scene, out)), h("dt", null, "Receives"), h("dd", null, into < 0 ? "–" : portState(scene, into))));
}

/** Return the heading of a panel, with a link that closes it. */
export const heading = (text, closed) => h("h2", null, text, h("a", { class: "close", href: withQuery(closed), "aria-label": `Close ${text}` }, "✕"));

const unknown = (kind, id) => h("section", { class: "card", "data-key": "unknown" }, heading(id, { switch: null, nic: null, port: null }), h("p", { class: "error" }, `This fabric has no ${kind} ${id}.`));
