"""The page of a subscription, and the pages that move it: what they say first, what they do, and taking it back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from admin_ui.views import audit
from messaging.adminrpc.methods import TOPICS_STATS
from tenants.access import platform_actor
from tenants.actions import cursor_moves, set_policies
from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

TOPIC = f"{NAMESPACE}/topics/placed"
PAGE = f"{TOPIC}/subscriptions/s"


@pytest.fixture
def four(broker: ConsoleBroker, world: ConsoleBroker) -> ConsoleBroker:
    """Four entries that the subscription has not acknowledged."""
    broker.real.add(PLACED, "s")
    broker.real.publish(PLACED, b"1", b"2", b"3", b"4")
    return broker


def backlog(broker: ConsoleBroker) -> int:
    return broker.real.backlog(PLACED)


def test_the_topic_leads_to_a_subscription_and_its_state_is_shown(four: ConsoleBroker, browse: Browse) -> None:
    assert f'href="{PAGE}"' in text(browse("teammate"), TOPIC)
    page = text(browse("owner"), PAGE)
    assert (
        "4 entries" in page and "No consumers are connected" in page and f"{PAGE}/reset" in page and "Nobody has moved it" in page
    )
    assert f"{PAGE}/reset" not in text(browse("teammate"), PAGE)
    assert browse("owner").get(f"{TOPIC}/subscriptions/absent").status_code == 404


def test_the_page_of_one_asks_the_broker_for_it_alone(four: ConsoleBroker, browse: Browse) -> None:
    """The stats of all 10,000 of a topic were half a second of a processor and 15 MB, for one row."""
    client = browse("owner")
    four.real.add(PLACED, "another")
    four.calls.clear()
    page = text(client, PAGE)
    assert "4 entries" in page and "the oldest" in page
    assert [asked.only_subscriptions for asked in four.called(TOPICS_STATS)] == [["s"]]
    assert client.get(f"{TOPIC}/subscriptions/{'n' * 5_000}").status_code == 404


def test_any_name_has_an_address(four: ConsoleBroker, browse: Browse) -> None:
    for name in ("a/b", "a%2Fb", "..", "a b?c#d"):
        four.real.add(PLACED, name)
        address = reverse("console:subscription", args=["acme", "orders", "placed", name])
        assert address.replace("&", "&amp;") in text(browse("owner"), TOPIC), name
        assert name in text(browse("owner"), address), name


def test_a_span_that_a_chart_shows_is_replayed_once_it_is_confirmed(four: ConsoleBroker, browse: Browse) -> None:
    client, now = browse("owner"), datetime.now(UTC)
    client.post(f"{PAGE}/skip", {"entries": "4", "confirmed": "yes"})
    span = {"time": f"{now - timedelta(hours=1):%Y-%m-%d %H:%M:%S}", "until": f"{now + timedelta(hours=1):%Y-%m-%d %H:%M:%S}"}
    told = text(client, f"{PAGE}/reset", **span)
    assert "4 acknowledged entries come again" in told and "comes again. All else stays" in told and backlog(four) == 0
    done = client.post(f"{PAGE}/reset", {"to": "time", **span, "confirmed": "yes"}, follow=True).content.decode()
    assert "was reset" in done and "Undo" in done and backlog(four) == 4
    wrong = client.post(f"{PAGE}/reset", {"to": "earliest", "until": span["until"]}).content.decode()
    assert "Only a span that begins at a time has an end" in wrong
    nothing = client.get(f"{PAGE}/reset", {"time": "2001-01-01 00:00", "until": "2001-01-02 00:00"}).content.decode()
    assert "nothing that is stored" in nothing.lower()
    assert browse("teammate").get(f"{PAGE}/reset", span).status_code == 403


def test_skipping_says_first_what_is_skipped(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    told = client.post(f"{PAGE}/skip", {"entries": "3"}).content.decode()
    assert "3 unacknowledged entries are skipped" in told and "No consumer is connected" in told
    assert backlog(four) == 4 and not AuditRecord.unscoped.filter(action="subscription.skip").exists()
    assert 'name="entries" value="3"' in told and 'name="confirmed" value="yes"' in told
    done = client.post(f"{PAGE}/skip", {"entries": "3", "confirmed": "yes"}, follow=True).content.decode()
    assert "3 entries skipped" in done and "Undo" in done and backlog(four) == 1
    assert "user:owner" in done, "whose move it was"
    record = AuditRecord.unscoped.get(action="subscription.skip")
    assert record.resource == f"{PLACED}/s" and record.before and record.after
    assert list(record.before) == list(record.after) == [PLACED]


def test_a_reset_to_a_message_that_there_is_not_says_so(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    ledger_id, last = map(int, four.real.mark_delete(PLACED, "s").split(":"))
    for message_id, there in ((f"{ledger_id}:{last}", True), (f"{ledger_id}:{last + 1}", False), (f"{ledger_id + 9}:0", False)):
        told = client.post(f"{PAGE}/reset", {"to": "message", "message_id": message_id}).content.decode()
        assert (f"It continues with message {message_id}." in told) is there
        assert (f"There is no message {message_id}." in told) is not there
    for to in ("earliest", "latest"):
        assert "There is no message" not in client.post(f"{PAGE}/reset", {"to": to}).content.decode()


def shown(page: str) -> dict[str, str]:
    """What a page sends when it is confirmed."""
    return dict(re.findall(r'type="hidden" name="(entries|seen|up_to|confirmed)" value="([^"]*)"', page))


def test_what_two_people_confirm_is_done_once(four: ConsoleBroker, browse: Browse) -> None:
    owner, admin = browse("owner"), browse("superuser")
    both = [shown(each.post(f"{PAGE}/skip", {"entries": "2"}).content.decode()) for each in (owner, admin)]
    assert "2 entries skipped" in owner.post(f"{PAGE}/skip", both[0], follow=True).content.decode()
    told = admin.post(f"{PAGE}/skip", both[1]).content.decode()
    assert "was moved since you looked, so nothing was done" in told and backlog(four) == 2
    assert "2 unacknowledged entries are skipped" in told, "as it is now"
    assert "2 entries skipped" in admin.post(f"{PAGE}/skip", shown(told), follow=True).content.decode()
    assert backlog(four) == 0


def test_a_skip_that_is_sent_twice_ends_where_it_was_shown_to_end(
    four: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are with the broker before either is recorded."""
    client = browse("owner")
    confirmed = shown(client.post(f"{PAGE}/skip", {"entries": "2"}).content.decode())
    monkeypatch.setattr(cursor_moves, "newest_move", lambda *_: "")
    for _ in range(2):
        assert client.post(f"{PAGE}/skip", confirmed).status_code == 302
        assert backlog(four) == 2


