"""Request and response bodies about delayed messages."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class DelayedMessage(serializers.Serializer[Any]):
    message_id = serializers.CharField(help_text="ledger:entry")
    deliver_at_ms = serializers.IntegerField()
    former_ms = serializers.IntegerField(allow_null=True, help_text="What it asks for itself, if it was rescheduled.")
    publish_time_ms = serializers.IntegerField(help_text="By the clock of the producer.")
    producer = serializers.CharField(allow_blank=True)
    key = serializers.CharField(allow_blank=True)
    messages = serializers.IntegerField(help_text="More than 1 for a batch.")
    size_bytes = serializers.IntegerField()


class DelayedPage(serializers.Serializer[Any]):
    items = DelayedMessage(many=True)
    next = serializers.CharField(allow_null=True, help_text="`after` of the next page, which may be empty; null: the end.")
    complete = serializers.BooleanField(help_text="false: some may be missing still, for a while after a start.")


class DelayedBucket(serializers.Serializer[Any]):
    from_ms = serializers.IntegerField()
    until_ms = serializers.IntegerField(allow_null=True, help_text="null: whenever later.")
    entries = serializers.IntegerField()


class DelayedCounts(serializers.Serializer[Any]):
    buckets = DelayedBucket(many=True, help_text="An hour by minutes, the rest of a day by hours, a month by days.")
    entries = serializers.IntegerField(help_text="All that wait, also those that subscriptions have skipped.")
    exact = serializers.BooleanField(help_text="false: counts far ahead are estimates.")
    complete = serializers.BooleanField(help_text="false: some may be missing still, for a while after a start.")


class DelayedTime(serializers.Serializer[Any]):
    deliver_at_ms = serializers.IntegerField(required=False, help_text="The new time: milliseconds since 1970.")
    delay_ms = serializers.IntegerField(required=False, help_text="Or how long from now on.")


class DelayedTimeOfKey(DelayedTime):
    key = serializers.CharField(help_text="As text; a binary key in base64.", trim_whitespace=False)
    after = serializers.CharField(required=False, allow_blank=True, help_text="The value of `next` from the previous answer.")
    limit = serializers.IntegerField(required=False, help_text="Messages changed by this request, 1 to 1000; default 1000.")


class DelayedChanged(serializers.Serializer[Any]):
    already = serializers.BooleanField(help_text="true: it was cancelled before.")
    former_ms = serializers.IntegerField(help_text="When it was to be delivered.")


class DelayedRefused(serializers.Serializer[Any]):
    message_id = serializers.CharField(help_text="ledger:entry")
    sentence = serializers.CharField()


class DelayedKeyChanged(serializers.Serializer[Any]):
    changed = serializers.IntegerField()
    refused_count = serializers.IntegerField(help_text="Messages that some subscription had.")
    refused = DelayedRefused(many=True, help_text="Of those, the first 100.")
    looked_at = serializers.IntegerField()
    next = serializers.CharField(allow_null=True, help_text="`after` of the next request; null: there is nothing more.")
