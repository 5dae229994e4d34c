"""What a platform holds before a backup, and how a restored one is compared with it: every message and every position.

Of topics that are quiet all is compared as it is. Of those that clients use during the backup: what had a receipt before it began
is there, nothing that was published after its end is, and each key's messages are the first of those that were published.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pulsar

from messaging.client import connect
from tests.compat.python_clients import Consumer, Publisher, messages
from tests.compat.receipts import Sent
from tests.compat.stock import Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually, eventually_sync

NAMESPACE = "acme/orders"
BUSY = [f"persistent://{NAMESPACE}/busy-{number}" for number in range(4)]
QUIET, DELAYED, GONE = (f"persistent://{NAMESPACE}/{name}" for name in ("quiet", "delayed", "gone"))
POLICIES = {"retention_time_min": 10_000, "retention_size_mb": 1_000, "recycle_bin_retention_hours": 24}
COUNT, UP_TO = 60, 23
SINGLY = (1, 2, 5, 30, 41)
RECORD = '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}'


class Stored(NamedTuple):
    """One message, and where it is."""

    id: str
    payload: bytes
    properties: tuple[tuple[str, str], ...]
    key: str


class World:
    """`fill` makes it; `facts` is what a platform answers, the same before and after."""

    def __init__(self, platform: Standalone, folder: Path) -> None:
        self.platform = platform
        self.token = platform.admin_token
        self.stock = Stock(platform.ready["broker_url"], folder / "client.log")
        self._folder = folder

    def close(self) -> None:
        self.stock.close()

    def fill(self) -> str:
        """The token of a tenant's key."""
        post = self._post
        post("POST", "/api/v1/tenants", {"name": "acme"})
        post("POST", "/api/v1/tenants/acme/namespaces", {"name": "orders"})
        key = post("POST", "/api/v1/tenants/acme/keys", {"name": "app"})["token"]
        revoked = post("POST", "/api/v1/tenants/acme/keys", {"name": "former"})
        post("DELETE", f"/api/v1/tenants/acme/keys/{revoked['id']}")
        post(
            "PUT",
            f"/api/v1/tenants/{NAMESPACE.replace('/', '/namespaces/')}/permissions/app@acme",
            {"actions": ["produce", "consume"]},
        )
        post("PATCH", "/api/v1/tenants/acme/namespaces/orders/policies", POLICIES)
        client = self.stock.client(key)
        producer = client.create_producer(QUIET, schema=pulsar.schema.BytesSchema(), batching_enabled=False)
        exclusive = client.subscribe(QUIET, "exclusive")
        shared = client.subscribe(QUIET, "shared", pulsar.ConsumerType.Shared)
        for number in range(COUNT):
            producer.send(b"quiet %d" % number, {"number": str(number)}, partition_key=f"key-{number % 3}")
        for number in range(COUNT):
            message = exclusive.receive(10_000)
            if number == UP_TO:
                exclusive.acknowledge_cumulative(message)
            message = shared.receive(10_000)
            if number in SINGLY:
                shared.acknowledge(message)
        later = client.create_producer(DELAYED)
        client.subscribe(DELAYED, "later", pulsar.ConsumerType.Shared).close()
        for number in range(7):
            later.send(b"later %d" % number, deliver_after=_hours(1 + number))
        gone = client.create_producer(GONE)
        client.subscribe(GONE, "was-here").close()
        for number in range(5):
            gone.send(b"gone %d" % number)
        post("PUT", "/admin/v2/schemas/acme/orders/typed/schema", None, {"type": "JSON", "schema": RECORD, "properties": {}})
        for consumer in (exclusive, shared):
            consumer.close()
        for made in (producer, later, gone):
            made.close()
        post("DELETE", "/admin/v2/persistent/acme/orders/gone?force=true")
        return str(key)

    def _post(self, method: str, path: str, body: Any = None, other: Any = None) -> Any:
        answer = self.platform.http("POST" if other is not None else method, path, other if other is not None else body, self.token)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.text}"
        return answer.json() if answer.text else None

    def facts(self) -> dict[str, Any]:
        api, admin = "/api/v1/tenants/acme", "/admin/v2/persistent/acme/orders"
        internal = self._get(f"{admin}/quiet/internalStats")
        places = ("markDeletePosition", "individuallyDeletedMessages")
        return {
            "cursors": {name: {place: cursor[place] for place in places} for name, cursor in sorted(internal["cursors"].items())},
            "backlogs": self._backlogs(),
            "delayed": sorted(map(repr, self._get(f"{api}/namespaces/orders/topics/delayed/delayed")["items"])),
            "schemas": self._get("/admin/v2/schemas/acme/orders/typed/schemas"),
            "policies": self._get(f"{api}/namespaces/orders/policies"),
            "grants": self._get("/admin/v2/namespaces/acme/orders/permissions"),
            "keys": [(key["name"], key["id"], key.get("revoked_at")) for key in self._get(f"{api}/keys")["items"]],
            "recycle bin": [
                {name: entry[name] for name in ("recycle_id", "topic", "deleted_by", "expires_at")}
                for entry in self._get(f"{api}/namespaces/orders/recycle-bin")["items"]
            ],
            "messages": asyncio.run(self._stored([QUIET, DELAYED])),
        }

    def _backlogs(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for name in ("quiet", "delayed"):
            stats = self._get(f"/admin/v2/persistent/acme/orders/{name}/stats")
            counts |= {f"{name}/{each}": figures["msgBacklog"] for each, figures in stats["subscriptions"].items()}
        return counts

    def _get(self, path: str) -> Any:
        answer = self.platform.http("GET", path, token=self.token)
        assert answer.status == 200, f"{path}: {answer.status} {answer.text}"
        return answer.json()

    def backups_audited(self) -> list[str]:
        """What the audit log of the platform says of backups, the newest first."""
        items = self._get("/api/v1/audit")["items"]
        return [item["action"] for item in items if item["action"].startswith("backup.")]

    def busy(self) -> dict[str, list[Sent]]:
        stored = asyncio.run(self._stored(BUSY))
        return {topic: [Sent.read(message.payload) for message in stored[topic]] for topic in BUSY}

    def delivered(self) -> dict[str, set[str]]:
        """Ids of what the subscriptions of the busy topics still get."""
        return asyncio.run(_delivered(self))

    async def _stored(self, topics: list[str]) -> dict[str, list[Stored]]:
        found: dict[str, list[Stored]] = {}
        async with connect(self.platform.ready["broker_url"], self.token) as client:
            for topic in topics:
                found[topic] = [
                    Stored(message.id.text, message.payload, tuple(sorted(message.properties.items())), str(message.key or ""))
                    async for message in messages(client, topic)
                ]
        return found

    def deliveries(self, key: str, *, from_the_bin: bool = True) -> None:
        """What each subscription of the quiet topic gets now, and nothing else; the deleted topic comes back with its own, unless
        its time is over."""
        client = self.stock.client(key)
        exclusive, shared = client.subscribe(QUIET, "exclusive"), client.subscribe(QUIET, "shared", pulsar.ConsumerType.Shared)
        expected = [number for number in range(COUNT) if number > UP_TO]
        assert _numbers(receive(exclusive, len(expected))) == expected and nothing_more(exclusive)
        expected = [number for number in range(COUNT) if number not in SINGLY]
        assert sorted(_numbers(receive(shared, len(expected)))) == expected and nothing_more(shared)
        if not from_the_bin:
            return
        (entry,) = self._get("/api/v1/tenants/acme/namespaces/orders/recycle-bin")["items"]
        self._post("POST", f"/api/v1/tenants/acme/namespaces/orders/recycle-bin/{entry['recycle_id']}/restore")
        assert _numbers(receive(client.subscribe(GONE, "was-here"), 5)) == [0, 1, 2, 3, 4]


class Traffic:
    """Publishers and consumers of the busy topics, on threads of their own, until they are ended."""

    def __init__(self, world: World, key: str) -> None:
        self._world = world
        self._key = key
        self.publishers = [Publisher(world.stock.client(key), topic) for topic in BUSY]
        self.acknowledged: dict[str, set[str]] = {}
        self._consumers: list[Consumer] = []
        self._ready, self._ended, self._close = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._consume()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)
        eventually_sync(lambda: all(len(publisher.receipts) > 20 for publisher in self.publishers), 30)
        eventually_sync(lambda: all(len(acknowledged) > 10 for acknowledged in self.acknowledged.values()), 30)

    async def _consume(self) -> None:
        async with connect(self._world.platform.ready["broker_url"], self._key) as client:
            consumers = self._consumers = [Consumer(client, topic) for topic in BUSY]
            self.acknowledged = {consumer.topic: consumer.acknowledged for consumer in consumers}
            self._ready.set()
            await eventually(self._close.is_set, 300)
            for consumer in consumers:
                consumer.task.cancel()
            await asyncio.gather(*(consumer.task for consumer in consumers), return_exceptions=True)

    def receipts(self) -> dict[str, set[Sent]]:
        return {publisher.topic: set(publisher.receipts) for publisher in self.publishers}

    def acknowledgements(self) -> dict[str, set[str]]:
        return {topic: set(ids) for topic, ids in self.acknowledged.items()}

    def unanswered(self) -> dict[str, set[str]]:
        """Ids of what came and has no answered acknowledgement: where a broker was killed, it may have stored some of these."""
        return {consumer.topic: set(consumer.unanswered) for consumer in self._consumers}

    def faults(self) -> list[str]:
        """What consumers found wrong."""
        ended = [
            repr(consumer.task.exception()) for consumer in self._consumers if consumer.task.done() and not self._close.is_set()
        ]
        return ended + [fault for consumer in self._consumers for fault in consumer.faults]

    def end(self) -> None:
        for publisher in self.publishers:
            publisher.close()
        self._close.set()
        self._thread.join()


