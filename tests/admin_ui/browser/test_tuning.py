"""The page that advises producers, by the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]


def test_a_question_is_asked_and_answered_by_keyboard(visit: Callable[..., Page]) -> None:
    page = visit("stranger", "/tune", viewport={"width": 390, "height": 844})
    page.get_by_label("Message size, bytes").focus()
    page.keyboard.type("200")
    page.keyboard.press("Tab")
    page.keyboard.type("20000")
    page.get_by_text("Settings that they have now").focus()
    page.keyboard.press("Enter")
    page.get_by_label("batch_messages_max").focus()
    page.keyboard.type("5000")
    expect(page.locator(".calls-written")).to_contain_text('"batch_messages_max": 5000')
    page.keyboard.press("Enter")
    expect(page.locator("#settings")).to_contain_text("half of pending_max")
    expect(page.get_by_text("A batch can never have batch_messages_max = 5000")).to_be_visible()
    assert "message_bytes=200" in page.url and "batch_messages_max=5000" in page.url
