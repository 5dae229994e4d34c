"""Non-persistent topics in the console: their pages, beside those of persistent topics of the same name."""

from __future__ import annotations

import pytest

from admin_ui.addresses import full_name, short_name
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text

TOPIC = "non-persistent://acme/orders/placed"  # there is a persistent one of this name
PAGE = f"{NAMESPACE}/non-persistent/placed"


@pytest.mark.parametrize("topic", [TOPIC, "persistent://acme/orders/placed", "persistent://acme/orders/non-persistent:placed"])
def test_names_in_addresses_lead_back(topic: str) -> None:
    assert str(full_name("acme", "orders", short_name(topic))) == topic


def test_each_has_a_page_of_its_own(browse: Browse, world: ConsoleBroker) -> None:
    assert browse("teammate").get(PAGE).status_code == 404
    world.real.add(TOPIC)
    listed = text(browse("teammate"), NAMESPACE)
    assert f'href="{PAGE}"' in listed and f'href="{NAMESPACE}/topics/placed"' in listed
    page = text(browse("teammate"), PAGE)
    assert TOPIC in page and "Trace message" not in page and 'data-total="storage_bytes"' not in page
    assert TOPIC not in text(browse("teammate"), f"{NAMESPACE}/topics/placed")


def test_what_was_dropped_is_shown(browse: Browse, world: ConsoleBroker) -> None:
    world.real.add(TOPIC)
    world.real.connect_consumer(TOPIC, "s")
    world.real.publish(TOPIC, b"one", b"two")
    for path in (PAGE, f"{PAGE}/detail"):
        page = text(browse("owner"), path)
        assert ">Dropped</button>" in page and "2 messages were dropped" in page
        assert f"{PAGE}/subscriptions/s/dead-letters" not in page
    assert ">Dropped</button>" not in text(browse("owner"), f"{NAMESPACE}/topics/placed")


def test_partitions_lead_to_their_pages(browse: Browse, world: ConsoleBroker) -> None:
    world.real.add_partitioned("non-persistent://acme/orders/parts", 2)
    page = text(browse("owner"), f"{NAMESPACE}/non-persistent/parts")
    assert f'href="{NAMESPACE}/non-persistent/parts-partition-1"' in page
    assert f'href="{NAMESPACE}/non-persistent/parts"' in text(browse("owner"), f"{NAMESPACE}/non-persistent/parts-partition-1")


def test_it_is_deleted_by_its_name(browse: Browse, world: ConsoleBroker) -> None:
    world.real.add(TOPIC)
    client = browse("owner")
    assert "there are no messages to delete" in text(client, f"{PAGE}/delete")
    assert "does not match" in client.post(f"{PAGE}/delete", {"confirm": "placed"}).content.decode()
    assert client.post(f"{PAGE}/delete", {"confirm": "non-persistent://placed"})["Location"] == NAMESPACE
    assert client.get(PAGE).status_code == 404
    assert client.get(f"{NAMESPACE}/topics/placed").status_code == 200


def test_strangers_see_none(browse: Browse, world: ConsoleBroker) -> None:
    world.real.add(TOPIC)
    assert browse("stranger").get(PAGE).status_code == 404
    assert browse("teammate").get(f"{PAGE}/delete").status_code == 403


def test_it_is_created_by_its_name(browse: Browse, world: ConsoleBroker) -> None:
    client = browse("owner")
    made = client.post(f"{NAMESPACE}/new-topic", {"name": "non-persistent://made", "partitions": ""})
    assert made["Location"] == f"{NAMESPACE}/non-persistent/made"
    assert "non-persistent://acme/orders/made" in text(client, made["Location"])
    made = client.post(f"{NAMESPACE}/new-topic", {"name": "non-persistent://wide", "partitions": "2"})
    assert "2 partitions" in text(client, made["Location"])
    assert "is not valid" in client.post(f"{NAMESPACE}/new-topic", {"name": "other://made", "partitions": ""}).content.decode()


def test_jump_finds_it(browse: Browse, world: ConsoleBroker) -> None:
    """Plain ones, which only the broker's memory knows, partitioned ones, and their subscriptions."""
    world.real.add(TOPIC)
    world.real.add_partitioned("non-persistent://acme/orders/parts", 2)
    world.real.connect_consumer(TOPIC, "listening")
    world.real.connect_consumer("non-persistent://acme/orders/parts-partition-1", "listening-too")

    def found(person: str, words: str) -> dict[str, str]:
        answer = browse(person).get("/jump", {"q": words}).json()["found"]
        return {one["label"]: one["url"] for one in answer if one["kind"] in ("topic", "subscription")}

    assert found("owner", "orders/pla") == {TOPIC: PAGE, "acme/orders/placed": f"{NAMESPACE}/topics/placed"}
    parts = "non-persistent://acme/orders/parts"
    assert found("owner", "parts") == {parts: f"{NAMESPACE}/non-persistent/parts"}
    assert found("superuser", "listening") == {
        f"listening on {TOPIC}": f"{PAGE}/subscriptions/listening",
        f"listening-too on {parts}": f"{NAMESPACE}/non-persistent/parts/subscriptions/listening-too",
    }
    assert found("stranger", "listening") == {}
