"""What `magnetar bench fleet` and `bookies` count."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import command
from tests.benchmarks import fleet
from tests.benchmarks.beside_peer import on_bookies
from tests.benchmarks.crowd import Crowd
from tests.benchmarks.generator import Loaded
from tests.benchmarks.load import Stalled


def loaded(p99_ms: float, cpu_us: float) -> Loaded:
    return Loaded(1000.0, 1e6, cpu_us, 0.5, 1.0, p99_ms, 0.0, 0.0, 0.0, 0.1, 100.0)


def test_brokers_are_compared_within_each_round() -> None:
    """A round in which the machine was slow is slow for both."""
    row = on_bookies.Row("load", (), (("p99_ms", 1.0), ("cpu_us", 0.5)))
    ours = [loaded(10, 2), loaded(100, 2), loaded(12, 3)]
    theirs = [loaded(20, 4), loaded(200, 4), loaded(8, 4)]
    p99, cpu = on_bookies.figures(row, {on_bookies.OURS: ours, on_bookies.PEER: theirs})
    assert (p99.value, p99.reached, cpu.value, cpu.reached) == (0.5, True, 0.5, True)
    assert on_bookies.figures(row, {}) == []


@pytest.mark.slow
def test_every_look_up_of_several_brokers_is_answered(tmp_path: Path) -> None:
    frames = [
        command(pb.Command.LOOKUP, lookup=pb.Lookup(topic=f"persistent://public/default/t{number}", request_id=number))
        for number in range(1000)
    ]
    with ExitStack() as stack:
        brokers = fleet.of_one_machine(stack, tmp_path, 2, lambda text: None)
        addresses = [broker.address for broker in brokers]
        assert len(set(addresses)) == 2, "each has a port of its own"
        assert fleet.look_up(addresses, frames) > 0
        crowd = Crowd([f"persistent://public/default/t{number}" for number in range(100)], lambda: addresses, 20)
        stack.callback(crowd.close)
        crowd.run(60)
        crowd.publish(60)
        assert (len(crowd.served_at), crowd.receipts, crowd.under_way) == (100, 100, 0)
        brokers[1].kill()
        with pytest.raises(Stalled, match="of 100 producers are open"):  # the rest wait for their broker, as clients do
            crowd.run(1.0, until=lambda: False)
        assert 0 < len(crowd.served_at) < 100 and crowd.looked_up
