// [data-refreshed="id"]: says when the element of that id, which htmx refreshes, was last known to be true. A page whose server is gone
// says so, and what it shows fades.

import { clock } from "./format.js";
import { say } from "./words.js";

for (const label of document.querySelectorAll("[data-refreshed]")) {
  const id = label.dataset.refreshed;
  let lastMs = Number(document.getElementById(id)?.dataset.at) || Date.now();
  const show = (failed) => {
    const text = failed ? say("Not refreshed since {0}", clock(lastMs)) : say("as of {0}", clock(lastMs));
    if (failed) label.setAttribute("role", "status"); else label.removeAttribute("role"); // only what is wrong is read out
    if (label.textContent !== text) label.textContent = text;
    label.classList.toggle("faint", !failed);
    document.getElementById(id)?.classList.toggle("stale", failed);
  };
  show(false);
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.pathInfo.requestPath.startsWith("/now")) return;
    if (event.detail.successful) lastMs = Date.now();
    show(!event.detail.successful);
  });
}
