"""The first page in a real browser: it refreshes itself, keeps the focus, and says when it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from messaging.problems.order import Problem
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.scripted_live import live_row

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]

PAID = "persistent://acme/orders/paid"


def problem(kind: str, waiting: int, topic: str = PAID) -> Problem:
    return Problem(
        kind=kind,
        sentence=f"It waits: {waiting}.",
        since_ms=1_700_000_000_000,
        tenant="acme",
        namespace="acme/orders",
        topic=topic,
        subscription="billing",
        waiting=waiting,
    )


def test_it_refreshes_itself_keeps_the_focus_and_says_when_it_cannot(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    broker.set_problems(problem("no_consumer", 3))
    page = visit("owner", "/now")
    page.keyboard.press("j")
    row = page.get_by_role("link", name="billing", exact=True)
    expect(row).to_be_focused()
    broker.set_problems(problem("no_consumer", 4), problem("blocked", 5, "persistent://acme/orders/other"))
    expect(page.get_by_text("It waits: 4.")).to_be_visible()
    expect(page.get_by_role("row").nth(1)).to_contain_text("It waits: 5.")
    expect(page.locator(":focus")).to_have_attribute("href", f"{NAMESPACE}/topics/paid/subscriptions/billing")
    page.route("**/now/problems*", lambda route: route.abort())
    expect(page.get_by_text("Not refreshed since")).to_be_visible()
    expect(page.locator("#now")).to_have_class(re.compile("stale"))
    page.unroute("**/now/problems*")
    expect(page.get_by_text("Not refreshed since")).to_have_count(0)
    expect(page.locator(".stale")).to_have_count(0)
    expect(page.get_by_text("as of")).to_be_visible()


def test_lists_are_marked(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    rows = [
        live_row(f"{PAID}-partition-{index}", problem=kind) for index, kind in enumerate(("falling_behind", "of_later", "blocked"))
    ]
    broker.set_rows("acme/orders", rows)
    page = visit("owner", NAMESPACE)
    expect(page.get_by_role("row").filter(has_text="paid").get_by_text("BLOCKED")).to_be_visible()
    broker.set_problems(problem("no_consumer", 3, "persistent://acme/orders/other"))
    page.goto("/tenants/acme")
    expect(page.get_by_role("row").filter(has_text="orders").get_by_text("NO CONSUMER").first).to_be_visible()
