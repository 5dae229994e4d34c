"""The settings of producers for what they send, as our API advises them: from traffic that is given, or from that of a topic."""

from __future__ import annotations

from typing import Annotated, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import one_of, sent_fields
from messaging.client.savings import TopicTraffic
from messaging.client.tuning_report import ComparedWith, TuneQuestion, tune
from messaging.json_types import converted
from messaging.limits import tuning as limits
from tenants import broker
from tenants.rest.base import View
from tenants.rest.namespaces import found_topic
from tenants.rest.schema import describe
from tenants.tuning import measured


class TopicTune(msgspec.Struct, kw_only=True):
    latency_ms: Annotated[float, limits.LATENCY, Meta(description="How long a message may wait for others.")] = 10.0
    keyed: Annotated[bool, Meta(description="Messages have keys, so that each partition fills its own batch.")] = False
    batching: (
        Annotated[bool, Meta(description="Own settings, as far as they are known: whether producers batch now.")] | UnsetType
    ) = UNSET
    batch_messages_max: Annotated[int, limits.BATCH_MESSAGES] | UnsetType = UNSET
    batch_bytes_max: Annotated[int, limits.BATCH_BYTES] | UnsetType = UNSET
    batch_delay_ms: Annotated[float, limits.BATCH_DELAY] | UnsetType = UNSET
    pending_max: Annotated[int, limits.PENDING, Meta(description="Of a partition, without a receipt.")] | UnsetType = UNSET
    pending_across_partitions_max: Annotated[int, limits.PENDING] | UnsetType = UNSET
    send_timeout_s: Annotated[float, limits.SEND_TIMEOUT, Meta(description="0: no limit.")] | UnsetType = UNSET
    memory_bytes_max: Annotated[int, limits.MEMORY, Meta(description="Of a client, for all its producers.")] | UnsetType = UNSET
    gib_price: Annotated[float, limits.PRICE, Meta(description="Of a GiB of traffic.")] | UnsetType = UNSET
    cpu_hour_price: (
        Annotated[float, limits.PRICE, Meta(description="Of an hour of a processor, in the same currency.")] | UnsetType
    ) = UNSET


class Tune(TopicTune, kw_only=True):
    message_bytes: Annotated[float, limits.MESSAGE_BYTES, Meta(description="Of a message on average, before compression.")]
    messages_per_s: Annotated[float, limits.RATE, Meta(description="Of all producers together.")]
    partitions: Annotated[int, limits.PARTITIONS] = 1
    producers: Annotated[int, limits.PRODUCERS] = 1
    messages_per_entry: (
        Annotated[float, limits.MESSAGES_PER_ENTRY, Meta(description="As producers batch now; missing: not known.")] | UnsetType
    ) = UNSET


class TuneTraffic(msgspec.Struct, kw_only=True):
    messages_per_s: float
    message_bytes: float
    messages_per_entry: Annotated[float | None, Meta(description="As producers batch now; null: not known.")]
    partitions: int
    producers: int


class TuneSetting(msgspec.Struct, kw_only=True):
    name: Annotated[str, Meta(description="An argument of the SDK's `producer`, or of `connect` for memory_bytes_max.")]
    value: int | float | str | bool
    reason: str


class TuneSavings(msgspec.Struct, kw_only=True):
    messages_per_entry: Annotated[float, Meta(description="With the advised settings.")]
    entries: float
    traffic_bytes: Annotated[float, Meta(description="Of frames and receipts, before compression.")]
    client_cpu_s: Annotated[float, Meta(description="Estimated by the figures of `magnetar bench producer`.")]
    broker_cpu_s: float
    money: Annotated[float | None, Meta(description="At the prices that were given; null: none was, so it is not known.")]


class TuneAnswer(msgspec.Struct, kw_only=True):
    traffic: TuneTraffic
    settings: list[TuneSetting]
    warnings: Annotated[list[str], Meta(description="What there is to know about the advised settings.")]
    contradictions: Annotated[list[str], Meta(description="Own settings that do not do what they say.")]
    compared_with: Annotated[
        str,
        one_of(get_args(ComparedWith)),
        Meta(
            description="By what the savings are counted: messages_per_entry as measured or given, the own settings, or each "
            "message sent alone where neither is known."
        ),
    ]
    messages_per_entry: Annotated[float, Meta(description="Which that makes now.")]
    saved_a_day: TuneSavings


class TrafficTune(View):
    @describe(
        "Settings for producers by what they send, with reasons, and what they would save; nothing is changed", TuneAnswer, Tune
    )
    def post(self, request: Request) -> Response:
        given = self.read(Tune)
        entry = None if given.messages_per_entry is UNSET else given.messages_per_entry
        traffic = TopicTraffic(given.messages_per_s, given.message_bytes, entry, given.partitions, given.producers)
        return Response(_answer(traffic, given))


class MeasuredTune(View):
    @describe("The same by what is published to a topic now; nothing is changed", TuneAnswer, TopicTune)
    def post(self, request: Request, **parts: str) -> Response:
        given = self.read(TopicTune)
        topic, partitions = found_topic(parts)
        return Response(_answer(measured(broker.rpc(), topic, partitions), given))


def _answer(traffic: TopicTraffic, given: TopicTune) -> TuneAnswer:
    sent = sent_fields(given)
    own = {name: sent[name] for name in limits.OWN_SETTINGS if name in sent}
    question = TuneQuestion(traffic, given.latency_ms, given.keyed, own, sent.get("gib_price"), sent.get("cpu_hour_price"))
    return converted(tune(question).as_json(), TuneAnswer)