def compare_busy(
    world: World,
    before: dict[str, set[Sent]],
    after: dict[str, set[Sent]],
    acknowledged: dict[str, set[str]],
    at_end: dict[str, set[str]],
) -> None:
    """`acknowledged` before the backup began, and `at_end`: before it ended."""
    stored = asyncio.run(world._stored(BUSY))
    for topic in BUSY:
        numbers = [Sent.read(message.payload).number for message in stored[topic]]
        assert numbers == list(range(len(numbers))), f"{topic}: not the first ones in their order"
        assert {sent.number for sent in before[topic]} <= set(numbers), f"{topic}: some with a receipt are gone"
        assert len(numbers) <= max(sent.number for sent in after[topic]) + 60, f"{topic}: some were published later"
    came = asyncio.run(_delivered(world))
    for topic in BUSY:
        again = came[topic] & acknowledged[topic]
        assert not again, f"{topic}: {len(again)} come again whose acknowledgement was answered before the backup"
        ids = {message.id for message in stored[topic]}
        missing = ids - at_end[topic] - came[topic]
        assert not missing, f"{topic}: {len(missing)} were never acknowledged and do not come"


async def _delivered(world: World) -> dict[str, set[str]]:
    """Ids of what the subscription still gets."""
    came: dict[str, set[str]] = {}
    async with connect(world.platform.ready["broker_url"], world.token) as client:
        for topic in BUSY:
            came[topic] = set()
            async with client.consumer(topic, "work", kind="key_shared") as consumer:
                try:
                    while True:
                        came[topic].add((await consumer.receive(timeout_s=1.5)).id.text)
                except TimeoutError:
                    continue
    return came


def _numbers(received: list[pulsar.Message]) -> list[int]:
    return [int(message.data().rpartition(b" ")[2]) for message in received]


def _hours(count: int) -> Any:
    from datetime import timedelta

    return timedelta(hours=count)
