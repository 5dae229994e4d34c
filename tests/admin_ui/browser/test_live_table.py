"""The live table of topics in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from admin_ui.live.state import LiveState, message_between
from messaging.adminrpc.topics import NamespaceLive
from tenants.access import actor_of_user
from tenants.actions import create_key, create_namespace, grant_permission
from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import ORDERS, PLACED
from tests.admin_ui.scripted_live import live_row, unloaded_row
from tests.support.waiting import eventually_sync

# Of the document, apart from what htmx swaps in: the figures of a topic, every two seconds.
COUNT_CHANGES = """() => {
  window.changes = [];
  new MutationObserver((records) => {
    for (const one of records) {
      if (!one.target.closest?.("[hx-get]")) changes.push(`${one.type} ${one.attributeName} of ${one.target.nodeName}`);
    }
  }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
}"""
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]


def test_the_live_table(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("teammate", NAMESPACE)
    status, table = page.locator("mag-live-status"), page.get_by_role("table")
    expect(status).to_have_text("Live")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table.locator("[data-cell=rate_in]")).to_have_text("12")

    broker.set_rows(ORDERS, [live_row(PLACED, rate_in=4321, backlog_entries=1_234_567), live_row(f"{PLACED}-next")])
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table.locator("[data-cell=rate_in]").first).to_have_text("4,321")
    expect(table.locator("[data-cell=backlog_entries]").first).to_have_text("1.23 M")
    expect(page.locator("[data-total=rate_in]")).to_have_text("4,321")

    broker.cut("the broker does not answer")
    expect(status).to_contain_text("Broker not responding: no data since")
    expect(page.locator("main")).to_have_class(re.compile("stale"))
    expect(table.locator("[data-cell=rate_in]").first).to_have_text("4,321")  # what was known stays, and is marked as old

    broker.mend()
    broker.live.boot_epoch, broker.live.sequence = 8, 0  # it was restarted
    broker.set_rows(ORDERS, [])
    expect(status).to_have_text("Live")
    expect(page.get_by_role("heading", name="No topics yet")).to_be_visible()


@pytest.mark.parametrize("path", ["", "/topics/placed"])
def test_a_page_where_nothing_happens_does_nothing(visit: Callable[..., Page], broker: ConsoleBroker, path: str) -> None:
    """An animation at every answer of the broker, and attributes that were written anew, cost 100 to 200 ms a second."""
    broker.set_rows(ORDERS, [live_row(PLACED), *(live_row(f"{PLACED}-{number}") for number in range(30))])
    page = visit("owner", f"{NAMESPACE}{path}")
    expect(page.locator("mag-live-status")).to_have_text("Live")
    expect(page.locator("[data-total=rate_in]").first).to_have_text("0")
    sequence = broker.live.sequence
    eventually_sync(lambda: broker.live.sequence >= sequence + 2)
    page.evaluate(COUNT_CHANGES)
    sequence = broker.live.sequence
    eventually_sync(lambda: broker.live.sequence >= sequence + 3)
    assert page.evaluate("changes") == []
    assert page.evaluate("document.getAnimations().length") == 0


def test_partitions_are_one_row_that_unfolds(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    broker.set_rows(ORDERS, [live_row(f"{PLACED}-partition-{index}", rate_in=10.0 + index) for index in range(3)])
    page = visit("owner", NAMESPACE)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("[data-cell=rate_in]")).to_have_text("33")
    page.get_by_role("button", name="3 partitions of placed").click()
    expect(rows).to_have_count(4)


def test_a_topic_that_is_not_persistent_has_its_own_row_and_page(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """Beside the persistent topic of the same name, whose numbers are others."""
    unstored = "non-persistent://acme/orders/placed"
    rows = [live_row(PLACED, rate_in=12.0), live_row(unstored, rate_in=34.0)]
    rows += [live_row(f"non-persistent://acme/orders/parts-partition-{index}", rate_in=5.0, loaded=False) for index in range(2)]
    rows += [live_row("persistent://acme/orders/parts-partition-0", rate_in=3.0)]
    broker.set_rows(ORDERS, rows)
    page = visit("owner", NAMESPACE)
    names = page.locator("tbody th a")
    expect(page.locator("tbody tr")).to_have_count(4)
    shown = {
        row.locator("th a").inner_text(): (
            row.locator("[data-cell=rate_in]").inner_text(),
            row.locator("th a").get_attribute("href"),
        )
        for row in page.locator("tbody tr").all()
    }
    assert shown == {
        "placed": ("12", f"{NAMESPACE}/topics/placed"),
        "non-persistent://placed": ("34", f"{NAMESPACE}/non-persistent/placed"),
        "parts": ("3.0", f"{NAMESPACE}/topics/parts"),
        "non-persistent://parts": ("10", f"{NAMESPACE}/non-persistent/parts"),
    }
    page.get_by_role("button", name="2 partitions of non-persistent://parts").click()
    part = page.get_by_role("link", name="partition 1", exact=True)
    expect(part).to_have_attribute("href", f"{NAMESPACE}/non-persistent/parts-partition-1")
    page.keyboard.press("/")
    page.keyboard.type("placed")
    expect(names).to_have_count(2)
    page.get_by_role("link", name="non-persistent://placed", exact=True).click()
    expect(page.locator("h1")).to_contain_text("placed")
    expect(page).to_have_url(re.compile(f"{NAMESPACE}/non-persistent/placed$"))
    expect(page.locator("[data-total=rate_in]").first).to_have_text("34")


def test_what_is_not_known_of_a_topic_is_a_dash(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """Topics that are not loaded had a backlog of 0 and no subscriptions here, whatever they held."""
    parts = [live_row(f"{PLACED}-partition-0", backlog_entries=7), unloaded_row(f"{PLACED}-partition-1")]
    broker.set_rows(ORDERS, [live_row(f"{PLACED}-known", backlog_entries=40, subscriptions=2), *parts])
    page = visit("owner", NAMESPACE)
    known, unknown = page.get_by_role("row", name="placed-known"), page.get_by_role("row", name="2 partitions of placed")
    expect(known.locator("[data-cell=backlog_entries]")).to_have_text("40")
    for cell in ("backlog_entries", "storage_bytes", "subscriptions"):
        expect(unknown.locator(f"[data-cell={cell}]")).to_have_text("–")
    expect(unknown.locator("[data-cell=producers]")).to_have_text("0")
    expect(page.locator("[data-total=backlog_entries]")).to_have_text("≥ 40")
    page.get_by_role("button", name="Backlog").click()
    expect(page.locator("tbody th a")).to_have_text(["placed-known", "placed"])
    page = visit("owner", f"{NAMESPACE}/topics/placed")
    expect(page.locator("[data-total=backlog_entries]")).to_have_text("–")


def test_of_a_thousand_topics_those_on_the_screen_are_drawn(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """It froze for 46 s and took 4.7 GiB when all were drawn. All can be reached by scrolling, sorting and filtering now."""
    rows = [live_row(f"persistent://acme/orders/t{number:04}", rate_in=float(number)) for number in range(1_000)]
    broker.set_rows(ORDERS, rows)
    page = visit("owner", NAMESPACE)
    drawn, names = page.locator("tbody tr"), page.locator("tbody th a")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "1001")
    assert drawn.count() < 100
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(names.last).to_have_text("t0999")
    expect(page.locator("tbody tr[aria-rowindex='1001'] [data-cell=rate_in]")).to_have_text("999")
    assert drawn.count() < 100
    page.evaluate("scrollTo(0, 0)")
    expect(names.first).to_have_text("t0000")
    page.get_by_role("button", name="In/s").click()
    expect(names.first).to_have_text("t0999")
    page.keyboard.press("/")
    page.keyboard.type("t00")
    expect(page.locator("[data-foot]")).to_have_text("100 of 1,000 topics")
    page.keyboard.type("27")
    expect(names).to_have_text(["t0027"])


def test_pages_of_a_long_list_are_live_and_come_back(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    rows = [live_row(f"persistent://acme/orders/t{number:04}", rate_in=float(number)) for number in range(1_200)]
    broker.set_rows(ORDERS, rows)
    page = visit("owner", NAMESPACE)
    names = page.locator("tbody th a")
    expect(page.locator("mag-live-status")).to_have_text("Live")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "101")
    expect(page.locator("[data-total=topics]")).to_have_text("1,200")
    page.get_by_role("button", name="In/s").click()
    expect(page).to_have_url(re.compile(r"\?sort=-rate_in$"))
    expect(names.first).to_have_text("t1199")
    broker.set_rows(ORDERS, [*rows[:-1], live_row("persistent://acme/orders/t1199", rate_in=7.0)])
    expect(page.locator("tr[aria-rowindex='2'] [data-cell=rate_in]")).to_have_text("7.0")  # it stays where it was
    expect(names.first).to_have_text("t1199")
    page.keyboard.press("r")
    expect(names.first).to_have_text("t1198")
    page.get_by_role("link", name="Next page").click()
    expect(names.first).to_have_text("t1098")
    page.get_by_role("link", name="t1098", exact=True).click()
    expect(page.locator("h1")).to_contain_text("t1098")
    page.go_back()
    expect(names.first).to_have_text("t1098")
    page.keyboard.press("/")
    page.keyboard.type("t012")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?q=t012&sort=-rate_in$"))
    expect(names).to_have_count(10)
    page.get_by_role("button", name="All topics by name").click()
    expect(names.first).to_have_text("t0120")


def test_an_address_keeps_filter_and_order(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    rates = {"alpha": 1.0, "beta": 30.0, "gamma": 20.0, "gala": 90.0}
    broker.set_rows(ORDERS, [live_row(f"persistent://acme/orders/{name}", rate_in=rate) for name, rate in rates.items()])
    page = visit("owner", NAMESPACE)
    names = page.locator("tbody th a")
    page.get_by_role("button", name="In/s").click()
    page.keyboard.press("/")
    page.keyboard.type("ga")
    expect(names).to_have_text(["gala", "gamma"])
    expect(page).to_have_url(re.compile(r"\?q=ga&sort=-rate_in$"))
    page.get_by_role("link", name="gamma").click()
    expect(page.locator("h1")).to_contain_text("gamma")
    page.go_back()
    expect(page.locator("mag-live-status")).to_have_text("Live")
    expect(names).to_have_text(["gala", "gamma"])
    expect(page.get_by_role("searchbox", name="Filter topics")).to_have_value("ga")


def test_a_row_keeps_its_focus_while_numbers_change(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    topics = [f"persistent://acme/orders/t{number:03}" for number in range(300)]
    broker.set_rows(ORDERS, [live_row(topic) for topic in topics])
    page = visit("owner", NAMESPACE)
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "301")
    page.get_by_role("link", name="t005", exact=True).focus()
    broker.set_rows(ORDERS, [live_row(topic, rate_in=7.0) for topic in topics])
    expect(page.locator("tr[aria-rowindex='7'] [data-cell=rate_in]")).to_have_text("7.0")
    expect(page.get_by_role("link", name="t005", exact=True)).to_be_focused()


LONG = "a-name-" + "w" * 248


def test_the_longest_names_break_no_table(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """New key's boxes, the topic list's last columns and the numbers of a subscription stood outside the screen."""
    admin = actor_of_user(User.objects.get(username="superuser"))
    create_namespace(admin, f"acme/{LONG}")
    key = create_key(admin, "acme", LONG).key
    grant_permission(admin, f"acme/{LONG}", key.role, ["produce"])
    topic = f"persistent://acme/orders/{LONG}"
    broker.set_rows(ORDERS, [live_row(topic, rate_in=1234.0, backlog_entries=99)])
    client = {"address": "127.0.0.1:65535", "clientVersion": LONG, "connectedSince": "2026-01-31T12:00:00Z"}
    broker.stats[topic] = {
        "subscriptions": {LONG: {"type": "Shared", "msgBacklog": 5, "consumers": [{"consumerName": LONG, **client}]}},
        "publishers": [{"producerName": LONG, **client}],
    }
    of_tenant = ("/tenants/acme", "/tenants/acme/keys", "/tenants/acme/new-key")
    for path in (NAMESPACE, f"{NAMESPACE}/topics/{LONG}", *of_tenant, "/people", "/usage"):
        page = visit("superuser", path)
        expect(page.locator("h1")).to_be_visible()
        wide = page.evaluate(
            "[...document.querySelectorAll('.table-scroll')]"
            ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)"
        )
        assert wide == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_sorting_and_filtering(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    rates = {"alpha": 1.0, "beta": 30.0, "gamma": 20.0}
    broker.set_rows(ORDERS, [live_row(f"persistent://acme/orders/{name}", rate_in=rate) for name, rate in rates.items()])
    page = visit("owner", NAMESPACE)
    names = page.locator("tbody th a")
    expect(names).to_have_text(["alpha", "beta", "gamma"])
    page.get_by_role("button", name="In/s").click()
    expect(names).to_have_text(["beta", "gamma", "alpha"])
    expect(page.get_by_role("columnheader", name="In/s")).to_have_attribute("aria-sort", "descending")
    page.keyboard.press("/")
    page.keyboard.type("mm")
    expect(names).to_have_text(["gamma"])
    page.keyboard.press("Escape")
    expect(names).to_have_text(["beta", "gamma", "alpha"])


def test_the_script_and_the_server_agree_on_states(visit: Callable[..., Page], site: str) -> None:
    """live-state.js against admin_ui.live.state: state plus updates equals fresh state, and a gap is a gap."""
    page = visit()
    contents = [{"a": 1}, {"a": 1, "b": 2}, {"b": 3}, {}, {"c": 1}]
    states = []
    for sequence, content in enumerate(contents, start=1):
        topics = [live_row(f"persistent://acme/orders/{name}", messages_in=value) for name, value in content.items()]
        states.append(LiveState.from_answer(NamespaceLive(sequence=sequence, at_ms=sequence, boot_epoch=1, topics=topics)))
    messages = [message_between(base, state) for base, state in zip([None, *states], states, strict=False)]
    script = """async ([module, messages]) => {
        const { apply, Gap } = await import(module);
        const held = [];
        let state = null;
        for (const message of messages) held.push(state = apply(state, message));
        let gap = false;
        try { apply(held[0], messages[2]); } catch (error) { gap = error instanceof Gap; }
        return { held, gap };
    }"""
    answer = page.evaluate(script, [f"{site}/static/admin_ui/js/live-state.js", json.loads(json.dumps(messages))])
    assert answer["gap"] is True
    for held, state in zip(answer["held"], states, strict=True):
        head = {"epoch": 1, "sequence": state.sequence, "at_ms": state.at_ms, "totals": None, "more": False}
        assert held == {**head, "rows": state.rows}
