/** Addresses: a view's state is in the path and the query string, and the back button works. */

/** @typedef {{view: string, id: string|null, query: URLSearchParams, path: string}} Route */

const WITH_ID = new Set(["jobs"]);
let listener = () => {};

/** Return a segment's text; what is no UTF-8 names nothing, and stays as it is. */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Return the route of an address. @param {URL|Location} location @returns {Route} */
export function routeOf(location) {
  const [view = "fabric", id = null] = location.pathname.split("/").filter(Boolean).map(decoded);
  return { view, id: WITH_ID.has(view) ? id : null, query: new URLSearchParams(location.search), path: location.pathname };
}

export const current = () => routeOf(window.location);

/** Call `onRoute` at each change of address. @param {(route: Route) => void} onRoute */
export function start(onRoute) {
  listener = onRoute;
  window.addEventListener("popstate", () => listener(current()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || link.hasAttribute("download")) return;
    const href = new URL(link.getAttribute("href"), window.location.href);
    if (href.origin !== window.location.origin || !isView(href.pathname) || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    go(href.pathname + href.search);
  });
}

const VIEWS = new Set(["fabric", "matrix", "jobs", "congestion", "timeline", "networks", "health"]);
const isView = (path) => path === "/" || VIEWS.has(path.split("/")[1]);

/** Go to an address of this page. The shown moment stays. @param {string} address @param {boolean} [replace] */
export function go(address, replace = false) {
  const url = new URL(address, window.location.href);
  const moment = new URLSearchParams(window.location.search).get("at_ms");
  if (moment !== null && !url.searchParams.has("at_ms")) url.searchParams.set("at_ms", moment);
  if (url.searchParams.get("at_ms") === "") url.searchParams.delete("at_ms");
  window.history[replace ? "replaceState" : "pushState"](null, "", url);
  listener(current());
}

/** Change some of the query; null removes a key. @param {Object<string, any>} changes @param {boolean} [replace] */
export function setQuery(changes, replace = false) {
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  window.history[replace ? "replaceState" : "pushState"](null, "", url);
  listener(current());
}

/** Return this view's address with other values in its query. @param {Object<string, any>} changes */
export function withQuery(changes) {
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  return url.pathname + url.search;
}
