"""Admin RPC: the broker process itself."""

from __future__ import annotations

from messaging.adminrpc.base import Answer


class BrokerStatus(Answer, kw_only=True):
    """`placement_problems`: what isolation policies leave unserved, a sentence each, as this broker of several sees it."""

    broker_id: str
    boot_epoch: int
    version: str
    uptime_ms: int
    ready: bool
    why_not_ready: str
    feed_version: int
    connections: int
    topics_loaded: int
    producers: int
    consumers: int
    hot_loops: str  # "compiled" or "python"
    durability: str
    resident_bytes: int
    placement_problems: list[str] = []
