"""The console by the keyboard alone: every page, and whole tasks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from messaging.broker.runtime.local.messages import OutgoingMessage
from tests.admin_ui.browser.crawl import PAGES, ROUTES_MIN, STARTS, Crawl, furnish
from tests.admin_ui.browser.keyboard import left_out, unreachable
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import PLACED

# Of the crawl: so many pages, 0 for all, drawn with this seed.
PAGES_MAX, SEED = int(os.environ.get("KEYBOARD_PAGES", "12")), int(os.environ.get("KEYBOARD_SEED", "1"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1_800 if PAGES_MAX == 0 else 300),
]
TOPIC = f"{NAMESPACE}/topics/placed"
STEPS_MAX = 150


def tab_to(page: Page, wanted: Locator) -> None:
    """Presses Tab until it has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(STEPS_MAX):
        if wanted.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{STEPS_MAX} presses of Tab did not reach {wanted}")


def press(page: Page, wanted: Locator, key: str = "Enter") -> None:
    tab_to(page, wanted)
    page.keyboard.press(key)


def typed(page: Page, wanted: Locator, text: str) -> None:
    tab_to(page, wanted)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


@pytest.mark.slow
def test_pages_are_used_by_tab_and_show_the_focus_and_on_a_phone_hide_nothing(
    visit: Callable[..., Page], broker: ConsoleBroker
) -> None:
    """Each page in one of both schemes, in turn: what shows the focus is one rule. Some pages: `make keyboard` has all, and says
    how much it was."""
    page = visit("superuser", "/now", viewport={"width": 1280, "height": 900})
    furnish(broker)
    found: dict[str, list[str]] = {}
    controls = 0
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]

    def look(page: Page, address: str) -> None:
        nonlocal controls
        page.emulate_media(color_scheme=schemes[0])
        schemes.reverse()
        if page.locator("mag-live-status").count():
            expect(page.locator("mag-live-status")).to_have_text("Live")
        wrong = unreachable(page)
        controls += page.locator("[data-tab-order]").count()
        page.set_viewport_size({"width": 390, "height": 844})
        wrong += left_out(page)
        page.set_viewport_size({"width": 1280, "height": 900})
        if wrong:
            found[address] = wrong

    crawl = Crawl(page, *STARTS, pages_max=PAGES_MAX, seed=SEED)
    crawl(look)
    print(f"{len(crawl.visited)} pages, {controls} controls; no link leads to {sorted(PAGES - set(crawl.visited))}")
    assert found == {}, json.dumps(found, indent=1, ensure_ascii=False)
    assert len(crawl.visited) >= min(ROUTES_MIN, PAGES_MAX or ROUTES_MIN)


def test_a_field_that_takes_the_focus_by_itself_hides_nothing_before_it_from_tab(visit: Callable[..., Page]) -> None:
    page = visit("superuser", "/account/password")
    expect(page.locator("input:focus")).to_be_visible()
    assert unreachable(page) == []


def test_what_is_wrong_with_a_page_is_noticed(visit: Callable[..., Page]) -> None:
    page = visit("superuser", "/tenants")
    assert unreachable(page) == [] and left_out(page) == []
    page.evaluate("""() => {
        const added = '<button id="unseen">a</button><button tabindex="5">b</button><a class="button" id="far" href="#">c</a>';
        document.querySelector('main').insertAdjacentHTML('beforeend', added);
        document.getElementById('unseen').style.setProperty('outline', 'none');
        document.getElementById('far').style.setProperty('margin-left', '3000px');
    }""")
    wrong = " ".join([*unreachable(page), *left_out(page)])
    assert "the focus is not seen" in wrong and "not in the order" in wrong and "beyond the edge" in wrong
    page.evaluate("document.getElementById('unseen').addEventListener('keydown', (event) => event.preventDefault())")
    assert "the focus is caught" in " ".join(unreachable(page))


