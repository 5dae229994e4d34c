"""Browsing a topic: in both directions, through batches and chunks, filtered, a bounded piece a call, and disturbing nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from messaging.adminrpc.browse import BrowsedMessage, MessagesBrowse, MessagesBrowsed
from messaging.adminrpc.schemas import SchemaGiven
from messaging.broker.runtime.admin.browse import handlers, matches, slices
from messaging.broker.runtime.admin.browse.matches import PAGE_BYTES
from messaging.errors import InvalidValue, NotAllowed, NotFound, NotReady, SubscriptionNotFound, TopicNotFound
from messaging.payloads.reading import Reading
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import compress
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.consuming import TOPIC, filled
from tests.support.clients.raw_client import RawClient, batch_frame, encrypted_frame, send_frame
from tests.support.worlds.broker_world import BrokerWorld

NEWEST = 2**63 - 1


async def browse(world: BrokerWorld, **fields: Any) -> MessagesBrowsed:
    return await world.admin.browse.browse(MessagesBrowse(**{"topic": TOPIC, **fields}))


async def all_of(world: BrokerWorld, **fields: Any) -> list[BrowsedMessage]:
    """All pages, each from where the one before ended."""
    messages: list[BrowsedMessage] = []
    page = await browse(world, **fields)
    for _ in range(1_000):
        messages += page.messages
        if page.done:
            return messages
        at = {"ledger_id": page.ledger_id, "entry_id": page.entry_id, "batch_index": page.batch_index}
        page = await browse(world, **{**fields, **at})
    raise AssertionError("it does not come to an end")


async def sent(client: RawClient, *given: bytes) -> None:
    client.write(*given)
    for _ in given:
        await client.expect("SEND_RECEIPT")


def texts(messages: list[BrowsedMessage]) -> list[str]:
    return [message.payload.decode() for message in messages]


async def test_messages_come_in_either_direction_page_by_page_through_batches(world: BrokerWorld) -> None:
    client = await filled(world, 3)
    await sent(client, batch_frame(3, [b"3", b"4", b"5", b"6", b"7"]), send_frame(8, b"8"))
    every = [str(number) for number in range(9)]
    for size in (1, 2, 4, 100):
        assert texts(await all_of(world, messages_max=size)) == every
        back = await all_of(world, messages_max=size, backward=True, ledger_id=NEWEST, entry_id=NEWEST)
        assert texts(back) == every[::-1]
    page = await browse(world, messages_max=5)
    assert (page.looked_at, page.done, page.entries, page.left_entries, page.batch_index) == (3, False, 5, 2, 2)


async def test_it_begins_at_a_message_a_time_a_subscription_or_the_end(world: BrokerWorld) -> None:
    await filled(world, 10)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    third = topic.ledger_list.at_index(2)
    assert texts((await browse(world, ledger_id=third.ledger_id, entry_id=third.entry_id)).messages)[0] == "2"
    assert texts((await browse(world, start_ms=1_004)).messages) == ["4", "5", "6", "7", "8", "9"]
    assert texts((await browse(world, from_ms=1_004, until_ms=1_006)).messages) == ["4", "5"]
    late = {"backward": True, "ledger_id": NEWEST, "entry_id": NEWEST, "from_ms": 1_004, "until_ms": 1_006}
    assert texts((await browse(world, **late)).messages) == ["5", "4"]
    subscription = await topic.subscriptions.create("s", third)
    assert texts((await browse(world, subscription="s")).messages)[0] == "2"
    assert subscription.backlog_entries == 8, "it is not moved"
    end = await browse(world, ledger_id=NEWEST, entry_id=NEWEST)
    assert end.done and not end.messages
    await sent(await filled(world, 0), send_frame(0, b"new"))
    assert texts((await browse(world, ledger_id=end.ledger_id, entry_id=end.entry_id)).messages) == ["new"], "the tail"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"message_key": "k"}, [0, 2]),
        ({"property_name": "colour"}, [1, 2]),
        ({"property_name": "colour", "property_value": "red"}, [2]),
        ({"text": "Ada"}, [1]),
        ({"path": "$.id", "value": "2"}, [2]),
        ({"path": "$.id", "comparison": "gt", "value": "0"}, [1, 2]),
        ({"message_key": "k", "path": "$.id", "value": "0"}, [0]),
        ({"text": "nowhere"}, []),
    ],
)
async def test_filters_look_into_batches_and_compressed_entries(world: BrokerWorld, wanted: Any, found: list[int]) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    given = [("k", None, {"id": 0}), (None, "blue", {"id": 1, "name": "Ada"}), ("k", "red", {"id": 2})]
    body, plain = b"", []
    for sequence, (key, colour, value) in enumerate(given):
        properties = [pb.KeyValue(key="colour", value=colour)] if colour else []
        payload = json.dumps(value).encode()
        head = pb.SingleMetadata(payload_size=len(payload), partition_key=key, properties=properties).SerializeToString()
        body += len(head).to_bytes(4, "big") + head + payload
        metadata = pb.Metadata(
            producer_name="raw", sequence_id=3 + sequence, publish_time=1, partition_key=key, properties=properties,
            compression=pb.ZLIB, uncompressed_size=len(payload),
        )  # fmt: skip
        plain.append(frames.build_send(1, 3 + sequence, metadata, compress(pb.ZLIB, payload)))
    for codec in (pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY):
        batch = pb.Metadata(
            producer_name="raw", sequence_id=10 + codec, publish_time=1, num_messages_in_batch=3, compression=codec,
            uncompressed_size=len(body),
        )  # fmt: skip
        plain.append(frames.build_send(1, 10 + codec, batch, compress(codec, body), 3))
    await sent(client, *plain)
    page = await browse(world, **wanted)
    assert [json.loads(message.payload)["id"] for message in page.messages] == found * 6, page
    assert (page.looked_at, page.done) == (8, True)


async def test_a_value_in_avro_is_found_by_the_version_it_was_written_with(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    for fields in (["id"], ["name", "id"]):
        definition = {
            "type": "record",
            "name": "R",
            "fields": [{"name": name, "type": "int", "default": 0} for name in fields],
        }
        given = SchemaGiven(topic=TOPIC, type="AVRO", data=json.dumps(definition).encode())
        await world.admin.schemas.add(given)
    for sequence, (version, payload) in enumerate(((0, b"\x0e"), (1, b"\x0e\x02"), (1, b"\x02\x0e"))):
        metadata = pb.Metadata(producer_name="raw", sequence_id=sequence, publish_time=1, schema_version=version.to_bytes(8, "big"))
        await sent(client, frames.build_send(1, sequence, metadata, payload))
    page = await browse(world, path="id", value="7")
    assert [(message.schema_version, message.payload) for message in page.messages] == [(0, b"\x0e"), (1, b"\x02\x0e")]


async def test_chunks_come_as_one_message_or_as_what_is_missing(world: BrokerWorld) -> None:
    client = await filled(world, 1)
    whole = b"0123456789" * 50
    packed = compress(pb.ZLIB, whole)
    cuts = [packed[:10], packed[10:20], packed[20:]]

    def chunk(sequence: int, number: int, uuid: str) -> bytes:
        metadata = pb.Metadata(
            producer_name="raw", sequence_id=sequence, publish_time=2, uuid=uuid, chunk_id=number, num_chunks_from_msg=3,
            total_chunk_msg_size=len(packed), compression=pb.ZLIB, uncompressed_size=len(whole),
        )  # fmt: skip
        return frames.build_send(1, sequence, metadata, cuts[number], is_chunk=True)

    await sent(
        client, chunk(1, 0, "a"), chunk(1, 1, "a"), chunk(1, 2, "a"), send_frame(2, b"between"), chunk(3, 0, "b"), chunk(3, 1, "b")
    )
    first, together, between, lacking = (await browse(world)).messages
    assert (first.payload, between.payload) == (b"0", b"between")
    assert (together.payload, together.size_bytes, together.chunks, together.problem) == (whole, len(whole), 3, "")
    assert lacking.problem.startswith("2 of its 3 chunks were found")
    assert texts((await browse(world, text="90123")).messages) == [whole.decode()], "also across chunks"
    part = (await browse(world, exact=True, ledger_id=together.ledger_id, entry_id=together.entry_id + 1)).messages[0]
    assert (part.chunk_id, part.payload) == (1, cuts[1]) and "part of a larger message" in part.problem


async def test_encrypted_and_broken_payloads_are_said_to_be_so(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    lying = pb.Metadata(producer_name="raw", sequence_id=1, publish_time=1, compression=pb.ZSTD, uncompressed_size=7)
    await sent(client, encrypted_frame(0, b"Ada?"), frames.build_send(1, 1, lying, b"no zstd"), send_frame(2, b"Ada"))
    secret, broken, plain = (await browse(world)).messages
    assert (secret.encryption_keys, secret.payload, secret.problem) == (["app"], b"Ada?", "")
    assert broken.payload == b"no zstd" and "decompressed" in broken.problem
    assert [message.entry_id for message in (await browse(world, text="Ada")).messages] == [plain.entry_id]


async def test_a_bomb_is_not_unpacked(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    bomb = pb.Metadata(producer_name="raw", sequence_id=1, publish_time=1, compression=pb.ZLIB, uncompressed_size=2**31)
    await sent(client, frames.build_send(1, 1, bomb, compress(pb.ZLIB, b"0" * 1_000_000)))
    (message,) = (await browse(world, text="0000")).messages or (await browse(world)).messages
    assert "at most" in message.problem and message.size_bytes < 2_000


async def test_a_call_looks_at_so_many_entries_and_the_next_goes_on(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(world, 250)
    monkeypatch.setattr(handlers, "ENTRIES_MAX", 100)
    page = await browse(world, text="249")
    assert (page.messages, page.looked_at, page.left_entries, page.done) == ([], 100, 150, False)
    assert texts(await all_of(world, text="249")) == ["249"]
    monkeypatch.setattr(handlers, "SECONDS_MAX", -1.0)
    short = await browse(world)
    assert texts(short.messages) == ["0"] and not short.done, "its time is over, and yet it comes further"


async def test_payloads_are_cut_and_a_page_has_so_many_bytes(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    await sent(client, *(send_frame(number, b"x" * (PAGE_BYTES // 2)) for number in range(4)))
    cut = await browse(world, payload_bytes_max=10)
    assert [(len(message.payload), message.size_bytes) for message in cut.messages] == [(10, PAGE_BYTES // 2)] * 4
    page = await browse(world, payload_bytes_max=PAGE_BYTES)
    assert (len(page.messages), page.done) == (2, False)


async def test_nothing_is_moved_and_nothing_waits_for_it(world: BrokerWorld) -> None:
    await filled(world, 20)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    subscription = await topic.subscriptions.create("s", EARLIEST)
    before = (subscription.cursor.mark_delete, subscription.read_position, subscription.backlog_entries)
    await all_of(world, messages_max=3, subscription="s")
    assert (subscription.cursor.mark_delete, subscription.read_position, subscription.backlog_entries) == before


async def test_without_memory_it_is_refused_for_now(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(world, 1)
    monkeypatch.setattr(type(world.service.memory_limiter.egress), "allows", lambda *_: False)
    with pytest.raises(NotReady, match="memory"):
        await browse(world)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic": "persistent://acme/orders/absent"}, TopicNotFound),
        ({"topic": "non-persistent://acme/orders/t"}, NotAllowed),
        ({"subscription": "absent"}, SubscriptionNotFound),
        ({"path": "$..x"}, InvalidValue),
        ({"exact": True, "ledger_id": 999, "entry_id": 0}, NotFound),
    ],
)
async def test_what_is_not_there_or_not_understood_is_refused(world: BrokerWorld, fields: Any, error: type[Exception]) -> None:
    await filled(world, 1)
    with pytest.raises(error):
        await browse(world, **fields)


def batch_of(sequence: int, count: int, payload: bytes, **properties: str) -> bytes:
    head = pb.SingleMetadata(payload_size=len(payload), properties=[pb.KeyValue(key=k, value=v) for k, v in properties.items()])
    single = head.SerializeToString()
    body = (len(single).to_bytes(4, "big") + single + payload) * count
    metadata = pb.Metadata(
        producer_name="raw", sequence_id=sequence, publish_time=1, num_messages_in_batch=count, compression=pb.ZSTD,
        uncompressed_size=len(body),
    )  # fmt: skip
    return frames.build_send(1, sequence, metadata, compress(pb.ZSTD, body), count)


@pytest.mark.parametrize("backward", [False, True])
async def test_a_batch_of_many_messages_that_take_long_ends_with_the_time(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, backward: bool
) -> None:
    client = await filled(world, 0)
    await sent(client, batch_of(0, 2_000, b"\x80"))
    looked: list[bytes] = []
    monkeypatch.setattr(matches, "read_payload", lambda payload, reader: looked.append(payload) or Reading("hex"))
    monkeypatch.setattr(handlers, "SECONDS_MAX", -1.0)
    place = {"ledger_id": NEWEST, "entry_id": NEWEST} if backward else {}
    page = await browse(world, backward=backward, path="a", **place)
    assert (len(looked), page.batch_index, page.done) == (1, 1_998 if backward else 1, False), "each call comes further by one"


async def test_a_batch_is_looked_through_backwards_in_pieces(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await filled(world, 0)
    await sent(client, batch_frame(0, [str(number).encode() for number in range(50)]))
    monkeypatch.setattr(matches, "BACK_MESSAGES", 7)
    for size in (1, 3, 100):
        back = await all_of(world, messages_max=size, backward=True, ledger_id=NEWEST, entry_id=NEWEST)
        assert texts(back) == [str(number) for number in range(49, -1, -1)]


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_a_batch_that_breaks_off_is_read_backwards_to_its_beginning(world: BrokerWorld, size: int) -> None:
    client = await filled(world, 0)
    head = pb.SingleMetadata(payload_size=1).SerializeToString()
    body = (len(head).to_bytes(4, "big") + head + b"x") * 2 + b"\xff" * 20
    metadata = pb.Metadata(producer_name="raw", sequence_id=0, publish_time=1, num_messages_in_batch=3)
    await sent(client, frames.build_send(1, 0, metadata, body, 3))
    back = await all_of(world, messages_max=size, backward=True, ledger_id=NEWEST, entry_id=NEWEST)
    assert [(message.batch_index, bool(message.problem)) for message in back] == [(-1, True), (1, False), (0, False)]


@pytest.mark.parametrize("backward", [False, True])
async def test_keys_and_properties_count_for_the_size_of_a_page(world: BrokerWorld, backward: bool) -> None:
    client = await filled(world, 0)
    await sent(client, batch_of(0, 20, b"x", **{f"p{number}": "v" * 4_000 for number in range(100)}))
    place = {"ledger_id": NEWEST, "entry_id": NEWEST} if backward else {}
    page = await browse(world, messages_max=100, backward=backward, **place)
    assert (len(page.messages), page.done) == (3, False)
    assert len(await all_of(world, messages_max=100, backward=backward, **place)) == 20


async def test_chunks_of_others_that_never_end_are_read_up_to_a_size(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await filled(world, 0)

    def chunk(sequence: int, number: int, uuid: str) -> bytes:
        metadata = pb.Metadata(
            producer_name="raw", sequence_id=sequence, publish_time=2, uuid=uuid, chunk_id=number, num_chunks_from_msg=3,
            total_chunk_msg_size=300_000,
        )  # fmt: skip
        return frames.build_send(1, sequence, metadata, b"c" * 100_000, is_chunk=True)

    await sent(client, chunk(0, 0, "a"), *(chunk(number, 1, "b") for number in range(1, 10)), chunk(10, 1, "a"), chunk(11, 2, "a"))
    (whole,) = (await browse(world)).messages
    assert whole.problem == "" and whole.size_bytes == 300_000
    monkeypatch.setattr(slices, "CHUNK_LOOKED_BYTES_MAX", 350_000)
    page = await browse(world)
    assert page.messages[0].problem.startswith("1 of its 3 chunks were found in the 4 entries")
    assert (page.looked_at, page.done) == (12, True), "what was read for chunks is not counted twice"
