"""The cost explorer with a thousand topics, in a browser: nothing off-screen at 1280 pixels, and usable by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.conf import settings as django_settings
from playwright.sync_api import Page, ViewportSize, expect

from messaging.settings import Settings
from tenants.access import platform_actor
from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, PLAN, use, with_plan
from tests.support.billing.usage_year import fill_year
from workers.billing.budget_actions import create_budget, create_schedule
from workers.billing.budgets import check
from workers.billing.drafts import refresh
from workers.billing.reports import make_due
from workers.rating.rate import month_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]

OFF_SCREEN = """[...document.querySelectorAll('.table-scroll, main')].filter(it => it.scrollWidth > it.clientWidth)
    .map(it => `${it.getAttribute('aria-label')}: ${it.scrollWidth} of ${it.clientWidth}`)"""
HIGHEST_ROW = "Math.max(...[...document.querySelectorAll('.table tbody tr')].map(it => it.offsetHeight))"
DAYS = 3
LAPTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.mark.slow
def test_costs_of_a_thousand_topics(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants")
    fill_year(Tenant.unscoped.get(name="acme"), datetime.now(UTC).date(), days=DAYS)
    for query in ("span=90-days&by=topic&compare=on", "span=year&by=namespace", "span=90-days&by=meter"):
        page.goto(f"/costs?{query}")
        expect(page.locator("#costs tbody tr").first).to_be_visible()
        assert page.evaluate(OFF_SCREEN) == []
        assert page.evaluate(HIGHEST_ROW) < 150
    page.goto("/costs?span=90-days&by=namespace")
    assert page.locator(".cost-chart rect").count() == DAYS * 9
    page.locator("#costs a").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("only namespace acme/team-")).to_be_visible()
    expect(page.locator("#costs th[scope=row] a").first).to_contain_text("events-")
    page.get_by_label("only namespace").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_text("only namespace")).to_have_count(0)


def test_an_invoice_fits_the_screen(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants")
    acme, now = Tenant.unscoped.get(name="acme"), datetime.now(UTC)
    start, end = month_of(month_of(now)[0] - timedelta(days=1))
    with_plan(acme, {**PLAN, "in_force_from": start.isoformat()}, start)
    for index in range(30):
        use(acme, start, topic=f"namespace-with-a-long-name-{index:02d}/topic-with-a-longer-name-{index:02d}", bytes_in=index * GIB)
    invoice = refresh(acme, start, end)
    assert invoice is not None
    page.goto("/tenants/acme/invoices")
    page.get_by_role("link", name=f"{start:%Y-%m}").click()
    expect(page.get_by_role("heading", name="Invoice, draft")).to_be_visible()
    assert page.evaluate(OFF_SCREEN) == []
    page.get_by_role("link", name="Bytes published").click()
    expect(page.get_by_role("heading", name="What bytes_in@")).to_be_visible()
    page.get_by_text("1 hour", exact=True).click()
    assert page.evaluate(OFF_SCREEN) == []
    with page.expect_download(timeout=60_000) as download:  # fonts are read at the first
        page.get_by_role("link", name="PDF").click(timeout=60_000)
    assert download.value.suggested_filename == f"draft-{start:%Y-%m}.pdf"


def test_budgets_and_reports_fit_the_screen(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants")
    acme, now = Tenant.unscoped.get(name="acme"), datetime.now(UTC)
    start, _ = month_of(now)
    with_plan(acme, {**PLAN, "in_force_from": start.isoformat()}, start)
    use(acme, start, bytes_in=500 * GIB, messages_in=1)
    refresh(acme, start, now)
    people = ["somebody-with-a-long-name@department.acme.example", "another@acme.example"]
    budget = create_budget(platform_actor(), "acme", "Everything that we do", "10.00", "EUR", emails=people)
    schedule = create_schedule(platform_actor(), "acme", "What each topic costs", "day", "topic", people)
    settings: Settings = django_settings.MAGNETAR
    assert check(budget, now) and make_due(settings, schedule, now, now.date())
    for where in ("budgets", "reports", "month", "invoices"):
        page.goto(f"/tenants/acme/{where}")
        expect(page.locator(".table tbody tr").first).to_be_visible()
        assert page.evaluate(OFF_SCREEN) == []
        assert page.evaluate(HIGHEST_ROW) < 150
        page.set_viewport_size(PHONE)
        assert page.evaluate(OFF_SCREEN) == []  # each row is a card, and no number is to be scrolled to
        expect(page.get_by_role("cell").first).to_be_visible()
        page.set_viewport_size(LAPTOP)


def test_the_chart_of_costs_is_read_on_a_phone(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants", viewport=PHONE)
    acme, now = Tenant.unscoped.get(name="acme"), datetime.now(UTC)
    start, _ = month_of(now)
    with_plan(acme, {**PLAN, "in_force_from": start.isoformat()}, start)
    use(acme, start, bytes_in=500 * GIB, messages_in=40, messages_out=7)
    refresh(acme, start, now)
    page.goto("/costs?span=90-days&by=topic")
    labels = page.locator(".cost-axis text:visible")
    boxes = [box for index in range(labels.count()) if (box := labels.nth(index).bounding_box())]
    assert len(boxes) > 1 and all(box["height"] >= 9 for box in boxes)
    assert all(one["x"] + one["width"] < other["x"] for one, other in pairwise(boxes))
    assert boxes[-1]["x"] + boxes[-1]["width"] <= PHONE["width"]
    lefts = page.locator("td.used").first.locator("span").evaluate_all("all => all.map((one) => one.getBoundingClientRect().left)")
    assert len(lefts) == 3 and len(set(lefts)) == 1
