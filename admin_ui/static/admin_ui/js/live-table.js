// <mag-live-table data-feed data-topic-url>: the topics of a namespace with their rates, once a second. Thousands of them cost what a
// screenful does (row-window.js).
// Rows hold still while numbers change: rows are sorted again only when the user asks (a column head, or "r") or when topics come
// and go; of a page of a longer list the server says the order. Numbers are written only where they differ, so that selecting and reading aloud work.

import { History } from "./history.js";
import { feedOf } from "./live-feed.js";
import { grouped, knownTotals, shortName, topicAddress, totals } from "./live-state.js";
import { RowWindow } from "./row-window.js";
import { bytes, count, rate, total } from "./format.js";
import { say } from "./words.js";

// Before the element is defined: those that are on the page already are made then.
const ENDING = 10; // letters: long names often differ only there
const collator = new Intl.Collator("en", { numeric: true });

const CELLS = {
  rate_in: rate, rate_out: rate, throughput_in: (v) => `${bytes(v)}/s`, throughput_out: (v) => `${bytes(v)}/s`,
  backlog_entries: count, storage_bytes: bytes, producers: count, subscriptions: count, consumers: count,
};

customElements.define("mag-live-table", class extends HTMLElement {
  #sort = { key: "topic", direction: 1 };
  #drawn = false;
  #open = new Set();
  #groups = new Map();
  #order = []; // topics in the order in which they stand
  #history = new History(["rate_in", "rate_out"]);
  #parts = new WeakMap(); // row -> its places

  connectedCallback() {
    this.template = this.querySelector("template[data-row]");
    this.marks = new Map(Object.entries(JSON.parse(this.dataset.marks))); // kind -> [text, look, meaning], the most urgent first
    this.order = [...this.marks.keys()];
    this.empty = this.querySelector("[data-empty]");
    this.foot = this.querySelector("[data-foot]");
    this.filter = document.querySelector("[data-filter-live]");
    this.window = new RowWindow(this.querySelector("tbody"), {
      make: () => this.#make(), draw: (row, line) => this.#draw(row, line), keyOf: (line) => line.values.topic,
    });
    this.#sort = sortOf(this.dataset.sorted);
    this.whole = "whole" in this.dataset;
    this.feed = feedOf(this.dataset.feed);
    if (this.dataset.watched) {
      const names = JSON.parse(this.dataset.watched);
      this.places = new Map(names.map((name, place) => [name, place]));
      this.feed.watch(names);
    }
    this.feed.addEventListener("state", ({ detail }) => this.#update(detail));
    this.filter?.addEventListener("input", () => { this.#arrange(); this.#remember(); });
    this.filter?.form.addEventListener("submit", (event) => { if (!event.submitter?.dataset.sort) event.preventDefault(); });
    this.addEventListener("click", (event) => this.#clicked(event));
    document.addEventListener("magnetar:sort-again", () => this.whole ? this.#arrange() : location.reload());
    if (this.feed.state) this.#update(this.feed.state);
  }

  #clicked(event) {
    const sort = this.whole && event.target.closest("[data-sort]");
    if (sort) {
      event.preventDefault();
      const key = sort.dataset.sort;
      this.#sort = { key, direction: this.#sort.key === key ? -this.#sort.direction : key === "topic" ? 1 : -1 };
      for (const head of this.querySelectorAll("th[aria-sort]")) {
        const mine = head.contains(sort);
        head.setAttribute("aria-sort", mine ? (this.#sort.direction > 0 ? "ascending" : "descending") : "none");
      }
      this.#arrange();
      this.#remember();
    }
    const unfold = event.target.closest("[data-unfold]");
    if (unfold) {
      const topic = unfold.closest("tr").dataset.topic;
      if (!this.#open.delete(topic)) this.#open.add(topic);
      this.#show();
    }
  }

  // The address says what is shown, for whoever is sent it, and for coming back to it.
  #remember() {
    const words = this.filter.value.trim(), order = `${this.#sort.direction < 0 ? "-" : ""}${this.#sort.key}`;
    const query = new URLSearchParams();
    if (words) query.set("q", words);
    if (order !== "topic") query.set("sort", order);
    history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
  }

  #update(state) {
    const groups = grouped(state.rows, this.order);
    const same = this.#drawn && groups.length === this.#groups.size && groups.every((group) => this.#groups.has(group.topic));
    this.#groups = new Map(groups.map((group) => [group.topic, group]));
    if (this.#history.begin(state.at_ms)) {
      for (const group of groups) for (const one of [group, ...group.partitions]) this.#history.set(one.topic, one);
    }
    if (same) this.#show();
    else {
      this.#drawn = true;
      this.#history.keep(new Set(groups.flatMap((group) => [group.topic, ...group.partitions.map((part) => part.topic)])));
      this.#arrange();
    }
    this.#totals(state, groups);
  }

  #arrange() {
    const words = this.whole ? (this.filter?.value ?? "").trim().toLowerCase() : "";
    const { key, direction } = this.#sort;
    const compare = !this.whole ? (a, b) => this.#place(a) - this.#place(b) || (a.topic < b.topic ? -1 : 1) : (a, b) => direction * (key === "topic" ? collator.compare(a.topic, b.topic) : (a[key] ?? -1) - (b[key] ?? -1));
    const wanted = [...this.#groups.values()].filter((group) => shortName(group.topic).toLowerCase().includes(words));
    this.#order = wanted.sort(compare).map((group) => group.topic);
    this.querySelector("table").hidden = this.whole && this.#groups.size === 0;
    if (this.empty) this.empty.hidden = !this.whole || this.#groups.size > 0;
    if (this.foot) {
      this.foot.hidden = !words;
      this.foot.textContent = wanted.length ? say("{0} of {1} topics", count(wanted.length), count(this.#groups.size)) : say("No topics match \u201c{0}\u201d.", words);
    }
    this.#show();
  }

  /** Of a page by a figure; one that is not in its list, as it is new, comes last. */
  #place(group) {
    return this.places?.get(shortName(group.topic)) ?? Number.MAX_SAFE_INTEGER;
  }

  #show() {
    const lines = [];
    for (const topic of this.#order) {
      const group = this.#groups.get(topic);
      if (!group) continue;
      lines.push({ values: group, group });
      if (this.#open.has(topic)) for (const part of group.partitions) lines.push({ values: part, group: null });
    }
    this.window.show(lines);
  }

  #make() {
    const row = document.importNode(this.template.content.firstElementChild, true);
    const parts = { link: row.querySelector("a"), unfold: row.querySelector("[data-unfold]"), unloaded: row.querySelector("[data-unloaded]"), mark: row.querySelector("[data-mark]"), cells: {}, sparks: [] };
    for (const key of Object.keys(CELLS)) parts.cells[key] = row.querySelector(`[data-cell="${key}"]`);
    for (const spark of row.querySelectorAll("mag-sparkline")) parts.sparks.push({ spark, key: spark.dataset.cellSpark, label: spark.dataset.label });
    this.#parts.set(row, parts);
    return row;
  }

  #draw(row, { values, group }) {
    const parts = this.#parts.get(row);
    const name = shortName(values.topic);
    if (row.dataset.topic !== values.topic) {
      row.dataset.topic = values.topic;
      row.classList.toggle("partition", !group);
      write(parts.link, group ? name : `partition ${values.index}`);
      parts.unfold.textContent = "";
      parts.link.title = values.topic;
      parts.link.href = topicAddress(this.dataset.topicUrl, values.topic);
      for (const { spark, label } of parts.sparks) spark.dataset.label = `${name}, ${label}`;
    }
    for (const [key, format] of Object.entries(CELLS)) {
      const cell = parts.cells[key], text = format(values[key]);
      if (cell.textContent !== text) cell.textContent = text;
      cell.classList.toggle("zero", values[key] === 0);
    }
    hide(parts.unloaded, values.loaded);
    this.#mark(parts.mark, values.problem ?? "");
    for (const { spark, key } of parts.sparks) spark.show?.(this.#history.points(values.topic, key));
    const partitions = group?.partitions.length ?? 0, open = this.#open.has(values.topic);
    hide(parts.unfold, !partitions);
    const folded = `${open ? "\u25be" : "\u25b8"} ${partitions}`;
    if (partitions && parts.unfold.textContent !== folded) {
      parts.unfold.textContent = folded;
      parts.unfold.setAttribute("aria-expanded", String(open));
      parts.unfold.setAttribute("aria-label", say("{0} partitions of {1}", partitions, name));
    }
  }

  #mark(place, kind) {
    const [text, look, meaning] = this.marks.get(kind) ?? ["", "", ""];
    hide(place, !text);
    if (place.textContent === text) return;
    place.textContent = text;
    place.title = meaning;
    place.className = `badge badge-${look}`;
  }

  #totals(state, groups) {
    if (!this.whole && !state.totals) return; // of the rows alone: those of the namespace stay as they were when the page was made
    const sum = this.whole ? totals(groups) : knownTotals(state.totals);
    const put = (key, text) => { for (const place of document.querySelectorAll(`[data-total="${key}"]`)) if (place.textContent !== text) place.textContent = text; };
    put("rate_in", total(sum.rate_in, rate));
    put("rate_out", total(sum.rate_out, rate));
    put("throughput_in", total(sum.throughput_in, (value) => `${bytes(value)}/s`));
    put("throughput_out", total(sum.throughput_out, (value) => `${bytes(value)}/s`));
    put("backlog_entries", total(sum.backlog_entries, count));
    put("storage_bytes", total(sum.storage_bytes, bytes));
    put("topics", count(this.whole ? groups.length : state.totals.topics));
    put("producers", total(sum.producers, count));
    put("consumers", total(sum.consumers, count));
    for (const spark of document.querySelectorAll("[data-total-spark]")) spark.push?.(state.at_ms, sum[spark.dataset.totalSpark].known);
  }
});


/** A long name keeps its ending where there is no room for all of it. */
function write(link, name) {
  if (name.length <= 2 * ENDING) {
    link.textContent = name;
    link.removeAttribute("aria-label");
    return;
  }
  const [head, tail] = [name.slice(0, -ENDING), name.slice(-ENDING)].map((text) => Object.assign(document.createElement("span"), { textContent: text }));
  head.className = "cut";
  link.replaceChildren(head, tail);
  link.setAttribute("aria-label", name); // the two parts would be read with a pause
}

function sortOf(order) {
  return order.startsWith("-") ? { key: order.slice(1), direction: -1 } : { key: order, direction: 1 };
}

// An attribute that is written as it is makes the browser look at the row again.
function hide(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}
