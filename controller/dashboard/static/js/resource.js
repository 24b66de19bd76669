/** JSON that a view needs beside the picture: loaded when it is wanted, and again while it is looked at. */

import { get } from "./api.js";
import { changed, picture } from "./picture.js";

const REFRESH_MS = 2000;

/** Return a loader of one path at a time. The last answer stays while the controller does not reply. */
export function resource(refreshMs = REFRESH_MS) {
  let wanted = null;
  let loading = null;
  let loadedMs = 0;
  const self = {
    data: null,
    error: null,
    /** @param {string|null} path */
    want(path) {
      if (path !== wanted) {
        wanted = path;
        self.data = self.error = null;
        loading?.abort();
        loading = null;
        loadedMs = 0;
      }
      if (path !== null && !loading && Date.now() - loadedMs >= refreshMs && (picture.lostMs === null || !self.data)) load(path);
      return self;
    },
    stale: () => (loadedMs = 0),
    close: () => loading?.abort(),
  };
  async function load(path) {
    const own = (loading = new AbortController());
    try {
      const data = await get(path, own.signal);
      if (own.signal.aborted) return;
      [self.data, self.error] = [data, null];
    } catch (error) {
      if (own.signal.aborted) return;
      self.error = error;
    }
    loading = null;
    loadedMs = Date.now();
    changed();
  }
  return self;
}
