"""The objects of the part of our API that is about tasks."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workers.models import TaskRun


class TaskShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    queue = serializers.CharField()
    every_s = serializers.IntegerField(allow_null=True, help_text="null: it runs only when it is asked for.")
    last_outcome = serializers.CharField(allow_null=True)
    last_started_at = serializers.DateTimeField(allow_null=True)


class TaskRunShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    task = serializers.CharField()
    arguments = serializers.DictField(child=serializers.CharField(), help_text="Ids.")
    requested_by = serializers.CharField(allow_blank=True, help_text="Empty: the schedule.")
    outcome = serializers.ChoiceField(TaskRun.Outcome.choices)
    attempts = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    next_try_at = serializers.DateTimeField(allow_null=True)
    progress = serializers.DictField(help_text="What a run counts while it runs.")
    summary = serializers.DictField(help_text="What it did, or why it failed.")


def show_run(run: TaskRun) -> dict[str, Any]:
    return {
        "id": run.task_id,
        "task": run.name,
        "arguments": run.arguments,
        "requested_by": run.requested_by,
        "outcome": run.outcome,
        "attempts": run.attempts,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "next_try_at": run.next_try_at,
        "progress": run.progress,
        "summary": run.summary,
    }