def test_an_undo_of_what_was_moved_since_says_so(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    client.post(f"{PAGE}/skip", {"entries": "1", "confirmed": "yes"})
    undo = f"{PAGE}/undo/{AuditRecord.unscoped.get(action='subscription.skip').id}"
    confirmed = shown(text(client, undo))
    browse("superuser").post(f"{PAGE}/clear", {"confirm": "s"})
    assert "was moved since you looked" in client.post(undo, confirmed).content.decode() and backlog(four) == 0
    client.post(undo, shown(text(client, undo)))
    assert backlog(four) == 4


@pytest.mark.parametrize(
    ("fields", "again"),
    [
        ({"to": "earliest"}, "4 acknowledged entries come again"),
        ({"to": "latest"}, "No entry is skipped"),
        ({"to": "time", "time": "2026-01-01 08:00"}, "4 acknowledged entries come again"),
    ],
)
def test_a_reset_says_first_what_comes_again(four: ConsoleBroker, browse: Browse, fields: dict[str, str], again: str) -> None:
    client = browse("owner")
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    told = client.post(f"{PAGE}/reset", fields).content.decode()
    assert again in told and backlog(four) == 0
    targets = {
        "earliest": "the earliest message",
        "latest": "the latest",
        "time": "the first message published at 2026-01-01 08:00:00 UTC",
    }
    assert f"It continues with {targets[fields['to']]}" in told
    client.post(f"{PAGE}/reset", {**fields, "confirmed": "yes"})
    assert backlog(four) == (0 if fields["to"] == "latest" else 4)


def test_a_reset_to_a_message(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    ledger_id = four.real.mark_delete(PLACED, "s").partition(":")[0]
    client.post(f"{PAGE}/reset", {"to": "earliest", "confirmed": "yes"})
    fields = {"to": "message", "message_id": f"{ledger_id}:2"}
    assert "2 unacknowledged entries are skipped" in client.post(f"{PAGE}/reset", fields).content.decode()
    client.post(f"{PAGE}/reset", {**fields, "confirmed": "yes"})
    assert backlog(four) == 2


@pytest.mark.parametrize(
    ("move", "fields", "problem"),
    [
        ("reset", {"to": "time"}, "Give a time"),
        ("reset", {"to": "message"}, "Give the id of a message"),
        ("reset", {"to": "message", "message_id": "yesterday"}, "is no message id"),
        ("reset", {"to": "time", "time": "1969-01-01 08:00"}, "before 1970"),
        ("skip", {"entries": "0"}, "greater than or equal to 1"),
        ("expire", {"older_than": "x", "unit": "60"}, "Enter a whole number"),
        ("clear", {"confirm": "t"}, "does not match"),
        ("delete", {"confirm": ""}, "This field is required"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_moves(
    four: ConsoleBroker, browse: Browse, move: str, fields: dict[str, str], problem: str
) -> None:
    before = four.real.mark_delete(PLACED, "s")
    response = browse("owner").post(f"{PAGE}/{move}", {**fields, "confirmed": "yes"})
    assert response.status_code == 200 and problem in response.content.decode()
    assert four.real.mark_delete(PLACED, "s") == before


def test_expiring_by_age(four: ConsoleBroker, browse: Browse) -> None:
    four.real.ahead_s = 7200
    client, fields = browse("owner"), {"older_than": "1", "unit": "3600"}
    assert "4 unacknowledged entries are skipped" in client.post(f"{PAGE}/expire", fields).content.decode()
    assert "4 entries expired" in client.post(f"{PAGE}/expire", {**fields, "confirmed": "yes"}, follow=True).content.decode()
    assert "no message of" in client.post(f"{PAGE}/expire", fields).content.decode().lower()


def test_a_cleared_backlog_comes_back(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    four.real.connect_consumer(PLACED, "s")
    page = text(client, f"{PAGE}/clear")
    assert "4 unacknowledged entries are skipped" in page and "1 consumer stays connected" in page and "undone for 24 hours" in page
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    assert backlog(four) == 0
    undo = re.search(rf"{PAGE}/undo/\d+", text(client, PAGE))
    assert undo is not None
    page = text(client, undo[0])
    assert "4 acknowledged entries come again" in page and "1 consumer is disconnected" in page
    assert "stands where it stood" in client.post(undo[0], {"confirmed": "yes"}, follow=True).content.decode()
    assert backlog(four) == 4
    assert client.get(f"{PAGE}/undo/999999").status_code == 404


def test_a_deleted_subscription_comes_back(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    assert "4 entries that it has not acknowledged are not delivered" in text(client, f"{PAGE}/delete")
    done = client.post(f"{PAGE}/delete", {"confirm": "s"}, follow=True).content.decode()
    assert "was deleted" in done and "DELETED" in done and "s" not in four.real.topics[PLACED]
    undo = re.search(rf"{PAGE}/undo/\d+", done)
    assert undo is not None and "4 entries are delivered to it" in text(client, undo[0])
    client.post(undo[0], {"confirmed": "yes"})
    assert four.real.topics[PLACED] == {"s"} and backlog(four) == 4


def test_the_audit_log_leads_to_what_can_be_undone(four: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    client = browse("owner")
    four.real.add(PLACED, "a/b")
    assert "Undo…" not in text(client, "/tenants/acme/audit")
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    address = reverse("console:subscription", args=["acme", "orders", "placed", "a/b"])
    client.post(f"{address}/clear", {"confirm": "a/b"})
    page = text(client, "/tenants/acme/audit")
    assert f'href="{PAGE}#moves-title"' in page and f'href="{address}#moves-title"' in page
    monkeypatch.setattr(audit, "UNDO_H", 0)
    assert "Undo…" not in text(client, "/tenants/acme/audit")


def test_what_was_acknowledged_one_by_one_stays_so(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    four.real.acknowledge(PLACED, "s", 1, 3)
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    record = AuditRecord.unscoped.get(action="subscription.clear_backlog")
    assert ":1,3" in str(record.before)
    undo = re.search(rf"{PAGE}/undo/\d+", text(client, PAGE))
    assert undo is not None
    page = text(client, undo[0])
    assert "2 acknowledged entries come again" in page and "stays acknowledged" in page
    client.post(undo[0], {"confirmed": "yes"})
    assert backlog(four) == 2


def test_what_is_not_stored_any_more_is_said(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    client.post(f"{PAGE}/skip", {"entries": "1", "confirmed": "yes"})
    client.post(f"{PAGE}/clear", {"confirm": "s"})
    client.post(f"{TOPIC}/truncate", {"confirm": "placed"})
    undo = re.search(rf"{PAGE}/undo/\d+", text(client, PAGE))
    assert undo is not None and "are not stored any more" in text(client, undo[0])


def test_while_the_broker_is_away_nothing_is_claimed(four: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    four.cut("the broker does not answer")
    assert "Statistics are unavailable" in text(client, PAGE)
    assert "does not answer" in client.get(f"{PAGE}/clear", follow=True).content.decode()
    assert "does not answer" in client.post(f"{PAGE}/skip", {"entries": "1"}).content.decode()


def test_a_partitioned_topic_is_skipped_on_its_partitions(four: ConsoleBroker, browse: Browse) -> None:
    four.real.add_partitioned("persistent://acme/orders/parts", 2, "s")
    client, page = browse("owner"), f"{NAMESPACE}/topics/parts/subscriptions/s"
    assert f"{page}/skip" not in text(client, page) and f"{page}/reset" in text(client, page)
    assert "use one of its partitions" in client.post(f"{page}/skip", {"entries": "1"}).content.decode()
    assert "parts-partition-1: from" in text(client, f"{page}/clear")


def test_what_keeps_no_messages_is_only_deleted(four: ConsoleBroker, browse: Browse) -> None:
    four.real.add("non-persistent://acme/orders/brief")
    four.real.connect_consumer("non-persistent://acme/orders/brief", "s")
    page = f"{NAMESPACE}/non-persistent/brief/subscriptions/s"
    shown = text(browse("owner"), page)
    assert f"{page}/delete" in shown and f"{page}/reset" not in shown
    assert "1 consumer is disconnected" in text(browse("owner"), f"{page}/delete")


def test_a_topic_whose_messages_nobody_keeps_says_so_and_has_the_button_that_makes_a_subscription(
    browse: Browse, broker: ConsoleBroker
) -> None:
    topic, page = "persistent://acme/orders/unread", f"{NAMESPACE}/topics/unread"
    broker.real.add(topic)
    owner = browse("owner")
    assert 'id="unread"' not in text(owner, page)  # nobody publishes
    broker.stats[topic] = {"publishers": [{"producerName": "p"}]}
    shown = text(owner, page)
    assert "no retention is set: messages may be deleted at any time." in shown and f'href="{page}/new-subscription"' in shown
    assert "New subscription" not in text(browse("teammate"), page).partition('id="unread"')[2].partition("</section>")[0]
    form = f"{page}/new-subscription"
    assert browse("teammate").get(form).status_code == 403
    assert "is not valid" in owner.post(form, {"name": "a\nb/", "position": "earliest"}).content.decode()
    assert owner.post(form, {"name": "billing", "position": "earliest"}).status_code == 302
    assert "already exists" in owner.post(form, {"name": "billing", "position": "latest"}).content.decode()
    broker.stats[topic] = {"publishers": [{"producerName": "p"}]}
    assert 'id="unread"' not in text(owner, page)


def test_a_topic_without_a_subscription_says_how_long_retention_keeps_its_messages(browse: Browse, broker: ConsoleBroker) -> None:
    topic = "persistent://acme/orders/kept"
    broker.real.add(topic)
    broker.stats[topic] = {"publishers": [{"producerName": "p"}]}
    set_policies(platform_actor(), "acme/orders", {"retention_time_min": 7 * 24 * 60, "retention_size_mb": -1})
    page = text(browse("owner"), f"{NAMESPACE}/topics/kept")
    assert "Retention does, for 7 d." in page
