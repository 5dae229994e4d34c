"""Admin RPC: bundles and their owners."""

from __future__ import annotations

from collections import defaultdict

from messaging.adminrpc.base import Empty
from messaging.adminrpc.bundles import (
    BrokerDrained,
    BundleLoad,
    BundleLoads,
    BundleMoved,
    BundleOwner,
    BundleOwners,
    Drained,
    LoadsAsked,
    NamespaceAsked,
)
from messaging.adminrpc.methods import BROKERS_DRAIN, BUNDLES_LOADS, BUNDLES_MOVE, BUNDLES_OWNERS
from messaging.broker.core.ownership.load import load_of
from messaging.broker.core.ownership.ranges import range_of
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.bundle_moves import BundleMoves
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.errors import NotAllowed
from messaging.protocol.bundles import Bundle, bundle_from, bundle_of, bundles_of
from messaging.storage.ownership import NamespaceBundle

SUBSCRIPTIONS_A_UNIT = 50  # whose consumers are counted


class BundleHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(BUNDLES_OWNERS)
    async def owners(self, request: NamespaceAsked) -> BundleOwners:
        """As this broker knows it: up to a second old."""
        await self._broker.require_namespace(request.namespace)
        owners = self._broker.owners
        own_id = self._broker.settings.broker_id
        answer = BundleOwners(bundles=[])
        for bundle in bundles_of(self._broker.access.view.boundaries_of(request.namespace)):
            row = owners.owners.row_at(request.namespace, bundle.lower) if isinstance(owners, FleetMember) else None
            broker_id = own_id if not isinstance(owners, FleetMember) else row.broker_id if row is not None else ""
            live = not isinstance(owners, FleetMember) or (row is not None and owners.owners.is_live(row))
            draining = row is not None and row.state == "draining"
            answer.bundles.append(
                BundleOwner(namespace=request.namespace, bundle=str(bundle), broker_id=broker_id, live=live, draining=draining)
            )
        return answer

    @answers(BUNDLES_LOADS)
    async def loads(self, request: LoadsAsked) -> BundleLoads:
        broker, owners, asked = self._broker, self._broker.owners, request.namespace
        by_bundle: defaultdict[tuple[str, Bundle], list[Topic]] = defaultdict(list)
        if isinstance(owners, FleetMember) and not asked:
            for row in owners.owners.owned_by(owners.broker_id):
                if row.bundle.namespace.startswith(f"{OWN_TENANT}/"):
                    continue
                by_bundle[row.bundle.namespace, range_of(row.bundle)] = []
        slices = broker.topics.services.loops.slices("")
        for topic in broker.topics.loaded_of(asked) if asked else broker.topics:
            await slices.spend(1 + len(topic.subscriptions.table) // SUBSCRIPTIONS_A_UNIT)
            if topic.name.tenant == OWN_TENANT:  # of the broker itself, and not of a bundle
                continue
            bundle = self._bundle_that_is_told(topic) if asked else self._bundle_of(topic)
            by_bundle[bundle].append(topic)
        return BundleLoads(
            broker_id=broker.settings.broker_id,
            movable=broker.bundle_moves is not None,
            draining=isinstance(owners, SharedMember) and owners.drains,
            bundles=[_load(namespace, bundle, topics) for (namespace, bundle), topics in by_bundle.items()],
        )

    def _bundle_that_is_told(self, topic: Topic) -> tuple[str, Bundle]:
        """By the control plane: also of what was split a moment ago."""
        namespace = str(topic.name.namespace)
        return namespace, bundle_of(self._broker.access.view.boundaries_of(namespace), topic.text)

    def _bundle_of(self, topic: Topic) -> tuple[str, Bundle]:
        """That is owned; else, that the control plane has."""
        owners = self._broker.owners
        namespace, bundle = self._bundle_that_is_told(topic)
        if isinstance(owners, FleetMember):
            row = owners.owners.row_at(namespace, bundle.lower)
            bundle = bundle if row is None else range_of(row.bundle)
        return namespace, bundle

    @answers(BUNDLES_MOVE)
    async def move(self, request: BundleMoved) -> Empty:
        lower, upper = bundle_from(request.bundle)
        await self._moves().give(NamespaceBundle(request.namespace, lower, upper), request.to_broker_id)
        return Empty()

    @answers(BROKERS_DRAIN)
    async def drain(self, request: BrokerDrained) -> Drained:
        """Gives all bundles away and takes none until the broker starts again, or somebody says that it ends."""
        moves = self._moves()
        if request.ends:
            await moves.end_drain()
            return Drained(left=len(moves.rows()))
        return Drained(left=await moves.drain())

    def _moves(self) -> BundleMoves:
        if self._broker.bundle_moves is None:
            raise NotAllowed(
                "bundles stay with the broker in whose log their messages lie: they can move where all brokers store in one place "
                "(metadata_url and ledger_url)"
            )
        return self._broker.bundle_moves


def _load(namespace: str, bundle: Bundle, topics: list[Topic]) -> BundleLoad:
    rates = [topic.rates or QUIET for topic in topics]
    messages_in = sum(each.messages_in.a_second for each in rates)
    messages_out = sum(each.messages_out.a_second for each in rates)
    bytes_in, bytes_out = sum(each.bytes_in.a_second for each in rates), sum(each.bytes_out.a_second for each in rates)
    return BundleLoad(
        namespace=namespace,
        bundle=str(bundle),
        topics=len(topics),
        messages_in_per_s=messages_in,
        messages_out_per_s=messages_out,
        bytes_in_per_s=bytes_in,
        bytes_out_per_s=bytes_out,
        load=load_of(len(topics), messages_in + messages_out, bytes_in + bytes_out),
        producers=sum(len(topic.producers) for topic in topics),
        consumers=sum(len(subscription.consumers) for topic in topics for subscription in topic.subscriptions.table.values()),
    )
