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
