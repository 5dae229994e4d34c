"""Why a subscription is not sent messages, on the topic page; and the page that traces a message."""

from __future__ import annotations

from admin_ui.topic_stats import topic_view
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text

WHY = {"reason": "no_permits", "sentence": "Consumer <c> has not asked for more messages.", "remedy": "add consumers"}


def test_the_topic_page_says_what_holds_delivery_back(browse: Browse, world: ConsoleBroker) -> None:
    world.stats["persistent://acme/orders/placed"] = {"subscriptions": {"s": {"explanation": WHY}}}
    page = browse("teammate").get(f"{NAMESPACE}/topics/placed/detail").content.decode()
    assert "Consumer &lt;c&gt; has not asked for more messages. Add consumers." in page


def test_nothing_is_said_where_nothing_is_held_back() -> None:
    for reason in ("delivering", "nothing_to_deliver"):
        (row,) = topic_view({"subscriptions": {"s": {"explanation": {**WHY, "reason": reason}}}}).subscriptions
        assert row.explanation == ""


def test_a_message_that_does_not_exist(browse: Browse, world: ConsoleBroker) -> None:
    assert "There is no such message" in text(browse("teammate"), f"{NAMESPACE}/topics/placed/trace", id="99:0")


def test_what_is_no_message_id(browse: Browse) -> None:
    assert "is no message id: give ledger:entry" in text(browse("teammate"), f"{NAMESPACE}/topics/placed/trace", id="x")


def test_the_page_asks_for_an_id(browse: Browse) -> None:
    assert "Trace a message" in text(browse("teammate"), f"{NAMESPACE}/topics/placed/trace")
