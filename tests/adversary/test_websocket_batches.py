"""Batches on their way to WebSocket consumers, and acknowledgements that name what is not there."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets

from messaging.broker.runtime.local.unpacking import UNREADABLE
from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.message_id import encode_message_id
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.batches import single, store
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/t"
CONSUMER = "/ws/v2/consumer/persistent/acme/orders/t/s"
COMPRESSED = [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]


@asynccontextmanager
async def consuming(broker: RunningBroker, query: str = "") -> AsyncIterator[websockets.ClientConnection]:
    url = f"{broker.ws_url}{CONSUMER}?subscriptionType=Shared&subscriptionInitialPosition=Earliest&{query}"
    headers = {"Authorization": f"Bearer {broker.token('reader')}"}
    async with websockets.connect(url, additional_headers=headers, proxy=None, max_size=None) as connection:
        yield connection


async def received(connection: websockets.ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(connection.recv(), 20))


async def backlog(broker: RunningBroker) -> int:
    topic = await broker.service.topics.get(parse_topic(TOPIC), create=False)
    return topic.subscriptions.table["s"].backlog_entries


async def answered(connection: websockets.ClientConnection) -> None:
    """What was sent before has been handled."""
    await connection.send('{"type":"isEndOfTopic"}')
    assert (await received(connection)).keys() == {"endOfTopic"}


@pytest.mark.parametrize("batch_index", [3, 2**31 - 1, 2**31, 2**33, 2**62])
async def test_an_acknowledgement_of_an_index_that_the_batch_does_not_have_acknowledges_nothing(
    tmp_path: Path, batch_index: int
) -> None:
    """Seen: index 2^33 took 2.2 GB and 8 s, as a number with that bit."""
    async with running_broker(tmp_path) as broker:
        position = await store(broker.service, TOPIC, b"".join(map(single, (b"a", b"b", b"c"))), 3)
        async with consuming(broker) as connection:
            ids = [(await received(connection))["messageId"] for _ in range(3)]
            tracemalloc.start()
            await connection.send(json.dumps({"messageId": encode_message_id(*position, batch_index)}))
            await answered(connection)
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak_bytes < 4 << 20
            assert await backlog(broker) == 1
            for message_id in ids:
                await connection.send(json.dumps({"messageId": message_id}))
            await answered(connection)
            await eventually(lambda: not broker.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries)


async def test_an_acknowledgement_of_one_message_of_a_batch_that_was_not_given_acknowledges_nothing(tmp_path: Path) -> None:
    """It acknowledged the whole batch: the others, which nobody had read, were lost."""
    async with running_broker(tmp_path) as broker:
        position = await store(broker.service, TOPIC, b"".join(map(single, (b"a", b"b", b"c"))), 3)
        async with consuming(broker, "pullMode=true") as connection:
            await connection.send(json.dumps({"messageId": encode_message_id(*position, 1)}))
            await answered(connection)
            assert await backlog(broker) == 1
            await connection.send('{"type":"permit","permitMessages":3}')
            payloads = [(await received(connection))["payload"] for _ in range(3)]
            assert [base64.b64decode(payload) for payload in payloads] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("acknowledged", [{2}, {1, 2}, {0, 2}, {0}])
async def test_an_acknowledgement_of_the_last_messages_of_a_batch_is_kept(tmp_path: Path, acknowledged: set[int]) -> None:
    """What was left open of the batch was taken for the whole batch: the last messages came again, although their
    acknowledgement had been answered."""
    async with running_broker(tmp_path) as broker:
        await store(broker.service, TOPIC, b"".join(map(single, (b"0", b"1", b"2"))), 3)
        async with consuming(broker) as connection:
            ids = [(await received(connection))["messageId"] for _ in range(3)]
            for index in acknowledged:
                await connection.send(json.dumps({"messageId": ids[index]}))
            await answered(connection)
        async with consuming(broker) as connection:
            again = {base64.b64decode((await received(connection))["payload"]) for _ in range(3 - len(acknowledged))}
            assert again == {str(index).encode() for index in range(3) if index not in acknowledged}
            await answered(connection)  # nothing else came before it


@pytest.mark.parametrize("compression", COMPRESSED, ids=pb.Compression.Name)
async def test_a_batch_of_very_many_messages_is_charged_whole_and_made_as_it_is_read(tmp_path: Path, compression: int) -> None:
    """Seen: 800,000 messages in 459 bytes. Each became an object in the broker before the first was sent."""
    async with running_broker(tmp_path) as broker:
        body = single(b"") * BATCH_MESSAGES_MAX
        await store(broker.service, TOPIC, body, BATCH_MESSAGES_MAX, compression=compression)
        account = broker.service.memory_limiter.egress
        tracemalloc.start()
        async with consuming(broker, "receiverQueueSize=10") as connection:
            for _ in range(10):
                await received(connection)
            await answered(connection)
            held_bytes, peak_bytes = account.used_bytes, tracemalloc.get_traced_memory()[1]
            await connection.send(json.dumps({"messageId": "CAEQAA=="}))
        tracemalloc.stop()
        assert held_bytes >= len(body)
        assert peak_bytes < 3 * len(body) + (8 << 20)
        await eventually(lambda: not account.used_bytes)


async def test_an_entry_that_unpacks_to_more_than_its_share_waits_for_others_and_not_for_itself(tmp_path: Path) -> None:
    """What an entry holds while it is packed kept it from being opened, for good."""
    async with running_broker(tmp_path) as broker:
        account = broker.service.memory_limiter.egress
        body = single(random.Random(1).randbytes(4_700_000) + bytes(10 << 20))
        await store(broker.service, TOPIC, body, 1, compression=pb.LZ4)
        await store(broker.service, TOPIC, body, 1, compression=pb.LZ4)
        async with consuming(broker) as connection:
            for _ in range(2):
                assert len((await received(connection))["payload"]) > len(body)
        await eventually(lambda: not account.used_bytes)


@pytest.mark.parametrize("compression", COMPRESSED, ids=pb.Compression.Name)
async def test_a_bomb_comes_whole_with_the_reason_and_can_be_acknowledged(tmp_path: Path, compression: int) -> None:
    """It was passed over, and stood in the way of its subscription's mark-delete position for good."""
    async with running_broker(tmp_path) as broker:
        await store(broker.service, TOPIC, bytes(30 << 20), 1, compression=compression)
        await store(broker.service, TOPIC, bytes(3 << 20), 1, compression=compression, declared_bytes=1000)
        await store(broker.service, TOPIC, single(b"good"), 1)
        async with consuming(broker) as connection:
            bomb, liar, good = [await received(connection) for _ in range(3)]
            assert "31457280" in bomb["properties"][UNREADABLE]
            assert liar["properties"][UNREADABLE]
            assert base64.b64decode(good["payload"]) == b"good" and not good["properties"]
            for message in (bomb, liar, good):
                await connection.send(json.dumps({"messageId": message["messageId"]}))
            await answered(connection)
            await eventually(lambda: not broker.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries)


async def test_the_rest_of_a_broken_batch_comes_as_a_single_message(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await store(broker.service, TOPIC, single(b"good") + b"\xff" * 20, 3)
        async with consuming(broker) as connection:
            good, rest = [await received(connection) for _ in range(2)]
            assert base64.b64decode(good["payload"]) == b"good"
            assert "message 1 of a batch of 3" in rest["properties"][UNREADABLE]
            await connection.send(json.dumps({"messageId": rest["messageId"]}))
            await answered(connection)
            await eventually(lambda: not broker.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries)
