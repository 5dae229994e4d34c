"""`magnetar topics`, `subscriptions`, `explain` and `trace`."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.remote.command import (
    DRY_RUN,
    EXIT_USAGE,
    FORCE,
    TOPIC,
    Failed,
    Remote,
    RemoteCommand,
    RemoteGroup,
    Topic,
    remote,
)
from controlplane.cli.remote.output import show_one, show_outcome, show_rows
from controlplane.cli.remote.tuning import tune

COLUMNS = ("name", "type", "backlog_entries", "unacked_messages", "delayed_messages", "consumers", "rate_out")


@click.group(cls=RemoteGroup)
def topics() -> None:
    """Topics of a namespace."""


@topics.command("list")
@click.argument("namespace", metavar="TENANT/NAMESPACE")
@remote
def topics_list(at: Remote, namespace: str) -> None:
    """List topics; a partitioned topic counts as one."""
    tenant, slash, local = namespace.partition("/")
    if not slash:
        tenant, local = at.tenant(), namespace
    show_rows(at.admin.topics.each(tenant, local), ("topic", "partitions"), as_json=at.as_json)


@topics.command("create")
@click.argument("topic", type=TOPIC)
@click.option("--partitions", type=click.IntRange(0), default=0, help="0: not partitioned. [default: 0]")
@remote
def topics_create(at: Remote, topic: Topic, partitions: int) -> None:
    """Create a topic."""
    body: Any = {"name": topic.name, "partitions": partitions, "persistent": topic.kind == "topics"}
    show_one(at.admin.topics.create(topic.tenant, topic.namespace, body), as_json=at.as_json)


@topics.command("delete")
@click.argument("topic", type=TOPIC)
@FORCE
@DRY_RUN
@remote
def topics_delete(at: Remote, topic: Topic, force: bool, dry_run: bool) -> None:
    """Delete a topic and its messages."""
    told = at.admin.topics.delete(*topic.parts, kind=topic.kind, force=force, dry_run=dry_run)
    _show(at, told, "topic.delete", str(topic))


@topics.command("stats")
@click.argument("topic", type=TOPIC)
@remote
def topics_stats(at: Remote, topic: Topic) -> None:
    """Show rates, backlog, storage and clients."""
    stats = at.admin.topics.stats(*topic.parts, kind=topic.kind)["stats"]
    if at.as_json:
        show_one(stats, as_json=True)
        return
    show_one({name: value for name, value in stats.items() if isinstance(value, int | float | str)}, as_json=False)


topics.add_command(tune)


@topics.command("grow")
@click.argument("topic", type=TOPIC)
@click.argument("partitions", type=click.IntRange(1))
@remote
def topics_grow(at: Remote, topic: Topic, partitions: int) -> None:
    """Give a partitioned topic more partitions."""
    show_one(at.admin.topics.update_properties(*topic.parts, {"partitions": partitions}, kind=topic.kind), as_json=at.as_json)


@topics.command("compact")
@click.argument("topic", type=TOPIC)
@remote
def topics_compact(at: Remote, topic: Topic) -> None:
    """Have a topic compacted by a worker."""
    at.admin.topics.start_compaction(*topic.parts, kind=topic.kind)
    click.echo(f"compaction of {topic} was asked for", err=True)


@topics.command("disconnect")
@click.argument("topic", type=TOPIC)
@click.option("--kind", type=click.Choice(["producer", "consumer"]), help="[default: both]")
@click.option("--name", default="", help="Of the producer or consumer.")
@click.option("--subscription", default="", help="Of the consumers.")
@click.option("--address", default="", help="Of the client: host:port, as `stats` has it.")
@DRY_RUN
@remote
def topics_disconnect(
    at: Remote, topic: Topic, kind: str | None, name: str, subscription: str, address: str, dry_run: bool
) -> None:
    """Disconnect clients; most connect again at once."""
    body: Any = {"name": name, "subscription": subscription, "address": address, **({"kind": kind} if kind else {})}
    show_outcome(at.admin.topics.disconnect(*topic.parts, body, kind=topic.kind, dry_run=dry_run), as_json=at.as_json)


def _operation(name: str, summary: str) -> None:
    @topics.command(name, help=summary)
    @click.argument("topic", type=TOPIC)
    @DRY_RUN
    @remote
    def run(at: Remote, topic: Topic, dry_run: bool) -> None:
        told = getattr(at.admin.topics, name)(*topic.parts, kind=topic.kind, dry_run=dry_run)
        show_outcome(told, as_json=at.as_json)


_operation("unload", "Unload a topic: its clients connect again.")
_operation("truncate", "Drop every message of a topic.")
_operation("terminate", "Let nothing be published to a topic any more. This cannot be undone.")


@click.group(cls=RemoteGroup)
def subscriptions() -> None:
    """Subscriptions of a topic and their cursors."""


@subscriptions.command("list")
@click.argument("topic", type=TOPIC)
@remote
def subscriptions_list(at: Remote, topic: Topic) -> None:
    """List them, with their backlog."""
    show_rows(at.admin.subscriptions.each(*topic.parts, kind=topic.kind), COLUMNS, as_json=at.as_json)


@subscriptions.command("create")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@click.option("--position", default="latest", help="earliest, latest or a message id. [default: latest]")
@remote
def subscriptions_create(at: Remote, topic: Topic, name: str, position: str) -> None:
    """Create a subscription."""
    body: Any = {"name": name, "position": position}
    show_outcome(at.admin.subscriptions.create(*topic.parts, body, kind=topic.kind), as_json=at.as_json)


@subscriptions.command("delete")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@FORCE
@DRY_RUN
@remote
def subscriptions_delete(at: Remote, topic: Topic, name: str, force: bool, dry_run: bool) -> None:
    """Delete a subscription."""
    told = at.admin.subscriptions.delete(*topic.parts, name, kind=topic.kind, force=force, dry_run=dry_run)
    _show(at, told, "subscription.delete", f"{topic}/{name}")


@subscriptions.command("clear")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@DRY_RUN
@remote
def subscriptions_clear(at: Remote, topic: Topic, name: str, dry_run: bool) -> None:
    """Acknowledge the whole backlog."""
    show_outcome(at.admin.subscriptions.clear(*topic.parts, name, kind=topic.kind, dry_run=dry_run), as_json=at.as_json)


@subscriptions.command("skip")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@click.argument("entries", type=click.IntRange(0))
@DRY_RUN
@remote
def subscriptions_skip(at: Remote, topic: Topic, name: str, entries: int, dry_run: bool) -> None:
    """Acknowledge the next entries of the backlog."""
    told = at.admin.subscriptions.skip(*topic.parts, name, {"entries": entries}, kind=topic.kind, dry_run=dry_run)
    show_outcome(told, as_json=at.as_json)


@subscriptions.command("reset")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@click.option("--position", type=click.Choice(["earliest", "latest"]), help="To the first message, or behind the last.")
@click.option("--publish-time-ms", type=click.IntRange(0), help="To the first message published then or later.")
@click.option("--message-id", help="To this message, ledger:entry.")
@DRY_RUN
@remote
def subscriptions_reset(
    at: Remote, topic: Topic, name: str, position: str | None, publish_time_ms: int | None, message_id: str | None, dry_run: bool
) -> None:
    """Move a subscription to a message or a time."""
    given = {"position": position, "publish_time_ms": publish_time_ms, "message_id": message_id}
    body: Any = {field: value for field, value in given.items() if value is not None}
    if len(body) != 1:
        raise Failed("give one of --position, --publish-time-ms and --message-id", EXIT_USAGE)
    show_outcome(at.admin.subscriptions.reset(*topic.parts, name, body, kind=topic.kind, dry_run=dry_run), as_json=at.as_json)


@subscriptions.command("expire")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@click.argument("older_than_s", type=click.IntRange(1))
@DRY_RUN
@remote
def subscriptions_expire(at: Remote, topic: Topic, name: str, older_than_s: int, dry_run: bool) -> None:
    """Acknowledge messages that are older than this many seconds."""
    body: Any = {"older_than_s": older_than_s}
    show_outcome(at.admin.subscriptions.expire(*topic.parts, name, body, kind=topic.kind, dry_run=dry_run), as_json=at.as_json)


@subscriptions.command("moves")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@remote
def subscriptions_moves(at: Remote, topic: Topic, name: str) -> None:
    """List the moves of the last day that can be undone."""
    page = at.admin.moves.list(*topic.parts, name, kind=topic.kind)
    show_rows(page["items"], ("id", "at", "action", "before", "undoable"), as_json=at.as_json)


@subscriptions.command("undo")
@click.argument("topic", type=TOPIC)
@click.argument("name")
@click.argument("move")
@DRY_RUN
@remote
def subscriptions_undo(at: Remote, topic: Topic, name: str, move: str, dry_run: bool) -> None:
    """Put a subscription back where it stood before a move."""
    told = at.admin.moves.undo(*topic.parts, name, move, kind=topic.kind, dry_run=dry_run)
    show_outcome(told, as_json=at.as_json)


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.argument("subscription")
@remote
def explain(at: Remote, topic: Topic, subscription: str) -> None:
    """Say what keeps a subscription from being sent messages."""
    told = at.admin.subscriptions.explain(*topic.parts, subscription, kind=topic.kind)
    if at.as_json:
        show_one(told, as_json=True)
    else:
        for line in explained(told):
            click.echo(line)


def explained(told: Any) -> list[str]:
    """What is wrong for longer than a moment; where nothing is, what is true of this moment."""
    return [f"{each['sentence']} To do: {each['remedy']}." for each in told["problems"]] or [told["sentence"]]


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.argument("message_id")
@remote
def trace(at: Remote, topic: Topic, message_id: str) -> None:
    """Say what became of a message, by its id: ledger:entry."""
    show_one(at.admin.topic_messages.trace(*topic.parts, message_id, kind=topic.kind), as_json=at.as_json)


def _show(at: Remote, told: Any, action: str, resource: str) -> None:
    """Of a deletion: without a dry run there is no answer."""
    done = {"dry_run": False, "action": action, "resource": resource, "affected": {}}
    show_outcome(told or done, as_json=at.as_json)
