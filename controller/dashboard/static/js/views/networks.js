/** Virtual networks: VPCs with their isolation verdict, gateways and pairs with table occupancy, balancers with back ends. */

import { h, morph } from "../dom.js";
import { count, duration } from "../format.js";
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
  const rows = vpcs.map((vpc) => [vpc.id, vpc.id, vpc.tenant, vpc.subnets.join(", "), count(vpc.endpoints), verdict(ISOLATION[vpc.isolation] ?? "quiet", vpc.isolation)]);
  return h("section", { class: "card" }, h("h2", null, "VPCs"), table("VPCs", ["VPC", "Tenant", "Subnets", "n:Endpoints", "Isolation"], rows, "No virtual networks."));
}

function gateways({ gateways }) {
  const rows = gateways.map((item) => [item.id, item.id, verdict(item.state === "attached" ? "good" : "error", item.state), item.role ?? "–", item.pair ?? "–", count(item.connections),
    item.mappings_limit ? bar(item.mappings / item.mappings_limit, `${count(item.mappings)} of ${count(item.mappings_limit)}`) : count(item.mappings), duration(item.age_ms)]);
  return h("section", { class: "card" }, h("h2", null, "Gateways"), table("Gateways", ["Gateway", "State", "Role", "Pair", "n:Connections", "Translations", "n:Age"], rows, "No gateways."));
}

function balancers({ balancers }) {
  const rows = balancers.map((item) => [item.id, item.id, item.vpc, item.vip,
    item.backends.map((back) => h("div", null, back.address, ` weight ${back.weight} `, verdict(HEALTH[back.health] ?? "error", back.health)))]);
  return h("section", { class: "card" }, h("h2", null, "Balancers"), table("Balancers", ["Balancer", "VPC", "Address", "Back ends"], rows, "No balancers."));
}
