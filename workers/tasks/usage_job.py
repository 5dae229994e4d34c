"""The hourly usage job as a task: collect, run Spark in a child process, publish, and leave a row however it ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from messaging.adminrpc.schema import UsageFlush
from messaging.errors import MagnetarError
from spark_jobs.config import load_directory
from workers.environment import Environment, Stopping
from workers.models import UsageRun
from workers.usage_load import known_inputs, publish
from workers.usage_run import NeedsSpark, RunFailed, RunFiles, run_job

Outcome = UsageRun.Outcome


def run_usage_job(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Computes the hours whose files changed. The run has the id of the task; a second delivery of it runs it again from nothing.

    A run that fails changes no number: its row says why, and the next run finds the same hours to do.
    """
    now = environment.now()
    UsageRun.objects.get_or_create(run_id=task_id, defaults={"requested_at": now})
    UsageRun.objects.filter(run_id=task_id).update(outcome=Outcome.RUNNING, started_at=now)
    try:
        flushed = _flush(environment, task_id)
        result = run_job(environment.settings, task_id, _milliseconds(now.timestamp()), known_inputs(now), renew)
        run = UsageRun.objects.get(run_id=task_id)
        rows = load_directory(RunFiles.of(environment.settings, task_id).hours, task_id)
        publish(run, result, rows, environment.now(), renew)
        shutil.rmtree(rows, ignore_errors=True)  # after a failure it stays until the next run's sweep
    except (RunFailed, Stopping) as error:
        outcome = Outcome.NEEDS_SPARK if isinstance(error, NeedsSpark) else Outcome.FAILED
        _end(environment, task_id, outcome, str(error))
        return {"run": outcome.value, "why": str(error)}
    except BaseException as error:
        _end(environment, task_id, Outcome.FAILED, f"{type(error).__name__}: {error}")
        raise
    return {"run": run.outcome, "hours": run.hours, "rows": run.rows, "remarks": run.message, **flushed}


def _flush(environment: Environment, task_id: str) -> dict[str, Any]:
    """Usage up to now. While the broker is away there is none of now, and what it wrote before is computed all the same."""
    try:
        environment.rpc.call("usage.flush", UsageFlush(task_id=task_id))
    except MagnetarError as error:
        return {"not_collected": error.message}
    return {}


def _end(environment: Environment, task_id: str, outcome: Outcome, message: str) -> None:
    UsageRun.objects.filter(run_id=task_id).update(outcome=outcome, finished_at=environment.now(), message=message[:2000])


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
