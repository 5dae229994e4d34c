// <mag-sparkline data-series="in|out" data-label="Messages in a second" [data-large]>: the last two minutes of one number.
// `push(at_ms, value)` adds a point, `show(points)` replaces all. A silence longer than GAP_MS is drawn as a gap, not bridged. With data-large the pointer and the
// arrow keys read single points.

import { clock, rate } from "./format.js";
import { say } from "./words.js";

const WINDOW_MS = 120_000;
const GAP_MS = 4_000;
const SVG = "http://www.w3.org/2000/svg";

customElements.define("mag-sparkline", class extends HTMLElement {
  points = [];
  #svg; #line; #area; #cross; #note; #picked = -1;

  connectedCallback() {
    if (this.#svg) return;
    this.#svg = make("svg", { viewBox: "0 0 120 100", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.#area = make("path", { class: "spark-area" });
    this.#line = make("path", { class: "spark-line" });
    this.#svg.append(make("path", { class: "spark-base", d: "M0 100H120" }), this.#area, this.#line);
    this.append(this.#svg);
    this.setAttribute("role", "img");
    if ("large" in this.dataset) this.#readable();
    if (this.points.length) this.#draw(); else this.#describe();
  }

  push(at_ms, value) {
    if (this.points.length && at_ms <= this.points.at(-1).at_ms) return;
    this.points.push({ at_ms, value });
    while (this.points[0].at_ms < at_ms - WINDOW_MS) this.points.shift();
    if (this.#svg) this.#draw();
  }

  /** All points at once, in place of those before: for an element that shows one thing after the other. */
  show(points) {
    this.points = points;
    if (!this.#svg) return;
    if (points.length) return this.#draw();
    put(this.#line, "d", "");
    put(this.#area, "d", "");
    this.#describe();
  }

  #draw() {
    const end = this.points.at(-1).at_ms;
    const high = Math.max(...this.points.map((point) => point.value));
    const x = (at_ms) => (120 - (end - at_ms) / 1000).toFixed(2);
    const y = (value) => (100 - (value / high) * 94).toFixed(2);
    let line = "", area = "", from = 0;
    if (high > 0) this.points.forEach((point, index) => { // at zero the base line says it all, and stays as it is
      const last = index === this.points.length - 1 || this.points[index + 1].at_ms - point.at_ms > GAP_MS;
      if (!last) return;
      const run = this.points.slice(from, index + 1);
      from = index + 1;
      const path = run.map(({ at_ms, value }) => `${x(at_ms)} ${y(value)}`).join("L");
      line += run.length > 1 ? `M${path}` : `M${path}h0.1`;
      if (run.length > 1) area += `M${x(run[0].at_ms)} 100L${path}L${x(run.at(-1).at_ms)} 100Z`;
    });
    put(this.#line, "d", line);
    put(this.#area, "d", area);
    if (this.#picked >= 0) this.#pick(Math.min(this.#picked, this.points.length - 1));
    else this.#describe();
  }

  #describe() {
    const values = this.points.map((point) => point.value);
    const text = values.length ? say("now {0}, highest in two minutes {1}", rate(values.at(-1)), rate(Math.max(...values))) : say("no data yet");
    put(this, "aria-label", `${this.dataset.label}: ${text}`);
  }

  #readable() {
    this.tabIndex = 0;
    this.#cross = make("path", { class: "spark-cross" });
    this.#svg.append(this.#cross);
    this.#note = document.createElement("span");
    this.#note.className = "spark-note";
    this.#note.hidden = true;
    this.append(this.#note);
    this.addEventListener("pointermove", (event) => this.#pickAt(event));
    this.addEventListener("pointerleave", () => this.#drop());
    this.addEventListener("blur", () => this.#drop());
    this.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.points.length) return;
      event.preventDefault();
      const at = this.#picked < 0 ? this.points.length : this.#picked;
      this.#pick(Math.max(0, Math.min(this.points.length - 1, at + step)));
    });
  }

  #pickAt(event) {
    if (!this.points.length) return;
    const box = this.getBoundingClientRect();
    const at_ms = this.points.at(-1).at_ms - (1 - (event.clientX - box.left) / box.width) * WINDOW_MS;
    const distance = this.points.map((point) => Math.abs(point.at_ms - at_ms));
    this.#pick(distance.indexOf(Math.min(...distance)));
  }

  #pick(index) {
    this.#picked = index;
    const point = this.points[index];
    const x = 120 - (this.points.at(-1).at_ms - point.at_ms) / 1000;
    this.#cross.setAttribute("d", `M${x} 0V100`);
    this.#note.hidden = false;
    this.#note.textContent = `${clock(point.at_ms)}  ${rate(point.value)}/s`;
    this.#note.style.left = x < 60 ? `calc(${(x / 120) * 100}% + 6px)` : "";
    this.#note.style.right = x < 60 ? "" : `calc(${100 - (x / 120) * 100}% + 6px)`;
    this.setAttribute("aria-label", say("{0} at {1}: {2}", this.dataset.label, clock(point.at_ms), rate(point.value)));
  }

  #drop() {
    this.#picked = -1;
    this.#cross.setAttribute("d", "");
    this.#note.hidden = true;
    this.#describe();
  }
});

function put(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function make(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
