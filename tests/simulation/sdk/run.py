"""One life of a client from a seed: it produces and consumes while connections break, the broker goes away, calls are cancelled.

What is promised, and looked at:

- a message whose id came back is stored, under this id; one whose error says that it is not stored is not;
- messages are stored in the order of the calls; with deduplication each is stored once;
- every stored message is delivered and, once acknowledged, not again;
- an acknowledgement that waited for its receipt, and returned, is stored;
- in the end no message is on its way, no memory is taken, and no task is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import Any, NamedTuple

from messaging import client as magnetar
from messaging.client import errors
from messaging.client.producing.producer import Producer
from messaging.client.timing import Timing
from tests.simulation.sdk.model_broker import Broken, ModelBroker
from tests.simulation.virtual_time import EPOCH_S, VirtualClock, VirtualLoop

TOPIC = "persistent://acme/orders/new"
STEPS = 150
CALM_S = 600.0


class Life(NamedTuple):
    """What happened: messages stored, calls cancelled, connections opened."""

    seed: int
    stored: int
    cancelled: int
    connections: int


def live(seed: int, steps: int = STEPS) -> Life:
    """Raises `Broken`, or whatever the SDK should not raise."""
    clock = VirtualClock()
    loop = VirtualLoop(clock)
    asyncio.set_event_loop(loop)
    trouble: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: trouble.append(context))
    try:
        life = loop.run_until_complete(_Simulation(seed, steps, loop).run())
    except Exception:
        if not trouble:
            raise
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    if trouble:  # it comes before what it led to
        raise trouble[0].get("exception") or Broken(f"nobody took care of: {trouble[0]}")
    return life


class _Simulation:
    def __init__(self, seed: int, steps: int, loop: VirtualLoop) -> None:
        self._seed = seed
        self._steps = steps
        self._random = Random(seed)
        self._loop = loop
        self._broker = ModelBroker(Random(seed + 1), deduplicates=self._random.random() < 0.5)
        self._numbers: list[int] = []  # in the order of the calls
        self._stored: dict[int, magnetar.MessageId] = {}
        self._not_stored: set[int] = set()
        self._open: set[int] = set()  # a call that was cancelled, or whose outcome is not known
        self._acked: set[int] = set()
        self._receipts_hold = False
        self._cancelled = 0
        self._connections = 0

    async def run(self) -> Life:
        random = self._random
        timing = Timing(self._loop.time, lambda: int((EPOCH_S + self._loop.time()) * 1000), asyncio.sleep, random.random)
        memory = random.choice([300, 2_000, 1 << 20])
        client = magnetar.connect(
            "pulsar://model:1",
            transport=self._connect,
            timing=timing,
            memory_bytes_max=memory,
            keep_alive_s=5.0,
            request_timeout_s=3.0,
        )
        batching: dict[str, Any] = {
            "batching": random.random() < 0.7,
            "batch_messages_max": random.choice([2, 10, 1000]),
            "batch_delay_ms": random.choice([1, 10, 200]),
        }
        producer = await client.create_producer(
            TOPIC,
            pending_max=random.choice([1, 3, 1000]),
            send_timeout_s=random.choice([0, 1.0, 30.0]),
            compression=random.choice(["none", "lz4"]),
            **batching,
        )
        consumer = await client.subscribe(
            TOPIC,
            "s",
            kind="shared",
            initial="earliest",
            prefetch_max=random.choice([1, 7, 1000]),
            nack_delay_s=random.choice([0.0, 0.5]),
            ack_timeout_s=random.choice([0.0, 3.0]),
            batch_index_ack=(batch_index_ack := random.random() < 0.5),
            ack_receipts=(ack_receipts := random.random() < 0.5),
        )
        self._receipts_hold = batch_index_ack and ack_receipts
        chaos = asyncio.create_task(self._chaos())
        consuming = asyncio.create_task(self._consume(consumer))
        sends = await self._produce(producer)
        chaos.cancel()
        self._broker.away, self._broker.refuses = False, 0
        try:
            async with asyncio.timeout(CALM_S):
                await asyncio.gather(*sends)
                await producer.flush()
                stored = {number for entry in self._broker.log for number in entry.numbers}
                await self._broker.all_acknowledged()
        finally:
            consuming.cancel()
            outcome, _ = await asyncio.gather(consuming, chaos, return_exceptions=True)
            if isinstance(outcome, Broken):
                raise outcome
        statistics, pending_bytes = producer.statistics, client.statistics.pending_bytes
        await client.close()
        if pending_bytes or client.statistics.connections:
            raise Broken(f"{pending_bytes} bytes are taken, and after its end {client.statistics.connections} connections are open")
        self._check(stored, statistics.pending + statistics.waiting)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            raise Broken(f"tasks are left: {left}")
        return Life(self._seed, len(stored), self._cancelled, self._connections)

    async def _connect(self, address: Any, receiver: Any) -> Any:
        self._connections += 1
        return await self._broker.connect(address, receiver)

    # --- what happens

    async def _produce(self, producer: Producer) -> list[asyncio.Task[None]]:
        sends = []
        for number in range(self._steps):
            payload = b"%d %s" % (number, b"x" * self._random.randrange(60))
            self._numbers.append(number)
            if self._random.random() < 0.5:
                sends.append(asyncio.create_task(self._send(number, producer.send(payload))))
                await asyncio.sleep(0)  # so that the calls are in order
            else:
                try:
                    future = producer.send_nowait(payload)
                except errors.QueueFull:
                    self._not_stored.add(number)
                else:
                    sends.append(asyncio.create_task(self._send(number, future, may_cancel=False)))
            await asyncio.sleep(self._random.choice([0, 0, 0.001, 0.05, 0.3]))
        return sends

    async def _send(self, number: int, sending: Awaitable[magnetar.MessageId], *, may_cancel: bool = True) -> None:
        limit_s = self._random.random() * 0.3 if may_cancel and self._random.random() < 0.2 else None
        try:
            async with asyncio.timeout(limit_s):
                self._stored[number] = await sending
        except errors.MagnetarError as error:
            (self._open if errors.may_be_stored(error) else self._not_stored).add(number)
        except TimeoutError:
            self._cancelled += 1
            self._open.add(number)

    async def _consume(self, consumer: magnetar.Consumer) -> None:
        while True:
            try:
                message = await consumer.receive(timeout_s=self._random.choice([0.001, 1.0]))
            except errors.ReceiveTimedOut:
                continue
            number = int(message.payload.partition(b" ")[0])
            chance = self._random.random()
            if chance < 0.8:
                self._acked.add(number)
                await self._acknowledge(consumer, message)
            elif chance < 0.95:
                await consumer.nack(message)
            else:  # forgotten: it comes again after a break, or its timeout
                self._loop.call_later(5.0, lambda: self._loop.create_task(_quietly(consumer.redeliver())))

    async def _acknowledge(self, consumer: magnetar.Consumer, message: magnetar.Message) -> None:
        try:
            await consumer.ack(message)
        except errors.ConnectionLost:
            return  # no receipt in time
        entry = self._broker.log[message.id.entry_id]
        if self._receipts_hold and max(0, message.id.batch_index) in entry.unacked:
            raise Broken(f"the acknowledgement of {message.id} had its receipt, and is not stored")

    async def _chaos(self) -> None:
        while True:
            await asyncio.sleep(self._random.random() * 2)
            chance = self._random.random()
            if chance < 0.4:
                self._broker.break_connections()
            elif chance < 0.6:
                self._broker.close_endpoints()
            elif chance < 0.7:
                self._broker.refuses += self._random.randrange(3)
            elif chance < 0.8:
                self._broker.away = True
                self._broker.break_connections()
                await asyncio.sleep(self._random.random() * 5)
                self._broker.away = False

    # --- what is promised

    def _check(self, stored: set[int], on_their_way: int) -> None:
        log = [number for entry in self._broker.log for number in entry.numbers]
        if on_their_way:
            raise Broken(f"{on_their_way} messages are on their way after a flush")
        for number, message_id in self._stored.items():
            if number not in stored:
                raise Broken(f"message {number} got the id {message_id} and is not stored")
            if message_id.ledger_id >= 0 and number not in self._broker.log[message_id.entry_id].numbers:
                raise Broken(f"message {number} is not in entry {message_id.entry_id}, whose id it got")
        if wrong := self._not_stored & stored:
            raise Broken(f"messages {sorted(wrong)} were said not to be stored, and are")
        firsts = list(dict.fromkeys(log))
        if firsts != sorted(firsts):
            raise Broken(f"stored out of order: {firsts}")
        if self._broker.deduplicates and len(firsts) != len(log):
            raise Broken(f"stored twice in spite of deduplication: {log}")
        if unknown := set(self._numbers) - stored - self._not_stored - self._open:
            raise Broken(f"nobody knows what became of {sorted(unknown)}")
        if lost := stored - self._acked:
            raise Broken(f"stored and never acknowledged by the application: {sorted(lost)}")


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except errors.MagnetarError:
        pass  # it was closed meanwhile
