// <table data-marks-source="/..."> has rows with [data-mark-of="name"]: the badge of the most urgent problem there, asked for when the page
// is shown and every ten seconds from then on. [data-marks-note] says when it is unknown.

import { whileSeen } from "./seen.js";
import { say } from "./words.js";

for (const table of document.querySelectorAll("[data-marks-source]")) {
  const note = document.querySelector("[data-marks-note]");
  const show = (marks, away) => {
    for (const badge of table.querySelectorAll("[data-mark-of]")) {
      const [text, look, meaning] = marks[badge.dataset.markOf] ?? ["", "", ""];
      badge.hidden = !text;
      if (badge.textContent === text) continue;
      badge.textContent = text;
      badge.title = meaning;
      badge.className = `badge badge-${look}`;
    }
    if (note && note.textContent !== away) note.textContent = away;
  };
  const ask = async () => {
    try {
      const response = await fetch(table.dataset.marksSource, { headers: { Accept: "application/json" } });
      const { marks, away } = await response.json();
      show(marks, away && say("Problems are unknown: {0}", away));
    } catch {
      show({}, say("Problems are unknown: the console does not respond."));
    }
  };
  ask();
  whileSeen(ask, 10_000);
}
