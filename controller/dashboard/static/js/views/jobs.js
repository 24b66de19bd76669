/** Jobs: the list, and one job with its certificate, flows, generations and the jobs it shares links with. */

import { actionButton } from "../actions.js";
import { pathTo } from "../api.js";
import { h, morph } from "../dom.js";
import { fabricDrawing } from "../fabric/drawing.js";
import { clock, count, NOT_MEASURED, plural, rate, ratio } from "../format.js";
import { bestShow } from "../load.js";
import { picture } from "../picture.js";
import { resource } from "../resource.js";
import { go, setQuery, withQuery } from "../router.js";
import { notRecorded } from "../timebar.js";
import { certificate } from "./certificate.js";
import { litBy } from "./fabric.js";
import { bar, missing, table, verdict } from "./table.js";

const PAGE = 50;

/** @param {HTMLElement} place */
export function jobsView(place) {
  const detail = resource();
  const all = resource();
  const list = h("div", { class: "list" });
  const body = h("div", { class: "detail" });
  const pane = h("div", { class: "pane small", "data-own": true, "data-key": "pane" });
  const drawing = fabricDrawing(pane, ({ node }) => node && go(`/fabric?switch=${encodeURIComponent(node)}`));
  place.append(h("h1", { class: "hidden" }, "Jobs"), list, body);
  list.addEventListener("input", (event) => setQuery({ find: event.target.value || null, from: null }, true));
  return {
    update({ id, query }) {
      place.classList.toggle("one", id !== null);
      const gone = notRecorded("jobs");
      detail.want(id !== null && !gone ? pathTo("/api/jobs", id) : null);
      all.want(gone ? null : "/api/jobs");
      morph(list, gone ? [gone] : jobList(all.data?.jobs ?? picture.live.jobs, id, query));
      const job = detail.data;
      if (gone || id === null) return morph(body, gone ? [] : [h("p", { class: "quiet" }, "Select a job: its plan, its flows, and the fabric with its links lit.")]);
      morph(body, job ? jobDetail(job, query, pane) : [missing(detail, `Job ${id}`)]);
      if (job) drawing.update(sceneOf(job));
    },
    close() {
      drawing.close();
      detail.close();
      all.close();
    },
  };
}

function sceneOf(job) {
  const state = picture.live;
  return { fabric: picture.fabric, tables: picture.index, state, show: bestShow(state), node: null, link: -1, ranks: new Set(), preview: null, ...litBy(job) };
}

const LOOKS = { RUNNING: "good", FAILED: "error", REJECTED: "error", INFEASIBLE: "error", DEGRADED: "warning", RELEASED: "quiet" };
const stateOf = (job) => verdict(job.degraded ? "warning" : (LOOKS[String(job.state).toUpperCase()] ?? "quiet"), job.degraded ? `${job.state}, degraded` : job.state);

function jobList(all, id, query) {
  const wanted = (query.get("find") ?? "").toLowerCase();
  const jobs = all.filter((job) => `${job.id} ${job.tenant} ${job.state}`.toLowerCase().includes(wanted));
  const from = Math.min(Number(query.get("from")) || 0, Math.max(0, jobs.length - 1));
  const probed = jobs.some((job) => job.probed);
  const rows = jobs.slice(from, from + PAGE).map((job) => [job.id,
    h("a", { href: pathTo("/jobs", job.id) + window.location.search, "aria-current": job.id === id ? "true" : null }, job.id), job.tenant, stateOf(job), count(job.flows),
    ratio(job.max_utilisation), ratio(job.bound), ...(probed ? [confirmed(job)] : [])]);
  return [
    h("div", { class: "toolbar", "data-key": "bar" }, h("input", { type: "search", placeholder: "Find a job", title: "By name, tenant or state", "aria-label": "Find a job", value: query.get("find") ?? "" }),
      h("span", { class: "quiet" }, plural(jobs.length, "job")), pager(from, jobs.length, "from")),
    table("Jobs", ["Job", "Tenant", "State", "n:Flows", "n:Fullest link", "n:Bound", ...(probed ? ["Probed"] : [])], rows, "No jobs. Submit one: heddle job submit FILE."),
  ];
}

