"""SEND commands that the hot loop accepts and Protocol Buffers refuses.

Seen: where two of them were in one block, and one was a batch, asking for the messages of an entry raised; where one of them was in
a topic to be compacted, the worker ended, so that no topic after it was compacted, whoever owned it."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from messaging.broker.core.entries import EntryBlock, for_log
from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.hot import SendFrame
from messaging.protocol.send_commands import message_count
from tests.support.compacting import batch, compact, keyed, publish, read_all
from tests.support.worlds.broker_world import BrokerWorld

FIELD_ZERO = b"\x00\x00"
NO_MESSAGE_ID = b"\x4a\x01\xff"
KEY_OF_TEN_BYTES = b"\x80" * 8 + b"\x01\x01"
LONG_KEY_OF_COUNT = b"\x98\x00\x7f"  # Protocol Buffers reads 127 messages, the hot loop a field that it does not know


def with_fields(frame: bytes, fields: bytes) -> bytes:
    """`frame` with more fields at the end of its SEND command."""
    stop = 8 + int.from_bytes(frame[4:8], "big")
    body = frame[12:stop] + fields
    command = frame[8:10] + b"\x32" + len(body).to_bytes(1, "big") + body
    rest = len(command).to_bytes(4, "big") + command + frame[stop:]
    return len(rest).to_bytes(4, "big") + rest


def command_of(frame: bytes) -> bytes:
    return frame[8 : 8 + int.from_bytes(frame[4:8], "big")]


def scanned(data: bytes) -> list[SendFrame]:
    sends: list[SendFrame] = []
    assert hot.scan(data, 0, len(data), sends) == len(data)
    return sends


@pytest.mark.parametrize("fields", [FIELD_ZERO, NO_MESSAGE_ID, KEY_OF_TEN_BYTES])
def test_a_send_that_protobuf_refuses_counts_as_on_arrival(fields: bytes) -> None:
    frame = with_fields(batch([("a", b"1"), ("b", b"2"), ("c", b"3")]), fields)
    with pytest.raises(DecodeError):
        pb.Command.FromString(command_of(frame))
    (sent,) = scanned(frame)
    assert (sent.flags, sent.message_count, message_count(command_of(frame))) == (0, 3, 3)


def test_a_send_that_protobuf_reads_differently_counts_as_on_arrival() -> None:
    frame = with_fields(batch([("a", b"1"), ("b", b"2")]), LONG_KEY_OF_COUNT)
    assert pb.Command.FromString(command_of(frame)).send.num_messages == 127
    (sent,) = scanned(frame)
    assert (sent.message_count, message_count(command_of(frame))) == (2, 2)


@pytest.mark.parametrize("command", [b"", b"\x08", b"\x08\x06\x32\x7f\x08", b"\xff" * 40])
def test_bytes_that_are_no_command_count_as_a_single_message(command: bytes) -> None:
    assert message_count(command) == 1


def test_a_block_of_them_is_shared_out() -> None:
    data = b"".join(with_fields(batch([("a", b"1")] * count), NO_MESSAGE_ID) for count in (2, 3))
    sent = scanned(data)
    summary = hot.summarize(sent)
    kept = for_log(data, sent, summary.end_offsets)
    block = EntryBlock(1, 0, kept, summary.end_offsets, 1, summary.message_count)
    assert (block.messages_of(0), block.messages_of(1), block.counts) == (2, 3, [2, 3])


async def test_a_topic_of_them_is_compacted(world: BrokerWorld, tmp_path: Path) -> None:
    bad = with_fields(batch([("a", b"1"), ("b", b"2")]), NO_MESSAGE_ID)
    await publish(world.service, keyed("a", b"0"), bad, with_fields(keyed("c", b"3"), FIELD_ZERO), keyed("b", b"4"))
    assert await compact(world.service, tmp_path) == 2
    assert [(message.key, message.value) for message in await read_all(world.service)] == [("a", b"1"), ("c", b"3"), ("b", b"4")]
