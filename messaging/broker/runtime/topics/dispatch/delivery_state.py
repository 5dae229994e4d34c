"""What `explain` is told of a subscription beside its own state: reads, delays, policies, rate limits."""

from __future__ import annotations

from messaging.broker.core.diagnosis.explain import DeliveryState
from messaging.broker.core.limits.rate_limits import NO_WAITS
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher


def delivery_state(dispatcher: Dispatcher, subscription: Subscription) -> DeliveryState:
    services, name = dispatcher.topic.services, dispatcher.topic.name
    stored, delayed, limits, retries = dispatcher.stored, dispatcher.delayed, dispatcher.limits, dispatcher.retries
    waiting, under_way = (0, 0) if stored is None else stored.reads_of(subscription)
    used_bytes = services.memory.records.tenants.get(name.tenant, 0)
    return DeliveryState(
        closing=dispatcher.closed,
        failures=retries.described(subscription) if retries else "",
        now_ms=services.clock_ms(),
        reads_waiting=waiting,
        reads_under_way=under_way,
        next_delayed_ms=None if delayed is None else delayed.delays.next_ms(),
        message_ttl_s=services.policies.message_ttl_s(name),
        backlog_quota_bytes=int(services.policies.value("backlog_quota_bytes", name)),
        no_room=delayed is not None and delayed.delays.full,
        delayed_bytes=used_bytes,
        delayed_bytes_max=used_bytes + services.memory.records.share(name.tenant),
        blocked_by=None if limits is None else limits.blocked_by(subscription),
        rate_waits=NO_WAITS if limits is None else limits.waits(subscription),
    )
