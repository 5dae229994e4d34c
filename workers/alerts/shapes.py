"""The objects of the part of our API that is about alerts and notices."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workers.alerts.models import AlertRule, Notice, NotificationTarget


class NewAlertRule(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.ChoiceField(AlertRule.Kind.choices)
    topic = serializers.CharField(help_text="Full name of a topic that exists; of a partitioned one, or of one of its partitions.")
    subscription = serializers.CharField(required=False, allow_blank=True, help_text="Missing: any.")
    threshold = serializers.IntegerField(required=False, help_text="It fires at this value; default 1.")
    clear = serializers.IntegerField(required=False, help_text="It is over below this value; default: the threshold.")
    hold_s = serializers.IntegerField(required=False, help_text="For how long the value must be there, in seconds.")


class PartitionValue(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    value = serializers.IntegerField()


class AlertRuleShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(AlertRule.Kind.choices)
    topic = serializers.CharField()
    subscription = serializers.CharField(allow_blank=True)
    threshold = serializers.IntegerField()
    clear = serializers.IntegerField()
    hold_s = serializers.IntegerField()
    value = serializers.IntegerField(help_text="Of a partitioned topic that of all partitions together.")
    partitions = PartitionValue(many=True, help_text="Of a partitioned topic, the largest values first.")
    firing = serializers.BooleanField()
    looked_at = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField(allow_blank=True, help_text="Why it could not be looked at.")


class NoticeShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField()
    title = serializers.CharField()
    text = serializers.CharField()
    at = serializers.DateTimeField()
    delivered = serializers.DictField(help_text="How it went, by channel.")


class NewNotifications(serializers.Serializer[Any]):
    webhook_url = serializers.CharField(required=False, allow_blank=True, help_text="https://host/path; empty: none.")
    mail_to = serializers.ListField(child=serializers.CharField(), required=False)


class NotificationsShape(serializers.Serializer[Any]):
    webhook_url = serializers.CharField(allow_blank=True)
    mail_to = serializers.ListField(child=serializers.CharField())
    secret = serializers.CharField(allow_blank=True, help_text="Signs what the webhook is sent, with HMAC-SHA256.")


def show_rule(rule: AlertRule) -> dict[str, Any]:
    fields: list[str] = list(AlertRuleShape().fields)
    parts = [{"partition": index, "value": value} for index, value in rule.by_partition]
    return {name: getattr(rule, name) for name in fields} | {"partitions": parts}


def show_notice(notice: Notice) -> dict[str, Any]:
    fields: list[str] = list(NoticeShape().fields)
    return {name: getattr(notice, name) for name in fields}


def show_target(target: NotificationTarget) -> dict[str, Any]:
    return {"webhook_url": target.webhook_url, "mail_to": target.mail_to, "secret": target.secret}
