"""Policies of rates; see `registry`."""

from __future__ import annotations

from typing import Any

from messaging.policies import model as m
from messaging.policies.model import Policy

_ADMISSION = "messaging.broker.runtime.topics.limits.admission"
_PUBLISH = "messaging.broker.runtime.topics.limits.publish_limits:PublishLimits.publish"
_DISPATCH = "messaging.broker.runtime.topics.limits.dispatch_limits:DispatchLimits.allows"
_UNLIMITED = {-1: "unlimited", 0: "no limit"}
_SHARED_RATES = "messaging.broker.runtime.rate_limits:SharedLimits.of"


def _default(setting: str, exists: bool, otherwise: Any) -> dict[str, Any]:
    return {"setting": setting} if exists else {"default": otherwise}


TABLE = (
    *(
        Policy(
            name=f"{scope}_{kind}_rate_{things}",
            kind=m.CountOrUnlimited,
            unit=f"{things}/s",
            setting=f"{scope}_{kind}_rate_in_{things}",
            levels=levels,
            words=_UNLIMITED,
            meaning=f"{things.capitalize()} per second that {meaning}; 0 or -1: unlimited.",
            enforced_by=_SHARED_RATES,
        )
        for scope, levels, where in (
            ("namespace", m.WITH_TENANTS, "all topics of the namespace together"),
            ("tenant", m.TENANT_ONLY, "all topics of the tenant together"),
        )
        for kind, meaning in (("publish", f"{where} accept"), ("dispatch", f"{where} deliver"))
        for things in ("messages", "bytes")
    ),
    Policy(
        name="publish_rate_messages",
        kind=m.CountOrUnlimited,
        unit="messages/s",
        setting="max_publish_rate_per_topic_in_messages",
        path="publishRate",
        levels=m.WITH_TOPICS,
        field="publishThrottlingRateInMsg",
        fill=-1,
        words=_UNLIMITED,
        meaning="Messages per second that a topic accepts, those in batches counted; the others wait. 0 or -1: unlimited.",
        enforced_by=_PUBLISH,
    ),
    Policy(
        name="publish_rate_bytes",
        kind=m.CountOrUnlimited,
        unit="bytes/s",
        setting="max_publish_rate_per_topic_in_bytes",
        path="publishRate",
        levels=m.WITH_TOPICS,
        field="publishThrottlingRateInByte",
        fill=-1,
        words=_UNLIMITED,
        meaning="Bytes per second that a topic accepts, with the metadata of messages; 0 or -1: unlimited.",
        enforced_by=_PUBLISH,
    ),
    *(
        policy
        for prefix, path, levels, of, setting, enforced_by in (
            ("dispatch_rate", "dispatchRate", m.WITH_TOPICS, "a topic", "topic", _DISPATCH),
            (
                "subscription_dispatch_rate",
                "subscriptionDispatchRate",
                m.WITH_SUBSCRIPTIONS,
                "a subscription",
                "subscription",
                _DISPATCH,
            ),
            ("replicator_dispatch_rate", "replicatorDispatchRate", m.WITH_TOPICS, "a replicator", "", ""),
        )
        for policy in (
            Policy(
                name=f"{prefix}_messages",
                kind=m.CountOrUnlimited,
                unit="messages",
                **_default(f"dispatch_throttling_rate_per_{setting}_in_msg", bool(setting), -1),
                path=path,
                levels=levels,
                field="dispatchThrottlingRateInMsg",
                fill=0,
                words=_UNLIMITED,
                meaning=f"Messages that {of} delivers per period, those in batches counted; 0 or -1: unlimited.",
                enforced_by=enforced_by,
            ),
            Policy(
                name=f"{prefix}_bytes",
                kind=m.CountOrUnlimited,
                unit="bytes",
                **_default(f"dispatch_throttling_rate_per_{setting}_in_byte", bool(setting), -1),
                path=path,
                levels=levels,
                field="dispatchThrottlingRateInByte",
                fill=0,
                words=_UNLIMITED,
                meaning=f"Bytes that {of} delivers per period; 0 or -1: unlimited.",
                enforced_by=enforced_by,
            ),
            Policy(
                name=f"{prefix}_relative",
                kind=m.Flag,
                **_default("dispatch_throttling_rate_relative_to_publish_rate", bool(setting), False),
                path=path,
                levels=levels,
                field="relativeToPublishRate",
                fill=False,
                meaning="The rate at which the topic is published to is added to the limit.",
                enforced_by=enforced_by,
            ),
            Policy(
                name=f"{prefix}_period_s",
                kind=m.Seconds,
                unit="seconds",
                default=1,
                path=path,
                levels=levels,
                field="ratePeriodInSecond",
                fill=0,
                meaning="Period of this limit; 0: a second. The rate is even: a tenth of the period allows a tenth of the limit.",
                enforced_by=enforced_by,
            ),
        )
    ),
    Policy(
        name="subscribe_rate_per_consumer",
        kind=m.CountOrUnlimited,
        unit="subscribes",
        setting="subscribe_throttling_rate_per_consumer",
        path="subscribeRate",
        levels=m.WITH_TOPICS,
        field="subscribeThrottlingRatePerConsumer",
        fill=-1,
        words=_UNLIMITED,
        meaning="How often a consumer, known by its address, name and number, may subscribe per period; 0 or -1: unlimited.",
        enforced_by=f"{_ADMISSION}:check_subscribe_rate",
    ),
    Policy(
        name="subscribe_rate_period_s",
        kind=m.Positive,
        unit="seconds",
        setting="subscribe_rate_period_per_consumer_in_second",
        path="subscribeRate",
        levels=m.WITH_TOPICS,
        field="ratePeriodInSecond",
        fill=30,
        meaning="Period of this limit.",
        enforced_by=f"{_ADMISSION}:check_subscribe_rate",
    ),
)
