"""Waiting for the end of what runs long. The API tells nobody of it, so it is asked, less and less often."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

import click

from controlplane.cli.remote.command import EXIT_REFUSED, Failed, Remote
from controlplane.cli.remote.output import show_json

POLLS_S = (0.5, 5.0)  # between two questions: at first, and at last


def ended(
    at: Remote, job: Any, ask: Callable[[], Any], under_way: Collection[str], text_of: Callable[[Any], str], what: str
) -> Any:
    """`job` as `ask` has it when its state is none of `under_way`; meanwhile `text_of` it is on the terminal. Raises `Failed`
    about `what`, where it is not done then."""
    delay_s, delay_max_s = POLLS_S
    while job["state"] in under_way:
        click.echo(f"\r{text_of(job)}", nl=False, err=True)
        time.sleep(delay_s)
        delay_s = min(delay_max_s, 1.5 * delay_s)
        job = ask()
    click.echo(f"\r{text_of(job)}", err=True)
    if job["state"] != "done":
        if at.as_json:
            show_json(job)
        raise Failed(f"{what} is {job['state']}: {job['error'] or 'somebody ended it'}", EXIT_REFUSED)
    return job
