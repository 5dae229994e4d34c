"""Exclusive: the only consumer receives everything. Pure."""

from __future__ import annotations

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.single_active import SingleActiveDispatch
from messaging.broker.core.subscription_type import SubscriptionType


class ExclusiveDispatch(SingleActiveDispatch):
    __slots__ = ()
    kind = SubscriptionType.EXCLUSIVE

    def attach(self, consumer: Consumer) -> None:
        self._activate(consumer)

    def detach(self, consumer: Consumer) -> None:
        self._activate(None)
