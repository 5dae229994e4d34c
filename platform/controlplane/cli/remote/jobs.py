"""`magnetar jobs`: what runs long, how far it is, and waiting for its end."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.remote.command import TENANT, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_one, show_rows
from controlplane.cli.remote.waiting import ended

COLUMNS = ("id", "kind", "resource", "state", "done", "total", "unit", "begun_at", "error")
PLATFORM = click.option("--platform", is_flag=True, help="Of the platform: tasks, and the redrives of all tenants.")
UNDER_WAY = ("waiting", "running")
BAR_WIDTH = 30


@click.group(cls=RemoteGroup)
def jobs() -> None:
    """What runs long: redrives, changes of many partitions, tasks."""


@jobs.command("list")
@click.option("--all", "ended_too", is_flag=True, help="Those that ended, too.")
@PLATFORM
@TENANT
@remote
def jobs_list(at: Remote, platform: bool, tenant: str, ended_too: bool) -> None:
    """List the jobs that are not over."""
    active = None if ended_too else True
    rows = at.admin.jobs.each(active=active) if platform else at.admin.tenant_jobs.each(at.tenant(tenant), active=active)
    show_rows(rows, COLUMNS, as_json=at.as_json)


@jobs.command("show")
@click.argument("job")
@PLATFORM
@TENANT
@remote
def jobs_show(at: Remote, job: str, platform: bool, tenant: str) -> None:
    """Show a job."""
    show_one(_get(at, job, platform, tenant), as_json=at.as_json)


@jobs.command("wait")
@click.argument("job")
@PLATFORM
@TENANT
@remote
def jobs_wait(at: Remote, job: str, platform: bool, tenant: str) -> None:
    """Wait until a job is over, and show how far it is."""

    def ask() -> Any:
        return _get(at, job, platform, tenant)

    show_one(ended(at, ask(), ask, UNDER_WAY, progress_text, f"job {job}"), as_json=at.as_json)


@jobs.command("cancel")
@click.argument("job")
@PLATFORM
@TENANT
@remote
def jobs_cancel(at: Remote, job: str, platform: bool, tenant: str) -> None:
    """Cancel a job; what it has done stays done."""
    answer = at.admin.jobs.delete(job) if platform else at.admin.tenant_jobs.delete(at.tenant(tenant), job)
    show_one(answer, as_json=at.as_json)


def _get(at: Remote, job: str, platform: bool, tenant: str) -> Any:
    return at.admin.jobs.get(job) if platform else at.admin.tenant_jobs.get(at.tenant(tenant), job)


def progress_text(job: Any) -> str:
    """A bar where it is known how much there is, else what was counted."""
    done, total, state = job["done"], job["total"], job["state"]
    if done is not None and total:
        filled = BAR_WIDTH * min(done, total) // total
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done} of {total} {job['unit']}, {state}"
    counts = [f"{name}: {value}" for name, value in job["counts"].items()]
    counts = [f"{done} {job['unit']}", *counts] if done is not None else counts
    return ", ".join([state, *counts])
