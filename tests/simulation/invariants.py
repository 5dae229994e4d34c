"""What must hold. To add one: write a function that returns what is wrong, and list it.

What can be judged at each command that the broker writes is in `checker.py`; here is what needs a look at the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.model import Subscribed
from tests.simulation.non_persistent import TOPIC as NON_PERSISTENT
from tests.simulation.simulation import Invariant, Simulation

LATE_MS = 200  # after its time a delayed message is on its way by then
UNREAD_MAX = (64 << 10) + (160 << 10)  # what is written before a peer counts as not reading, and the largest block
GIVEN_BACK = ("ingress", "egress", "catch_up", "sessions")  # accounts that hold nothing for nobody


def nothing_raised(simulation: Simulation) -> Iterator[str]:
    yield from simulation.life.problems


def accounts_are_sums(simulation: Simulation) -> Iterator[str]:
    if simulation.life.serving:
        for account in simulation.life.service.memory_limiter.accounts:
            if min([account.used_bytes, *account.tenants.values()]) < 0 or sum(account.tenants.values()) != account.used_bytes:
                yield f"account {account.name} holds {account.used_bytes} for {account.tenants}"


def permits_meet_messages(simulation: Simulation) -> Iterator[str]:
    """A consumer with permits and a message that is owed find each other."""
    for subscribed in simulation.checker.subscriptions.values():
        ready = [
            client
            for client in simulation.consumers
            if client.ready and client.consumer and client.consumer.subscription is subscribed
        ]
        waiting = [
            client.consumer.name
            for client in ready
            if client.consumer and client.consumer.permits > 0 and client.consumer.active and client.link and client.link.peer_reads
        ]
        if subscribed.keyed and (
            len(waiting) < len(subscribed.consumers) or any(client.holds for client in subscribed.consumers.values())
        ):
            continue  # what is owed may be for one that takes nothing, or of a key that changes hands
        if waiting and (owed := undelivered(subscribed, simulation.due_ms() - LATE_MS)):
            yield f"{', '.join(waiting)} of {subscribed.topic} {subscribed.name} have permits, and {owed[:5]} are not delivered"


def undelivered(subscribed: Subscribed, due_before_ms: int) -> list[str]:
    held_texts = {text for consumer in subscribed.consumers.values() for text in consumer.holds}
    owed = [message for message in subscribed.must_deliver() if message.text not in held_texts and message.due_ms < due_before_ms]
    return [f"{message.text} at {message.place}" for message in owed]


def nothing_is_lost(simulation: Simulation) -> Iterator[str]:
    for subscribed in simulation.checker.subscriptions.values():
        if owed := undelivered(subscribed, simulation.due_ms()):
            yield f"{len(owed)} messages never came to {subscribed.topic} {subscribed.name}: {owed[:5]}"


def delivered_or_dropped(simulation: Simulation) -> Iterator[str]:
    """Of every message of the non-persistent topic one or the other was counted, once, in the turn in which it came."""
    clients = simulation.non_persistent
    topic = simulation.life.service.topics.loaded.get(NON_PERSISTENT) if simulation.life.serving else None
    if clients is None or topic is None:
        return
    for subscription in topic.subscriptions.table.values():
        came, sent, dropped = topic.publisher.messages_in, subscription.messages_out, subscription.messages_dropped
        before = clients.traffic.balances.setdefault(subscription, came - sent - dropped)  # of the time before the subscription
        if came - sent - dropped != before:
            counted = f"{sent} are counted as sent and {dropped} as dropped"
            yield f"{came - before} messages came since {subscription.name} was made; {counted}"


def nothing_waits_for_readers(simulation: Simulation) -> Iterator[str]:
    """Of the non-persistent topic; but what a connection buffers."""
    for client in simulation.non_persistent or ():
        if client.link is not None and client.link.get_write_buffer_size() > UNREAD_MAX:
            yield f"{client.link.get_write_buffer_size()} bytes wait for {client.name}"


def damage_has_a_cause(simulation: Simulation) -> Iterator[str]:
    """Nothing of the index of delayed messages counts as damaged on a disk without dead sectors."""
    expected = not simulation.life.serving or simulation.checker.counts.get("dead sectors")
    if not expected and (damaged := simulation.life.service.storage.damage["delayed"]):
        yield f"{damaged} parts of the index of delayed messages are said to be damaged"


def receipts_come(simulation: Simulation) -> Iterator[str]:
    """At rest no message of the non-persistent topic is without one."""
    clients = simulation.non_persistent
    for producer in clients.producers if clients is not None else ():
        if producer.ready and producer.pending:
            yield f"{producer.pending} messages of {producer.name} have no receipt"


def memory_is_given_back(simulation: Simulation) -> Iterator[str]:
    for account in simulation.life.service.memory_limiter.accounts:
        if account.name in GIVEN_BACK and account.used_bytes:
            yield f"nobody is connected, and account {account.name} holds {account.used_bytes} bytes for {account.tenants}"


AFTER_EVERY_STEP: tuple[Invariant, ...] = (nothing_raised, accounts_are_sums, delivered_or_dropped, nothing_waits_for_readers)
AT_REST: tuple[Invariant, ...] = (permits_meet_messages, receipts_come, damage_has_a_cause)
AFTER_ALL_IS_READ: tuple[Invariant, ...] = (nothing_is_lost,)
AT_THE_END: tuple[Invariant, ...] = (memory_is_given_back,)
