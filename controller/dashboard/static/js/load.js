/** Judge a state: the load of links, the leaf x spine matrix, what needs attention. Pure functions. */

import { clock, duration, percent, plural } from "./format.js";
import { endHref, endName, portName } from "./fabric/index.js";

/** Lower ends of the heat classes 0..5 of heddle.css. */
export const HEAT = [0, 0.01, 0.3, 0.6, 0.8, 0.95];
export const HOT = 0.8;
export const STALE_MS = 5000;

/** Return the heat class of a load. @param {number|null} value */
export function heat(value) {
  if (value === null) return 0;
  let at = HEAT.length - 1;
  while (at > 0 && value < HEAT[at]) at -= 1;
  return at;
}

/** Say which load a state can show: the measured one where anything is measured. */
export const bestShow = (state) => (state?.links?.utilisation ? "measured" : "planned");

/** Return the load of link `at`: measured is the larger of utilisation and pause share; null where not known. */
export function loadOf(links, at, show) {
  if (!links) return null;
  if (show === "planned") return links.planned?.[at] ?? null;
  const utilisation = links.utilisation?.[at] ?? null;
  const paused = links.pause_share?.[at] ?? null;
  return utilisation === null ? paused : Math.max(utilisation, paused ?? 0);
}

/** Say if pauses, not bytes, make a link's load. */
export const isPaused = (links, at) => (links?.pause_share?.[at] ?? 0) > 0.01 && links.pause_share[at] >= (links.utilisation?.[at] ?? 0);

/** Say if a cable is down: it is when either direction is. */
const isCut = ({ links }, tables, at) => links?.up?.[at] === 0 || (tables.back[at] >= 0 && links?.up?.[tables.back[at]] === 0);

/**
 * Return the load of leaf x spine in both directions as a share of the capacity, largest / mean of the uplinks, and
 * how many cables of each pair are down.
 */
export function matrixOf(fabric, tables, state, show) {
  const [lowest, second] = tables.tiers;
  const leaves = fabric.switches.filter((item) => item.tier === lowest).map((item) => item.id);
  const spines = fabric.switches.filter((item) => item.tier === second).map((item) => item.id);
  const row = new Map(leaves.map((id, at) => [id, at]));
  const column = new Map(spines.map((id, at) => [id, at]));
  const empty = () => leaves.map(() => spines.map(() => null));
  const sums = { up: empty(), down: empty() };
  const cut = leaves.map(() => spines.map(() => 0));
  fabric.links.forEach(({ from, to, capacity_bps }, at) => {
    const upwards = row.has(from.node) && column.has(to.node);
    if (!upwards && !(column.has(from.node) && row.has(to.node))) return;
    const [leaf, spine] = upwards ? [row.get(from.node), column.get(to.node)] : [row.get(to.node), column.get(from.node)];
    if (upwards && state && isCut(state, tables, at)) cut[leaf][spine] += 1;
    const value = loadOf(state?.links, at, show);
    if (value === null) return;
    const cell = ((upwards ? sums.up : sums.down)[leaf][spine] ??= { load: 0, capacity: 0 });
    cell.load += value * capacity_bps;
    cell.capacity += capacity_bps;
  });
  const shares = (cells) => cells.map((line) => line.map((cell) => (cell ? cell.load / cell.capacity : null)));
  const [up, down] = [shares(sums.up), shares(sums.down)];
  return { leaves, spines, up, down, cut, imbalance_index: imbalance(up.flat()) };
}

function imbalance(values) {
  const known = values.filter((value) => value !== null);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return mean > 0 ? known.reduce((most, value) => Math.max(most, value), 0) / mean : null;
}

/**
 * Return what needs attention, the worst first: each with a severity (error or warning), a text and a view's address.
 * @returns {{severity: string, text: string, detail: string, href: string}[]}
 */
export function problems(fabric, tables, state) {
  if (!fabric || !state) return [];
  return [...lostSwitches(fabric, state), ...faultySwitches(state), ...openNetworks(state), ...miscabled(state), ...downLinks(fabric, tables, state),
    ...badCables(state), ...congestion(state), ...hotLinks(fabric, tables, state), ...badJobs(state), ...telemetry(state)];
}

function lostSwitches(fabric, { switches }) {
  const lost = fabric.switches.filter((_, at) => switches?.connected?.[at] === 0);
  return lost.map(({ id }) => ({
    severity: "error", text: `Switch ${id} is not connected`, detail: "its rules stay as they are", href: `/fabric?switch=${encodeURIComponent(id)}`,
  }));
}

function faultySwitches({ switches }) {
  return Object.entries(switches?.faults ?? {}).map(([id, why]) => ({
    severity: "error", text: `No new job uses switch ${id}`, detail: why, href: "/health",
  }));
}

/** Tenants that reach what they must not, or do not reach what they are to; and those that a gateway serves otherwise than wanted. */
function openNetworks({ counts }) {
  const found = [];
  if (counts?.vpcs_violated) found.push({ severity: "error", text: `Isolation of ${plural(counts.vpcs_violated, "VPC")} is violated`, detail: "installed tables differ from the intent", href: "/networks" });
  if (counts?.vpcs_kept) found.push({ severity: "warning", text: `${plural(counts.vpcs_kept, "VPC")} served as before`, detail: "a gateway refuses what is wanted", href: "/networks" });
  return found;
}

/** Why cables are wrong or missing: a sentence for each cause. */
function miscabled({ miscablings }) {
  return (miscablings ?? []).map((text) => ({ severity: "error", text: `Cabling: ${text}`, detail: "", href: "/fabric" }));
}

