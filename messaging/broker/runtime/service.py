"""The broker with everything that is asked of it: the admin RPC's methods and the local sessions, one module each."""

from __future__ import annotations

from messaging.broker.runtime.rpc_broker import BrokerRpc
from messaging.broker.runtime.rpc_topics import TopicRpc


class BrokerService(TopicRpc, BrokerRpc):
    """What `messaging/broker/http` serves: one method for each of `messaging.adminrpc.schema.METHODS`, dots as underscores."""
