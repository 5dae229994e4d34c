"""`magnetar dead-letters`: all dead letters of a tenant, in groups and one by one, and redrives of many topics at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from controlplane.cli.remote.command import TENANT, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_json, show_rows

BY = ("reason", "origin_topic", "origin_subscription", "producer", "topic", "key", "day", "hour", "outcome")
GROUP = ("value", "messages", "entries", "staying", "oldest_ms", "newest_ms")
LETTER = ("topic", "message_id", "key", "reason", "origin_subscription", "destination", "why")
REDRIVE = ("id", "topic", "target", "state", "looked_at", "moved", "left", "error")
FILTERS = (
    click.option("--reason", help="Only with this reason."),
    click.option("--origin-topic", help="Only from this topic, full name."),
    click.option("--origin-subscription", help="Only from this subscription."),
    click.option("--producer", help="Only what this producer published; stock clients name their consumer in it."),
    click.option("--key", help="Only with this key."),
    click.option("--property", "of_property", metavar="NAME=VALUE", help="Only with this property."),
    click.option("--from-ms", type=click.IntRange(0), help="Only those that became dead letters from then on, ms since 1970."),
    click.option("--until-ms", type=click.IntRange(0), help="Only those that became dead letters before."),
    click.option("--target", help="Where they would go. [default: each to the topic that it came from]"),
)
ONE_TOPIC = click.option("--topic", help="Of this dead-letter topic, full name. [default: all]")


def _filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(FILTERS):
        command = option(command)
    return command


@click.group("dead-letters", cls=RemoteGroup)
def dead_letters() -> None:
    """Dead letters of a tenant, whichever topics hold them."""


@dead_letters.command("groups")
@click.option("--by", type=click.Choice(BY), default="reason", help="What the messages of a group share. [default: reason]")
@click.option("--by-property", metavar="NAME", help="Or the value of this property.")
@ONE_TOPIC
@_filtered
@TENANT
@remote
def dead_letters_groups(at: Remote, by: str, by_property: str | None, tenant: str, **given: Any) -> None:
    """Count them in groups; by outcome: what a redrive would do."""
    asked = _asked(given) | ({"by": "property", "property": by_property} if by_property else {"by": by})
    _show_groups(at, at.tenant(tenant), asked)


@dead_letters.command("list")
@click.option("--count", type=click.IntRange(1), default=100, help="How many. [default: 100]")
@ONE_TOPIC
@_filtered
@TENANT
@remote
def dead_letters_list(at: Remote, count: int, tenant: str, **given: Any) -> None:
    """List them, oldest first of each topic, with where each would go."""
    asked, rows, after = _asked(given), list[Any](), None
    while len(rows) < count:
        page: Any = at.admin.dead_letters.messages(at.tenant(tenant), after=after, limit=min(500, count - len(rows)), **asked)
        rows += page["items"]
        _say_left_out(page)
        after = page["next"]
        if after is None:
            break
    show_rows(rows, LETTER, as_json=at.as_json)


@dead_letters.command("redrive")
@click.option("--topic", "topics", multiple=True, help="Of this dead-letter topic, full name; may be repeated. [default: all]")
@_filtered
@click.option("--message", "message_ids", multiple=True, metavar="ID", help="Only this message of the one topic; may be repeated.")
@click.option("--redriven-max", type=click.IntRange(0), default=3, help="What was redriven so often stays; 0: any. [default: 3]")
@click.option("--rate", type=click.IntRange(0), default=0, help="Messages per second, of each topic; 0: as fast as it goes.")
@click.option("--idempotency-key", help="The same key names the same redrives.")
@click.option("--dry-run", is_flag=True, help="Say what would become of them, and move nothing.")
@TENANT
@remote
def dead_letters_redrive(
    at: Remote, topics: tuple[str, ...], message_ids: tuple[str, ...], dry_run: bool, tenant: str, **given: Any
) -> None:
    """Redrive what matches: a job for each topic, as `magnetar redrive` and `magnetar jobs` show them."""
    if dry_run:
        given.pop("idempotency_key"), given.pop("rate")
        if len(topics) > 1 or message_ids:
            raise click.UsageError("--dry-run is of all topics, or of one: leave out --message and further --topic")
        _show_groups(at, at.tenant(tenant), _asked(given | {"topic": topics[0] if topics else None}) | {"by": "outcome"})
        return
    body = _asked(given) | {"topics": list(topics), "message_ids": list(message_ids)}
    answer: Any = at.admin.dead_letter_redrives.create(at.tenant(tenant), body)
    if at.as_json:
        show_json(answer)
        return
    show_rows(answer["started"], REDRIVE, as_json=False)
    for each in answer["not_started"]:
        click.echo(f"not started: {each['topic']}: {each['why']}", err=True)


@dead_letters.command("redrives")
@TENANT
@remote
def dead_letters_redrives(at: Remote, tenant: str) -> None:
    """List the redrives of all topics."""
    show_rows(at.admin.dead_letter_redrives.each(at.tenant(tenant)), REDRIVE, as_json=at.as_json)


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    asked = {name: value for name, value in given.items() if value is not None}
    if pair := asked.pop("of_property", None):
        name, separator, value = pair.partition("=")
        if not name or not separator:
            raise click.UsageError("--property takes NAME=VALUE")
        asked |= {"property_name": name, "property_value": value}
    return asked


def _show_groups(at: Remote, tenant: str, asked: dict[str, Any]) -> None:
    """Of all requests that it takes, added up."""
    sums: dict[str, dict[str, Any]] = {}
    beyond, after = 0, None
    while True:
        page: Any = at.admin.dead_letters.list(tenant, after=after, **asked)
        for group in page["groups"]:
            kept = sums.setdefault(group["value"], group)
            if kept is not group:
                for name in ("messages", "entries", "staying"):
                    kept[name] += group[name]
                kept["oldest_ms"] = min(kept["oldest_ms"], group["oldest_ms"])
                kept["newest_ms"] = max(kept["newest_ms"], group["newest_ms"])
        beyond += page["beyond"]
        _say_left_out(page)
        after = page["next"]
        if after is None:
            break
    show_rows(sorted(sums.values(), key=lambda group: -group["messages"]), GROUP, as_json=at.as_json)
    if beyond:
        click.echo(f"{beyond} messages are in further groups", err=True)
    if page["more_topics"]:
        click.echo("there are more dead-letter topics than are found by name: name them with --topic", err=True)


def _say_left_out(page: Any) -> None:
    for each in page["left_out"]:
        click.echo(f"left out: {each['topic']}: {each['why']}", err=True)
