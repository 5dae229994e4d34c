// The jump dialog: a combobox over what the reader may see. Asks the server while typing; one question at a time, the last one wins.

const dialog = document.getElementById("jump");
if (dialog) {
  const input = dialog.querySelector("input"), list = dialog.querySelector("ul"), hint = dialog.querySelector(".hint");
  let asked = 0, at = 0;

  const options = () => [...list.children];
  const mark = (index) => {
    at = Math.max(0, Math.min(options().length - 1, index));
    options().forEach((option, position) => option.setAttribute("aria-selected", String(position === at)));
    input.setAttribute("aria-activedescendant", options()[at]?.id ?? "");
    options()[at]?.scrollIntoView({ block: "nearest" });
  };
  const ask = async () => {
    const mine = (asked += 1);
    const response = await fetch(`${dialog.dataset.source}?q=${encodeURIComponent(input.value)}`).catch(() => null);
    if (mine !== asked) return;
    if (!response?.ok) { hint.textContent = "The console does not answer."; return; }
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
  };

  dialog.addEventListener("magnetar:open", () => { input.value = ""; input.focus(); ask(); });
  input.addEventListener("input", ask);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); mark(at + (event.key === "ArrowDown" ? 1 : -1)); }
    if (event.key === "Enter" && options()[at]) { event.preventDefault(); location.assign(options()[at].dataset.url); }
  });
  list.addEventListener("click", (event) => { const option = event.target.closest("[data-url]"); if (option) location.assign(option.dataset.url); });
}
