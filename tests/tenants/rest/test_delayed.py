"""Delayed messages over REST: who may cancel and reschedule them, what is answered, what the audit log says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.clock import wall_ms
from tenants.models import AuditRecord
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
AT = "/api/v1/tenants/acme/namespaces/orders/topics/t/delayed"
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC, "s")


@pytest.fixture
def olga(caller: Callable[[str], Caller]) -> Caller:
    return caller("olga")


def scheduled(world: World, olga: Caller, *keys: str) -> list[str]:
    """Ids of messages that are due in an hour."""
    found = []
    for key in keys:
        world.broker.publish_messages(TOPIC, OutgoingMessage(b"x", key=key, deliver_at_ms=wall_ms() + HOUR_MS))
        last = olga("GET", "/admin/v2/persistent/acme/orders/t/lastMessageId").json()
        found.append(f"{last['ledgerId']}:{last['entryId']}")
    return found


def test_a_message_from_rescheduling_to_cancelling(world: World, olga: Caller) -> None:
    (message,) = scheduled(world, olga, "k")
    at_ms = wall_ms() + 2 * HOUR_MS
    moved = olga("PATCH", f"{AT}/{message}", {"deliver_at_ms": at_ms})
    assert moved.status_code == 200 and moved.json()["already"] is False
    gone = olga("DELETE", f"{AT}/{message}:-1:-1")  # as Pulsar's clients write an id
    assert gone.json() == {"already": False, "former_ms": at_ms}
    assert olga("DELETE", f"{AT}/{message}").json()["already"] is True
    assert olga("PATCH", f"{AT}/{message}", {"delay_ms": HOUR_MS}).status_code == 409
    first, second = AuditRecord.unscoped.filter(resource=f"{TOPIC}/{message}").order_by("id")
    assert (first.action, second.action) == ("delayed.reschedule", "delayed.cancel")
    assert first.after == {"batch_index": -1, "deliver_at_ms": at_ms} and second.before == {"deliver_at_ms": at_ms}


def test_the_messages_of_a_key(world: World, olga: Caller) -> None:
    scheduled(world, olga, "a", "b", "a", "a")
    page = olga("PATCH", AT, {"key": "a", "delay_ms": 2 * HOUR_MS, "limit": 2}).json()
    assert (page["changed"], page["refused"]) == (2, []) and page["next"]
    assert olga("PATCH", AT, {"key": "a", "delay_ms": 2 * HOUR_MS, "after": page["next"]}).json()["changed"] == 1
    page = olga("DELETE", f"{AT}?key=a").json()
    assert (page["changed"], page["next"]) == (3, None)
    record = AuditRecord.unscoped.filter(action="delayed.cancel").latest("id")
    assert record.after == {"key": "a", "messages": 3, "deliver_at_ms": None}
    assert olga("DELETE", f"{AT}?key=a").json()["changed"] == 0


def test_pages_of_what_is_scheduled(world: World, olga: Caller) -> None:
    ids = scheduled(world, olga, "a", "b", "c")
    first = olga("GET", f"{AT}?limit=2").json()
    assert [one["message_id"] for one in first["items"]] == ids[:2] and first["complete"] is True
    second = olga("GET", f"{AT}?limit=2&after={first['next']}").json()
    assert ([one["key"] for one in second["items"]], second["next"]) == (["c"], None)
    assert [one["message_id"] for one in olga("GET", f"{AT}?key=b").json()["items"]] == ids[1:2]
    assert olga("GET", f"{AT}?from_ms={wall_ms() + 2 * HOUR_MS}").json()["items"] == []
    assert olga("GET", f"{AT}?until_ms={wall_ms()}").json()["items"] == []
    found = olga("GET", f"{AT}/counts").json()
    assert (found["entries"], sum(one["entries"] for one in found["buckets"]), found["exact"]) == (3, 3, True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "?from_ms=-1", None, 400),
        ("GET", "?until_ms=x", None, 400),
        ("GET", "?after=1:2", None, 400),
        ("GET", "?after=1:2:99999999999999", None, 400),
        ("GET", "?limit=0", None, 400),
        ("GET", f"?key={'k' * 1_001}", None, 400),
        ("PATCH", "/1:0", {}, 400),
        ("PATCH", "/1:0", {"deliver_at_ms": 5, "delay_ms": 5}, 400),
        ("PATCH", "/1:0", {"deliver_at_ms": -1}, 400),
        ("PATCH", "/1:0", {"deliver_at_ms": 2**63 - 1}, 400),
        ("PATCH", "/1:0", {"delay_ms": 5, "other": 1}, 400),
        ("PATCH", "/9999:0", {"delay_ms": 5}, 404),
        ("DELETE", "/9999:0", None, 404),
        ("DELETE", "/1:4294967296", None, 400),
        ("DELETE", "/nothing", None, 400),
        ("DELETE", "/1:2:3:4:5", None, 400),
        ("DELETE", "", None, 400),
        ("DELETE", "?key=a&limit=1001", None, 400),
        ("DELETE", "?key=a&after=x", None, 400),
        ("DELETE", "?key=a%00b", None, 400),  # as in a body; PostgreSQL could not keep its record
        ("PATCH", "", {"delay_ms": 5}, 400),
        ("PATCH", "", {"key": "k" * 5_000, "delay_ms": 5}, 400),
        ("PATCH", "", {"key": "k", "delay_ms": 5, "limit": 0}, 400),
    ],
)
def test_what_is_refused(olga: Caller, method: str, path: str, body: dict[str, object] | None, status: int) -> None:
    assert olga(method, f"{AT}{path}", body).status_code == status


@pytest.mark.parametrize(
    "path",
    [
        "?after=9223372036854775807:2147483647:4294967295",
        "?after=-1:-1:-1",
        "?from_ms=999999999999999&until_ms=0",
        "?until_ms=999999999999999",
        "?key=a&after=-1:2147483647:4294967295",
        "?key=a&after=9223372036854775807:-1:0",
        "?key=%00",
    ],
)
def test_the_ends_of_what_may_be_asked_for(world: World, olga: Caller, path: str) -> None:
    scheduled(world, olga, "a")
    answer = olga("GET", f"{AT}{path}")
    assert answer.status_code == 200 and answer.json()["next"] is None
    changed = olga("DELETE", f"{AT}?key=a&after=9223372036854775807:4294967295")
    assert changed.status_code == 200 and changed.json()["changed"] == 0


def test_who_may_consume_alone_cancels_nothing(world: World, olga: Caller) -> None:
    (message,) = scheduled(world, olga, "k")
    grants = "/api/v1/tenants/acme/namespaces/orders/permissions"
    assert olga("PUT", f"{grants}/reader@acme", {"actions": ["consume"]}).status_code in (200, 204)
    assert olga("PUT", f"{grants}/writer@acme", {"actions": ["produce"]}).status_code in (200, 204)
    # Who may publish alone sees how many wait, and none of them
    reader, writer, stranger = (Caller(world.token(role)) for role in ("reader@acme", "writer@acme", "app@globex"))
    for refused in (reader, stranger):
        for method, path, body in (
            ("DELETE", f"{AT}/{message}", None),
            ("PATCH", f"{AT}/{message}", {"delay_ms": 5}),
            ("DELETE", f"{AT}?key=k", None),
            ("PATCH", AT, {"key": "k", "delay_ms": 5}),
        ):
            assert refused(method, path, body).status_code in (403, 404)
    assert (writer("GET", AT).status_code, writer("GET", f"{AT}/counts").status_code) == (403, 200)
    assert (reader("GET", AT).status_code, stranger("GET", f"{AT}/counts").status_code) == (200, 404)
    assert writer("DELETE", f"{AT}/{message}").json()["already"] is False
