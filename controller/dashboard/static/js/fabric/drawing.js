/** Draw a fabric into an element, as SVG or on a canvas by its size, and draw it anew when the element changes size. */

import { drawCanvas } from "./canvas.js";
import { MAX_SVG_LINKS } from "./layout.js";
import { drawSvg } from "./svg.js";

/**
 * @param {HTMLElement} place an element with a size of its own
 * @param {(pick: {node?: string, link?: number}) => void} onPick
 * @returns {{update: (scene: import("./marks.js").Scene) => void, close: () => void}}
 */
export function fabricDrawing(place, onPick) {
  let drawn = null;
  let scene = null;
  let fabric = null;
  let size = "";
  const render = () => {
    if (!scene) return;
    const [width, height] = [Math.floor(place.clientWidth), Math.floor(place.clientHeight)];
    if (width < 50 || height < 50) return;
    if (drawn && fabric === scene.fabric && size === `${width} ${height}`) return drawn.update(scene);
    [fabric, size] = [scene.fabric, `${width} ${height}`];
    const draw = fabric.links.length > MAX_SVG_LINKS ? drawCanvas : drawSvg;
    drawn = draw(place, scene, width, height, onPick);
  };
  const observer = new ResizeObserver(render);
  observer.observe(place);
  return {
    update(next) {
      scene = next;
      render();
    },
    close: () => observer.disconnect(),
  };
}
