"""Two brokers find that a third one is gone, and take over what it left, step by step in all orders; and the third one, which
others only took for gone, goes on meanwhile. What anybody was told of is there in the end.

A step is a call of a store (`tests.simulation.interleaving`): what happens between two of them, no other broker can see.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from array import array
from collections.abc import Callable, Coroutine
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.ownership.lease import RENEW_S, SETTLES_S
from messaging.broker.runtime.ownership.log_recovery import SharedStorage
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.topics.subscriptions.cursor_recovery import cursor_from
from messaging.errors import NotReady
from messaging.protocol.bundles import equal_bundles
from messaging.protocol.names import parse_topic
from messaging.storage.block_header import BlockHeader
from messaging.storage.ledger_store import EARLIEST, Fence, Fenced, Position, StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.owned_range import take_over
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import LedgerRecord, TopicRecord
from messaging.storage.ownership import SERVES, NamespaceBundle, scope_of_broker
from messaging.storage.sql import tables
from messaging.storage.sqlite.meta_store import connect
from tests.simulation.interleaving import Order, Turns, every_order, in_virtual_time
from tests.support.storage.memory_ledgers import MemoryLedgerStore
from tests.support.storage.stepped_stores import SteppedLedgers, stepped_meta

TOPIC = parse_topic("persistent://acme/orders/t")
BUNDLE = NamespaceBundle("acme/orders", *equal_bundles(1))
GONE, ONE, OTHER = "gone", "one", "other"
ENTRIES = 6
ATTEMPTS = 40
FEW_ORDERS = 25
# How many orders of each kind are tried, drawn from a seed; `make takeovers` tries more of them, as far as there are.
ORDERS = int(os.environ.get("TAKEOVER_ORDERS", FEW_ORDERS))
NOW_MS = 1_000_000


class Broker:
    """As far as one takes over from another: its session, its range, and the log of what its cursors acknowledged."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.meta = stepped_meta(world.db, world.turns, name)
        self.ledgers = SteppedLedgers(world.ledgers, world.turns, name)
        self.member: SharedMember

    async def start(self) -> None:
        await self.meta.start()
        session = await self.meta.ownership.open_session(self.name, {})
        owned = await take_over(self.ledgers, self.meta, scope_of_broker(self.name))
        self.storage = Storage(self.ledgers, self.meta, owned, lambda: NOW_MS, bundle_fence=self._bundle_fence)
        self.cursors = CursorLog(self.storage)
        await self.cursors.start()
        ends = SharedStorage(self.storage, self.meta.ownership)
        self.member = SharedMember(
            self.meta.ownership, self.name, lambda _: equal_bundles(1), ends, now_s=asyncio.get_running_loop().time
        )
        await self.member.resume(session)
        await self.member.serve({SERVES: f"pulsar://{self.name}"})

    def _bundle_fence(self, topic: str) -> Fence:
        fence = self.member.owners.fence_of(topic, self.name)
        if fence is None:
            raise Fenced(f"{topic} is not this broker's")
        return fence

    async def load(self) -> None:
        """The topic, as its owner."""
        (record,) = await self.meta.subscriptions(str(TOPIC))
        topic = await self.meta.get_topic(str(TOPIC))
        assert topic is not None
        ledgers = [(each.ledger_id, (await self.storage.seal_ledger(each.ledger_id)).last_entry) for each in topic.ledgers]
        self.ledger_list, self.subscription_id = LedgerList(ledgers), record.subscription_id
        deltas = self.cursors.recovered_deltas(record.subscription_id)
        self.cursor = cursor_from(self.storage, self.ledger_list, record, deltas)
        self.cursors.claim(record.subscription_id, self.cursor)

    async def acknowledge(self, entry: int) -> bool:
        """Whether it was answered."""
        delta = self.cursor.acknowledge(self.world.ledger_id, [entry], self.ledger_list)
        stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.cursors.append(self.subscription_id, delta, stored.set_result)
        if await stored is not None:
            return False
        self.world.acknowledged.add(Position(self.world.ledger_id, entry))
        return True

    # --- what it does in a run

    async def take_the_topic(self) -> None:
        """A client comes again and again, as all do."""
        for _ in range(ATTEMPTS):
            try:
                if await self.member.where(TOPIC, sent=True) is not None:
                    return
            except NotReady:
                await self.member.look()  # as it does once a second
                continue
            await self.load()
            self.world.check(self.cursor, self.ledger_list, f"the new owner {self.name}")
            await self.acknowledge(5)
            await self.cursors.release([self.subscription_id])
            await self.cursors.saved()
            return
        raise AssertionError(f"{self.name} was refused {ATTEMPTS} times, and nobody serves the topic")

    async def go_on(self) -> None:
        """It does not know that others took it for gone."""
        await self.world.publish()
        for entry in (2, 3):
            await self.acknowledge(entry)


