/** Draw a large fabric on a canvas: quiet cables as a still ground, the hottest above it, NICs as cells under their leaf. */

import { h } from "../dom.js";
import { heat } from "../load.js";
import { layout } from "./layout.js";
import { isDown, isLost, linkLoad, MARKS, markOf, neighbour, nodeDrained, nodeLabel } from "./marks.js";

/** Cables that are drawn above the ground: the hottest of those above MIN_LOAD. More would hide each other. */
export const MAX_DRAWN = 1500;
const MIN_LOAD = 0.3;
const REACH = 9;

/** @param {Element} place @param {import("./marks.js").Scene} first @param {(pick: {node?: string, link?: number}) => void} onPick */
export function drawCanvas(place, first, width, height, onPick) {
  const scale = window.devicePixelRatio || 1;
  const canvas = h("canvas", { width: width * scale, height: height * scale, tabindex: 0, role: "application",
    "aria-roledescription": "map of the fabric", "aria-label": `Fabric ${first.fabric.name}: arrow keys move, Enter selects` });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  place.replaceChildren(canvas);
  const placed = layout(first.fabric, first.tables, width, height);
  const drawing = { canvas, scale, placed, scene: first, ground: null, cursor: null, colours: null };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => {
    drawing.ground = null;
    draw(drawing);
  });
  canvas.addEventListener("click", (event) => onPick(hit(drawing, event.offsetX, event.offsetY)));
  canvas.addEventListener("pointermove", (event) => (canvas.title = titleOf(drawing, hit(drawing, event.offsetX, event.offsetY))));
  canvas.addEventListener("keydown", (event) => steer(event, drawing, onPick));
  draw(drawing);
  return { update: (scene) => ((drawing.scene = scene), draw(drawing)) };
}

function steer(event, drawing, onPick) {
  const { cursor, placed, scene } = drawing;
  if (event.key === "Enter" && cursor) onPick({ node: cursor });
  else if (event.key.startsWith("Arrow")) {
    drawing.cursor = cursor ? (neighbour(placed.nodes, cursor, event.key) ?? cursor) : scene.fabric.switches[0].id;
    drawing.canvas.setAttribute("aria-label", nodeLabel(scene, drawing.cursor));
    draw(drawing);
  } else return;
  event.preventDefault();
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { heat: HEAT_NAMES.map(of), text: of("--text"), muted: of("--muted"), surface: of("--surface"), accent: of("--accent"), bad: of("--bad"), warn: of("--warn"), page: of("--page"), line: of("--line") };
}

const HEAT_NAMES = [0, 1, 2, 3, 4, 5].map((at) => `--heat-${at}`);

