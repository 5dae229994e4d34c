// The jump dialog: a combobox over what the reader may see. Asks the server while typing; one question at a time, the last one wins.

import { say } from "./words.js";

const dialog = document.getElementById("jump");
if (dialog) {
  const input = dialog.querySelector("input"), list = dialog.querySelector("ul"), hint = dialog.querySelector(".hint");
  const PAUSE_MS = 120; // between two letters: what is typed on at once is asked once
  let asked = 0, at = 0, timer = 0, current = false, wanted = false; // `current`: the list is for what is typed; `wanted`: Enter came before

  const options = () => [...list.children];
  const go = (option) => option && location.assign(option.dataset.url);
  const mark = (index) => {
    at = Math.max(0, Math.min(options().length - 1, index));
    options().forEach((option, position) => option.setAttribute("aria-selected", String(position === at)));
    input.setAttribute("aria-activedescendant", options()[at]?.id ?? "");
    options()[at]?.scrollIntoView({ block: "nearest" });
  };
  const ask = async () => {
    const mine = (asked += 1);
    hint.textContent = say("Searching");
    const response = await fetch(`${dialog.dataset.source}&q=${encodeURIComponent(input.value)}`).catch(() => null);
    if (mine !== asked) return;
    if (!response?.ok) { hint.textContent = say("The console is not responding."); return; }
    const { found, note } = await response.json();
    list.replaceChildren(...found.map(({ label, kind, url }, index) => {
      const option = document.createElement("li"), tag = document.createElement("span");
      option.id = `jump-${index}`;
      option.setAttribute("role", "option");
      option.dataset.url = url;
      option.textContent = label;
      tag.className = "tag";
      tag.textContent = kind;
      option.append(tag);
      return option;
    }));
    hint.textContent = note;
    mark(0);
    current = true;
    if (wanted) go(options()[0]);
  };

  dialog.addEventListener("magnetar:open", () => { input.value = ""; current = wanted = false; input.focus(); ask(); });
  input.addEventListener("input", () => { asked += 1; current = wanted = false; clearTimeout(timer); timer = setTimeout(ask, PAUSE_MS); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); mark(at + (event.key === "ArrowDown" ? 1 : -1)); }
    if (event.key === "Enter") { event.preventDefault(); if (current) go(options()[at]); else wanted = true; }
  });
  list.addEventListener("click", (event) => { const option = event.target.closest("[data-url]"); go(option); });
}
