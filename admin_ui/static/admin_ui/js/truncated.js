// What is cut off in a cell can be read in its title.

document.addEventListener("mouseover", (event) => {
  const cell = event.target.closest?.(".table td, .table th, .tag, .crumbs a, h1");
  if (cell && !cell.title && cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent.trim();
});
