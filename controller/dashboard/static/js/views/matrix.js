/** Leaf x spine: the load of every pair, and how even it is. Numbers where they fit, a canvas for hundreds of switches. */

import { h, morph } from "../dom.js";
import { percent, plural, ratio } from "../format.js";
import { bestShow, heat, matrixOf } from "../load.js";
import { isPast, picture, shown } from "../picture.js";
import { withQuery } from "../router.js";
import { heatCanvas } from "./heat_canvas.js";
import { bar, choice, figure, table } from "./table.js";

const MAX_CELLS_AS_TEXT = 700;
const MAX_HOTTEST = 10;

/** @param {HTMLElement} place */
export function matrixView(place) {
  const bar_ = h("div", { class: "toolbar" });
  const pane = h("div", { class: "matrix" });
  const side = h("div", { class: "side" });
  place.append(h("h1", { class: "hidden" }, "Leaf x spine matrix"), h("div", { class: "stage" }, bar_, pane), side);
  const canvas = heatCanvas();
  return {
    update({ query }) {
      const state = shown();
      const show = query.get("show") ?? bestShow(state);
      const way = query.get("way") === "down" ? "down" : "up";
      const matrix = matrixOf(picture.fabric, picture.index, state, show);
      const cells = matrix[way];
      const { leaves, spines } = matrix;
      morph(bar_, [
        choice("Load shown", [["measured", "Measured", withQuery({ show: "measured" }), show === "measured"], ["planned", "Planned", withQuery({ show: "planned" }), show === "planned"]]),
        choice("Direction", [["up", "Up: leaf to spine", withQuery({ way: null }), way === "up"], ["down", "Down: spine to leaf", withQuery({ way: "down" }), way === "down"]]),
        show === "measured" && !state?.links?.utilisation ? h("span", { class: "tag warning" }, isPast() ? "Not recorded" : "Nothing measures these links") : null,
      ]);
      const big = leaves.length * spines.length > MAX_CELLS_AS_TEXT;
      morph(pane, [big ? h("div", { class: "heat", "data-own": true, "data-key": "canvas" }) : asTable(leaves, spines, cells, matrix.cut)]);
      if (big) canvas.draw(pane.firstElementChild, leaves, spines, cells, matrix.cut);
      morph(side, summary(matrix, cells, way));
    },
  };
}

function asTable(leaves, spines, cells, cut) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Load of leaf x spine", "data-key": "table" },
    h("table", { class: "cells" },
      h("thead", null, h("tr", null, h("td"), spines.map((id) => h("th", { scope: "col" }, id)))),
      h("tbody", null, leaves.map((id, row) => h("tr", { "data-key": id }, h("th", { scope: "row" }, h("a", { href: `/fabric?switch=${encodeURIComponent(id)}` }, id)),
        cells[row].map((value, column) => h("td", { class: `cell heat-${heat(value)}${value === null ? " none" : ""}${cut[row][column] ? " cut" : ""}`, title: cut[row][column] ? `${id} – ${spines[column]}: ${plural(cut[row][column], "cable")} down` : null },
          `${value === null ? "·" : Math.round(100 * value)}${cut[row][column] ? " ✕" : ""}`)))))),
    h("p", { class: "quiet" }, "Percent of capacity. A dot: no cable, or no figure. A cross: a cable is down."));
}

function summary(matrix, cells, way) {
  const index = matrix.imbalance_index;
  const pairs = cells.flatMap((line, row) => line.map((value, column) => ({ value, leaf: matrix.leaves[row], spine: matrix.spines[column] })));
  const hottest = pairs.filter(({ value }) => value > 0.005).sort((a, b) => b.value - a.value).slice(0, MAX_HOTTEST);
  const columns = matrix.spines.map((id, at) => [id, mean(cells.map((line) => line[at]))]).filter(([, load]) => load !== null);
  const busiest = columns.sort((a, b) => b[1] - a[1]).slice(0, MAX_HOTTEST);
  return [
    h("section", { class: "card" }, h("h2", null, "Imbalance index"),
      figure("largest uplink / mean of uplinks", index === null ? "–" : ratio(index), index === null ? "no load" : "1.0 = even", index > 1.5 ? "warning" : "")),
    h("section", { class: "card" }, h("h2", null, "Hottest pairs"),
      table("Hottest pairs", way === "up" ? ["From", "to", "Load"] : ["To", "from", "Load"], hottest.map(({ leaf, spine, value }) => [`${leaf} ${spine}`, leaf, spine, bar(value)]), "No load.")),
    h("section", { class: "card" }, h("h2", null, "Spines by mean load"),
      table("Spines by mean load", ["Spine", "Mean"], busiest.map(([id, load]) => [id, h("a", { href: `/fabric?switch=${encodeURIComponent(id)}` }, id), bar(load, percent(load))]), "No load.")),
  ];
}

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
