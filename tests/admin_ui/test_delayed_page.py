"""The page of a topic's delayed messages: what comes due, the list, and its buttons."""

from __future__ import annotations

from admin_ui.due_chart import HEIGHT, spans
from messaging.adminrpc.delayed import DelayedBucket
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.clock import wall_ms
from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from workers.billing.charts import WIDTH

TOPIC = "persistent://acme/orders/later"
PAGE = f"{NAMESPACE}/topics/later/delayed"
HOUR_MS = 3_600_000


def test_messages_are_listed_rescheduled_and_cancelled(browse: Browse, broker: ConsoleBroker) -> None:
    broker.real.add(TOPIC, "s")
    at_ms = wall_ms() + HOUR_MS
    for key in ("red", "blue", "blue"):
        broker.real.publish_messages(TOPIC, OutgoingMessage(b"x", key=key, deliver_at_ms=at_ms))
    owner = browse("owner")
    page = text(owner, PAGE)
    assert page.count('value="reschedule"') == 3 and "3 delayed messages" in page and "red" in page
    assert "<rect" in text(owner, f"{PAGE}/chart") and "delayed/chart" in text(owner, f"{NAMESPACE}/topics/later")
    message = page.partition('name="message" value="')[2].partition('"')[0]
    assert owner.post(PAGE, {"message": message, "decision": "reschedule", "deliver_at": "2090-01-01 08:00"}).status_code == 302
    assert "was rescheduled" in text(owner, PAGE)
    assert owner.post(PAGE, {"message": message, "decision": "cancel"}).status_code == 302
    assert "2 delayed messages" in text(owner, PAGE, key="blue") and "Cancel all" in text(owner, PAGE, key="blue")
    assert owner.post(PAGE, {"key": "blue", "decision": "cancel"}).status_code == 302
    page = text(owner, PAGE)
    assert "2 messages were cancelled." in page and page.count("No delayed message waits.") == 1
    actions = AuditRecord.unscoped.filter(action__startswith="delayed.").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["delayed.reschedule", "delayed.cancel", "delayed.cancel"]


def test_what_cannot_be_done_is_said(browse: Browse, broker: ConsoleBroker) -> None:
    broker.real.add(TOPIC)
    owner = browse("owner")
    for form, problem in (
        ({"message": "9999:0", "decision": "cancel"}, "has no message 9999:0"),
        ({"message": "9999:0", "decision": "reschedule"}, "Give the new time"),
        ({"decision": "cancel"}, "Name a message or a key."),
    ):
        assert owner.post(PAGE, form).status_code == 302
        assert problem in text(owner, PAGE)


def test_a_change_that_may_have_been_made_is_recorded_with_what_was_asked(browse: Browse, broker: ConsoleBroker) -> None:
    """It was "delayed" with a status, and nobody could tell what had perhaps become of which messages."""
    broker.real.add(TOPIC)
    owner, fault = browse("owner"), broker.cut()
    owner.post(PAGE, {"key": "red", "decision": "reschedule", "deliver_at": "2090-01-01 08:00"})
    owner.post(PAGE, {"message": "7:3", "decision": "cancel"})
    assert fault.fired
    broker.mend()
    one, other = AuditRecord.unscoped.filter(action__startswith="delayed").order_by("id")
    assert one.after and other.after
    assert (one.action, one.resource, one.after["key"], one.after["status"]) == ("delayed.reschedule", TOPIC, "red", "503")
    assert (other.action, other.resource, other.after["status"]) == ("delayed.cancel", f"{TOPIC}/7:3", "503")


def test_who_may_view_the_tenant_alone_sees_no_messages_and_no_buttons(browse: Browse, broker: ConsoleBroker) -> None:
    broker.real.add(TOPIC)
    broker.real.publish_messages(TOPIC, OutgoingMessage(b"x", key="red", deliver_at_ms=wall_ms() + HOUR_MS))
    page = text(browse("teammate"), PAGE)
    assert "1 delayed message<" in page and "red" not in page.partition("What comes due")[2] and 'value="cancel"' not in page
    assert browse("teammate").post(PAGE, {"message": "1:0", "decision": "cancel"}).status_code == 403
    looks = AuditRecord.unscoped.filter(action="message.browse")
    assert not looks.exists(), "they were shown none"
    text(browse("owner"), f"{PAGE}?key=red")
    assert looks.get().after == {"query": "key=red"}


def test_columns_are_drawn_for_what_there_is() -> None:
    buckets = [DelayedBucket(from_ms=at * 60_000, until_ms=(at + 1) * 60_000, entries=at) for at in range(4)]
    buckets.append(DelayedBucket(from_ms=240_000, until_ms=240_000 + HOUR_MS, entries=0))
    buckets.append(DelayedBucket(from_ms=240_000 + HOUR_MS, until_ms=None, entries=5))
    minutes, later = spans(buckets)
    assert [round(one.height * 3 / HEIGHT) for one in minutes.columns] == [1, 2, 3]
    assert (minutes.entries, minutes.highest, later.entries) == (6, 3, 5)
    assert later.columns[0].width < WIDTH and later.columns[0].title == "after 1970-01-01 01:04 UTC: 5"
