"""Admin RPC: the broker process itself."""

from __future__ import annotations

from messaging.adminrpc.base import Answer


class BrokerStatus(Answer, kw_only=True):
    """`placement_problems`: what isolation policies leave unserved, a sentence each, as this broker of several sees it.
    `degraded_ledgers`: that it writes with fewer copies than they should have, since `degraded_since_ms` (since 1970)."""

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
    cpu_percent: float = 0.0  # of one processor
    machine: str = ""  # the same for brokers of one machine
    machine_processors: int = 0
    machine_bytes: int = 0
    placement_problems: list[str] = []
    degraded_ledgers: int = 0
    degraded_since_ms: int | None = None
