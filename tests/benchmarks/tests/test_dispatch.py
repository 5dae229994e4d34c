"""Deliveries beside a peer: the generator that costs next to nothing a message, and what is said of what it measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import command, decode
from tests.benchmarks import processes, wire
from tests.benchmarks.beside_peer import dispatch, equal_frames, opening
from tests.benchmarks.beside_peer.delivery_load import Load, Run
from tests.benchmarks.beside_peer.dispatch import Comparison, Judged, Plan, Row
from tests.benchmarks.beside_peer.in_turn import InTurn
from tests.benchmarks.beside_peer.peer_report import COMPILED, PEER
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import Cost
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Section


def quietly(text: str) -> None:
    pass


def message_frame(entry_id: int, payload: bytes = b"1234", ledger_id: int = 7, redelivery_count: int = 0) -> bytes:
    message = pb.Message(consumer_id=1, message_id=pb.MessageId(ledger_id=ledger_id, entry_id=entry_id))
    if redelivery_count:
        message.redelivery_count = redelivery_count
    framed = command(pb.Command.MESSAGE, message=message)
    return (len(framed) - 4 + len(payload)).to_bytes(4, "big") + framed[4:] + payload


# --- frames of equal size ----------------------------------------------------------------------------------------------------


def runs(data: bytes) -> list[tuple[int, int]]:
    """(kind, count) of all runs in `data`."""
    counted: list[tuple[int, int]] = []
    at = 0
    while True:
        kind, size, count = equal_frames.run_at(bytearray(data), at, len(data))
        if not count:
            return counted
        counted.append((kind, count))
        at += size * count


def test_a_run_ends_where_an_id_gets_longer_and_before_a_frame_of_another_kind() -> None:
    frames = [message_frame(entry) for entry in (125, 126, 127, 128, 129)]
    assert runs(b"".join(frames)) == [(wire.MESSAGE, 3), (wire.MESSAGE, 2)]
    assert runs(frames[0] + wire.ping() + frames[1]) == [(wire.MESSAGE, 1), (wire.PING, 1), (wire.MESSAGE, 1)]


def test_a_run_ends_before_a_frame_that_is_not_complete() -> None:
    frame = message_frame(1)
    for cut in range(1, len(frame)):
        assert runs(frame * 2 + frame[:cut]) == [(wire.MESSAGE, 2)]
    assert runs(b"") == []


def test_frames_of_one_size_with_fields_of_other_sizes_are_no_run() -> None:
    longer_id, longer_payload = message_frame(128, b"123"), message_frame(1, b"1234")
    assert len(longer_id) == len(longer_payload)
    assert runs(longer_id + longer_payload) == [(wire.MESSAGE, 1), (wire.MESSAGE, 1)]
    counted = message_frame(1, b"12", redelivery_count=3)
    assert len(counted) == len(longer_payload)
    assert runs(counted + longer_payload) == [(wire.MESSAGE, 1), (wire.MESSAGE, 1)]


def test_every_message_of_a_run_is_acknowledged_by_its_own_id() -> None:
    entries = [300, 5000, 301, 999]
    data = bytearray(b"".join(message_frame(entry, ledger_id=70_000) for entry in entries))
    _, size, count = equal_frames.run_at(data, 0, len(data))
    acks = [decode(frame).ack for _, frame in wire.split(equal_frames.acks(data, 0, size, count))]
    assert [(ack.consumer_id, ack.ack_type, len(ack.message_id)) for ack in acks] == [(1, pb.Ack.Individual, 1)] * 4
    assert [(ack.message_id[0].ledger_id, ack.message_id[0].entry_id) for ack in acks] == [(70_000, entry) for entry in entries]


def test_messages_of_a_stream_have_their_numbers_and_keys_in_turn() -> None:
    stream = wire.Stream("one", 5, 16, 1, keys=2, numbered=True)
    for number in range(5):
        frame = stream.slice(number, number + 1)
        assert bytes(frame[-4:]) == number.to_bytes(4, "big")
        assert b"key-%06d" % (number % 2) in bytes(frame)


# --- the generator on a real broker ------------------------------------------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RealBroker]:
    started = RealBroker(tmp_path)
    yield started
    started.close()


def test_every_subscription_gets_everything_once(broker: RealBroker) -> None:
    loads = (
        Load(),
        Load(subscriptions=3),
        Load(keys=10, kind=pb.Subscribe.Key_Shared, consumers=3),
        Load(size=1024, rate_per_s=500),
    )
    for number, of in enumerate(loads):
        delivered = Run(broker.address, f"persistent://public/default/each-{number}", of).run(0.2, broker.cost)
        assert delivered.received_share == 1.0, of
        assert delivered.messages > 0 and delivered.cpu_us >= 0 and delivered.behind_s > 0
        assert delivered.delivery_p50_ms <= delivered.delivery_p99_ms <= delivered.behind_s * 1000
    assert 80 <= delivered.messages <= 110  # at 500 a second


def test_dropped_messages_of_a_non_persistent_topic_are_not_waited_for(broker: RealBroker) -> None:
    of = Load(domain="non-persistent", window=5_000)
    delivered = Run(broker.address, "non-persistent://public/default/dropping", of).run(0.3, broker.cost)
    assert 0 < delivered.received_share <= 1.0
    assert 0 < delivered.delivery_p50_ms <= delivered.behind_s * 1000


def test_a_refused_client_ends_the_run(broker: RealBroker) -> None:
    with pytest.raises(Stalled, match="refused"):
        Run(broker.address, "persistent://public/nowhere/there-is-no-such-namespace", Load())


def test_a_broker_that_ends_meanwhile_ends_the_run(broker: RealBroker) -> None:
    running = Run(broker.address, "persistent://public/default/killed", Load())
    broker.kill()
    with pytest.raises((Stalled, OSError)):
        running.run(30, lambda: Cost(0.0, 0, 0))


# --- the comparison ----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
def test_a_comparison_with_a_row_that_fails(tmp_path: Path) -> None:
    """The peer's place is taken by one of ours."""
    sent = Judged("messages", lambda delivered: delivered.received_share, 1.0)
    behind = Judged("longest delivery", lambda delivered: delivered.behind_s, 1e-9, at_least=False, unit="s")
    rows = (Row("works", Load(), (sent, behind)), Row("fails", Load(), (sent,)))
    comparison = Comparison(Plan(0.1, 2, 0.1, rows, profile=True), quietly)
    with ExitStack() as stack:
        for name in (COMPILED, PEER):
            (tmp_path / name).mkdir()
            comparison.in_turn.add(name, stack, lambda name=name: RealBroker(tmp_path / name))  # type: ignore[misc]
        comparison.warm_up()
        comparison.measure(rows[0])
        processes.end(comparison.in_turn.brokers[PEER].process)
        comparison.measure(rows[1])
        section = comparison.report(tmp_path)
    assert [(figure.what, figure.unit, figure.reached) for figure in section.figures] == [
        ("works: messages", "x", True),
        ("works: longest delivery", "s", False),
    ]
    assert [cells[:2] for cells in section.tables[0].rows] == [("works", COMPILED), ("works", PEER), ("fails", COMPILED)]
    assert [cells[2] for cells in section.tables[1].rows if cells[0] == "fails"] == ["not measured"]
    assert section.failures == ["fails, peer: the broker has ended"] * 2
    assert [title.partition(": ")[0] for title, _ in section.details] == ["works"] * 2, "it missed a target: why is due"
    assert "function calls" in section.details[1][1]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
def test_topics_are_opened_by_both(tmp_path: Path) -> None:
    in_turn, section = InTurn(quietly), Section("opened")
    with ExitStack() as stack:
        for name in (COMPILED, PEER):
            (tmp_path / name).mkdir()
            in_turn.add(name, stack, lambda name=name: RealBroker(tmp_path / name))  # type: ignore[misc]
        opening.compare(in_turn, 20, section, quietly)
    assert section.failures == [] and len(section.figures) == 1
    assert [row[0] for row in section.tables[0].rows] == [COMPILED, PEER]


def test_every_row_says_what_it_is_judged_by() -> None:
    assert len({row.name for row in dispatch.ROWS}) == len(dispatch.ROWS)
    assert all(row.judged for row in dispatch.ROWS)
