// <form data-list-form>: what was left empty does not stand in the address. [data-save-view] saves the page as it is when it is pressed.

for (const form of document.querySelectorAll("[data-list-form]")) {
  form.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
  });
}

for (const link of document.querySelectorAll("[data-save-view]")) {
  link.addEventListener("click", () => {
    link.search = new URLSearchParams({ address: location.pathname + location.search }).toString();
  });
}
