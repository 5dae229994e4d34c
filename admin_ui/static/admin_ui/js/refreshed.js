// What htmx asks for again and again says when it could not be had: it fades, a notice above it says since when it is not of now, and both
// go once it is. [data-as-of="id"] says as of when the element of that id is. A console that hangs is not waited for longer than WAIT_MS.
// What has data-aside is no part of what the page shows: it says nothing of this.
// Who stands on a link or a button of what is replaced stands on the same one of what comes.
// A page that nobody sees asks for nothing, and for all of it at once when it is seen again; but work that has begun ("load delay") goes on.

import { clock } from "./format.js";
import { whenSeen } from "./seen.js";
import { say } from "./words.js";

const WAIT_MS = 15_000;
const refreshed = new Map(); // path -> when what it answers was last known to be true, and the notice while it is not
const loaded = Date.now();

const polls = (element) => (element.getAttribute?.("hx-trigger")?.includes("every") && !("aside" in element.dataset)) ?? false;
const pathOf = (event) => event.detail.pathInfo.requestPath.split("?")[0];

function stateOf(path, element) {
  if (!refreshed.has(path)) refreshed.set(path, { atMs: Number(element.dataset.at) || loaded, notice: null });
  return refreshed.get(path);
}

function failed(state, element) {
  element.classList.add("stale");
  const notice = state.notice ?? document.createElement("p");
  notice.classList.add("notice", "notice-warn");
  notice.role = "status";
  const text = say("Not refreshed since {0}: the console does not respond. This page goes on by itself.", clock(state.atMs));
  if (notice.textContent !== text) notice.textContent = text;
  if (!state.notice) element.before(state.notice = notice);
}

function told(element) {
  const label = document.querySelector(`[data-as-of="${CSS.escape(element.id)}"]`);
  if (label) label.textContent = say("as of {0}", clock(stateOf(element.getAttribute("hx-get").split("?")[0], element).atMs));
}

const put_off = new Map(); // element -> asks for it
document.addEventListener("htmx:confirm", (event) => {
  const { elt, issueRequest } = event.detail, trigger = elt.getAttribute("hx-trigger") ?? "";
  if (!document.hidden || !trigger.includes("every") || /^load delay/.test(trigger)) return;
  event.preventDefault();
  put_off.set(elt, issueRequest);
});

whenSeen(() => {
  const asks = [...put_off];
  put_off.clear();
  for (const [element, ask] of asks) if (element.isConnected) ask();
});

document.addEventListener("htmx:configRequest", (event) => {
  if (polls(event.detail.elt)) event.detail.timeout = WAIT_MS;
});

document.addEventListener("htmx:afterRequest", (event) => {
  const asked = event.detail.requestConfig.elt; // the event is of what is still there, if the answer replaced it
  if (!polls(asked)) return;
  const path = pathOf(event), state = stateOf(path, asked);
  if (!event.detail.successful) return failed(state, asked);
  state.atMs = Date.now();
  state.notice?.remove();
  state.notice = null;
  for (const element of document.querySelectorAll(".stale[hx-get]")) if (element.getAttribute("hx-get").split("?")[0] === path) element.classList.remove("stale");
  told(document.getElementById(asked.id) ?? asked);
});

for (const label of document.querySelectorAll("[data-as-of]")) told(document.getElementById(label.dataset.asOf));

// Else the keyboard would begin at the top of the page again every few seconds.
let stood = null; // what has the focus while something is replaced

function nameOf(element) {
  const given = [...element.form?.elements ?? []].filter(({ type, name }) => type === "hidden" && name !== "csrfmiddlewaretoken");
  const own = ["id", "href", "name", "aria-label"].map((name) => element.getAttribute(name));
  return [...own, element.type === "submit" ? element.value : "", ...given.map(({ value }) => value)].join("\n");
}

const alike = (tag, name) => [...document.getElementsByTagName(tag)].filter((element) => nameOf(element) === name);

document.addEventListener("htmx:beforeSwap", () => {
  const element = document.activeElement ?? document.body, name = nameOf(element);
  stood = { element, name, place: alike(element.tagName, name).indexOf(element) };
});

document.addEventListener("htmx:afterSwap", () => {
  if (!stood || stood.element.isConnected || document.activeElement !== document.body) return;
  const found = alike(stood.element.tagName, stood.name);
  (found[stood.place] ?? found[0])?.focus({ preventScroll: true });
});
