"""A page that nobody sees asks for nothing, and for all of it at once when it is seen again. The browser's clock is the test's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.admin_ui.pages import NAMESPACE

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def without_waiting(visit: Callable[..., Page], path: str) -> tuple[Page, list[str]]:
    """The page, whose timers run as they are told to, and what it asks for from now on."""
    page = visit("owner", "/account/time-zone")
    page.clock.install()
    page.goto(path)
    page.wait_for_load_state("load")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url.partition("?")[0]))
    return page, asked


TOPIC = f"{NAMESPACE}/topics/placed"


@pytest.mark.parametrize("path", ["/now", TOPIC, "/tenants/acme/alerts", "/tenants/acme"])
def test_a_hidden_page_asks_for_nothing_and_at_once_when_it_is_seen(visit: Callable[..., Page], path: str) -> None:
    page, asked = without_waiting(visit, path)
    with page.expect_request("**"):
        page.clock.run_for(11_000)
    page.wait_for_load_state("networkidle")
    page.evaluate(HIDE, True)
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []
    with page.expect_request("**"):
        page.evaluate(HIDE, False)


def test_a_hidden_page_lets_go_of_its_feed_and_has_it_at_once_when_it_is_seen(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/account/time-zone")
    page.clock.install()
    with page.expect_websocket() as of_page:
        page.goto(TOPIC)
    expect(page.locator("mag-live-status")).to_have_text("Live")
    page.evaluate(HIDE, True)
    page.clock.run_for(59_000)
    assert not of_page.value.is_closed(), "who looks elsewhere for a moment finds no gap"
    with of_page.value.expect_event("close"):
        page.clock.run_for(2_000)
    page.clock.run_for(20_000)
    with page.expect_websocket():
        page.evaluate(HIDE, False)
    expect(page.locator("mag-live-status")).to_have_text("Live")
