/** A port: its link, its state, and what happened on it over time (uPlot). */

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { actionButton } from "../actions.js";
import { pathTo } from "../api.js";
import { h } from "../dom.js";
import { portName, splitPort } from "../fabric/index.js";
import { isDrained } from "../fabric/marks.js";
import { bytes, percent, perSecond, rate } from "../format.js";
import { isPast, picture } from "../picture.js";
import { resource } from "../resource.js";
import { heading, portState } from "./panels.js";
import { missing } from "./table.js";

const WINDOW_MS = 600_000;
const HEIGHT_PX = 84;
const CHARTS = [
  { title: "Utilisation", series: [["utilisation", "", "--accent"]], text: percent },
  { title: "ECN marks", series: [["ecn_marked_per_s", "", "--heat-3"]], text: perSecond },
  { title: "PFC", series: [["pfc_rx_per_s", "received", "--heat-5"], ["pfc_tx_per_s", "sent", "--heat-1"]], text: perSecond },
  { title: "Drops", series: [["drops_per_s", "", "--bad"]], text: perSecond },
  { title: "Queue depth", series: [["depth_bytes", "", "--heat-2"]], text: bytes },
];

/** Return the panel of a port; `render` gives its elements, `draw` fills the charts once they are in the page. */
export function portPanel() {
  const history = resource();
  let charts = [];
  let drawn = null;
  const drop = () => {
    charts.forEach(({ plot }) => plot.destroy());
    charts = [];
  };
  return {
    render(name, scene) {
      const port = splitPort(name);
      if (!port) return h("section", { class: "card", "data-key": "port" }, heading(name, { port: null }), h("p", { class: "error" }, `${name} names no port: write switch:number.`));
      const window_ = isPast() ? `?from_ms=${picture.atMs - WINDOW_MS}&to_ms=${picture.atMs}` : "";
      history.want(pathTo("/api/ports", port.switch, port.port) + window_);
      return h("section", { class: "card", "data-key": `port ${name}` }, heading(name, { port: null }), linkText(scene),
        history.data ? CHARTS.map((chart) => chartBox(chart, history.data.series)) : missing(history, `Port ${name}`));
    },
    draw(place) {
      const boxes = [...place.querySelectorAll(".chart")];
      const data = history.data;
      if (!data || boxes.length === 0) return drop();
      if (boxes[0] !== charts[0]?.box) {
        drop();
        charts = boxes.map((box, at) => ({ box, plot: plotIn(box, CHARTS[at]) }));
        drawn = null;
      }
      if (drawn !== data) charts.forEach(({ plot }, at) => plot.setData(columns(CHARTS[at], data.series)));
      drawn = data;
    },
    close() {
      history.close();
      drop();
    },
  };
}

function linkText(scene) {
  if (scene.link < 0) return h("p", { class: "error" }, "This fabric has no such port.");
  const { fabric, tables } = scene;
  const link = fabric.links[scene.link];
  const drained = isDrained(scene, scene.link);
  const between = tables.switchAt.has(link.to.node);
  return [
    h("dl", null, h("dt", null, "Peer"), h("dd", null, portName(link.to, tables.nicAt)), h("dt", null, "Capacity"), h("dd", null, rate(link.capacity_bps)),
      h("dt", null, scene.show === "planned" ? "Planned" : "Load"), h("dd", null, portState(scene, scene.link))),
    between ? h("p", { class: "buttons" }, actionButton(drained ? "undrain" : "drain", link.id, drained ? "Undrain link …" : "Drain link …")) : null,
  ];
}

const last = (values) => (values ?? []).findLast((value) => value !== null) ?? null;

function chartBox({ title, series, text }, all) {
  const known = series.filter(([name]) => (all[name] ?? []).some((value) => value !== null));
  const now = known.map(([name, label]) => `${label ? `${label} ` : ""}${text(last(all[name]))}`).join(", ");
  return h("div", { class: "trace" }, h("h3", null, title, h("span", null, known.length ? now : "not measured")), h("div", { class: "chart", "data-own": true, "data-key": title, role: "img", "aria-label": `${title} over time` }));
}

const columns = ({ series }, all) => [all.t_ms.map((ms) => ms / 1000), ...series.map(([name]) => all[name] ?? all.t_ms.map(() => null))];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function plotIn(box, { series, text }) {
  const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return new uPlot({
    width: box.clientWidth || 280, height: HEIGHT_PX, legend: { show: false }, cursor: { y: false, sync: { key: "port" }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, low ?? 0) || 1] } },
    axes: [{ ...axis, size: 22, space: 70 }, { ...axis, size: 62, space: 24, values: (_, ticks) => ticks.map((value) => text(value)) }],
    series: [{}, ...series.map(([, , stroke], at) => ({ stroke: () => colour(stroke), width: 1.5, dash: at ? [4, 3] : [], points: { show: false } }))],
  }, [[], ...series.map(() => [])], box);
}
