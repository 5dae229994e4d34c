"""Usage, costs and bills of what clients did, computed while the broker stands still."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.finding import BrokerChoice
from messaging.adminrpc.methods import USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from messaging.identity import service_token
from messaging.settings import Settings
from tests.compat.console.bills import ADDRESSES, BILLS, BUDGET, CAP, PLAN, PRICES, TITLES, Computed, first_number, total, wrong
from tests.compat.console.clients import PLACED, STEADY, TENANT, World
from tests.compat.console.pages import Shown, shown
from tests.compat.console.tabs import Stopped
from tests.support.brokers.standalone import Standalone

pytestmark = [
    pytest.mark.xdist_group("console"),
    pytest.mark.standalone,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(300),  # a machine that runs other tests beside it is slow
]
COMPUTED_MS = 180_000
KEEP_ALIVE_S = 25.0
INVOICES = f"/tenants/{TENANT}/invoices"


def pay(platform: Standalone) -> None:
    """By a plan, from the beginning of the month on; with a budget and a cap that are not reached."""
    month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    cap = {"amount": str(CAP), "currency": "EUR", "action": "stop"}
    for method, path, body in (
        ("POST", "/price-plans", {"document": PLAN}),
        ("POST", f"/tenants/{TENANT}/billing/plans", {"plan": PLAN["plan"], "starts_at": month.isoformat()}),
        ("POST", f"/tenants/{TENANT}/budgets", {"name": "all", "amount": str(BUDGET), "currency": "EUR"}),
        ("PUT", f"/tenants/{TENANT}/spend-caps/platform", cap),
    ):
        answer = platform.http(method, f"/api/v1{path}", body, platform.admin_token)
        assert answer.status in (200, 201), answer.text


def flush(platform: Standalone) -> None:
    settings = Settings(data_dir=str(platform.folder))
    rpc = AdminRpc(BrokerChoice(settings).rpc_url, lambda: service_token(settings, "worker"), 30.0)
    try:
        rpc.call(USAGE_FLUSH, UsageFlush(task_id="test"))
    finally:
        rpc.close()


def compute_drafts(page: Page) -> None:
    """Asked for again where drafts were computed a moment before."""
    page.goto(INVOICES)
    for _ in range(int(COMPUTED_MS / 1_000)):
        if page.locator("#invoices tbody tr").count():
            return
        button = page.get_by_role("button", name="Compute drafts now")
        if button.is_enabled():
            button.click()
        page.wait_for_timeout(1_000)
        page.goto(INVOICES)
    raise AssertionError(page.get_by_role("main").inner_text())


@pytest.fixture(scope="module")
def computed(context: BrowserContext, world: World, platform: Standalone, spark: None) -> Computed:
    """From the button on, with the broker away meanwhile."""
    pay(platform)
    steady_sent, flushed_s = world.sent[STEADY], time.time()
    flush(platform)
    page = context.new_page()
    page.goto("/usage?by=topic")
    with Stopped(platform):
        stopped_s = time.time()
        page.get_by_role("button", name="Compute now").click()
        expect(page.locator("#usage tbody tr").filter(has_text=PLACED.rpartition("/")[2]).first).to_be_visible(timeout=COMPUTED_MS)
        compute_drafts(page)
    world.stood_still += time.time() - stopped_s > KEEP_ALIVE_S
    page.close()
    return Computed(world, steady_sent, flushed_s, stopped_s)


@pytest.fixture(scope="module")
def figures(context: BrowserContext, platform: Standalone, computed: Computed) -> Iterator[list[Shown]]:
    """Of all pages, which were loaded while the broker stood still; a row of usage that is of two hours is one."""
    page, found = context.new_page(), []
    with Stopped(platform):
        for name, address in ADDRESSES.items():
            page.goto(address)
            found += shown(page, name) or []
        page.goto(INVOICES)
        page.locator("#invoices tbody th a").first.click()
        expect(page.locator("#lines")).to_be_visible()
        found += shown(page, "invoice") or []
        lines = page.locator("#lines tbody th a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
        own = page.url
        for line in lines:
            page.goto(own.partition("?")[0] + line.partition("#")[0])
            page.locator("#down summary").click()
            found += [one for one in shown(page, f"invoice {meter_of(line)}") or [] if one.hook.startswith("invoice.")]
    yield found
    page.close()


def meter_of(line: str) -> str:
    return next(meter for meter in PRICES if f"line={meter}" in line)


def together(found: list[Shown]) -> list[Shown]:
    """Rows of one name and page that are of different hours, summed."""
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    rest = []
    for one in found:
        if one.hook.startswith("usage.") or one.hook == "invoice.hours.quantity":
            row = "" if one.hook == "invoice.hours.quantity" else re.sub(r"-partition-\d+$", "", one.row)
            sums[one.page, one.hook, row] += first_number(one) or 0
        else:
            rest.append(one)
    return rest + [Shown(page, hook, row, f"{value:.6f}", False) for (page, hook, row), value in sums.items()]


def test_every_figure_of_usage_costs_and_bills_is_what_clients_did(figures: list[Shown], computed: Computed) -> None:
    known = [one for one in together(figures) if one.hook in BILLS]
    assert [text for one in known if (text := wrong(computed, one))] == []
    assert set(BILLS) - {one.hook for one in known} == set()


def test_parts_of_what_is_billed_sum_to_it(figures: list[Shown], computed: Computed) -> None:
    """To the cent that each is cut to."""
    whole = {one.page: first_number(one) or 0 for one in figures if one.hook == "costs.total"}
    for page, expected in whole.items():
        parts = [first_number(one) or 0 for one in figures if (one.page, one.hook) == (page, "costs.rows.cost")]
        assert expected - 0.01 * len(parts) <= sum(parts) <= expected + 1e-6, page
    assert len({round(one, 2) for one in whole.values()}) == 1
    invoice = [one for one in figures if one.page == "invoice"]
    due = next(first_number(one) or 0 for one in invoice if one.hook == "invoice.total")
    amounts = {one.row: first_number(one) or 0 for one in invoice if one.hook == "invoice.lines.amount"}
    assert abs(sum(amounts.values()) - due) < 0.001
    for meter in PRICES:
        topics = [
            first_number(one) or 0 for one in figures if (one.page, one.hook) == (f"invoice {meter}", "invoice.topics.amount")
        ]
        lines: list[Any] = [value for row, value in amounts.items() if row == TITLES[meter]]
        assert topics and abs(sum(topics) - sum(lines)) < 0.001, meter
    assert due in total(computed)


def test_a_key_and_a_subscription_pay_for_what_they_did(figures: list[Shown], computed: Computed) -> None:
    rows = {(one.page, one.row): first_number(one) or 0 for one in figures if one.hook == "costs.rows.cost"}
    keys = [value for (page, row), value in rows.items() if page == "costs key" and row.startswith("app")]
    sent, price = computed.world.sent[PLACED], PRICES["messages_in"][2]
    assert len(keys) == 1 and keys[0] >= sent * price
    billing = [value for (page, row), value in rows.items() if page == "costs subscription" and "billing" in row]
    assert len(billing) == 1 and billing[0] >= computed.world.received[PLACED, "billing"] * PRICES["messages_out"][2] - 0.01
