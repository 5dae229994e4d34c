"""`magnetar topics tune`: the settings for the producers of a topic from its measured traffic, and what they would save."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from controlplane.cli.remote.command import EXIT_REFUSED, TOPIC, Failed, Remote, RemoteCommand, Topic, remote
from controlplane.cli.remote.output import show_json, show_one

PARTITIONS_READ_MAX = 32  # of more, so many stand for all
PRICE = click.FloatRange(min=0)
LATENCY = click.FloatRange(min=0, min_open=True)


@click.command("tune", cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@click.option("--latency-ms", type=LATENCY, default=10.0, show_default=True, help="How long a message may wait.")
@click.option("--keyed", is_flag=True, help="Messages have keys.")
@click.option("--gib-price", type=PRICE, help="Of a GiB of traffic, to say what is saved in money.")
@click.option("--cpu-hour-price", type=PRICE, help="Of an hour of a processor, for the same.")
@remote
def tune(at: Remote, topic: Topic, latency_ms: float, keyed: bool, gib_price: float | None, cpu_hour_price: float | None) -> None:
    """Print settings for its producers, from its traffic now, and what they would save."""
    from controlplane.cli.tune import show_advice
    from messaging.client.savings import savings
    from messaging.client.tuning import advise

    measured = _measured(at, topic)
    traffic = measured.traffic(latency_ms, keyed=keyed)
    advice = advise(traffic)
    saved = savings(measured, traffic, advice)
    money = saved.money(gib_price, cpu_hour_price)
    if at.as_json:
        show_json({"measured": asdict(measured), "advice": asdict(advice), "saved_a_day": asdict(saved) | {"money": money}})
        return
    show_advice(advice)
    click.echo(
        f"\nMeasured: {measured.messages_per_s:,.1f} messages/s of {measured.message_bytes:,.0f} bytes from {measured.producers} "
        f"producers, {measured.messages_per_entry:.1f} messages in an entry; advised: {saved.messages_per_entry:.1f}.\nSaved a day:"
    )
    show_one(
        {
            "entries": f"{saved.entries:,.0f}",
            "traffic": f"{saved.traffic_bytes / (1 << 20):,.1f} MiB, before compression",
            "processor of the clients": f"{saved.client_cpu_s:,.0f} s",
            "processor of the broker": f"{saved.broker_cpu_s:,.0f} s",
            "money": "unknown: give --gib-price and --cpu-hour-price" if money is None else f"{money:,.2f}",
        },
        as_json=False,
    )


def _measured(at: Remote, topic: Topic) -> Any:
    """A `TopicTraffic`."""
    from messaging.client.savings import TopicTraffic

    if topic.kind == "non-persistent":
        raise Failed("a topic that is not persistent has no entries: how its producers batch is not known", EXIT_REFUSED)
    partitions = int(at.admin.topics.get(*topic.parts)["partitions"])
    names = [f"{topic.name}-partition-{number}" for number in range(min(partitions, PARTITIONS_READ_MAX))] or [topic.name]
    rate = bytes_per_s = messages = entries = 0.0
    producers = 1
    for name in names:
        stats = at.admin.topics.stats(topic.tenant, topic.namespace, name)["stats"]
        internal = at.admin.topics.internal_stats(topic.tenant, topic.namespace, name)["stats"]
        rate += stats["msgRateIn"]
        bytes_per_s += stats["msgThroughputIn"]
        messages += stats["msgInCounter"]
        entries += internal["entriesAddedCounter"]
        producers = max(producers, len(stats["publishers"]))
    if not (rate > 0 and bytes_per_s > 0):
        raise Failed(f"nothing is published to {topic} now: ask again while its producers are at work", EXIT_REFUSED)
    share = max(1, partitions) / len(names)
    return TopicTraffic(
        rate * share, bytes_per_s / rate, max(1.0, messages / entries) if entries else 1.0, max(1, partitions), producers
    )
