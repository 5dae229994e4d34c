"""The console in a real browser: what a person sees, types and hears from a screen reader."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import ORDERS, PASSWORD, PLACED
from tests.admin_ui.scripted_live import live_row
from tests.support.signing_in import sign_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]


def test_signing_in_and_out(visit: Callable[..., Page]) -> None:
    page = visit("", "/tenants/acme/keys")
    sign_in(page, "owner", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("The user name or password is incorrect")
    sign_in(page, "owner", PASSWORD)
    page.wait_for_url("**/tenants/acme/keys")  # where we wanted to go
    expect(page.get_by_role("heading", name="Keys", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.goto("/tenants/acme/keys")
    page.wait_for_url("**/sign-in?next=*")


def test_a_token_is_shown_once(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme/keys")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="New key").first.click()
    page.get_by_role("textbox", name="Name", exact=True).fill("checkout")
    page.get_by_label("Whatever is granted to its role").check()
    page.get_by_label("produce in orders").check()
    page.get_by_role("button", name="Create the key").click()
    token = page.locator("#token").inner_text()
    assert token.count(".") == 2
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    page.reload()
    assert token not in page.content()
    page.goto("/tenants/acme/keys")
    assert token not in page.content()
    row = page.get_by_role("row", name=re.compile("checkout"))
    expect(row).to_have_count(1)  # reloading did not make another
    expect(row).to_contain_text("orders: produce")

    row.get_by_role("link", name="Revoke checkout").click()
    revoke = page.get_by_role("button", name="Revoke key")
    expect(revoke).to_be_disabled()
    page.get_by_label("Type checkout to confirm").fill("checkout")
    revoke.click()
    expect(page.get_by_role("status").filter(has_text="revoked")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("checkout"))).to_contain_text("Revoked")


def test_the_quick_start_sees_the_first_message(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("owner", f"{NAMESPACE}/quick-start")
    news = page.locator("mag-quick-start")
    expect(news).to_contain_text("Waiting for the first message")
    page.get_by_role("textbox", name="Topic").fill("hello")
    page.get_by_role("button", name="Create key and program").click()
    expect(page.locator("#program-1")).to_contain_text("eyJ")
    program = page.locator("#program-1").inner_text()
    compile(program, "hello.py", "exec")
    assert '"persistent://acme/orders/hello"' in program and "eyJ" in program
    expect(news).to_contain_text("This page is watching the topic")

    topic = "persistent://acme/orders/hello"
    broker.set_rows(ORDERS, [live_row(PLACED, messages_in=99), live_row(topic, messages_in=1, storage_bytes=85)])
    expect(news).to_contain_text("Received 1 message")
    broker.set_rows(ORDERS, [live_row(topic, messages_in=3, messages_out=3, storage_bytes=255)])
    expect(news).to_contain_text("Received 3 messages")
    expect(news).to_contain_text("3 delivered to consumers")


def test_the_keyboard(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("table", name="").locator("a", has_text="orders")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{NAMESPACE}")
    page.keyboard.press("g")
    page.keyboard.press("k")
    page.wait_for_url("**/tenants/acme/keys")
    page.keyboard.press("c")
    page.wait_for_url("**/tenants/acme/new-key")
    page.get_by_role("textbox", name="Name", exact=True).press("g")  # typing is typing
    page.get_by_role("textbox", name="Name", exact=True).press("t")
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_have_value("gt")
    page.locator("main").focus()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tenants")
    page.keyboard.press("Control+k")
    page.keyboard.type("placed")
    expect(page.get_by_role("option").first).to_have_text("acme/orders/placedtopic")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{NAMESPACE}/topics/placed")


def test_the_theme_is_remembered(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme", color_scheme="light")
    page.get_by_role("button", name=re.compile("Theme")).click()
    page.get_by_role("button", name=re.compile("Theme: light")).click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_a_topic_is_made_and_deleted(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("owner", f"{NAMESPACE}/new-topic")
    page.get_by_label("Name").fill("clicks")
    page.get_by_label("Partitions").fill("2")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_text("2 partitions")).to_be_visible()
    expect(page.get_by_role("link", name="clicks-partition-1")).to_be_visible()
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("Type clicks to confirm").fill("clicks")
    page.get_by_role("button", name="Delete topic").click()
    page.wait_for_url(f"**{NAMESPACE}")
    assert broker.topics == {PLACED}


def test_an_action_is_found_and_begun_by_keyboard_alone(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    broker.real.add("persistent://acme/orders/placed", "invoicing")
    page = visit("owner", "/tenants/acme")
    page.keyboard.press("Control+k")
    page.keyboard.type("reset invoic")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/topics/placed/subscriptions/invoicing/reset$"))


def test_a_page_is_saved_as_it_is_and_found_again(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    broker.set_rows("acme/orders", [live_row(f"persistent://acme/orders/{name}") for name in ("alpha", "beta")])
    page = visit("owner", "/tenants/acme/namespaces/orders")
    page.keyboard.press("/")
    page.keyboard.type("be")
    expect(page.locator("tbody th a")).to_have_text(["beta"])
    page.get_by_role("link", name="Save this view").click()
    page.get_by_label("Name").fill("The betas")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/namespaces/orders\?q=be$"))
    page.goto("/now")
    page.keyboard.press("Control+k")
    page.keyboard.type("betas")
    page.keyboard.press("Enter")
    expect(page.locator("tbody th a")).to_have_text(["beta"])


def test_times_name_the_zone_of_the_browser_and_forms_take_it(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("owner", "/tenants/acme", timezone_id="Asia/Tokyo")
    expect(page.locator("time[data-form=full]").first).to_contain_text("GMT+9")
    page.goto("/tenants/acme/audit")
    expect(page.get_by_text("From (Asia/Tokyo)")).to_be_attached()


def test_a_form_whose_answer_is_on_its_way_is_not_sent_again(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """A broker may take its time: three clicks skipped three times as much as the page had said."""
    broker.real.add(PLACED, "s")
    broker.real.publish(PLACED, *(b"%d" % number for number in range(9)))
    page, sent = visit("owner", f"{NAMESPACE}/topics/placed/subscriptions/s/skip"), list[Route]()
    page.get_by_label("Entries").fill("2")
    page.get_by_role("button", name="Preview").click()
    button = page.get_by_role("button", name="Skip", exact=True)
    expect(button).to_be_visible()
    page.route("**/skip", lambda route: sent.append(route))
    box = button.bounding_box()
    assert box is not None
    with page.expect_request("**/skip"):
        page.mouse.click(box["x"] + 5, box["y"] + 5)
    for _ in range(2):
        page.mouse.click(box["x"] + 5, box["y"] + 5)
        page.keyboard.press("Enter")
    sent[0].continue_()
    expect(page.get_by_text("2 entries skipped")).to_be_visible()
    assert broker.real.backlog(PLACED) == 7 and len(sent) == 1


def test_what_has_the_focus_keeps_it_while_the_page_is_refreshed(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """A redrive could not be paused by Tab and Enter: every three seconds the focus was gone, as on every page that looks again."""
    broker.real.add(PLACED, "s")
    page = visit("owner", f"{NAMESPACE}/topics/placed")
    link = page.locator("#topic-stats").get_by_role("link", name="s", exact=True).first
    link.focus()
    for _ in range(2):  # the first one is shown once the second one comes
        with page.expect_response(re.compile("/placed/detail")):
            pass
    expect(link).to_be_focused()
