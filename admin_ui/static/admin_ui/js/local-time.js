// <time datetime="..." data-form="clock|ago|for|day">: the server writes UTC; this shows the reader's zone, and keeps "ago" true.

import { ago, clock } from "./format.js";

function show(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-form]")) {
    const ms = Date.parse(element.dateTime);
    if (Number.isNaN(ms)) continue;
    const full = new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
    element.title = full;
    element.textContent = element.dataset.form === "clock" ? clock(ms)
      : element.dataset.form === "for" ? ago(ms, now)
      : element.dataset.form === "ago" ? (ms > now ? `in ${ago(now, ms)}` : `${ago(ms, now)} ago`)
      : new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  }
}

show(document);
setInterval(() => show(document), 10_000);
document.addEventListener("htmx:afterSettle", (event) => show(event.target));
