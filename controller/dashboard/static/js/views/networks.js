/** Virtual networks: VPCs with their isolation verdict, gateways and pairs with table occupancy, balancers with back ends. */

import { h, morph } from "../dom.js";
import { count, duration, plural } from "../format.js";
import { resource } from "../resource.js";
import { notRecorded } from "../timebar.js";
import { bar, missing, table, verdict } from "./table.js";

const HEALTH = { up: "good", draining: "warning" };
const ISOLATION = { verified: "good", violated: "error", unknown: "quiet" };

/** @param {HTMLElement} place */
export function networksView(place) {
  const live = resource();
  return {
    update() {
      const gone = notRecorded("networks");
      live.want(gone ? null : "/api/networks");
      morph(place, [h("h1", null, "Virtual networks"), gone ?? (live.data ? [vpcs(live.data), gateways(live.data), balancers(live.data)] : missing(live, "Networks"))]);
    },
    close: live.close,
  };
}

function vpcs({ vpcs }) {
  const rows = vpcs.map((vpc) => [vpc.id, vpc.id, isolation(vpc), vpc.tenant, `${vpc.vni} (${vpc.network})`, vpc.subnets.join(", "), count(vpc.endpoints)]);
  return h("section", { class: "card" }, h("h2", null, "VPCs"), table("VPCs", ["VPC", "Isolation", "Tenant", "VNI (network)", "Subnets", "n:Endpoints"], rows, "No virtual networks."));
}

function gateways({ gateways }) {
  const rows = gateways.map((item) => [item.id, item.kind === "gateway" ? item.id : `${item.id} (${item.kind})`, verdict(item.state === "attached" ? "good" : "error", item.state), tables(item), item.role ?? "–", item.pair ?? "–", 
    occupancy(item.connections, item.connections_limit), occupancy(item.mappings, item.mappings_limit), duration(item.age_ms)]);
  return h("section", { class: "card" }, h("h2", null, "Gateways"), table("Gateways", ["Gateway", "State", "Tables", "Role", "Pair", "Connections", "Translations", "n:Age"], rows, "No gateways."));
}

const MAX_REASONS = 3;

/** Return the verdict on a VPC with its age, and the paths that differ or why there is no verdict. */
function isolation(vpc) {
  const why = vpc.isolation_why ?? [];
  const age = vpc.isolation_age_ms === null || vpc.isolation === "unknown" ? "" : ` ${duration(vpc.isolation_age_ms)} ago${vpc.isolation_is_newest ? "" : ", before the last change"}`;
  const more = why.length > MAX_REASONS ? h("small", null, `and ${why.length - MAX_REASONS} more: heddle verify isolation`) : null;
  return [verdict(ISOLATION[vpc.isolation] ?? "quiet", vpc.isolation === "unknown" ? "not verified" : vpc.isolation), age ? h("span", { class: "quiet" }, age) : null,
    why.slice(0, MAX_REASONS).map((text) => h("small", { class: "why" }, text)), more];
}

const occupancy = (used, limit) => (limit ? bar(used / limit, `${count(used)} of ${count(limit)}`) : count(used));

/** Say whether a gateway forwards by the newest tables, and why not; then which VPCs it does not serve as wanted. */
function tables({ generation, wanted_generation, refused, kept_vpcs, unknown_vpcs }) {
  if (refused) return verdict("error", `refused: ${refused}`);
  const state = generation === wanted_generation ? verdict("good", "newest") : verdict("warning", `${count(wanted_generation - generation)} behind`);
  const kept = Object.entries(kept_vpcs ?? {}), unknown = unknown_vpcs ?? [];
  return [state, kept.length ? verdict("error", `${plural(kept.length, "VPC")} not as wanted`) : null,
    kept.slice(0, MAX_REASONS).map(([vpc, why]) => h("small", { class: "why" }, `${vpc}: ${why}`)),
    unknown.length ? verdict("warning", `serves ${plural(unknown.length, "VPC")} that the controller does not know: ${unknown.slice(0, MAX_REASONS).join(", ")}`) : null];
}

function balancers({ balancers }) {
  const rows = balancers.map((item) => [item.id, item.id, item.vpc, item.vip, item.served_by.length ? item.served_by.join(", ") : verdict("error", "none"),
    item.backends.map((back) => h("div", null, back.address, ` weight ${back.weight} `, verdict(HEALTH[back.health] ?? "error", back.health)))]);
  return h("section", { class: "card" }, h("h2", null, "Balancers"), table("Balancers", ["Balancer", "VPC", "Address", "Served by", "Back ends"], rows, "No balancers."));
}
