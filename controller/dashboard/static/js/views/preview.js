/** What if: paste a jobs file or draw ranks on the fabric, and see the plan before it is submitted. Nothing is installed. */

import { post } from "../api.js";
import { h } from "../dom.js";
import { changed, picture } from "../picture.js";
import { certificate } from "./certificate.js";
import { heading } from "./panels.js";

/** What the user has entered. It outlives the panel. */
export const previewState = { open: false, ranks: new Set(), text: "", bytes: 100_000_000, plan: null, error: null, busy: false };

/** @param {string} nic */
export function toggleRank(nic) {
  if (!previewState.ranks.delete(nic)) previewState.ranks.add(nic);
  changed();
}

export function previewPanel(scene) {
  const { ranks, plan, error, busy } = previewState;
  const may = picture.session.may_act && !picture.lostMs;
  return h("section", { class: "card", "data-key": "preview", id: "preview" }, heading("What if", { preview: null }),
    h("p", { class: "quiet" }, "Plans against the load of now. Nothing is installed."),
    h("fieldset", null, h("legend", null, "Draw ranks"),
      h("p", null, ranks.size ? [...ranks].join(", ") : "Click NICs on the fabric, or add them by name."),
      h("div", { class: "row" }, h("input", { list: "nics", name: "nic", "aria-label": "NIC", placeholder: "NIC", autocomplete: "off" }),
        h("datalist", { id: "nics", "data-own": true }, scene.fabric.nics.slice(0, 500).map((nic) => h("option", { value: nic.id }))),
        h("button", { type: "button", "data-preview": "add" }, "Add"), h("button", { type: "button", "data-preview": "clear", disabled: !ranks.size }, "Clear")),
      h("div", { class: "row" }, h("select", { name: "collective", "aria-label": "Collective" }, picture.session.collectives?.map((name) => h("option", { value: name }, name)))),
      h("div", { class: "row" }, h("input", { name: "bytes", type: "number", min: 1, "aria-label": "Bytes", value: previewState.bytes, "data-own": true }), "bytes"),
      h("button", { type: "button", class: "primary", "data-preview": "ranks", disabled: busy || !may || ranks.size < 2 }, `Plan ${ranks.size} ranks`)),
    h("fieldset", null, h("legend", null, "Or a jobs file"),
      h("textarea", { name: "jobs", rows: 7, spellcheck: "false", "aria-label": "Jobs file, YAML", placeholder: "version: 1\njobs:\n  - job_id: …", "data-own": true }),
      h("button", { type: "button", class: "primary", "data-preview": "file", disabled: busy || !may }, "Plan this file")),
    may ? null : h("p", { class: "quiet" }, "A preview needs a login, or the page on loopback."),
    busy ? h("p", { role: "status" }, "Planning …") : null,
    error ? h("p", { class: "error", role: "alert" }, error) : null,
    plan ? h("div", { role: "status" }, h("h3", null, "The plan"), certificate(plan.certificate), h("p", null, `${plan.flows_total ?? plan.flows.length} flows; the fabric shows their load.`)) : null);
}

document.addEventListener("click", (event) => {
  const wish = event.target.closest?.("[data-preview]")?.dataset.preview;
  if (!wish) return;
  const field = (name) => document.querySelector(`#preview [name=${name}]`);
  if (wish === "add") addRank(field("nic"));
  else if (wish === "clear") clear();
  else if (wish === "file") plan({ jobs: field("jobs").value });
  else plan({ ranks: [...previewState.ranks], collective: field("collective").value, size_bytes: Number(field("bytes").value) });
});

function addRank(input) {
  if (!picture.index.nicAt.has(input.value)) previewState.error = `This fabric has no NIC ${input.value}.`;
  else {
    previewState.ranks.add(input.value);
    previewState.error = null;
    input.value = "";
  }
  changed();
}

function clear() {
  previewState.ranks.clear();
  previewState.plan = previewState.error = null;
  changed();
}

async function plan(request) {
  Object.assign(previewState, { busy: true, error: null, plan: null });
  changed();
  try {
    previewState.plan = await post("/api/actions/preview", request, picture.session.csrf);
  } catch (error) {
    previewState.error = error.message;
  }
  previewState.busy = false;
  changed();
}
