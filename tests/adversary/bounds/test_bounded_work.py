"""What one connection may have done in a turn of the loop is bounded, in commands and in what they cause; the others go first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from messaging.broker.core.dispatch.chunk_sets import ChunkSets
from messaging.broker.core.turns.command_costs import CHUNK, OWN_HEAD
from messaging.broker.core.turns.turn_budget import SLICE_COST, TURN_COST
from messaging.broker.runtime.topics.dispatch.dispatcher import CHUNKED_ENTRIES_MAX, DISPATCH_COST, OWN_HEADS_MAX, Dispatcher
from messaging.broker.runtime.turn_loop import TurnLoop
from messaging.broker.runtime.wire import receiver
from messaging.broker.runtime.wire.commands import Commands
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.endpoints import Endpoints
from messaging.broker.runtime.wire.sinks import MessageSender
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.events import Command
from messaging.protocol.session import EARLY_COMMANDS_MAX
from tests.support.clients.chunking import chunk_frame
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
FLOW = frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1))
STORM = 256 << 10  # bytes: one read


class Watch:
    """What was done in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turn = 0
        self.commands: Counter[tuple[int, Connection]] = Counter()
        self.names: list[str] = []
        self.acked: Counter[int] = Counter()
        self.sent: Counter[int] = Counter()
        self.dispatches: Counter[int] = Counter()
        self.wrap(monkeypatch, Commands, "handle", self._handled)
        self.wrap(monkeypatch, Endpoints, "acknowledge_all", lambda _, acked: self.count(self.acked, len(acked)))
        self.wrap(monkeypatch, Endpoints, "publish", lambda _, buf, sent: self.count(self.sent, len(sent)))
        self.wrap(monkeypatch, Dispatcher, "dispatch_slice", lambda *_: self.count(self.dispatches, 1))
        self.wrap(monkeypatch, TurnLoop, "run_turn", lambda _: self._begin())

    def wrap(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, watch: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def wrapped(*arguments: Any) -> Any:
            watch(*arguments)
            return real(*arguments)

        monkeypatch.setattr(owner, name, wrapped)

    def _begin(self) -> None:
        self.turn += 1

    def count(self, counter: Counter[int], number: int) -> None:
        counter[self.turn] += number

    def _handled(self, commands: Commands, connection: Connection, command: Command) -> None:
        self.commands[self.turn, connection] += 1
        self.names.append(f"{pb.Command.Type.Name(command.message.type)} of {connection.client_version}")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    yield Watch(monkeypatch)


async def consumer(world: BrokerWorld, version: str = "storm", topic: str = TOPIC) -> RawClient:
    client = await world.client()
    await client.connect(world.token("owner"), version=version)
    await client.subscribe(topic)
    return client


async def ponged(client: RawClient) -> None:
    """Everything before this is handled."""
    client.write(frames.PING)
    while (await client.next()).name != "PONG":
        pass


@pytest.mark.parametrize("kind", ["PING", "FLOW", "PONG"])
async def test_a_storm_of_small_commands_is_handled_in_slices(world: BrokerWorld, watch: Watch, kind: str) -> None:
    """256 KiB of PINGs or FLOWs came in one read and were handled in one turn: 20,000 commands, up to half a second."""
    client = await consumer(world)
    frame = {"PING": frames.PING, "FLOW": FLOW, "PONG": frames.PONG}[kind]
    count = STORM // len(frame)
    client.write(frame * count)
    if kind == "PING":
        assert [(await client.next()).name for _ in range(count)] == ["PONG"] * count
    await ponged(client)
    assert sum(watch.commands.values()) >= count
    assert max(watch.commands.values()) <= SLICE_COST // 8 + 1
    assert world.service.peers.turn_loop.turns.deferred > 0


async def test_flows_of_one_turn_are_one_dispatch(world: BrokerWorld, watch: Watch) -> None:
    client = await consumer(world)
    await client.producer(TOPIC)
    client.write(b"".join(send_frame(sequence_id, b"x") for sequence_id in range(1001)))
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    await eventually(lambda: subscription.backlog_entries == 1001)
    watch.dispatches.clear()
    client.write(FLOW * 1000)
    await ponged(client)
    await eventually(lambda: subscription.messages_out == 1000)
    assert sum(watch.dispatches.values()) <= watch.turn
    assert 1 <= max(watch.dispatches.values()) <= 2


@pytest.mark.parametrize("kind", [pb.Subscribe.Shared, pb.Subscribe.Key_Shared])
async def test_rejected_messages_are_sent_again_in_slices(
    world: BrokerWorld, watch: Watch, monkeypatch: pytest.MonkeyPatch, kind: pb.Subscribe.SubType
) -> None:
    """Each has a redelivery count in a head of its own, at twelve times the cost of another: a turn made 12,000 of them."""
    heads: Counter[int] = Counter()
    watch.wrap(monkeypatch, MessageSender, "encode_head", lambda *_: watch.count(heads, 1))
    client, count, permits = await world.client(), 2_000, {}
    await client.connect(world.token("owner"))
    for consumer_id in range(1, 5):
        permits[consumer_id] = frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=consumer_id, message_permits=count))
        await client.subscribe(TOPIC, f"s{consumer_id}", consumer_id, permits=count, sub_type=kind)
    await client.producer(TOPIC)
    client.write(b"".join(send_frame(sequence_id, b"x", key=f"k{sequence_id % 7}") for sequence_id in range(count)))
    subscriptions = world.service.topics.loaded[TOPIC].subscriptions.table.values()
    await eventually(lambda: all(subscription.messages_out == count for subscription in subscriptions))
    for consumer_id, flow in permits.items():
        client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=consumer_id)
        client.write(flow)
    await eventually(lambda: all(subscription.messages_out == 2 * count for subscription in subscriptions))
    assert sum(heads.values()) == 4 * count
    assert max(heads.values()) <= TURN_COST // OWN_HEAD + OWN_HEADS_MAX