/** Say how many paths of a job probes have confirmed, on a fabric whose switches hash. */
const confirmed = (job) => (job.probed ? verdict(job.paths_confirmed < job.flows ? "warning" : "good", `${count(job.paths_confirmed)} of ${count(job.flows)}`) : "–");

/** Return links to the pages before and after. @param {number} from @param {number} total @param {string} key of the query */
function pager(from, total, key) {
  if (total <= PAGE) return null;
  return h("span", { class: "pager" },
    from > 0 ? h("a", { class: "button", href: withQuery({ [key]: Math.max(0, from - PAGE) || null }) }, "Previous") : null,
    ` ${from + 1}–${Math.min(total, from + PAGE)} of ${count(total)} `,
    from + PAGE < total ? h("a", { class: "button", href: withQuery({ [key]: from + PAGE }) }, "Next") : null);
}

function jobDetail(job, query, pane) {
  return [
    h("div", { class: "toolbar", "data-key": "head" }, h("h2", null, job.id), stateOf(job), h("span", { class: "quiet" }, `${job.tenant}, priority ${job.priority ?? "–"}, generation ${job.generation ?? "–"}`),
      h("a", { class: "button", href: `/fabric?job=${encodeURIComponent(job.id)}` }, "Show on the fabric"), actionButton("release", job.id, "Release …", "danger")),
    job.reason && LOOKS[String(job.state).toUpperCase()] !== "good" ? h("p", { "data-key": "reason", class: "tag warning" }, job.reason) : null,
    h("div", { class: "columns", "data-key": "columns" },
      h("section", { class: "card" }, h("h3", null, "Certificate"), certificate(job.certificate, job.flows_total)),
      h("section", { class: "card" }, h("h3", null, "Shares links with"), sharing(job)),
      h("section", { class: "card" }, h("h3", null, "Generations"), generations(job))),
    pane,
    h("section", { class: "card", "data-key": "flows" }, ...flows(job, query)),
  ];
}

const sharing = (job) => table("Jobs that share links", ["Job", "n:Links"], job.shares_links_with.map((other) => [other.job, h("a", { href: pathTo("/jobs", other.job) }, other.job), count(other.links.length)]), "No other job uses its links.");

const generations = (job) => table("Generations", ["n:No.", "At", "Reason"], [...job.generations].reverse().map((item) => [item.generation, item.generation, clock(item.at_ms), item.reason]), "None.");

function flows(job, query) {
  const total = job.flows_total ?? job.flows.length;
  const measured = job.flows.filter((flow) => flow.measured_bps !== null).length;
  const lag = (flow) => (flow.measured_bps === null || !flow.planned_bps ? 1 : flow.measured_bps / flow.planned_bps);
  const order = [...job.flows].sort((a, b) => lag(a) - lag(b));
  const from = Math.min(Number(query.get("flow")) || 0, Math.max(0, order.length - 1));
  const rows = order.slice(from, from + PAGE).map((flow) => [flow.id, flow.src, flow.dst, rate(flow.planned_bps),
    flow.measured_bps === null ? h("span", { class: "quiet" }, NOT_MEASURED) : rate(flow.measured_bps),
    flow.measured_bps === null ? "" : bar(lag(flow)), path(flow), flow.udp_source_port ?? "–"]);
  return [
    h("h3", null, "Flows"),
    h("p", { class: "quiet" }, `${plural(total, "flow")}, ${measured ? `${count(measured)} measured; the slowest first` : "none measured"}.`, total > job.flows.length ? ` The first ${count(job.flows.length)} are listed.` : ""),
    pager(from, order.length, "flow"),
    table("Flows", ["From", "to", "n:Predicted", "n:Measured", "Measured / predicted", "Path", "n:UDP source port"], rows, "No flows."),
  ];
}

/** Return the switches of a path. */
function path(flow) {
  const { fabric, index } = picture;
  const nodes = flow.links.map((id) => fabric.links[index.linkAt.get(id)]?.to.node ?? "?");
  return nodes.slice(0, -1).join(" → ") || "–";
}