def test_a_dialog_takes_the_focus_and_returns_it_to_what_opened_it(visit: Callable[..., Page]) -> None:
    page = visit("owner", NAMESPACE)
    opens = page.get_by_role("button", name="Jump to")
    press(page, opens)
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(opens).to_be_focused()
    press(page, page.get_by_role("link", name="Policies").first, "?")  # the list of shortcuts
    expect(page.locator("dialog[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.get_by_role("link", name="Policies").first).to_be_focused()


def test_a_topic_is_made(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("owner", NAMESPACE)
    page.keyboard.press("c")
    page.wait_for_url("**/new-topic")
    press(page, page.get_by_role("button", name="Create topic"))  # without a name
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("c/j?")  # no shortcut is taken out of what is typed
    expect(page.get_by_label("Name")).to_have_value("c/j?")
    typed(page, page.get_by_label("Name"), "clicks")
    typed(page, page.get_by_label("Partitions"), "2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="clicks", exact=True)).to_be_visible()
    assert any(name.endswith("clicks-partition-1") for name in broker.topics)


def test_a_subscription_is_moved_after_a_preview_and_moved_back(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    broker.real.add(PLACED, "billing")
    broker.real.publish(PLACED, b"1", b"2", b"3", b"4")
    page = visit("owner", f"{TOPIC}/subscriptions/billing")
    press(page, page.get_by_role("link", name="Reset"))
    page.wait_for_url("**/reset")
    tab_to(page, page.get_by_label("To", exact=True))
    page.keyboard.type("the latest")
    press(page, page.get_by_role("button", name="Preview"))
    expect(page.get_by_text("4 unacknowledged entries are skipped")).to_be_visible()
    assert broker.real.backlog(PLACED) == 4
    press(page, page.get_by_role("button", name="Reset"))
    expect(page.get_by_role("status").filter(has_text="was reset")).to_be_visible()
    assert broker.real.backlog(PLACED) == 0
    press(page, page.get_by_role("link", name=re.compile("^Undo")).first)
    press(page, page.get_by_role("button", name="Move back"))
    expect(page.get_by_role("status").filter(has_text="stands where it stood before")).to_be_visible()
    assert broker.real.backlog(PLACED) == 4


def test_messages_are_filtered_and_one_is_opened(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    broker.real.add(PLACED, "billing")
    broker.real.publish_messages(PLACED, *(OutgoingMessage(b'{"order": %d}' % number, key=f"k{number}") for number in range(9)))
    page = visit("owner", f"{TOPIC}/messages")
    typed(page, page.get_by_label("Key", exact=True), "k7")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="1 message", exact=True)).to_be_visible()
    press(page, page.locator("table.messages a").first)
    expect(page.get_by_role("heading", name="Payload")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Key", exact=True)).to_have_value("k7")  # Back shows what was asked for


def test_a_policy_is_changed_and_an_error_gets_the_focus(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    page = visit("owner", f"{NAMESPACE}/policies")
    page.keyboard.press("/")
    page.keyboard.type("acknowledged automatically")
    press(page, page.get_by_role("link", name="Message TTL"))
    field = page.get_by_label("Message TTL (optional)")
    typed(page, field, "soon")
    page.keyboard.press("Enter")
    expect(field).to_have_attribute("aria-invalid", "true")  # it has the focus on the page before, too
    expect(field).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("7d")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="was saved")).to_be_visible()


@pytest.mark.parametrize(("key", "dialog"), [("Control+k", "jump"), ("?", "shortcuts")])
def test_a_dialog_takes_the_focus_keeps_it_and_gives_it_back(visit: Callable[..., Page], key: str, dialog: str) -> None:
    page = visit("owner", "/tenants")
    link = page.get_by_role("link", name="acme").first
    tab_to(page, link)
    page.keyboard.press(key)
    within = f"document.getElementById('{dialog}').contains(document.activeElement)"
    assert page.evaluate(within)
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(f"{within} || document.activeElement === document.body"), "nothing behind a dialog gets the focus"
    page.keyboard.press("Escape")
    expect(page.locator(f"#{dialog}")).to_be_hidden()
    expect(link).to_be_focused()


def test_the_first_tab_offers_to_skip_to_the_content(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme/keys")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_letters_do_nothing_while_somebody_types(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme")
    page.keyboard.press("/")
    page.keyboard.type("cgtr?j")
    expect(page.get_by_role("searchbox").first).to_have_value("cgtr?j")
    assert page.url.endswith("/tenants/acme") and page.locator("dialog[open]").count() == 0


def test_the_list_of_keys_is_filtered_sorted_and_paged_and_back_shows_what_it_showed(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants")
    press(page, page.get_by_role("button", name="Created"))
    expect(page).to_have_url(re.compile(r"sort=-created$"))
    typed(page, page.get_by_role("searchbox"), "acme")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"q=acme&sort=-created$"))
    press(page, page.get_by_role("link", name="acme").first)
    expect(page.get_by_role("heading", name="acme", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("acme")