async def test_a_subscription_that_was_handed_everything_waits_for_no_dispatch(world: BrokerWorld, watch: Watch) -> None:
    """Each read of acknowledgements or permits had a place in the queue and a turn of its own, to find that there was nothing."""
    client = await consumer(world)
    await client.producer(TOPIC)
    client.write(FLOW * 10 + send_frame(0, b"x"))
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    await eventually(lambda: subscription.messages_out == 1)
    watch.dispatches.clear()
    client.write(FLOW * 10)
    await ponged(client)
    assert not watch.dispatches


async def test_acknowledgements_are_handled_in_slices_and_grouped_by_consumer(world: BrokerWorld, watch: Watch) -> None:
    """Acknowledgements of two consumers in turn were one call and one dispatch each: 7,700 of them in one read."""
    client = await consumer(world)
    await client.subscribe(f"{TOPIC}-2", consumer_id=2)
    ack = [
        frames.command(
            pb.Command.ACK,
            ack=pb.Ack(consumer_id=which, ack_type=pb.Ack.Individual, message_id=[pb.MessageId(ledger_id=9, entry_id=7)]),
        )
        for which in (1, 2)
    ]
    watch.dispatches.clear()
    count = STORM // len(ack[0] + ack[1])
    client.write((ack[0] + ack[1]) * count)
    await ponged(client)
    assert sum(watch.acked.values()) == 2 * count
    assert max(watch.acked.values()) <= SLICE_COST + receiver.MANY_AT_ONCE
    assert max(watch.dispatches.values(), default=0) <= 4


async def test_messages_of_one_read_are_bounded_by_their_number(world: BrokerWorld, watch: Watch) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    count = STORM // len(send_frame(0, b""))
    client.write(b"".join(send_frame(number, b"") for number in range(count)))
    await ponged(client)
    assert sum(watch.sent.values()) == count
    assert max(watch.sent.values()) <= SLICE_COST
    assert world.service.topics.loaded[TOPIC].publisher.messages_in == count


async def test_a_read_of_ordinary_messages_is_still_one_block(world: BrokerWorld, watch: Watch) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(b"".join(send_frame(number, b"x" * 30) for number in range(1000)))
    await ponged(client)
    assert len(watch.sent) <= 3 and sum(watch.sent.values()) == 1000
    assert world.service.peers.turn_loop.turns.deferred == 0


async def test_another_tenant_is_served_before_the_storm_is_over(world: BrokerWorld, watch: Watch) -> None:
    """Twenty connections of one tenant send commands without end: another tenant waits for slices of them, not for all."""
    storms = [await consumer(world, topic=f"{TOPIC}-{number}") for number in range(20)]
    innocent = await world.client()
    await innocent.connect(world.token("stranger"), version="innocent")
    watch.names.clear()
    for storm in storms:
        storm.write(FLOW * 3000)
    await asyncio.sleep(0)
    for _ in range(3):
        await ponged(innocent)
    first, last = watch.names.index("PING of innocent"), len(watch.names) - 1 - watch.names[::-1].index("PING of innocent")
    handled_between = last - first
    assert handled_between < 3 * 4 * TURN_COST // 12, "a few turns for each, and not all 60,000 commands"
    for storm in storms:
        await ponged(storm)
    assert max(watch.commands.values()) <= SLICE_COST // 8 + 1


