"""What can happen in a simulation, one function each. To add one: write it, and give it a weight.

An operation gets the simulation, does one thing and says what, or returns None if it cannot be done now. It never waits: what
follows from it is seen by the checker and by the invariants.
"""

from __future__ import annotations

from messaging.errors import NotReady
from messaging.protocol.names import parse_topic
from tests.simulation.consumer import ConsumerClient
from tests.simulation.operation_table import BATCH_MAX, ENTRIES_MAX, PERMITS_MAX, operation, padding_of
from tests.simulation.producer import ProducerClient
from tests.simulation.simulation import Simulation
from tests.simulation.web_socket_clients import TOPIC as OVER_WEB_SOCKETS

DELAY_MS_MAX = 1_500
CHUNKS_MAX = 5
READS_FAIL_S_MAX = 0.5
CRASH_OPERATIONS_MAX = 80  # of disk and metadata, until a crash comes


def _producer(simulation: Simulation) -> ProducerClient | None:
    ready = [producer for producer in simulation.producers if producer.ready]
    return simulation.random.choice(ready) if ready else None


def _consumer(simulation: Simulation, *, holding: bool = False) -> ConsumerClient | None:
    ready = [
        consumer
        for consumer in simulation.consumers
        if consumer.ready and consumer.consumer is not None and (consumer.unacked or not holding)
    ]
    return simulation.random.choice(ready) if ready else None


@operation(weight=20)
def publish(simulation: Simulation) -> str | None:
    producer = _producer(simulation)
    if producer is None:
        return None
    count, padding_bytes = simulation.random.randint(1, ENTRIES_MAX), padding_of(simulation)
    producer.publish([1] * count, padding_bytes)
    return f"{producer.name}: {count} messages with {padding_bytes} bytes"


@operation(weight=8)
def publish_batches(simulation: Simulation) -> str | None:
    producer = _producer(simulation)
    if producer is None:
        return None
    sizes = [simulation.random.randint(2, BATCH_MAX) for _ in range(simulation.random.randint(1, 3))]
    padding_bytes = padding_of(simulation)
    producer.publish(sizes, padding_bytes)
    return f"{producer.name}: batches of {sizes} with {padding_bytes} bytes"


@operation(weight=6)
def publish_later(simulation: Simulation) -> str | None:
    producer = _producer(simulation)
    if producer is None:
        return None
    choices = (0, 1, DELAY_MS_MAX, simulation.random.randint(1, DELAY_MS_MAX))
    delays_ms = [simulation.random.choice(choices) for _ in range(simulation.random.randint(1, ENTRIES_MAX))]
    producer.publish_later(delays_ms)
    return f"{producer.name}: after {delays_ms} ms"


@operation(weight=6)
def publish_chunks(simulation: Simulation) -> str | None:
    """One in five is never completed."""
    producer = _producer(simulation)
    if producer is None:
        return None
    count, padding_bytes = simulation.random.randint(2, CHUNKS_MAX), padding_of(simulation)
    sent = count if simulation.random.random() < 0.8 else simulation.random.randint(1, count - 1)
    producer.publish_chunks(count, padding_bytes, sent)
    return f"{producer.name}: {sent} of {count} chunks with {padding_bytes} bytes"


@operation(weight=16)
def flow(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation)
    if consumer is None:
        return None
    permits = simulation.random.randint(1, PERMITS_MAX)
    consumer.flow(permits)
    return f"{consumer.name}: {permits} permits"


@operation(weight=14)
def acknowledge(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation, holding=True)
    if consumer is None:
        return None
    places = consumer.usable
    if not places:
        return None
    chosen = consumer.whole(simulation.random.sample(places, simulation.random.randint(1, len(places))))
    consumer.acknowledge(chosen, answered=simulation.random.random() < 0.7)
    return f"{consumer.name}: {chosen}"


@operation(weight=6)
def acknowledge_in_batch(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation, holding=True)
    if consumer is None:
        return None
    batches = [place for place, texts in consumer.unacked.items() if len(texts) > 1]
    if not batches:
        return None
    place = simulation.random.choice(batches)
    index = simulation.random.choice([at for at, text in enumerate(consumer.unacked[place]) if text])
    consumer.acknowledge_in_batch(place, index, answered=simulation.random.random() < 0.7)
    return f"{consumer.name}: {index} of {place}"


@operation(weight=5)
def acknowledge_cumulatively(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation, holding=True)
    if consumer is None or consumer.subscribed.shared:
        return None
    if not consumer.usable:
        return None
    place = simulation.random.choice(consumer.usable)
    consumer.acknowledge_to(place, answered=simulation.random.random() < 0.7)
    return f"{consumer.name}: to {place}"


@operation(weight=5)
def redeliver(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation, holding=True)
    if consumer is None:
        return None
    places = list(consumer.unacked)
    chosen = consumer.whole(simulation.random.sample(places, simulation.random.randint(0, len(places))))
    consumer.give_back(chosen)
    return f"{consumer.name}: {chosen or 'all'}"


@operation(weight=5)
def disconnect(simulation: Simulation) -> str | None:
    clients = [*simulation.producers, *simulation.consumers, *(simulation.non_persistent or ()), *(simulation.web_sockets or ())]
    client = simulation.random.choice(clients)
    client.disconnect()
    return client.name


@operation(weight=2)
def seek(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation)
    if consumer is None:
        return None
    earliest = simulation.random.random() < 0.7
    consumer.seek(earliest=earliest)
    return f"{consumer.name}: to the {'beginning' if earliest else 'end'}"


@operation(weight=2)
def unload(simulation: Simulation) -> str | None:
    topic = simulation.random.choice([*simulation.topics, OVER_WEB_SOCKETS])
    life = simulation.life
    life.loop.create_task(life.service.topics.unload(parse_topic(topic), NotReady("the topic moves")))
    return topic


@operation(weight=2)
def stop_reading(simulation: Simulation) -> str | None:
    consumer = _consumer(simulation)
    if consumer is None or consumer.link is None:
        return None
    consumer.link.peer_reads = False
    simulation.later(simulation.random.random(), consumer.link.read_on)
    return consumer.name


@operation(weight=2)
def fill_disk(simulation: Simulation) -> str | None:
    if simulation.full:
        return None
    simulation.fill_disk()
    return "no byte is free"


@operation(weight=3)
def free_disk(simulation: Simulation) -> str | None:
    if not simulation.full:
        return None
    simulation.free_disk()
    return "there is space again"


@operation(weight=2)
def fail_reads(simulation: Simulation) -> str | None:
    if simulation.reads_fail:
        return None
    seconds = simulation.random.random() * READS_FAIL_S_MAX
    simulation.fail_reads(seconds)
    return f"for {seconds:.3f} s"


@operation(weight=3)
def crash(simulation: Simulation) -> str | None:
    life = simulation.life
    if life.crash_at:
        return None
    life.crash_at = life.operations + simulation.random.randint(1, CRASH_OPERATIONS_MAX)
    return f"before operation {life.crash_at}"