class World:
    """`acknowledged` and `stored`: what some client was told of."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.db: sqlite3.Connection = connect(Path(":memory:"))
        self.ledgers = MemoryLedgerStore()
        self.acknowledged = set[Position]()
        self.stored = 0
        self.ledger_id = 0
        self.brokers = {name: Broker(self, name) for name in (GONE, ONE, OTHER)}

    async def start(self) -> None:
        """One broker has the topic, and two of its entries are acknowledged; it seems to be gone."""
        await self.ledgers.start()
        for broker in self.brokers.values():
            await broker.start()
        gone = self.brokers[GONE]
        assert await gone.member.where(TOPIC, sent=True) is None
        fence = gone.storage.fence_of(str(TOPIC))
        self.ledger_id = await gone.meta.next_ledger_id(gone.storage.fence)
        self.writer = await gone.ledgers.create(gone.storage.fence, self.ledger_id, {})
        await gone.meta.cas_topic(fence, TopicRecord(str(TOPIC), ledgers=(LedgerRecord(self.ledger_id),)))
        await gone.meta.create_subscription(fence, str(TOPIC), "s", created_ms=NOW_MS, mark_delete=EARLIEST, properties={})
        for _ in range(ENTRIES):
            await self.publish()
        (record,) = await gone.meta.subscriptions(str(TOPIC))
        gone.ledger_list, gone.subscription_id = LedgerList([(self.ledger_id, ENTRIES - 1)]), record.subscription_id
        gone.cursor = Cursor()
        gone.cursors.claim(record.subscription_id, gone.cursor)
        for entry in (0, 1):
            assert await gone.acknowledge(entry)
        for _ in range(round(SETTLES_S / RENEW_S)):
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=RENEW_S)
            for broker in self.brokers.values():
                await broker.member.renew()
        self.end(GONE)
        for broker in self.brokers.values():
            await broker.member.look()

    async def publish(self) -> None:
        stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.writer.append(BlockHeader(NOW_MS, 1, 0, 0, b"").encode(), b"m", array("I", [1]), stored.set_result)
        self.stored += await stored is None

    def end(self, name: str) -> None:
        """Its lease is over."""
        self.db.execute("update broker_session set expires_ms = ? where broker_id = ?", (NOW_MS - 1, name))

    def check(self, cursor: Cursor, ledger_list: LedgerList, what: str) -> None:
        forgotten = [position for position in self.acknowledged if not cursor.acknowledged(position)]
        assert not forgotten, f"{what} does not know of acknowledgements that were answered: {forgotten}"
        lost = self.stored - ledger_list.entries
        assert lost <= 0, f"{what} does not know of {lost} messages that have a receipt"

    async def check_all(self) -> None:
        """Whoever is left serves the topic, and knows everything."""
        for name in (ONE, OTHER):
            if name not in self.turns.ended:
                member = self.brokers[name].member
                await member.look()
                if await member.where(TOPIC, sent=True) is None:
                    await self.brokers[name].load()
                    return self.check(self.brokers[name].cursor, self.brokers[name].ledger_list, f"{name}, in the end,")
        raise AssertionError("nobody serves the topic")


def recovering(*actors: str) -> Callable[[Order], None]:
    async def work(order: Order) -> None:
        world: World
        turns = Turns(lambda name: world.end(name))
        world = World(turns)
        await world.start()
        works: dict[str, Coroutine[Any, Any, None]] = {}
        for name in actors:
            broker = world.brokers[name]
            works[name] = broker.go_on() if name == GONE else broker.take_the_topic()
        await turns.play(works, order)
        await world.check_all()

    def run(order: Order) -> None:
        try:
            with capture_logs():
                in_virtual_time(lambda: work(order))
        except AssertionError as error:
            raise AssertionError(f"after {order}: {error}") from None

    return run


TWO, AND_THE_GONE = (ONE, OTHER), (GONE, ONE, OTHER)


def test_two_that_take_over_at_once_end_with_one_owner_who_knows_all() -> None:
    assert sum(1 for _ in every_order(recovering(*TWO), changes_max=1)) > 50


SOME = [(TWO, 2, 0), (TWO, 1, 1), (AND_THE_GONE, 2, 0), (AND_THE_GONE, 1, 1)]


@pytest.mark.parametrize(("actors", "changes", "ends"), SOME)
def test_some_orders_with_more_changes(actors: tuple[str, ...], changes: int, ends: int) -> None:
    """Also where a recoverer ends after some step, and the broker that seems to be gone is not."""
    orders = every_order(recovering(*actors), changes_max=changes, ends_max=ends, random=Random(f"{actors}{changes}{ends}"))
    assert len({order.choices for order in islice(orders, ORDERS)}) >= FEW_ORDERS


def _unchecked(db: object, fence: Fence, lock: str) -> None:
    """Whoever was replaced changes what it likes."""


def test_it_is_noticed_where_fences_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "check_fence", _unchecked)
    with pytest.raises(AssertionError, match="does not know of"):
        for _ in islice(every_order(recovering(*TWO), changes_max=2, random=Random(1)), 400):
            pass
