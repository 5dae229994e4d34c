"""The stats of topics in lists: rates, totals and who is connected."""

from __future__ import annotations

from msgspec import structs

from messaging.adminrpc.topics import TopicLive
from messaging.broker.runtime.metering.totals import max_backlog
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET


def live(topic: Topic, problem: str = "") -> TopicLive:
    rates = topic.rates or QUIET
    return TopicLive(
        topic=topic.text,
        loaded=True,
        rate_in=rates.messages_in.a_second,
        rate_out=rates.messages_out.a_second,
        throughput_in=rates.bytes_in.a_second,
        throughput_out=rates.bytes_out.a_second,
        messages_in=topic.publisher.messages_in,
        messages_out=topic.totals.messages_out,
        storage_bytes=topic.ledger.stored_bytes,
        backlog_entries=max_backlog(topic),
        producers=len(topic.producers),
        subscriptions=len(topic.subscriptions.table),
        consumers=sum(len(subscription.consumers) for subscription in topic.subscriptions.table.values()),
        problem=problem,
    )


def not_loaded(text: str, problem: str = "") -> TopicLive:
    """A topic that nobody uses: nothing flows and nobody is connected; what it holds was not looked at."""
    return TopicLive(
        topic=text,
        loaded=False,
        rate_in=0.0,
        rate_out=0.0,
        throughput_in=0.0,
        throughput_out=0.0,
        messages_in=None,
        messages_out=None,
        storage_bytes=None,
        backlog_entries=None,
        producers=0,
        subscriptions=None,
        consumers=0,
        problem=problem,
    )


def nothing(text: str) -> TopicLive:
    """A non-persistent topic that nobody uses: it holds nothing."""
    zeros = dict.fromkeys(("messages_in", "messages_out", "storage_bytes", "backlog_entries", "subscriptions"), 0)
    return structs.replace(not_loaded(text), **zeros)
