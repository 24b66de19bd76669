/** The fabric: what needs attention, the picture, and beside it the selected port, switch or job. */

import { h, morph, svg } from "../dom.js";
import { fabricDrawing } from "../fabric/drawing.js";
import { linkOfPort, splitPort } from "../fabric/index.js";
import { hottest, MAX_DRAWN } from "../fabric/canvas.js";
import { MARKS } from "../fabric/marks.js";
import { MAX_SVG_LINKS } from "../fabric/layout.js";
import { clock, plural } from "../format.js";
import { bestShow, HEAT } from "../load.js";
import { isPast, picture, shown } from "../picture.js";
import { setQuery, withQuery } from "../router.js";
import { resource } from "../resource.js";
import { attention, busiest, nicPanel, switchPanel } from "./panels.js";
import { portPanel } from "./port.js";
import { previewPanel, previewState, toggleRank } from "./preview.js";
import { choice, missing } from "./table.js";
import { pathTo } from "../api.js";

/** @param {HTMLElement} place */
export function fabricView(place) {
  const job = resource();
  const port = portPanel();
  const pane = h("div", { class: "pane", "data-own": true });
  const side = h("div", { class: "side" });
  const bar = h("div", { class: "toolbar" });
  place.append(h("h1", { class: "hidden" }, "Fabric"), h("div", { class: "stage" }, bar, pane), side);
  const drawing = fabricDrawing(pane, (pick) => onPick(pick));
  return {
    update(route, found) {
      const scene = sceneOf(route, job);
      morph(bar, toolbar(scene, route, job));
      drawing.update(scene);
      morph(side, panels(route, scene, found, port, job));
      port.draw(side);
    },
    close() {
      drawing.close();
      job.close();
      port.close();
    },
  };
}

function onPick({ node, link }) {
  const { fabric, index } = picture;
  if (previewState.open && node && index.nicAt.has(node)) return toggleRank(node);
  const clear = { switch: null, port: null, nic: null };
  if (node) setQuery({ ...clear, [index.nicAt.has(node) ? "nic" : "switch"]: node });
  else if (link !== undefined) {
    const { from, to } = fabric.links[link];
    const end = index.nicAt.has(from.node) ? to : from;
    setQuery({ ...clear, port: `${end.node}:${end.port}` });
  } else setQuery(clear);
}

/** @returns {import("../fabric/marks.js").Scene} */
function sceneOf({ query }, job) {
  const { fabric, index } = picture;
  const state = shown();
  const port = splitPort(query.get("port") ?? "");
  const id = query.get("job");
  job.want(id && !isPast() ? pathTo("/api/jobs", id) : null);
  previewState.open = query.has("preview");
  return {
    fabric, tables: index, state,
    show: query.get("show") === "planned" || query.get("show") === "measured" ? query.get("show") : bestShow(state),
    node: query.get("switch") ?? query.get("nic"),
    link: port ? linkOfPort(fabric, index, port.switch, port.port) : -1,
    ...litBy(job.data),
    ranks: previewState.open ? previewState.ranks : new Set(),
    preview: previewState.open ? (previewState.plan?.links_planned ?? null) : null,
  };
}

/** Return the links of a job's flows, and those of them that other jobs use. */
export function litBy(job) {
  if (!job) return { lit: null, shared: null };
  const at = (ids) => ids.map((id) => picture.index.linkAt.get(id)).filter((link) => link !== undefined);
  return {
    lit: new Set(job.flows.flatMap((flow) => at(flow.links))),
    shared: new Set(job.shares_links_with.flatMap((other) => at(other.links))),
  };
}

