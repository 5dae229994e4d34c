"""Namespaces that take only encrypted messages, and producers that say that they encrypt."""

from __future__ import annotations

import pytest

from messaging.broker.runtime.local.messages import EncryptionContext, EncryptionKey, OutgoingMessage
from messaging.errors import EncryptionRequired
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.producer_sink import ProducerWatch
from tests.support.clients.publishing import TOPIC, producing, receipts
from tests.support.clients.raw_client import batch_frame, encrypted_frame, send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command


async def demand(world: BrokerWorld, encryption: bool) -> None:
    await world.feed(("namespace", "acme/orders", {"policies": {"encryption_required": encryption}}))


async def test_policy_encryption_required_lets_only_encrypted_messages_in(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await demand(world, True)
    assert (await client.expect("CLOSE_PRODUCER")).producer_id == 1
    client.say(C.PRODUCER, topic=TOPIC, producer_id=2)
    assert (await client.expect("ERROR")).error == pb.MetadataError
    await client.producer(TOPIC, 3, encrypted=True)
    await demand(world, False)
    await client.producer(TOPIC, 4)


async def test_whoever_says_that_it_encrypts_must(world: BrokerWorld) -> None:
    client = await producing(world, encrypted=True)
    batch = batch_frame(1, [b"a", b"b"])
    client.write(encrypted_frame(0, b"secret"), batch, send_frame(3, b"plain"), encrypted_frame(4, b"secret", count=2))
    assert await receipts(client, 1) == [(1, 0)]
    for number in (1, 3):
        refusal = await client.expect("SEND_ERROR")
        assert (refusal.sequence_id, refusal.error) == (number, pb.MetadataError)
    assert await receipts(client, 1) == [(1, 4)]


async def test_producers_of_the_broker_itself_do_not_encrypt(world: BrokerWorld) -> None:
    principal, watch = Principal("admin"), ProducerWatch()
    await world.sessions.open_producer(principal, TOPIC, None, watch)
    await demand(world, True)
    assert watch.told == ["not_ready"]
    with pytest.raises(EncryptionRequired):
        await world.sessions.open_producer(principal, TOPIC, None, ProducerWatch())


async def test_what_a_websocket_producer_encrypted_is_stored_like_any_other(world: BrokerWorld) -> None:
    await demand(world, True)
    reader = await world.connected("superuser")
    await reader.subscribe(TOPIC, permits=10)
    producer = await world.sessions.open_producer(Principal("admin"), TOPIC, None, ProducerWatch(), encrypts=True)
    context = EncryptionContext({"app": EncryptionKey(b"key", {"version": "1"})}, b"nonce", "", "LZ4", 7, None)
    producer.publish([OutgoingMessage(b"secret", encryption=context)], lambda positions, error: None)
    [message] = await reader.messages(1)
    metadata = frames.parse_metadata(message.payload)
    [key] = metadata.encryption_keys
    assert (key.key, key.value, [(one.key, one.value) for one in key.metadata]) == ("app", b"key", [("version", "1")])
    assert (metadata.encryption_param, metadata.compression, metadata.uncompressed_size) == (b"nonce", pb.LZ4, 7)
    assert message.text == b"secret"
