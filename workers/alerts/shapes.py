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

Value = Annotated[int, Limit("a 63-bit number", minimum=0, maximum=2**62)]
Seconds = Annotated[int, Limit("within a day", minimum=0, maximum=86_400)]
Url = Annotated[str, Limit("a URL", bytes_max=2000)]


class NewAlertRule(msgspec.Struct, kw_only=True):
    name: Annotated[Text, Limit("is shown in notices", bytes_max=200)]
    kind: Annotated[str, one_of(AlertRule.Kind.values)]
    topic: Annotated[
        Text, limits.TOPIC, Meta(description="Full name of a topic that exists; of a partitioned one, or of one of its partitions.")
    ]
    subscription: Annotated[str, limits.NAME, Meta(description="Missing: any.")] | UnsetType = UNSET
    threshold: Annotated[Value, Meta(description="It fires at this value; default 1.")] | UnsetType = UNSET
    clear: Annotated[Value, Meta(description="It is over below this value; default: the threshold.")] | UnsetType = UNSET
    hold_s: Annotated[Seconds, Meta(description="For how long the value must be there, in seconds.")] | UnsetType = UNSET


class PartitionValue(msgspec.Struct, kw_only=True):
    partition: int
    value: int


class AlertRuleShape(msgspec.Struct, kw_only=True):
    id: str
    name: str
    kind: Annotated[str, one_of(AlertRule.Kind.values)]
    topic: str
    subscription: str
    threshold: int
    clear: int
    hold_s: int
    value: Annotated[int, Meta(description="Of a partitioned topic that of all partitions together.")]
    partitions: Annotated[list[PartitionValue], Meta(description="Of a partitioned topic, the largest values first.")]
    firing: bool
    looked_at: Time | None
    problem: Annotated[str, Meta(description="Why it could not be looked at.")]


class NoticeShape(msgspec.Struct, kw_only=True):
    id: str
    kind: str
    title: str
    text: str
    at: Time
    delivered: Annotated[dict[str, Any], Meta(description="How it went, by channel.")]


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


class NotificationsShape(msgspec.Struct, kw_only=True):
    webhook_url: str
    mail_to: list[str]
    secret: Annotated[str, Meta(description="Signs what the webhook is sent, with HMAC-SHA256.")]


def show_rule(rule: AlertRule) -> AlertRuleShape:
    parts = [PartitionValue(partition=index, value=value) for index, value in rule.by_partition]
    return shown(AlertRuleShape, rule, partitions=parts)


def show_notice(notice: Notice) -> NoticeShape:
    return shown(NoticeShape, notice)


def show_target(target: NotificationTarget) -> NotificationsShape:
    return shown(NotificationsShape, target)
