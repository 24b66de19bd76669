/** Health of the controller: sessions, rules against budgets, age of telemetry, install times, the loop's lag. */

import { h, morph } from "../dom.js";
import { clock, count, duration } from "../format.js";
import { resource } from "../resource.js";
import { notRecorded } from "../timebar.js";
import { bar, figure, missing, table, verdict } from "./table.js";

const LAG_P99_MS = 10;
const LAG_MAX_MS = 50;

/** @param {HTMLElement} place */
export function healthView(place) {
  const live = resource();
  return {
    update() {
      const gone = notRecorded("the controller's health");
      live.want(gone ? null : "/api/health");
      morph(place, [h("h1", null, "Health"), gone ?? (live.data ? [figures(live.data), switches(live.data)] : missing(live, "Health"))]);
    },
    close: live.close,
  };
}

function figures(health) {
  const { telemetry, install_ms: install, loop_lag_ms: lag } = health;
  const wanted = health.switches.filter((item) => item.connected !== null).length;
  const connected = health.switches.filter((item) => item.connected).length;
  return h("div", { class: "figures" },
    figure(`version ${health.version}`, health.leader ? "leader" : "standby"),
    figure("uptime", duration(health.uptime_ms)),
    wanted ? figure("switches connected", `${connected}/${wanted}`, null, connected < wanted ? "error" : "") : probeAgents(health),
    figure("age of telemetry", telemetry?.configured ? duration(telemetry.age_ms) : "none"),
    figure(health.probe_agents ? "source ports found, p50" : "rules installed, p50", duration(install?.p50), `p99 ${duration(install?.p99)}, ${count(install?.count)} times`),
    figure("loop's lag, p99", duration(lag?.p99), `max ${duration(lag?.max)}`, lag && (lag.p99 > LAG_P99_MS || lag.max > LAG_MAX_MS) ? "warning" : ""),
    figure("pages open", count(health.http?.clients), `${count(health.http?.refused)} refused`));
}

/** On a fabric whose switches hash no session is to be: the agents of hosts are. */
function probeAgents({ probe_agents: agents }) {
  if (!agents) return null;
  const { attached, expected, missing } = agents;
  const more = expected - attached - missing.length;
  const note = missing.length ? `none at ${missing.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}` : "switches hash: no sessions";
  return figure("probe agents attached", `${count(attached)}/${count(expected)}`, note, attached < expected ? "warning" : "");
}

function switches(health) {
  if (health.probe_agents) return h("section", { class: "card" }, h("h2", null, "Switches"), h("p", { class: "quiet" }, `${count(health.switches.length)} switches hash: they hold no rules, and have no session with the controller.`));
  const order = [...health.switches].sort((a, b) => Number(a.connected) - Number(b.connected));
  const rows = order.map((item) => [item.id, h("a", { href: `/fabric?switch=${encodeURIComponent(item.id)}` }, item.id), item.connected === null ? verdict("quiet", "none: it hashes") : item.connected ? verdict("good", "connected") : verdict("error", "not connected"),
    item.since_ms ? clock(item.since_ms) : "–", item.rule_limit ? bar(item.rules / item.rule_limit, `${count(item.rules)} of ${count(item.rule_limit)}`) : count(item.rules),
    item.installed_equals_wanted === null && !item.fault ? verdict("quiet", "unknown") : item.fault ? verdict("error", item.fault) : item.installed_equals_wanted ? verdict("good", "equal") : verdict("warning", "differ")]);
  return h("section", { class: "card" }, h("h2", null, "Switches"), table("Switches", ["Switch", "Session", "Since", "Rules", "Installed and wanted"], rows));
}
