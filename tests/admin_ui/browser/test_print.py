"""Bills on paper."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from tenants.models import Tenant
from tests.admin_ui.browser.crawl import furnish
from tests.admin_ui.console_broker import ConsoleBroker
from tests.support.billing.billing_rows import GIB, PLAN, use, with_plan
from workers.billing.drafts import refresh
from workers.billing.models import Invoice
from workers.rating.rate import month_of

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


def test_sums_of_the_month_and_colours_of_costs_are_whole_on_paper(visit: Callable[..., Page]) -> None:
    """The third sum was cut, and names of costs had no colours."""
    page = visit("owner", "/tenants", viewport={"width": 560, "height": 1000})
    acme, now = Tenant.unscoped.get(name="acme"), datetime.now(UTC)
    start, _ = month_of(now)
    with_plan(acme, {**PLAN, "in_force_from": start.isoformat()}, start)
    use(acme, start, bytes_in=5_000_000 * GIB)
    refresh(acme, start, now)
    page.emulate_media(media="print")
    page.goto("/tenants/acme/month")
    cut = "all => all.filter(it => it.scrollWidth > it.clientWidth).map(it => it.innerText)"
    assert page.locator(".tile").count() == 3 and page.locator(".tile, .tile dd").evaluate_all(cut) == []
    expect(page.get_by_role("heading", name="What would another retention cost?")).to_have_count(0)
    page.goto("/costs")
    expect(page.locator(".swatch").first).to_have_css("print-color-adjust", "exact")
