"""The broker with everything that is asked of it: the admin RPC's methods and the local sessions, one module each."""

from __future__ import annotations

from collections.abc import Iterable

from messaging.broker.runtime.admin.broker import BrokerRpc
from messaging.broker.runtime.admin.topics import TopicRpc
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.metrics import Sample


class BrokerService(TopicRpc, BrokerRpc):
    """What `messaging/broker/http` serves: one method for each of `messaging.adminrpc.schema.METHODS`, dots as underscores."""

    def metrics(self, *, private: bool) -> Iterable[Sample]:
        return broker_samples(self, private=private)