function draw(drawing) {
  const { canvas, scale, placed, scene } = drawing;
  if (!drawing.ground) {
    drawing.colours = colours();
    drawing.ground = drawGround(drawing);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.globalAlpha = scene.lit ? 0.35 : 1;
  pen.drawImage(drawing.ground, 0, 0);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  drawHot(pen, drawing);
  pen.globalAlpha = 1;
  drawLit(pen, drawing);
  drawBroken(pen, drawing);
  drawNics(pen, drawing);
  drawSwitches(pen, drawing);
}

/** The cables as they are without load: drawn once for a size and colour scheme. */
function drawGround({ canvas, scale, placed, scene, colours }) {
  const ground = h("canvas", { width: canvas.width, height: canvas.height });
  const pen = ground.getContext("2d");
  pen.scale(scale, scale);
  pen.strokeStyle = colours.heat[0];
  pen.globalAlpha = scene.tables.cables.length > 4000 ? 0.06 : 0.15;
  pen.lineWidth = 0.7;
  for (const at of scene.tables.cables) stroke(pen, placed, scene.fabric.links[at]);
  return ground;
}

function stroke(pen, placed, { from, to }) {
  const [a, b] = [placed.nodes.get(from.node), placed.nodes.get(to.node)];
  if (a.tier < 0 || b.tier < 0) return;
  pen.beginPath();
  pen.moveTo(a.x, a.y);
  pen.lineTo(b.x, b.y);
  pen.stroke();
}

const both = (scene, at) => Math.max(linkLoad(scene, at) ?? 0, scene.tables.back[at] < 0 ? 0 : (linkLoad(scene, scene.tables.back[at]) ?? 0));

/** Return the hottest cables between switches, coolest first, by counting loads in hundredths. */
export function hottest(scene) {
  const counts = new Int32Array(101);
  const hot = [];
  for (const at of scene.tables.cables) {
    if (scene.fabric.links[at].kind === "nic") continue;
    const load = both(scene, at);
    if (load < MIN_LOAD) continue;
    hot.push({ at, load });
    counts[Math.min(100, Math.floor(load * 100))] += 1;
  }
  let least = 101;
  for (let kept = 0; least > 0 && kept + counts[least - 1] <= MAX_DRAWN; least -= 1) kept += counts[least - 1];
  const drawn = hot.length <= MAX_DRAWN ? hot : hot.filter(({ load }) => load * 100 >= least).slice(0, MAX_DRAWN);
  return drawn.sort((a, b) => a.load - b.load);
}

function drawHot(pen, { placed, scene, colours }) {
  pen.lineWidth = 1;
  const from = scene.node;
  for (const { at, load } of hottest(scene)) {
    const link = scene.fabric.links[at];
    if (from && link.from.node !== from && link.to.node !== from) continue;
    pen.strokeStyle = colours.heat[heat(load)];
    pen.lineWidth = load >= 0.8 ? 1.4 : 0.8;
    stroke(pen, placed, link);
  }
}

function drawLit(pen, { placed, scene, colours }) {
  if (!scene.lit) return;
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 1.6;
  for (const at of scene.lit) stroke(pen, placed, scene.fabric.links[at]);
}

/** The lines below the marks of heddle.css: dashes, colour, width. */
const LINES = {
  down: [[6, 4], "bad", 2], wrong: [[14, 3, 3, 3], "bad", 2], missing: [[2, 8], "bad", 2],
  bad: [[20, 5], "warn", 2], drained: [[2, 3], "muted", 1], unknown: [[5, 4], "muted", 1],
};
/** The marks of cables of which nothing is heard, or which are drained, up to which they are drawn: more would hide the fabric. */
const MAX_QUIET_MARKS = 200;

function drawBroken(pen, { placed, scene, colours }) {
  const marked = new Map(scene.tables.cables.map((at) => [at, markOf(scene, at)]).filter(([, kind]) => kind));
  const isQuiet = (kind) => kind === "unknown" || kind === "drained";
  const quiet = [...marked.values()].filter(isQuiet).length;
  for (const [at, kind] of marked) {
    const link = scene.fabric.links[at];
    const [dashes, colour, width] = LINES[kind];
    pen.setLineDash(dashes);
    pen.strokeStyle = colours[colour];
    pen.lineWidth = width;
    stroke(pen, placed, link);
    pen.setLineDash([]);
    if (quiet <= MAX_QUIET_MARKS || !isQuiet(kind)) mark(pen, placed, link, kind, colours);
  }
}

function mark(pen, placed, { from, to }, kind, colours) {
  const [a, b] = [placed.nodes.get(from.node), placed.nodes.get(to.node)];
  if (a.tier < 0 || b.tier < 0) return;
  pen.save();
  pen.translate((a.x + b.x) / 2, (a.y + b.y) / 2);
  pen.fillStyle = colours.page;
  pen.beginPath();
  pen.arc(0, 0, 8, 0, 2 * Math.PI);
  pen.fill();
  pen.lineWidth = 1.8;
  pen.stroke(new Path2D(MARKS[kind]));
  pen.restore();
}

function drawNics(pen, { placed, scene, colours }) {
  for (const nic of scene.fabric.nics) {
    const at = placed.nodes.get(nic.id);
    const [link] = scene.tables.out.get(nic.id) ?? [-1];
    if (!at || link < 0) continue;
    const broken = isDown(scene, link);
    pen.fillStyle = broken ? colours.bad : scene.ranks.has(nic.id) ? colours.accent : colours.heat[heat(both(scene, link))];
    const [w, h] = [Math.max(1, at.w - 1), Math.max(1, at.h - 1)];
    pen.fillRect(at.x - w / 2, at.y - h / 2, w, broken ? h / 2 : h);
  }
}

function drawSwitches(pen, { placed, scene, colours, cursor }) {
  const groups = new Map();
  for (const item of scene.fabric.switches) groups.set(item.tier, (groups.get(item.tier) ?? 0) + 1);
  for (const { id, tier } of scene.fabric.switches) {
    const { x, y } = placed.nodes.get(id);
    const w = Math.max(3, Math.min(26, placed.width / groups.get(tier) - 2));
    const lost = isLost(scene, id);
    pen.fillStyle = nodeDrained(scene, id) ? colours.surface : colours.muted;
    pen.strokeStyle = lost ? colours.bad : colours.muted;
    pen.fillRect(x - w / 2, y - 8, w, 16);
    pen.lineWidth = lost ? 3 : 1;
    pen.setLineDash(lost ? [3, 2] : []);
    pen.strokeRect(x - w / 2, y - 8, w, 16);
    pen.setLineDash([]);
    if (id === cursor || id === scene.node) {
      pen.strokeStyle = colours.accent;
      pen.lineWidth = 2.5;
      pen.strokeRect(x - w / 2 - 3, y - 11, w + 6, 22);
      pen.fillStyle = colours.text;
      pen.font = "12px system-ui, sans-serif";
      pen.textAlign = x < 60 ? "left" : x > placed.width - 60 ? "right" : "center";
      pen.fillText(id, x, y < 60 ? y + 26 : y - 16);
    }
  }
}

function hit({ placed, scene }, x, y) {
  let node = null;
  let least = REACH;
  for (const [id, at] of placed.nodes) {
    const distance = Math.max(Math.abs(at.x - x), Math.abs(at.y - y) - (at.tier < 0 ? 0 : 8));
    if (distance < least) [least, node] = [distance, id];
  }
  if (node) return { node };
  let link = -1;
  least = 4;
  for (const { at } of hottest(scene)) {
    const distance = distanceTo(placed, scene.fabric.links[at], x, y);
    if (distance < least) [least, link] = [distance, at];
  }
  return link < 0 ? {} : { link };
}

function distanceTo(placed, { from, to }, x, y) {
  const [a, b] = [placed.nodes.get(from.node), placed.nodes.get(to.node)];
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const along = Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / (dx * dx + dy * dy)));
  return Math.hypot(a.x + along * dx - x, a.y + along * dy - y);
}

function titleOf({ scene }, pick) {
  if (pick.node) return nodeLabel(scene, pick.node);
  return pick.link === undefined ? "" : scene.fabric.links[pick.link].id;
}
