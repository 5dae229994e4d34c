"""The queue of tasks: the table of their runs, `TaskRun`, with a row for each run from the moment that it is asked for.

A row is written in the transaction of whoever asks, and is taken by a worker when it is due; no message has to arrive, so none can
be lost. `due_at` says when a worker may take the row, whatever became of the one before:

    queued      at once; from the moment that it is taken, `LEASE_S` later, should it not begin
    running     when its lease ends, which the work renews: its worker died
    retrying    when it is to be tried again
    otherwise   never: it is over
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Q

from messaging.errors import NotFound, PreconditionFailed
from workers.models import TaskRun
from workers.schedule import BY_NAME, WAIT_S_MAX, pool_of

Outcome = TaskRun.Outcome
ID_LENGTH_MAX = 100
LEASE_S = 60  # after a crash its work is taken up again at most this much later; who runs it renews the lease far more often
SKEW_S = 60  # by which the clocks of two workers may differ


def ask_for(name: str, requested_by: str = "", task_id: str = "", **ids: str) -> TaskRun:
    """A run of the task, due when the caller's transaction is committed. `ids`: exactly those of its entry. Whether that may be
    asked for is the caller's to check.

    A task without ids does all there is to do: if a run of it waits, that is the answer, and it is due now. So is the run that
    was asked for with this `task_id` before."""
    entry, now = BY_NAME[name], datetime.now(UTC)
    assert set(ids) == set(entry.ids), f"{name} takes {entry.ids}"
    assert all(isinstance(value, str) and len(value) <= ID_LENGTH_MAX for value in ids.values()), "ids only"
    if not ids:
        waiting = TaskRun.objects.filter(name=name, outcome__in=(Outcome.QUEUED, Outcome.RETRYING)).first()
        if waiting is not None:
            TaskRun.objects.filter(task_id=waiting.task_id, outcome=Outcome.RETRYING).update(due_at=now)
            return waiting
    values = {
        "name": name,
        "arguments": ids,
        "requested_by": requested_by,
        "started_at": now,
        "due_at": now,
        "outcome": Outcome.QUEUED,
    }
    return TaskRun.objects.get_or_create(task_id=task_id or uuid.uuid4().hex, defaults=values)[0]


def take(free: Mapping[str, int], now: datetime) -> list[TaskRun]:
    """Runs that are due, the longest first, and no more than `free` of each pool. For `LEASE_S` no other worker gets them.

    Costs one read where nothing is due."""
    left = dict(free)
    names = [name for name, entry in BY_NAME.items() if left.get(pool_of(entry))]
    # The clock went back: nothing is due that late. A living holder gets the time of a lease to renew it, a dead one no more.
    ahead = Q(due_at__gt=now + timedelta(seconds=LEASE_S + SKEW_S)) & ~Q(outcome=Outcome.RETRYING)
    ahead |= Q(due_at__gt=now + timedelta(seconds=WAIT_S_MAX + SKEW_S))
    due = TaskRun.objects.filter(Q(due_at__lte=now) | ahead, name__in=names).order_by("due_at")
    taken = []
    for run in due[: sum(left.values())]:
        pool = pool_of(BY_NAME[run.name])
        unchanged = TaskRun.objects.filter(task_id=run.task_id, due_at=run.due_at)
        lease_ends = now + timedelta(seconds=LEASE_S)
        if run.due_at is None or run.due_at > now:
            unchanged.update(due_at=lease_ends)
        elif left[pool]:
            # Whoever ran it is gone. It is not skipped for another run of its key: its work has begun.
            outcome = Outcome.RETRYING if run.outcome == Outcome.RUNNING else run.outcome
            if unchanged.update(due_at=lease_ends, outcome=outcome):
                left[pool] -= 1
                taken.append(run)
    return taken


def requeue(task_id: str) -> TaskRun:
    """Tries a quarantined run again, as if it had never failed. Raises `NotFound`, `PreconditionFailed`."""
    return _decide(task_id, outcome=Outcome.QUEUED, attempts=0, due_at=datetime.now(UTC), finished_at=None)


def discard(task_id: str) -> TaskRun:
    """Gives a quarantined run up. Raises `NotFound`, `PreconditionFailed`."""
    return _decide(task_id, outcome=Outcome.DISCARDED)


def _decide(task_id: str, **values: object) -> TaskRun:
    with transaction.atomic():
        decided = TaskRun.objects.filter(task_id=task_id, outcome=Outcome.QUARANTINED).update(**values)
        run = TaskRun.objects.filter(task_id=task_id).first()
        if run is None:
            raise NotFound(f"task run {task_id[:64]!r} does not exist")
        if not decided:
            raise PreconditionFailed(f"task run {task_id} is {run.outcome}, not quarantined: there is nothing to decide")
        return run
