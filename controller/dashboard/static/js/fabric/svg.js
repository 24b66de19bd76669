/** Draw a fabric as SVG: each half of a cable is the direction that leaves the nearer node, and can be clicked. */

import { svg } from "../dom.js";
import { portName } from "./index.js";
import { layout, line, offsets, widths } from "./layout.js";
import { cableText, isLost, linkClass, linkLoad, MARKS, markOf, neighbour, nodeDrained, nodeLabel } from "./marks.js";
import { percent } from "../format.js";

const NODE_HEIGHT = 26;

/** @param {Element} place @param {import("./marks.js").Scene} scene @param {(pick: {node?: string, link?: number}) => void} onPick */
export function drawSvg(place, scene, width, height, onPick) {
  const placed = layout(scene.fabric, scene.tables, width, height);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Fabric ${scene.fabric.name}` });
  const cables = drawCables(scene, placed);
  const nodes = drawNodes(scene, placed);
  root.append(cables.group, cables.marks, nodes.group);
  root.addEventListener("click", (event) => {
    const half = event.target.closest("[data-link]");
    const node = event.target.closest("[data-node]");
    if (node) onPick({ node: node.dataset.node });
    else if (half) onPick({ link: Number(half.dataset.link) });
    else onPick({});
  });
  root.addEventListener("keydown", (event) => steer(event, placed, nodes, onPick));
  place.replaceChildren(root);
  const update = (scene) => {
    root.classList.toggle("has-lit", scene.lit !== null);
    cables.update(scene);
    nodes.update(scene);
  };
  update(scene);
  return { update };
}

function steer(event, placed, nodes, onPick) {
  const id = event.target.dataset?.node;
  if (!id) return;
  if (event.key === "Enter" || event.key === " ") onPick({ node: id });
  else if (event.key.startsWith("Arrow")) nodes.focus(neighbour(placed.nodes, id, event.key));
  else return;
  event.preventDefault();
}

function drawCables(scene, placed) {
  const { fabric, tables } = scene;
  const [width, aside] = [widths(fabric), offsets(fabric, tables)];
  const group = svg("g", { class: "cables" });
  const marks = svg("g", { class: "marks" });
  const drawn = tables.cables.map((at) => {
    const ends = line(placed, fabric.links[at], aside[at]);
    const halves = [half(at, ends.slice(0, 4), width[at])];
    if (tables.back[at] >= 0) halves.push(half(tables.back[at], ends.slice(2), width[at]));
    const mark = svg("g", { class: "mark", transform: `translate(${ends[2]} ${ends[3]})` });
    group.append(...halves.flatMap(({ hit, seen }) => [seen, hit]));
    marks.append(mark);
    return { at, halves, mark, marked: "" };
  });
  const update = (scene) => {
    for (const cable of drawn) {
      for (const part of cable.halves) updateHalf(part, scene);
      mark(cable, scene);
    }
  };
  return { group, marks, update };
}

function half(at, [x1, y1, x2, y2], width) {
  const seen = svg("line", { x1, y1, x2, y2, "stroke-width": width });
  const title = svg("title");
  const hit = svg("line", { x1, y1, x2, y2, class: "hit", "data-link": at }, title);
  return { at, seen, hit, title, look: "" };
}

function updateHalf(part, scene) {
  const look = linkClass(scene, part.at);
  if (look !== part.look) part.seen.setAttribute("class", (part.look = look));
  const { from, to } = scene.fabric.links[part.at];
  const cable = cableText(scene, part.at);
  const text = `${portName(from, scene.tables.nicAt)} → ${portName(to, scene.tables.nicAt)}: ${percent(linkLoad(scene, part.at))}${cable && `, ${cable}`}`;
  if (part.text !== text) part.title.textContent = part.text = text;
}

function mark(cable, scene) {
  const marked = markOf(scene, cable.at);
  if (marked === cable.marked) return;
  cable.marked = marked;
  const shape = MARKS[marked];
  cable.mark.replaceChildren(...(shape ? [svg("circle", { r: 9, class: "ground" }), svg("path", { d: shape, class: marked })] : []));
}

function drawNodes(scene, placed) {
  const group = svg("g", { class: "nodes" });
  const drawn = new Map();
  for (const [id, at] of placed.nodes) {
    const node = at.tier < 0 ? drawNic(id, at) : drawSwitch(id, at, stepOf(scene, placed, at.tier));
    drawn.set(id, { node, look: "", label: "" });
    group.append(node);
  }
  let entry = null;
  const focus = (id) => {
    if (!id) return;
    drawn.get(entry)?.node.setAttribute("tabindex", "-1");
    drawn.get((entry = id)).node.setAttribute("tabindex", "0");
    drawn.get(id).node.focus();
  };
  const update = (scene) => {
    for (const [id, item] of drawn) updateNode(scene, id, item);
    if (entry === null) drawn.get((entry = scene.fabric.switches[0]?.id))?.node.setAttribute("tabindex", "0");
  };
  return { group, update, focus };
}

const stepOf = (scene, placed, tier) => placed.width / scene.fabric.switches.filter((item) => item.tier === tier).length;

function updateNode(scene, id, item) {
  let look = item.node.dataset.kind;
  if (isLost(scene, id)) look += " lost";
  if (nodeDrained(scene, id)) look += " drained";
  if (scene.node === id) look += " picked";
  if (scene.ranks.has(id)) look += " rank";
  if (look !== item.look) item.node.setAttribute("class", `node ${(item.look = look)}`);
  const label = nodeLabel(scene, id);
  if (label !== item.label) item.node.setAttribute("aria-label", (item.label = label));
}

function drawSwitch(id, { x, y }, step) {
  const upright = step < 44;
  const [w, h] = upright ? [Math.max(14, Math.min(20, step - 3)), 58] : [Math.min(84, step - 8), NODE_HEIGHT];
  const text = svg("text", { class: "name", transform: upright ? "rotate(-90)" : null, "text-anchor": "middle", dy: "0.35em" }, fit(id, upright ? h : w));
  const flag = svg("g", { class: "flag", transform: `translate(${w / 2} ${-h / 2})`, "aria-hidden": "true" }, svg("circle", { r: 8 }), svg("path", { d: "M-3-3L3 3M3-3L-3 3" }));
  return svg("g", { "data-node": id, "data-kind": "switch", role: "button", tabindex: -1, transform: `translate(${x} ${y})` },
    svg("title", null, id), svg("rect", { x: -w / 2, y: -h / 2, width: w, height: h, rx: 4 }), text, flag);
}

function drawNic(id, { x, y, w, h }) {
  const wide = Math.max(4, Math.min(w - 2, 62));
  const name = w >= 44 ? svg("text", { class: "name", "text-anchor": "middle", dy: "1.9em" }, fit(id, w)) : null;
  return svg("g", { "data-node": id, "data-kind": "nic", role: "button", tabindex: -1, transform: `translate(${x} ${y})` },
    svg("title", null, id), svg("rect", { x: -wide / 2, y: -h / 2, width: wide, height: h + 3, rx: 2 }), name);
}

const LETTER = 6.6;
const fit = (text, room) => (text.length * LETTER <= room ? text : `${text.slice(0, Math.max(1, Math.floor(room / LETTER) - 1))}…`);
