"""The console in a real browser: what a person sees, types and hears from a screen reader."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from admin_ui.live.state import LiveState, message_between
from messaging.adminrpc.schema import NamespaceLive
from tenants.access import actor_of_user
from tenants.actions import create_key, create_namespace, grant_permission
from tenants.models import User
from tests.admin_ui.browsing import FLAGS
from tests.admin_ui.fake_rpc import FakeBroker, live_row, unloaded_row
from tests.admin_ui.people import ORDERS, PASSWORD, PLACED, populate
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
NAMESPACE = "/tenants/acme/namespaces/orders"
PAGES = (
    "/tenants",
    "/tenants/acme",
    NAMESPACE,
    f"{NAMESPACE}/topics/placed",
    f"{NAMESPACE}/quick-start",
    f"{NAMESPACE}/policies",
    f"{NAMESPACE}/new-topic",
    f"{NAMESPACE}/delete",
    f"{NAMESPACE}/topics/placed/delete",
    "/tenants/acme/keys",
    "/tenants/acme/new-key",
    "/tenants/acme/new-namespace",
    "/tenants/acme/delete",
    "/new-tenant",
    "/tenants/globex/namespaces/edge",
    "/usage",
    "/platform",
    "/account/password",
)


@pytest.fixture(scope="module", autouse=True)
def beside_a_loop() -> Iterator[None]:
    """Playwright runs a loop on this thread; Django would refuse to ask the database beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def site(transactional_db: None, fake_broker: FakeBroker) -> Iterator[str]:
    """The real application on a free port, in a thread; only the broker behind it is not."""
    from controlplane.asgi import application

    populate(fake_broker)
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, name="site")
    thread.start()
    eventually_sync(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def visit(site: str, browser: Browser) -> Iterator[Callable[..., Page]]:
    """`visit("owner", "/tenants")`: a page of its own browser profile, signed in. Errors in its scripts fail the test."""
    contexts, troubles = [], []

    def make(username: str = "", path: str = "/", **options: Any) -> Page:
        context = browser.new_context(base_url=site, **{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if "Content Security Policy" in message.text else None)
        page.goto("/sign-in" if username else path)
        if username:
            sign_in(page, username, PASSWORD)
            page.wait_for_url(re.compile("/tenants"))
            page.goto(path)
        return page

    yield make
    for context in contexts:
        context.close()
    assert troubles == []


def sign_in(page: Page, username: str, password: str) -> None:
    page.get_by_label("Name").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


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


def test_the_live_table(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    page = visit("teammate", NAMESPACE)
    status, table = page.locator("mag-live-status"), page.get_by_role("table")
    expect(status).to_have_text("Live")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table.locator("[data-cell=rate_in]")).to_have_text("12")

    fake_broker.set_rows(ORDERS, [live_row(PLACED, rate_in=4321, backlog_entries=1_234_567), live_row(f"{PLACED}-next")])
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table.locator("[data-cell=rate_in]").first).to_have_text("4,321")
    expect(table.locator("[data-cell=backlog_entries]").first).to_have_text("1.23 M")
    expect(page.locator("[data-total=rate_in]")).to_have_text("4,321")

    fake_broker.away = "the broker does not answer"
    expect(status).to_contain_text("Broker not responding: no data since")
    expect(page.locator("main")).to_have_class(re.compile("stale"))
    expect(table.locator("[data-cell=rate_in]").first).to_have_text("4,321")  # what was known stays, and is marked as old

    fake_broker.away = ""
    fake_broker.live.boot_epoch, fake_broker.live.sequence = 8, 0  # it was restarted
    fake_broker.set_rows(ORDERS, [])
    expect(status).to_have_text("Live")
    expect(page.get_by_role("heading", name="No topics yet")).to_be_visible()


def test_partitions_are_one_row_that_unfolds(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    fake_broker.set_rows(ORDERS, [live_row(f"{PLACED}-partition-{index}", rate_in=10.0 + index) for index in range(3)])
    page = visit("owner", NAMESPACE)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("[data-cell=rate_in]")).to_have_text("33")
    page.get_by_role("button", name="3 partitions of placed").click()
    expect(rows).to_have_count(4)


def test_what_is_not_known_of_a_topic_is_a_dash(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    """Topics that are not loaded had a backlog of 0 and no subscriptions here, whatever they held."""
    parts = [live_row(f"{PLACED}-partition-0", backlog_entries=7), unloaded_row(f"{PLACED}-partition-1")]
    fake_broker.set_rows(ORDERS, [live_row(f"{PLACED}-known", backlog_entries=40, subscriptions=2), *parts])
    page = visit("owner", NAMESPACE)
    known, unknown = page.get_by_role("row", name="placed-known"), page.get_by_role("row", name="2 partitions of placed")
    expect(known.locator("[data-cell=backlog_entries]")).to_have_text("40")
    for cell in ("backlog_entries", "storage_bytes", "subscriptions"):
        expect(unknown.locator(f"[data-cell={cell}]")).to_have_text("–")
    expect(unknown.locator("[data-cell=producers]")).to_have_text("0")
    expect(page.locator("[data-total=backlog_entries]")).to_have_text("≥ 40")
    page.get_by_role("button", name="Backlog").click()
    expect(page.locator("tbody th a")).to_have_text(["placed-known", "placed"])
    fake_broker.partitioned[PLACED] = 2
    page = visit("owner", f"{NAMESPACE}/topics/placed")
    expect(page.locator("[data-total=backlog_entries]")).to_have_text("–")


def test_of_five_thousand_topics_those_on_the_screen_are_drawn(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    """It froze for 46 s and took 4.7 GiB when all were drawn. All can be reached by scrolling, sorting and filtering now."""
    rows = [live_row(f"persistent://acme/orders/t{number:04}", rate_in=float(number)) for number in range(5_000)]
    fake_broker.set_rows(ORDERS, rows)
    page = visit("owner", NAMESPACE)
    drawn, names = page.locator("tbody tr"), page.locator("tbody th a")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "5001")
    assert drawn.count() < 100
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(names.last).to_have_text("t4999")
    expect(page.locator("tbody tr[aria-rowindex='5001'] [data-cell=rate_in]")).to_have_text("4,999")
    assert drawn.count() < 100
    page.evaluate("scrollTo(0, 0)")
    expect(names.first).to_have_text("t0000")
    page.get_by_role("button", name="In/s").click()
    expect(names.first).to_have_text("t4999")
    page.keyboard.press("/")
    page.keyboard.type("t12")
    expect(page.locator("[data-foot]")).to_have_text("100 of 5,000 topics")
    page.keyboard.type("34")
    expect(names).to_have_text(["t1234"])


def test_a_row_keeps_its_focus_while_numbers_change(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    topics = [f"persistent://acme/orders/t{number:03}" for number in range(300)]
    fake_broker.set_rows(ORDERS, [live_row(topic) for topic in topics])
    page = visit("owner", NAMESPACE)
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "301")
    page.get_by_role("link", name="t005", exact=True).focus()
    fake_broker.set_rows(ORDERS, [live_row(topic, rate_in=7.0) for topic in topics])
    expect(page.locator("tr[aria-rowindex='7'] [data-cell=rate_in]")).to_have_text("7.0")
    expect(page.get_by_role("link", name="t005", exact=True)).to_be_focused()


LONG = "a-name-" + "w" * 248


def test_the_longest_names_break_no_table(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    """New key's boxes, the topic list's last columns and the numbers of a subscription stood outside the screen."""
    admin = actor_of_user(User.objects.get(username="superuser"))
    create_namespace(admin, f"acme/{LONG}")
    key = create_key(admin, "acme", LONG).key
    grant_permission(admin, f"acme/{LONG}", key.role, ["produce"])
    topic = f"persistent://acme/orders/{LONG}"
    fake_broker.set_rows(ORDERS, [live_row(topic, rate_in=1234.0, backlog_entries=99)])
    client = {"address": "127.0.0.1:65535", "clientVersion": LONG, "connectedSince": "2026-01-31T12:00:00Z"}
    fake_broker.stats[topic] = {
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


def test_sorting_and_filtering(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    rates = {"alpha": 1.0, "beta": 30.0, "gamma": 20.0}
    fake_broker.set_rows(ORDERS, [live_row(f"persistent://acme/orders/{name}", rate_in=rate) for name, rate in rates.items()])
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


def test_a_token_is_shown_once(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme/keys")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="New key").first.click()
    page.get_by_label("Name").fill("checkout")
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


def test_the_quick_start_sees_the_first_message(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    page = visit("owner", f"{NAMESPACE}/quick-start")
    news = page.locator("mag-quick-start")
    expect(news).to_contain_text("Waiting for the first message")
    page.get_by_role("textbox", name="Topic").fill("hello")
    page.get_by_role("button", name="Create key and program").click()
    program = page.locator("#program-1").inner_text()
    compile(program, "hello.py", "exec")
    assert '"persistent://acme/orders/hello"' in program and "eyJ" in program
    expect(news).to_contain_text("This page is watching the topic")

    topic = "persistent://acme/orders/hello"
    fake_broker.set_rows(ORDERS, [live_row(PLACED, messages_in=99), live_row(topic, messages_in=1, storage_bytes=85)])
    expect(news).to_contain_text("Received 1 message")
    fake_broker.set_rows(ORDERS, [live_row(topic, messages_in=3, messages_out=3, storage_bytes=255)])
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
    page.get_by_label("Name").press("g")  # typing is typing
    page.get_by_label("Name").press("t")
    expect(page.get_by_label("Name")).to_have_value("gt")
    page.locator("main").focus()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tenants")
    page.keyboard.press("Control+k")
    page.keyboard.type("placed")
    expect(page.get_by_role("option")).to_have_count(1)
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


def test_a_topic_is_made_and_deleted(visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
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
    assert fake_broker.topics == {PLACED}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_page_is_accessible_and_fits(scheme: str, width: int, visit: Callable[..., Page], fake_broker: FakeBroker) -> None:
    consumer = {"consumerName": "c", "address": "127.0.0.1:1", "connectedSince": "2026-01-01T00:00:00Z"}
    fake_broker.stats[PLACED] = {
        "publishers": [{"producerName": "p"}],
        "subscriptions": {"s": {"type": "Shared", "consumers": [consumer]}},
    }
    page = visit("superuser", "/tenants", color_scheme=scheme, viewport={"width": width, "height": 800})
    found = {}
    for path in (*PAGES, "/nowhere"):
        page.goto(path)
        if page.locator("mag-live-status").count():
            expect(page.locator("mag-live-status")).to_have_text("Live")
        found[path] = problems(page)
    page.get_by_role("link", name="Go to the console").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    found["/sign-in"] = problems(page)
    assert {path: what for path, what in found.items() if what} == {}


def problems(page: Page) -> list[str]:
    violations = Axe().run(page).response["violations"]
    found = [f"{one['id']}: {node['html'][:200]}" for one in violations for node in one["nodes"]]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("the page scrolls sideways")
    return found


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
        assert held == {"epoch": 1, "sequence": state.sequence, "at_ms": state.at_ms, "rows": state.rows}
