// Passkeys: a form with data-passkey asks the device and sends what it answered in its field "credential".
//
//   <form data-passkey="create|get" data-options="ID of a JSON script">   to add one, to show one
//   <form data-passkey="sign-in" action="...">                            options are fetched from the form's address
//
// The form's button is of type "button"; its [role=alert] says what went wrong. Without the browser's support the form stays hidden.

import { say } from "./words.js";

const BUFFERS = ["challenge", "id", "rawId", "userHandle", "attestationObject", "clientDataJSON", "authenticatorData", "signature"];

function bytesOf(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function textOf(buffer) {
  const binary = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** What the server sent, with bytes where the browser wants them. */
export function decoded(options) {
  const { publicKey } = options;
  const described = (list) => (list ?? []).map((one) => ({ ...one, id: bytesOf(one.id) }));
  const ready = { ...publicKey, challenge: bytesOf(publicKey.challenge) };
  if (publicKey.user) ready.user = { ...publicKey.user, id: bytesOf(publicKey.user.id) };
  if (publicKey.excludeCredentials) ready.excludeCredentials = described(publicKey.excludeCredentials);
  if (publicKey.allowCredentials) ready.allowCredentials = described(publicKey.allowCredentials);
  return { publicKey: ready };
}

/** What the device answered, as text. */
export function encoded(credential) {
  const response = {};
  for (const name of BUFFERS) if (credential.response[name]) response[name] = textOf(credential.response[name]);
  if (credential.response.getTransports) response.transports = credential.response.getTransports();
  return JSON.stringify({
    id: credential.id,
    rawId: textOf(credential.rawId),
    type: credential.type,
    authenticatorAttachment: credential.authenticatorAttachment,
    clientExtensionResults: credential.getClientExtensionResults(),
    response,
  });
}

async function optionsOf(form) {
  if (form.dataset.options) return JSON.parse(document.getElementById(form.dataset.options).textContent);
  const answer = await fetch(form.action, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(answer.status === 429 ? say("Too many attempts: wait a minute.") : say("The server did not respond."));
  return answer.json();
}

function askFor(form, options) {
  if (form.dataset.passkey !== "create") return navigator.credentials.get(decoded(options.request_options));
  const asked = decoded(options.creation_options);
  if (form.querySelector("[name=passwordless]")?.checked) {
    asked.publicKey.authenticatorSelection = {
      ...asked.publicKey.authenticatorSelection,
      residentKey: "required",
      requireResidentKey: true,
      userVerification: "required",
    };
  }
  return navigator.credentials.create(asked);
}

async function run(form) {
  const alert = form.querySelector("[role=alert]");
  alert.hidden = true;
  try {
    form.elements.credential.value = encoded(await askFor(form, await optionsOf(form)));
    form.submit();
  } catch (error) {
    alert.textContent = error.name === "NotAllowedError" ? say("The device gave no key. Try again.") : error.message;
    alert.hidden = false;
  }
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential) continue;
  form.hidden = false;
  form.querySelector("button").addEventListener("click", () => run(form));
}
