"""The page that advises producers, alone and with the traffic of a topic."""

from __future__ import annotations

import html

from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

TRAFFIC = {"message_bytes": "200", "messages_per_s": "20000", "partitions": "8"}
BUSY: dict[str, object] = {
    "msgRateIn": 10_000.0,
    "msgThroughputIn": 2e6,
    "msgInCounter": 400,
    "entriesAddedCounter": 100,
    "publishers": [{}, {}],
}


def test_the_page_asks_before_it_answers(browse: Browse) -> None:
    page = text(browse("stranger"), "/tune")
    assert "Say what the producers send" in page and 'id="settings"' not in page
    assert 'name="batch_messages_max"' in page and "magnetar tune --message-bytes 1000 --rate 5000" in page


def test_the_address_has_the_question_and_the_page_the_answer(browse: Browse) -> None:
    page = html.unescape(text(browse("stranger"), "/tune", **TRAFFIC))
    assert "batch_messages_max" in page and "half of pending_max" in page and "16.0 MiB" in page
    assert "if each is sent alone: how producers batch now is not known" in page
    assert "unknown" in page and 'value="20000"' in page
    assert '"partitions": 8' in page, "the same with curl"
    assert "at the prices given" in text(browse("stranger"), "/tune", **TRAFFIC, gib_price="0.1")


def test_own_settings_that_contradict_each_other_stand_above(browse: Browse) -> None:
    page = text(browse("owner"), "/tune", **TRAFFIC, batch_messages_max="2000", pending_max="1000")
    assert "A batch can never have batch_messages_max = 2000" in page
    assert page.index("A batch can never") < page.index('id="settings"')
    assert "<details open><summary>Settings that they have now" in page
    assert "<details><summary>Prices" in page


def test_zero_is_a_setting(browse: Browse) -> None:
    page = html.unescape(text(browse("owner"), "/tune", **TRAFFIC, batch_delay_ms="0", batching="true"))
    assert "batch_delay_ms = 0" in page and '"batch_delay_ms": 0' in page and '"batching": true' in page


def test_what_is_wrong_is_said_at_its_field(browse: Browse) -> None:
    page = text(browse("owner"), "/tune", **{**TRAFFIC, "messages_per_s": "0", "partitions": ""})
    assert "are positive numbers" in page and 'id="settings"' not in page
    page = text(browse("owner"), "/tune", **{**TRAFFIC, "pending_max": "0"})
    assert 'id="id_pending_max_error"' in page and 'id="settings"' not in page
    assert text(browse("owner"), "/tune", **{**TRAFFIC, "latency_ms": "nan"}).count('class="error"') == 1


def test_the_traffic_of_a_topic_is_filled_in(browse: Browse, world: ConsoleBroker) -> None:
    world.stats[PLACED] = BUSY
    client = browse("teammate")
    assert f'href="{NAMESPACE}/topics/placed/tune"' in text(client, f"{NAMESPACE}/topics/placed")
    page = text(client, f"{NAMESPACE}/topics/placed/tune")
    for name, value in (("message_bytes", "200"), ("messages_per_s", "10000"), ("producers", "2"), ("messages_per_entry", "4")):
        assert f'name="{name}" value="{value}"' in page, name
    assert "4.0 messages in an entry as producers batch now; 50.0 as advised" in page
    assert browse("stranger").get(f"{NAMESPACE}/topics/placed/tune").status_code == 404


def test_a_topic_whose_traffic_is_not_known_is_said(browse: Browse, world: ConsoleBroker) -> None:
    page = text(browse("teammate"), f"{NAMESPACE}/topics/placed/tune")
    assert f"Nothing is published to {PLACED} now" in page and 'id="settings"' not in page
    world.calls.clear()
    page = text(browse("teammate"), f"{NAMESPACE}/topics/placed/tune", **TRAFFIC)
    assert 'id="settings"' in page and world.calls == [], "its traffic is in the address"
    world.cut("the broker was unplugged")
    assert "The broker was unplugged" in text(browse("teammate"), f"{NAMESPACE}/topics/placed/tune")
    assert browse("teammate").get(f"{NAMESPACE}/topics/none/tune").status_code in (200, 404)
