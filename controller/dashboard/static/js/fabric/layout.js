/** Place a Clos: the top tier first, leaves below, NICs under their leaf. A Clos has a fixed layout, so there is no solver. */

export const MAX_SVG_LINKS = 1000;
const MARGIN = 12;

/**
 * @param {any} fabric @param {any} tables @param {number} width px @param {number} height px
 * @returns {{width: number, height: number, column: number, nodes: Map<string, {x: number, y: number, tier: number}>}}
 *   `column` is the distance of leaves; NICs have tier -1.
 */
export function layout(fabric, tables, width, height) {
  const nodes = new Map();
  const [lowest] = tables.tiers;
  const leaves = fabric.switches.filter((item) => item.tier === lowest);
  const column = (width - 2 * MARGIN) / Math.max(1, leaves.length);
  const rows = tables.tiers.length;
  const top = 34;
  const bottom = height - 46;
  const leafY = bottom - Math.max(64, (bottom - top) * 0.24);
  tables.tiers.forEach((tier, row) => {
    const y = rows === 1 ? leafY : leafY - (row * (leafY - top)) / (rows - 1);
    const group = fabric.switches.filter((item) => item.tier === tier);
    const step = (width - 2 * MARGIN) / group.length;
    group.forEach((item, at) => nodes.set(item.id, { x: MARGIN + step * (at + 0.5), y, tier }));
  });
  placeNics(fabric, nodes, column, bottom);
  return { width, height, column, nodes };
}

const NIC_AREA = 84;
const NIC_CELL = 7;

function placeNics(fabric, nodes, column, y) {
  const byLeaf = new Map();
  for (const nic of fabric.nics) {
    if (!byLeaf.has(nic.switch)) byLeaf.set(nic.switch, []);
    byLeaf.get(nic.switch).push(nic);
  }
  const most = Math.max(1, ...[...byLeaf.values()].map((nics) => nics.length));
  const { columns, w, h } = cells(most, column * 0.94);
  const first = y - (columns < most ? NIC_AREA - 40 : 0);
  for (const [leaf, nics] of byLeaf) {
    const at = nodes.get(leaf);
    if (!at) continue;
    const across = Math.min(columns, nics.length);
    nics.forEach((nic, number) => {
      const x = at.x + w * ((number % across) - (across - 1) / 2);
      nodes.set(nic.id, { x, y: first + h * Math.floor(number / across), tier: -1, w, h });
    });
  }
}

/** Return the grid of NICs under a leaf: one row where each gets 6 px, else the fewest columns that fit the area. */
function cells(number, room) {
  if (room / number >= 6) return { columns: number, w: room / number, h: NIC_CELL };
  for (let columns = 1; columns < number; columns += 1) {
    const h = Math.min(NIC_CELL, room / columns);
    if (Math.ceil(number / columns) * h <= NIC_AREA) return { columns, w: room / columns, h };
  }
  return { columns: number, w: room / number, h: Math.min(NIC_CELL, room / number) };
}

/** Return the width of a link in px: it grows with the root of its share of the largest capacity. */
export function widths(fabric) {
  const most = fabric.links.reduce((largest, link) => Math.max(largest, link.capacity_bps), 1);
  return Float32Array.from(fabric.links, (link) => 1.5 + 3 * Math.sqrt(link.capacity_bps / most));
}

/** Return how far each cable is moved aside, in px, so that parallel ones are seen apart. */
export function offsets(fabric, tables) {
  const groups = new Map();
  for (const at of tables.cables) {
    const { from, to } = fabric.links[at];
    const pair = [from.node, to.node].sort().join(" ");
    if (!groups.has(pair)) groups.set(pair, []);
    groups.get(pair).push(at);
  }
  const aside = new Float32Array(fabric.links.length);
  for (const group of groups.values()) group.forEach((at, number) => (aside[at] = 7 * (number - (group.length - 1) / 2)));
  return aside;
}

/** Return both ends and the middle of a cable, moved aside. @returns {number[]} x1, y1, xm, ym, x2, y2 */
export function line(placed, { from, to }, aside) {
  const [a, b] = [placed.nodes.get(from.node), placed.nodes.get(to.node)];
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const [dx, dy] = [(-(b.y - a.y) / length) * aside, ((b.x - a.x) / length) * aside];
  return [a.x + dx, a.y + dy, (a.x + b.x) / 2 + dx, (a.y + b.y) / 2 + dy, b.x + dx, b.y + dy];
}
