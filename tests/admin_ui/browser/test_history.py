"""History in a browser: a part of a chart is selected by mouse and by keyboard, the address has it, and Back goes back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from messaging.history.points import HOUR_MS, MINUTE_MS
from messaging.times import time_text
from tenants.models import Tenant, User
from tests.support.told_history import minutes, tell

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
TOPIC = "persistent://acme/orders/t"
PAGE = "/tenants/acme/namespaces/orders/topics/t/history"
OFF_SCREEN = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def past() -> int:
    """Of an hour of which 10 minutes are not known; when it began."""
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    points = minutes(uid, "acme/orders", TOPIC, "", begin_ms, 30)
    points += minutes(uid, "acme/orders", TOPIC, "", begin_ms + 40 * MINUTE_MS, 20, rate=20)
    tell(points, [(begin_ms, begin_ms + 30 * MINUTE_MS), (begin_ms + 40 * MINUTE_MS, begin_ms + 60 * MINUTE_MS)], 1)
    return begin_ms


def address(begin_ms: int) -> str:
    return f"{PAGE}?from={time_text(begin_ms)}&until={time_text(begin_ms + HOUR_MS)}"


def test_a_part_is_selected_with_the_mouse_and_the_address_has_it(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants")
    begin_ms = past()
    page.goto(address(begin_ms))
    plot = page.locator("[data-chart=messages] .history-plot svg")
    box = plot.bounding_box()
    assert box is not None
    y = box["y"] + 20
    page.mouse.move(box["x"] + box["width"] * 0.755, y)
    expect(page.locator("[data-read-of=messages]")).to_contain_text("in, mean 20/s; out, mean 20/s; in, highest 5 s 40/s")
    page.mouse.move(box["x"] + box["width"] * 0.55, y)
    expect(page.locator("[data-read-of=messages]")).to_contain_text("in, mean \u2013")
    page.mouse.move(box["x"] + box["width"] * 0.255, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.49, y, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("from=.*until="))
    expect(page).not_to_have_url(address(begin_ms))
    assert time_text(begin_ms + 15 * MINUTE_MS)[:16].replace(":", "%3A") in page.url
    assert time_text(begin_ms + 30 * MINUTE_MS)[:16].replace(":", "%3A") in page.url
    expect(page.locator("#history-span")).not_to_contain_text("is known")
    page.go_back()
    expect(page).to_have_url(re.compile(re.escape(time_text(begin_ms)[:16])))
    expect(page.locator("#history-span")).to_contain_text("83 % of it is known")


def test_charts_and_handles_show_the_time_zone_that_was_chosen(visit: Callable[..., Page]) -> None:
    """They showed that of the browser, beside times of the other."""
    page = visit("owner", "/tenants")
    User.objects.filter(username="owner").update(time_zone="Asia/Kolkata")
    page.goto(address(past()))
    box = page.locator("[data-chart=messages] .history-plot svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.755, box["y"] + 20)
    expect(page.locator("[data-read-of=messages]")).to_contain_text("GMT+5:30")
    dragged = """() => {
      document.body.insertAdjacentHTML("beforeend", '<form><input type="range" data-handle><output id="under"></output></form>');
      const handle = document.querySelector("form:last-of-type > [data-handle]");
      Object.assign(handle, { min: 0, max: 2e12, value: 1767225600000 });
      handle.dispatchEvent(new Event("input", { bubbles: true }));
    }"""
    page.evaluate(dragged)
    expect(page.locator("#under")).to_contain_text("5:30:00")
    expect(page.locator("#under")).to_contain_text("GMT+5:30")


def test_a_part_is_selected_with_the_keyboard_and_said(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants", viewport={"width": 390, "height": 844})
    begin_ms = past()
    page.goto(address(begin_ms))
    assert page.evaluate(OFF_SCREEN) == 0
    page.locator("[data-chart=backlog]").focus()
    page.keyboard.press("Home")
    expect(page.locator("#history-said")).to_contain_text("mean 0; highest 0")
    page.keyboard.press("Shift+PageDown")
    expect(page.locator("#history-said")).to_contain_text("selected: mean 10; highest 10")
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+PageDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(re.escape(time_text(begin_ms + 11 * MINUTE_MS)[:16].replace(":", "%3A"))))
    page.get_by_role("link", name="As a table").click()
    expect(page.get_by_role("table", name="").nth(1).locator("tbody tr")).to_have_count(11)
    cut = "all => all.filter(it => it.scrollWidth > it.clientWidth).map(it => it.innerText)"
    assert page.locator(".history-steps tbody th").evaluate_all(cut) == []  # the minutes were
    assert page.evaluate(OFF_SCREEN) == 0