function downLinks(fabric, tables, state) {
  return tables.cables.filter((at) => isCut(state, tables, at)).map((at) => {
    const [from, to] = [fabric.links[at].from, fabric.links[at].to];
    return {
      severity: "error", text: `Link ${portName(from, tables.nicAt)} – ${portName(to, tables.nicAt)} is down`, detail: "", href: hrefOfLink(fabric, tables, at),
    };
  });
}

/** Return the address of the port that a link leaves; a NIC has no port of the fabric, so its leaf's is shown. */
export function hrefOfLink(fabric, tables, at) {
  const { from, to } = fabric.links[at];
  const end = tables.nicAt.has(from.node) ? to : from;
  return `/fabric?port=${encodeURIComponent(`${end.node}:${end.port}`)}`;
}

const MAX_ROOTS = 4;
/** The conditions of a cable, not of what it carries. */
const BAD_CABLE = { loss: "loses frames", slow: "has less than its rate" };
const isBadCable = (item) => item.cause in BAD_CABLE;

/** Cables that are up and bad: the event log says what plans make of them. */
function badCables({ congested, at_ms }) {
  const bad = (congested ?? []).filter(isBadCable);
  const found = bad.slice(0, MAX_ROOTS).map((item) => ({
    severity: "warning",
    text: `Bad cable at ${endName(item)}`,
    detail: `${BAD_CABLE[item.cause]}${item.since_ms ? `, ${sinceText(item.since_ms, at_ms)}` : ""}: clean or replace its optics`,
    href: endHref(item),
  }));
  const left = bad.length - found.length;
  if (left > 0) found.push({ severity: "warning", text: `${plural(left, "more port")} of bad cables`, detail: "", href: "/congestion" });
  return found;
}

/** Roots are named; those that only suffer from them are counted: a storm of pauses has one cause and many victims. */
function congestion({ congested, at_ms }) {
  const order = (congested ?? []).filter((item) => !isBadCable(item)).sort((a, b) => rank(a) - rank(b) || (a.since_ms ?? 0) - (b.since_ms ?? 0));
  const named = order.filter((item, at) => at === 0 || (item.root && !item.cause.startsWith("paus"))).slice(0, MAX_ROOTS);
  const found = named.map((item) => ({
    severity: item.root ? "error" : "warning",
    text: `Congestion at ${endName(item)}`,
    detail: `${item.cause}${item.root ? ", root" : ""}${item.since_ms ? `, ${sinceText(item.since_ms, at_ms)}` : ""}`,
    href: endHref(item),
  }));
  const ports = new Set(order.map(endName));
  named.forEach((item) => ports.delete(endName(item)));
  if (ports.size) found.push({ severity: "warning", text: `${plural(ports.size, "more port")} congested or paused`, detail: "", href: "/congestion" });
  return found;
}

/** Roots first, and of these the congested before those that pass pauses on; the oldest of equals is the likely cause. */
const rank = (item) => (item.root ? 0 : 2) + (item.cause.startsWith("paus") ? 1 : 0);

const sinceText = (since, now) => (now - since > 1000 ? `for ${duration(now - since)}` : `since ${clock(since)}`);

const OVER_PLAN = 0.1;
const MUCH_PAUSED = 0.1;

/** A full link is a problem where no plan wants it full, or where pauses fill it. The plans of the past are not recorded. */
function hotLinks(fabric, tables, { links, congested }) {
  if (!links?.utilisation) return [];
  const named = new Set((congested ?? []).map(endName));
  const hot = [];
  fabric.links.forEach((link, at) => {
    const load = loadOf(links, at, "measured");
    const paused = links.pause_share?.[at] ?? 0;
    const unplanned = links.planned && load >= HOT && load > (links.planned?.[at] ?? 0) + OVER_PLAN;
    if (load !== null && (unplanned || paused >= MUCH_PAUSED) && !named.has(portName(link.from, tables.nicAt))) hot.push({ at, load, unplanned });
  });
  hot.sort((a, b) => b.load - a.load);
  const first = hot.slice(0, MAX_ROOTS).map(({ at, load, unplanned }) => ({
    severity: "warning",
    text: `${portName(fabric.links[at].from, tables.nicAt)} → ${fabric.links[at].to.node}: ${percent(load)}`,
    detail: unplanned && !isPaused(links, at) ? "utilised beyond its plan" : "paused",
    href: hrefOfLink(fabric, tables, at),
  }));
  const rest = hot.length - first.length;
  if (rest > 0) first.push({ severity: "warning", text: `${plural(rest, "more link")} paused or beyond the plan`, detail: "", href: "/matrix" });
  return first;
}

const BAD = new Set(["FAILED", "REJECTED", "INFEASIBLE"]);

function badJobs({ jobs }) {
  const bad = (jobs ?? []).filter((job) => job.degraded || BAD.has(String(job.state).toUpperCase()));
  const first = bad.slice(0, 5).map((job) => ({
    severity: "warning", text: `Job ${job.id} is ${job.degraded ? "degraded" : String(job.state).toLowerCase()}`, detail: job.reason ?? "", href: `/jobs/${encodeURIComponent(job.id)}`,
  }));
  if (bad.length > 5) first.push({ severity: "warning", text: `${plural(bad.length - 5, "more job")} degraded or failed`, detail: "", href: "/jobs" });
  return first;
}

function telemetry({ telemetry: state }) {
  if (!state?.configured) return [];
  const found = [];
  if (state.acts === false) found.push({ severity: "warning", text: "Telemetry raises alarms only", detail: "its broker requires neither password nor TLS, so that no plan follows it", href: "/health" });
  if (state.age_ms !== null && state.age_ms < STALE_MS) return found;
  const text = state.age_ms === null ? "No telemetry has arrived" : `Telemetry is ${duration(state.age_ms)} old`;
  return [...found, { severity: "warning", text, detail: "measured figures are not current", href: "/health" }];
}