async def test_commands_of_one_connection_stay_in_order(world: BrokerWorld) -> None:
    client = await consumer(world)
    await client.producer(TOPIC)
    lookup, _ = client.frame(pb.Command.LOOKUP, topic=TOPIC)
    stats, _ = client.frame(pb.Command.CONSUMER_STATS, consumer_id=1)
    client.write(FLOW * 5000, lookup, FLOW * 5000, stats, send_frame(0, b"last"))
    answers = [await client.next() for _ in range(4)]
    assert [answer.name for answer in answers if answer.name != "MESSAGE"] == [
        "LOOKUP_RESPONSE",
        "CONSUMER_STATS_RESPONSE",
        "SEND_RECEIPT",
    ]
    assert answers[1].body.available_permits == 10_000


# --- before sign-in


@pytest.mark.parametrize("frame", [frames.PING, frames.PONG])
async def test_before_sign_in_there_is_a_handful_of_commands(world: BrokerWorld, watch: Watch, frame: bytes) -> None:
    """PINGs of somebody unknown delayed everybody else's publishing by 11 s."""
    client = await world.client()
    client.write(frame * 20_000)
    await client.gone()
    assert sum(watch.commands.values()) <= EARLY_COMMANDS_MAX


async def test_before_sign_in_there_are_few_bytes(world: BrokerWorld) -> None:
    client = await world.client()
    await client.connect(world.token("owner"))
    early = await world.client()
    client_version = "x" * 40_000
    early.say(pb.Command.CONNECT, client_version=client_version, auth_method_name="token", auth_data=b"no")
    early.write(b"\0" * 40_000)
    await early.gone()
    assert await client.quiet() == []


# --- what a FLOW causes


@pytest.mark.parametrize("kind", [pb.Subscribe.Shared, pb.Subscribe.Exclusive])
async def test_chunks_cost_what_noting_them_costs(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """Hundreds of first chunks to one consumer: a slice took 256 of them, many times what it was charged."""
    noted: list[int] = []
    real, sent = Dispatcher.dispatch_slice, ChunkSets.sent

    def counted(dispatcher: Dispatcher, subscription: Any, cost_max: int) -> tuple[int, bool]:
        noted.append(0)
        cost, more = real(dispatcher, subscription, cost_max)
        assert cost >= CHUNK * noted[-1]
        return cost, more

    def noting(sets: ChunkSets, *given: Any, **named: Any) -> None:
        noted[-1] += 1
        sent(sets, *given, **named)

    reader = await world.connected("owner")
    await reader.subscribe(TOPIC, permits=0, sub_type=kind)
    writer = await world.connected("owner")
    await writer.producer(TOPIC)
    chunks = [chunk_frame(number, b"x", 0, 2, uuid=str(number)) for number in range(500)]
    writer.write(b"".join(chunks))
    await eventually(lambda: world.service.topics.loaded[TOPIC].publisher.messages_in == len(chunks))
    monkeypatch.setattr(Dispatcher, "dispatch_slice", counted)
    monkeypatch.setattr(ChunkSets, "sent", noting)
    reader.say(pb.Command.FLOW, consumer_id=1, message_permits=1_000)
    await reader.messages(len(chunks))
    assert max(noted) <= CHUNKED_ENTRIES_MAX + DISPATCH_COST // CHUNK
    assert sum(noted) == len(chunks)


async def test_permits_without_end_are_dispatched_in_slices(
    world: BrokerWorld, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One FLOW of 2^31 permits over a cached backlog handed out everything in one turn."""
    spent: list[int] = []
    real = Dispatcher.dispatch_slice

    def counted(dispatcher: Dispatcher, subscription: Any, cost_max: int) -> tuple[int, bool]:
        cost, more = real(dispatcher, subscription, cost_max)
        spent.append(cost)
        return cost, more

    monkeypatch.setattr(Dispatcher, "dispatch_slice", counted)
    reader = await consumer(world)
    writer = await world.connected("owner")
    await writer.producer(TOPIC)
    count = 20_000
    for start in range(0, count, 2000):
        writer.write(b"".join(send_frame(start + number, b"") for number in range(2000)))
        await writer.writer.drain()
    await eventually(lambda: world.service.topics.loaded[TOPIC].publisher.messages_in == count)
    spent.clear()
    reader.say(pb.Command.FLOW, consumer_id=1, message_permits=2**31 - 1)
    await reader.messages(count)
    assert max(spent) <= 2 * DISPATCH_COST
    assert len(spent) >= count // (2 * DISPATCH_COST)
