"""What clients and people write into names, properties, keys, payloads and schemas is text on every page: nothing of it becomes an
element, also where a script draws it."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from messaging.adminrpc.methods import SCHEMAS_ADD
from messaging.adminrpc.schemas import SchemaGiven
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from tenants.access import platform_actor
from tenants.actions import create_key, set_custom_role, set_labels
from tenants.actions.saved_views import save_view
from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import ORDERS
from tests.admin_ui.scripted_live import live_row
from workers.alerts.rule_actions import create_rule

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
MARK = "'\"><img src=x onerror=window.ran=1 class=written>"
CLOSING = f"</script></textarea></style>{MARK}"  # where a slash may be
LOCAL = f"t{MARK}"
NAME = f"persistent://{ORDERS}/{LOCAL}"
TOPIC = f"{NAMESPACE}/topics/{quote(LOCAL, safe='')}"
LETTERS = f"{NAME}-{MARK}-DLQ"
SUBSCRIPTION = f"{TOPIC}/subscriptions/{quote(MARK, safe='')}"


def write_everywhere(broker: ConsoleBroker) -> None:
    """The mark in all that a client or a member may say."""
    told = {CLOSING: CLOSING}
    client = {"address": "127.0.0.1:1", "clientVersion": CLOSING, "metadata": told, "connectedSince": "2026-01-01T00:00:00Z"}
    consumer = {"consumerName": CLOSING, **client}
    reader = {"type": "Exclusive", "durable": False, "consumers": [consumer], "subscriptionProperties": told}
    broker.stats[NAME] = {
        "publishers": [{"producerName": CLOSING, **client}],
        "subscriptions": {MARK: {"type": "Shared", "consumers": [consumer], "subscriptionProperties": told}, CLOSING: reader},
    }
    broker.real.add(NAME, MARK)
    broker.real.add(LETTERS, MARK)
    message = OutgoingMessage(json.dumps({CLOSING: [CLOSING, {"a": CLOSING}]}).encode(), told, key=CLOSING)
    broker.real.publish_messages(NAME, message)
    broker.real.publish_messages(NAME, OutgoingMessage(CLOSING.encode(), told, key=CLOSING))
    said = {"REAL_TOPIC": NAME, "REAL_SUBSCRIPTION": MARK, "DEAD_LETTER_REASON": CLOSING, "EXCEPTION_MESSAGE": CLOSING}
    broker.real.publish_messages(LETTERS, OutgoingMessage(CLOSING.encode(), said, key=CLOSING))
    for docs in (CLOSING, f"{CLOSING} again"):
        schema = {"type": "record", "name": "Order", "doc": docs, "fields": [{"name": "a", "type": "string", "doc": docs}]}
        given = SchemaGiven(topic=NAME, type="AVRO", data=json.dumps(schema).encode(), properties=told, role=CLOSING)
        broker.perform(SCHEMAS_ADD, given)
    broker.set_rows(ORDERS, [live_row(NAME, rate_in=1.0), live_row(LETTERS, rate_in=1.0)])
    actor = platform_actor()
    create_rule(actor, "acme", {"name": MARK, "kind": "backlog_entries", "topic": NAME, "threshold": 100})
    set_custom_role(actor, "acme", "keeper", ["produce"], CLOSING)
    set_labels(actor, "acme", {"team": CLOSING})
    create_key(actor, "acme", "checkout")
    save_view(actor, User.objects.get(username="owner"), MARK, f"{NAMESPACE}?sort=-backlog", "acme", shared=True)
    blocked = {"tenant": "acme", "namespace": ORDERS, "topic": f"{NAME}-still", "subscription": MARK, "waiting": 7}
    broker.set_problems(Problem(kind=Kind.BLOCKED, sentence=f"{CLOSING} takes no more.", **blocked))  # type: ignore[arg-type]


READERS = "/tenants/acme/readers"  # nobody has read yet
PATHS = (
    "/now",
    "/tenants/acme",
    "/tenants/acme/alerts",
    "/tenants/acme/audit",
    "/tenants/acme/roles",
    READERS,
    "/tenants/acme/dead-letters",
    NAMESPACE,
    f"{NAMESPACE}/quick-start?topic={quote(LOCAL, safe='')}",
    TOPIC,
    f"{TOPIC}/messages?begin=oldest",
    f"{TOPIC}/messages?begin=oldest&key={quote(CLOSING, safe='')}&text={quote(CLOSING, safe='')}",
    f"{TOPIC}/schemas",
    f"{TOPIC}/why",
    f"{TOPIC}/history",
    f"{TOPIC}/policies",
    f"{TOPIC}/delayed",
    f"{TOPIC}/redrives",
    f"{TOPIC}/messages/publish",
    SUBSCRIPTION,
    f"{SUBSCRIPTION}/why",
    f"{NAMESPACE}/topics/{quote(f'{LOCAL}-{MARK}-DLQ', safe='')}/messages?begin=oldest",
)


def test_what_others_wrote_is_text(visit: Callable[..., Page], broker: ConsoleBroker) -> None:
    """`visit` fails the test too where the content security policy had to hold something back."""
    page = visit("owner", "/account/time-zone")
    write_everywhere(broker)
    shown = set[str]()
    for path in PATHS:
        answer = page.goto(path)
        assert answer is not None and answer.status == 200, path
        if page.locator("mag-live-status").count():
            expect(page.locator("mag-live-status")).to_have_text("Live")
        assert page.locator(".written").count() == 0 and page.evaluate("window.ran") is None, path
        if "onerror=" in page.locator("main").inner_text():
            shown.add(path)
    assert set(PATHS) - shown <= {READERS}, "pages that show nothing of it prove nothing"
