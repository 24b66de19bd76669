/** Requests to the controller. An error carries the text that the controller gave. */

export class ApiError extends Error {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, signal) {
  return answer(await fetch(path, { signal, headers: { Accept: "application/json" } }));
}

/** @param {string} path @param {Object} body @param {string|null} token the session's CSRF token */
export async function post(path, body, token) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (token) headers["X-CSRF-Token"] = token;
  return answer(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" }));
}

/** Return the path of an id: each id is one segment. @param {string} base @param {...(string|number)} ids */
export const pathTo = (base, ...ids) => [base, ...ids.map((id) => encodeURIComponent(id))].join("/");

async function answer(response) {
  const text = await response.text();
  if (response.ok) return text === "" ? null : JSON.parse(text);
  let reason = response.statusText || `status ${response.status}`;
  try {
    reason = JSON.parse(text).error ?? reason;
  } catch {
    // not JSON: the status line stands for it
  }
  throw new ApiError(response.status, reason);
}
