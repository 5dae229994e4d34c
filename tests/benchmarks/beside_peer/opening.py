"""Opening many topics beside a peer: a look-up and a producer for each, one after another on each of two connections."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import load, wire
from tests.benchmarks.beside_peer.in_turn import Broker, InTurn
from tests.benchmarks.beside_peer.peer_process import PeerBroker
from tests.benchmarks.beside_peer.peer_report import COMPILED, PEER
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

TARGET = 0.2
CONNECTIONS = 2
WARM_UP_SHARE = 10  # a tenth of the topics, before those that count
_QUIET_S = 3.0  # thousands of open topics keep the peer a little busy
_LOOK_UP_ANSWER = 24


class Opened(NamedTuple):
    seconds: float
    cpu_s: float
    resident_mib: float  # more than before


def run(directory: Path | None, peer: Path, topics: int, progress: Progress) -> Section:
    """Raises `Stalled` if a broker does not start."""
    section = Section(f"{topics:,} topics opened")
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        ours = Path(made, "ours")
        ours.mkdir()
        in_turn = InTurn(progress, quiet_s=_QUIET_S)
        in_turn.add(COMPILED, stack, lambda: RealBroker(ours))
        in_turn.add(PEER, stack, lambda: PeerBroker(peer, Path(made)))
        compare(in_turn, topics, section, progress)
    return section


def compare(in_turn: InTurn, topics: int, section: Section, progress: Progress) -> None:
    opened: dict[str, Opened] = {}
    for name in in_turn.brokers:
        progress(f"opening {topics:,} topics: {name}")
        try:
            with in_turn.turn(name) as broker:
                open_topics(broker, "warm-up", max(CONNECTIONS, topics // WARM_UP_SHARE))
                opened[name] = open_topics(broker, "opened", topics)
        except (Stalled, OSError) as error:
            section.failures.append(f"{name}: {error}")
    section.words = (
        f"A look-up and a producer for each topic, none of which existed, one after another on each of {CONNECTIONS} connections; "
        f"a tenth as many others were opened before. The peer is Pulsar {in_turn.version}."
    )
    rows: list[tuple[str, ...]] = [
        (name, number(opening.seconds), number(opening.seconds / topics * 1e3), number(opening.cpu_s), number(opening.resident_mib))
        for name, opening in opened.items()
    ]
    section.tables.append(Table(("broker", "opened in, s", "ms each", "broker CPU, s", "resident MiB more"), rows))
    if len(opened) == len(in_turn.brokers):
        ours, theirs = opened[COMPILED], opened[PEER]
        section.figures.append(Figure("time to open all, to the peer's", ours.seconds / theirs.seconds, TARGET, at_least=False))


def open_topics(broker: Broker, base: str, topics: int) -> Opened:
    """Opens them with a producer each, and closes the connections. Raises `Stalled`."""
    topics = topics // CONNECTIONS * CONNECTIONS
    before, start = broker.cost(), time.perf_counter()
    links = [load.Peer(broker.address, base) for _ in range(CONNECTIONS)]
    try:
        for first in range(0, topics, CONNECTIONS):
            each = [(link, f"persistent://public/default/{base}-{first + place}") for place, link in enumerate(links)]
            _ask_all([(link, wire.lookup(topic)) for link, topic in each], _LOOK_UP_ANSWER)
            _ask_all([(link, wire.producer(topic, first + 1)) for link, topic in each], wire.PRODUCER_SUCCESS)
        elapsed_s, after = time.perf_counter() - start, broker.cost()
    finally:
        for link in links:
            link.close()
    more = (after.resident_bytes - before.resident_bytes) / 2**20
    return Opened(elapsed_s, after.cpu_s - before.cpu_s, more)


def _ask_all(requests: list[tuple[load.Peer, bytes]], answer: int) -> None:
    """Nobody waits for another's answer before asking."""
    for link, request in requests:
        link.socket.sendall(request)
    for link, _ in requests:
        link.ask(b"", answer)
