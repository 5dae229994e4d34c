"""The hourly usage job as a task: collect, run Spark in a child process, publish, and leave a row however it ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from messaging import logs
from messaging.adminrpc.base import Request
from messaging.adminrpc.methods import BROKERS_LIST, USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from messaging.errors import MagnetarError
from spark_jobs.config import Progress, Result, load_directory
from spark_jobs.death import fewer_tasks
from workers.environment import Environment, Failed, Stopping
from workers.findings.outages import outages_below
from workers.models import UsageRun
from workers.usage_files import never_taken, take_usage_files
from workers.usage_home import home, is_home
from workers.usage_load import known_inputs, publish
from workers.usage_periods import current_days, current_hours
from workers.usage_pieces import sweep
from workers.usage_run import Current, NeedsSpark, RunDied, RunFailed, RunFiles, run_job

log = logs.get_logger("magnetar.worker")
Outcome = UsageRun.Outcome
ATTEMPTS = 3
ABANDONED = "its worker ended in the middle; the next run does the same work"


def run_usage_job(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Computes the hours whose files changed. The run has the id of the task; repeated, it begins again from nothing.
    Of many months the job does one at a time, the latest first: each is a run of its own.

    A run that fails changes no number: its row says why, and the next run finds the same hours to do. Raises `Failed`.
    """
    if not is_home(environment.settings, environment.now()):
        raise Failed({"why": f"usage is computed in {home()}, and not here: `magnetar usage move-here` changes that"})
    number, hours = 1, 0
    UsageRun.objects.filter(outcome=Outcome.RUNNING).update(
        outcome=Outcome.FAILED, finished_at=environment.now(), message=ABANDONED
    )
    flushed = _flush(environment, task_id) | _take(environment, renew)
    while True:
        run_id = task_id if number == 1 else f"{task_id}-{number}"
        number += 1
        if UsageRun.objects.filter(run_id=run_id, outcome=Outcome.SUCCEEDED).exists():
            continue  # of an earlier attempt: what it published has its files and rows
        summary, more = _run_once(environment, run_id, renew)
        hours += summary.get("hours", 0)
        if summary["run"] == Outcome.FAILED:
            raise Failed({**summary, **flushed})
        sweep(renew)
        if not more:
            return {**summary, "hours": hours, **flushed}


def _run_once(environment: Environment, run_id: str, renew: Callable[[], None]) -> tuple[dict[str, Any], bool]:
    """One run, and whether there is more to do."""
    now = environment.now()
    UsageRun.objects.get_or_create(run_id=run_id, defaults={"requested_at": now})
    UsageRun.objects.filter(run_id=run_id).update(outcome=Outcome.RUNNING, started_at=now, finished_at=None, message="")
    try:
        result = _run(environment, run_id, now, renew)
        run = UsageRun.objects.get(run_id=run_id)
        rows = load_directory(RunFiles.of(environment.settings, run_id).hours, run_id)
        publish(run, result, rows, environment.now(), renew, outages_below(RunFiles.of(environment.settings, run_id).raw))
        shutil.rmtree(rows, ignore_errors=True)  # after a failure it stays until the next run's sweep
    except RunFailed as error:
        outcome = Outcome.NEEDS_SPARK if isinstance(error, NeedsSpark) else Outcome.FAILED
        _end(environment, run_id, outcome, str(error))
        return {"run": outcome.value, "why": str(error)}, False
    except Stopping as error:
        _end(environment, run_id, Outcome.FAILED, str(error))
        raise
    except BaseException as error:
        _end(environment, run_id, Outcome.FAILED, f"{type(error).__name__}: {error}")
        raise
    return {"run": run.outcome, "hours": run.hours, "rows": run.rows, "remarks": run.message}, result.more


def _run(environment: Environment, task_id: str, now: datetime, renew: Callable[[], None]) -> Result:
    """A job that died is run again at once, with half as many tasks at a time if memory ran out. Raises `RunFailed`."""
    master, deaths = environment.settings.spark_master, list[str]()
    report = _reporter(environment, task_id, deaths)
    while True:
        try:
            since = now - timedelta(days=environment.settings.usage_lookback_days + 2)
            current = Current(known_inputs(since), current_hours(since), current_days(since))
            return run_job(environment.settings, task_id, _milliseconds(now.timestamp()), current, renew, report, master)
        except RunDied as died:
            deaths.append(str(died))
            if len(deaths) == ATTEMPTS:
                raise RunFailed(f"{died}. It was tried {ATTEMPTS} times") from None
            log.warning("usage-run-again", run_id=task_id, attempt=len(deaths) + 1, why=str(died))
            if died.memory:
                master = fewer_tasks(master, os.cpu_count() or 1)


def _reporter(environment: Environment, task_id: str, deaths: list[str]) -> Callable[[Progress], None]:
    """Progress into the run's row, for the console, and each new step into the log."""
    step = ""

    def report(progress: Progress) -> None:
        nonlocal step
        left_s = progress.left_s()
        shown = {**asdict(progress), "left_s": None if left_s is None else round(left_s, 1)}
        UsageRun.objects.filter(run_id=task_id).update(detail={"progress": shown, "deaths": deaths})
        if progress.step != step:
            step = progress.step
            log.info("usage-run-step", run_id=task_id, step=step, tasks=progress.tasks, rows=progress.rows)

    return report


def _flush(environment: Environment, task_id: str) -> dict[str, Any]:
    """Usage up to now. While the broker is away there is none of now, and what it wrote before is computed all the same."""
    try:
        environment.rpc.call(USAGE_FLUSH, UsageFlush(task_id=task_id))
    except MagnetarError as error:
        return {"not_collected": error.message}
    return {}


def _take(environment: Environment, renew: Callable[[], None]) -> dict[str, Any]:
    """Files of brokers on other machines. What of one that is away was taken before is computed; where nothing ever was, its hours
    would lose what they had, so nothing is. Raises `Failed`."""
    if not environment.settings.broker_rpc_urls:
        return {}
    away = ""
    try:
        taken = take_usage_files(environment, environment.settings.usage_lookback_days + 2, renew)
    except MagnetarError as error:
        taken, away = 0, error.message
    try:
        brokers = [broker.broker_id for broker in environment.rpc.call(BROKERS_LIST, Request()).brokers]
    except MagnetarError as error:
        raise Failed({"why": f"no broker answers, so it is not known whose usage there is: {error.message}"}) from None
    if strange := never_taken(environment, brokers):
        raise Failed(
            {"why": f"usage files of {', '.join(strange[:8])} were never taken ({away}): start them, and the next run computes all"}
        )
    return {"taken": taken, **({"not_taken": away} if away else {})}


def _end(environment: Environment, task_id: str, outcome: Outcome, message: str) -> None:
    UsageRun.objects.filter(run_id=task_id).update(outcome=outcome, finished_at=environment.now(), message=message[:2000])


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
