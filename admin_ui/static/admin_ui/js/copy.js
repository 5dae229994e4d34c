// <button data-copy="#id">: copies the text of that element and says so for two seconds.

import { say } from "./words.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.querySelector(button.dataset.copy);
  const label = button.querySelector("[data-label]") ?? button;
  const before = (button.dataset.before ??= label.textContent);
  try {
    await navigator.clipboard.writeText(source.textContent);
    label.textContent = say("Copied");
  } catch {
    // No permission, or not a secure context: select it, so that one key press does the rest.
    getSelection().selectAllChildren(source);
    label.textContent = say("Selected: press Ctrl C");
  }
  clearTimeout(button.restore);
  button.restore = setTimeout(() => { label.textContent = before; }, 2000);
});
