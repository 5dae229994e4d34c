"""Request and response bodies about delayed messages."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


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
