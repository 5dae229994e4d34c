// <form data-confirm-name="acme">: the dangerous button works once that name is typed. The server checks it again.

for (const form of document.querySelectorAll("form[data-confirm-name]")) {
  const input = form.querySelector("[name=confirm]"), button = form.querySelector("[type=submit]");
  const check = () => { button.disabled = input.value.trim() !== form.dataset.confirmName; };
  input.addEventListener("input", check);
  check();
}
