/** A plan's certificate: what it achieves beside the proven bound and what hashing would do. */

import { h } from "../dom.js";
import { clock, count, plural, ratio } from "../format.js";
import { bar, verdict } from "./table.js";

const ROWS = [["bound", "Proven bound"], ["achieved", "This plan"], ["e_ecmp", "E-ECMP"], ["ecmp", "ECMP"]];

/** @param {any} values certificate of /api/jobs/{id} @param {number} flows of the job */
export function certificate(values, flows) {
  if (!values) return h("p", { class: "quiet" }, "No certificate.");
  const known = ROWS.map(([name]) => values[name]).filter((value) => value !== null && value !== undefined);
  const most = Math.max(...known, Number.MIN_VALUE);
  return h("div", { class: "certificate" },
    h("p", { class: "quiet" }, "Largest link utilisation; lower is better."),
    h("table", { class: "bars" }, h("tbody", null, ROWS.map(([name, text]) => {
      const value = values[name] ?? null;
      return h("tr", { class: name }, h("th", { scope: "row" }, text), h("td", null, value === null ? "–" : bar(value / most, ratio(value))));
    }))),
    h("p", null, verdictText(values)),
    values.probed ? h("p", null, probedText(values, flows)) : null,
    values.by_construction ? h("p", null, verdict("good", "Packets name their paths: by construction, without rules or probes.")) : null);
}

/** Say of how many flows probes have seen the path, on a fabric whose switches hash. */
function probedText({ paths_confirmed: paths, oldest_confirmation_ms: oldest, probes }, flows) {
  if (!oldest) return verdict("quiet", "No path is probed: the ports are searched when the job is submitted.");
  const text = `Paths of ${count(paths)} of ${count(flows)} flows confirmed by probes`;
  return [verdict(paths < flows ? "warning" : "good", text), h("small", { class: "why" }, `the oldest at ${clock(oldest)}; ${count(probes)} probes for this generation`)];
}

function verdictText({ achieved, bound, proof, flows_slowed, mean_share, worst_share, flows_work_conserving: conserving, assumed, below_goal }) {
  const parts = [];
  if (achieved !== null && bound !== null) parts.push(achieved <= bound * 1.0005 ? "Optimal: the plan reaches the bound." : `${ratio(achieved / bound)} times the bound.`);
  if (proof) parts.push(`Proof: ${proof}.`);
  if (flows_slowed) parts.push(`${flows_slowed} flows are slowed to ${ratio(mean_share)} of their rate on average, ${ratio(worst_share)} at worst.`);
  if (conserving) parts.push(`${plural(conserving, "flow")} of this job may send faster than predicted while a link is idle.`);
  if (below_goal) parts.push(`The mean speed of the jobs is ${ratio(below_goal)} below that of a plan of all flows, to which they may converge.`);
  if (assumed) parts.push("Assumed: nothing says what this job sends.");
  return parts.join(" ");
}
