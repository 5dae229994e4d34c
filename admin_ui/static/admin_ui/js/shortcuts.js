// Keys. Elements say what they answer to: [data-open="dialog id"], [data-shortcut="c"], [data-filter] or a search form for "/".
// Letters do nothing while the reader types into a field, and nothing together with Ctrl, Alt or Meta.

const GO = { n: /^\/now$/, t: /^\/tenants$/, u: /^\/usage$/, p: /^\/platform$/, w: /^\/tasks$/, k: /\/keys$/ }; // "g" and then: the link of the side that leads there
let pending = 0;

function open(id) {
  const dialog = document.getElementById(id);
  if (dialog && !dialog.open) { dialog.showModal(); dialog.dispatchEvent(new Event("magnetar:open")); }
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener) open(opener.dataset.open);
  if (event.target instanceof HTMLDialogElement) event.target.close(); // a click beside it
});

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); open("jump"); return; }
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
    if (event.key === "Escape" && typing?.closest(".filter")) { typing.value = ""; typing.dispatchEvent(new Event("input", { bubbles: true })); typing.blur(); }
    return;
  }
  if (Date.now() - pending < 1500) {
    pending = 0;
    const link = [...document.querySelectorAll(".side-nav a")].find((one) => GO[event.key]?.test(one.getAttribute("href")));
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const act = { g: () => { pending = Date.now(); }, "?": () => open("shortcuts"), "/": filter, j: () => move(1), k: () => move(-1), r: again }[event.key]
    ?? (() => document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`)?.click());
  if (event.key.length === 1) {
    if (event.key === "/" || event.key === "?") event.preventDefault();
    act();
  }
});

function filter() {
  document.querySelector("[data-filter], [data-filter-live], [role=search] [type=search]")?.focus();
}

function again() {
  document.dispatchEvent(new Event("magnetar:sort-again"));
}

/** Moves the focus over the first link of each row. */
function move(step) {
  const links = [...document.querySelectorAll("main tbody tr:not([hidden]) :is(th, td):first-child a")];
  if (!links.length) return;
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((link) => link.closest("tr") === row);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step))].focus();
}
