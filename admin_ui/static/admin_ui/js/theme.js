// [data-theme-switch]: as the system, light, dark, in turn. Kept in a cookie, so that the server writes the page right at once.

import { say } from "./words.js";

const ORDER = ["", "light", "dark"];

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "") + 1) % ORDER.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `theme=${next}; path=/; max-age=${next ? 31_536_000 : 0}; samesite=lax${secure}`;
    const name = say({ "": "as the system", light: "light", dark: "dark" }[next]);
    button.title = say("Theme: {0}", name);
    button.setAttribute("aria-label", say("Theme: {0}. Change", name));
  });
}
