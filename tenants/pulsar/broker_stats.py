"""Figures of brokers, as `pulsar-admin broker-stats` asks for them: of all brokers that run together, about topics that are loaded.

What Pulsar's answers have and nobody here knows is left out, not told as 0.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from django.conf import settings as django_settings
from django.http import HttpRequest

from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.bundles import BundleLoad, LoadsAsked
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_LOADS, NAMESPACES_LIVE, STATUS
from messaging.adminrpc.topics import LiveAsked, TopicLive
from messaging.errors import PreconditionFailed
from messaging.protocol.bundles import bundle_of
from messaging.version import VERSION
from tenants import broker
from tenants.actions.bundles import boundaries_of
from tenants.http.views import route

TOPICS_MAX = 5_000  # of one answer
_MIB = 1 << 20


def _loads() -> list[BundleLoad]:
    """Of the bundles of all brokers that run. Raises `NotReady`, which names one that does not answer."""
    rpc = broker.rpc()
    running = [each.broker_id for each in rpc.call(BROKERS_LIST, Request()).brokers if each.live]
    return [load for each in running for load in rpc.call(BUNDLES_LOADS, LoadsAsked(broker_id=each)).bundles]


def _resources() -> dict[str, dict[str, float]]:
    """What the processes of all brokers use of their machines: processors in percent of one, memory in MiB."""
    rpc = broker.rpc()
    running = [each.broker_id for each in rpc.call(BROKERS_LIST, Request()).brokers if each.live]
    brokers = [rpc.call(STATUS, BrokerAsked(broker_id=each)) for each in running]
    machines = {each.machine: each for each in brokers}.values()
    return {
        "cpu": {
            "usage": sum(each.cpu_percent for each in brokers),
            "limit": 100.0 * sum(each.machine_processors for each in machines),
        },
        "memory": {
            "usage": sum(each.resident_bytes for each in brokers) / _MIB,
            "limit": sum(each.machine_bytes for each in machines) / _MIB,
        },
    }


def _load_report(request: HttpRequest) -> dict[str, Any]:
    loads, addresses, resources = _loads(), broker.addresses(), _resources()
    stats = {f"{load.namespace}/{load.bundle}": _bundle_stats(load) for load in loads}
    return {
        "loadReportType": "LocalBrokerData",
        "brokerVersionString": VERSION,
        "webServiceUrl": f"{request.scheme}://{request.get_host()}",
        "pulsarServiceUrl": addresses.get("broker_url", ""),
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": django_settings.MAGNETAR.enable_non_persistent_topics,
        **resources,
        "maxResourceUsage": max(each["usage"] / each["limit"] for each in resources.values()),
        "lastUpdate": time.time_ns() // 1_000_000,
        "msgRateIn": sum(load.messages_in_per_s for load in loads),
        "msgRateOut": sum(load.messages_out_per_s for load in loads),
        "msgThroughputIn": sum(load.bytes_in_per_s for load in loads),
        "msgThroughputOut": sum(load.bytes_out_per_s for load in loads),
        "numTopics": sum(load.topics for load in loads),
        "numBundles": len(stats),
        "numConsumers": sum(load.consumers for load in loads),
        "numProducers": sum(load.producers for load in loads),
        "bundles": sorted(stats),
        "lastStats": stats,
    }


def _bundle_stats(load: BundleLoad) -> dict[str, float]:
    return {
        "msgRateIn": load.messages_in_per_s,
        "msgRateOut": load.messages_out_per_s,
        "msgThroughputIn": load.bytes_in_per_s,
        "msgThroughputOut": load.bytes_out_per_s,
        "topics": load.topics,
        "producerCount": load.producers,
        "consumerCount": load.consumers,
    }


def _topics(request: HttpRequest) -> dict[str, Any]:
    """By namespace, bundle and domain."""
    loads = [load for load in _loads() if load.topics]
    count = sum(load.topics for load in loads)
    if count > TOPICS_MAX:
        raise PreconditionFailed(
            f"{count} topics are loaded, and one answer has up to {TOPICS_MAX}: ask for the stats of single topics, or read "
            "GET /metrics"
        )
    shown: dict[str, Any] = {}
    for namespace in sorted({load.namespace for load in loads}):
        boundaries = boundaries_of(namespace)
        for row in broker.rpc().call(NAMESPACES_LIVE, LiveAsked(namespace=namespace)).whole().topics:
            if row.loaded:
                domain = row.topic.partition("://")[0]
                domains = shown.setdefault(namespace, {}).setdefault(str(bundle_of(boundaries, row.topic)), {})
                domains.setdefault(domain, {})[row.topic] = _topic_stats(row)
    return shown


def _topic_stats(row: TopicLive) -> dict[str, float]:
    known = {
        "producerCount": row.producers,
        "msgRateIn": row.rate_in,
        "msgRateOut": row.rate_out,
        "msgThroughputIn": row.throughput_in,
        "msgThroughputOut": row.throughput_out,
        "averageMsgSize": row.throughput_in / row.rate_in if row.rate_in else 0.0,
        "msgInCount": row.messages_in,
        "msgOutCount": row.messages_out,
        "storageSize": row.storage_bytes,
    }
    return {name: figure for name, figure in known.items() if figure is not None}


def _metrics(request: HttpRequest) -> list[dict[str, Any]]:
    """Of namespaces with loaded topics, by Pulsar's names."""
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for load in _loads():
        if load.topics:
            of_namespace = sums[load.namespace]
            of_namespace["brk_in_rate"] += load.messages_in_per_s
            of_namespace["brk_in_tp_rate"] += load.bytes_in_per_s
            of_namespace["brk_out_rate"] += load.messages_out_per_s
            of_namespace["brk_out_tp_rate"] += load.bytes_out_per_s
            of_namespace["brk_no_of_producers"] += load.producers
            of_namespace["brk_no_of_consumers"] += load.consumers
    return [{"dimensions": {"namespace": namespace}, "metrics": dict(sums[namespace])} for namespace in sorted(sums)]


load_report_view = route(GET=_load_report)
topics_view = route(GET=_topics)
metrics_view = route(GET=_metrics)
