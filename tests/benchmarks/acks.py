"""Individual acknowledgements alone: a Shared consumer holds a prepared backlog and acknowledges it one by one.

Nothing is published meanwhile. The clock stops at the answer to the last frame, which the broker gives when that frame, and so all
before it, are durable; afterwards the broker is killed and what it remembers is compared.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from messaging.adminrpc.methods import TOPICS_STATS
from messaging.adminrpc.topics import StatsAsked
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import command
from tests.benchmarks import load, wire
from tests.benchmarks.beside_peer.peer_report import COMPILED, PLAIN
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

TARGETS_PER_S = {COMPILED: 200_000, PLAIN: 60_000}
BATCHES = 1_000  # ids in a frame, as clients that collect them for a moment send
_SIZE_BYTES = 128
_WINDOW = 1_000
_ANSWER_S = 60.0
_REQUEST = 77


class Way(NamedTuple):
    """How a backlog is acknowledged: `ids` in a frame; `step` 2 takes every second entry first, then the rest."""

    name: str
    ids: int = 1
    step: int = 1


WAYS = (
    Way("one id a frame"),
    Way("one id a frame, every second entry first", step=2),
    Way(f"{BATCHES:,} ids a frame", ids=BATCHES),
)


class Measured(NamedTuple):
    per_s: float
    cpu_us: float
    frames: int


def run(directory: Path | None, messages: int, progress: Progress) -> Section:
    """`messages`: entries acknowledged in each way, on each kind of broker."""
    section = Section(
        "Individual acknowledgements alone",
        f"{messages:,} messages of {_SIZE_BYTES} B in the backlog of one Shared consumer, all delivered before the clock starts; "
        "it stops when the answer to the last frame says that it is durable. After a `kill -9` the broker must remember every one.",
        [Table(("broker", "acknowledged", "acknowledgements/s", "broker CPU us each", "frames"), [])],
        [],
        [],
    )
    for name, switches in ((COMPILED, []), (PLAIN, ["--plain"])):
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
            try:
                _one_broker(Path(made), name, switches, messages, section, progress)
            except Stalled as error:
                section.failures.append(f"{name}: {error}")
    return section


def _one_broker(folder: Path, name: str, switches: list[str], messages: int, section: Section, progress: Progress) -> None:
    broker = RealBroker(folder, *switches, consumer_unacked_max=messages + 1)
    try:
        for number_of_way, way in enumerate(WAYS):
            progress(f"acknowledgements, {name}: {way.name}")
            measured = _acknowledge(broker, _topic(number_of_way), messages, way)
            cells = (number(measured.per_s), number(measured.cpu_us), f"{measured.frames:,}")
            section.tables[0].rows.append((name, way.name, *cells))
            if way.ids == 1:
                what = f"{name}, {way.name}: acknowledgements"
                section.figures.append(Figure(what, measured.per_s, TARGETS_PER_S[name], "/s"))
        broker.kill()
        broker = RealBroker(folder)
        for number_of_way, way in enumerate(WAYS):
            if left := _backlog(broker, _topic(number_of_way)):
                section.failures.append(f"{name}, {way.name}: {left} answered acknowledgements were forgotten after a kill")
    finally:
        broker.close()


def _topic(number_of_way: int) -> str:
    return f"persistent://public/default/acks-{number_of_way}"


def _acknowledge(broker: RealBroker, topic: str, messages: int, way: Way) -> Measured:
    consumer = load.subscriber(broker.address, topic, messages)
    peer, producer = load.publisher(broker.address, topic)
    load.Run(peer, wire.Stream(producer, messages, _SIZE_BYTES, 1), _WINDOW).run()
    peer.close()
    frames = ack_frames(_delivered(consumer, messages), way)
    data = b"".join(frames)
    before, start = broker.cost(), time.perf_counter()
    consumer.socket.settimeout(_ANSWER_S)
    try:
        consumer.ask(data, pb.Command.ACK_RESPONSE)
    except (TimeoutError, ConnectionError) as error:
        raise Stalled(f"{way.name}: no answer to the last acknowledgement: {error}") from None
    elapsed_s = time.perf_counter() - start
    after = broker.cost()
    consumer.close()
    return Measured(messages / elapsed_s, (after.cpu_s - before.cpu_s) / messages * 1e6, len(frames))


def _delivered(consumer: load.Peer, messages: int) -> list[pb.MessageId]:
    """The ids of the whole backlog, in the order of delivery."""
    ids: list[pb.MessageId] = []
    while len(ids) < messages:
        # size | 08 09 4a n | 08 consumer 12 m | m bytes of message id
        ids += [
            pb.MessageId.FromString(bytes(frame[12 : 12 + frame[11]]))
            for kind, frame in wire.split(consumer.buffer)
            if kind == wire.MESSAGE
        ]
        if len(ids) < messages:
            try:
                consumer.buffer += consumer.socket.recv(1 << 20)
            except TimeoutError:
                raise Stalled(f"{len(ids)} of {messages} messages were delivered") from None
    return ids


def ack_frames(ids: list[pb.MessageId], way: Way) -> list[bytes]:
    """Individual ACK frames for `ids`; the last one asks for an answer."""
    ordered = [message_id for first in range(way.step) for message_id in ids[first :: way.step]]
    stops = range(0, len(ordered), way.ids)
    frames = []
    for start in stops:
        ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=ordered[start : start + way.ids])
        if start == stops[-1]:
            ack.request_id = _REQUEST
        frames.append(command(pb.Command.ACK, ack=ack))
    return frames


def _backlog(broker: RealBroker, topic: str) -> int:
    stats = broker.rpc.call(TOPICS_STATS, StatsAsked(topic=topic)).stats
    return sum(int(subscription["msgBacklog"]) for subscription in stats["subscriptions"].values())
