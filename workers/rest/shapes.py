"""The objects of the part of our API that is about tasks."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from messaging.bodies import Time, one_of
from tenants.rest.shapes import shown
from workers.models import TaskRun


class TaskShape(msgspec.Struct, kw_only=True):
    name: str
    title: str
    queue: str
    every_s: Annotated[int | None, Meta(description="null: it runs only when it is asked for.")]
    last_outcome: str | None
    last_started_at: Time | None


class TaskRunShape(msgspec.Struct, kw_only=True):
    id: str
    job: Annotated[str, Meta(description="Its id among the jobs, /api/v1/jobs/JOB.")]
    task: str
    arguments: Annotated[dict[str, str], Meta(description="Ids.")]
    requested_by: Annotated[str, Meta(description="Empty: the schedule.")]
    outcome: Annotated[str, one_of(TaskRun.Outcome.values)]
    attempts: int
    started_at: Time
    finished_at: Time | None
    next_try_at: Time | None
    progress: Annotated[dict[str, Any], Meta(description="What a run counts while it runs.")]
    summary: Annotated[dict[str, Any], Meta(description="What it did, or why it failed.")]


def show_run(run: TaskRun) -> TaskRunShape:
    return shown(TaskRunShape, run, id=run.task_id, job=f"task-{run.task_id}", task=run.name)
