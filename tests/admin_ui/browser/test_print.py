"""Bills on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.admin_ui.browser.crawl import furnish
from tests.admin_ui.console_broker import ConsoleBroker
from workers.billing.models import Invoice

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]


def test_figures_of_a_bill_are_whole_on_paper_and_heads_of_lists_are_printed(
    visit: Callable[..., Page], broker: ConsoleBroker
) -> None:
    page = visit("superuser", "/now", viewport={"width": 660, "height": 1000})  # as wide as A4 between its margins
    furnish(broker)
    page.emulate_media(media="print")
    page.goto(f"/tenants/acme/invoices/{Invoice.unscoped.get().id}")
    figures = page.locator("#lines td.number").evaluate_all("all => all.filter(a => a.innerText.trim()).map(a => a.offsetHeight)")
    names = page.locator("#lines tbody tr:last-child").evaluate("row => row.offsetHeight")
    assert figures and max(figures) < 70 and names < 70
    page.goto("/tenants/acme/invoices")
    assert page.get_by_role("columnheader", name="Number").inner_text().strip() == "Number"
    assert page.locator("table.table tbody tr").first.evaluate("row => row.offsetHeight") < 50  # no word is broken
