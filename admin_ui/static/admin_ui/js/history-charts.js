// Charts of history: says what is under the pointer, and makes a span that is dragged, or selected by keyboard, the address of the page.
// The server draws; without this script the charts are there, and the forms above them.

import { OF_MEASURES, UNKNOWN, moment, timeZone } from "./format.js";
import { say } from "./words.js";

const source = document.getElementById("history-data");
const said = document.getElementById("history-said");
for (const zone of document.querySelectorAll("[data-zone]")) zone.textContent = timeZone;

function when(ms) {
  return moment(ms);
}

class Brush {
  #at = null; // step under the cursor
  #from = null; // step where the selection began

  constructor(element, data, kind) {
    this.element = element;
    this.data = data;
    this.kind = kind;
    this.svg = element.querySelector(".history-plot svg");
    this.read = document.querySelector(`[data-read-of="${element.dataset.chart}"]`);
    this.note = this.read.textContent;
    this.svg.addEventListener("pointerdown", (event) => this.#begin(event));
    this.svg.addEventListener("pointermove", (event) => this.#move(this.#step(event)));
    this.svg.addEventListener("pointerup", () => this.#go());
    this.svg.addEventListener("pointercancel", () => this.#drop());
    this.svg.addEventListener("pointerleave", () => { if (this.#from === null) this.#drop(); });
    element.addEventListener("keydown", (event) => this.#key(event));
    element.addEventListener("blur", () => this.#drop());
  }

  #step(event) {
    const box = this.svg.getBoundingClientRect();
    const part = (event.clientX - box.left) / box.width;
    return Math.min(this.data.count - 1, Math.max(0, Math.floor(part * this.data.count)));
  }

  #begin(event) {
    if (event.button) return;
    this.svg.setPointerCapture(event.pointerId);
    this.#from = this.#step(event);
    this.#move(this.#from);
  }

  #key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      const from = this.#at ?? this.data.count - 1;
      if (!event.shiftKey) this.#from = null;
      else this.#from ??= from;
      this.#move(Math.min(this.data.count - 1, Math.max(0, from + by)), true);
    } else if (event.key === "Enter" && this.#from !== null) {
      event.preventDefault();
      this.#go();
    } else if (event.key === "Escape" && this.#at !== null) {
      event.preventDefault();
      this.#drop();
    }
  }

  #move(step, aloud = false) {
    this.#at = step;
    const width = 1000 / this.data.count;
    const cursor = this.svg.querySelector(".cursor");
    cursor.setAttribute("d", `M${(step + 0.5) * width} 0V160`);
    cursor.toggleAttribute("hidden", false);
    const brush = this.svg.querySelector(".brush");
    brush.toggleAttribute("hidden", this.#from === null);
    if (this.#from !== null) {
      const first = Math.min(step, this.#from);
      brush.setAttribute("x", first * width);
      brush.setAttribute("width", (Math.abs(step - this.#from) + 1) * width);
    }
    const text = this.#text(step);
    this.read.textContent = text;
    if (aloud) said.textContent = text;
  }

  #text(step) {
    const { from, step: wide } = this.data;
    const form = OF_MEASURES[this.kind.form];
    const values = this.kind.lines.map(({ label, values: own, other }) => {
      const value = own[step] === null ? UNKNOWN : form(own[step]);
      const beside = other ? say(", compared {0}", other[step] === null || other[step] === undefined ? UNKNOWN : form(other[step])) : "";
      return `${label} ${value}${beside}`;
    });
    const first = this.#from === null ? step : Math.min(step, this.#from);
    const last = this.#from === null ? step : Math.max(step, this.#from);
    const span = first === last ? when(from + step * wide) : say("{0} to {1} selected", when(from + first * wide), when(from + (last + 1) * wide));
    return `${span}: ${values.join("; ")}`;
  }

  #go() {
    if (this.#from === null || this.#at === null) return;
    const first = Math.min(this.#at, this.#from);
    const last = Math.max(this.#at, this.#from);
    this.#from = null;
    if (first === last) return this.#move(first); // a click: it was only looked at
    const address = new URL(location.href);
    address.searchParams.delete("span");
    const iso = (ms) => new Date(ms).toISOString().replace(/:\d\d\.\d+Z$/, "Z").replace(/T(\d\d):(\d\d)Z$/, "T$1:$2:00Z");
    address.searchParams.set("from", iso(this.data.from + first * this.data.step));
    address.searchParams.set("until", iso(this.data.from + (last + 1) * this.data.step));
    location.assign(address);
  }

  #drop() {
    this.#at = this.#from = null;
    this.svg.querySelector(".cursor").toggleAttribute("hidden", true);
    this.svg.querySelector(".brush").toggleAttribute("hidden", true);
    this.read.textContent = this.note;
  }
}

if (source) {
  const data = JSON.parse(source.textContent);
  for (const element of document.querySelectorAll("[data-chart]")) new Brush(element, data, data.charts[element.dataset.chart]);
}

// Handles of subscriptions: the time under one, while it is dragged or moved by keyboard.
document.addEventListener("input", (event) => {
  if (!(event.target instanceof HTMLInputElement) || !event.target.matches("[data-handle]")) return;
  const ms = Number(event.target.value);
  const text = moment(ms, true);
  event.target.form.querySelector("output").textContent = text;
  event.target.setAttribute("aria-valuetext", text);
});

// A preview that could not be had says so: nothing is moved by one.
document.addEventListener("htmx:afterRequest", (event) => {
  const { elt } = event.detail.requestConfig;
  if (event.detail.successful || !elt.matches("[data-handle]")) return;
  const text = say("The console does not respond: move it again to see what that would do. Nothing was moved.");
  document.querySelector(elt.getAttribute("hx-target")).textContent = text;
});
