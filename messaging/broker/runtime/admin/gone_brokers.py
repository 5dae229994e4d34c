"""Admin RPC: what operators say of brokers that are gone."""

from __future__ import annotations

from messaging.adminrpc.base import Empty
from messaging.adminrpc.brokers import BrokerForgotten, GoneBroker, RecoverBroker
from messaging.adminrpc.methods import BROKERS_FORGET, BROKERS_RECOVER
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.errors import NotAllowed


class GoneBrokerHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(BROKERS_RECOVER)
    async def recover(self, request: RecoverBroker) -> Empty:
        await self._member().recover(request.gone_broker_id, accept_loss=request.accept_loss)
        return Empty()

    @answers(BROKERS_FORGET)
    async def forget(self, request: GoneBroker) -> BrokerForgotten:
        forgotten = await self._member().forget(request.gone_broker_id)
        return BrokerForgotten(bundles=forgotten.bundles, ledgers=forgotten.ledgers, length_bytes=forgotten.length_bytes)

    def _member(self) -> SharedMember:
        if not isinstance(self._broker.owners, SharedMember):
            raise NotAllowed(
                "no broker can take over from another one here: each has a log of its own, or there is one; `magnetar log repair` "
                "looks at a log, and `magnetar standalone --brokers N` says which topics keep a broker"
            )
        return self._broker.owners
