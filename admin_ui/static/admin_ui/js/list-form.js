// <form data-list-form>: what was left empty does not stand in the address.

for (const form of document.querySelectorAll("[data-list-form]")) {
  form.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
  });
}
