// On a narrow screen each row of a table is a card (components.css), so that no number is off-screen: its cells say which column
// they are of. The roles keep it a table for screen readers. Tables that live feeds rewrite are left alone.

const ROLES = { TBODY: "rowgroup", TR: "row", TD: "cell", TH: "rowheader" };

function label(table) {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((it) => it.textContent.trim());
  table.setAttribute("role", "table");
  for (const body of table.tBodies) {
    body.setAttribute("role", ROLES.TBODY);
    for (const row of body.rows) {
      row.setAttribute("role", ROLES.TR);
      [...row.cells].forEach((cell, index) => {
        cell.setAttribute("role", ROLES[cell.tagName]);
        if (heads[index] && cell.tagName === "TD" && !cell.matches(".act, .detail > *")) cell.dataset.label = heads[index];
      });
    }
  }
  table.classList.add("cards");
}

function labelAll() {
  document.querySelectorAll(".table-scroll > table.table:not(.live-table table)").forEach(label);
}

labelAll();
document.addEventListener("htmx:afterSettle", labelAll);
