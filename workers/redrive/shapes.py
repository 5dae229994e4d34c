"""The objects of the part of our API that is about redrives."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workers.redrive.actions import DryRun
from workers.redrive.models import RedriveJob, RedriveOutcome

_FILTER = ("key", "property_name", "property_value", "origin_subscription", "from_ms", "until_ms", "redriven_max")


class NewRedrive(serializers.Serializer[Any]):
    target = serializers.CharField(help_text="Full name of the topic to move to.")
    subscription = serializers.CharField(
        required=False, help_text="What it has not acknowledged is moved; missing: `redrive`, made where it is missing."
    )
    key = serializers.CharField(required=False, allow_blank=True, help_text="Only messages with this key.")
    property_name = serializers.CharField(required=False, allow_blank=True)
    property_value = serializers.CharField(required=False, allow_blank=True)
    origin_subscription = serializers.CharField(required=False, allow_blank=True, help_text="From which it was dead-lettered.")
    from_ms = serializers.IntegerField(required=False, help_text="Published at or after, milliseconds since 1970.")
    until_ms = serializers.IntegerField(required=False, help_text="Published before; 0: any time.")
    redriven_max = serializers.IntegerField(required=False, help_text="One redriven so often stays; 0: any.")
    rate = serializers.IntegerField(required=False, help_text="Messages per second; 0: as fast as it goes.")
    idempotency_key = serializers.CharField(required=False, help_text="The same key names the same job.")


class RedriveShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    idempotency_key = serializers.CharField()
    topic = serializers.CharField()
    subscription = serializers.CharField()
    target = serializers.CharField()
    filter = serializers.DictField()
    rate = serializers.IntegerField()
    state = serializers.ChoiceField(RedriveJob.State.choices)
    requested_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    looked_at = serializers.IntegerField(help_text="Entries.")
    moved = serializers.IntegerField(help_text="Messages.")
    left = serializers.IntegerField(help_text="Entries that match and stay.")
    error = serializers.CharField(allow_blank=True, help_text="Why it does not go on.")


class RedriveSample(serializers.Serializer[Any]):
    message_id = serializers.CharField()
    key = serializers.CharField(allow_blank=True)
    messages = serializers.IntegerField()
    publish_time_ms = serializers.IntegerField()
    why = serializers.CharField(allow_blank=True, help_text="Why it stays; empty: it moves.")


class RedriveDryRun(serializers.Serializer[Any]):
    looked_at = serializers.IntegerField()
    entries = serializers.IntegerField()
    messages = serializers.IntegerField()
    left = serializers.IntegerField()
    complete = serializers.BooleanField(help_text="false: there is more than was looked at.")
    samples = RedriveSample(many=True)


class RedriveOutcomeShape(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    message_id = serializers.CharField()
    key = serializers.CharField(allow_blank=True, help_text="At most 256 characters of it.")
    messages = serializers.IntegerField()
    why = serializers.CharField(allow_blank=True, help_text="Empty: it was moved.")


def filter_of(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in _FILTER if name in given}


def show_job(job: RedriveJob) -> dict[str, Any]:
    fields: list[str] = list(RedriveShape().fields)
    return {name: getattr(job, name) for name in fields}


def show_outcome(one: RedriveOutcome) -> dict[str, Any]:
    return {"id": one.pk, "message_id": f"{one.ledger_id}:{one.entry_id}", "key": one.key, "messages": one.messages, "why": one.why}


def show_dry_run(found: DryRun) -> dict[str, Any]:
    samples = [
        {
            "message_id": f"{one.ledger_id}:{one.entry_id}",
            "key": one.key,
            "messages": one.messages,
            "publish_time_ms": one.publish_time_ms,
            "why": one.refused,
        }
        for one in found.samples
    ]
    return {name: getattr(found, name) for name in ("looked_at", "entries", "messages", "left", "complete")} | {"samples": samples}
