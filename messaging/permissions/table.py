"""The permissions of the broker: every binary command, WebSocket path and HTTP path names its action.

A test enumerates all of them from the protocol schema and the broker's route tables, and fails on one that is missing here, and on
a row here that nothing answers to. Data only. The rows of the web process are in `controlplane.permissions`.
"""

from __future__ import annotations

from messaging.permissions.model import Action

# Binary protocol: by the name of the command type. Commands that only a broker sends are not listed.
BINARY: dict[str, Action] = {
    "CONNECT": Action.HANDSHAKE,
    "AUTH_RESPONSE": Action.HANDSHAKE,
    "PING": Action.HANDSHAKE,
    "PONG": Action.HANDSHAKE,
    "PARTITIONED_METADATA": Action.LOOKUP,
    "LOOKUP": Action.LOOKUP,
    "GET_TOPICS_OF_NAMESPACE": Action.NAMESPACE_READ,
    "WATCH_TOPIC_LIST": Action.NAMESPACE_READ,
    "WATCH_TOPIC_LIST_CLOSE": Action.SESSION,
    "GET_SCHEMA": Action.LOOKUP,
    "GET_OR_CREATE_SCHEMA": Action.PRODUCE,
    "PRODUCER": Action.PRODUCE,
    "SUBSCRIBE": Action.CONSUME,
    "SEND": Action.SESSION,
    "CLOSE_PRODUCER": Action.SESSION,
    "FLOW": Action.SESSION,
    "ACK": Action.SESSION,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": Action.SESSION,
    "UNSUBSCRIBE": Action.SESSION,
    "CLOSE_CONSUMER": Action.SESSION,
    "SEEK": Action.SESSION,
    "GET_LAST_MESSAGE_ID": Action.SESSION,
    "CONSUMER_STATS": Action.SESSION,
}

# WebSocket: by the route pattern of messaging/broker/runtime/websocket.
WEBSOCKET: dict[str, Action] = {
    "/ws/v2/producer/{domain}/{tenant}/{namespace}/{topic}": Action.PRODUCE,
    "/ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}": Action.CONSUME,
    "/ws/v2/reader/{domain}/{tenant}/{namespace}/{topic}": Action.CONSUME,
    "/ws/v3/consumer/{subscription}": Action.CONSUME,  # of each topic that its query names, or that its pattern matches
    "/ws/v2/binary": Action.HANDSHAKE,  # the commands inside have the rows of the binary protocol
}

# HTTP of the broker: by path. Each method of the admin RPC names its own in messaging/adminrpc/methods.py.
BROKER_HTTP: dict[str, Action] = {
    "/healthz": Action.PUBLIC,
    "/readyz": Action.PUBLIC,
    "/metrics": Action.PUBLIC,  # sums only; series with topic names need SUPERUSER
    "/rpc/v1/{method}": Action.SERVICE,
}
