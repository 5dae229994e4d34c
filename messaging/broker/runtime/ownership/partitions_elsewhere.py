"""What a change of a partitioned topic asks of the brokers that serve its other partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from messaging.adminrpc.base import Empty, Method
from messaging.adminrpc.methods import PARTITIONS_CHECK_UNUSED, PARTITIONS_DELETE, RECYCLE_BIN_LEAVE, SUBSCRIPTIONS_CREATE
from messaging.adminrpc.recycle_bin import PlaceLeft
from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import TopicRef
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.errors import Conflict, NotReady
from messaging.protocol.names import TopicName


class PartitionsOfOthers:
    """Of a broker of a fleet. Implements `PartitionsElsewhere`."""

    def __init__(self, owners: FleetMember, others: OtherBrokers) -> None:
        self._owners = owners
        self._others = others

    async def check_unused(self, name: TopicName, partitions: Sequence[TopicName]) -> None:
        await self._ask_each(PARTITIONS_CHECK_UNUSED, name, partitions)

    async def delete(self, name: TopicName, partitions: Sequence[TopicName]) -> None:
        await self._ask_each(PARTITIONS_DELETE, name, partitions)

    async def subscribe(self, partition: TopicName, subscription: str, properties: dict[str, str]) -> None:
        elsewhere = await self._owners.where(partition)
        if elsewhere is None:
            raise NotReady(f"{partition} came here meanwhile: try again")
        request = SubscriptionCreate(
            topic=str(partition), subscription=subscription, ledger_id=-1, entry_id=-1, properties=properties
        )
        with suppress(Conflict):
            await self._others.call(elsewhere.addresses["rpc_url"], SUBSCRIPTIONS_CREATE, request, partition.tenant)

    async def purged(self, name: TopicName, place: str, ledger_ids: Sequence[int]) -> None:
        await self._tell_owner(RECYCLE_BIN_LEAVE, name, PlaceLeft(topic=str(name), place=place, ledger_ids=list(ledger_ids)))

    async def restored(self, name: TopicName, place: str) -> None:
        await self._tell_owner(RECYCLE_BIN_LEAVE, name, PlaceLeft(topic=str(name), place=place, restored=True))

    async def _tell_owner(self, method: Method[PlaceLeft, Empty], name: TopicName, request: PlaceLeft) -> None:
        elsewhere = await self._owners.where(name)
        if elsewhere is None:
            raise NotReady(f"{name} came here meanwhile: try again")
        await self._others.call(elsewhere.addresses["rpc_url"], method, request, name.tenant)

    async def _ask_each(self, method: Method[TopicRef, Empty], name: TopicName, partitions: Sequence[TopicName]) -> None:
        places: dict[str, None] = {}
        for partition in partitions:
            elsewhere = await self._owners.where(partition)
            if elsewhere is not None:
                places[elsewhere.addresses["rpc_url"]] = None
        for place in places:
            await self._others.call(place, method, TopicRef(topic=str(name)), name.tenant)
