// One connection to a live feed, kept alive. Emits "state" {state} for every answer of the broker and "standing" {kind, since_ms, why}
// whenever what we know changes:
//   connecting  nothing seen yet
//   live        the broker answered within the last seconds
//   stale       connected, but nothing has come for a while
//   away        the web process reports that the broker is not responding
//   lost        the connection to the web process is gone; trying again
//   refused     the web process does not let us in: reload to see why
// A page that nobody has seen for HIDDEN_MS lets go of its connection, and has it again at once when it is seen: the broker is not
// asked every second for a forgotten tab.

import { apply, Gap } from "./live-state.js";

const STALE_MS = 3_500;
const HIDDEN_MS = 60_000; // who looks elsewhere for a moment finds the last two minutes drawn without a gap
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000];
const REFUSED = new Set([4401, 4403, 4404]);
const feeds = new Map();

/** The feed of this path; all elements of a page that name the same path share it. */
export function feedOf(path) {
  if (!feeds.has(path)) feeds.set(path, new LiveFeed(path));
  return feeds.get(path);
}

class LiveFeed extends EventTarget {
  state = null;
  standing = { kind: "connecting", since_ms: Date.now(), why: "" };
  #socket = null;
  #retries = 0;
  #last_ms = 0;
  #retryTimer = 0;
  #restTimer = 0;
  #resting = false;
  #watched = null; // short names of topics, of a feed that is told which

  constructor(path) {
    super();
    this.path = path;
    this.#open();
    setInterval(() => this.#watch(), 500);
    addEventListener("pagehide", () => this.#socket?.close());
    addEventListener("pageshow", (event) => event.persisted && this.#open());
    addEventListener("online", () => this.#now());
    document.addEventListener("visibilitychange", () => this.#seen());
    this.#seen(); // a page that was opened behind others
  }

  /** Says which topics a feed is of whose path has `watch`. */
  watch(topics) {
    this.#watched = topics;
    if (this.#socket?.readyState === WebSocket.OPEN) this.#tell();
  }

  #tell() {
    if (this.#watched?.length) this.#socket.send(JSON.stringify({ type: "watch", topics: this.#watched }));
  }

  #open() {
    clearTimeout(this.#retryTimer);
    this.#socket?.close();
    const url = new URL(this.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.onopen = () => this.#socket === socket && this.#tell();
    socket.onmessage = (event) => this.#socket === socket && this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => this.#socket === socket && this.#closed(event.code);
  }

  #receive(message) {
    this.#retries = 0;
    if (message.type === "away") {
      this.#stand("away", this.state?.at_ms ?? message.since_ms, message.why);
      return;
    }
    try {
      this.state = apply(this.state, message);
    } catch (error) {
      if (!(error instanceof Gap)) throw error;
      this.#socket.send(JSON.stringify({ type: "resync" }));
      return;
    }
    this.#last_ms = Date.now();
    this.#stand("live", this.state.at_ms, "");
    this.dispatchEvent(new CustomEvent("state", { detail: this.state }));
  }

  #closed(code) {
    this.#socket = null;
    if (REFUSED.has(code)) {
      this.#stand("refused", Date.now(), "");
      return;
    }
    const wait = RETRY_MS[Math.min(this.#retries, RETRY_MS.length - 1)];
    this.#retries += 1;
    this.#stand("lost", this.state?.at_ms ?? Date.now(), "");
    this.#retryTimer = setTimeout(() => this.#open(), wait * (0.75 + Math.random() / 2));
  }

  #seen() {
    clearTimeout(this.#restTimer);
    if (document.hidden) this.#restTimer = setTimeout(() => this.#rest(), HIDDEN_MS);
    else if (this.#resting) this.#open();
    this.#resting = false;
  }

  #rest() {
    this.#resting = this.standing.kind !== "refused";
    clearTimeout(this.#retryTimer);
    this.#socket?.close();
    this.#socket = null;
  }

  #now() {
    if (!this.#socket && !this.#resting && this.standing.kind === "lost") this.#open();
  }

  #watch() {
    if (this.standing.kind === "live" && Date.now() - this.#last_ms > STALE_MS) this.#stand("stale", this.state.at_ms, "");
  }

  #stand(kind, since_ms, why) {
    const same = this.standing.kind === kind && this.standing.why === why;
    this.standing = { kind, since_ms, why };
    if (!same) this.dispatchEvent(new CustomEvent("standing", { detail: this.standing }));
  }
}
