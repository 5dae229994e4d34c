"""Figures as pages show them: an element with `data-figure`, `data-total` or `data-cell` is one, or a few in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Error, Page

READ = """() => [...document.querySelectorAll("main [data-figure], main [data-total], main [data-cell]")]
  .filter((one) => one.checkVisibility())
  .map((one) => {
    const { figure, total, cell } = one.dataset, row = one.closest("tr");
    return {
      hook: figure ?? (total ? `total.${total}` : `cell.${cell}`),
      text: one.innerText.trim(),
      row: (row?.querySelector("th[scope=row] a") ?? row?.querySelector("th[scope=row]"))?.innerText.trim() ?? "",
      stale: one.closest(".stale") !== null,
    };
  })"""
# Numbers that stand alone in an element which says of none that it is a figure.
UNMARKED = r"""() => [...document.querySelectorAll("main :is(td, dd, p, span, h2, strong, li, figcaption)")]
  .filter((one) => !one.closest("[data-figure], [data-total], [data-cell], time, code, .mono, nav, form, template"))
  .filter((one) => !one.closest(".history-axis, .step-number") && one.checkVisibility())
  .map((one) => [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent).join("").trim())
  .filter((text) => /^[≥<]?\s*[\d.,]+\s*(%|B|[KMGT]iB|s|min|h|d|\/s|[a-z]+)?$/.test(text))"""
UNKNOWN = {"–", "–/s", "unknown", ""}
UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "s": 1,
    "min": 60,
    "h": 3_600,
    "d": 86_400,
    "k": 1_000,
    "M": 1_000_000,
}
NUMBER = re.compile(r"(<)?(\d[\d,]*(?:\.\d+)?)(?: (B|KiB|MiB|GiB|s|min|h|d|k|M)\b)?")


class Shown(NamedTuple):
    """`row`: the name in the row of its table, or "". `stale`: the page says that it is not of now."""

    page: str
    hook: str
    row: str
    text: str
    stale: bool

    @property
    def known(self) -> bool:
        return self.text not in UNKNOWN

    @property
    def numbers(self) -> list[float]:
        """In bytes and seconds. The parts of a length of time are one number: 1 min 5 s is 65."""
        found: list[float] = []
        end, before = -1, ""
        for match in NUMBER.finditer(self.text):
            value, unit = float(match[2].replace(",", "")) * UNITS.get(match[3] or "", 1), match[3] or ""
            if match[1]:
                value /= 2
            if unit in ("s", "min", "h") and before in ("min", "h", "d") and match.start() == end + 1:
                found[-1] += value
            else:
                found.append(value)
            end, before = match.end(), unit
        return found


def shown(page: Page, name: str) -> list[Shown] | None:
    """None: it is just being loaded."""
    try:
        found = page.evaluate(READ)
    except Error:
        return None
    return None if found is None else [Shown(name, one["hook"], one["row"], one["text"], one["stale"]) for one in found]


# --- templates

_TOKEN = re.compile(
    r'\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|</?[a-zA-Z](?:\{%.*?%\}|\{\{.*?\}\}|"(?:\{%.*?%\}|\{\{.*?\}\}|[^"])*"|[^>"])*>', re.DOTALL
)
_FIGURE = re.compile(r"([\w.]+)\|(?:default[^|]*\|)?(?:length\|)?(?:count|exact|rate|size|span|length|in_form)\b")
_AMOUNT = re.compile(  # of money, and what it is of: text already
    r"\{\{ (?:one|row|ahead)\.(?:amount|quantity|cost|part|total|so_far|likely|left|percent) \}\}"
)
_COUNT = re.compile(r"blocktranslate count \w+=([\w.]+)")  # what has a plural is a number
_NAMED = re.compile(  # whatever filter it is written with
    r"\{\{ ([\w.]*(?:_total|_count|_left|attempts|percent|used_text|limit_text|\.money|\.messages|further))(?:\|[^}]*)? \}\}"
)
SET = {
    "close_after_h",
    "invitation.row.member_days",
    "kept_days",
    "life_max.value",
}  # of a setting or a form: nothing that clients did
_VOID = {"input", "br", "meta", "link", "img", "hr", "path", "rect", "circle", "source"}
HOOKS = re.compile(r'data-figure="([^"{]+)"|data-(total|cell)="([^"{]+)"')


def hooks_of(template: str) -> set[str]:
    return {figure or f"{kind}.{name}" for figure, kind, name in HOOKS.findall(template)}


def without_hook(template: str) -> Iterator[str]:
    """Expressions that are written as figures outside every element which says which figure it is."""
    open_tags: list[tuple[str, str]] = []
    for token in _TOKEN.finditer(template):
        text = token.group()
        if text.startswith("</"):
            while open_tags and open_tags.pop()[0] != text[2:-1].strip():
                pass
        elif text.startswith("<"):
            name = text[1:].split(maxsplit=1)[0].rstrip(">/")
            if name not in _VOID and not text.endswith("/>"):
                open_tags.append((name, text))
        elif text.startswith(("{{", "{% blocktranslate")) and not any(hooks_of(tag) for _, tag in open_tags):
            yield from (match[1] for match in _FIGURE.finditer(text))
            yield from _AMOUNT.findall(text)
            yield from (match[1] for kind in (_COUNT, _NAMED) for match in kind.finditer(text) if match[1] not in SET)


def templates(repository: Path) -> Iterator[tuple[str, str]]:
    folder = repository / "admin_ui" / "templates" / "admin_ui"
    for file in sorted(folder.glob("*/*.html")):
        if file.stem != "docs_search":  # how many pages of the documentation match
            yield file.stem, file.read_text()
