"""What a policy would have done, asked and read by keyboard, on a wide and on a narrow screen."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from messaging.history.points import HOUR_MS, MINUTE_MS
from tenants.models import Tenant
from tests.support.told_history import minutes, tell

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
ORDERS = "acme/orders"
TOPIC = f"persistent://{ORDERS}/placed"


@pytest.mark.parametrize("width", [1440, 390])
def test_a_rate_is_held_against_yesterday_before_it_is_saved(visit: Callable[..., Page], width: int) -> None:
    page = visit("owner", "/tenants", viewport={"width": width, "height": 900})
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    points = [each for at in (("", ""), (ORDERS, ""), (ORDERS, TOPIC)) for each in minutes(uid, *at, "", begin_ms, 200)]
    tell(points, [(begin_ms, begin_ms + 200 * MINUTE_MS)], 1)
    page.goto("/tenants/acme/namespaces/orders/topics/placed/policies?policy=publish_rate")
    page.get_by_label("Publish rate messages").first.fill("8")
    page.get_by_role("button", name="What would this do?").focus()
    page.keyboard.press("Enter")
    answer = page.get_by_role("status").filter(has_text="In the last 24 hours")
    expect(answer).to_contain_text("held producers for at least 3 h")
    expect(answer).to_contain_text("Nothing has been changed.")
    expect(page.get_by_label("Publish rate messages").first).to_have_value("8")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is beyond the edge"
