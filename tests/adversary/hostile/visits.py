"""Visits of a tenant with a key: whole, legal commands, fields at and just under their limits, in orders that make sense. Seeded.

Nothing here is malformed: what a visit does, a client library could be made to do. An error for what stands in the way (a producer
that was not opened, an entry that is gone) is an answer like any other. A visit that is not answered, or whose connection is ended,
is not served.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from messaging.adminrpc.backlog import BacklogAnalyze
from messaging.adminrpc.base import Method
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.delayed import DelayedList
from messaging.adminrpc.diagnosis import SubscriptionExplain, TopicExplain
from messaging.adminrpc.methods import (
    DELAYED_COUNTS,
    DELAYED_LIST,
    SCHEMAS_LIST,
    SUBSCRIPTIONS_ANALYZE_BACKLOG,
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_EXPLAIN,
    SUBSCRIPTIONS_PEEK,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
    TOPICS_COMPACT,
    TOPICS_CREATE,
    TOPICS_DELETE,
    TOPICS_EXPLAIN,
    TOPICS_FIGURES,
    TOPICS_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_STATS,
    TOPICS_TRIM,
    TOPICS_TRUNCATE,
    TOPICS_UNLOAD,
)
from messaging.adminrpc.subscriptions import (
    DeadLetterPolicySet,
    SubscriptionCreate,
    SubscriptionExpire,
    SubscriptionPeek,
    SubscriptionPropertiesSet,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import StatsAsked, TopicCreate, TopicDelete, TopicRef
from messaging.errors import MagnetarError
from messaging.limits.sizes import (
    ACK_SET_WORDS_MAX,
    BATCH_MESSAGES_MAX,
    MESSAGE_IDS_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    PAIRS_COUNT_MAX,
    PAIRS_TOTAL_BYTES_MAX,
    PERMITS_MAX,
    SCHEMA_BYTES_MAX,
    TOPIC_BYTES_MAX,
)
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.times import TIME_MS_MAX
from tests.adversary.hostile.peers import SERVED_S, NotServed
from tests.support.clients.raw_client import Closed, RawClient

NAMESPACE = "guest/house"
TOPICS = [f"persistent://{NAMESPACE}/room-{number}" for number in range(6)]
SUBSCRIPTIONS = ["a", "b", "c", "d", "𝄞" * 200]
TYPES = [pb.Subscribe.Exclusive, pb.Subscribe.Shared, pb.Subscribe.Failover, pb.Subscribe.Key_Shared, pb.Subscribe.Key_Shared]
RANGES_MAX = 1024  # of one consumer
MESSAGE_BYTES = 5 << 20
LARGE_SHARE = 0.05  # of operations that may be large, those that are as large as can be
Step = Callable[["Visitor"], Awaitable[None]]


def pairs(chance: random.Random) -> list[pb.KeyValue]:
    """As many, as long, or together as long as they may be, or one less."""
    less = chance.randrange(2)
    kind = chance.randrange(4)
    if kind == 0:
        return [pb.KeyValue(key=f"k{number}", value="v") for number in range(PAIRS_COUNT_MAX - less)]
    if kind == 1:
        return [pb.KeyValue(key="k", value="v" * (PAIR_BYTES_MAX - less))]
    if kind == 2:
        size = PAIRS_TOTAL_BYTES_MAX // PAIRS_COUNT_MAX
        return [pb.KeyValue(key=f"{number:04}", value="v" * (size - 4 - less)) for number in range(PAIRS_COUNT_MAX)]
    return []


@cache
def large_batch(count: int) -> bytes:
    """Made once: the payload of a batch of that many messages, each of one byte."""
    head = pb.SingleMetadata(payload_size=1).SerializeToString()
    return (len(head).to_bytes(4, "big") + head + b"x") * count


class NotOpen(Exception):
    """The step needs a producer."""


class Visitor:
    """One connection of the tenant. `done` counts what it did, `refused` the errors that it got."""

    def __init__(self, client: RawClient, chance: random.Random, admin: AdminRpc) -> None:
        self.client = client
        self.chance = chance
        self.admin = admin
        self.thread = ThreadPoolExecutor(1)  # of the admin calls: a connection belongs to its thread
        self.held: list[tuple[int, pb.MessageId]] = []  # consumer, message
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.producers: list[int] = []  # open, as far as the visitor was told
        self.consumers: list[int] = []
        self.opening: dict[int, int] = {}  # request -> producer
        self.sequence = self.ids = 0

    async def settle(self) -> None:
        """Until everything that was said is answered. What was received is held."""
        self.client.write(frames.PING)
        while (answer := await self.client.next(SERVED_S)).name != "PONG":
            if answer.name == "MESSAGE":
                self.held.append((answer.body.consumer_id, answer.body.message_id))
            elif answer.name == "PRODUCER_SUCCESS":
                self.producers.append(self.opening.pop(answer.body.request_id))
            elif answer.name == "CLOSE_PRODUCER" and answer.body.producer_id in self.producers:
                self.producers.remove(answer.body.producer_id)
            elif answer.name == "CLOSE_CONSUMER" and answer.body.consumer_id in self.consumers:
                self.consumers.remove(answer.body.consumer_id)
            elif answer.name in ("ERROR", "SEND_ERROR"):
                self.refused[f"{pb.Error.Name(answer.body.error)}: {answer.body.message[:60]}"] += 1
        del self.held[: -2 * MESSAGE_IDS_MAX]

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    def some_consumer(self) -> int:
        return self.chance.choice(self.consumers or [0])

    def some_producer(self) -> int:
        """Raises `NotOpen`."""
        if not self.producers:
            raise NotOpen
        return self.chance.choice(self.producers)

    def large(self) -> bool:
        return self.chance.random() < LARGE_SHARE

    def number(self, most: int, usual: int) -> int:
        """At its limit, just under it, or something usual."""
        return most - self.chance.randrange(2) if self.large() else self.chance.randint(1, usual)


# --- producers and messages


async def open_producer(visitor: Visitor) -> None:
    chance = visitor.chance
    fields: dict[str, Any] = {"metadata": pairs(chance)}
    if chance.random() < 0.2:
        name = f"{chance.randrange(10**9):x}"
        fields |= {"producer_name": name.ljust(NAME_BYTES_MAX - chance.randrange(2), "n"), "user_provided_producer_name": True}
    producer_id = visitor.new_id()
    request_id = visitor.client.say(pb.Command.PRODUCER, topic=chance.choice(TOPICS), producer_id=producer_id, **fields)
    visitor.opening[request_id] = producer_id
    await visitor.settle()  # a client publishes when its producer is open


def _send(visitor: Visitor, payload: bytes, count: int = 1, *, producer: int | None = None, **fields: Any) -> None:
    visitor.sequence += 1
    metadata = pb.Metadata(producer_name="v", sequence_id=visitor.sequence, publish_time=1_000, **fields)
    at = visitor.some_producer() if producer is None else producer
    visitor.client.write(frames.build_send(at, visitor.sequence, metadata, payload, count, is_chunk="chunk_id" in fields))


async def publish(visitor: Visitor) -> None:
    """Keys of few and of many values, of no and of much length; properties at their limits; nothing as a payload."""
    chance = visitor.chance
    keys = chance.choice([1, 5, 10_000])
    for _ in range(chance.choice([1, 50, 500])):
        key = f"{chance.randrange(keys)}" * (5_000 if chance.random() < 0.01 else 1)
        _send(visitor, chance.randbytes(chance.choice([0, 1, 100])), partition_key=key, null_value=chance.random() < 0.05)
    if visitor.large():
        _send(visitor, b"", properties=[pb.KeyValue(key="k", value="v" * (1 << 20))])
        _send(visitor, bytes(MESSAGE_BYTES - 1_000))


async def publish_batches(visitor: Visitor) -> None:
    count = BATCH_MESSAGES_MAX - visitor.chance.randrange(2) if visitor.large() else visitor.chance.choice([2, 64, 1_000])
    for _ in range(1 if count > 1_000 else 20):
        _send(visitor, large_batch(count), count, num_messages_in_batch=count)


async def publish_chunks(visitor: Visitor) -> None:
    """Many first chunks; some that go on; of as many as there may be."""
    chance, producer = visitor.chance, visitor.some_producer()
    for number in range(chance.choice([1, 100])):
        uuid, count = f"{chance.random()}-{number}", visitor.number(2**31 - 1, 5)
        for chunk in range(min(count, chance.choice([1, 1, 2, 5]))):
            fields: dict[str, Any] = {
                "uuid": uuid,
                "num_chunks_from_msg": count,
                "total_chunk_msg_size": 10 * min(count, 10**8),
                "chunk_id": chunk,
            }
            _send(visitor, b"x" * 10, producer=producer, **fields)


async def publish_delayed(visitor: Visitor) -> None:
    chance = visitor.chance
    soon = 1_900_000_000_000
    times = chance.choice([[soon], [TIME_MS_MAX, TIME_MS_MAX - 1], [soon + step for step in range(500)], [1, soon]])
    for _ in range(chance.choice([1, 300])):
        _send(visitor, b"d", deliver_at_time=chance.choice(times), partition_key=f"{chance.randrange(9)}")


async def close_producer(visitor: Visitor) -> None:
    producer_id = visitor.some_producer()
    visitor.client.say(pb.Command.CLOSE_PRODUCER, producer_id=producer_id)
    visitor.producers.remove(producer_id)


# --- consumers


async def subscribe(visitor: Visitor) -> None:
    chance, kind = visitor.chance, visitor.chance.choice(TYPES)
    fields: dict[str, Any] = {"sub_type": kind, "metadata": pairs(chance), "subscription_properties": pairs(chance)}
    fields |= {"initial_position": chance.choice([pb.Subscribe.Earliest, pb.Subscribe.Latest]), "durable": chance.random() < 0.8}
    if chance.random() < 0.2:
        fields["consumer_name"] = "c" * (NAME_BYTES_MAX - chance.randrange(2))
    if kind == pb.Subscribe.Key_Shared and chance.random() < 0.5:
        begin, step = chance.randrange(30), 64
        ranges = [
            pb.IntRange(start=begin + step * index, end=begin + step * index) for index in range(RANGES_MAX - chance.randrange(2))
        ]
        fields["key_shared_meta"] = pb.KeySharedMeta(mode=pb.KeySharedMeta.STICKY, hash_ranges=ranges)
    topic, name, consumer_id = chance.choice(TOPICS), chance.choice(SUBSCRIPTIONS), visitor.new_id()
    visitor.client.say(pb.Command.SUBSCRIBE, topic=topic, subscription=name, consumer_id=consumer_id, **fields)
    visitor.consumers.append(consumer_id)
    await flow(visitor)


async def flow(visitor: Visitor) -> None:
    permits = visitor.number(PERMITS_MAX, 1_000)
    visitor.client.say(pb.Command.FLOW, consumer_id=visitor.some_consumer(), message_permits=permits)


async def reject_all(visitor: Visitor) -> None:
    visitor.client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=visitor.some_consumer())


def _some_held(visitor: Visitor) -> tuple[int, list[pb.MessageId]]:
    """Messages of one consumer: as many as one command may name, or some."""
    consumer = visitor.chance.choice(visitor.held)[0] if visitor.held else 0
    most = MESSAGE_IDS_MAX if visitor.chance.random() < 0.3 else visitor.chance.choice([1, 10, 500])
    return consumer, [message_id for holder, message_id in visitor.held if holder == consumer][:most]


async def reject_held(visitor: Visitor) -> None:
    consumer, ids = _some_held(visitor)
    visitor.client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=consumer, message_ids=ids)


async def acknowledge(visitor: Visitor) -> None:
    chance = visitor.chance
    consumer, ids = _some_held(visitor)
    if not ids:
        return
    fields: dict[str, Any] = {"consumer_id": consumer, "ack_type": pb.Ack.Individual, "message_id": ids}
    if chance.random() < 0.2:
        fields |= {"ack_type": pb.Ack.Cumulative, "message_id": [chance.choice(ids)]}
    elif chance.random() < 0.2:  # a part of a batch, in as many words as there may be
        message_id = chance.choice(ids)
        words = ACK_SET_WORDS_MAX if visitor.large() else 1
        fields["message_id"] = [
            pb.MessageId(ledger_id=message_id.ledger_id, entry_id=message_id.entry_id, ack_set=[-1 ^ 1] * words)
        ]
    if chance.random() < 0.5:
        fields["request_id"] = 7_000 + chance.randrange(1_000)
    visitor.client.say(pb.Command.ACK, **fields)


async def seek(visitor: Visitor) -> None:
    chance = visitor.chance
    where: list[dict[str, Any]] = [
        {"message_publish_time": chance.choice([0, 1, TIME_MS_MAX, 2**63 - 1])},
        {"message_id": pb.MessageId(ledger_id=frames.NO_ID, entry_id=frames.NO_ID)},
        {"message_id": pb.MessageId(ledger_id=2**63 - 1, entry_id=2**63 - 1)},
    ]
    if visitor.held:
        where.append({"message_id": chance.choice(visitor.held)[1]})
    visitor.client.say(pb.Command.SEEK, consumer_id=visitor.some_consumer(), **chance.choice(where))


async def ask(visitor: Visitor) -> None:
    """Everything that only reads."""
    chance, client, topic = visitor.chance, visitor.client, visitor.chance.choice(TOPICS)
    for _ in range(chance.choice([1, 20])):
        kind = chance.randrange(6)
        if kind == 0:
            client.say(pb.Command.GET_LAST_MESSAGE_ID, consumer_id=visitor.some_consumer())
        elif kind == 1:
            client.say(pb.Command.CONSUMER_STATS, consumer_id=visitor.some_consumer())
        elif kind == 2:
            client.say(pb.Command.LOOKUP, topic=topic, advertised_listener_name="l" * (NAME_BYTES_MAX - chance.randrange(2)))
        elif kind == 3:
            client.say(pb.Command.PARTITIONED_METADATA, topic=topic)
        elif kind == 4:
            pattern = f"persistent://{NAMESPACE}/" + "(room|" * 3 + "x" * chance.choice([1, TOPIC_BYTES_MAX - 100]) + ")" * 3
            client.say(pb.Command.GET_TOPICS_OF_NAMESPACE, namespace=NAMESPACE, topics_pattern=pattern)
        else:
            client.say(pb.Command.GET_SCHEMA, topic=topic)


async def register_schema(visitor: Visitor) -> None:
    chance = visitor.chance
    if chance.random() < 0.5:  # text, with properties as long as they may be together
        size = SCHEMA_BYTES_MAX if visitor.large() else 1_000
        schema = pb.Schema(name="s", schema_data=b"", type=1, properties=[pb.KeyValue(key="k", value="v" * (size - 100))])
    else:
        fields = ",".join(f'{{"name":"f{index}","type":"int","default":0}}' for index in range(chance.choice([1, 2, 300])))
        data = f'{{"type":"record","name":"R","fields":[{fields}]}}'.encode()
        schema = pb.Schema(name="s", schema_data=data, type=4, properties=pairs(chance))
    visitor.client.say(pb.Command.GET_OR_CREATE_SCHEMA, topic=chance.choice(TOPICS), schema=schema)


async def close_consumer(visitor: Visitor) -> None:
    visitor.client.say(pb.Command.CLOSE_CONSUMER, consumer_id=visitor.some_consumer())


async def unsubscribe(visitor: Visitor) -> None:
    visitor.client.say(pb.Command.UNSUBSCRIBE, consumer_id=visitor.some_consumer())


# --- the admin API: the calls that its routes end in


async def administer(visitor: Visitor) -> None:
    chance = visitor.chance
    of: dict[str, Any] = {"topic": chance.choice(TOPICS)}
    of_subscription = of | {"subscription": chance.choice(SUBSCRIPTIONS)}
    properties = {pair.key: pair.value for pair in pairs(chance)}
    asked: list[tuple[Method[Any, Any], Any]] = [
        (TOPICS_STATS, StatsAsked(**of)),
        (TOPICS_FIGURES, TopicRef(**of)),
        (TOPICS_INTERNAL_STATS, TopicRef(**of)),
        (TOPICS_TRIM, TopicRef(**of)),
        (TOPICS_UNLOAD, TopicRef(**of)),
        (TOPICS_TRUNCATE, TopicRef(**of)),
        (TOPICS_COMPACT, TopicRef(**of)),
        (TOPICS_EXPLAIN, TopicExplain(**of)),
        (
            TOPICS_CREATE,
            TopicCreate(topic=f"{of['topic']}-parts", partitions=chance.choice([1, 50]), properties=properties),
        ),
        (TOPICS_PARTITIONED_STATS, StatsAsked(topic=f"{of['topic']}-parts")),
        (TOPICS_DELETE, TopicDelete(topic=chance.choice(TOPICS), force=True)),
        (SCHEMAS_LIST, TopicRef(**of)),
        (DELAYED_COUNTS, TopicRef(**of)),
        (DELAYED_LIST, DelayedList(**of)),
        (SUBSCRIPTIONS_CREATE, SubscriptionCreate(**of_subscription, properties=properties)),
        (SUBSCRIPTIONS_SET_PROPERTIES, SubscriptionPropertiesSet(**of_subscription, properties=properties)),
        (SUBSCRIPTIONS_EXPLAIN, SubscriptionExplain(**of_subscription)),
        (SUBSCRIPTIONS_ANALYZE_BACKLOG, BacklogAnalyze(**of_subscription)),
        (SUBSCRIPTIONS_SKIP, SubscriptionSkip(**of_subscription, entries=chance.choice([None, 1, 2**62]))),
        (SUBSCRIPTIONS_RESET, SubscriptionReset(**of_subscription, timestamp_ms=chance.choice([0, TIME_MS_MAX]))),
        (SUBSCRIPTIONS_EXPIRE, SubscriptionExpire(**of_subscription, older_than_s=chance.choice([0, 1, 2**31]))),
        (SUBSCRIPTIONS_PEEK, SubscriptionPeek(**of_subscription, position=chance.choice([1, 2, 1_000, 2**62]))),
        (
            SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
            DeadLetterPolicySet(**of_subscription, max_redeliver_count=chance.choice([1, 3]), target=TOPICS[-1], owner="guest"),
        ),
    ]
    method, request = chance.choice(asked)
    try:
        calling = asyncio.get_running_loop().run_in_executor(visitor.thread, partial(visitor.admin.call, method, request))
        await asyncio.wait_for(calling, SERVED_S)
    except MagnetarError as error:
        visitor.refused[f"{method.name}: {error.code}"] += 1
    except TimeoutError:
        raise NotServed(f"{method.name} was not answered in {SERVED_S:.0f} s") from None


# The order in which clients do things, with more of what they do often.
BEGINNING: tuple[Step, ...] = (open_producer, subscribe, open_producer, subscribe)
STEPS: dict[Step, int] = {
    publish: 8,
    publish_batches: 4,
    publish_chunks: 3,
    publish_delayed: 3,
    flow: 6,
    acknowledge: 6,
    reject_all: 4,
    reject_held: 3,
    seek: 2,
    ask: 3,
    register_schema: 2,
    subscribe: 4,
    open_producer: 2,
    close_consumer: 1,
    close_producer: 1,
    unsubscribe: 1,
    administer: 6,
}


def steps_of(chance: random.Random, count: int) -> list[Step]:
    return [*BEGINNING, *chance.choices(list(STEPS), list(STEPS.values()), k=count)]


async def visit(port: int, token: str, admin: AdminRpc, seed: int, count: int) -> Visitor:
    """One connection that takes `count` steps. Raises `NotServed`."""
    chance = random.Random(seed)
    client = await RawClient.open(port)
    visitor = Visitor(client, chance, admin)
    step = "connect"
    try:
        await client.connect(token, version="v" * (255 - chance.randrange(2)))
        for taken in steps_of(chance, count):
            step = taken.__name__
            try:
                await taken(visitor)
            except NotOpen:
                continue
            visitor.done[step] += 1
            if chance.random() < 0.7:  # the others say more before they hear the answers
                await visitor.settle()
        await visitor.settle()
    except Closed:
        raise NotServed(f"visit {seed}: the broker ended the connection at or before {step}") from None
    except AssertionError as error:
        raise NotServed(f"visit {seed}: {step} was not answered: {error}") from None
    finally:
        await asyncio.get_running_loop().run_in_executor(visitor.thread, admin.close)
        visitor.thread.shutdown()
        await client.close()
    return visitor
