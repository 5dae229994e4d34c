"""The pure stages of the consumer, each alone."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.client.arguments import consumer_options
from messaging.client.consuming.acks import AGAIN_KEPT_MAX, AckTracker, Delivered, bits_of, words_of
from messaging.client.consuming.assembly import Assembly
from messaging.client.consuming.options import DeadLetterPolicy
from messaging.client.consuming.redelivery import Entry, RedeliveryBackoff, Schedule
from messaging.client.consuming.unpacking import CHECKSUM, Unpacker, Unreadable, open_entry, value_of
from messaging.client.errors import InvalidValue
from messaging.client.message import MessageId
from messaging.client.schemas import AUTO_CONSUME, BYTES, Json, Schema
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import Stored, build_send
from tests.support.clients.batches import single

ENTRY = Entry(3, 7)


def ids_of(commands: list[pb.Ack]) -> list[tuple[int, int, list[int]]]:
    return [(id_.ledger_id, id_.entry_id, list(id_.ack_set)) for command in commands for id_ in command.message_id]


# --- acknowledgements


@given(st.integers(0, 2**200))
def test_a_set_of_bits_is_read_as_it_was_written(bits: int) -> None:
    words = words_of(bits)
    assert bits_of(words) == bits and all(-(1 << 63) <= word < 1 << 63 for word in words)


def test_a_part_of_a_batch_is_acknowledged_by_its_set_and_the_last_message_by_the_entry() -> None:
    acks = AckTracker(batch_index=True)
    acks.delivered(ENTRY, Delivered(10, (1 << 10) - 1, 0))
    assert acks.ack(MessageId(*ENTRY, 2)) is None
    assert ids_of(acks.take(1, 100)) == [(3, 7, [1019])], "as conformance tests of Pulsar have it"
    for index in {*range(10)} - {2, 9}:
        acks.ack(MessageId(*ENTRY, index))
    assert acks.ack(MessageId(*ENTRY, 9)) == ENTRY
    assert ids_of(acks.take(1, 100)) == [(3, 7, [])] and not acks.waiting


def test_without_sets_the_broker_hears_of_whole_batches_only() -> None:
    acks = AckTracker(batch_index=False)
    acks.delivered(ENTRY, Delivered(2, 0b11, 0))
    acks.ack(MessageId(*ENTRY, 0))
    assert not acks.tells_of(MessageId(*ENTRY, 0)) and acks.take(1, 100) == []
    acks.ack(MessageId(*ENTRY, 1))
    assert all(acks.tells_of(MessageId(*ENTRY, index)) for index in (-1, 0, 1))
    assert ids_of(acks.take(1, 100)) == [(3, 7, [])]
    acks.delivered(ENTRY, Delivered(2, 0b11, 0))
    acks.ack_cumulative(MessageId(*ENTRY, 0))
    assert [acks.tells_of(MessageId(3, entry_id, 0)) for entry_id in (6, 7)] == [True, False]
    assert ids_of(acks.take(1, 100)) == [(3, 6, [])], "up to the entry before"


def test_the_entry_before_may_be_of_another_ledger() -> None:
    acks = AckTracker(batch_index=False)
    acks.delivered(Entry(2, 9), Delivered(1, 1, 0))
    acks.delivered(Entry(2, 5), Delivered(1, 1, 0))
    acks.delivered(Entry(3, 0), Delivered(2, 0b11, 0))
    acks.ack(MessageId(2, 5))
    assert acks.ack_cumulative(MessageId(3, 0, 0)) == [Entry(2, 9)]
    assert ids_of(acks.take(1, 100)) == [(2, 9, [])]


@pytest.mark.parametrize("batch_index", [True, False])
def test_a_batch_that_comes_again_may_be_acknowledged_before_it_does(batch_index: bool) -> None:
    """After `redeliver` and after a negative acknowledgement."""
    acks = AckTracker(batch_index=batch_index)
    for number in range(2):
        acks.delivered(Entry(3, number), Delivered(2, 0b11, 0))
        acks.ack(MessageId(3, number, 0))
    acks.take(1, 100)
    acks.come_again([Entry(3, 0)], ())
    assert acks.ack(MessageId(3, 0, 1)) == Entry(3, 0)
    acks.all_come_again(())
    assert acks.ack(MessageId(3, 1, 1)) == Entry(3, 1)
    assert ids_of(acks.take(1, 100)) == [(3, 0, []), (3, 1, [])]


def test_of_what_is_to_be_sent_it_is_known_what_it_tells_of() -> None:
    acks = AckTracker(batch_index=True)
    acks.delivered(ENTRY, Delivered(4, 0b1111, 0))
    acks.ack(MessageId(*ENTRY, 1))
    assert [acks.tells_of(MessageId(*ENTRY, index)) for index in range(-1, 4)] == [False, False, True, False, False]
    acks.ack_cumulative(MessageId(*ENTRY, 2))
    assert [acks.tells_of(MessageId(*ENTRY, index)) for index in range(-1, 4)] == [False, True, True, True, False]
    assert acks.tells_of(MessageId(3, 6, 3)) and not acks.tells_of(MessageId(3, 8))
    acks.take(1, 100)
    assert not acks.tells_of(MessageId(*ENTRY, 1)), "it was sent"


def test_a_cumulative_acknowledgement_covers_those_before_it() -> None:
    acks = AckTracker(batch_index=True)
    for entry in range(5):
        acks.delivered(Entry(1, entry), Delivered(1, 1, 0))
    acks.ack(MessageId(1, 0))
    assert acks.ack_cumulative(MessageId(1, 2)) == [Entry(1, 1), Entry(1, 2)]
    assert acks.ack_cumulative(MessageId(1, 1)) == [], "an earlier one takes nothing back"
    (command,) = acks.take(1, 100)
    assert command.ack_type == pb.Ack.Cumulative and ids_of([command]) == [(1, 2, [])]


def test_the_chunks_of_a_message_are_acknowledged_with_it() -> None:
    acks = AckTracker(batch_index=True)
    acks.delivered(ENTRY, Delivered(1, 1, 0, (Entry(3, 5), Entry(3, 6))))
    acks.ack(MessageId(*ENTRY))
    assert ids_of(acks.take(1, 2)) == [(3, 5, []), (3, 6, []), (3, 7, [])]


def test_an_acknowledgement_of_a_batch_that_is_not_known_says_nothing() -> None:
    acks = AckTracker(batch_index=True)
    assert acks.ack(MessageId(*ENTRY, 1)) is None and not acks.tells_of(MessageId(*ENTRY, 1)) and acks.take(1, 100) == []
    assert acks.ack(MessageId(*ENTRY)) == ENTRY, "a message that is no batch is acknowledged by its id alone"


def test_what_is_acknowledged_after_a_break_leaves_the_rest_of_its_batch() -> None:
    acks = AckTracker(batch_index=True)
    for number in range(2):
        acks.delivered(Entry(3, number), Delivered(3, 0b111, 0))
    acks.all_come_again(())
    acks.all_come_again(())  # twice before the application was done
    assert acks.ack(MessageId(3, 0, 1)) is None
    assert ids_of(acks.take(1, 100)) == [(3, 0, [0b101])]
    assert acks.ack_cumulative(MessageId(3, 1, 0)) == []
    assert ids_of(acks.take(1, 100)) == [(3, 1, [0b110])]
    acks.delivered(Entry(3, 1), Delivered(3, 0b110, 1))
    assert acks.ack(MessageId(3, 1, 1)) is None and acks.ack(MessageId(3, 1, 2)) == Entry(3, 1)


def test_of_breaks_long_ago_not_everything_is_known() -> None:
    acks = AckTracker(batch_index=True)
    for number in range(AGAIN_KEPT_MAX + 1):
        acks.delivered(Entry(3, number), Delivered(2, 0b11, 0))
    acks.all_come_again(())
    for number in range(2):
        acks.ack(MessageId(3, number, 0))
    assert ids_of(acks.take(1, 100)) == [(3, 1, [0b10])]


def test_of_what_comes_again_that_which_was_only_queued_is_forgotten() -> None:
    """The application holds the oldest."""
    acks = AckTracker(batch_index=True)
    entries = [Entry(3, number) for number in range(AGAIN_KEPT_MAX + 5)]
    for entry in entries:
        acks.delivered(entry, Delivered(2, 0b11, 0))
    acks.all_come_again({*entries[3:]})
    for number in range(4):
        acks.ack(MessageId(3, number, 0))
    assert ids_of(acks.take(1, 100)) == [(3, 0, [0b10]), (3, 1, [0b10]), (3, 2, [0b10])]


def test_a_cumulative_acknowledgement_in_a_batch_that_is_not_known_does_not_take_the_batch() -> None:
    acks = AckTracker(batch_index=True)
    acks.ack_cumulative(MessageId(*ENTRY, 2))
    assert ids_of(acks.take(1, 100)) == [(3, 6, [])], "whether the others of the batch were received is not known"
    acks.ack_cumulative(MessageId(4, 0, 2))
    assert acks.take(1, 100) == []


# --- redelivery


def test_entries_are_due_at_their_earliest_time() -> None:
    schedule = Schedule()
    schedule.add(Entry(1, 1), 5.0)
    schedule.add(Entry(1, 2), 3.0)
    schedule.add(Entry(1, 1), 4.0)
    schedule.add(Entry(1, 1), 9.0)
    schedule.remove(Entry(1, 2))
    assert schedule.next_s == 4.0 and schedule.take_due(4.5) == [Entry(1, 1)]
    assert schedule.next_s is None and not len(schedule)


def test_entries_that_left_take_no_memory() -> None:
    schedule = Schedule()
    for number in range(1000):
        schedule.add(Entry(1, number), float(number))
        schedule.remove(Entry(1, number))
    schedule.add(Entry(2, 0), 1.0)
    assert schedule.take_due(5000.0) == [Entry(2, 0)]


def test_a_backoff_grows_to_its_limit() -> None:
    backoff = RedeliveryBackoff(1.0, 10.0, 3.0)
    assert [backoff.delay_s(count) for count in (0, 1, 2, 3, 10_000)] == [1.0, 3.0, 9.0, 10.0, 10.0]
    with pytest.raises(InvalidValue):
        RedeliveryBackoff(5.0, 1.0)


# --- chunks


def chunk(chunk_id: int, chunks: int, payload: bytes, total: int, uuid: str = "u") -> Stored:
    metadata = pb.Metadata(
        producer_name="p",
        sequence_id=0,
        publish_time=0,
        uuid=uuid,
        chunk_id=chunk_id,
        num_chunks_from_msg=chunks,
        total_chunk_msg_size=total,
    )
    return Stored(metadata, payload)


def test_chunks_of_several_messages_are_put_together() -> None:
    assembly = Assembly(10)
    assert assembly.add(Entry(1, 0), chunk(0, 2, b"ab", 4)) is None
    assert assembly.add(Entry(1, 1), chunk(0, 2, b"wx", 4, "v")) is None
    whole = assembly.add(Entry(1, 2), chunk(1, 2, b"cd", 4))
    assert whole is not None and (whole.stored.payload, whole.entries) == (b"abcd", [Entry(1, 0)])
    assert assembly.given_up == []


def test_of_a_message_that_is_put_off_all_chunks_come_again() -> None:
    """Those before and those after the one that could not be read, until its first comes."""
    assembly = Assembly(2)
    assert assembly.add(Entry(1, 0), chunk(0, 3, b"a", 3)) is None
    assembly.put_off(chunk(1, 3, b"", 3).metadata)
    assert assembly.add(Entry(1, 2), chunk(2, 3, b"c", 3)) is None
    assert assembly.again == [Entry(1, 0), Entry(1, 2)] and assembly.given_up == []
    assembled = [assembly.add(Entry(1, index), chunk(index, 3, b"x", 3)) for index in range(3)][-1]
    assert assembled is not None and assembled.stored.payload == b"xxx"
    for uuid in "vwx":  # of those that were put off not too many are remembered
        assembly.put_off(chunk(0, 3, b"", 3, uuid).metadata)
    assembly.add(Entry(1, 9), chunk(1, 3, b"", 3, "v"))
    assert assembly.given_up == [Entry(1, 9)]


def test_chunks_that_will_not_be_complete_are_given_up() -> None:
    assembly = Assembly(1)
    assert assembly.add(Entry(1, 0), chunk(1, 2, b"cd", 4)) is None, "its beginning is gone"
    assembly.add(Entry(1, 1), chunk(0, 3, b"ab", 6))
    assembly.add(Entry(1, 2), chunk(0, 3, b"ab", 6, "v"))  # one too many at once
    assembly.add(Entry(1, 3), chunk(1, 3, b"x" * 100, 6, "v"))  # more than it says
    assembly.add(Entry(1, 4), chunk(0, 2, b"", (1 << 30) + 1, "w"))
    assert sorted(assembly.given_up) == [Entry(1, number) for number in range(5)]


# --- unpacking


def delivery(ack_set: list[int] | None = None) -> pb.Message:
    return pb.Message(consumer_id=1, message_id=pb.MessageId(ledger_id=3, entry_id=7), ack_set=ack_set or [])


def batch_of(payloads: list[bytes]) -> bytes:
    """What follows the command of its frame."""
    metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=len(payloads))
    frame = build_send(1, 0, metadata, b"".join(single(payload) for payload in payloads), len(payloads))
    return frame[8 + int.from_bytes(frame[4:8], "big") :]


def test_of_a_batch_only_what_is_not_acknowledged_is_delivered() -> None:
    opened = open_entry(batch_of([b"a", b"b", b"c"]), None, "fail")
    messages, size, left = Unpacker("t", -1, BYTES).messages(delivery([0b101]), opened, 1000)
    assert [(message.payload, message.id) for message in messages] == [
        (b"a", MessageId(3, 7, 0)),
        (b"c", MessageId(3, 7, 2)),
    ]
    assert (size, left) == (3, 0b101)


def test_bytes_that_changed_on_their_way_are_not_delivered() -> None:
    rest = bytearray(batch_of([b"a", b"b"]))
    rest[-1] ^= 1
    with pytest.raises(Unreadable) as caught:
        open_entry(bytes(rest), None, "fail")
    assert caught.value.reason == CHECKSUM and caught.value.discard


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        opened = open_entry(data, None, "fail")
        Unpacker("t", -1, BYTES).messages(delivery(), opened, 1000)
    except Unreadable:
        pass


def test_options_that_contradict_each_other_are_refused() -> None:
    for wrong in (
        {"kind": "private"},
        {"prefetch_max": 0},
        {"nack_delay_s": -1},
        {"dead_letters": DeadLetterPolicy(3)},
        {"crypto_failure": "ignore"},
    ):
        with pytest.raises(InvalidValue):
            consumer_options(**wrong)


def test_either_kind_of_timeout_is_enough_and_a_reader_has_none() -> None:
    backoff = RedeliveryBackoff(1.0, 8.0)
    assert [consumer_options(ack_timeout_backoff=backoff).ack_delay_s(count) for count in (0, 1, 2, 5)] == [1, 2, 4, 8]
    assert consumer_options(ack_timeout_s=3.0).ack_delay_s(5) == 3.0 and consumer_options().ack_delay_s(5) == 0.0
    assert dataclasses.replace(consumer_options(ack_timeout_backoff=backoff), durable=False).ack_delay_s(0) == 0.0
    assert consumer_options(nack_backoff=backoff).refused_delay_s(1) == 2.0 and consumer_options().refused_delay_s(1) == 60.0


def test_a_value_that_breaks_its_schema_whatever_way_is_an_error_in_its_place() -> None:
    """Lists within lists end the stack of a decoder; a producer that may write to a topic must not end its consumers."""

    @dataclasses.dataclass
    class Order:
        lines: list[int]

    class Own(Schema[str]):
        def decode(self, payload: bytes) -> str:
            raise LookupError("no such order")

    nested = b'{"others":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    for schema in (Json(Order), Own()):
        value = value_of(schema, nested, None, null=False, writer=None)
        assert isinstance(value, InvalidValue) and "Error" in value.message
    written = pb.Schema(name="o", schema_data=b"", type=2)
    assert isinstance(value_of(AUTO_CONSUME, nested, None, null=False, writer=written), InvalidValue)
