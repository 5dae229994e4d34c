"""A real broker over stores in memory, called as web and workers call it: every decision is the one that production makes.

A call is a request of the admin RPC that is authenticated, bounded, decided and answered by the code of the broker's own listener;
only the socket is left out. The broker runs on the session's loop thread, so that tests without a loop can use it, and starts in a
few milliseconds, so that every test has one of its own. It asks for pages of the feed in the thread that waits for its answer:
there is the test's transaction.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.client import decode_answer
from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import FEED_APPLY
from messaging.broker.http.app import rpc_app
from messaging.broker.http.asgi import Event
from messaging.broker.http.context import Edge, EdgeContext, EdgeCounters
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.listeners import Addresses
from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.messages import OutgoingMessage, ProducerHandle
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.metering.setup import meter_usage
from messaging.broker.runtime.topics.services import health_topic
from messaging.broker.runtime.topics.topic import Topic
from messaging.clock import wall_ms
from messaging.identity import ServiceVerifier, service_token
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from messaging.settings import load
from messaging.storage.ledger_store import LATEST
from messaging.storage.recycled_topic import RecycledTopic, Recycling
from tests.support.brokers.broker_over import broker_over
from tests.support.brokers.storage_broker import Inbox, Sender
from tests.support.loop_thread import in_waiting_thread, shared_loop
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore

T = TypeVar("T")
Entity = tuple[str, str]  # kind, key
ADMIN = Principal("admin")
ADDRESSES = Addresses("pulsar://127.0.0.1:6650", "", "ws://127.0.0.1:8081", "http://127.0.0.1:8082")


class MemoryBroker(TypedCalls):
    """`feed_page` answers the broker's question for a page of the feed (`runtime.feed.follower.Fetch`), as the web process
    does. The broker's clock is `now_ms`, and `ahead_s` more: a test moves it on."""

    def __init__(
        self,
        feed_page: Callable[[int, str, str], FeedApply] | None = None,
        *,
        now_ms: Callable[[], int] = wall_ms,
        identity: str = "web",
    ) -> None:
        self._secrets = load()
        self.identity = identity
        self._calling = threading.local()  # `identity`, while a thread calls as another process
        self._feed_page = feed_page
        self.ahead_s = 0.0
        self._clock_ms = now_ms
        self._loop = shared_loop()
        self._folder = tempfile.TemporaryDirectory(prefix="magnetar-broker-")
        (Path(self._folder.name) / "secrets").symlink_to(self._secrets.data_path / "secrets")
        self.settings = msgspec.structs.replace(self._secrets, data_dir=self._folder.name)
        memory = MemoryLedgerStore(entry_bytes_max=self.settings.message_bytes_max + 65_536)
        self.ledgers, self.meta = FaultyLedgerStore(memory), MemoryMetaStore()
        self.run(self._start())

    # --- calls

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the broker's loop. Blocks."""
        return self._loop.run(work)

    @contextmanager
    def called_by(self, identity: str) -> Iterator[None]:
        """Meanwhile this thread calls as another of our processes."""
        self._calling.identity = identity
        try:
            yield
        finally:
            del self._calling.identity

    def perform(self, method: Method[R, A], request: R) -> A:
        identity = getattr(self._calling, "identity", self.identity)
        status, content = self.run(self._post(f"/rpc/v1/{method.name}", msgspec.json.encode(request), identity))
        return decode_answer(method, status, content)

    async def _post(self, path: str, body: bytes, identity: str) -> tuple[int, bytes]:
        token = service_token(self._secrets, identity)
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(b"host", b"127.0.0.1:8082"), (b"authorization", f"Bearer {token}".encode())],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8082),
        }
        sent: list[Event] = []

        events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Event:
            if not events:
                await asyncio.Event().wait()  # the caller stays until it has its answer
            return events.pop()

        async def send(event: Event) -> None:
            sent.append(event)

        await self._app(scope, receive, send)
        return sent[0]["status"], sent[1]["body"]

    # --- the life of the broker

    async def _start(self) -> None:
        fetch = partial(_fetch, self._feed_page) if self._feed_page is not None else _nobody
        service = await broker_over(self.settings, self.ledgers, self.meta, now_ms=self._now_ms, fetch=fetch)
        service.access.feed.load()
        service.addresses = ADDRESSES
        meter_usage(service, self.settings.data_path / "usage" / "raw")
        self.service = service
        self.handlers = AdminHandlers(service)
        self.sessions = LocalSessions(service)
        edge = Edge(service, self.sessions, partial(broker_samples, service), self.handlers.methods)
        verifier = ServiceVerifier.from_settings(self.settings)
        self._app = rpc_app(EdgeContext(edge, self.settings, verifier, wall_ms, self.settings, EdgeCounters()))

    def _now_ms(self) -> int:
        return self._clock_ms() + int(self.ahead_s * 1000)

    def restart(self) -> None:
        """Ends it as a crash would, and starts another on what it left."""
        self.run(_on_loop(self.service.background.cancel))
        memory = self.ledgers.store
        assert isinstance(memory, MemoryLedgerStore)
        self.ledgers = FaultyLedgerStore(MemoryLedgerStore(memory))
        self.run(self._start())

    def stop(self) -> None:
        self.run(self._stop())
        self._folder.cleanup()

    async def _stop(self) -> None:
        self.ledgers.heal()
        await self.service.stop()
        await self.service.cursors.stop()

    # --- what it knows

    @property
    def version(self) -> int:
        """Of the feed."""
        return self.service.access.view.version

    @property
    def state(self) -> dict[Entity, dict[str, Any]]:
        """Everything that the feed told it."""
        return {(kind, key): state for kind, key, state in self.service.access.view.entities()}

    @property
    def topics(self) -> dict[str, set[str]]:
        """Plain topics and partitions, and their durable subscriptions; without the topic that health checks use."""
        return self.run(self._topics())

    async def _topics(self) -> dict[str, set[str]]:
        names = [name for name in await self.meta.list_all_topics(limit=100_000) if name != str(health_topic(""))]
        return {name: {subscription.name for subscription in await self.meta.subscriptions(name)} for name in names}

    def partitions(self, topic: str) -> int:
        """0 for a topic that is not partitioned."""
        partitioned = self.run(self.service.topics.partitioned.get(parse_topic(topic)))
        return partitioned.partitions if partitioned is not None else 0

    def mark_delete(self, topic: str, subscription: str) -> str:
        """As ``ledger:entry``."""
        loaded = self.run(self._topic(topic)).subscriptions.table[subscription]
        return f"{loaded.cursor.mark_delete.ledger_id}:{loaded.cursor.mark_delete.entry_id}"

    def backlog(self, topic: str) -> int:
        """Entries that some durable subscription has not acknowledged."""
        loaded = self.run(self._topic(topic))
        return max((subscription.backlog_entries for subscription in loaded.subscriptions.table.values()), default=0)

    @property
    def stored_bytes(self) -> int:
        """Of all topics."""
        return sum(self.run(self._topic(name)).ledger.stored_bytes for name in self.topics)

    def usage_files(self) -> list[Path]:
        """What it wrote of usage."""
        return sorted((self.settings.data_path / "usage" / "raw").rglob("*.parquet"))

    # --- what others did to it

    def tell(self, version: int, state: Mapping[Entity, dict[str, Any]] | None = None) -> None:
        """What another database, or an earlier time, has told it. `state` None: what it knows already."""
        told = self.state if state is None else state
        changes = [FeedChange(version=version, kind=kind, key=key, state=value) for (kind, key), value in told.items()]
        page = FeedApply(
            from_version=self.version,
            to_version=version,
            full=True,
            changes=changes,
            feed_id=self.service.access.view.feed_id,
            newest_version=version,
        )
        assert self.call(FEED_APPLY, page).version == version

    def add(self, topic: str, *subscriptions: str) -> None:
        """A client makes the topic, if it is not there yet, and subscribes at its end. Nobody asks whether the namespace exists:
        it may be deleted in this moment."""
        self.run(self._add([topic], subscriptions))

    async def _add(self, topics: Iterable[str], subscriptions: Iterable[str]) -> None:
        for topic in topics:
            loaded = await self.service.topics.get(parse_topic(topic), create=True)
            for name in subscriptions:
                await loaded.subscriptions.create(name, LATEST, {})

    def add_partitioned(self, topic: str, partitions: int, *subscriptions: str) -> None:
        name = parse_topic(topic)
        self.run(self.service.topics.partitioned.create(name, partitions, {}))
        for index in range(partitions):
            self.add(str(name.of_partition(index)), *subscriptions)

    def recycle(self, topic: str, recycle_id: str) -> None:
        """The topic, which exists, is deleted, and can be restored for an hour under this id."""
        now_ms = self._now_ms()
        into = Recycling(RecycledTopic(recycle_id, topic, now_ms, now_ms + 3_600_000, "user:olga"))
        self.run(self.service.topics.delete(parse_topic(topic), force=True, into=into))

    def have(self, namespace: str, topics: Collection[str], partitioned: Mapping[str, int]) -> None:
        """The namespace has these topics and no other: those that are too much go, whoever is connected to them."""
        self.run(self._have(namespace, topics, partitioned))

    async def _have(self, namespace: str, topics: Collection[str], partitioned: Mapping[str, int]) -> None:
        stored = {record.name: record.partitions for record in await self.meta.list_partitioned(namespace)}
        for name in stored.keys() - {name for name in stored if partitioned.get(name) == stored[name]}:
            await self.service.topics.partitioned.delete(parse_topic(name), force=True)
        for name in await self.service.topic_names(namespace):
            if parse_topic(name).partition < 0 and name not in topics:
                await self.service.topics.delete(parse_topic(name), force=True)
        await self._add(topics, ())
        for name in partitioned.keys() - stored.keys():
            await self.service.topics.partitioned.create(parse_topic(name), partitioned[name], {})

    def publish(self, topic: str, *payloads: bytes) -> None:
        """Stores them, one entry each."""
        self.publish_messages(topic, *map(OutgoingMessage, payloads))

    def publish_messages(self, topic: str, *messages: OutgoingMessage) -> None:
        self.run(self._publish(topic, messages))

    async def _publish(self, topic: str, messages: Iterable[OutgoingMessage]) -> None:
        sender = await Sender.open(self.service, "ingest", topic)
        try:
            await asyncio.wait_for(sender.send_messages(list(messages)), 10)
        finally:
            sender.producer.close()

    def roll(self, topic: str) -> None:
        """What comes next is stored in a ledger of its own."""
        self.run(self._roll(topic))

    async def _roll(self, topic: str) -> None:
        await (await self._topic(topic)).ledger.roll()

    def acknowledge(self, topic: str, subscription: str, *entries: int) -> None:
        """Entries of its last ledger, for nobody."""
        self.run(self._acknowledge(topic, subscription, entries))

    async def _acknowledge(self, topic: str, subscription: str, entries: tuple[int, ...]) -> None:
        loaded = await self._topic(topic)
        loaded.subscriptions.named(subscription).acknowledge(None, loaded.ledger_list.last_id, entries, 0)

    def unload(self, topic: str) -> None:
        self.run(self.service.topics.unload(parse_topic(topic)))

    def connect_producer(self, topic: str) -> ProducerHandle:
        return self.run(self.sessions.open_producer(ADMIN, topic, None, Inbox()))

    def connect_consumer(self, topic: str, subscription: str) -> LocalConsumer:
        return self.run(self.sessions.open_consumer(ADMIN, topic, subscription, "Shared", "latest", True, None, Inbox()))

    async def _topic(self, topic: str) -> Topic:
        return await self.service.topics.get(parse_topic(topic), create=False)


async def _on_loop(act: Callable[[], None]) -> None:
    act()


def _fetch(feed_page: Callable[[int, str, str], FeedApply], since: int, feed_id: str, after: str) -> FeedApply:
    try:
        return in_waiting_thread(lambda: feed_page(since, feed_id, after))
    except Exception as error:
        raise OSError(f"the web process returned 500: {error!r}") from error


def _nobody(since: int, feed_id: str, after: str) -> FeedApply:
    raise OSError("there is no web process")
