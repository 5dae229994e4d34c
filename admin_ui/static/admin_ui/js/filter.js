// <input data-filter="#table">: shows the rows of a server-made table whose text contains the words. (The live table filters itself.)

for (const input of document.querySelectorAll("[data-filter]")) {
  const table = document.querySelector(input.dataset.filter);
  const none = document.querySelector(input.dataset.filterNone ?? "#filter-none");
  input.addEventListener("input", () => {
    const words = input.value.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(words);
      shown += row.hidden ? 0 : 1;
    }
    if (none) none.hidden = shown > 0;
  });
}
