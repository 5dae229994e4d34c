"""A page by the keyboard alone, and on the width of a telephone: what cannot be reached, or is not to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Page

# What Tab is to reach, in the order of the page: of a group of radio buttons one, and of what is closed nothing.
REACHABLE = """() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter((it) => {
    if (it.disabled || it.tabIndex < 0 || it.type === 'hidden' || it.closest('dialog:not([open])')) return false;
    const closed = it.closest('details:not([open])');
    const opener = closed && it.tagName === 'SUMMARY' && it.parentElement === closed;
    if (closed && !(opener && !closed.parentElement.closest('details:not([open])'))) return false;
    if (it.type === 'radio' && it.name) {
      const named = [...document.querySelectorAll(`input[type=radio][name="${CSS.escape(it.name)}"]`)];
      const group = named.filter((one) => one.form === it.form);
      if (it !== (group.find((one) => one.checked) ?? group[0])) return false;
    }
    return it.checkVisibility({ visibilityProperty: true });
  });
  all.forEach((it, index) => { it.dataset.tabOrder = index; });
  return all.map((it) => it.outerHTML.slice(0, 120));
}"""
# What is refreshed meanwhile would be another element: nothing is asked any more, and what was asked is not shown.
HELD_STILL = """() => {
  XMLHttpRequest.prototype.send = () => {};
  addEventListener('htmx:beforeSwap', (event) => { event.detail.shouldSwap = false; }, true);
}"""
# A field that takes the focus by itself, or a place in the address, is where Tab would go on from: it is to begin at the top.
FROM_THE_TOP = """() => {
  const top = document.createElement('span');
  top.tabIndex = -1;
  document.body.prepend(top);
  top.focus();
  top.remove();
  scrollTo(0, 0);
}"""
# How the element that has the focus shows it: by an outline. Each is noted as Tab is pressed to leave it, when the page has
# scrolled to it, so that nothing is asked between two presses.
NOTED = """() => {
  const noted = [], focused = () => {
    const it = document.activeElement;
    if (!it || it === document.body || it === document.documentElement) return null;
    const outlined = getComputedStyle(it);
    const box = it.getBoundingClientRect();
    return {
      order: Number(it.dataset.tabOrder ?? -1),
      parts: ['date', 'time', 'datetime-local', 'month'].includes(it.type) ? 8 : 0, // day, month, year ... and its calendar
      html: it.outerHTML.slice(0, 120),
      outlined: outlined.outlineStyle !== 'none' && parseFloat(outlined.outlineWidth) >= 1,
      inside: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    };
  };
  const note = (event) => { if (event.key === 'Tab') noted.push(focused()); };
  addEventListener('keydown', note, true);
  window.takeNotes = () => [...noted.splice(0), focused()];
}"""
LEFT_OUT = """() => {
  const wrong = [], skipped = 'dialog, details:not([open]), .visually-hidden, [hidden], thead';
  scrollTo(0, 0);
  const said = (it) => (it.getAttribute('aria-label') || it.textContent).trim().replace(/\\s+/g, ' ').slice(0, 50);
  const name = (it) => `${it.tagName.toLowerCase()} ${said(it)}`;
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const it of document.querySelectorAll('main :is(a.button, button, input, select, textarea)')) {
    if (it.type === 'hidden' || it.closest(skipped)) continue;
    if (!it.checkVisibility()) { // a field may be of a choice that is not made
      const replaced = it.closest('.policy-page[data-open] .policy-list'); // by the panel of a policy, which leads back to it
      const chosen = it.closest('fieldset, .field, form [data-row]');
      if (it.matches('a, button') && !replaced && !chosen) wrong.push(`not shown: ${name(it)}`);
      continue;
    }
    const box = it.getBoundingClientRect();
    if (box.right > innerWidth + 1 && !it.closest('.table-scroll, .tabs')) wrong.push(`beyond the edge: ${name(it)}`);
  }
  for (const table of document.querySelectorAll('main .table-scroll table')) {
    if (!table.checkVisibility()) continue;
    const which = table.id || table.parentElement.getAttribute('aria-label');
    if (table.parentElement.scrollWidth > table.parentElement.clientWidth + 1) wrong.push(`a table scrolls sideways: ${which}`);
    const row = [...table.tBodies].flatMap((body) => [...body.rows]).find((one) => one.checkVisibility());
    const less = table.closest('.live-table') ? '.wide, .middle' : '.none'; // what the page of a topic shows, too
    const hidden = row ? [...row.cells].filter((cell) => !cell.checkVisibility() && !cell.matches(less)) : [];
    const gone = hidden.filter((cell) => cell.textContent.trim());
    const texts = gone.map((cell) => cell.textContent.trim().slice(0, 20));
    if (gone.length) wrong.push(`columns are gone: ${which}: ${texts.join(', ')}`);
  }
  for (const it of document.querySelectorAll('main :is(h1, h2, h3, th, td, dt, dd, .button, label)')) {
    const style = getComputedStyle(it);
    const hides = style.overflowX === 'hidden' && style.textOverflow !== 'ellipsis';
    const longer = hides && it.scrollWidth > it.clientWidth + 1;
    if (longer && it.checkVisibility() && !it.closest(skipped)) wrong.push(`cut off: ${name(it)}`);
  }
  return wrong;
}"""


def unreachable(page: Page) -> list[str]:
    """What Tab does not reach, not in the order of the page, or without showing that it has the focus; and where it is caught."""
    page.evaluate(HELD_STILL)
    page.evaluate(FROM_THE_TOP)
    expected = page.evaluate(REACHABLE)
    wrong, seen = list[str](), list[int]()
    presses, ends = 0, 0
    for focused in _focused(page, len(expected) + 2):
        if focused is None:  # behind the last one is the browser's own, and behind that what comes before the first by its tabindex
            ends += 1
            if ends == 2:
                break
            continue
        order = focused["order"]
        presses = presses + 1 if seen and order == seen[-1] else 0
        if presses > focused["parts"]:
            return [*wrong, f"the focus is caught: {focused['html']}"]
        if presses:
            continue
        if seen and order == seen[0]:
            break
        if not focused["outlined"]:
            wrong.append(f"the focus is not seen: {focused['html']}")
        if not focused["inside"]:
            wrong.append(f"the focus is out of sight: {focused['html']}")
        seen.append(order)
        if len(seen) >= len(expected) + 2:
            break
    missing = [expected[index] for index in range(len(expected)) if index not in seen]
    if missing:
        wrong.append(f"{len(missing)} are not reached: {missing[:3]}")
    in_order = [order for order in seen if order >= 0]
    if in_order != sorted(in_order):
        wrong.append(f"not in the order of the page: {in_order}")
    return wrong


def _focused(page: Page, presses: int) -> Iterator[dict[str, Any] | None]:
    """What has the focus after each press of Tab; so many are pressed before anything is asked."""
    page.evaluate(NOTED)
    keys = page.context.new_cdp_session(page)
    while True:
        for _ in range(presses):
            keys.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
        yield from page.evaluate("takeNotes()")[1:]
        presses = 8  # of what has more parts than one


def left_out(page: Page) -> list[str]:
    """What is not to be seen at the width that the window has."""
    return list(page.evaluate(LEFT_OUT))
