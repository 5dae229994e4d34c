"""What is wrong with a page for those who cannot see it, see it badly or do not use a mouse: WCAG 2.2, levels A and AA, by axe."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# axe leaves the size of targets out unless it is asked for: it is new in WCAG 2.2.
OPTIONS: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}


def problems(page: Page) -> list[str]:
    violations = Axe().run(page, options=OPTIONS).response["violations"]
    found = [f"{one['id']}: {node['html'][:200]}" for one in violations for node in one["nodes"]]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("the page scrolls sideways")
    return found
