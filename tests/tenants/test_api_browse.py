"""Browsing messages over /api/v1: found, decoded, page by page, for those who may read them, and recorded."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import urlencode

import pytest

from messaging.broker.runtime.local.messages import OutgoingMessage
from tenants.models import AuditRecord
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
N = "/api/v1/tenants/acme/namespaces/orders"
T = f"{N}/topics/t"


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    world.broker.add(TOPIC, "s")
    return caller("olga")


def fill(world: World, count: int, topic: str = TOPIC) -> None:
    orders = [json.dumps({"id": number, "who": {"name": f"n{number}"}}).encode() for number in range(count)]
    keys = ["even" if number % 2 == 0 else "odd" for number in range(count)]
    messages = [OutgoingMessage(order, key=key, properties={"p": key}) for order, key in zip(orders, keys, strict=True)]
    world.broker.publish_messages(topic, *messages)


def ids(page: dict) -> list[int]:  # type: ignore[type-arg]
    return [item["value"]["id"] for item in page["items"]]


def test_messages_are_found_decoded_and_paged(world: World, olga: Caller) -> None:
    fill(world, 7)
    page = olga("GET", f"{T}/browse?limit=4").json()
    assert ids(page) == [0, 1, 2, 3] and page["looked_at"] == 4 and page["left"] == 3
    rest = olga("GET", f"{T}/browse?limit=4&after={page['next']}").json()
    assert ids(rest) == [4, 5, 6] and rest["next"] is None
    first = page["items"][0]
    assert (first["format"], first["key"], first["properties"], first["payload_cut"]) == ("json", "even", {"p": "even"}, False)
    assert base64.b64decode(first["payload_base64"]) == b'{"id": 0, "who": {"name": "n0"}}'
    assert olga("GET", f"{T}/browse/{first['message_id']}").json() == first
    assert ids(olga("GET", f"{T}/browse?position=latest&limit=2").json()) == [6, 5]
    assert ids(olga("GET", f"{T}/browse?subscription=s&limit=1").json()) == [0]
    assert ids(olga("GET", f"{T}/browse?position={page['items'][2]['message_id']}&order=newest").json()) == [2, 1, 0]
    new = olga("GET", f"{T}/browse?after={rest['end']}").json()
    fill(world, 1)
    assert new["items"] == [] and ids(olga("GET", f"{T}/browse?after={new['end']}").json()) == [0], "the tail"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"key": "odd"}, [1, 3]),
        ({"property": "p=even"}, [0, 2, 4]),
        ({"property": "p"}, [0, 1, 2, 3, 4]),
        ({"text": "n3"}, [3]),
        ({"path": "$.who.name", "value": "n2"}, [2]),
        ({"path": "id", "compare": "gt", "value": "2"}, [3, 4]),
        ({"path": "absent"}, []),
        ({"until_ms": "1"}, []),
    ],
)
def test_filters(world: World, olga: Caller, query: dict[str, str], found: list[int]) -> None:
    fill(world, 5)
    assert ids(olga("GET", f"{T}/browse?{urlencode(query)}").json()) == found


def test_partitions_come_one_after_the_other(world: World, olga: Caller) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 3)
    for partition in range(3):
        fill(world, 2, f"persistent://acme/orders/p-partition-{partition}")
    seen, after = [], ""
    for _ in range(10):
        page = olga("GET", f"{N}/topics/p/browse?limit=4&after={after}").json()
        seen += [item["message_id"].split(":")[2] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == ["0", "0", "1", "1", "2", "2"]
    newest = olga("GET", f"{N}/topics/p/browse?position=latest").json()["items"]
    assert [item["value"]["id"] for item in newest] == [1, 0] * 3
    assert olga("GET", f"{N}/topics/p/browse?position=1:0").status_code == 400


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("position=here", "no message id"),
        ("after=1", "`after` is invalid"),
        ("order=up", "neither oldest nor newest"),
        ("limit=101", "limit"),
        ("format=xml", "format"),
        ("path=$..x", "path"),
        ("value=1", "give path"),
        ("property==x", "property"),
        ("position=latest&subscription=s", "give one of them"),
        ("key=" + "k" * 2000, "key has more than"),
        ("from_ms=2&until_ms=1", "not after its beginning"),
    ],
)
def test_what_is_not_understood_is_refused(olga: Caller, query: str, why: str) -> None:
    answer = olga("GET", f"{T}/browse?{query}")
    assert answer.status_code == 400 and why in answer.json()["detail"]


def test_what_does_not_exist(olga: Caller) -> None:
    for path in (f"{N}/topics/absent/browse", f"{T}/browse?subscription=absent", f"{T}/browse/99:0", f"{T}/browse?position=1:0:5"):
        assert olga("GET", path).status_code == 404, path


def test_who_sees_all_but_messages_is_refused_and_that_is_recorded(
    world: World, olga: Caller, caller: Callable[[str], Caller]
) -> None:
    fill(world, 1)
    for path in (f"{T}/browse", f"{T}/browse/1:0"):
        assert caller("tom")("GET", path).status_code == 403
        assert caller("sam")("GET", path).status_code == 404
    assert AuditRecord.unscoped.filter(action="denied", role="user:tom").count() == 2


def test_each_read_is_recorded_with_what_was_looked_for(world: World, olga: Caller) -> None:
    fill(world, 3)
    page = olga("GET", f"{T}/browse?key=even&limit=1").json()
    olga("GET", f"{T}/browse?key=even&limit=1&after={page['next']}")
    nothing = olga("GET", f"{T}/browse?key=nobody").json()
    records = AuditRecord.unscoped.filter(action="message.browse")
    assert [(record.after or {})["query"].split("&")[0] for record in records.order_by("id")] == [
        "key=even",
        "key=even",
        "key=nobody",
    ]
    olga("GET", f"{T}/browse?key=nobody&after={nothing['end']}")
    assert records.count() == 3, "a search that goes on and shows nothing has left its record"
