"""What pages cost the browser while nothing happens, and while a hundred topics do: time of its main thread, by its own count."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import ORDERS, PLACED
from tests.admin_ui.scripted_live import live_row

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
IDLE_MS_A_SECOND_MAX, LIVE_MS_A_SECOND_MAX = 30, 50
LOOKED_AT_MS = 6000
ROWS, ROUNDS = 100, 6


class MainThread:
    """Of a page: processor time of its tasks, so that other programs on a busy machine do not count."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._began = self._taken_ms()

    def _taken_ms(self) -> tuple[float, float]:
        metrics = {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"] * 1000, float(self._page.evaluate("performance.now()"))

    def busy_ms_a_second(self) -> float:
        """Since this was made."""
        (before, began), (busy, now) = self._began, self._taken_ms()
        return (busy - before) / ((now - began) / 1000)


def let_pass(page: Page, span_ms: int = LOOKED_AT_MS) -> None:
    """What is measured is a span of time, so that one has to pass."""
    page.evaluate("span_ms => new Promise((done) => setTimeout(done, span_ms))", span_ms)


TOPIC = f"{NAMESPACE}/topics/placed"
IDLE = ("/now", "/tenants", "/tenants/acme", NAMESPACE, TOPIC, "/platform", "/tasks", "/docs/limits")
ASKING = (
    f"{TOPIC}/history",
    f"{TOPIC}/messages/tail",
    f"{TOPIC}/redrives",
    "/tenants/acme/dead-letters",
    "/usage",
    "/platform/brokers",
)


@pytest.mark.parametrize("paths", [IDLE, ASKING], ids=["first", "asking"])
def test_idle_pages_cost_little(visit: Callable[..., Page], broker: ConsoleBroker, paths: tuple[str, ...]) -> None:
    """Side by side: each has a browser profile, and so a process, of its own."""
    broker.real.add(PLACED, "billing")
    pages = {path: visit("superuser", path) for path in paths}
    for page in pages.values():
        page.wait_for_load_state("load") if "mag-live-status" not in page.content() else expect(
            page.locator("mag-live-status")
        ).to_have_text("Live")
    let_pass(page)  # scripts have been compiled
    threads = {path: MainThread(page) for path, page in pages.items()}
    let_pass(page)
    costs = {path: thread.busy_ms_a_second() for path, thread in threads.items()}
    assert {path: cost for path, cost in costs.items() if cost >= IDLE_MS_A_SECOND_MAX} == {}


def test_a_hundred_live_rows_cost_little(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    def publish(round_number: int) -> None:
        rows = [
            live_row(f"{PLACED}-{index:03}", rate_in=100.0 * round_number + index, messages_in=1000 * round_number)
            for index in range(ROWS)
        ]
        broker.set_rows(ORDERS, rows)

    publish(1)
    page = visit("superuser", NAMESPACE)
    expect(page.locator("mag-live-status")).to_have_text("Live")

    def live() -> None:
        for number in range(2, 2 + ROUNDS):
            publish(number)
            let_pass(page, 1000)

    live()
    thread = MainThread(page)
    live()
    assert thread.busy_ms_a_second() < LIVE_MS_A_SECOND_MAX
    expect(page.locator("[data-cell=rate_in]").first).to_have_text(str(100 * (1 + ROUNDS)))


def test_a_page_that_is_busy_is_seen(visit: Callable[..., Page]) -> None:
    page = visit("superuser", "/tenants")
    # Four fifths of the time, of which a busy machine gives it a part only.
    page.evaluate("setInterval(() => { const end = performance.now() + 400; while (performance.now() < end); }, 500)")
    thread = MainThread(page)
    let_pass(page, 2000)
    assert thread.busy_ms_a_second() > IDLE_MS_A_SECOND_MAX
