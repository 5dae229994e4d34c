// <mag-live-table data-feed data-topic-url>: the topics of a namespace with their rates, once a second.
// Rows hold still while numbers change: the order is made anew only when the reader asks (a column head, or "r") or when topics come
// and go. Numbers are written only where they differ, so that selecting and reading aloud work.

import { feedOf } from "./live-feed.js";
import { grouped, totals } from "./live-state.js";
import { bytes, count, rate } from "./format.js";

const ROWS_SHOWN = 250;
const CELLS = {
  rate_in: rate, rate_out: rate, throughput_in: (v) => `${bytes(v)}/s`, throughput_out: (v) => `${bytes(v)}/s`,
  backlog_entries: count, storage_bytes: bytes, producers: count, subscriptions: count, consumers: count,
};

customElements.define("mag-live-table", class extends HTMLElement {
  #rows = new Map();
  #order = [];
  #sort = { key: "topic", direction: 1 };
  #open = new Set();
  #groups = [];
  #all = false;

  connectedCallback() {
    this.body = this.querySelector("tbody");
    this.template = this.querySelector("template[data-row]");
    this.empty = this.querySelector("[data-empty]");
    this.more = this.querySelector("[data-more]");
    this.filter = document.querySelector("[data-filter-live]");
    this.feed = feedOf(this.dataset.feed);
    this.feed.addEventListener("state", ({ detail }) => this.#update(detail));
    this.filter?.addEventListener("input", () => this.#arrange());
    this.more?.querySelector("button").addEventListener("click", () => { this.#all = true; this.#arrange(); });
    this.addEventListener("click", (event) => this.#clicked(event));
    document.addEventListener("magnetar:sort-again", () => this.#arrange());
    if (this.feed.state) this.#update(this.feed.state);
  }

  #clicked(event) {
    const sort = event.target.closest("[data-sort]");
    if (sort) {
      const key = sort.dataset.sort;
      this.#sort = { key, direction: this.#sort.key === key ? -this.#sort.direction : key === "topic" ? 1 : -1 };
      for (const head of this.querySelectorAll("th[aria-sort]")) {
        const mine = head.contains(sort);
        head.setAttribute("aria-sort", mine ? (this.#sort.direction > 0 ? "ascending" : "descending") : "none");
      }
      this.#arrange();
    }
    const unfold = event.target.closest("[data-unfold]");
    if (unfold) {
      const topic = unfold.closest("tr").dataset.topic;
      if (!this.#open.delete(topic)) this.#open.add(topic);
      this.#arrange();
    }
  }

  #update(state) {
    this.#groups = grouped(state.rows);
    for (const group of this.#groups) {
      this.#fill(group, group, state.at_ms);
      for (const partition of group.partitions) this.#fill(partition, null, state.at_ms);
    }
    const known = new Set(this.#groups.flatMap((group) => [group.topic, ...group.partitions.map((part) => part.topic)]));
    for (const [topic, row] of this.#rows) if (!known.has(topic)) { row.element.remove(); this.#rows.delete(topic); }
    const names = this.#groups.map((group) => `${group.topic} ${group.partitions.length}`).sort().join("\n");
    if (names !== this.#order) { this.#order = names; this.#arrange(); }
    this.#totals(state);
  }

  #fill(values, group, at_ms) {
    const row = this.#rows.get(values.topic) ?? this.#make(values, group);
    for (const [key, format] of Object.entries(CELLS)) {
      const cell = row.cells[key], text = format(values[key]);
      if (cell.textContent !== text) {
        cell.textContent = text;
        cell.classList.toggle("zero", values[key] === 0);
      }
    }
    row.state.hidden = values.loaded;
    if (group) {
      row.unfold.hidden = !group.partitions.length;
      row.unfold.textContent = `${this.#open.has(group.topic) ? "\u25be" : "\u25b8"} ${group.partitions.length}`;
      row.unfold.setAttribute("aria-expanded", String(this.#open.has(group.topic)));
      row.unfold.setAttribute("aria-label", `${group.partitions.length} partitions of ${row.name}`);
    }
    row.sparks.rate_in.push(at_ms, values.rate_in);
    row.sparks.rate_out.push(at_ms, values.rate_out);
  }

  #make(values, group) {
    const element = document.importNode(this.template.content.firstElementChild, true);
    const name = values.topic.slice(values.topic.lastIndexOf("/") + 1);
    const link = element.querySelector("a");
    element.dataset.topic = values.topic;
    link.textContent = group ? name : `partition ${values.index}`;
    link.title = values.topic;
    link.href = this.dataset.topicUrl.replace("__topic__", encodeURIComponent(name));
    if (!group) element.classList.add("partition");
    const row = { element, name, unfold: element.querySelector("[data-unfold]"), state: element.querySelector("[data-unloaded]"), cells: {}, sparks: {} };
    for (const key of Object.keys(CELLS)) row.cells[key] = element.querySelector(`[data-cell="${key}"]`);
    for (const spark of element.querySelectorAll("mag-sparkline")) {
      spark.dataset.label = `${name}, ${spark.dataset.label}`;
      row.sparks[spark.dataset.cellSpark] = spark;
    }
    this.#rows.set(values.topic, row);
    return row;
  }

  #arrange() {
    const words = (this.filter?.value ?? "").trim().toLowerCase();
    const { key, direction } = this.#sort;
    const compare = (a, b) => direction * (key === "topic" ? a.topic.localeCompare(b.topic, "en", { numeric: true }) : a[key] - b[key]);
    const wanted = this.#groups.filter((group) => group.topic.slice(group.topic.indexOf("://")).toLowerCase().includes(words)).sort(compare);
    const shown = this.#all ? wanted : wanted.slice(0, ROWS_SHOWN);
    const elements = [];
    for (const group of shown) {
      elements.push(this.#rows.get(group.topic).element);
      if (this.#open.has(group.topic)) elements.push(...group.partitions.map((part) => this.#rows.get(part.topic).element));
    }
    const focused = this.contains(document.activeElement) ? document.activeElement : null;
    this.body.replaceChildren(...elements);
    focused?.isConnected && focused.focus({ preventScroll: true });
    for (const group of shown) this.#fillUnfold(group);
    this.querySelector("table").hidden = this.#groups.length === 0;
    if (this.empty) this.empty.hidden = this.#groups.length > 0;
    if (this.more) {
      this.more.hidden = wanted.length <= shown.length && !(words && wanted.length === 0);
      this.more.querySelector("[data-more-text]").textContent = words && !wanted.length ? `No topic contains \u201c${words}\u201d.` : `${shown.length} of ${wanted.length} shown.`;
      this.more.querySelector("button").hidden = wanted.length <= shown.length;
    }
  }

  #fillUnfold(group) {
    const row = this.#rows.get(group.topic), open = this.#open.has(group.topic);
    row.unfold.textContent = `${open ? "\u25be" : "\u25b8"} ${group.partitions.length}`;
    row.unfold.setAttribute("aria-expanded", String(open));
  }

  #totals(state) {
    const sum = totals(this.#groups);
    const put = (key, text) => { for (const place of document.querySelectorAll(`[data-total="${key}"]`)) if (place.textContent !== text) place.textContent = text; };
    put("rate_in", rate(sum.rate_in));
    put("rate_out", rate(sum.rate_out));
    put("throughput_in", `${bytes(sum.throughput_in)}/s`);
    put("throughput_out", `${bytes(sum.throughput_out)}/s`);
    put("backlog_entries", count(sum.backlog_entries));
    put("storage_bytes", bytes(sum.storage_bytes));
    put("topics", count(this.#groups.length));
    put("producers", count(sum.producers));
    put("consumers", count(sum.consumers));
    for (const spark of document.querySelectorAll("[data-total-spark]")) spark.push?.(state.at_ms, sum[spark.dataset.totalSpark]);
  }
});
