"""Admin RPC: the broker itself, its feed and its usage."""

from __future__ import annotations

from messaging.adminrpc import schema
from messaging.broker.runtime.admin.maintenance import MaintenanceRpc
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.process import resident_bytes
from messaging.clock import boottime_ms
from messaging.errors import NotReady
from messaging.protocol import hot
from messaging.version import VERSION


class BrokerRpc(MaintenanceRpc, LocalSessions):
    async def status(self, request: schema.Request) -> schema.BrokerStatus:
        ready, why = self.ready()
        topics = list(self.topics)
        return schema.BrokerStatus(
            broker_id=self.settings.broker_id,
            boot_epoch=self.boot_epoch,
            version=VERSION,
            uptime_ms=boottime_ms() - self.started_at,
            ready=ready,
            why_not_ready=why,
            feed_version=self.access.view.version,
            connections=len(self.peers.connections),
            topics_loaded=len(topics),
            producers=sum(len(topic.producers) for topic in topics),
            consumers=sum(len(one.consumers) for topic in topics for one in topic.subscriptions.values()),
            hot_loops="compiled" if hot.COMPILED else "python",
            durability=self.settings.durability,
            resident_bytes=resident_bytes(),
        )

    async def health(self, request: schema.Request) -> schema.Empty:
        """One message through the log and back to a reader, on a topic of the broker's own."""
        ready, why = self.ready()
        if not ready:
            raise NotReady(why)
        await self.round_trip()
        return schema.Empty()

    async def feed_apply(self, request: schema.FeedApply) -> schema.FeedVersion:
        """Answers when the change has taken effect on what is open, too."""
        version = await self.access.apply(request)
        await self.permission_checks.wait_until_checked()
        return schema.FeedVersion(version=version)

    async def feed_pull(self, request: schema.Request) -> schema.FeedVersion:
        """Asks the web process for what is new, however much it is."""
        version = await self.access.pull()
        await self.permission_checks.wait_until_checked()
        return schema.FeedVersion(version=version)

    async def feed_version(self, request: schema.Request) -> schema.FeedVersion:
        return schema.FeedVersion(version=self.access.view.version)

    async def usage_flush(self, request: schema.UsageFlush) -> schema.UsageFlushed:
        if self.metering.usage is None:
            return schema.UsageFlushed(files=[], rows=0)
        return await self.metering.usage.collect()

    async def audit_take(self, request: schema.AuditTake) -> schema.AuditTaken:
        return self.audit.take(request)
