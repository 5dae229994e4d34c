"""`magnetar delayed` and `magnetar redrive`."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.remote.command import TOPIC, Remote, RemoteGroup, Topic, remote
from controlplane.cli.remote.output import show_one, show_rows
from controlplane.cli.remote.waiting import ended

RUNNING = "running"


@click.group(cls=RemoteGroup)
def delayed() -> None:
    """Delayed messages of a topic."""


@delayed.command("list")
@click.argument("topic", type=TOPIC)
@click.option("--key", help="Only messages with this key.")
@click.option("--count", type=click.IntRange(1, 1000), default=50, help="How many, the next ones first. [default: 50]")
@remote
def delayed_list(at: Remote, topic: Topic, key: str | None, count: int) -> None:
    """List what waits for its time."""
    page: Any = at.admin.delayed.list(*topic.parts, kind=topic.kind, key=key, limit=count)
    rows = page["items"]
    columns = tuple(name for name, value in (rows[0] if rows else {}).items() if not isinstance(value, dict | list))
    show_rows(rows, columns or ("message_id", "deliver_at_ms"), as_json=at.as_json)


@delayed.command("cancel")
@click.argument("topic", type=TOPIC)
@click.argument("message_id")
@remote
def delayed_cancel(at: Remote, topic: Topic, message_id: str) -> None:
    """Cancel a message: no subscription is sent it."""
    show_one(at.admin.delayed.delete(*topic.parts, message_id, kind=topic.kind), as_json=at.as_json)


@delayed.command("reschedule")
@click.argument("topic", type=TOPIC)
@click.argument("message_id")
@click.argument("delay_ms", type=click.IntRange(0))
@remote
def delayed_reschedule(at: Remote, topic: Topic, message_id: str, delay_ms: int) -> None:
    """Deliver a message so many milliseconds from now."""
    body: Any = {"delay_ms": delay_ms}
    show_one(at.admin.delayed.update(*topic.parts, message_id, body, kind=topic.kind), as_json=at.as_json)


@click.group(cls=RemoteGroup)
def redrive() -> None:
    """Move dead letters, or other messages of a topic, to another topic."""


@redrive.command("start")
@click.argument("topic", type=TOPIC)
@click.argument("target", type=TOPIC, required=False)
@click.option("--subscription", help="What it has not acknowledged is moved. [default: redrive]")
@click.option("--key", help="Only messages with this key.")
@click.option("--rate", type=click.IntRange(0), default=0, help="Messages per second; 0: as fast as it goes. [default: 0]")
@click.option("--idempotency-key", help="The same key names the same job.")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and move nothing.")
@click.option("--wait", is_flag=True, help="Wait for the end, and show how it goes on.")
@remote
def redrive_start(at: Remote, topic: Topic, target: Topic | None, dry_run: bool, wait: bool, **given: Any) -> None:
    """Start moving messages. Without a target each goes back to the topic that it came from."""
    body: Any = {"target": str(target or "")} | {name: value for name, value in given.items() if value is not None}
    if dry_run:
        show_one(at.admin.redrives.dry_run(*topic.parts, body, kind=topic.kind), as_json=at.as_json)
        return
    job: Any = at.admin.redrives.create(*topic.parts, body, kind=topic.kind)
    if wait:
        number = job["id"]
        job = ended(
            at, job, lambda: at.admin.redrives.get(*topic.parts, number, kind=topic.kind), (RUNNING,), _moved_text, "the redrive"
        )
    show_one(job, as_json=at.as_json)


def _moved_text(job: Any) -> str:
    return f"{job['looked_at']} entries looked at, {job['moved']} messages moved"


@redrive.command("list")
@click.argument("topic", type=TOPIC)
@remote
def redrive_list(at: Remote, topic: Topic) -> None:
    """List the redrives of a topic."""
    columns = ("id", "state", "target", "looked_at", "moved", "left", "created_at", "error")
    show_rows(at.admin.redrives.each(*topic.parts, kind=topic.kind), columns, as_json=at.as_json)


def _decision(name: str, method: str, summary: str) -> None:
    @redrive.command(name, help=summary)
    @click.argument("topic", type=TOPIC)
    @click.argument("job")
    @remote
    def decide(at: Remote, topic: Topic, job: str) -> None:
        show_one(getattr(at.admin.redrives, method)(*topic.parts, job, kind=topic.kind), as_json=at.as_json)


_decision("show", "get", "Show a redrive.")
_decision("pause", "pause", "Pause a redrive.")
_decision("resume", "resume", "Resume a redrive that was paused, or that failed.")
_decision("cancel", "delete", "Cancel a redrive; what was moved stays moved.")
