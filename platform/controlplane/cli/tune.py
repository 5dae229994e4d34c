"""`magnetar tune`: the settings of a producer for what it sends, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from controlplane.cli.remote.output import show_json, show_one
from messaging.limits import tuning as limits
from messaging.limits.model import Limit

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.FloatRange):
    """No NaN, which is in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def whole(limit: Limit) -> click.IntRange:
    return click.IntRange(limit.minimum, limit.maximum)


def number(limit: Limit) -> Number:
    return Number(limit.minimum, limit.maximum)


def above_0(limit: Limit) -> Number:
    return Number(0, limit.maximum, min_open=True)


QUESTIONS = (
    click.option(
        "--latency-ms",
        type=above_0(limits.LATENCY),
        default=10.0,
        show_default=True,
        help="How long a message may wait for others.",
    ),
    click.option("--keyed", is_flag=True, help="Messages have keys."),
    click.option("--batching/--no-batching", default=None, help="Your own settings, as far as you set them: whether you batch."),
    click.option("--batch-messages-max", type=whole(limits.BATCH_MESSAGES), help="Of a batch."),
    click.option("--batch-bytes-max", type=whole(limits.BATCH_BYTES), help="Of a batch."),
    click.option("--batch-delay-ms", type=number(limits.BATCH_DELAY), help="From the first message of a batch."),
    click.option("--pending-max", type=whole(limits.PENDING), help="The queue of a partition: messages without a receipt."),
    click.option("--pending-across-partitions-max", type=whole(limits.PENDING), help="The same of all partitions."),
    click.option("--send-timeout-s", type=number(limits.SEND_TIMEOUT), help="0: no limit."),
    click.option("--memory-bytes-max", type=whole(limits.MEMORY), help="Of a client, for all its producers."),
    click.option("--gib-price", type=number(limits.PRICE), help="Of a GiB of traffic, to say what is saved in money."),
    click.option("--cpu-hour-price", type=number(limits.PRICE), help="Of an hour of a processor, for the same."),
)


def questions(command: F) -> F:
    """The options that advice by given traffic and by that of a topic have in common."""
    for option in reversed(QUESTIONS):
        command = option(command)
    return command


@click.command()
@click.option("--message-bytes", type=number(limits.MESSAGE_BYTES), required=True, help="Size of a message, before compression.")
@click.option("--rate", type=above_0(limits.RATE), required=True, help="Messages a second, of all producers together.")
@click.option("--partitions", type=whole(limits.PARTITIONS), default=1, show_default=True, help="Partitions of the topic.")
@click.option("--producers", type=whole(limits.PRODUCERS), default=1, show_default=True, help="That share the rate.")
@click.option("--messages-per-entry", type=number(limits.MESSAGES_PER_ENTRY), help="As producers batch now, where that is known.")
@questions
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tune(
    message_bytes: float,
    rate: float,
    partitions: int,
    producers: int,
    messages_per_entry: float | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Print the settings of a producer for what it sends, and what contradicts itself in those that it has."""
    from messaging.client.savings import TopicTraffic
    from messaging.client.tuning_report import TuneQuestion
    from messaging.client.tuning_report import tune as report
    from messaging.errors import InvalidValue

    given = {name: value for name, value in asked.items() if value is not None}
    own = {name: given.pop(name) for name in limits.OWN_SETTINGS if name in given}
    traffic = TopicTraffic(rate, message_bytes, messages_per_entry, partitions, producers)
    try:
        answer = report(TuneQuestion(traffic, own=own, **given)).as_json()
    except InvalidValue as error:
        raise click.UsageError(error.message) from None
    if as_json:
        show_json(answer)
    else:
        show_report(answer)


def show_report(report: Mapping[str, Any]) -> None:
    """`report`: as the API answers it. First what is wrong with one's own settings; of the advised ones one a line, with its
    reason; then what a day would save."""
    from messaging.client.tuning_report import IN_WORDS

    for contradiction in report["contradictions"]:
        click.echo(f"Warning: {contradiction}.")
    if report["contradictions"]:
        click.echo()
    width = max(len(setting["name"]) for setting in report["settings"])
    for setting in report["settings"]:
        click.echo(f"{setting['name']:<{width}}  {setting['value']!s:>10}  {setting['reason']}")
    for warning in report["warnings"]:
        click.echo(f"Note: {warning}.")
    traffic, saved = report["traffic"], report["saved_a_day"]
    click.echo(
        f"\n{traffic['messages_per_s']:,.1f} messages/s of {traffic['message_bytes']:,.0f} bytes, {traffic['producers']} "
        f"producer{'s' * (traffic['producers'] != 1)}. Messages in an entry: {report['messages_per_entry']:.1f} "
        f"{IN_WORDS[report['compared_with']]}; advised: {saved['messages_per_entry']:.1f}.\nSaved a day:"
    )
    money = saved["money"]
    show_one(
        {
            "entries": f"{saved['entries']:,.0f}",
            "traffic": f"{saved['traffic_bytes'] / (1 << 20):,.1f} MiB, before compression",
            "processor of the clients": f"{saved['client_cpu_s']:,.0f} s",
            "processor of the broker": f"{saved['broker_cpu_s']:,.0f} s",
            "money": "unknown: give --gib-price and --cpu-hour-price" if money is None else f"{money:,.2f}",
        },
        as_json=False,
    )
