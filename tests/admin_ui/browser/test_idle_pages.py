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


def busy_ms_a_second(page: Page, work: Callable[[], None]) -> float:
    """Processor time of tasks of the main thread, so that other programs on a busy machine do not count."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def taken_ms() -> tuple[float, float]:
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"] * 1000, float(page.evaluate("performance.now()"))

    busy, began = taken_ms()
    work()
    busy_after, ended = taken_ms()
    session.detach()
    return (busy_after - busy) / ((ended - began) / 1000)


def let_pass(page: Page, span_ms: int = LOOKED_AT_MS) -> None:
    """What is measured is a span of time, so that one has to pass."""
    page.evaluate("span_ms => new Promise((done) => setTimeout(done, span_ms))", span_ms)


@pytest.mark.parametrize(
    "path", ["/now", "/tenants", "/tenants/acme", NAMESPACE, f"{NAMESPACE}/topics/placed", "/platform", "/tasks", "/docs/limits"]
)
def test_an_idle_page_costs_little(path: str, visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("superuser", path)
    page.wait_for_load_state("networkidle") if "mag-live-status" not in page.content() else expect(
        page.locator("mag-live-status")
    ).to_have_text("Live")
    let_pass(page)  # scripts have been compiled
    cost = busy_ms_a_second(page, lambda: let_pass(page))
    assert cost < IDLE_MS_A_SECOND_MAX


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
    cost = busy_ms_a_second(page, live)
    assert cost < LIVE_MS_A_SECOND_MAX
    expect(page.locator("[data-cell=rate_in]").first).to_have_text(str(100 * (1 + ROUNDS)))


def test_a_page_that_is_busy_is_seen(visit: Callable[..., Page]) -> None:
    page = visit("superuser", "/tenants")
    page.evaluate("setInterval(() => { const end = performance.now() + 100; while (performance.now() < end); }, 500)")
    assert busy_ms_a_second(page, lambda: let_pass(page, 2000)) > IDLE_MS_A_SECOND_MAX
