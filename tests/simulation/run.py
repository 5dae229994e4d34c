"""One run: clients come, things happen step by step, everything is read in the end. The same seed gives the same run.

simulate(seed)
operations.py, operations_elsewhere.py, operations_of_delays.py   what can happen   invariants.py, checker.py   what must hold
simulation.py    the world                      life.py                     the broker in it
client.py, producer.py, consumer.py, non_persistent.py, web_socket_clients.py   its clients
    network.py, sockets.py      their connections
threads.py, virtual_time.py, environment.py     what makes it repeatable
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from messaging.protocol import pulsar_pb2 as pb
from messaging.settings import Settings
from tests.simulation import invariants, operations, operations_elsewhere, operations_of_delays
from tests.simulation.checker import Violated
from tests.simulation.client import Client
from tests.simulation.consumer import ConsumerClient
from tests.simulation.environment import substituted
from tests.simulation.non_persistent import NonPersistentClients
from tests.simulation.operation_table import OPERATIONS
from tests.simulation.operations_of_delays import LONG_DELAY_S
from tests.simulation.producer import ProducerClient
from tests.simulation.simulation import READS_SETTLE_S, Simulation, Trace
from tests.simulation.small_runs import small_runs
from tests.simulation.web_socket_clients import TOPIC as WEB_SOCKET_TOPIC
from tests.simulation.web_socket_clients import WebSocketClient, WebSocketClients

assert operations and operations_elsewhere and operations_of_delays  # they fill the table
STEPS = 300
STEP_S_MAX = 0.02
RESTS = 0.04  # of the steps, after which everything under way comes to its end
REST_S = 2.0  # how long that takes at most
LONG_RESTS = 0.2  # of those, so long that everything which was delayed comes
KINDS = (pb.Subscribe.Exclusive, pb.Subscribe.Failover, pb.Subscribe.Shared, pb.Subscribe.Key_Shared)
ROUNDS_MAX, ROUND_S = 1_000, 0.1  # in which all messages of WebSockets come
PERMITS_OF_READER = 1_000_000


@dataclass
class Result:
    seed: int
    trace: Trace
    counts: dict[str, int]
    violation: str  # empty: everything held


def simulate(seed: int, settings: Settings, steps: int = STEPS) -> Result:
    """`settings` names a directory that the broker may write what is not simulated to: the snapshot of the feed."""
    simulation = Simulation(seed, settings, invariants.AFTER_EVERY_STEP)
    violation = ""
    with substituted(simulation.clock, Random(f"chance in {seed}")), small_runs(simulation.checker.count):
        try:
            begin(simulation)
            for _ in range(steps):
                step(simulation)
            end(simulation)
        except Violated as violated:
            violation = str(violated)
            simulation.note(f"VIOLATED: {violation}")
        finally:
            simulation.abandon()
    return Result(seed, simulation.trace, simulation.checker.counts, violation)


def begin(simulation: Simulation) -> None:
    simulation.begin_life()
    simulation.life.loop.call(lambda: come(simulation))


def come(simulation: Simulation) -> None:
    """Two topics, each with two producers and two subscriptions."""
    for number, topic in enumerate(simulation.topics):
        simulation.producers += [ProducerClient(simulation, f"p{number}{letter}", topic) for letter in "ab"]
        for kind in simulation.random.sample(KINDS, 2):
            name = pb.Subscribe.SubType.Name(kind).lower()
            for member in range(1 if kind == pb.Subscribe.Exclusive else 2):
                consumer = ConsumerClient(simulation, f"c{number}-{name}-{member}", topic, name, kind)
                simulation.consumers.append(consumer)
    simulation.non_persistent = NonPersistentClients(simulation)
    simulation.web_sockets = WebSocketClients(simulation)


def step(simulation: Simulation) -> None:
    names = list(OPERATIONS)
    [name] = simulation.random.choices(names, [OPERATIONS[name].weight for name in names])
    done = simulation.life.loop.call(lambda: OPERATIONS[name].perform(simulation))
    if done is not None:
        simulation.note(f"{name}: {done}")
        simulation.checker.count(name)
    if simulation.random.random() < RESTS:
        rest(simulation, LONG_DELAY_S + REST_S if simulation.random.random() < LONG_RESTS else REST_S)
        if not simulation.full and simulation.clock.now_s > simulation.reads_good_from_s:
            simulation.require(invariants.AT_REST)
    else:
        simulation.run_for(simulation.random.random() * STEP_S_MAX)


def rest(simulation: Simulation, seconds: float = REST_S) -> None:
    """Until nothing is under way. A crash that was to come does not."""
    simulation.life.crash_at = 0
    simulation.run_for(seconds)


def end(simulation: Simulation) -> None:
    """All clients go, everything that is owed is read, and nothing is left behind in memory."""
    simulation.free_disk()
    simulation.mend_reads()
    simulation.clock.wall_off_s = 0.0
    simulation.run_for(max(READS_SETTLE_S, LONG_DELAY_S))
    rest(simulation)
    simulation.require(invariants.AT_REST)
    finish_without_storing(simulation)
    finish_over_web_sockets(simulation)
    leave(simulation, [*simulation.producers, *simulation.consumers, *elsewhere(simulation)])
    simulation.life.loop.call(lambda: send_readers(simulation))
    rest(simulation)
    for reader in simulation.consumers:
        if not reader.ready:
            raise Violated(f"{reader.name} cannot subscribe to {reader.topic} {reader.subscription}")
        simulation.life.loop.call(partial(reader.flow, PERMITS_OF_READER))
    rest(simulation)
    simulation.require(invariants.AFTER_ALL_IS_READ)
    leave(simulation, simulation.consumers)
    simulation.require(invariants.AT_THE_END)
    simulation.stop()


def finish_without_storing(simulation: Simulation) -> None:
    """Whoever can take a message is sent it, whatever was dropped before."""
    clients = simulation.non_persistent
    assert clients is not None
    for consumer in clients.consumers:
        simulation.life.loop.call(partial(consumer.flow, PERMITS_OF_READER))
    rest(simulation)
    before = {name: len(messages) for name, messages in clients.traffic.delivered.items()}
    for producer in clients.producers:
        simulation.life.loop.call(partial(producer.publish, [1], 0))
    rest(simulation)
    for consumer in clients.consumers:
        came = len(clients.traffic.delivered.get(consumer.subscription, ())) - before.get(consumer.subscription, 0)
        if came != len(clients.producers):
            raise Violated(f"{came} of {len(clients.producers)} messages came to {consumer.subscription}, which had permits")


def send_readers(simulation: Simulation) -> None:
    """One for each subscription, in place of its consumers."""
    simulation.consumers = []
    for number, subscribed in enumerate(simulation.checker.subscriptions.values()):
        kind = pb.Subscribe.Key_Shared if subscribed.keyed else pb.Subscribe.Shared if subscribed.shared else pb.Subscribe.Exclusive
        simulation.consumers.append(ConsumerClient(simulation, f"reader-{number}", subscribed.topic, subscribed.name, kind))


def finish_over_web_sockets(simulation: Simulation) -> None:
    """Who acknowledges, or asks for more, is sent everything."""
    clients = simulation.web_sockets
    assert clients is not None
    last = max(
        (message.place for message in simulation.checker.messages.values() if message.topic == WEB_SOCKET_TOPIC and message.place),
        default=(-1, -1),
    )
    for _ in range(ROUNDS_MAX):
        simulation.life.loop.call(clients.take_everything)
        simulation.run_for(ROUND_S)
        if not clients.hold_messages and not any(reader.last < last for reader in clients.readers):
            break  # what is read from a slow disk may take longer than a round
    for consumer in clients.consumers:
        if consumer.consumer is None:
            raise Violated(f"{consumer.name} is not connected")
        if missing := invariants.undelivered(consumer.consumer.subscription, simulation.checker.now_ms()):
            raise Violated(f"{len(missing)} messages do not come to {consumer.name} and its like: {missing[:5]}")
    for reader in clients.readers:
        if reader.last < last:
            raise Violated(f"{reader.name} is at {reader.last}, and the last message at {last}")


def elsewhere(simulation: Simulation) -> list[Client | WebSocketClient]:
    """The clients of other topics: of the non-persistent one, and over WebSockets."""
    return [*(simulation.non_persistent or ()), *(simulation.web_sockets or ())]


def leave(simulation: Simulation, clients: Sequence[Client | WebSocketClient]) -> None:
    for client in clients:
        simulation.life.loop.call(client.stop)
    rest(simulation)
