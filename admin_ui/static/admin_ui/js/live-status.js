// <mag-live-status data-feed="/live/..."> says in a word what the page knows: live, stale since, broker away, connection lost.
// It also marks <main> with the class "stale" while the numbers on it are old. Nothing moves while nothing changes: an animation of 0.9 s
// at every answer of the broker cost 100 to 200 ms of the browser a second.

import { feedOf } from "./live-feed.js";
import { clock } from "./format.js";
import { say } from "./words.js";

const LOOK = { connecting: "", live: "badge-good", stale: "badge-warn", away: "badge-bad", lost: "badge-warn", refused: "badge-bad" };

customElements.define("mag-live-status", class extends HTMLElement {
  connectedCallback() {
    this.feed = feedOf(this.dataset.feed);
    this.badge = document.createElement("span");
    this.badge.setAttribute("role", "status");
    this.replaceChildren(this.badge);
    this.feed.addEventListener("standing", () => this.#show());
    this.#show();
  }

  #show() {
    const { kind, since_ms, why } = this.feed.standing;
    const seen = this.feed.state !== null;
    this.badge.className = `badge ${LOOK[kind]}`;
    this.badge.textContent = {
      connecting: say("Connecting"),
      live: say("Live"),
      stale: say("Stale: no data since {0}", clock(since_ms)),
      away: seen ? say("Broker not responding: no data since {0}", clock(since_ms)) : say("Broker not responding"),
      lost: seen ? say("Connection lost: no data since {0}", clock(since_ms)) : say("Connection lost"),
      refused: say("Access ended: reload"),
    }[kind];
    this.badge.title = why;
    this.dataset.kind = kind;
    document.getElementById("content")?.classList.toggle("stale", kind !== "live" && kind !== "connecting");
  }
});
