// <time datetime="..." data-form="full|second|clock|ago|for">: shows the reader's zone, and keeps "ago" true. The title has UTC too, as
// logs and other people's pages do. The server is told the zone of the browser, so that forms take times in it.

import { ago, clock, moment } from "./format.js";
import { whileSeen } from "./seen.js";
import { say } from "./words.js";

function show(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-form]")) {
    const ms = Date.parse(element.dateTime);
    if (Number.isNaN(ms)) continue;
    const full = moment(ms, true);
    element.title = `${full}, ${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    element.textContent = element.dataset.form === "clock" ? clock(ms)
      : element.dataset.form === "for" ? ago(ms, now)
      : element.dataset.form === "ago" ? (ms > now ? say("in {0}", ago(now, ms)) : say("{0} ago", ago(ms, now)))
      : element.dataset.form === "second" ? full
      : moment(ms);
  }
}

const ofBrowser = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (ofBrowser) document.cookie = `time_zone=${ofBrowser}; path=/; max-age=31536000; samesite=lax`;
show(document);
whileSeen(() => show(document), 10_000);
document.addEventListener("htmx:afterSettle", (event) => show(event.target));
