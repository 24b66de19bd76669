/** Build elements, and morph the page into what a view renders: the cursor, focus and scroll position stay. */

const SVG_NS = "http://www.w3.org/2000/svg";

/**
 * Return an element. Attributes that are null, undefined or false are left out; children may be nested arrays.
 * @param {string} tag
 * @param {Object<string, any>|null} [attributes]
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element, as `h` does. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG_NS, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * Change the children of `place` into `wanted`, in place.
 * An element with `data-own` keeps its content: a chart or the fabric draws there.
 * Elements with `data-key` are matched by it, others by their position.
 * @param {Element} place
 * @param {Node[]} wanted
 */
export function morph(place, wanted) {
  const focused = document.activeElement;
  const nodes = wanted.flat(Infinity).filter((node) => node !== null && node !== undefined && node !== false);
  morphChildren(place, nodes.map((node) => (node instanceof Node ? node : document.createTextNode(String(node)))));
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function morphChildren(place, wanted) {
  const byKey = new Map();
  for (const node of place.childNodes) {
    const key = keyOf(node);
    if (key !== null) byKey.set(key, node);
  }
  let at = place.firstChild;
  for (const node of wanted) {
    const key = keyOf(node);
    const match = key === null ? at : byKey.get(key) ?? null;
    if (match && alike(match, node)) {
      if (match === at) at = at.nextSibling;
      else place.insertBefore(match, at);
      morphNode(match, node);
    } else {
      place.insertBefore(node, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function alike(old, wanted) {
  return old.nodeName === wanted.nodeName && keyOf(old) === keyOf(wanted);
}

function morphNode(old, wanted) {
  if (old === wanted) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (!old.hasAttribute("data-own")) morphChildren(old, [...wanted.childNodes]);
}
