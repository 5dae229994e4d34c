// What a page does again and again it does while somebody can see it, and at once when it is seen again.

/** Calls `act` every so often. */
export function whileSeen(act, every_ms) {
  let missed = false;
  setInterval(() => {
    missed = document.hidden;
    if (!missed) act();
  }, every_ms);
  whenSeen(() => missed && act());
}

export function whenSeen(act) {
  document.addEventListener("visibilitychange", () => document.hidden || act());
}
