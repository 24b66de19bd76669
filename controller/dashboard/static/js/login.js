/** The login: shown where the controller asks for one before it serves data. */

import { ApiError, get, post } from "./api.js";
import { h } from "./dom.js";

/** Return the session, or null when the controller does not reply. @param {AbortSignal} [signal] */
export async function session(signal) {
  try {
    return await get("/api/session", signal);
  } catch {
    return null;
  }
}

/** Return who is logged in, and a button that ends the session; nothing where there is no login. */
export function loggedIn({ user, login }) {
  if (!user || !login) return null;
  return h("span", { class: "login", "data-key": "login" }, h("b", null, user), " ", h("button", { type: "button", "data-logout": true }, "Log out"));
}

/** End the session when that button is pressed. @param {() => string|null} token returns the session's token */
export function listenForLogout(token) {
  document.addEventListener("click", async (event) => {
    if (!event.target.closest?.("[data-logout]")) return;
    await post("/api/logout", {}, token()).catch(() => {}); // without a controller the session has ended as well
    window.location.assign("/login");
  });
}

/** Ask for user and password until the controller accepts them, then load the page anew. @param {HTMLElement} place */
export function askForLogin(place) {
  const wrong = h("p", { class: "error", role: "alert" });
  const user = h("input", { id: "user", name: "user", autocomplete: "username", required: true });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true });
  const form = h("form", { class: "card login" }, h("h1", null, "Log in"), h("label", { for: "user" }, "User"), user,
    h("label", { for: "password" }, "Password"), password, wrong, h("button", { class: "primary" }, "Log in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/api/login", { user: user.value, password: password.value }, null);
      window.location.assign(window.location.pathname === "/login" ? "/" : window.location.href);
    } catch (error) {
      wrong.textContent = error instanceof ApiError ? error.message : "The controller does not reply.";
    }
  });
  place.replaceChildren(form);
  user.focus();
}
