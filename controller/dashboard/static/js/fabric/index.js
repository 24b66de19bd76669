/** Look-up tables of a fabric: positions by id, the two directions of a cable, the links at each node. */

/**
 * @param {any} fabric an object of /api/fabric
 * @returns {{switchAt: Map<string, number>, nicAt: Map<string, number>, linkAt: Map<string, number>,
 *   back: Int32Array, out: Map<string, number[]>, tiers: number[], cables: number[]}}
 *   `back[i]` is the opposite direction of link i or -1; `out` the links that leave a node; `cables` one direction each.
 */
export function index(fabric) {
  const position = (items) => new Map(items.map((item, at) => [item.id, at]));
  const ends = new Map();
  const out = new Map();
  fabric.links.forEach((link, at) => {
    ends.set(endsOf(link.from, link.to), at);
    if (!out.has(link.from.node)) out.set(link.from.node, []);
    out.get(link.from.node).push(at);
  });
  const back = Int32Array.from(fabric.links, (link) => ends.get(endsOf(link.to, link.from)) ?? -1);
  const cables = [];
  back.forEach((other, at) => {
    if (other === -1 || at < other) cables.push(at);
  });
  return {
    switchAt: position(fabric.switches),
    nicAt: position(fabric.nics),
    linkAt: position(fabric.links),
    tiers: [...new Set(fabric.switches.map((item) => item.tier))].sort((a, b) => a - b),
    back,
    out,
    cables,
  };
}

const endsOf = (from, to) => `${from.node} ${from.port} ${to.node} ${to.port}`;

/** Return a port's name, `leaf1:3`; a NIC has one port and is named alone. @param {{node: string, port: any}} end */
export const portName = (end, nicAt) => (nicAt?.has(end.node) || end.port === null ? end.node : `${end.node}:${end.port}`);

/** Split `leaf1:3` at its last colon. @param {string} name */
export function splitPort(name) {
  const at = name.lastIndexOf(":");
  return at < 0 ? null : { switch: name.slice(0, at), port: name.slice(at + 1) };
}

/** Return the link that leaves a switch's port, or -1. */
export function linkOfPort(fabric, tables, name, port) {
  return (tables.out.get(name) ?? []).find((at) => String(fabric.links[at].from.port) === String(port)) ?? -1;
}

/** Return the name of an end of the API, `{switch, port}`; the port is null for a NIC. */
export const endName = (end) => (end.port === null ? end.switch : `${end.switch}:${end.port}`);

/** Return the address of an end's panel. */
export const endHref = (end) => `/fabric?${end.port === null ? "nic" : "port"}=${encodeURIComponent(endName(end))}`;
