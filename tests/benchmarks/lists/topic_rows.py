"""What clients make in topics in great numbers, and what they hold open: in the namespace `public/default`, where anybody may."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

from messaging.client import connect
from tests.benchmarks.load import Stalled
from tests.support.brokers.standalone import Standalone

DELAYED, SHAPED, BUSY, ROLLED = "late", "shaped", "busy", "rolled"  # topics
_PLACE = "tenants/public/namespaces/default/topics"
KEYS = 1_000  # of delayed messages
CLIENTS_AT_ONCE, SENDS_AT_ONCE = 50, 1_000
_PATIENCE_S = 600.0
_DAY_S = 86_400
T = TypeVar("T")


class TopicRows:
    """Between `with` and its end clients stay connected. Each method brings a topic to `count` rows, and may be called again with
    more."""

    def __init__(self, platform: Standalone) -> None:
        self._platform = platform
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clients", daemon=True)
        self._open = AsyncExitStack()
        self._counts: dict[str, int] = {}
        self.due_ms = int((time.time() + _DAY_S) * 1_000)  # of the first delayed message; one a second

    def __enter__(self) -> TopicRows:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._run(self._open.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()

    def delay(self, count: int) -> None:
        self._run(self._send(DELAYED, count, delayed=True))

    def roll(self, count: int) -> None:
        """The platform begins another ledger once one has two entries: they are sent in pairs, each after the one before."""
        self._run(self._send(ROLLED, 2 * count, delayed=False, at_once=2))

    def shape(self, count: int) -> None:
        """Versions of a schema that differ in a field, which has a default, so that each can be read by the one before."""
        path = f"/api/v1/{_PLACE}/{SHAPED}/schemas"
        self._platform.http("PUT", f"/admin/v2/persistent/public/default/{SHAPED}", token=self._platform.admin_token)
        for number in range(self._counts.get(SHAPED, 0), count):
            names = [*(f"field_{index}" for index in range(20)), f"field_of_{number}"]
            fields = [{"name": name, "type": "string", "default": ""} for name in names]
            schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
            answer = self._platform.http("POST", path, {"type": "AVRO", "schema": schema}, token=self._platform.admin_token)
            if answer.status != 201:
                raise Stalled(f"POST {path}: {answer.status} {answer.text[:200]}")
        self._counts[SHAPED] = count

    def connect(self, count: int) -> None:
        """So many connections, each with a producer and a consumer of one Shared subscription."""
        self._run(self._connect(count))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    async def _send(self, topic: str, count: int, *, delayed: bool, at_once: int = SENDS_AT_ONCE) -> None:
        async with connect(self._platform.ready["broker_url"]) as client:
            async with client.consumer(topic, "s", initial="earliest", prefetch_max=1):
                pass  # its subscription keeps what is sent
            async with client.producer(topic, batching=False, send_timeout_s=_PATIENCE_S) as producer:
                for start in range(self._counts.get(topic, 0), count, at_once):
                    some = range(start, min(start + at_once, count))
                    await asyncio.gather(
                        *(
                            producer.send(
                                b"%d" % number,
                                key=f"key-{number % KEYS}",
                                deliver_at_ms=self.due_ms + number * 1_000 if delayed else None,
                            )
                            for number in some
                        )
                    )
        self._counts[topic] = count

    async def _connect(self, count: int) -> None:
        for start in range(self._counts.get(BUSY, 0), count, CLIENTS_AT_ONCE):
            await asyncio.gather(*map(self._connect_one, range(start, min(start + CLIENTS_AT_ONCE, count))))
        self._counts[BUSY] = count

    async def _connect_one(self, number: int) -> None:
        client = await self._open.enter_async_context(connect(self._platform.ready["broker_url"]))
        await client.consumer(BUSY, "s", kind="shared", name=f"consumer-{number}", prefetch_max=1)
        await client.create_producer(BUSY, name=f"producer-{number}")


_SCHEMAS = f"/admin/v2/schemas/public/default/{SHAPED}/schemas"


def _of_delayed(rows: TopicRows, count: int) -> list[str]:
    page, rest = f"/{_PLACE}/{DELAYED}/delayed", f"/api/v1/{_PLACE}/{DELAYED}/delayed"
    middle, last = (f"after={rows.due_ms + number * 1_000}:-1:-1" for number in (count // 2, count - 20))
    key = f"key=key-{min(count, KEYS) - 1}"
    queries = ("", f"?{middle}", f"?{last}", f"?{key}")
    return [f"{path}{query}" for path in (page, rest) for query in queries] + [f"/{_PLACE}/{DELAYED}", f"{rest}/counts"]


def _of_schemas(rows: TopicRows, count: int) -> list[str]:
    page, rest = f"/{_PLACE}/{SHAPED}/schemas", f"/api/v1/{_PLACE}/{SHAPED}/schemas"
    return [
        page,
        f"{page}?version={count // 2}",
        f"{page}?version=1",
        rest,
        f"{rest}?after={count // 2}",
        f"{rest}/latest",
        _SCHEMAS,
    ]


def _of_clients(rows: TopicRows, count: int) -> list[str]:
    topic, fleet = f"/{_PLACE}/{BUSY}", "/tenants/public/clients"
    last = -(-count // 100)
    return [
        topic,
        f"{topic}?consumers-page={last}&producers-page={max(1, last // 2)}",
        f"{topic}/subscriptions/s",
        f"{topic}/why",
        f"{topic}/schemas",
        fleet,
        f"{fleet}?page={last}",
        f"{fleet}?q=magnetar&sort=-consumers",
        "/platform/clients",
        "/api/v1/tenants/public/clients",
        "/api/v1/tenants/public/clients?q=busy&order=address&descending=true",
        f"/api/v1/{_PLACE}/{BUSY}/subscriptions",
        f"/admin/v2/persistent/public/default/{BUSY}/stats",
    ]


def _of_ledgers(rows: TopicRows, count: int) -> list[str]:
    topic = f"/{_PLACE}/{ROLLED}"
    return [topic, f"{topic}/storage", f"{topic}/why", f"/admin/v2/persistent/public/default/{ROLLED}/internalStats"]


class KindOfRows(NamedTuple):
    """`most`: as many as there may be (without a key, for clients), or as are tried. `paths`: of a topic with so many."""

    rows: str
    most: int
    fill: Callable[[TopicRows, int], None]
    paths: Callable[[TopicRows, int], list[str]]


OF_TOPICS = (
    KindOfRows("delayed messages", 100_000, TopicRows.delay, _of_delayed),
    KindOfRows("versions of a schema", 1_000, TopicRows.shape, _of_schemas),
    KindOfRows("connected clients", 4_000, TopicRows.connect, _of_clients),
)
OF_LEDGERS = (KindOfRows("ledgers", 2_000, TopicRows.roll, _of_ledgers),)
