"""Where jobs come from: redrives, changes of many partitions in the broker, and runs of tasks. Each lists its own by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from django.db.models import Model, Q, QuerySet

from messaging.adminrpc.changes import ChangeProgress, ChangesList
from messaging.adminrpc.methods import CHANGES_LIST
from messaging.errors import NotFound
from tenants import broker
from workers.jobs.shapes import JobShape, State
from workers.models import TaskRun
from workers.redrive.models import RedriveJob
from workers.schedule import REDRIVE

CHANGE, REDRIVEN, TASK = "change-", "redrive-", "task-"  # in the order of ids
Outcome = TaskRun.Outcome
M = TypeVar("M", bound=Model)

_OF_REDRIVES: dict[str, State] = {
    RedriveJob.State.RUNNING: "running",
    RedriveJob.State.PAUSED: "paused",
    RedriveJob.State.DONE: "done",
    RedriveJob.State.CANCELLED: "cancelled",
    RedriveJob.State.FAILED: "failed",
}
_OF_CHANGES: dict[str, State] = {"waiting": "waiting", "running": "running", "done": "done", "failed": "failed"}
_OF_TASKS: dict[str, State] = {
    Outcome.QUEUED: "waiting",
    Outcome.RUNNING: "running",
    Outcome.RETRYING: "waiting",
    Outcome.SUCCEEDED: "done",
    Outcome.FAILED: "failed",
    Outcome.SKIPPED: "cancelled",  # another run was doing the same
    Outcome.QUARANTINED: "failed",
    Outcome.DISCARDED: "cancelled",
}
ACTIVE = frozenset({"waiting", "running", "paused"})
_ACTIVE_REDRIVES = [state for state, shown in _OF_REDRIVES.items() if shown in ACTIVE]
_ACTIVE_RUNS = [outcome for outcome, shown in _OF_TASKS.items() if shown in ACTIVE]


class Source(NamedTuple):
    """`prefix`: of the ids of its jobs. `after` lists those behind an id of its own, in order, `count` of them at most."""

    prefix: str
    after: Callable[[str, int], Sequence[JobShape]]


def pages(sources: Sequence[Source], after: str, limit: int) -> tuple[list[JobShape], str | None]:
    """A page of the jobs of all sources, in the order of their ids, and where the next one begins."""
    jobs: list[JobShape] = []
    for source in sorted(sources, key=lambda each: each.prefix):
        if after.startswith(source.prefix):
            behind = after.removeprefix(source.prefix)
        elif after > source.prefix:
            continue
        else:
            behind = ""
        jobs += source.after(behind, limit + 1 - len(jobs))
        if len(jobs) > limit:
            return jobs[:limit], jobs[limit - 1].id
    return jobs, None


# --- redrives


def redrives(tenant: str, *, active: bool) -> Source:
    """`tenant` "": of all. Within the scope of the tenant, or of the platform."""
    rows = RedriveJob.objects.filter(**({"tenant": tenant} if tenant else {}))
    rows = rows.filter(state__in=_ACTIVE_REDRIVES) if active else rows
    return Source(REDRIVEN, lambda behind, count: [show_redrive(job) for job in _behind(rows, "id", behind, count)])


def show_redrive(job: RedriveJob) -> JobShape:
    return JobShape(
        id=f"{REDRIVEN}{job.id}",
        kind="redrive",
        resource=job.topic,
        tenant=job.tenant,
        state=_OF_REDRIVES[job.state],
        done=job.looked_at,
        total=job.looked_at if job.state == RedriveJob.State.DONE else None,
        unit="entries",
        counts={"moved": job.moved, "left": job.left},
        begun_at=job.created_at,
        ended_at=job.finished_at,
        error=job.error,
        requested_by=job.requested_by,
        cancellable=job.state in (RedriveJob.State.RUNNING, RedriveJob.State.PAUSED, RedriveJob.State.FAILED),
    )


# --- changes


def changes(tenant: str, *, active: bool) -> Source:
    """Asks the broker when it is read. What it did before it was started last is not known."""

    def after(behind: str, count: int) -> list[JobShape]:
        shown = sorted(_changes(tenant), key=lambda job: job.id)
        return [job for job in shown if job.id > f"{CHANGE}{behind}" and (not active or job.state in ACTIVE)][:count]

    return Source(CHANGE, after)


def _changes(tenant: str) -> Iterator[JobShape]:
    for change in broker.rpc().call(CHANGES_LIST, ChangesList(tenant=tenant)).changes:
        yield show_change(change, tenant)


def change_of(tenant: str, job_id: str) -> JobShape:
    """Raises `NotFound`."""
    for job in _changes(tenant):
        if job.id == job_id:
            return job
    raise missing(job_id)


def show_change(change: ChangeProgress, tenant: str) -> JobShape:
    return JobShape(
        id=f"{CHANGE}{change.id}",
        kind=change.change,
        resource=change.resource,
        tenant=tenant,
        state=_OF_CHANGES[change.state],
        done=change.done if change.partitions else None,
        total=change.partitions or None,
        unit="partitions",
        counts={},
        begun_at=_time(change.started_ms),
        ended_at=_time(change.ended_ms),
        error=change.error,
        requested_by="",
        cancellable=False,
    )


def _time(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)


# --- tasks


def runs(*, active: bool) -> Source:
    """Of the platform; what redrives run as is their own job."""
    rows = TaskRun.objects.exclude(name=REDRIVE)
    rows = rows.filter(outcome__in=_ACTIVE_RUNS) if active else rows
    return Source(TASK, lambda behind, count: [show_run(run) for run in _behind(rows, "task_id", behind, count)])


def show_run(run: TaskRun) -> JobShape:
    state = _OF_TASKS[run.outcome]
    return JobShape(
        id=f"{TASK}{run.task_id}",
        kind=run.name,
        resource=" ".join(run.arguments.values()),
        tenant="",
        state=state,
        done=None,
        total=None,
        unit="",
        counts={name: value for name, value in run.progress.items() if isinstance(value, int | str)},
        begun_at=run.started_at,
        ended_at=run.finished_at if state not in ACTIVE else None,
        error=_why(run) if run.outcome != Outcome.SUCCEEDED else "",
        requested_by=run.requested_by,
        cancellable=run.outcome == Outcome.QUARANTINED,
    )


def _why(run: TaskRun) -> str:
    return str(run.summary.get("why") or "")


# --- one of them


def redrive_of(tenant: str, job_id: str) -> RedriveJob:
    """`tenant` "": of any. Raises `NotFound`."""
    of = Q(tenant=tenant) if tenant else Q()
    job = RedriveJob.objects.filter(of, id=job_id.removeprefix(REDRIVEN)).first()
    if job is None:
        raise missing(job_id)
    return job


def run_of(job_id: str) -> TaskRun:
    """Raises `NotFound`."""
    run = TaskRun.objects.exclude(name=REDRIVE).filter(task_id=job_id.removeprefix(TASK)).first()
    if run is None:
        raise missing(job_id)
    return run


def missing(job_id: str) -> NotFound:
    return NotFound(f"job {job_id[:80]!r} does not exist")


def _behind(rows: QuerySet[M], key: str, behind: str, count: int) -> list[M]:
    following: QuerySet[Any] = rows.filter(**{f"{key}__gt": behind}) if behind else rows
    return list(following.order_by(key)[:count])
