/** Render numbers with their units, times and states as text. */

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
export const NOT_MEASURED = "not measured";

function scaled(value, unit) {
  for (const [factor, prefix] of UNITS) {
    if (Math.abs(value) >= factor) return `${trimmed(value / factor)} ${prefix}${unit}`;
  }
  return `${trimmed(value)} ${unit}`;
}

function trimmed(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

/** @param {number|null} bps */
export const rate = (bps) => (bps === null || bps === undefined ? NOT_MEASURED : scaled(bps, "bit/s"));

/** @param {number|null} bytes */
export const bytes = (bytes) => (bytes === null || bytes === undefined ? NOT_MEASURED : scaled(bytes, "B"));

/** @param {number|null} value per second */
export const perSecond = (value) => (value === null || value === undefined ? NOT_MEASURED : scaled(value, "/s").replace(" /s", "/s"));

/** @param {number|null} share 0..1 */
export function percent(share) {
  if (share === null || share === undefined) return NOT_MEASURED;
  return `${share > 0 && share < 0.1 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;
}

/** @param {number|null} value */
export const ratio = (value) => (value === null || value === undefined ? "–" : Number(value).toFixed(3).replace(/0+$/, "").replace(/\.$/, ".0"));

/** @param {number} value */
export const count = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en-GB"));

/** @param {number|null} ms a duration */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = seconds / 60;
  if (minutes < 120) return `${Math.floor(minutes)} min`;
  const hours = minutes / 60;
  return hours < 48 ? `${Math.floor(hours)} h ${Math.floor(minutes % 60)} min` : `${Math.floor(hours / 24)} days`;
}

/** Return the time of day of this browser, with the date where it is another day. @param {number} ms */
export function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toISOString().slice(0, 10)} ${time}`;
}

/** @param {number} number @param {string} noun @param {string} [many] */
export const plural = (number, noun, many = `${noun}s`) => `${count(number)} ${number === 1 ? noun : many}`;
