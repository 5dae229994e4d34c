// <mag-live-totals data-feed>: the large numbers of one topic. Fills [data-total="field"] inside itself, and the sparklines.

import { feedOf } from "./live-feed.js";
import { grouped, totals } from "./live-state.js";
import { bytes, count, rate, total } from "./format.js";

const FORMS = {
  rate_in: rate, rate_out: rate, throughput_in: (v) => `${bytes(v)}/s`, throughput_out: (v) => `${bytes(v)}/s`,
  backlog_entries: count, storage_bytes: bytes, messages_in: count, messages_out: count,
};

customElements.define("mag-live-totals", class extends HTMLElement {
  connectedCallback() {
    this.feed = feedOf(this.dataset.feed);
    this.feed.addEventListener("state", ({ detail }) => this.#show(detail));
    if (this.feed.state) this.#show(this.feed.state);
  }

  #show(state) {
    const sum = totals(grouped(state.rows));
    for (const [key, form] of Object.entries(FORMS)) {
      const place = this.querySelector(`[data-total="${key}"]`), text = total(sum[key], form);
      if (place && place.textContent !== text) place.textContent = text;
    }
    for (const spark of this.querySelectorAll("[data-total-spark]")) spark.push?.(state.at_ms, sum[spark.dataset.totalSpark].known);
  }
});
