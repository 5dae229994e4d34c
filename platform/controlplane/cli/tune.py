"""`magnetar tune`: the settings of a producer for what it sends, each with its reason."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click


@click.command()
@click.option("--message-bytes", type=click.IntRange(min=1), required=True, help="Size of a message, before compression.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), required=True, help="Messages a second, of the producer.")
@click.option("--partitions", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="Partitions of the topic.")
@click.option(
    "--latency-ms",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long a message may wait for others.",
)
@click.option("--keyed", is_flag=True, help="Messages have keys.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tune(message_bytes: int, rate: float, partitions: int, latency_ms: float, keyed: bool, as_json: bool) -> None:
    """Print the settings of a producer for what it sends."""
    from messaging.client.tuning import Traffic, advise

    advice = advise(Traffic(message_bytes, rate, partitions, latency_ms, keyed))
    if as_json:
        click.echo(json.dumps(asdict(advice), indent=2))
        return
    show_advice(advice)


def show_advice(advice: Any) -> None:
    """Of an `Advice` one setting a line, with its reason; then what else there is to know."""
    width = max(len(setting.name) for setting in advice.settings)
    for setting in advice.settings:
        click.echo(f"{setting.name:<{width}}  {setting.value!s:>10}  {setting.reason}")
    for warning in advice.warnings:
        click.echo(f"Note: {warning}.")
