// A form in which something was typed is sent only while the console answers: else the browser would show a page of its own in its place,
// and what was typed would be lost. Nothing is sent again by itself.

import { say } from "./words.js";

const WAIT_MS = 5_000, UNDER_WAY_MS = 30_000; // the console answers within that, whatever becomes of a broker
const asking = new WeakSet(), answered = new WeakSet(), sent = new Set();

async function answers() {
  try {
    const icon = document.querySelector("link[rel=icon]").href;
    const answer = await fetch(icon, { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(WAIT_MS) });
    return answer.status < 500; // else it is a proxy that answers in its place
  } catch {
    return false;
  }
}

function tell(form) {
  const notice = form.querySelector(":scope > [data-not-sent]") ?? document.createElement("p");
  notice.classList.add("notice", "notice-bad");
  notice.dataset.notSent = "";
  notice.role = "alert";
  notice.textContent = say("Nothing was sent: the console does not respond. What you typed is still here; try again in a moment.");
  form.prepend(notice);
}

// Not a second time while its answer is on its way: who clicks again because a broker is slow would skip or publish twice.
function isSent(form) {
  sent.add(form);
  form.ariaBusy = "true";
  setTimeout(() => mayBeSent(form), UNDER_WAY_MS);
}

function mayBeSent(form) {
  sent.delete(form);
  form.ariaBusy = null;
}

addEventListener("pageshow", () => sent.forEach(mayBeSent)); // a page that Back shows again

document.addEventListener("submit", async (event) => {
  const form = event.target, button = event.submitter;
  if (event.defaultPrevented || form.getAttribute("method")?.toLowerCase() !== "post" || form.hasAttribute("hx-post")) return;
  if (sent.has(form)) return event.preventDefault();
  const typed = form.querySelector("input:not([type=hidden]), textarea, select");
  if (!typed || answered.delete(form)) return isSent(form);
  event.preventDefault();
  if (asking.has(form)) return;
  asking.add(form);
  const there = await answers();
  asking.delete(form);
  if (!there) return tell(form);
  answered.add(form);
  form.requestSubmit(button);
});
