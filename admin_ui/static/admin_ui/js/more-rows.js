// <div data-more-rows>: rows [data-row] of which the blank ones are hidden; the button [data-more] shows the next. Without this script
// only the first is there.

for (const list of document.querySelectorAll("[data-more-rows]")) {
  const button = list.querySelector("[data-more]");
  const next = () => list.querySelector("[data-row][hidden]");
  button.hidden = !next();
  button.addEventListener("click", () => {
    const row = next();
    row.hidden = false;
    row.querySelector("input").focus();
    button.hidden = !next();
  });
}
