/** Actions on the fabric. Each says what it will move, asks once, and reports what came of it. */

import { post } from "./api.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { picture } from "./picture.js";

/** Return a button for an action, or a disabled one that says why. @param {string} action @param {string} target @param {string} text */
export function actionButton(action, target, text, look = "") {
  const may = picture.session.may_act && picture.atMs === null && picture.lostMs === null;
  const why = !picture.session.may_act ? "Actions need a login, or the page on loopback" : "Actions apply to the present only";
  return h("button", { type: "button", class: look, "data-action": action, "data-target": target, disabled: !may, title: may ? null : why }, text);
}

const ACTIONS = {
  drain: {
    title: (target) => `Drain ${target}?`, verb: "Drain",
    path: "/api/actions/drain", body: (target) => ({ target, undrain: false }),
  },
  undrain: {
    title: (target) => `Return ${target} to service?`, verb: "Undrain",
    path: "/api/actions/drain", body: (target) => ({ target, undrain: true }),
  },
  release: {
    title: (job) => `Release job ${job}?`, verb: "Release",
    path: "/api/actions/release", body: (job) => ({ job }),
  },
};

/** Run the actions of buttons with data-action. */
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-action]");
  const action = ACTIONS[button?.dataset.action];
  if (action) ask(action, button.dataset.target);
});

async function ask(action, target) {
  const dialog = document.getElementById("dialog");
  const effect = h("p", { class: "effect" }, "Asking the controller what would move …");
  const yes = h("button", { type: "button", class: "danger", disabled: true }, action.verb);
  const no = h("button", { type: "button" }, "Cancel");
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, action.title(target)), effect, h("div", { class: "buttons" }, no, yes));
  no.addEventListener("click", () => dialog.close());
  yes.addEventListener("click", () => run(action, target, dialog, effect, yes, no));
  if (!dialog.open) dialog.showModal();
  no.focus();
  const would = await send(action, target, true);
  effect.textContent = would.error ?? effectText(would);
  yes.disabled = Boolean(would.error);
}

function effectText({ text, moves, jobs }) {
  if (text) return text;
  return moves ? `${plural(moves, "flow")} would move, of ${plural(jobs.length, "job")}: ${jobs.join(", ")}.` : "No flow would move.";
}

async function run(action, target, dialog, effect, yes, no) {
  yes.disabled = true;
  effect.textContent = "Working …";
  const done = await send(action, target, false);
  effect.textContent = done.error ?? done.text ?? "Done.";
  effect.classList.toggle("error", Boolean(done.error));
  yes.remove();
  no.textContent = "Close";
  no.focus();
}

async function send(action, target, dry) {
  const body = { ...action.body(target), dry_run: dry };
  try {
    return (await post(action.path, body, picture.session.csrf)) ?? {};
  } catch (error) {
    return { error: `The controller refused: ${error.message}` };
  }
}
