"""What happens to a fleet in a round: each fault is a function of the campaign, which returns once everything that has to go on
while the fault lasts did, the fault is over, and every topic takes messages again.

`ANYWHERE` are for brokers of any kind, `SHARED` for those that store in one place, `CUT` for machines between which a network can
be cut, and `BOOKIES` for those whose messages are on bookies. The number is how often one happens, to each other.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.compat.fleet.machines import POSTGRESQL, ZOOKEEPER, Machines
from tests.compat.fleet.network import HOST
from tests.compat.fleet.platforms import Platform, send_signal
from tests.compat.fleet.witness import Witness

if TYPE_CHECKING:
    from tests.compat.fleet.campaign import Campaign

LEASE_S = 12.0
LONG_S = 40.0
LASTS_S = (3.0, LEASE_S, LONG_S)  # cuts and pauses of what others do without: shorter than a lease, as long, and longer


# --- brokers


def kill(campaign: Campaign) -> None:
    _kill(campaign, [campaign.a_broker()])


def kill_the_first(campaign: Campaign) -> None:
    _kill(campaign, campaign.platform.names[:1])


def kill_all(campaign: Campaign) -> None:
    _kill(campaign, campaign.platform.names)


def _kill(campaign: Campaign, names: list[str]) -> None:
    topics = {topic for name in names for topic in campaign.topics_of(name)}
    pids = [campaign.platform.pid(name) for name in names]
    begun_s = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    what = "kill of all brokers" if len(names) == len(campaign.platform.names) else "kill of a broker"
    campaign.again(begun_s, after=what, topics=topics)


def stop(campaign: Campaign) -> None:
    """A broker stands still, and wakes. Where others take its topics over, it then acknowledges nothing."""
    name = campaign.a_broker()
    topics = campaign.topics_of(name)
    platform = campaign.platform
    witness = None
    if platform.shared and campaign.stop_s > 2 * LEASE_S and (chosen := campaign.a_plain_topic_of(name)):
        witness = Witness(platform.own_url(name), platform.admin_token, chosen)
    send_signal(platform, name, signal.SIGSTOP)
    begun_s = time.monotonic()
    try:
        if witness is not None:
            witness.publish()
        campaign.again(
            begun_s, () if platform.shared else topics, after="stop of a broker" if platform.shared else "", topics=topics
        )
        campaign.wait(begun_s + campaign.stop_s - time.monotonic())
    finally:
        send_signal(platform, name, signal.SIGCONT)
    if witness is not None:
        witness.check()
    campaign.again(time.monotonic())


def kill_web(campaign: Campaign) -> None:
    campaign.platform.kill_web()
    campaign.again(time.monotonic())


def move(campaign: Campaign) -> None:
    """The bundle of some topic."""
    topic = campaign.a_topic()
    begun_s = time.monotonic()
    campaign.unload(topic)
    campaign.again(begun_s, after="move of a bundle", topics={topic})


def split(campaign: Campaign) -> None:
    """The bundle of some topic, after which its parts may go to different brokers."""
    begun_s = time.monotonic()
    campaign.split(topic := campaign.a_topic())
    campaign.again(begun_s, after="split of a bundle", topics={topic})


def drain(campaign: Campaign) -> None:
    """A broker gives all away and ends; it starts again."""
    name = campaign.a_broker()
    topics = campaign.topics_of(name)
    begun_s = time.monotonic()
    send_signal(campaign.platform, name, signal.SIGTERM)
    campaign.again(begun_s, after="drain of a broker", topics=topics)


# --- the network


def _machines(platform: Platform) -> Machines:
    assert isinstance(platform, Machines)
    return platform


@contextmanager
def _cut(campaign: Campaign, name: str, *others: str, hears: bool = False, heard: bool = False) -> Iterator[float]:
    network = _machines(campaign.platform).network
    network.cut(name, *others, hears=hears, heard=heard)
    try:
        yield time.monotonic()
    finally:
        network.heal(name)


def _cut_broker(campaign: Campaign, kind: str, *others: str, hears: bool = False, heard: bool = False) -> None:
    """From what it needs to keep its lease. The topics of other brokers go on, and if it lasts, its own do too, elsewhere."""
    name = campaign.a_broker()
    topics = campaign.topics_of(name)
    lasts_s = campaign.lasts_s()
    with _cut(campaign, name, *others, hears=hears, heard=heard) as begun_s:
        if lasts_s == LONG_S:
            campaign.again(begun_s, after=kind, topics=topics)
        else:
            campaign.again(begun_s, others_than=topics)
        campaign.wait(begun_s + lasts_s - time.monotonic())
    campaign.again(time.monotonic(), after=f"end of: {kind}", topics=topics)


def cut_from_metadata(campaign: Campaign) -> None:
    """Its clients still reach it."""
    _cut_broker(campaign, "cut of a broker from PostgreSQL", POSTGRESQL)


def half_cut_from_metadata(campaign: Campaign) -> None:
    """What it sends arrives and no answer does, or the other way round."""
    hears = campaign.chance.random() < 0.5
    _cut_broker(campaign, "half cut of a broker from PostgreSQL", POSTGRESQL, hears=hears, heard=not hears)


def cut_off(campaign: Campaign) -> None:
    _cut_broker(campaign, "cut of a broker from all")


def cut_from_clients(campaign: Campaign) -> None:
    """It keeps its topics, which nobody reaches meanwhile."""
    name = campaign.a_broker()
    with _cut(campaign, name, HOST):
        campaign.wait(campaign.lasts_s())
    campaign.again(time.monotonic(), after="end of: cut of a broker from clients", topics=campaign.topics_of(name))


def cut_from_a_broker(campaign: Campaign) -> None:
    """Two brokers do not reach each other."""
    one, other = campaign.two_brokers()
    with _cut(campaign, one, other) as begun_s:
        campaign.again(begun_s, after="cut between two brokers")
        campaign.wait(campaign.lasts_s())
    campaign.again(time.monotonic())


def cut_and_kill(campaign: Campaign) -> None:
    """One is cut from the metadata, and another one killed meanwhile."""
    one, other = campaign.two_brokers()
    with _cut(campaign, one, POSTGRESQL) as begun_s:
        campaign.wait(campaign.chance.uniform(0, LEASE_S))
        send_signal(campaign.platform, other, signal.SIGKILL)
        campaign.wait(begun_s + LEASE_S - time.monotonic())
    campaign.again(time.monotonic(), after="end of: cut of one broker, kill of another")


def cut_off_the_database(campaign: Campaign) -> None:
    with _cut(campaign, POSTGRESQL):
        campaign.wait(campaign.chance.choice((2.0, LEASE_S / 2, 2 * LEASE_S)))
    campaign.again(time.monotonic(), after="end of: cut of PostgreSQL from all")


def stop_the_database(campaign: Campaign) -> None:
    """It stands still, with all that it has begun."""
    server = _machines(campaign.platform).postgresql
    server.signal(signal.SIGSTOP)
    try:
        campaign.wait(campaign.chance.choice((2.0, LEASE_S / 2, 2 * LEASE_S)))
    finally:
        server.signal(signal.SIGCONT)
    campaign.again(time.monotonic(), after="end of: stop of PostgreSQL")


def restart_the_database(campaign: Campaign) -> None:
    """It crashes, and is started again."""
    server = _machines(campaign.platform).postgresql
    server.crash()
    campaign.wait(campaign.chance.uniform(0, 5))
    server.start()
    campaign.again(time.monotonic(), after="start of PostgreSQL")


# --- bookies and ZooKeeper


def _a_bookie(campaign: Campaign) -> str:
    return campaign.chance.choice([name for name in _machines(campaign.platform).stores if name != ZOOKEEPER])


def kill_a_bookie(campaign: Campaign) -> None:
    _kill_store(campaign, _a_bookie(campaign))


def kill_zookeeper(campaign: Campaign) -> None:
    _kill_store(campaign, ZOOKEEPER)


def _kill_store(campaign: Campaign, name: str) -> None:
    server = _machines(campaign.platform).stores[name]
    server.kill()
    begun_s = time.monotonic()
    try:
        if name != ZOOKEEPER:
            campaign.again(begun_s, after="kill of a bookie")
        campaign.wait(begun_s + campaign.chance.uniform(1, 2 * LEASE_S) - time.monotonic())
    finally:
        server.start()
        server.wait()
    campaign.again(time.monotonic())


def stop_a_bookie(campaign: Campaign) -> None:
    _stop_store(campaign, _a_bookie(campaign))


def stop_zookeeper(campaign: Campaign) -> None:
    _stop_store(campaign, ZOOKEEPER)


def _stop_store(campaign: Campaign, name: str) -> None:
    server = _machines(campaign.platform).stores[name]
    server.stop()
    begun_s = time.monotonic()
    try:
        if name != ZOOKEEPER:
            campaign.again(begun_s, after="stop of a bookie")
        campaign.wait(begun_s + campaign.lasts_s() - time.monotonic())
    finally:
        server.go_on()
    campaign.again(time.monotonic())


def cut_off_a_bookie(campaign: Campaign) -> None:
    with _cut(campaign, _a_bookie(campaign)) as begun_s:
        campaign.again(begun_s, after="cut of a bookie from all")
        campaign.wait(begun_s + campaign.lasts_s() - time.monotonic())
    campaign.again(time.monotonic())


def cut_from_a_bookie(campaign: Campaign) -> None:
    """One broker does not reach one bookie."""
    name = campaign.a_broker()
    with _cut(campaign, name, _a_bookie(campaign)) as begun_s:
        campaign.again(begun_s, after="cut of a broker from a bookie", topics=campaign.topics_of(name))
        campaign.wait(begun_s + campaign.lasts_s() - time.monotonic())
    campaign.again(time.monotonic())


def cut_from_zookeeper(campaign: Campaign) -> None:
    """One broker: its ledgers go on, and it makes no new ones."""
    with _cut(campaign, campaign.a_broker(), ZOOKEEPER):
        campaign.wait(campaign.lasts_s())
    campaign.again(time.monotonic())


def kill_broker_and_bookie(campaign: Campaign) -> None:
    """What the broker had under way is recovered without one of its bookies."""
    server = _machines(campaign.platform).stores[_a_bookie(campaign)]
    name = campaign.a_broker()
    topics = campaign.topics_of(name)
    server.kill()
    send_signal(campaign.platform, name, signal.SIGKILL)
    begun_s = time.monotonic()
    try:
        campaign.again(begun_s, after="kill of a broker and a bookie", topics=topics)
    finally:
        server.start()
        server.wait()
    campaign.again(time.monotonic())


Fault = Callable[["Campaign"], None]
ANYWHERE: dict[Fault, int] = {kill: 5, kill_all: 1, stop: 2, kill_web: 1, kill_the_first: 2}
SHARED: dict[Fault, int] = {move: 3, split: 1, drain: 1}
CUT: dict[Fault, int] = {
    cut_from_metadata: 3, half_cut_from_metadata: 2, cut_off: 2, cut_from_clients: 1, cut_from_a_broker: 2, cut_and_kill: 1,
    cut_off_the_database: 1, stop_the_database: 1, restart_the_database: 1,
}  # fmt: skip
BOOKIES: dict[Fault, int] = {
    kill_a_bookie: 2, stop_a_bookie: 2, cut_off_a_bookie: 2, cut_from_a_bookie: 2, kill_broker_and_bookie: 2,
    kill_zookeeper: 1, stop_zookeeper: 1, cut_from_zookeeper: 2,
}  # fmt: skip


def faults_for(platform: Platform) -> dict[Fault, int]:
    chosen = dict(ANYWHERE)
    if platform.shared:
        chosen |= SHARED
    if isinstance(platform, Machines):
        chosen |= CUT | (BOOKIES if platform.on_bookies else {})
    return chosen
