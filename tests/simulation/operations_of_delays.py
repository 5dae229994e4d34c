"""What can happen to delayed messages: they wait long enough to be stored, sectors die under what is stored, clocks are wrong."""

from __future__ import annotations

from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import DelayedRun
from tests.simulation.life import Killed
from tests.simulation.operation_table import operation
from tests.simulation.simulation import Simulation

LONG_DELAY_S = 8.0
ENTRIES_MAX = 30
FOUND_BYTES = 40  # less could be a part of something else
CLOCK_OFF_S = (-3600.0, -10.0, 10.0, 3600.0)


@operation(weight=6)
def publish_much_later(simulation: Simulation) -> str | None:
    ready = [producer for producer in simulation.producers if producer.ready]
    if not ready:
        return None
    producer, random = simulation.random.choice(ready), simulation.random
    longest_ms = random.choice((2_000, int(LONG_DELAY_S * 1000)))
    delays_ms = [random.randint(500, longest_ms) for _ in range(random.randint(1, ENTRIES_MAX))]
    producer.publish_later(delays_ms)
    return f"{producer.name}: after {delays_ms} ms"


@operation(weight=3)
def damage_a_run(simulation: Simulation) -> str | None:
    """A sector dies under what is stored of the index: a block or a directory."""
    topic = simulation.life.service.topics.loaded.get(str(parse_topic(simulation.random.choice(simulation.topics))))
    ledger = None if topic is None else topic.ledger
    if ledger is None or not ledger.record.delayed_runs:
        return None
    run = simulation.random.choice(ledger.record.delayed_runs)
    entry = simulation.random.randint(0, max(0, run.directory_entry))
    simulation.life.loop.create_task(_damage(simulation, ledger, run, entry))
    return f"entry {entry} of {run.ledger_id}"


async def _damage(simulation: Simulation, ledger: ManagedLedger, run: DelayedRun, entry: int) -> None:
    disk = simulation.life.disk
    try:
        reader = await ledger.storage.ledgers.open(run.ledger_id)
        try:
            [block] = await reader.read(entry, entries_max=1, bytes_max=1 << 20)
        finally:
            await reader.aclose()
    except (StoreError, Killed):
        return
    if len(block.data) >= FOUND_BYTES and disk.damage(bytes(block.data)):
        simulation.checker.count("dead sectors")


@operation(weight=2)
def set_the_clock_wrong(simulation: Simulation) -> str | None:
    if simulation.clock.wall_off_s:
        return None
    simulation.clock.wall_off_s = simulation.random.choice(CLOCK_OFF_S)
    return f"by {simulation.clock.wall_off_s:.0f} s"


@operation(weight=5)
def set_the_clock_right(simulation: Simulation) -> str | None:
    if not simulation.clock.wall_off_s:
        return None
    simulation.clock.wall_off_s = 0.0
    return "again"
