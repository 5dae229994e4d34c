"""Bytes in, events out: the same whatever the reads, nothing lost, and nothing beyond what the state of the session allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.events import Acks, Command, SendBlock
from messaging.protocol.frames import COMMAND_BYTES_MAX, OPEN_COMMAND_BYTES_MAX, ProtocolError
from messaging.protocol.inbound import ACKS_MAX, BUDGET, HELD, INCOMPLETE, PIECES_MAX, Inbound
from messaging.protocol.session import EARLY_BYTES_MAX, EARLY_COMMANDS_MAX, State

MESSAGE_BYTES_MAX = 200_000
MANY = 1 << 20
CONNECT = frames.command(pb.Command.CONNECT, connect=pb.Connect(client_version="test"))
FLOW = frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1))


def send(sequence_id: int, payload: bytes = b"payload", producer_id: int = 1) -> bytes:
    return frames.build_send(producer_id, sequence_id, pb.Metadata(producer_name="p", sequence_id=1, publish_time=1), payload)


def ack(entry_id: int) -> bytes:
    message_id = pb.MessageId(ledger_id=1, entry_id=entry_id)
    return frames.command(pb.Command.ACK, ack=pb.Ack(consumer_id=7, ack_type=pb.Ack.Individual, message_id=[message_id]))


def lookup(request_id: int) -> bytes:
    asked = pb.Lookup(topic="persistent://a/b/c", request_id=request_id, authoritative=False)
    return frames.command(pb.Command.LOOKUP, lookup=asked)


def ready(admits: Any = lambda kind, size: True) -> Inbound:
    inbound = Inbound(MESSAGE_BYTES_MAX, admits)
    assert inbound.receive(CONNECT)
    assert [event.kind for event in taken(inbound)] == [pb.Command.CONNECT]
    inbound.accepted()
    assert inbound.state is State.READY
    return inbound


def taken(inbound: Inbound, messages_max: int = MANY) -> list[Any]:
    events = []
    while (event := inbound.next_event(messages_max)) is not None:
        events.append(event)
    return events


def said(events: list[Any]) -> list[tuple[str, int]]:
    """What each frame was, one by one."""
    told: list[tuple[str, int]] = []
    for event in events:
        if isinstance(event, SendBlock):
            assert all(event.data[frame.start + 9] == pb.Command.SEND for frame in event.frames)
            told += [("send", frame.sequence_id) for frame in event.frames]
        elif isinstance(event, Acks):
            told += [("ack", entry_id) for _, _, entry_id in event.ids]
        else:
            told.append(("lookup", event.message.lookup.request_id))
    return told


STREAMS = st.lists(st.sampled_from(["send", "send", "send", "ack", "lookup"]), max_size=30)
MAKE: dict[str, Callable[[int], bytes]] = {"send": send, "ack": ack, "lookup": lookup}


@given(STREAMS, st.data())
def test_the_same_events_whatever_the_reads(stream: list[str], data: st.DataObject) -> None:
    """Messages in order, acknowledgements in order, and neither passes a command."""
    buf = b"".join(MAKE[kind](number) for number, kind in enumerate(stream))
    inbound, events, at = ready(), [], 0
    while at < len(buf):
        size = data.draw(st.integers(1, 200))
        if inbound.receive(buf[at : at + size]):
            events += taken(inbound, data.draw(st.sampled_from([MANY, 100])))
        at += size
    expected = [(kind, number) for number, kind in enumerate(stream)]
    order = said(events)
    assert sorted(order, key=lambda event: event[1]) == expected
    for kind in ("send", "ack"):
        alone = [event for event in order if event[0] in (kind, "lookup")]
        assert alone == [event for event in expected if event[0] in (kind, "lookup")]
    assert (inbound.stop, inbound.needed_bytes, inbound.buffered_bytes) == (INCOMPLETE, 0, 0)


@given(st.lists(st.sampled_from(["send", "ack"]), min_size=1, max_size=40), st.integers(1, 10))
def test_no_more_messages_at_once_than_asked_for(stream: list[str], most: int) -> None:
    buf = b"".join(MAKE[kind](number) for number, kind in enumerate(stream))
    inbound = ready()
    inbound.receive(buf)
    events = []
    for _ in range(len(stream)):
        slice_ = []
        left = most
        while (event := inbound.next_event(left)) is not None:
            slice_.append(event)
            left -= len(said([event]))
        assert len(said(slice_)) <= most
        events += slice_
        if inbound.stop is INCOMPLETE:
            break
        assert inbound.stop is BUDGET and inbound.buffered_bytes == len(buf)
    assert sorted(number for _, number in said(events)) == list(range(len(stream)))


def test_a_read_of_a_single_kind_is_a_single_event() -> None:
    inbound = ready()
    inbound.receive(b"".join(send(number, producer_id=number % 3) for number in range(100)))
    (block,) = taken(inbound)
    assert isinstance(block, SendBlock) and len(block.frames) == 100
    inbound.receive(b"".join(send(number) + ack(number) for number in range(100)))
    acks, block = taken(inbound)
    assert isinstance(acks, Acks) and isinstance(block, SendBlock)
    assert len(acks.ids) == len(block.frames) == 100
    inbound.receive(b"".join(ack(number) for number in range(ACKS_MAX + 1)))
    assert [len(event.ids) for event in taken(inbound)] == [ACKS_MAX, 1]


def test_a_command_that_is_not_admitted_stays_and_so_does_what_follows() -> None:
    asked: list[tuple[int, int]] = []
    open_ = False

    def admits(kind: int, size: int) -> bool:
        asked.append((kind, size))
        return open_

    inbound = ready(admits)
    inbound.receive(send(0) + lookup(1) + send(2))
    assert said(taken(inbound)) == [("send", 0)]
    assert inbound.stop is HELD
    assert asked == [(pb.Command.LOOKUP, len(lookup(1)) - 4)]
    inbound.receive(lookup(3))
    assert taken(inbound) == []
    open_ = True
    assert said(taken(inbound)) == [("lookup", 1), ("send", 2), ("lookup", 3)]
    assert inbound.stop is INCOMPLETE


def test_a_command_waits_for_the_budget_too() -> None:
    inbound = ready()
    inbound.receive(lookup(1))
    assert inbound.next_event(0) is None and inbound.stop is BUDGET
    inbound.receive(lookup(2)[:9])
    assert said(taken(inbound)) == [("lookup", 1)]
    assert inbound.next_event(0) is None and inbound.stop is INCOMPLETE, "what is not here waits for nothing else"


def test_a_frame_in_tiny_reads_is_few_objects_and_tells_how_far_it_is() -> None:
    inbound, frame = ready(), send(0, bytes(4 * PIECES_MAX))
    for at in range(len(frame) - 1):
        if inbound.receive(frame[at : at + 1]):
            assert taken(inbound) == []
        assert inbound.pieces <= PIECES_MAX + 1
        assert inbound.received_bytes == at + 1
    assert inbound.needed_bytes == len(frame)
    assert inbound.receive(frame[-1:])
    assert said(taken(inbound)) == [("send", 0)]
    assert (inbound.received_bytes, inbound.needed_bytes) == (0, 0)


def test_sizes_are_bounded_by_what_the_state_allows() -> None:
    def refused(inbound: Inbound, head: bytes) -> None:
        inbound.receive(head)
        with pytest.raises(ProtocolError, match=r"larger than|no command"):
            inbound.next_event(MANY)

    def head(kind: int, total: int) -> bytes:
        return total.to_bytes(4, "big") + (total - 4).to_bytes(4, "big") + bytes([8, kind])

    limit = MESSAGE_BYTES_MAX + frames.FRAME_PADDING_BYTES
    refused(Inbound(MESSAGE_BYTES_MAX, lambda *_: True), head(pb.Command.CONNECT, COMMAND_BYTES_MAX + 1))
    refused(ready(), head(pb.Command.SEND, limit + 1))
    refused(Inbound(1 << 30, lambda *_: True), head(pb.Command.SEND, COMMAND_BYTES_MAX + 1))
    refused(ready(), (5).to_bytes(4, "big") + bytes(8))
    large = Inbound(1 << 30, lambda *_: True)
    large.receive(CONNECT)
    taken(large)
    large.accepted()
    large.receive(head(pb.Command.SEND, OPEN_COMMAND_BYTES_MAX + 1))
    assert taken(large) == [] and large.needed_bytes == OPEN_COMMAND_BYTES_MAX + 5
    large = Inbound(1 << 30, lambda *_: True)
    large.receive(CONNECT)
    taken(large)
    large.accepted()
    refused(large, head(pb.Command.LOOKUP, OPEN_COMMAND_BYTES_MAX + 1))


def test_before_sign_in_there_is_room_for_a_handful() -> None:
    inbound = Inbound(MESSAGE_BYTES_MAX, lambda *_: True)
    inbound.receive(frames.PING * (EARLY_COMMANDS_MAX + 1))
    for _ in range(EARLY_COMMANDS_MAX):
        event = inbound.next_event(MANY)
        assert isinstance(event, Command) and event.kind == pb.Command.PING
    with pytest.raises(ProtocolError, match="before authentication"):
        inbound.next_event(MANY)
    inbound = Inbound(MESSAGE_BYTES_MAX, lambda *_: True)
    inbound.receive(b"\x00\x01")
    with pytest.raises(ProtocolError, match="bytes") as refused:
        inbound.receive(bytes(EARLY_BYTES_MAX))
    assert refused.value.reason == "too much before sign-in"


def test_a_field_over_its_limit_is_an_event_that_changes_no_state() -> None:
    inbound = Inbound(MESSAGE_BYTES_MAX, lambda *_: True)
    inbound.receive(frames.command(pb.Command.CONNECT, connect=pb.Connect(client_version="v" * 20_000)))
    (event,) = taken(inbound)
    assert event.violation is not None and "client_version" in event.violation.message
    assert inbound.state is State.CONNECTING


def test_after_the_end_there_is_nothing() -> None:
    inbound = ready()
    inbound.receive(send(0) + ack(1) + send(2)[:30])
    inbound.close()
    assert taken(inbound) == [] and inbound.buffered_bytes == 0 and inbound.needed_bytes == 0


@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_garbage_breaks_the_protocol_or_waits(reads: list[bytes], signed_in: bool) -> None:
    inbound = ready() if signed_in else Inbound(MESSAGE_BYTES_MAX, lambda *_: True)
    try:
        for read in reads:
            if inbound.receive(read):
                taken(inbound)
    except ProtocolError:
        return
    assert inbound.received_bytes <= sum(map(len, reads))
