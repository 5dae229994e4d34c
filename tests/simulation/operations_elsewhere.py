"""What can happen to clients of the non-persistent topic, and to those over WebSockets."""

from __future__ import annotations

from tests.simulation.operation_table import BATCH_MAX, ENTRIES_MAX, LARGE_BYTES, PERMITS_MAX, operation, padding_of
from tests.simulation.simulation import Simulation
from tests.simulation.web_socket_clients import WebSocketConsumer

UNSTORED_BYTES_MAX = 2_000


@operation(weight=8)
def publish_without_storing(simulation: Simulation) -> str | None:
    ready = [producer for producer in simulation.non_persistent.producers if producer.ready] if simulation.non_persistent else []
    if not ready:
        return None
    producer, padding_bytes = simulation.random.choice(ready), min(padding_of(simulation), UNSTORED_BYTES_MAX)
    sizes = [simulation.random.choice((1, 1, BATCH_MAX)) for _ in range(simulation.random.randint(1, ENTRIES_MAX))]
    producer.publish(sizes, padding_bytes)
    return f"{producer.name}: batches of {sizes} with {padding_bytes} bytes"


@operation(weight=6)
def flow_without_storing(simulation: Simulation) -> str | None:
    ready = [consumer for consumer in simulation.non_persistent.consumers if consumer.ready] if simulation.non_persistent else []
    if not ready:
        return None
    consumer, permits = simulation.random.choice(ready), simulation.random.randint(1, PERMITS_MAX)
    consumer.flow(permits)
    return f"{consumer.name}: {permits} permits"


@operation(weight=2)
def stop_reading_what_is_not_stored(simulation: Simulation) -> str | None:
    """What is published meanwhile is dropped once the connection is full."""
    ready = [consumer for consumer in simulation.non_persistent.consumers if consumer.ready] if simulation.non_persistent else []
    if not ready:
        return None
    consumer = simulation.random.choice(ready)
    assert consumer.link is not None
    consumer.link.peer_reads = False
    consumer.flow(LARGE_BYTES)
    simulation.later(simulation.random.random(), consumer.link.read_on)
    return consumer.name


@operation(weight=10)
def publish_over_a_web_socket(simulation: Simulation) -> str | None:
    ready = [producer for producer in simulation.web_sockets.producers if producer.ready] if simulation.web_sockets else []
    if not ready:
        return None
    producer, count, padding_bytes = (
        simulation.random.choice(ready),
        simulation.random.randint(1, ENTRIES_MAX),
        padding_of(simulation),
    )
    producer.publish(count, padding_bytes)
    return f"{producer.name}: {count} messages with {padding_bytes} bytes"


def _over_a_web_socket(simulation: Simulation) -> WebSocketConsumer | None:
    holding = (
        [consumer for consumer in simulation.web_sockets.consumers if consumer.ready and consumer.unacked]
        if simulation.web_sockets
        else []
    )
    return simulation.random.choice(holding) if holding else None


@operation(weight=12)
def acknowledge_over_a_web_socket(simulation: Simulation) -> str | None:
    consumer = _over_a_web_socket(simulation)
    if consumer is None:
        return None
    unacked = list(consumer.unacked)
    chosen = simulation.random.sample(unacked, simulation.random.randint(1, len(unacked)))
    consumer.acknowledge(chosen)
    return f"{consumer.name}: {len(chosen)} messages"


@operation(weight=4)
def refuse_over_a_web_socket(simulation: Simulation) -> str | None:
    consumer = _over_a_web_socket(simulation)
    if consumer is None or consumer.kind != "Shared":
        return None
    chosen = simulation.random.sample(list(consumer.unacked), 1)
    consumer.refuse(chosen)
    return f"{consumer.name}: {chosen}"


@operation(weight=6)
def read_on_over_a_web_socket(simulation: Simulation) -> str | None:
    waiting = (
        [reader for reader in simulation.web_sockets.readers if reader.ready and reader.unread] if simulation.web_sockets else []
    )
    if not waiting:
        return None
    reader = simulation.random.choice(waiting)
    reader.go_on()
    return reader.name


@operation(weight=3)
def stop_reading_a_web_socket(simulation: Simulation) -> str | None:
    ready = [client for client in simulation.web_sockets or () if client.ready and client.socket is not None]
    if not ready:
        return None
    client = simulation.random.choice(ready)
    assert client.socket is not None
    client.socket.peer_reads = False
    simulation.later(simulation.random.random(), client.socket.read_on)
    return client.name