function toolbar(scene, { query }, job) {
  const mode = [
    ["measured", "Measured", withQuery({ show: "measured" }), scene.show === "measured"],
    ["planned", "Planned", withQuery({ show: "planned" }), scene.show === "planned"],
  ];
  return [
    choice("Load shown", mode),
    legend(scene),
    asFound(scene.fabric),
    note(scene),
    query.get("job") ? h("span", { class: "tag" }, "Job ", h("a", { href: `/jobs/${encodeURIComponent(query.get("job"))}` }, query.get("job")),
      job.error ? missing(job, "This job") : " is lit ", h("a", { href: withQuery({ job: null }), "aria-label": "Show every job" }, "✕")) : null,
    h("a", { class: "button", href: withQuery({ preview: query.has("preview") ? null : 1 }) }, query.has("preview") ? "Close what if" : "What if …"),
  ];
}

/** The marks of cables: those of faults that this fabric has, and always the two that an operator makes or meets daily. */
function markedCables({ links }) {
  const cabled = (kind) => links?.cabling?.includes(kind);
  return [["down", "down", true], ["drained", "drained", true], ["wrong", "wrong cable", cabled(1)], ["missing", "missing", cabled(2)],
    ["bad", "bad: loses frames or is slow", links?.bad?.includes(1)], ["unknown", "not heard", cabled(3)]].filter(([, , has]) => has);
}

function legend(scene) {
  const names = HEAT.slice(1).map((least) => (least < 0.05 ? "> 0" : `≥ ${Math.round(least * 100)} %`));
  return h("ul", { class: "legend", "aria-label": "Colours" },
    names.map((name, at) => h("li", { class: `heat-${at + 1}` }, name)),
    h("li", { class: "paused" }, "paused"),
    markedCables(scene.state ?? {}).map(([kind, text]) => h("li", { class: `of-mark ${kind}` },
      svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, svg("path", { d: MARKS[kind], class: kind })), text)));
}

/** Cables that are used as they were found: the drawing shows where they are, the file says where they belong. */
function asFound({ as_found: cables }) {
  if (!cables) return null;
  const [are, they] = cables.count === 1 ? ["is", "it was"] : ["are", "they were"];
  const since = cables.since_ms ? ` since ${clock(cables.since_ms)}` : "";
  return h("span", { class: "tag warning as-found", title: cables.first.join(", ") },
    `${plural(cables.count, "cable")} ${are} used as ${they} found${since}, not as in the fabric file`);
}

function note(scene) {
  if (scene.preview) return h("span", { class: "tag" }, "Load of the preview");
  if (scene.show === "measured" && !scene.state?.links?.utilisation) return h("span", { class: "tag warning" }, isPast() ? "Not recorded" : "Nothing measures these links");
  if (isPast() && !scene.state?.links?.up) return h("span", { class: "tag" }, "Loads alone: which links were down or drained is in the ", h("a", { href: "/timeline" }, "timeline"));
  if (scene.fabric.links.length <= MAX_SVG_LINKS) return null;
  return hottest(scene).length >= MAX_DRAWN ? h("span", { class: "tag" }, `The ${MAX_DRAWN} hottest cables are drawn`) : null;
}

function panels({ query }, scene, found, port, job) {
  const chosen = [];
  if (query.has("preview")) chosen.push(previewPanel(scene));
  if (query.get("port")) chosen.push(port.render(query.get("port"), scene));
  else if (query.get("switch")) chosen.push(switchPanel(scene, query.get("switch")));
  else if (query.get("nic")) chosen.push((scene.tables.switchAt.has(query.get("nic")) ? switchPanel : nicPanel)(scene, query.get("nic")));
  if (query.get("job") && job.data) chosen.push(sharing(job.data));
  return [...(query.has("preview") ? [] : [attention(found, scene.state)]), ...chosen, ...(chosen.length ? [] : [busiest(scene)])];
}

function sharing(job) {
  return h("section", { class: "card", "data-key": "sharing" }, h("h2", null, `Jobs that share links with ${job.id}`),
    job.shares_links_with.length === 0 ? h("p", { class: "quiet" }, "None.") :
      h("ul", { class: "plain" }, job.shares_links_with.map((other) =>
        h("li", { "data-key": other.job }, h("a", { href: withQuery({ job: other.job }) }, other.job), ` on ${other.links.length} links`))));
}

