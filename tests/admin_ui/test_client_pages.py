"""Disconnecting clients from the page of a topic: who that is about first, and only for those who may operate."""

from __future__ import annotations

import pytest

from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

TOPIC = f"{NAMESPACE}/topics/placed"
PAGE = f"{TOPIC}/disconnect"


@pytest.fixture
def connected(broker: ConsoleBroker, world: ConsoleBroker) -> ConsoleBroker:
    """A producer, and two consumers of one subscription."""
    broker.real.add(PLACED, "s")
    broker.real.connect_producer(PLACED)
    broker.real.connect_consumer(PLACED, "s")
    return broker


def test_each_client_has_its_button_and_only_for_those_who_may(connected: ConsoleBroker, browse: Browse) -> None:
    page = text(browse("owner"), TOPIC)
    assert f"{PAGE}?kind=producer&amp;name=" in page and f"{PAGE}?kind=consumer&amp;name=" in page
    assert f"{PAGE}?kind=consumer&amp;subscription=s" in text(browse("owner"), f"{TOPIC}/subscriptions/s")
    assert "Disconnect" not in text(browse("teammate"), TOPIC)
    assert browse("teammate").get(PAGE).status_code == browse("teammate").post(PAGE, {"confirmed": "yes"}).status_code == 403


def test_it_says_whom_it_is_about_and_that_they_come_back(connected: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    told = text(client, PAGE)
    assert "1 producer and 1 consumer are disconnected" in told and "connect again does so at once" in told
    assert "1 consumer is disconnected" in text(client, PAGE, kind="consumer", subscription="s")
    assert not AuditRecord.unscoped.filter(action="client.disconnect").exists()
    page = text(client, TOPIC)
    assert "No producers are connected" not in page and "No consumers are connected" not in page


def test_what_was_confirmed_is_done_and_recorded(connected: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    done = client.post(f"{PAGE}?kind=consumer&subscription=s", {"confirmed": "yes"}, follow=True).content.decode()
    assert "1 consumer disconnected" in done and "No consumers are connected" in done and "No producers are connected" not in done
    record = AuditRecord.unscoped.get(action="client.disconnect")
    assert record.resource == f"{PLACED}/s"
    assert record.after == {"kind": "consumer", "subscription": "s", "producers": 0, "consumers": 1}


def test_who_has_left_is_not_disconnected(connected: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    gone = client.get(f"{PAGE}?kind=consumer&name=gone", follow=True).content.decode()
    assert "it has left already" in gone
    assert "is not known: use producer or consumer" in client.get(f"{PAGE}?kind=reader", follow=True).content.decode()
    assert client.get(f"{NAMESPACE}/topics/absent/disconnect").status_code == 404
    connected.cut("the broker does not answer")
    assert "does not answer" in client.get(PAGE, follow=True).content.decode()
