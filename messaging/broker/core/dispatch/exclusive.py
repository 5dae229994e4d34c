"""Exclusive: the only consumer receives everything. Pure."""

from __future__ import annotations

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.single_active import SingleActiveDispatch
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.errors import ConsumerBusy


class ExclusiveDispatch(SingleActiveDispatch):
    __slots__ = ()
    kind = SubscriptionType.EXCLUSIVE

    def admit(self, consumer: Consumer) -> None:
        if self._state.consumers:
            raise ConsumerBusy("the subscription is Exclusive and has a consumer: use Shared or Failover, or close that one")

    def attach(self, consumer: Consumer) -> None:
        self._choose(consumer)

    def detach(self, consumer: Consumer) -> None:
        self._choose(None)
