// <mag-quick-start data-feed data-topic>: waits for the first message on a topic and says so by itself when it has come.

import { feedOf } from "./live-feed.js";
import { grouped } from "./live-state.js";
import { bytes, clock } from "./format.js";
import { say } from "./words.js";

customElements.define("mag-quick-start", class extends HTMLElement {
  #count = 0;
  #out = 0;

  connectedCallback() {
    this.feed = feedOf(this.dataset.feed);
    this.feed.addEventListener("state", ({ detail }) => this.#look(detail));
    this.feed.addEventListener("standing", () => this.#explain());
    if (this.feed.state) this.#look(this.feed.state);
    this.#explain();
  }

  #look(state) {
    const group = grouped(state.rows).find((row) => row.topic === this.dataset.topic);
    if (!group || group.messages_in === null) return;
    if (group.messages_in !== this.#count) {
      const first = this.#count === 0;
      this.#count = group.messages_in;
      if (this.#count > 0) this.#received(first, group, state.at_ms);
    }
    if (group.messages_out !== this.#out) {
      this.#out = group.messages_out;
      this.#set("[data-consumed]", this.#out ? say("{0} delivered to consumers.", this.#out) : "");
    }
  }

  #received(first, group, at_ms) {
    this.classList.add("received");
    this.dataset.received = String(this.#count);
    this.#set("[data-headline]", this.#count === 1 ? say("Received 1 message") : say("Received {0} messages", this.#count));
    this.#set("[data-detail]", say("The last one arrived before {0}; {1} stored.", clock(at_ms), bytes(group.storage_bytes)));
    if (first) this.closest(".step")?.setAttribute("data-done", "");
  }

  #explain() {
    if (this.#count) return;
    const { kind } = this.feed.standing;
    this.#set("[data-detail]", {
      live: say("This page is watching the topic. Run the program; there is no need to reload."),
      away: say("The broker is not responding. Retrying."),
      lost: say("The connection to the console was lost. Reconnecting."),
      stale: say("No data from the broker for some seconds. Waiting."),
      refused: say("You no longer have access to this namespace. Reload the page."),
    }[kind] ?? say("Connecting to the broker."));
  }

  #set(selector, text) {
    const place = this.querySelector(selector);
    if (place && place.textContent !== text) place.textContent = text;
  }
});
