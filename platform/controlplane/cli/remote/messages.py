"""`magnetar peek`, `tail`, `produce` and `consume`."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from controlplane.cli.remote.command import EXIT_UNREACHABLE, TOPIC, Failed, Remote, RemoteCommand, Topic, WrongParameter, remote
from controlplane.cli.remote.output import show_json

_TIME, _KEY = "X-Pulsar-publish-time", "X-Pulsar-partition-key"


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.argument("subscription", required=False)
@click.option("--count", type=click.IntRange(1, 100), default=10, help="How many. [default: 10]")
@remote
def peek(at: Remote, topic: Topic, subscription: str | None, count: int) -> None:
    """Read the first messages that a subscription has not acknowledged, or those of the topic. Nothing is consumed."""
    if subscription:
        page: Any = at.admin.subscription_messages.list(*topic.parts, subscription, kind=topic.kind, limit=count)
    else:
        page = at.admin.topic_messages.list(*topic.parts, kind=topic.kind, limit=count)
    for message in page["items"]:
        _show(message, as_json=at.as_json)


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.option("--count", type=click.IntRange(1), help="End after so many messages. [default: go on]")
@remote
def tail(at: Remote, topic: Topic, count: int | None) -> None:
    """Print messages as they are published to a topic, with all its partitions, or to one of these. Nothing is consumed."""
    from controlplane.cli.remote import sdk

    at.admin.topics.get(*topic.parts, kind=topic.kind)  # a reader would make a topic that does not exist
    with _reachable(at):
        for message in sdk.tail(at.context.broker_url, at.token, str(topic), count):
            _show(message, as_json=at.as_json)
            sys.stdout.flush()


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.argument("messages", nargs=-1)
@click.option("--key", help="The key of the messages.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="May be given several times.")
@remote
def produce(at: Remote, topic: Topic, messages: tuple[str, ...], key: str | None, properties: tuple[str, ...]) -> None:
    """Publish messages: those on the command line, else each line of standard input."""
    from controlplane.cli.remote import sdk

    pairs = dict(_pair(each) for each in properties)
    lines = iter(messages) if messages else (line.rstrip("\n") for line in sys.stdin)
    with _reachable(at):
        for message_id in sdk.produce(at.context.broker_url, at.token, str(topic), lines, key, pairs):
            show_json({"message_id": message_id}) if at.as_json else click.echo(message_id)


@click.command(cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.argument("subscription")
@click.option("--count", type=click.IntRange(1), help="End after so many messages. [default: go on]")
@click.option("--timeout-s", type=click.FloatRange(0, min_open=True), help="End when none came for so long. [default: go on]")
@click.option(
    "--position", type=click.Choice(["earliest", "latest"]), default="latest", help="Of a new subscription. [default: latest]"
)
@click.option("--kind", type=click.Choice(["exclusive", "shared", "failover"]), default="shared", help="[default: shared]")
@remote
def consume(
    at: Remote, topic: Topic, subscription: str, count: int | None, timeout_s: float | None, position: Any, kind: Any
) -> None:
    """Receive messages, print them and acknowledge them."""
    from controlplane.cli.remote import sdk

    with _reachable(at):
        for message in sdk.consume(at.context.broker_url, at.token, str(topic), subscription, count, timeout_s, position, kind):
            if at.as_json:
                show_json(message)
            else:
                click.echo(base64.b64decode(message["payload_base64"]) if message["text"] is None else message["text"])
            sys.stdout.flush()


def _pair(given: str) -> tuple[str, str]:
    name, separator, value = given.partition("=")
    if not name or not separator:
        raise WrongParameter(f"{given!r} is no property: use NAME=VALUE", param_hint="--property")
    return name, value


@contextmanager
def _reachable(at: Remote) -> Iterator[None]:
    """The console's address does not tell the port of messages, so a context may have the wrong one."""
    from messaging.client.errors import Unreachable

    try:
        yield
    except Unreachable as error:
        text = f"{error.message}: is the platform running? Another address is set with `magnetar login --broker-url URL`"
        raise Failed(text, EXIT_UNREACHABLE) from None


def _show(message: Any, *, as_json: bool) -> None:
    if as_json:
        show_json(message)
        return
    payload = base64.b64decode(message["payload_base64"])
    text = payload.decode("utf-8", "replace")
    shown = "".join(character if character.isprintable() or character == "\t" else "·" for character in text)
    key = message["headers"].get(_KEY, "")
    click.echo(f"{message['message_id']}  {message['headers'].get(_TIME, '-')}  {f'[{key}] ' if key else ''}{shown}")
