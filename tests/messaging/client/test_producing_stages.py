"""The pure stages of the producer's pipeline, each alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.client.arguments import producer_options
from messaging.client.errors import InvalidValue, MessageTooLarge
from messaging.client.message import OutgoingMessage
from messaging.client.producing.admission import ANYWHERE, MemoryLimit, Room, WaitingLine
from messaging.client.producing.batches import BatchContainer, Outgoing
from messaging.client.producing.compression import compressed
from messaging.client.producing.entries import EntryBuilder, Identity
from messaging.client.producing.options import BatchLimits
from messaging.client.producing.pending import Operation, PendingQueue
from messaging.client.producing.routing import Router
from messaging.client.producing.serializing import single_metadata
from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import singles, unpack
from messaging.protocol.frames import ProtocolError, decode, parse_stored


class Receipt:
    def done(self) -> bool:
        return False

    def set_result(self, result: object, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


def outgoing(payload: bytes = b"x", key: str | None = None, **more: object) -> Outgoing:
    message = OutgoingMessage(payload, key, **more)  # type: ignore[arg-type]
    return Outgoing(message, 0, message.size_bytes, Receipt())


# --- routing


def router(partitions: int = 4, *, per_message: bool = False, **more: object) -> Router:
    options = producer_options(**more)  # type: ignore[arg-type]
    return Router(partitions, options.routing, options.hashing, 0, per_message=per_message)


def test_round_robin_stays_on_a_partition_until_its_batch_ends() -> None:
    turn = router()
    message = OutgoingMessage(b"")
    assert [turn.choose(message, lambda index: True).partition for _ in range(3)] == [0, 0, 0]
    turn.batch_ended(3)
    assert turn.choose(message, lambda index: True).partition == 0, "the batch of another partition moves nobody"
    turn.batch_ended(0)
    assert turn.choose(message, lambda index: True).partition == 1
    each = router(per_message=True)
    assert [each.choose(message, lambda index: True).partition for _ in range(5)] == [0, 1, 2, 3, 0]


def test_messages_without_a_key_avoid_what_is_blocked_and_keys_do_not() -> None:
    blocked = router()
    free = {2, 3}
    key = OutgoingMessage(b"", "customer-7")
    home = router().choose(key, lambda index: True).partition
    chosen = set()
    for _ in range(8):
        chosen.add(blocked.choose(OutgoingMessage(b""), free.__contains__).partition)
        blocked.batch_ended(blocked.choose(OutgoingMessage(b""), free.__contains__).partition)
        assert blocked.choose(key, free.__contains__) == (home, False)
    assert chosen == free


def test_keys_go_where_clients_of_pulsar_send_them() -> None:
    # String.hashCode() of "hello" is 99162322; the Murmur3 hash of it, without the sign, 613153351.
    message = OutgoingMessage(b"", "hello")
    assert router(7).choose(message, lambda index: True).partition == 99162322 % 7
    assert router(7, hashing="Murmur3_32Hash").choose(message, lambda index: True).partition == 613153351 % 7


def test_a_router_of_the_application_may_choose_only_what_there_is() -> None:
    assert router(routing=lambda message, count: count - 1).choose(OutgoingMessage(b""), lambda index: False) == (3, False)
    with pytest.raises(InvalidValue, match="chose partition 4"):
        router(routing=lambda message, count: count).choose(OutgoingMessage(b""), lambda index: True)


# --- admission


def test_memory_is_limited_and_one_message_larger_than_all_of_it_passes_alone() -> None:
    memory = MemoryLimit(100)
    assert memory.reserve(500) and not memory.reserve(1)
    memory.release(500)
    assert memory.reserve(60) and not memory.reserve(60)


def test_those_that_wait_for_memory_are_asked_in_turns() -> None:
    memory, asked = MemoryLimit(10), []
    memory.reserve(10)

    def first() -> None:
        asked.append("first")
        memory.wait(first)

    memory.wait(first)
    memory.wait(lambda: asked.append("second"))
    memory.release(5)
    memory.release(5)
    assert asked == ["first", "second", "first"]


def test_the_limit_over_all_partitions_is_shared_by_them() -> None:
    room = Room(1000, 100)
    room.grow(4)
    assert room.limit == 25
    room.grow(200)
    assert room.limit == 1, "a partition always takes one message"
    for _ in range(room.limit):
        room.take(3)
    assert not room.has(3) and room.has(2)
    room.give_back(3, 1)
    assert room.has(3) and room.used == 0


def test_who_waits_for_a_blocked_partition_holds_up_nobody_else() -> None:
    line: WaitingLine[str] = WaitingLine()
    line.add(1, "blocked")
    line.add(1, "behind it")
    line.add(ANYWHERE, "free")
    entered: list[str] = []

    def enter(entry: str) -> bool:
        if entry == "blocked":
            return False
        entered.append(entry)
        return True

    for queue in line.partitions:
        line.let_in(queue, enter)
    assert entered == ["free"] and len(line) == 2
    assert line.remove(1, "blocked") and not line.remove(1, "blocked")
    line.let_in(1, enter)
    assert entered == ["free", "behind it"] and not len(line)


# --- batches


def test_a_batch_ends_by_number_and_by_bytes() -> None:
    by_number = BatchContainer(BatchLimits(messages_max=3))
    assert [by_number.add(outgoing()) for _ in range(3)] == [False, False, True]
    assert [len(batch.messages) for batch in by_number.take()] == [3] and not len(by_number)
    by_bytes = BatchContainer(BatchLimits(bytes_max=100))
    assert by_bytes.accepts(outgoing(b"x" * 1000)), "a message larger than a batch goes alone"
    assert not by_bytes.add(outgoing(b"x" * 50))
    assert not by_bytes.accepts(outgoing(b"x" * 50)) and by_bytes.accepts(outgoing(b"x" * 10))


def test_batches_by_key_have_one_key_each_and_the_order_of_their_first_messages() -> None:
    container = BatchContainer(BatchLimits(by_key=True))
    for key in ("a", "b", "a", "c"):
        container.add(outgoing(key=key))
    assert [[item.message.key for item in batch.messages] for batch in container.take()] == [["a", "a"], ["b"], ["c"]]


def test_a_message_is_taken_back_from_an_open_batch() -> None:
    container = BatchContainer(BatchLimits(by_key=True))
    message = outgoing(key="a")
    container.add(message)
    assert container.withdraw(message) and not container.withdraw(message)
    assert not len(container) and container.take() == []


def test_sequence_ids_of_a_batch_rise() -> None:
    container = BatchContainer(BatchLimits())
    container.add(outgoing(sequence_id=7))
    assert not container.accepts(outgoing(sequence_id=7)) and container.accepts(outgoing(sequence_id=8))


# --- serializing, compression, chunks

texts = st.text(max_size=20)


@given(
    st.builds(
        OutgoingMessage,
        st.none() | st.binary(max_size=300),
        st.none() | texts | st.binary(max_size=20),
        st.dictionaries(texts, texts, max_size=3),
        st.none() | st.integers(0, 2**40),
        st.none(),
        st.none() | st.binary(max_size=20),
    ),
    st.integers(0, 2**62),
)
def test_the_metadata_of_a_message_are_what_protocol_buffers_read(message: OutgoingMessage, sequence_id: int) -> None:
    single = pb.SingleMetadata.FromString(single_metadata(message, sequence_id))
    assert single.payload_size == len(message.payload or b"") and single.null_value is (message.payload is None)
    assert {pair.key: pair.value for pair in single.properties} == message.properties
    assert single.HasField("partition_key") is (message.key is not None)
    assert single.partition_key_b64_encoded is isinstance(message.key, bytes)
    assert (single.event_time or 0) == (message.event_time_ms or 0) and single.sequence_id == sequence_id
    assert single.HasField("ordering_key") is (message.ordering_key is not None)


def test_bytes_that_become_no_smaller_stay_as_they_are() -> None:
    metadata = pb.Metadata()
    assert compressed(pb.LZ4, b"abc", metadata) == b"abc" and not metadata.HasField("compression")
    small = compressed(pb.ZSTD, b"a" * 1000, metadata)
    assert len(small) < 100 and (metadata.compression, metadata.uncompressed_size) == (pb.ZSTD, 1000)


def builder(**more: object) -> tuple[EntryBuilder, Identity]:
    identity = Identity(3, "p", message_bytes_max=1000)
    return EntryBuilder(producer_options(**more), identity, lambda: 1_600_000_000_000), identity  # type: ignore[arg-type]


def stored_of(operation: Operation) -> pb.Metadata:
    frame = operation.frame
    return parse_stored(frame[8 + int.from_bytes(frame[4:8], "big") :]).metadata


@pytest.mark.parametrize("compression", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_a_batch_is_one_frame_that_the_broker_accepts_and_consumers_read(compression: str) -> None:
    entries, identity = builder(compression=compression)
    identity.next_sequence_id = 5
    (operation,) = entries.build([outgoing(b"a" * 50, key="k"), outgoing(b"", properties={"p": "q"}), outgoing(b"c")], 0.0)
    frames: list[hot.SendFrame] = []
    assert hot.scan(operation.frame, 0, len(operation.frame), frames) == len(operation.frame)
    (frame,) = frames
    assert (frame.producer_id, frame.sequence_id, frame.highest_sequence_id, frame.message_count, frame.flags) == (3, 5, 7, 3, 0)
    stored = parse_stored(operation.frame[frame.payload_start :])
    read = list(singles(stored, unpack(stored, 10_000)))
    assert [(single.payload, single.sequence_id) for single in read] == [(b"a" * 50, 5), (b"", 6), (b"c", 7)]
    assert read[0].partition_key == "k" and read[1].properties == {"p": "q"}
    assert identity.next_sequence_id == 8 and stored.metadata.publish_time == 1_600_000_000_000


def test_a_message_alone_is_no_batch() -> None:
    entries, _ = builder()
    (operation,) = entries.build([outgoing(b"alone", event_time_ms=7, deliver_at_ms=9)], 0.0)
    metadata = stored_of(operation)
    assert not metadata.HasField("num_messages_in_batch") and (metadata.event_time, metadata.deliver_at_time) == (7, 9)


def test_what_is_too_large_is_refused_and_uses_no_sequence_id() -> None:
    entries, identity = builder()
    with pytest.raises(MessageTooLarge, match="the broker takes 1000"):
        entries.build([outgoing(b"x" * 1001)], 0.0)
    with pytest.raises(MessageTooLarge):
        entries.build([outgoing(b"x" * 600), outgoing(b"x" * 600)], 0.0)
    assert identity.next_sequence_id == 0


def test_chunks_have_one_sequence_id_and_the_receipt_is_that_of_the_last() -> None:
    entries, identity = builder(chunking=True)
    message = outgoing(b"x" * 2500)
    operations = entries.build([message], 0.0)
    assert len(operations) > 2 and {operation.sequence_id for operation in operations} == {0}
    assert [list(operation.messages) for operation in operations[:-1]] == [[]] * (len(operations) - 1)
    assert list(operations[-1].messages) == [message] and identity.next_sequence_id == 1
    metadata = [stored_of(operation) for operation in operations]
    assert [entry.chunk_id for entry in metadata] == list(range(len(operations)))
    assert {(entry.uuid, entry.num_chunks_from_msg, entry.total_chunk_msg_size) for entry in metadata} == {
        ("p-0", len(operations), 2500)
    }
    assert all(decode(operation.frame[4:]).send.is_chunk for operation in operations)


# --- pending


def operation(sequence_id: int, since_s: float = 0.0) -> Operation:
    return Operation(sequence_id, b"%d" % sequence_id, (), since_s)


def test_receipts_come_in_order_and_a_skipped_one_ends_the_connection() -> None:
    queue = PendingQueue()
    operations = [operation(number) for number in (0, 3, 5)]
    for item in operations:
        queue.add(item)
    with pytest.raises(ProtocolError):
        queue.receipt(0)  # it was not written
    assert [queue.next_to_write() for _ in range(4)] == [*operations, None]
    assert queue.receipt(0) is operations[0]
    assert queue.receipt(0) is None, "answered before"
    with pytest.raises(ProtocolError, match="sequence id 5 came before that for 3"):
        queue.receipt(5)


def test_after_a_break_everything_without_a_receipt_is_written_again_in_order() -> None:
    queue = PendingQueue()
    operations = [operation(number) for number in range(4)]
    for item in operations[:3]:
        queue.add(item)
    queue.next_to_write()
    queue.next_to_write()
    queue.receipt(0)
    queue.connection_lost()
    queue.add(operations[3])
    assert [queue.next_to_write() for _ in range(4)] == [*operations[1:], None]


def test_what_is_too_old_leaves_and_is_not_written() -> None:
    queue = PendingQueue()
    operations = [operation(number, since_s=float(number)) for number in range(4)]
    for item in operations:
        queue.add(item)
    queue.next_to_write()
    assert queue.take_expired(2.0) == operations[:2]
    assert [(item.sequence_id, item.written) for item in operations[:2]] == [(0, True), (1, False)]
    assert queue.next_to_write() is operations[2] and queue.oldest is operations[2]
    assert queue.receipt(0) is None, "its receipt is late"


@given(st.lists(st.sampled_from(["add", "write", "receipt", "break", "expire"]), max_size=200))
def test_no_operation_is_lost_or_out_of_order_whatever_happens(steps: list[str]) -> None:
    """Beside a broker that stores what is written, and answers in order."""
    queue, number = PendingQueue(), 0
    added: list[int] = []
    gone: list[int] = []
    unanswered: list[int] = []
    written: list[list[int]] = [[]]  # by connection
    for step in steps:
        if step == "add":
            queue.add(operation(number, float(number)))
            added.append(number)
            number += 1
        elif step == "write" and (item := queue.next_to_write()) is not None:
            written[-1].append(item.sequence_id)
            unanswered.append(item.sequence_id)
        elif step == "receipt" and unanswered:
            answered = queue.receipt(unanswered.pop(0))
            if answered is not None:
                gone.append(answered.sequence_id)
        elif step == "break":
            queue.connection_lost()
            unanswered.clear()
            written.append([])
        elif step == "expire" and added:
            gone.extend(item.sequence_id for item in queue.take_expired(added[-1] / 2))
    gone.extend(item.sequence_id for item in queue.take_all())
    assert gone == added
    assert all(first < second for connection in written for first, second in pairwise(connection))


def test_options_that_contradict_each_other_are_refused() -> None:
    for wrong in (
        {"chunking": True, "batching": True},
        {"pending_max": 0},
        {"batch_messages_max": 0},
        {"compression": "brotli"},
        {"routing": "random"},
        {"access": "mine"},
    ):
        with pytest.raises(InvalidValue):
            producer_options(**wrong)
    assert producer_options(chunking=True).batch is None
    assert producer_options(batch_delay_ms=1).batch == BatchLimits(delay_ms=1)
