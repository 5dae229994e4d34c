"""`magnetar browse`: messages of a topic, found and decoded by the platform."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import click

from controlplane.cli.remote.command import TOPIC, Remote, RemoteCommand, Topic, remote
from controlplane.cli.remote.output import show_json

COMPARISONS = ("eq", "ne", "contains", "gt", "lt", "exists")
FORMATS = ("auto", "json", "avro", "protobuf", "text", "cbor", "msgpack", "hex")
PAGE_MAX = 100
TIMES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"]
_Time = click.DateTime(TIMES)


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.option("--position", help="Begin with earliest, latest or a message id. [default: earliest]")
@click.option("--time", "published", type=_Time, help="Begin with what was published then or later (UTC).")
@click.option("--subscription", help="Begin with what this subscription has not acknowledged.")
@click.option("--newest", is_flag=True, help="The newest first.")
@click.option("--key", help="Only messages with this key.")
@click.option("--property", "property_", metavar="NAME[=VALUE]", help="Only messages with this property.")
@click.option("--text", help="Only messages whose payload contains this.")
@click.option("--path", help="Only messages with a value at this path of their payload, as $.order.id.")
@click.option("--compare", type=click.Choice(COMPARISONS), help="How that compares with --value. [default: eq]")
@click.option("--value", help="What it is compared with.")
@click.option("--from", "from_", type=_Time, help="Only what was published from this time on (UTC).")
@click.option("--until", type=_Time, help="Only what was published before this time (UTC).")
@click.option("--format", "form", type=click.Choice(FORMATS), help="How payloads are read. [default: auto]")
@click.option("--count", type=click.IntRange(1), default=20, help="How many at most. [default: 20]")
@remote
def browse(
    at: Remote,
    topic: Topic,
    position: str | None,
    published: datetime | None,
    subscription: str | None,
    newest: bool,
    key: str | None,
    property_: str | None,
    text: str | None,
    path: str | None,
    compare: Any,
    value: str | None,
    from_: datetime | None,
    until: datetime | None,
    form: Any,
    count: int,
) -> None:
    """Show messages of a topic, or search them. Nothing is consumed; each page is recorded in the audit log."""
    after: str | None = None
    shown = looked_at = 0
    while shown < count:
        page = at.admin.browse.list(
            *topic.parts,
            kind=topic.kind,
            position=position,
            publish_time_ms=_milliseconds(published),
            subscription=subscription,
            order="newest" if newest else None,
            key=key,
            property=property_,
            text=text,
            path=path,
            compare=compare,
            value=value,
            from_ms=_milliseconds(from_),
            until_ms=_milliseconds(until),
            format=form,
            limit=min(count - shown, PAGE_MAX),
            after=after,
        )
        for message in page["items"]:
            show_json(message) if at.as_json else click.echo(_line(message))
        sys.stdout.flush()
        shown, looked_at, after = shown + len(page["items"]), looked_at + page["looked_at"], page["next"]
        if after is None:
            break
        if sys.stderr.isatty() and shown < count:
            click.echo(f"\r{looked_at:,} entries looked at, {page['left']:,} left  ", err=True, nl=False)


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.replace(tzinfo=UTC).timestamp() * 1000)


def _line(message: Any) -> str:
    published = datetime.fromtimestamp(message["publish_time_ms"] / 1000, UTC)
    key = f"[{message['key']}] " if message["key"] is not None else ""
    if message["decoded"]:
        payload = json.dumps(message["value"], ensure_ascii=False)
    elif message["encryption_keys"]:
        payload = f"(encrypted with {', '.join(message['encryption_keys'])})"
    else:
        payload = message["text"] or f"({message['size_bytes']} bytes)"
    shown = "".join(character if character.isprintable() or character == "\t" else "·" for character in f"{key}{payload}")
    return f"{message['message_id']}  {published:%Y-%m-%d %H:%M:%S}  {shown}"
