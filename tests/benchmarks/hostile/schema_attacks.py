"""Attacks with schemas, JSON and stats, for the table of `attacks.py`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from messaging.adminrpc.base import Answer
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import TOPICS_FIGURES, TOPICS_STATS
from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.broker.core.schemas.model import SchemaType
from messaging.errors import MagnetarError
from messaging.identity import service_token
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.settings import Settings
from tests.benchmarks.hostile.hostile_connection import Count, Target, answer, signed_in

CONNECTIONS = 8
LARGE_BYTES = (1 << 20) - 4096  # of a schema and its properties
RECORDS = 400  # in a union that is compared pair by pair: about as many pairs as are compared
SUBSCRIPTIONS = 2_000
BASE = "persistent://hostile/mob/schema"


class Unread(Answer):
    """An answer whose fields are passed over."""


Attack = Callable[[Target, Count], Awaitable[None]]


async def _ask(target: Target, count: Count, frames_of: Callable[[int], list[bytes]]) -> None:
    """One connection that sends the frames for 0, 1 ... and waits for the answers to each; it comes back when it is cut off."""
    number = 0
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, frames.ProtocolError):
            reader, writer = await signed_in(target)
            try:
                while True:
                    asked = frames_of(number)
                    number += 1
                    writer.write(b"".join(asked))
                    for _ in asked:
                        while (await answer(reader)).type == pb.Command.PING:
                            writer.write(frames.PONG)
                    count.done += len(asked)
            finally:
                writer.transport.abort()
        count.cut_off += 1
        await asyncio.sleep(0.01)


def _producer(topic: str, schema: pb.Schema, producer_id: int = 1) -> bytes:
    body = pb.Producer(topic=topic, producer_id=producer_id, request_id=1, schema=schema)
    return frames.command(pb.Command.PRODUCER, producer=body)


async def _large_schemas(target: Target, count: Count) -> None:
    def asked(number: int, topic: str) -> list[bytes]:
        if number < 4:
            pairs = [pb.KeyValue(key="p", value="x" * LARGE_BYTES)]
            field = {"name": f"f{number}", "type": "int", "default": 0}
            data = json.dumps({"type": "record", "name": "R", "fields": [field]}).encode()
            return [_producer(topic, pb.Schema(name="s", schema_data=data, type=SchemaType.AVRO, properties=pairs), number)]
        get = pb.GetSchema(request_id=2, topic=topic)
        return [frames.command(pb.Command.GET_SCHEMA, get_schema=get)] * 5

    await asyncio.gather(
        *(_ask(target, count, lambda number, at=at: asked(number, f"{BASE}-large-{at}")) for at in range(CONNECTIONS))  # type: ignore[misc]
    )


async def _lists_as_schemas(target: Target, count: Count) -> None:
    lists = b"[" + b"[]," * (LARGE_BYTES // 3) + b"[]]"
    frame = _producer(f"{BASE}-lists", pb.Schema(name="s", schema_data=lists, type=SchemaType.AVRO))
    await asyncio.gather(*(_ask(target, count, lambda number: [frame]) for _ in range(CONNECTIONS)))


async def _comparisons(target: Target, count: Count) -> None:
    def union(numbers: list[int], name: str) -> pb.Schema:
        fixed = [
            {
                "type": "record",
                "name": f"R{number}",
                "fields": [{"name": "x", "type": {"type": "fixed", "name": f"F{number}", "size": 4}}],
            }
            for number in numbers
        ]
        definition = {"type": "record", "name": name, "fields": [{"name": "u", "type": fixed}]}
        return pb.Schema(name="s", schema_data=json.dumps(definition).encode(), type=SchemaType.AVRO)

    numbers = list(range(RECORDS))

    def asked(number: int, at: int) -> list[bytes]:
        order = numbers if number == 0 else numbers[::-1]
        return [_producer(f"{BASE}-compared-{at}", union(order, f"N{number}"), number)]

    await asyncio.gather(*(_ask(target, count, lambda number, at=at: asked(number, at)) for at in range(32)))  # type: ignore[misc]


async def _stats(target: Target, count: Count) -> None:
    topic = f"{BASE}-subscribed"

    def subscribed(number: int) -> list[bytes]:
        body = pb.Subscribe(topic=topic, subscription=f"s{number}", sub_type=pb.Subscribe.Shared, durable=False)
        body.consumer_id, body.request_id = number, number
        return [frames.command(pb.Command.SUBSCRIBE, subscribe=body)]

    reader, writer = await signed_in(target)
    for number in range(SUBSCRIPTIONS):
        writer.write(subscribed(number)[0])
    for _ in range(SUBSCRIPTIONS):
        while (await answer(reader)).type not in (pb.Command.SUCCESS, pb.Command.ERROR):
            pass
    settings = Settings(data_dir=target.data_dir)
    addresses = json.loads((Path(target.data_dir) / "run" / "broker.json").read_bytes())

    async def ask() -> None:
        rpc = AdminRpc(lambda: addresses["rpc_url"], lambda: service_token(settings, "web"), timeout_s=60)
        while True:
            with contextlib.suppress(MagnetarError):
                if count.done % 2:
                    await asyncio.to_thread(rpc.perform, TOPICS_FIGURES.answering(Unread), TopicRef(topic=topic))
                else:
                    await asyncio.to_thread(rpc.perform, TOPICS_STATS.answering(Unread), StatsAsked(topic=topic))
            count.done += 1

    await asyncio.gather(*(ask() for _ in range(4)))


ATTACKS: dict[str, tuple[str, Attack]] = {
    "large-schemas": ("schemas with 1 MiB of properties, asked for again and again", _large_schemas),
    "lists-as-schemas": ("1 MiB of small lists as schemas", _lists_as_schemas),
    "comparisons": ("32 connections whose schemas take long to compare", _comparisons),
    "stats": ("stats of a topic with 2,000 subscriptions, four at once", _stats),
}
