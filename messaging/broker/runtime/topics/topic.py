"""A loaded topic: the one owner of its managed ledger, its producers and its subscriptions. Lives on the event loop; has no task of
its own, so an idle topic costs memory only. Messages come in through its `inlet` and go out through its `outlet`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursor import Cursor, merged
from messaging.broker.core.producers import ProducerTable
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics import dedup_state
from messaging.broker.runtime.topics.inlet import Appended, Inlet
from messaging.broker.runtime.topics.outlet import Outlet
from messaging.broker.runtime.topics.services import TopicRates, TopicServices
from messaging.errors import ConsumerBusy, MagnetarError, StorageFailed, SubscriptionNotFound, TopicTerminated
from messaging.protocol.frames import message_id_tail
from messaging.protocol.names import TopicName
from messaging.storage.chain import Chain
from messaging.storage.managed_ledger import ManagedLedger
from messaging.storage.meta_seam import MetaConflict, SubscriptionRecord
from messaging.storage.seam import EARLIEST, Position, StoreError

LATEST = Position(2**63 - 1, 2**63 - 1)
SEEK_RETURN_S = 60.0  # a reader that was closed by its own seek has this long to come back


NO_SUBSCRIPTIONS: dict[str, Subscription] = {}  # shared by the topics that have none; never written to


class Topic:
    __slots__ = (
        "_moving",
        "_outlet",
        "closed",
        "id_tail",
        "inlet",
        "ledger",
        "name",
        "rates",
        "services",
        "subscriptions",
        "text",
    )

    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        self.name = name
        self.text = ledger.record.name
        self.id_tail = message_id_tail(name.partition)
        self.services = services
        self.ledger = ledger
        self.inlet = Inlet(self, ledger)
        self._outlet: Outlet | None = None  # made for the first reader
        self.subscriptions: dict[str, Subscription] = NO_SUBSCRIPTIONS
        self.closed: MagnetarError | None = None
        self.rates: TopicRates | None = None  # while something happens
        self._moving: dict[Subscription, asyncio.Future[None]] | None = None  # while a seek is under way

    @property
    def producers(self) -> ProducerTable:
        return self.inlet.producers

    @property
    def outlet(self) -> Outlet:
        if self._outlet is None:
            self._outlet = Outlet(self)
            self._outlet.closed = self.closed is not None
        return self._outlet

    @property
    def chain(self) -> Chain:
        return self.ledger.chain

    @property
    def created_ms(self) -> int:
        return self.ledger.record.created_ms

    # --- from the inlet

    def stored(self, appended: Appended) -> None:
        """A block is durable: whoever reads here gets it."""
        if self.rates is None:
            self.services.active(self)
        if self.subscriptions:
            readers = [subscription for subscription in self.subscriptions.values() if subscription.consumers]
            if readers:  # without them nothing is kept in memory: whoever comes later reads from storage
                self.outlet.keep(appended, readers)
                for subscription in readers:
                    self.outlet.dispatch(subscription)
        dedup = self.inlet.dedup
        if dedup is not None and dedup.entries_since_snapshot >= dedup_state.SNAPSHOT_ENTRIES:
            dedup.entries_since_snapshot = 0
            self.services.background.spawn(dedup_state.save(self), f"snapshot {self.text}")

    def append_failed(self, error: StoreError) -> None:
        if self.closed is None:
            self.services.failed(self, StorageFailed(f"topic {self.text} could not store messages: {error}"))

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Messages and bytes in, messages and bytes out, since the topic was loaded."""
        outlet = self._outlet
        messages_out, bytes_out = (outlet.messages_out, outlet.bytes_out) if outlet is not None else (0, 0)
        return self.inlet.messages_in, self.inlet.bytes_in, messages_out, bytes_out

    # --- subscriptions

    def restore(self, record: SubscriptionRecord) -> Subscription:
        """A stored subscription, with the deltas that the last run left in the cursor log."""
        cursor = Cursor.restore(record.mark_delete, record.state)
        for delta in merged(self.services.cursors.recovered_deltas(record.subscription_id)):
            cursor.repeat(delta, self.chain)
        subscription = self._new_subscription(record.name, cursor, record.subscription_id, record.properties)
        self.services.cursors.adopted(record.subscription_id)
        return subscription

    def _new_subscription(self, name: str, cursor: Cursor, subscription_id: int, properties: dict[str, str]) -> Subscription:
        subscription = Subscription(
            name,
            cursor,
            self.chain,
            subscription_id=subscription_id,
            durable=subscription_id != 0,
            partition=self.name.partition,
            unacked_max=self.services.unacked_max,
            properties=properties,
        )
        if self.subscriptions is NO_SUBSCRIPTIONS:
            self.subscriptions = {}
        self.subscriptions[name] = subscription
        return subscription

    async def create_subscription(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """A durable subscription whose first entry is at `start` (`EARLIEST`, `LATEST`, or that entry). Raises `MetaConflict`."""
        mark_delete = self.mark_delete_for(start)
        record = await self.services.storage.meta.create_subscription(
            self.text, name, created_ms=self.services.clock_ms(), mark_delete=mark_delete, properties=properties or {}
        )
        if name in self.subscriptions:  # two came at once; the store let only one through, so this is a non-durable one
            raise MetaConflict(name)
        return self._new_subscription(name, Cursor(mark_delete), record.subscription_id, record.properties)

    def create_reader(self, name: str, start: Position) -> Subscription:
        """A subscription that is not durable: it lives as long as its consumer."""
        return self._new_subscription(name, Cursor(self.mark_delete_for(start)), 0, {})

    def mark_delete_for(self, start: Position) -> Position:
        """The mark-delete position that makes `start` the first entry read."""
        if start == LATEST:
            return self.chain.last
        if start == EARLIEST:
            return self.chain.before(self.chain.first)
        return (
            min(Position(start.ledger_id, start.entry_id - 1), self.chain.last) if start.entry_id > 0 else self.chain.before(start)
        )

    def subscription(self, name: str) -> Subscription:
        try:
            return self.subscriptions[name]
        except KeyError:
            raise SubscriptionNotFound(f"topic {self.text} has no subscription {name!r}") from None

    async def delete_subscription(self, name: str) -> None:
        subscription = self.subscriptions.pop(name, None)
        if subscription is None:
            return
        self.close_consumers(subscription)
        if subscription.durable:
            await self.services.storage.meta.delete_subscription(self.text, name)

    def detach(self, subscription: Subscription, consumer: Consumer) -> None:
        subscription.detach(consumer)
        if not subscription.consumers:
            self.outlet.forget(subscription)
            self.drop_if_idle(subscription)
        self.outlet.dispatch(subscription)

    def drop_if_idle(self, subscription: Subscription) -> None:
        """A subscription that is not durable ends with its last consumer (but not while a seek has closed it for a moment)."""
        stays = subscription.durable or subscription.consumers or subscription.fenced
        if not stays and self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]

    async def seek(self, subscription: Subscription, mark_delete: Position) -> None:
        """Moves a subscription so that it reads on after `mark_delete`. Returns when that is durable.

        Its consumers are closed and connect again. Raises `ConsumerBusy` while another seek runs, `StorageFailed`."""
        if subscription.fenced:
            raise ConsumerBusy(f"subscription {subscription.name!r} is being moved by another seek: try again")
        subscription.fenced = True
        moving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._moving = {**(self._moving or {}), subscription: moving}
        try:
            self.close_consumers(subscription)
            stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
            self.store(
                subscription, subscription.reset(mark_delete), lambda error: None if stored.done() else stored.set_result(error)
            )
            error = await stored
            if error is not None:
                raise StorageFailed(f"the seek of subscription {subscription.name!r} is not stored: {error}")
        finally:
            subscription.fenced = False
            del self._moving[subscription]
            self._moving = self._moving or None
            moving.set_result(None)
            if not subscription.durable:
                asyncio.get_running_loop().call_later(SEEK_RETURN_S, self.drop_if_idle, subscription)

    async def moved(self, subscription: Subscription) -> None:
        """Waits for a seek that is under way: the C++ client does not try a first SUBSCRIBE again that is refused for now."""
        while self._moving and subscription in self._moving:
            await asyncio.wait([self._moving[subscription]])

    def close_consumers(self, subscription: Subscription) -> None:
        for consumer in list(subscription.consumers):
            subscription.detach(consumer)
            consumer.sink.closed(consumer)
        self.outlet.forget(subscription)

    def store(self, subscription: Subscription, delta: bytes, done: Callable[[StoreError | None], None] | None = None) -> None:
        """Makes a cursor's change durable; `done` (if any) runs when it is, at once where there is nothing to store."""
        if delta and subscription.durable:
            self.services.cursors.append(subscription.subscription_id, delta, done)
        elif done is not None:
            done(None)

    # --- trouble, and the end

    def _close_producers(self) -> None:
        for producer in self.producers:
            producer.closed = True
            self.producers.detach(producer)
            producer.sink.closed(producer)

    async def recover(self) -> bool:
        """After the log refused a block: producers are closed and connect again; consumers stay and go on. False where the topic
        has to be loaded anew instead."""
        self._close_producers()
        if self.inlet.dedup is not None:  # it counts entries as taken that were not stored
            return False
        try:
            await self.ledger.recover()
        except StoreError:
            return False
        for subscription in self.subscriptions.values():
            self.outlet.dispatch(subscription)
        return True

    async def close(self, why: MagnetarError) -> None:
        """Closes producers and consumers, then the ledger; saves every cursor. The topic is not used again."""
        if self.closed is not None:
            return
        self.closed = why
        self._close_producers()
        for subscription in list(self.subscriptions.values()):
            self.close_consumers(subscription)
        if self._outlet is not None:
            self._outlet.close()
        await self.ledger.close()
        await dedup_state.save(self)
        await self.services.storage.meta.save_cursors(
            [state for state in (snapshot(one) for one in self.subscriptions.values()) if state]
        )

    async def terminate(self) -> Position:
        """No message is taken after this one. Returns the last position."""
        self._close_producers()
        await self.ledger.settled()  # what they sent before still counts
        last = self.chain.last
        await self.ledger.update(lambda record: replace(record, terminated_at=last))
        for subscription in self.subscriptions.values():
            self.outlet.dispatch(subscription)
        return last

    def check_writable(self) -> None:
        if self.ledger.terminated:
            raise TopicTerminated(
                f"topic {self.text} was terminated at {self.ledger.record.terminated_at}: it takes no more messages"
            )


def snapshot(subscription: Subscription) -> tuple[int, Position, bytes] | None:
    """What MetaStore keeps of a cursor; None for one that is not durable."""
    if not subscription.durable:
        return None
    return subscription.subscription_id, subscription.cursor.mark_delete, subscription.cursor.snapshot()
