// <time datetime="..." data-form="full|second|clock|ago|for">: the server writes UTC; this shows the reader's zone, and keeps "ago" true.
// The title has UTC too, in which forms of searches and resets take times.

import { ago, clock } from "./format.js";

function show(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-form]")) {
    const ms = Date.parse(element.dateTime);
    if (Number.isNaN(ms)) continue;
    const full = new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
    element.title = `${full}, ${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    element.textContent = element.dataset.form === "clock" ? clock(ms)
      : element.dataset.form === "for" ? ago(ms, now)
      : element.dataset.form === "ago" ? (ms > now ? `in ${ago(now, ms)}` : `${ago(ms, now)} ago`)
      : element.dataset.form === "second" ? full
      : new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  }
}

show(document);
setInterval(() => show(document), 10_000);
document.addEventListener("htmx:afterSettle", (event) => show(event.target));
