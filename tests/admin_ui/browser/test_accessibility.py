"""Pages of the console by axe, light and wide or dark and on a phone: they are found as people find them, by their links. What each
takes before it is seen is looked at on the way.

Two dozen, drawn from a seed; `make accessibility` looks at every page, in both ways.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.admin_ui.browser.accessibility import problems
from tests.admin_ui.browser.budgets import PAINT_MS_MAX, Budgets
from tests.admin_ui.browser.crawl import PAGES, ROUTES_MIN, STARTS, Crawl, furnish
from tests.admin_ui.console_broker import ConsoleBroker

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
]


LOOKS = int(os.environ.get("ACCESSIBILITY_LOOKS", "1"))  # at each page
# Of the crawl: so many pages, 0 for all, drawn with this seed.
PAGES_MAX, SEED = int(os.environ.get("ACCESSIBILITY_PAGES", "24")), int(os.environ.get("ACCESSIBILITY_SEED", "1"))
WIDE, PHONE = ViewportSize(width=1440, height=900), ViewportSize(width=390, height=900)


def test_pages_that_links_lead_to_are_accessible(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """Each page is loaded once, every other one dark and on a phone. What all pages share is seen in both ways."""
    page = visit("superuser", "/now", color_scheme="light", viewport=WIDE)
    furnish(broker)
    found: dict[str, list[str]] = {}
    budgets = Budgets()
    looks: list[tuple[Literal["light", "dark"], ViewportSize]] = [("light", WIDE), ("dark", PHONE)]

    def look(page: Page, address: str) -> None:
        budgets.look(page, address)
        for scheme, viewport in looks[:LOOKS]:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(viewport)
            if page.locator("mag-live-status").count():
                expect(page.locator("mag-live-status")).to_have_text("Live")
            if wrong := problems(page):
                found[f"{address} {scheme}"] = wrong
        looks.reverse()  # the next page is loaded as this one was seen last, or is of the other kind

    crawl = Crawl(page, *STARTS, pages_max=PAGES_MAX, seed=SEED)
    crawl(look)
    page.set_viewport_size(WIDE)
    page.goto("/nowhere")
    page.get_by_role("link", name="Go to the console").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    look(page, "/sign-in")
    assert found == {}, json.dumps(found, indent=1)
    assert budgets.passed == {} and budgets.paint_ms < PAINT_MS_MAX
    assert len(crawl.visited) >= (PAGES_MAX or ROUTES_MIN), f"links lead to few pages; not to {sorted(PAGES - set(crawl.visited))}"
