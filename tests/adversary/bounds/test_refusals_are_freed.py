"""What was refused leaves memory with its answer: the garbage collector, which the broker has look seldom, is not needed for it.

An error knows the frames that it passed, with their locals: a command of 5 MiB and what was made of it. Where one of them knows the
error, nothing of it is freed until somebody looks for cycles. 1 MiB schemas that were refused filled a gigabyte in seconds.
"""

from __future__ import annotations

import asyncio
import gc
import types
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from messaging.broker.core.schemas.model import SchemaType
from messaging.fairness.in_thread import in_thread
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import Kind, RawClient
from tests.support.worlds.broker_world import BrokerWorld

TOPIC, OTHERS, MISSING = "persistent://acme/orders/paid", "persistent://other/things/mine", "persistent://acme/strict/none"
LISTS = b"[" + b"[]," * 300_000 + b"[]]"


CONTROL = "keeps_itself"


class Refused(NamedTuple):
    what: str
    kind: Kind
    fields: dict[str, Any]


def _schema(data: bytes, kind: int = SchemaType.AVRO, **fields: Any) -> pb.Schema:
    return pb.Schema(name="s", schema_data=data, type=kind, **fields)


LONG = "x" * 100_000
COMMANDS = [
    Refused("a schema of small lists", pb.Command.PRODUCER, {"topic": TOPIC, "producer_id": 1, "schema": _schema(LISTS)}),
    Refused("a schema that is no JSON", pb.Command.PRODUCER, {"topic": TOPIC, "producer_id": 1, "schema": _schema(b"{" * 100_000)}),
    Refused(
        "a descriptor that is none",
        pb.Command.PRODUCER,
        {"topic": TOPIC, "producer_id": 1, "schema": _schema(b"[1]" * 9_999, SchemaType.PROTOBUF_NATIVE)},
    ),
    Refused("a consumer's schema", pb.Command.SUBSCRIBE, {"topic": TOPIC, "subscription": "s", "schema": _schema(LISTS)}),
    Refused("a schema to register", pb.Command.GET_OR_CREATE_SCHEMA, {"topic": TOPIC, "schema": _schema(LISTS)}),
    Refused("a schema that is not there", pb.Command.GET_SCHEMA, {"topic": TOPIC}),
    Refused("a topic of others to publish to", pb.Command.PRODUCER, {"topic": OTHERS, "producer_id": 1}),
    Refused("a topic of others to read", pb.Command.SUBSCRIBE, {"topic": OTHERS, "subscription": "s"}),
    Refused("a topic that is not there", pb.Command.PRODUCER, {"topic": MISSING, "producer_id": 1}),
    Refused("a name that is none", pb.Command.PRODUCER, {"topic": f"persistent://{LONG}", "producer_id": 1}),
    Refused("a subscription's name that is too long", pb.Command.SUBSCRIBE, {"topic": TOPIC, "subscription": LONG}),
    Refused("a look-up of others", pb.Command.LOOKUP, {"topic": OTHERS}),
    Refused("partitions of others", pb.Command.PARTITIONED_METADATA, {"topic": OTHERS}),
    Refused("names of others", pb.Command.GET_TOPICS_OF_NAMESPACE, {"namespace": "other/things"}),
    Refused("a seek of nobody", pb.Command.SEEK, {"consumer_id": 77, "message_publish_time": 1}),
    Refused("the last id of nobody", pb.Command.GET_LAST_MESSAGE_ID, {"consumer_id": 77}),
    Refused("the stats of nobody", pb.Command.CONSUMER_STATS, {"consumer_id": 77}),
    Refused("unsubscribing nobody", pb.Command.UNSUBSCRIBE, {"consumer_id": 77}),
]
FILLED_IN = {pb.Command.SUBSCRIBE: {"consumer_id": 1, "sub_type": pb.Subscribe.Shared}}


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def tracebacks_left() -> list[str]:
    """The functions of errors that are held by nobody but themselves."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    frames = [entry.tb_frame for entry in gc.garbage if isinstance(entry, types.TracebackType)]
    gc.garbage.clear()
    names = [(str(frame.f_globals["__name__"]), frame.f_code.co_name) for frame in frames]
    return [f"{module}.{function}" for module, function in names if module.startswith("messaging.") or function == CONTROL]


async def _refused(client: RawClient, refused: Refused) -> None:
    client.say(refused.kind, **FILLED_IN.get(refused.kind, {}), **refused.fields)
    answer = await client.next()
    assert answer.name == "ERROR" or any(field.name in ("error", "error_code") for field, _ in answer.body.ListFields())


@pytest.mark.parametrize("refused", COMMANDS, ids=[command.what for command in COMMANDS])
@pytest.mark.usefixtures("no_collector")
async def test_a_refused_command_leaves_no_error_behind(world: BrokerWorld, refused: Refused) -> None:
    client = await world.connected("writer" if refused.kind != pb.Command.SUBSCRIBE else "reader")
    await _refused(client, refused)
    tracebacks_left()  # of what is done once
    for _ in range(3):
        await _refused(client, refused)
    await client.quiet()
    assert tracebacks_left() == []


@pytest.mark.usefixtures("no_collector")
async def test_the_control_without_which_the_others_show_nothing() -> None:
    def keeps_itself() -> None:
        try:
            raise ValueError
        except ValueError as error:
            kept = error  # noqa: F841

    keeps_itself()
    assert tracebacks_left() == [f"{__name__}.{CONTROL}"]


@pytest.mark.usefixtures("no_collector")
async def test_an_error_of_a_thread_leaves_nothing_behind() -> None:
    def fails(data: bytes) -> None:
        raise ValueError(len(data))

    for _ in range(3):
        with pytest.raises(ValueError, match="5"):
            await in_thread(fails, b"large")
    waiting = asyncio.ensure_future(in_thread(fails, b"large"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    del waiting
    assert tracebacks_left() == []


@pytest.mark.usefixtures("no_collector")
async def test_an_object_that_refers_to_itself_is_freed_by_the_next_sweep_of_memory(world: BrokerWorld) -> None:
    class Large:
        itself: object = None

    large = Large()
    large.itself = large
    reference = weakref.ref(large)
    del large
    world.service.sweep_memory()
    assert reference() is None
