"""The objects of the part of our API that is about alerts and notices."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.bodies import Text, Time, one_of
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from tenants.rest.shapes import shown
from workers.alerts.models import AlertRule, Notice, NotificationTarget
from workers.alerts.rule_actions import SILENCE_S_MAX

Value = Annotated[int, Limit("a 63-bit number", minimum=0, maximum=2**62)]
Seconds = Annotated[int, Limit("within a day", minimum=0, maximum=86_400)]
Url = Annotated[str, Limit("a URL", bytes_max=2000)]
Runbook = Annotated[str, Limit("a URL", bytes_max=500)]


class NewAlertRule(msgspec.Struct, kw_only=True):
    name: Annotated[Text, Limit("is shown in notices", bytes_max=200)]
    kind: Annotated[str, one_of(AlertRule.Kind.values)]
    topic: Annotated[
        Text,
        limits.TOPIC,
        Meta(
            description="Full name of a topic that exists; of a partitioned one, or of one of its partitions. Or a pattern of "
            "names of one namespace, in which * stands for any characters: each topic then fires by itself, the first 100 by "
            "name, with 1,000 partitions together."
        ),
    ]
    subscription: Annotated[str, limits.NAME, Meta(description="Missing: any.")] | UnsetType = UNSET
    threshold: Annotated[Value, Meta(description="It fires at this value; default 1.")] | UnsetType = UNSET
    clear: Annotated[Value, Meta(description="It is over below this value; default: the threshold.")] | UnsetType = UNSET
    hold_s: Annotated[Seconds, Meta(description="For how long the value must be there, in seconds.")] | UnsetType = UNSET
    runbook_url: Annotated[Runbook, Meta(description="What whoever is told is to do; is sent with notices.")] | UnsetType = UNSET


class ChangedAlertRule(msgspec.Struct, kw_only=True):
    name: Annotated[Text, Limit("is shown in notices", bytes_max=200)] | UnsetType = UNSET
    threshold: Value | UnsetType = UNSET
    clear: Value | UnsetType = UNSET
    hold_s: Seconds | UnsetType = UNSET
    runbook_url: Annotated[Runbook, Meta(description="Empty: none.")] | UnsetType = UNSET


class NewSilence(msgspec.Struct, kw_only=True):
    for_s: Annotated[
        Annotated[int, Limit("at most 30 days", minimum=1, maximum=SILENCE_S_MAX)],
        Meta(description="For so long its notices are written and not sent. If it fires then, that is sent."),
    ]
    reason: Annotated[Text, Limit("is shown beside the rule", bytes_max=200)] = ""


class PartitionValue(msgspec.Struct, kw_only=True):
    partition: int
    value: int


class TopicValue(msgspec.Struct, kw_only=True):
    topic: str
    value: int
    firing: bool


class AlertRuleShape(msgspec.Struct, kw_only=True):
    id: str
    name: str
    kind: Annotated[str, one_of(AlertRule.Kind.values)]
    topic: str
    subscription: str
    threshold: int
    clear: int
    hold_s: int
    runbook_url: str
    is_pattern: bool
    silenced_until: Time | None
    silenced_by: str
    silence_reason: str
    value: Annotated[
        int, Meta(description="Of a partitioned topic that of all partitions together, of a pattern the greatest of its topics.")
    ]
    partitions: Annotated[list[PartitionValue], Meta(description="Of a partitioned topic, the largest values first.")]
    topics: Annotated[list[TopicValue], Meta(description="Of a pattern, those that fire first, then the largest values.")]
    topics_left_out: Annotated[bool, Meta(description="More topics match than are looked at.")]
    firing: bool
    looked_at: Time | None
    problem: Annotated[str, Meta(description="Why it could not be looked at.")]


class NoticeShape(msgspec.Struct, kw_only=True):
    id: str
    kind: str
    title: str
    text: str
    at: Time
    rule: Annotated[str, Meta(description="Id of the alert rule that says it; empty: none.")]
    runbook_url: str
    delivered: Annotated[dict[str, Any], Meta(description="How it went, by channel (mail, webhook, topic), or `silenced`.")]


class NoticesReplay(msgspec.Struct, kw_only=True):
    since: Annotated[Time, Meta(description="Notices from this time on.")]
    until: Annotated[Time | None, Meta(description="And before this time.")] = None
    failed_only: Annotated[bool, Meta(description="Only those that the webhook has not taken.")] = True


class ReplayedNotices(msgspec.Struct, kw_only=True):
    notices: Annotated[int, Meta(description="How many are sent again: at most 100.")]
    following: Annotated[Time | None, Meta(description="Where the next request begins; null: that were all.")]


class NewNotifications(msgspec.Struct, kw_only=True):
    webhook_url: Annotated[Url, Meta(description="https://host/path; empty: none.")] = ""
    mail_to: Annotated[list[Text], Limit("mail addresses", bytes_max=320, count_max=10)] = []
    topic: Annotated[str, limits.TOPIC, Meta(description="Full name of a topic that notices are published to; empty: none.")] = ""


class NotificationsShape(msgspec.Struct, kw_only=True):
    webhook_url: str
    mail_to: list[str]
    topic: str
    secret: Annotated[str, Meta(description="Signs what the webhook is sent, with HMAC-SHA256.")]


def show_rule(rule: AlertRule) -> AlertRuleShape:
    parts = [PartitionValue(partition=index, value=value) for index, value in rule.by_partition]
    topics = [TopicValue(topic=name, value=stands.value, firing=stands.firing) for name, stands in rule.by_topic]
    return shown(AlertRuleShape, rule, partitions=parts, topics=topics)


def show_notice(notice: Notice) -> NoticeShape:
    return shown(NoticeShape, notice)


def show_target(target: NotificationTarget) -> NotificationsShape:
    return shown(NotificationsShape, target)
