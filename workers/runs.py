"""Records every run of a task: what it was, how it ended, what it did. Tasks are run only by `run_recorded`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from django.db import transaction

from messaging import logs
from messaging.errors import MagnetarError
from workers import lease
from workers.environment import Environment, Stopping, StoppingWithProgress
from workers.models import TaskRun, UsageRun
from workers.task_catalog import BY_NAME, lease_name, wait_s

log = logs.get_logger("magnetar.worker")
RENEW_AFTER = timedelta(seconds=lease.LEASE_S / 6)
UNDER_WAY = "another run is under way; ask again when it is done"
ABANDONED = "its worker ended in the middle; the next run does the same work"
Summary = dict[str, Any]
T = TypeVar("T")
StepsOf = Generator[float, None, T]  # how long to wait after each step, in seconds, and in the end the result
Work = Callable[..., Summary | StepsOf[Summary]]
Outcome = TaskRun.Outcome
_FINISHED = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SKIPPED, Outcome.QUARANTINED, Outcome.DISCARDED)


class Renew(Protocol):
    """What a task calls between two steps. It keeps the lease, and costs nothing most of the time; it raises `Stopping` when the
    process ends or the lease was lost. `progress`: what the task has counted so far, shown while it runs."""

    def __call__(self, **progress: int | str) -> None: ...


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
    key, holder = lease_name(name, arguments), lease.holder_of(task_id)
    while not lease.acquire(key, holder, environment.now()):
        if lease.held_for(key, task_id, environment.now()):
            return {"outcome": "done before"}  # its other message is being worked off this moment
        if lease.held(key, environment.now()):
            return _skip(environment, name, task_id, arguments)
    try:
        run = _begin(environment, name, task_id, arguments)
        if run is None:
            return {"outcome": "done before"}
        if run.attempts > environment.settings.task_attempts_max:
            return _give_up(environment, run, {"why": f"its worker ended in the middle, {run.attempts - 1} times"})
        _close_abandoned(environment, name, task_id)
        return (yield from _work(environment, run, work, _renewer(environment, key, holder, task_id)))
    finally:
        lease.release(key, holder, environment.now())


def _work(environment: Environment, run: TaskRun, work: Work, renew: Renew) -> StepsOf[Summary]:
    """The outcome is written while the lease is held: whoever gets it next sees it."""
    try:
        begun = work(environment, run.task_id, renew, **run.arguments)
        summary = (yield from begun) if isinstance(begun, Generator) else begun
    except Stopping as stop:
        if isinstance(stop, StoppingWithProgress):
            run.attempts = 1
        return _failed(environment, run, {"why": str(stop)}, counts=False)
    except MagnetarError as error:
        log.warning("task-failed", task=run.name, task_id=run.task_id, code=error.code, why=error.message)
        return _failed(environment, run, {"code": error.code, "why": error.message})
    except Exception as error:
        _failed(environment, run, {"why": f"{type(error).__name__}: {error}"[:2000]})
        raise
    return _finish(environment, run, Outcome.SUCCEEDED, summary)


def _renewer(environment: Environment, key: str, holder: str, task_id: str) -> Renew:
    renewed_at = environment.now()

    def renew(**progress: int | str) -> None:
        nonlocal renewed_at
        if environment.stopping.is_set():
            raise Stopping("the worker is ending")
        if timedelta(0) <= environment.now() - renewed_at < RENEW_AFTER:
            return  # nobody else can have it yet
        renewed_at = environment.now()
        if not lease.renew(key, holder, renewed_at):
            raise Stopping("another worker took over the lease")
        if progress:
            TaskRun.objects.filter(task_id=task_id).update(progress=progress)

    return renew


def _close_abandoned(environment: Environment, name: str, task_id: str) -> None:
    """Rows that still say "running" although the lease was free: their worker died. Nobody else would ever close them; those of
    tasks that are repeated are taken up again (`workers.tasks.repeating`)."""
    entry = BY_NAME.get(name)
    if entry is not None and entry.retry_s:
        return
    running = TaskRun.objects.filter(name=name, outcome=Outcome.RUNNING).exclude(task_id=task_id)
    abandoned = list(running.values_list("task_id", flat=True))
    if abandoned:
        now = environment.now()
        running.filter(task_id__in=abandoned).update(outcome=Outcome.FAILED, finished_at=now, summary={"why": ABANDONED})
        runs = UsageRun.objects.filter(run_id__in=abandoned, outcome=UsageRun.Outcome.RUNNING)
        runs.update(outcome=UsageRun.Outcome.FAILED, finished_at=now, message=ABANDONED)


def _begin(environment: Environment, name: str, task_id: str, arguments: dict[str, str]) -> TaskRun | None:
    """None if this very message was worked off already. Called while the lease is held: a row that says "running" is of a worker
    that died, and attempts are counted once each, however often the message was sent."""
    with transaction.atomic():
        run = _row(environment, name, task_id, arguments)
        if run.outcome in _FINISHED:
            return None
        run.outcome, run.started_at, run.next_try_at = Outcome.RUNNING, environment.now(), None
        run.attempts += 1
        run.save()
        return run


def _skip(environment: Environment, name: str, task_id: str, arguments: dict[str, str]) -> Summary:
    """Another run has the lease. What this one's other message has done, or will be repeated for, stays as it is."""
    with transaction.atomic():
        run = _row(environment, name, task_id, arguments)
        if run.outcome in (*_FINISHED, Outcome.RETRYING):
            return {"outcome": "done before"}
        # A usage run has the id of its task: whoever asked for it sees that it was skipped.
        UsageRun.objects.filter(run_id=task_id).update(outcome=UsageRun.Outcome.SKIPPED, message=UNDER_WAY)
        return _finish(environment, run, Outcome.SKIPPED, {"why": UNDER_WAY})


def _row(environment: Environment, name: str, task_id: str, arguments: dict[str, str]) -> TaskRun:
    defaults = {"name": name, "started_at": environment.now(), "arguments": arguments, "outcome": Outcome.QUEUED}
    return TaskRun.objects.select_for_update().get_or_create(task_id=task_id, defaults=defaults)[0]


def _failed(environment: Environment, run: TaskRun, summary: Summary, *, counts: bool = True) -> Summary:
    """It is repeated if tasks of its kind are; it is given up after too many attempts. `counts`: it is to blame."""
    entry = BY_NAME.get(run.name)
    if entry is None or not entry.retry_s:
        return _finish(environment, run, Outcome.FAILED, summary)
    if counts and run.attempts >= environment.settings.task_attempts_max:
        return _give_up(environment, run, summary)
    run.attempts -= not counts
    run.next_try_at = environment.now() + timedelta(seconds=wait_s(entry, max(1, run.attempts)))
    return _finish(environment, run, Outcome.RETRYING, summary)


def _give_up(environment: Environment, run: TaskRun, summary: Summary) -> Summary:
    log.error("task-quarantined", task=run.name, task_id=run.task_id, attempts=run.attempts, **summary)
    return _finish(environment, run, Outcome.QUARANTINED, summary)


def _finish(environment: Environment, run: TaskRun, outcome: Outcome, summary: Summary) -> Summary:
    TaskRun.objects.filter(task_id=run.task_id).update(
        outcome=outcome,
        finished_at=environment.now(),
        next_try_at=run.next_try_at,
        attempts=run.attempts,
        progress={},
        summary=summary,
    )
    log.debug("task-finished", task_id=run.task_id, outcome=outcome.value, **summary)
    return {"outcome": outcome.value, **summary}
