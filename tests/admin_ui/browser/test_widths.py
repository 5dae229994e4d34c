"""Pages at 1280 pixels, a common laptop: no table hides a column, and the form of the backlog quota works."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import PLACED, stored_password

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]

CUT_OFF = """[...document.querySelectorAll('.table-scroll')].filter(it => it.scrollWidth > it.clientWidth)
    .map(it => `${it.getAttribute('aria-label')}: ${it.scrollWidth} of ${it.clientWidth}`)"""


BUSY: dict[str, object] = {  # as much as there is to say of each
    "publishers": [
        {
            "producerName": "orders-service-7f9c6d5b8-x2v4q",
            "msgRateIn": 12345.6,
            "averageMsgSize": 1024.5,
            "address": "/203.0.113.77:54321",
            "clientVersion": "Pulsar-CPP-v3.7.2",
            "connectedSince": "2026-01-01T00:00:00Z",
        }
    ],
    "subscriptions": {
        "billing-of-all-orders-in-europe": {
            "type": "Key_Shared",
            "msgBacklog": 123456789,
            "oldestBacklogMessageAgeSeconds": 86400 * 12,
            "unackedMessages": 50_000,
            "msgRateOut": 12345.6,
            "messageAckRate": 12345.6,
            "msgOutCounter": 123456789,
            "totalMsgExpired": 1234567,
            "deadLetters": {"movedMessages": 12345, "waitingEntries": 123},
            "problems": ["blocked", "falling_behind"],
            "blockedSubscriptionOnUnackedMsgs": True,
            "explanation": {
                "reason": "no_permits",
                "sentence": "None of the 2 consumers can be sent messages.",
                "remedy": "add consumers",
            },
            "consumers": [
                {
                    "consumerName": "billing-6d5b8f9c7-x2v4q",
                    "msgRateOut": 12345.6,
                    "msgOutCounter": 123456789,
                    "unackedMessages": 50_000,
                    "availablePermits": 1000,
                    "address": "/203.0.113.77:54321",
                    "clientVersion": "Pulsar-Java-v4.0.8",
                    "connectedSince": "2026-01-01T00:00:00Z",
                }
            ],
        }
    },
}


@pytest.mark.parametrize(
    "path",
    [f"{NAMESPACE}/topics/placed", NAMESPACE, f"{NAMESPACE}/bundles", "/tenants/acme/keys", "/platform", "/platform/brokers"],
)
def test_no_table_is_cut_off(visit: Callable[..., Page], broker: ConsoleBroker, path: str) -> None:
    broker.stats[PLACED] = BUSY
    page = visit("superuser", path)
    expect(page.get_by_role("heading").first).to_be_visible()
    assert page.evaluate(CUT_OFF) == []


def test_names_of_tenants_are_not_broken_and_the_page_of_roles_is_no_scroll_on_a_phone(visit: Callable[..., Page]) -> None:
    page = visit("superuser", "/people")
    heights = page.locator("#people .tag").evaluate_all("all => all.map((it) => it.offsetHeight)")
    assert heights and max(heights) < 30
    assert page.locator("#people tbody :is(a, button)").count() == page.locator("#people tbody tr").count(), "the name alone"
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("owner", "superuser"):
        page.goto("/people")
        page.locator("#people").get_by_role("link", name=name, exact=True).press("Enter")
        expect(page.get_by_role("heading", name="Signing in")).to_be_visible()
        assert page.evaluate(CUT_OFF) == [] and page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto("/tenants/acme/roles")
    assert page.evaluate("document.documentElement.scrollHeight") < 3_500, "each role of each action had a line: 6,093"


@pytest.mark.parametrize("page_of", ["", "/subscriptions/billing-of-all-orders-in-europe", "/operations", "/schemas", "/storage"])
def test_on_a_phone_nothing_of_a_topic_is_off_screen(visit: Callable[..., Page], broker: ConsoleBroker, page_of: str) -> None:
    broker.stats[PLACED] = BUSY
    page = visit("superuser", f"{NAMESPACE}/topics/placed{page_of}", viewport={"width": 390, "height": 844})
    expect(page.get_by_role("heading").first).to_be_visible()
    assert page.evaluate(CUT_OFF) == [] and page.evaluate("document.documentElement.scrollWidth") <= 390
    if not page_of:
        expect(page.get_by_role("link", name="Operations")).to_be_in_viewport()
        expect(page.get_by_role("link", name="Disconnect consumer billing-6d5b8f9c7-x2v4q")).to_have_count(1)


@pytest.mark.parametrize(
    ("width", "script"), [(1440, True), (390, True), (1440, False)], ids=["wide", "phone", "wide, without scripts"]
)
def test_a_backlog_quota_is_set_and_taken_back(visit: Callable[..., Page], width: int, script: bool) -> None:
    path = f"{NAMESPACE}/policies"
    page = visit("owner", path, viewport={"width": width, "height": 800}, java_script_enabled=script)
    assert page.evaluate("document.documentElement.scrollHeight") < 1_600, "one form of all policies was 7,900 high"
    page.get_by_text("Time and storage").click()
    page.get_by_role("link", name="Backlog quota by size").click()
    expect(page.get_by_role("heading", name="Backlog quota by size")).to_be_visible()
    page.get_by_label("Backlog quota bytes (optional)", exact=True).fill("1 MiB")
    page.get_by_label("Backlog quota bytes policy (optional)", exact=True).select_option("consumer_backlog_eviction")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("was saved and is now in effect")
    levels = page.get_by_role("group", name="Backlog quota bytes by level")
    expect(levels.get_by_role("row").filter(has_text="in force")).to_contain_text("this namespace")
    page.get_by_role("link", name="All policies").click()
    rows = page.get_by_role("group", name="Policies that are set here").get_by_role("row")
    expect(rows.filter(has_text="Backlog quota by size")).to_contain_text("this namespace")
    page.get_by_role("link", name="Backlog quota by size").first.click()
    page.get_by_role("button", name="Inherit").click()
    expect(levels.get_by_role("row").filter(has_text="in force")).to_contain_text("broker default")
    assert page.evaluate(CUT_OFF) == []


def test_policies_are_found_as_one_types_and_an_error_gets_the_focus(visit: Callable[..., Page]) -> None:
    page = visit("owner", f"{NAMESPACE}/policies")
    page.keyboard.press("/")
    page.keyboard.type("acknowledged automatically")
    expect(page.get_by_text("Creation and deletion")).to_have_count(0)
    page.get_by_role("link", name="Message TTL").focus()
    page.keyboard.press("Enter")
    field = page.get_by_label("Message TTL (optional)")
    field.fill("soon")
    field.press("Enter")
    expect(page.get_by_text("write it as 7d")).to_be_visible()
    expect(field).to_be_focused()


@pytest.mark.parametrize("width", [390, 480, 600, 820])
def test_what_the_head_of_a_narrow_page_has_stands_beside_each_other(visit: Callable[..., Page], width: int) -> None:
    page = visit("superuser", "/now", viewport={"width": width, "height": 844})
    shown = page.locator(".side .brand svg, .side .brand span, .side .jump, .side-foot")
    boxes = [box for index in range(shown.count()) if (box := shown.nth(index).bounding_box()) and box["width"] > 1]
    assert len(boxes) >= 3
    for one, other in pairwise(sorted(boxes, key=lambda box: box["x"])):
        assert one["x"] + one["width"] <= other["x"] + 0.5, boxes
    expect(page.get_by_role("link", name="Magnetar", exact=True)).to_be_visible()


def test_a_name_that_is_a_mail_address_makes_no_page_wider_than_a_phone(visit: Callable[..., Page]) -> None:
    """Whoever accepted an invitation has one: each page of theirs was 520 pixels wide."""
    name = "friederike.brandstaetter@logistics.nordwind.example"
    User.objects.create(username=name, password=stored_password())
    page = visit(name, "/now", viewport={"width": 390, "height": 844})
    expect(page.locator(".account > a").first).to_have_attribute("title", f"{name}: your account")
    for width in (390, 600, 820):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".account > a").first.evaluate("it => it.offsetWidth") > 50


def test_a_list_of_long_texts_is_no_wider_than_a_phone(visit: Callable[..., Page]) -> None:
    """The names of tasks are longer in German, and their list made the page 464 pixels wide."""
    page = visit("superuser", "/tasks", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Deutsch").click()
    expect(page.get_by_role("heading", name="Aufgaben").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_names_texts_in_fields_and_buttons_are_whole(visit: Callable[..., Page]) -> None:
    """A name was broken within a word, half of what a field is for was not to be seen, and a button was wider than its card."""
    page = visit("owner", "/tune", viewport={"width": 1440, "height": 900})
    page.get_by_role("button", name="Deutsch").click()
    page.goto("/tune?message_bytes=200&messages_per_s=20000&partitions=8")
    pieces = """it => { const range = document.createRange(), node = it.childNodes[it.childNodes.length - 3];
        range.selectNodeContents(node); return [node.data, new Set([...range.getClientRects()].map(box => box.top)).size] }"""
    name = page.locator("#settings th, .tune-settings th").filter(has_text="pending_across_partitions_max").first
    assert name.evaluate(pieces) == ["partitions_", 1]
    page.goto(f"{NAMESPACE}/topics/placed/messages")
    fits = """it => { const context = document.createElement("canvas").getContext("2d"), style = getComputedStyle(it);
        context.font = style.font; return context.measureText(it.placeholder).width
        <= it.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) }"""
    assert page.locator("#receipt").evaluate(fits)
