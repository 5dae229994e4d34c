"""Ensures that a task runs once at a time across all workers, by a database row that is held for a while and renewed during the
work.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from workers.models import TaskLease

LEASE_S = 60  # after a crash the next run waits at most this long; holders renew far more often
SKEW_S = 60  # by which the clocks of two workers may differ
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def acquire(name: str, holder: str, now: datetime) -> bool:
    """Whether `holder` has the lease now: it was free, ran out, or was its own. One statement decides between two workers."""
    TaskLease.objects.get_or_create(name=name, defaults={"until": _NEVER})
    # The clock went back: nobody holds a lease for that long. A living holder renews it, a dead one's ends as after any crash.
    TaskLease.objects.filter(name=name, until__gt=_latest(now)).update(until=now + timedelta(seconds=LEASE_S))
    free = TaskLease.objects.filter(name=name).filter(Q(until__lte=now) | Q(holder__in=("", holder)))
    return free.update(holder=holder, until=now + timedelta(seconds=LEASE_S)) == 1


def renew(name: str, holder: str, now: datetime) -> bool:
    """Whether it still was `holder`'s; then it is for another `LEASE_S`. A lease that ran out but was not taken is renewed."""
    return TaskLease.objects.filter(name=name, holder=holder).update(until=now + timedelta(seconds=LEASE_S)) == 1


def release(name: str, holder: str, now: datetime) -> None:
    TaskLease.objects.filter(name=name, holder=holder).update(holder="", until=now)


def holder_of(task_id: str) -> str:
    """A holder of its own for each attempt: a message that is delivered twice does not get what its first delivery has."""
    return f"{task_id[:48]}.{secrets.token_hex(6)}"


def held_for(name: str, task_id: str, now: datetime) -> bool:
    """Whether an attempt of this run has it."""
    return TaskLease.objects.filter(name=name, holder__startswith=f"{task_id[:48]}.", until__gt=now).exists()


def _latest(now: datetime) -> datetime:
    """No lease that was acquired by now ends later."""
    return now + timedelta(seconds=LEASE_S + SKEW_S)


def held(name: str, now: datetime) -> bool:
    return TaskLease.objects.filter(name=name, until__gt=now, until__lte=_latest(now)).exclude(holder="").exists()
