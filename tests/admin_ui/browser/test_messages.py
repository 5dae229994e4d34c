"""The messages of a topic in a browser: found by keyboard, opened in place, and within the width of a telephone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from messaging.broker.runtime.local.messages import OutgoingMessage
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]

TOPIC = "persistent://acme/orders/" + "a-very-long-name-of-a-topic-" * 4
PAGE = f"{NAMESPACE}/topics/{TOPIC.rpartition('/')[2]}/messages"


@pytest.fixture
def filled(broker: ConsoleBroker, site: str) -> None:
    broker.real.add(TOPIC, "billing")
    customer = {"name": "Ada " + "Lovelace" * 9}
    orders = [{"order": 4700 + number, "customer": customer, "paid": number % 2 == 0} for number in range(30)]
    messages = [OutgoingMessage(json.dumps(order).encode(), key=f"key-{order['order']}" * 3) for order in orders]
    broker.real.publish_messages(TOPIC, *messages, OutgoingMessage(b"\x00\xff", key="b"), OutgoingMessage("grüße".encode()))


@pytest.mark.parametrize("width", [1440, 390])
def test_a_message_is_found_by_keyboard_and_opened_within_the_window(visit: Callable[..., Page], filled: None, width: int) -> None:
    page = visit("owner", PAGE, viewport={"width": width, "height": 900})
    expect(page.get_by_role("heading", name="25 messages")).to_be_visible()
    page.get_by_label("Field").fill("$.order")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("4711")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="1 message", exact=True)).to_be_visible()
    line = page.locator(".payload summary")
    line.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".payload pre")).to_contain_text('"order": 4711')
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("table.messages a").first.click()
    expect(page.get_by_role("heading", name="Payload")).to_be_visible()
    expect(page.get_by_text("It has not been sent yet.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_published_appears_while_it_is_followed(visit: Callable[..., Page], filled: None, broker: ConsoleBroker) -> None:
    page = visit("owner", f"{PAGE}/tail", viewport={"width": 390, "height": 900})
    expect(page.get_by_text("Waiting for messages.")).to_be_visible()
    for number in range(2):
        broker.real.publish_messages(TOPIC, OutgoingMessage(b'{"fresh": %d}' % number))
        expect(page.get_by_text(f'"fresh": {number}')).to_be_visible(timeout=20_000)
    assert page.locator("#tail li").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
