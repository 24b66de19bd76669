/** Say how links and nodes look: heat, down, drained, lit. One place for the SVG and the canvas. */

import { heat, isPaused, loadOf } from "../load.js";

/**
 * What a drawing shows.
 * @typedef {Object} Scene
 * @property {any} fabric
 * @property {any} tables
 * @property {any} state
 * @property {string} show "measured" or "planned"
 * @property {string|null} node the selected switch or NIC
 * @property {number} link the selected link or -1
 * @property {Set<number>|null} lit links that are lit; the others fade
 * @property {Set<string>|null} shared links of `lit` that other jobs use too
 * @property {Set<string>} ranks NICs that were drawn
 * @property {ArrayLike<number>|null} preview load by link instead of the state's
 */

/** @param {Scene} scene @param {number} at */
export function linkLoad(scene, at) {
  return scene.preview ? (scene.preview[at] ?? null) : loadOf(scene.state?.links, at, scene.show);
}

/** Return the classes of one direction of a cable. @param {Scene} scene @param {number} at */
export function linkClass(scene, at) {
  const links = scene.state?.links;
  let name = `half heat-${heat(linkLoad(scene, at))}`;
  if (scene.show === "measured" && !scene.preview && isPaused(links, at)) name += " paused";
  if (isDown(scene, at)) name += " down";
  else if (isDrained(scene, at)) name += " drained";
  if (isBad(scene, at)) name += " bad";
  const cabling = cablingOf(scene, at);
  if (cabling) name += ` ${cabling}`;
  if (scene.lit?.has(at)) name += " lit";
  if (scene.shared?.has(at)) name += " shared";
  if (scene.link === at) name += " picked";
  return name;
}

/** A cable is down when either direction is. */
export function isDown(scene, at) {
  const up = scene.state?.links?.up;
  const other = scene.tables.back[at];
  return up?.[at] === 0 || (other >= 0 && up?.[other] === 0);
}

const CABLING = ["", "wrong", "missing", "unknown"];

/** Return what the ports of a cable hear: "wrong", "missing", "unknown", or "" where it is as described. */
export const cablingOf = (scene, at) => CABLING[scene.state?.links?.cabling?.[at] ?? 0];

/** Say if a cable is up and loses frames or is slow. */
export const isBad = (scene, at) => scene.state?.links?.bad?.[at] === 1;

/**
 * The shapes of marks in the middle of cables, which differ without their colours: a cross, a rhomb, two arrows that
 * cross, a gap, a zigzag, a question mark.
 */
export const MARKS = {
  down: "M-5-5L5 5M5-5L-5 5",
  drained: "M0-5L5 0L0 5L-5 0Z",
  wrong: "M-5-3.5L5 3.5M1.5 4L5 3.5L4.5 0M-5 3.5L5-3.5M1.5-4L5-3.5L4.5 0",
  missing: "M-6 0H-2.5M-2.5-3.5V3.5M6 0H2.5M2.5-3.5V3.5",
  bad: "M-6 2L-3.5-3.5L-1 3.5L1.5-3.5L4 3.5L6-1",
  unknown: "M-2.8-2.4A2.8 2.8 0 1 1 0 .6V2M0 4.4V5",
};

/**
 * Return the mark of a cable, "" for none. What is wrong with the cabling goes before what follows from it: a missing
 * cable is down as well, and a bad one that plans do without counts as drained.
 */
export function markOf(scene, at) {
  const cabling = cablingOf(scene, at);
  if (cabling && cabling !== "unknown") return cabling;
  if (isDown(scene, at)) return "down";
  return isBad(scene, at) ? "bad" : isDrained(scene, at) ? "drained" : cabling;
}

/** Return what is said of a cable beside its load: "cable wrong", or "". */
export function cableText(scene, at) {
  const kind = cablingOf(scene, at) || (isBad(scene, at) ? "bad" : "");
  return kind && `cable ${kind}`;
}

export const isDrained = (scene, at) => scene.state?.links?.drained?.[at] === 1;

/** Say if a switch is drained: every link that leaves it towards a switch is. */
export function nodeDrained(scene, id) {
  const out = (scene.tables.out.get(id) ?? []).filter((at) => scene.tables.switchAt.has(scene.fabric.links[at].to.node));
  return out.length > 0 && out.every((at) => isDrained(scene, at));
}

export function isLost(scene, id) {
  const at = scene.tables.switchAt.get(id);
  return at !== undefined && scene.state?.switches?.connected?.[at] === 0;
}

/** Return how a switch is named for those who cannot see it. */
export function nodeLabel(scene, id) {
  const at = scene.tables.switchAt.get(id);
  if (at === undefined) return `NIC ${id}${scene.ranks.has(id) ? ", drawn as a rank" : ""}`;
  const rules = scene.state?.switches?.rules?.[at];
  const parts = [`Switch ${id}`];
  if (scene.state?.switches?.connected) parts.push(isLost(scene, id) ? "not connected" : "connected");
  if (rules !== undefined && rules !== null) parts.push(`${rules} rules`);
  if (nodeDrained(scene, id)) parts.push("drained");
  return parts.join(", ");
}

/** Return the node beside `id` in the direction of an arrow key, by position, or null. */
export function neighbour(nodes, id, key) {
  const from = nodes.get(id);
  const sideways = key === "ArrowLeft" || key === "ArrowRight";
  let best = null;
  let least = Infinity;
  for (const [other, at] of nodes) {
    if (other === id || (sideways && at.tier !== from.tier)) continue;
    const ahead = { ArrowLeft: from.x - at.x, ArrowRight: at.x - from.x, ArrowUp: from.y - at.y, ArrowDown: at.y - from.y }[key];
    if (ahead <= 0 || (!sideways && at.tier === from.tier)) continue;
    const distance = ahead + (sideways ? 0 : Math.abs(at.x - from.x) / 4);
    if (distance < least) [least, best] = [distance, other];
  }
  return best;
}
