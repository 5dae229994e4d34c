"""Records every run of a task: what it was, how it ended, what it did. Tasks are run only by `run_recorded`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction

from messaging import logs
from messaging.errors import MagnetarError
from workers import lease
from workers.environment import Environment, Stopping
from workers.models import TaskRun, UsageRun

log = logs.get_logger("magnetar.worker")
KEPT_DAYS = 7
RENEW_AFTER = timedelta(seconds=lease.LEASE_S / 6)
UNDER_WAY = "another run is under way; ask again when it is done"
ABANDONED = "its worker ended in the middle; the next run does the same work"
Summary = dict[str, Any]
Work = Callable[..., Summary]
Outcome = TaskRun.Outcome


def run_recorded(environment: Environment, name: str, task_id: str, work: Work, **arguments: Any) -> Summary:
    """Runs `work(environment, task_id, renew, **arguments)` under the lease `name` and records it; the summary.

    `renew()` keeps the lease and costs nothing most of the time; it raises `Stopping` when the process ends or the lease was lost.
    Errors of the platform (the broker is away) are recorded as a failed run and not raised: beat tries again. Others are recorded
    and raised: they are ours.
    """
    if not _begin(environment, name, task_id):
        return {"outcome": "done before"}
    if not lease.acquire(name, task_id, environment.now()):
        # A usage run has the id of its task: whoever asked for it sees that it was skipped.
        UsageRun.objects.filter(run_id=task_id).update(outcome=UsageRun.Outcome.SKIPPED, message=UNDER_WAY)
        return _finish(environment, task_id, Outcome.SKIPPED, {"why": UNDER_WAY})
    _close_abandoned(environment, name, task_id)
    renew = _renewer(environment, name, task_id)
    try:
        summary = work(environment, task_id, renew, **arguments)
    except Stopping as stop:
        return _finish(environment, task_id, Outcome.FAILED, {"why": str(stop)})
    except MagnetarError as error:
        log.warning("task-failed", task=name, task_id=task_id, code=error.code, why=error.message)
        return _finish(environment, task_id, Outcome.FAILED, {"code": error.code, "why": error.message})
    except Exception as error:
        _finish(environment, task_id, Outcome.FAILED, {"why": f"{type(error).__name__}: {error}"[:2000]})
        raise
    finally:
        lease.release(name, task_id, environment.now())
    return _finish(environment, task_id, Outcome.SUCCEEDED, summary)


def _renewer(environment: Environment, name: str, task_id: str) -> Callable[[], None]:
    renewed_at = environment.now()

    def renew() -> None:
        nonlocal renewed_at
        if environment.stopping.is_set():
            raise Stopping("the worker is ending")
        if timedelta(0) <= environment.now() - renewed_at < RENEW_AFTER:
            return  # nobody else can have it yet
        renewed_at = environment.now()
        if not lease.renew(name, task_id, renewed_at):
            raise Stopping("another worker took over the lease")

    return renew


def _close_abandoned(environment: Environment, name: str, task_id: str) -> None:
    """Rows that still say "running" although the lease was free: their worker died. Nobody else would ever close them."""
    running = TaskRun.objects.filter(name=name, outcome=Outcome.RUNNING).exclude(task_id=task_id)
    abandoned = list(running.values_list("task_id", flat=True))
    if abandoned:
        now = environment.now()
        running.filter(task_id__in=abandoned).update(outcome=Outcome.FAILED, finished_at=now, summary={"why": ABANDONED})
        runs = UsageRun.objects.filter(run_id__in=abandoned, outcome=UsageRun.Outcome.RUNNING)
        runs.update(outcome=UsageRun.Outcome.FAILED, finished_at=now, message=ABANDONED)


def forget_old_runs(environment: Environment) -> int:
    """Rows of tasks older than `KEPT_DAYS` go; usage runs stay, since hours point to them."""
    oldest = environment.now() - timedelta(days=KEPT_DAYS)
    return TaskRun.objects.filter(started_at__lt=oldest).delete()[0]


def _begin(environment: Environment, name: str, task_id: str) -> bool:
    """False if this very message was worked off already. One whose worker died has a row that still says "running"."""
    with transaction.atomic():
        run, made = TaskRun.objects.get_or_create(task_id=task_id, defaults={"name": name, "started_at": environment.now()})
        return made or run.outcome == Outcome.RUNNING


def _finish(environment: Environment, task_id: str, outcome: Outcome, summary: Summary) -> Summary:
    TaskRun.objects.filter(task_id=task_id).update(outcome=outcome, finished_at=environment.now(), summary=summary)
    log.debug("task-finished", task_id=task_id, outcome=outcome.value, **summary)
    return {"outcome": outcome.value, **summary}
