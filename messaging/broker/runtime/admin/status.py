"""Admin RPC: the broker process itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict

from messaging.adminrpc.base import Empty, Request
from messaging.adminrpc.brokers import BrokerAsked, BrokerSeen, BrokersSeen
from messaging.adminrpc.methods import BROKERS_LIST, HEALTH, STATUS
from messaging.adminrpc.status import BrokerStatus
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.fewer_copies import degraded_since_ms
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.instance import machine
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.process import ProcessorUse, machine_bytes, resident_bytes
from messaging.clock import boottime_ms
from messaging.errors import NotReady
from messaging.protocol import hot
from messaging.storage.ledger_store import StoreError
from messaging.version import VERSION


def _seen(broker_id: str, live: bool, addresses: Mapping[str, str]) -> BrokerSeen:
    return BrokerSeen(
        broker_id=broker_id,
        live=live,
        broker_url=addresses.get("broker_url", ""),
        broker_url_tls=addresses.get("broker_url_tls", ""),
        service_url=addresses.get("service_url", ""),
        service_url_tls=addresses.get("service_url_tls", ""),
        ws_url=addresses.get("ws_url", ""),
        rpc_url=addresses.get("rpc_url", ""),
    )


async def _problem(owners: SharedMember, broker_id: str) -> str:
    try:
        return await owners.why_unrecovered(broker_id)
    except StoreError as error:
        return f"whether others took over from it is not known: {error}"


def _placement_problems(broker: Broker) -> list[str]:
    owners = broker.owners
    if not isinstance(owners, FleetMember):
        return []  # it serves everything
    running = [each.broker_id for each in owners.owners.sessions.values() if each.takes]
    return broker.access.view.placement.isolation.problems(running)


class StatusHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions = LocalSessions(broker)
        self._cpu = ProcessorUse()

    @answers(BROKERS_LIST)
    async def list_brokers(self, request: Request) -> BrokersSeen:
        own_id, owners = self._broker.settings.broker_id, self._broker.owners
        if not isinstance(owners, FleetMember):
            return BrokersSeen(brokers=[_seen(own_id, True, asdict(self._broker.addresses))])
        seen = [_seen(each.broker_id, each.live, each.addresses) for each in owners.known_sessions()]
        if isinstance(owners, SharedMember):
            for broker in seen:
                broker.problem = "" if broker.live else await _problem(owners, broker.broker_id)
        return BrokersSeen(brokers=seen)

    @answers(STATUS)
    async def describe(self, request: BrokerAsked) -> BrokerStatus:
        broker = self._broker
        ready, why = broker.ready()
        topics, degraded = list(broker.topics), degraded_since_ms(broker)
        return BrokerStatus(
            broker_id=broker.settings.broker_id,
            boot_epoch=broker.boot_epoch,
            version=VERSION,
            uptime_ms=boottime_ms() - broker.started_at,
            ready=ready,
            why_not_ready=why,
            feed_version=broker.access.view.version,
            connections=len(broker.peers.connections),
            topics_loaded=len(topics),
            producers=sum(len(topic.producers) for topic in topics),
            consumers=sum(len(subscription.consumers) for topic in topics for subscription in topic.subscriptions.table.values()),
            hot_loops="compiled" if hot.COMPILED else "python",
            durability=broker.settings.durability,
            resident_bytes=resident_bytes(),
            cpu_percent=self._cpu.percent(),
            machine=machine(),
            machine_processors=os.cpu_count() or 0,
            machine_bytes=machine_bytes(),
            placement_problems=_placement_problems(broker),
            degraded_ledgers=len(degraded),
            degraded_since_ms=min(degraded.values(), default=None),
        )

    @answers(HEALTH)
    async def check_health(self, request: Request) -> Empty:
        """One message through the log and back to a reader, on a topic of the broker's own."""
        ready, why = self._broker.ready()
        if not ready:
            raise NotReady(why)
        await self._sessions.round_trip()
        return Empty()
