"""A broker over stores in memory whose time passes only when nothing is left to do: ten seconds of a rate take no time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.topics.topic import Topic
from messaging.identity import create_secrets
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from tests.simulation.virtual_time import VirtualClock, VirtualLoop
from tests.support.brokers.broker_over import broker_over
from tests.support.clients.connections import DirectConnection
from tests.support.clients.raw_client import batch_frame, send_frame
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.worlds.broker_world import FEED, BrokerWorld

TOPIC = "persistent://acme/orders/t"


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Loop(VirtualLoop):
    def run_in_executor(self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """What others do in a thread happens at once."""
        answer: asyncio.Future[T] = self.create_future()
        answer.set_result(func(*args))
        return answer


class VirtualWorld(BrokerWorld):
    async def set_policies(self, namespace: str = "acme/orders", **policies: Any) -> None:
        await self.feed(("namespace", namespace, {"policies": policies}))

    async def pass_s(self, seconds: float) -> None:
        """Takes no time."""
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
        await passed

    async def loaded(self, topic: str = TOPIC) -> Topic:
        return await self.service.topics.get(parse_topic(topic), create=False)

    async def producing(self, topic: str = TOPIC, **fields: Any) -> VirtualClient:
        """A client with producer 1."""
        client = self.client()
        await client.open_producer(topic, **fields)
        return client

    async def received(self, client: VirtualClient, seconds: float) -> int:
        """How many messages come to its first consumer in that time."""
        client.read()
        before = client.messages.get(1, 0)
        await self.pass_s(seconds)
        client.read()
        return client.messages.get(1, 0) - before

    def client(self) -> VirtualClient:  # type: ignore[override]
        return VirtualClient(self)


class VirtualClient(DirectConnection):
    """Counts receipts and messages as they come."""

    def __init__(self, world: BrokerWorld) -> None:
        super().__init__(world)
        self.receipts: dict[int, list[int]] = {}  # sequence ids by producer
        self.messages: dict[int, int] = {}  # by consumer
        self.payload_bytes = 0
        self.others: list[pb.Command] = []

    def publish(self, first: int, stop: int, payload: bytes = b"x", producer_id: int = 1, batch: int = 1) -> None:
        """Messages with the sequence ids from `first` to before `stop`, in one read."""
        made = partial(batch_frame, payloads=[payload] * batch) if batch > 1 else partial(send_frame, payload=payload)
        self.data_received(b"".join(made(number, producer_id=producer_id) for number in range(first, stop)))

    def say(self, kind: int, **fields: Any) -> None:
        self.data_received(frames.command(cast(Any, kind), **fields))

    def flow(self, permits: int, consumer_id: int = 1) -> None:
        self.say(pb.Command.FLOW, flow=pb.Flow(consumer_id=consumer_id, message_permits=permits))

    def read(self) -> None:
        """Counts what has come since, and forgets it."""
        self.out.flush()
        at, data = 0, bytes(self.fake.written)
        self.fake.written.clear()
        while at < len(data):
            total, size = (int.from_bytes(data[at + place : at + place + 4], "big") for place in (0, 4))
            command = pb.Command.FromString(data[at + 8 : at + 8 + size])
            if command.type == pb.Command.SEND_RECEIPT:
                self.receipts.setdefault(command.send_receipt.producer_id, []).append(command.send_receipt.sequence_id)
            elif command.type == pb.Command.MESSAGE:
                self.messages[command.message.consumer_id] = self.messages.get(command.message.consumer_id, 0) + 1
                self.payload_bytes += total - 4 - size
            else:
                self.others.append(command)
            at += 4 + total

    def stored(self, producer_id: int = 1) -> int:
        """How many receipts have come."""
        self.read()
        return len(self.receipts.get(producer_id, []))

    @property
    def names(self) -> list[str]:
        """Of what came besides receipts and messages."""
        self.read()
        return [pb.Command.Type.Name(command.type) for command in self.others]


def in_virtual_time(folder: Path, work: Callable[[VirtualWorld], Awaitable[None]], **settings: Any) -> None:
    """Runs `work` with a broker of its own. Waiting takes no time."""
    loop = _Loop(VirtualClock())
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_run(folder, work, settings))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _run(folder: Path, work: Callable[[VirtualWorld], Awaitable[None]], settings: dict[str, Any]) -> None:
    configured = Settings(data_dir=str(folder), **settings)
    create_secrets(configured)
    ledgers, meta = FaultyLedgerStore(MemoryLedgerStore(entry_bytes_max=configured.message_bytes_max + 65_536)), MemoryMetaStore()
    service = await broker_over(configured, ledgers, meta)
    listed = [FeedChange(version=1, kind=kind, key=key, state=dict(state)) for kind, key, state in FEED]
    await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=listed))
    try:
        await work(VirtualWorld(service, ledgers, meta, 0))
    finally:
        await service.stop()


def virtually(
    **settings: Any,
) -> Callable[[Callable[[VirtualWorld], Awaitable[None]]], Callable[[Path], None]]:
    """Makes a test of a coroutine that gets the world."""

    def decorate(work: Callable[[VirtualWorld], Awaitable[None]]) -> Callable[[Path], None]:
        def test(tmp_path: Path) -> None:
            in_virtual_time(tmp_path, work, **settings)

        test.__name__, test.__doc__ = work.__name__, work.__doc__
        return test

    return decorate


__all__ = ["TOPIC", "VirtualClient", "VirtualWorld", "in_virtual_time", "virtually"]
