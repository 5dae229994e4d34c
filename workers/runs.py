"""Runs tasks, and records how each run ends. Tasks are run only by `run_recorded` and `steps_recorded`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from messaging import logs
from messaging.errors import MagnetarError
from workers.environment import Environment, Failed, Stopping, StoppingWithProgress
from workers.models import TaskRun, UsageRun
from workers.queue import LEASE_S
from workers.schedule import BY_NAME, key_of, wait_s

log = logs.get_logger("magnetar.worker")
LEASE = timedelta(seconds=LEASE_S)
RENEW_AFTER = LEASE / 6
UNDER_WAY = "another run is under way; ask again when it is done"
Summary = dict[str, Any]
T = TypeVar("T")
StepsOf = Generator[float, None, T]  # how long to wait after each step, in seconds, and in the end the result
Work = Callable[..., Summary | StepsOf[Summary]]
Outcome = TaskRun.Outcome


class Renew(Protocol):
    """What a task calls between two steps. It keeps the lease, and costs nothing most of the time; it raises `Stopping` when the
    process ends or the lease was lost. `progress`: what the task has counted so far, shown while it runs. `comes_on`: this attempt
    did what stays done, so those before it that ended in the middle count no more."""

    def __call__(self, *, comes_on: bool = False, **progress: int | str) -> None: ...


def run_recorded(environment: Environment, name: str, task_id: str, work: Work, **arguments: str) -> Summary:
    """Runs `work(environment, task_id, renew, **arguments)` under its lease and records it; the summary.

    Errors of the platform (the broker is away) are recorded and not raised: the task is repeated, or beat tries again. Others are
    recorded and raised: they are ours. Waits between the steps of a task that has some.
    """
    steps = steps_recorded(environment, name, task_id, work, **arguments)
    while True:
        try:
            environment.stopping.wait(next(steps))
        except StopIteration as end:
            summary: Summary = end.value
            return summary


def steps_recorded(environment: Environment, name: str, task_id: str, work: Work, **arguments: str) -> StepsOf[Summary]:
    """The same, a step at a time; each says for how long the next one waits. The lease is kept between them, if that is not long:
    the task renews it in each."""
    now = environment.now()
    defaults = {"name": name, "arguments": arguments, "started_at": now, "outcome": Outcome.QUEUED}
    TaskRun.objects.get_or_create(task_id=task_id, defaults=defaults)  # ours is there; one that somebody sent by hand may not be
    startable = Q(outcome__in=(Outcome.QUEUED, Outcome.RETRYING)) | Q(outcome=Outcome.RUNNING, due_at__lte=now)
    begun = {"outcome": Outcome.RUNNING, "key": key_of(name, arguments), "started_at": now, "due_at": now + LEASE}
    try:
        with transaction.atomic():  # the database lets one run of a key be running (`one_run_of_a_key_at_a_time`)
            if not TaskRun.objects.filter(startable, task_id=task_id).update(**begun, attempts=F("attempts") + 1):
                return {"outcome": "done before"}  # or it is being done: this one was handed out twice
    except IntegrityError:
        return _skip(environment, task_id)
    run = TaskRun.objects.get(task_id=task_id)
    if run.attempts > environment.settings.task_attempts_max:
        return _give_up(environment, run, {"why": f"its worker ended in the middle, {run.attempts - 1} times"})
    return (yield from _work(environment, run, work))


def _work(environment: Environment, run: TaskRun, work: Work) -> StepsOf[Summary]:
    try:
        begun = work(environment, run.task_id, _renewer(environment, run), **run.arguments)
        summary = (yield from begun) if isinstance(begun, Generator) else begun
    except Stopping as stop:
        if isinstance(stop, StoppingWithProgress):
            run.attempts = 1
        return _failed(environment, run, {"why": str(stop)}, counts=False)
    except Failed as failed:
        return _failed(environment, run, failed.summary)
    except MagnetarError as error:
        log.warning("task-failed", task=run.name, task_id=run.task_id, code=error.code, why=error.message)
        return _failed(environment, run, {"code": error.code, "why": error.message})
    except Exception as error:
        _failed(environment, run, {"why": f"{type(error).__name__}: {error}"[:2000]})
        raise
    return _end(environment, run, Outcome.SUCCEEDED, summary)


def _attempt(run: TaskRun) -> QuerySet[TaskRun]:
    """The row, while it is this attempt that has the lease."""
    return TaskRun.objects.filter(task_id=run.task_id, outcome=Outcome.RUNNING, started_at=run.started_at)


def _renewer(environment: Environment, run: TaskRun) -> Renew:
    renewed_at = run.started_at

    def renew(*, comes_on: bool = False, **progress: int | str) -> None:
        nonlocal renewed_at
        if environment.stopping.is_set():
            raise Stopping("the worker is ending")
        if comes_on and run.attempts > 1:  # whatever ended it before, it is past that
            _attempt(run).update(attempts=1)
            run.attempts = 1
        now = environment.now()
        if timedelta(0) <= now - renewed_at < RENEW_AFTER:
            return  # nobody else can have it yet
        renewed_at = now
        if not _attempt(run).update(due_at=now + LEASE, progress=progress or F("progress")):
            raise Stopping("another worker took over the lease")

    return renew


def _skip(environment: Environment, task_id: str) -> Summary:
    """Another run of its key is under way. What had begun is tried again later; what had not need not be."""
    ended = {"outcome": Outcome.SKIPPED, "finished_at": environment.now(), "due_at": None, "summary": {"why": UNDER_WAY}}
    if not TaskRun.objects.filter(task_id=task_id, outcome=Outcome.QUEUED).update(**ended):
        return {"outcome": "done before"}
    # A usage run has the id of its task: whoever asked for it sees that it was skipped.
    UsageRun.objects.filter(run_id=task_id).update(outcome=UsageRun.Outcome.SKIPPED, message=UNDER_WAY)
    return {"outcome": Outcome.SKIPPED.value, "why": UNDER_WAY}


def _failed(environment: Environment, run: TaskRun, summary: Summary, *, counts: bool = True) -> Summary:
    """It is repeated if tasks of its kind are; it is given up after too many attempts. `counts`: it is to blame."""
    entry = BY_NAME.get(run.name)
    if entry is None or not entry.retry_s:
        return _end(environment, run, Outcome.FAILED, summary)
    if counts and run.attempts >= environment.settings.task_attempts_max:
        return _give_up(environment, run, summary)
    again_s = wait_s(entry, max(1, run.attempts - (not counts)))
    run.attempts -= not counts
    run.due_at = environment.now() + timedelta(seconds=again_s)
    return _end(environment, run, Outcome.RETRYING, summary)


def _give_up(environment: Environment, run: TaskRun, summary: Summary) -> Summary:
    """Somebody has to decide, unless a schedule soon asks for the same."""
    entry = BY_NAME.get(run.name)
    if entry is not None and entry.interval:
        return _end(environment, run, Outcome.FAILED, summary)
    log.error("task-quarantined", task=run.name, task_id=run.task_id, attempts=run.attempts, **summary)
    return _end(environment, run, Outcome.QUARANTINED, summary)


def _end(environment: Environment, run: TaskRun, outcome: Outcome, summary: Summary) -> Summary:
    """Of the attempt; nothing, if another one took over meanwhile: that one's outcome counts."""
    _attempt(run).update(
        outcome=outcome,
        finished_at=environment.now(),
        due_at=run.due_at if outcome == Outcome.RETRYING else None,
        attempts=run.attempts,
        progress={},
        summary=summary,
    )
    log.debug("task-finished", task_id=run.task_id, outcome=outcome.value, **summary)
    return {"outcome": outcome.value, **summary}
