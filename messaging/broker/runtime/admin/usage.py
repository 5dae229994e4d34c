"""Admin RPC: what the worker collects: usage records and audit events."""

from __future__ import annotations

from messaging.adminrpc import schema
from messaging.broker.runtime.broker import Broker


class UsageHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def flush(self, request: schema.UsageFlush) -> schema.UsageFlushed:
        collector = self._broker.metering.usage
        if collector is None:
            return schema.UsageFlushed(files=[], rows=0)
        return await collector.collect()

    async def take_audit_events(self, request: schema.AuditTake) -> schema.AuditTaken:
        return self._broker.audit.take(request)
