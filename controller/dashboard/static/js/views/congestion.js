/** Congestion: hot ports, and who pauses whom with the root first. */

import { h, morph } from "../dom.js";
import { endHref, endName as name } from "../fabric/index.js";
import { bytes, duration, perSecond } from "../format.js";
import { isPast, shown } from "../picture.js";
import { resource } from "../resource.js";
import { figure, missing, table, verdict } from "./table.js";

/** @param {HTMLElement} place */
export function congestionView(place) {
  const live = resource(1000);
  return {
    update() {
      const state = shown();
      live.want(isPast() ? null : "/api/congestion");
      const congested = state?.congested ?? [];
      morph(place, [
        h("h1", null, "Congestion"),
        h("div", { class: "figures" }, figure("ports congested or paused", state?.congested ? new Set(congested.map(name)).size : "–"), figure("pause trees", isPast() ? "–" : (live.data?.pause_trees.length ?? "–"))),
        h("section", { class: "card" }, h("h2", null, "Hot ports"), isPast() ? pastPorts(state) : live.data ? livePorts(live.data, state) : missing(live, "Congestion")),
        h("section", { class: "card" }, h("h2", null, "Pause trees"),
          isPast() ? h("p", { class: "quiet" }, "The pause tree of this moment is not recorded.") : live.data ? trees(live.data) : missing(live, "The pause tree")),
      ]);
    },
    close: live.close,
  };
}

const portLink = (item) => h("a", { href: endHref(item) }, name(item));
const rootMark = (root) => (root ? verdict("error", "root") : null);

function livePorts({ ports }, state) {
  const known = new Map((state?.congested ?? []).map((item) => [name(item), item]));
  const isRoot = (item) => Boolean(known.get(name(item))?.root) && (!item.root_cause || item.root_cause === name(item));
  const rows = [...ports].sort((a, b) => isRoot(b) - isRoot(a)).map((item) => {
    const since = known.get(name(item));
    return [`${name(item)} ${item.cause} ${item.priority ?? ""}`, [portLink(item), " ", rootMark(isRoot(item))], causeOf(item), since ? duration(Math.max(0, state.at_ms - since.since_ms)) : "–",
      perSecond(item.ecn_marked_per_s), perSecond(item.pfc_rx_per_s), perSecond(item.pfc_tx_per_s), bytes(item.depth_bytes),
      item.jobs.map((job, at) => [at ? ", " : "", h("a", { href: `/jobs/${encodeURIComponent(job)}` }, job)])];
  });
  return table("Hot ports", ["Port", "Cause", "n:For", "n:ECN marks", "n:PFC received", "n:PFC sent", "n:Depth", "Jobs"], rows, "No port is congested.");
}

/** A port that is not the root is congested because of another: name it. */
const causeOf = (item) => [item.cause, item.root_cause && item.root_cause !== name(item) ? h("small", { class: "quiet" }, ` because of ${item.root_cause}`) : null, item.stale ? verdict("warning", "stale") : null];

function pastPorts(state) {
  if (!state?.congested) return h("p", { class: "quiet" }, "Not recorded.");
  const rows = [...state.congested].sort((a, b) => b.root - a.root).map((item) => [name(item), [portLink(item), " ", rootMark(item.root)], item.cause, duration(Math.max(0, state.at_ms - item.since_ms))]);
  return table("Hot ports", ["Port", "Cause", "n:For"], rows, "No port was congested.");
}

function trees({ pause_trees }) {
  if (pause_trees.length === 0) return h("p", { class: "quiet" }, "No port pauses another.");
  return pause_trees.map((tree) => h("div", { class: "tree", "data-key": name(tree.root) },
    h("p", null, verdict("error", "root"), " ", portLink(tree.root), tree.nic ? [" towards NIC ", h("b", null, tree.nic)] : "", ` pauses ${new Set(tree.edges.flatMap((edge) => [name(edge.from), name(edge.to)])).size - (tree.edges.length ? 1 : 0)} ports upstream.`),
    branch(tree)));
}

/** Return the tree below the root as nested lists. A port that is reached twice is listed once. */
function branch({ root, edges }) {
  const beside = new Map();
  for (const { from, to } of edges) {
    for (const [one, other] of [[from, to], [to, from]]) {
      if (!beside.has(name(one))) beside.set(name(one), []);
      beside.get(name(one)).push(other);
    }
  }
  const seen = new Set([name(root)]);
  const below = (end) => {
    const next = (beside.get(name(end)) ?? []).filter((other) => !seen.has(name(other)));
    next.forEach((other) => seen.add(name(other)));
    return next.length ? h("ul", null, next.map((other) => h("li", null, "pauses ", portLink(other), below(other)))) : null;
  };
  return below(root);
}
