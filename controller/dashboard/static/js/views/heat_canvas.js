/** A matrix of hundreds by hundreds as a canvas: a cell cursor for the pointer and the arrow keys reads it out. */

import { h } from "../dom.js";
import { heat } from "../load.js";
import { percent, plural } from "../format.js";

const MARGIN = 4;

function cross(pen, x, y, size) {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + size, y + size);
  pen.moveTo(x + size, y);
  pen.lineTo(x, y + size);
  pen.stroke();
}

export function heatCanvas() {
  const self = { place: null, leaves: [], spines: [], cells: [], cut: [], at: [0, 0] };
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-roledescription": "matrix", "aria-label": "Load of leaf x spine: arrow keys move" });
  const output = h("output", { "aria-live": "polite" });
  const size = () => Math.max(2, Math.floor(Math.min((self.place.clientWidth - 2 * MARGIN) / self.leaves.length, (self.place.clientHeight - 60) / self.spines.length)));
  const read = () => {
    const [leaf, spine] = self.at;
    output.textContent = `${self.leaves[leaf]} – ${self.spines[spine]}: ${percent(self.cells[leaf]?.[spine] ?? null)}${self.cut[leaf]?.[spine] ? `, ${plural(self.cut[leaf][spine], "cable")} down` : ""}`;
  };
  const move = (leaf, spine) => {
    self.at = [Math.max(0, Math.min(self.leaves.length - 1, leaf)), Math.max(0, Math.min(self.spines.length - 1, spine))];
    read();
    paint();
  };
  canvas.addEventListener("pointermove", (event) => move(Math.floor((event.offsetX - MARGIN) / size()), Math.floor((event.offsetY - MARGIN) / size())));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    move(self.at[0] + step[0], self.at[1] + step[1]);
  });
  function paint() {
    const cell = size();
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [cell * self.leaves.length + 2 * MARGIN, cell * self.spines.length + 2 * MARGIN];
    if (canvas.width !== width * scale || canvas.height !== height * scale) {
      [canvas.width, canvas.height] = [width * scale, height * scale];
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const style = getComputedStyle(document.documentElement);
    const colours = [0, 1, 2, 3, 4, 5].map((at) => style.getPropertyValue(`--heat-${at}`).trim());
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const gap = cell > 4 ? 1 : 0;
    self.cells.forEach((line, leaf) => line.forEach((value, spine) => {
      if (value === null) return;
      pen.fillStyle = colours[heat(value)];
      pen.fillRect(MARGIN + leaf * cell, MARGIN + spine * cell, cell - gap, cell - gap);
    }));
    pen.strokeStyle = style.getPropertyValue("--bad").trim();
    pen.lineWidth = 2;
    self.cut.forEach((line, leaf) => line.forEach((cables, spine) => cables && cross(pen, MARGIN + leaf * cell, MARGIN + spine * cell, cell - gap)));
    pen.strokeStyle = style.getPropertyValue("--text").trim();
    pen.lineWidth = 1.5;
    pen.strokeRect(MARGIN + self.at[0] * cell - 1, MARGIN + self.at[1] * cell - 1, cell + 1, cell + 1);
  }
  return {
    draw(place, leaves, spines, cells, cut) {
      Object.assign(self, { place, leaves, spines, cells, cut });
      if (canvas.parentNode !== place) place.replaceChildren(h("p", { class: "quiet" }, "Leaves from left to right, spines from top to bottom. A cross: a cable is down."), canvas, output);
      paint();
      read();
    },
  };
}
