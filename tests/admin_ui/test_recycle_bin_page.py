"""The page of the recycle bin: what can be restored, and the two buttons."""

from __future__ import annotations

from tenants.access import platform_actor
from tenants.actions import set_policies
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

BIN = f"{NAMESPACE}/recycle-bin"


def test_a_topic_is_deleted_seen_and_restored(broker: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    assert "Nothing to restore" in text(client, BIN)
    broker.real.add(PLACED, "s")
    assert "deleted permanently" in text(client, f"{NAMESPACE}/topics/placed/delete")
    set_policies(platform_actor(), "acme/orders", {"recycle_bin_retention_hours": 2})
    page = text(client, f"{NAMESPACE}/topics/placed/delete")
    assert "goes to the recycle bin of the namespace, and is deleted permanently after 2 hours" in page
    done = client.post(f"{NAMESPACE}/topics/placed/delete", {"confirm": "placed"}, follow=True)
    assert "It is in the recycle bin" in done.content.decode() and PLACED not in broker.topics
    page = text(client, BIN)
    assert "placed" in page and "user:owner" in page and "Restore" in page
    recycle_id = page.partition("/recycle-bin/")[2].partition("/")[0]
    done = client.post(f"{BIN}/{recycle_id}/restore", follow=True)
    assert "Topic placed was restored" in done.content.decode() and PLACED in broker.topics
    assert "Nothing to restore" in text(client, BIN)


def test_a_restore_that_is_refused_says_why(broker: ConsoleBroker, browse: Browse) -> None:
    broker.real.add(PLACED)
    broker.real.recycle(PLACED, "x1")
    broker.real.add(PLACED)
    page = browse("owner").post(f"{BIN}/x1/restore", follow=True).content.decode()
    assert "exists" in page and "placed" in text(browse("owner"), BIN)
    assert browse("owner").post(f"{BIN}/x2/restore").status_code == 404


def test_deleting_for_good_asks_for_the_name(broker: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    broker.real.add(PLACED)
    broker.real.recycle(PLACED, "x1")
    page = text(client, f"{BIN}/x1/delete")
    assert "cannot be restored after that" in page and "magnetar recycle-bin purge acme/orders x1" in page
    client.post(f"{BIN}/x1/delete", {"confirm": "other"})
    assert "placed" in text(client, BIN)
    assert client.post(f"{BIN}/x1/delete", {"confirm": "placed"}).status_code == 302
    assert "Nothing to restore" in text(client, BIN)


def test_who_may_not_restore_sees_no_button(broker: ConsoleBroker, browse: Browse) -> None:
    broker.real.add(PLACED)
    broker.real.recycle(PLACED, "x1")
    page = text(browse("teammate"), BIN)
    assert "placed" in page and "Delete for good" not in page and "/restore" not in page
    assert browse("teammate").post(f"{BIN}/x1/restore").status_code == 403
    assert browse("stranger").get(BIN).status_code == 404
