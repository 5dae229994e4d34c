"""What is done to a whole topic: said first, done once it is confirmed, recorded, and only for those who may."""

from __future__ import annotations

import pytest

from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

TOPIC = f"{NAMESPACE}/topics/placed"
PARTS = "persistent://acme/orders/parts"
PARTITIONED = f"{NAMESPACE}/topics/parts"


@pytest.fixture
def used(broker: ConsoleBroker, world: ConsoleBroker) -> ConsoleBroker:
    """Three entries that one subscription has not acknowledged, and a producer."""
    broker.real.add(PLACED, "s")
    broker.real.publish(PLACED, b"1", b"2", b"3")
    broker.real.connect_producer(PLACED)
    return broker


def test_all_of_them_are_on_one_page(used: ConsoleBroker, browse: Browse) -> None:
    page = text(browse("owner"), f"{TOPIC}/operations")
    for operation in ("unload", "compact", "trim", "truncate", "terminate", "disconnect", "delete"):
        assert f'href="{TOPIC}/{operation}"' in page, operation
    assert f"{TOPIC}/partitions" not in page, "it is not partitioned"
    page = text(browse("teammate"), f"{TOPIC}/operations")
    assert "needs operate" in page and "needs topic_admin" in page and f"{TOPIC}/truncate" not in page


@pytest.mark.parametrize(
    ("operation", "fields", "told", "recorded"),
    [
        ("unload", {"confirmed": "yes"}, "1 producer and 0 consumers are disconnected", "topic.unload"),
        ("compact", {"confirmed": "yes"}, "keeps the last message of each key", "topic.compact"),
        ("trim", {"confirmed": "yes"}, "is stored now", "topic.trim"),
        ("truncate", {"confirm": "placed"}, "3 entries that 1 subscription", "topic.truncate"),
        ("terminate", {"confirm": "placed"}, "Nothing can be published any more: 1 producer now", "topic.terminate"),
    ],
)
def test_an_operation_is_told_confirmed_and_recorded(
    used: ConsoleBroker, browse: Browse, operation: str, fields: dict[str, str], told: str, recorded: str
) -> None:
    client, page = browse("owner"), f"{TOPIC}/{operation}"
    assert told in text(client, page)
    assert client.post(page, {"confirm": ""}).status_code == 200
    assert not AuditRecord.unscoped.filter(action=recorded).exists() and used.real.backlog(PLACED) == 3
    done = client.post(page, fields, follow=True)
    assert done.redirect_chain == [(f"{TOPIC}/operations", 302)] and "Topic placed w" in done.content.decode()
    assert AuditRecord.unscoped.get(action=recorded).resource == PLACED
    assert used.real.backlog(PLACED) == (0 if operation == "truncate" else 3)


@pytest.mark.parametrize("operation", ["unload", "compact", "trim", "truncate", "terminate", "partitions"])
def test_nobody_else_may(used: ConsoleBroker, browse: Browse, operation: str) -> None:
    fields = {"confirm": "placed", "confirmed": "yes"}
    assert browse("teammate").get(f"{TOPIC}/{operation}").status_code == 403
    assert browse("teammate").post(f"{TOPIC}/{operation}", fields).status_code == 403
    assert browse("stranger").post(f"{TOPIC}/{operation}", fields).status_code == 404
    assert used.real.backlog(PLACED) == 3


def test_partitions_go_up_and_never_down(used: ConsoleBroker, browse: Browse) -> None:
    used.real.add_partitioned(PARTS, 2, "s")
    client, page = browse("owner"), f"{PARTITIONED}/partitions"
    assert f'href="{page}"' in text(client, f"{PARTITIONED}/operations")
    assert "There are 2 partitions already" in client.post(page, {"partitions": "2"}).content.decode()
    told = client.post(page, {"partitions": "4"}).content.decode()
    assert "From 2 to 4 partitions" in told and "may go to another partition" in told and used.real.partitions(PARTS) == 2
    assert "has 4 partitions now" in client.post(page, {"partitions": "4", "confirmed": "yes"}, follow=True).content.decode()
    assert used.real.partitions(PARTS) == 4
    record = AuditRecord.unscoped.get(action="topic.grow")
    assert (record.before, record.after) == ({"partitions": 2}, {"partitions": 4})
    assert "is not partitioned" in client.get(f"{TOPIC}/partitions", follow=True).content.decode()


def test_what_keeps_no_messages_is_unloaded_and_disconnected(used: ConsoleBroker, browse: Browse) -> None:
    used.real.add("non-persistent://acme/orders/brief")
    brief = f"{NAMESPACE}/non-persistent/brief"
    page = text(browse("owner"), f"{brief}/operations")
    assert f"{brief}/unload" in page and f"{brief}/truncate" not in page


def test_while_the_broker_is_away_nothing_is_claimed(used: ConsoleBroker, browse: Browse) -> None:
    used.cut("the broker does not answer")
    assert "does not respond" in text(browse("owner"), f"{TOPIC}/operations")
    assert "does not answer" in browse("owner").get(f"{TOPIC}/truncate", follow=True).content.decode()
