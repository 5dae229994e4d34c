"""What a hostile peer does to a broker, each for so many seconds: the other process of the benchmark `neighbours`.

    python -m tests.benchmarks.hostile.attacks NAME HOST PORT SECONDS [--ws-port PORT] [--token TOKEN]

Prints `BEGUN` when it has done it once, from when on the seconds count: some attacks take long to prepare. When it ends it prints
one JSON object: how often it got through what it does, and how often it was cut off. It comes back when it is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks.hostile import at_ceilings, crowds, schema_attacks
from tests.benchmarks.hostile.hostile_connection import TOPIC, Count, Target, answer, connect_frame, consumer, opened, signed_in

BEGUN = "begun"
PREPARED_S = 90.0  # at the latest
LOOK_S = 0.05
STORM_BYTES = 256 << 10  # written at once
CONNECTIONS = 8


Attack = Callable[[Target, Count], Awaitable[None]]
ATTACKS: dict[str, tuple[str, Attack]] = {}


def attack(words: str) -> Callable[[Attack], Attack]:
    def add(function: Attack) -> Attack:
        ATTACKS[function.__name__.strip("_").replace("_", "-")] = words, function
        return function

    return add


# --- what they are made of ----------------------------------------------------------------------------------------------------


async def _storm(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes, count: Count) -> None:
    """The same frame as fast as the broker takes it, its answers read and thrown away."""
    many = frame * max(1, STORM_BYTES // len(frame))

    async def read() -> None:
        while await reader.read(1 << 20):
            pass

    reading = asyncio.ensure_future(read())
    try:
        while not reading.done():
            writer.write(many)
            await writer.drain()
            count.done += len(many) // len(frame)
    finally:
        reading.cancel()
        writer.transport.abort()


async def _again(act: Callable[[], Awaitable[None]], count: Count) -> None:
    """Until the time is over; a peer that is cut off comes back at once."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, frames.ProtocolError):
            await act()
        count.cut_off += 1
        await asyncio.sleep(0.01)


async def _everywhere(act: Callable[[], Awaitable[None]], count: Count, connections: int = CONNECTIONS) -> None:
    await asyncio.gather(*(_again(act, count) for _ in range(connections)))


# --- the attacks --------------------------------------------------------------------------------------------------------------


@attack("PINGs as fast as they go, before sign-in")
async def _anonymous_pings(target: Target, count: Count) -> None:
    async def act() -> None:
        await _storm(*await opened(target), frames.PING, count)

    await _everywhere(act, count)


@attack("PINGs as fast as they go")
async def _pings(target: Target, count: Count) -> None:
    async def act() -> None:
        await _storm(*await signed_in(target), frames.PING, count)

    await _everywhere(act, count)


@attack("FLOWs of one permit as fast as they go")
async def _flows(target: Target, count: Count) -> None:
    flow = frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1))

    async def act() -> None:
        await _storm(*await consumer(target), flow, count)

    await _everywhere(act, count)


@attack("acknowledgements of what does not exist")
async def _acks(target: Target, count: Count) -> None:
    ids = [pb.MessageId(ledger_id=1, entry_id=entry) for entry in range(500)]
    ack = frames.command(pb.Command.ACK, ack=pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=ids, request_id=7))

    async def act() -> None:
        await _storm(*await consumer(target), ack, count)

    await _everywhere(act, count)


@attack("unacknowledged messages asked for again and again")
async def _redeliveries(target: Target, count: Count) -> None:
    body = pb.RedeliverUnacknowledgedMessages(consumer_id=1)
    again = frames.command(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=body)

    async def act() -> None:
        await _storm(*await consumer(target), again, count)

    await _everywhere(act, count)


@attack("messages of 10 bytes as fast as they go, from another tenant")
async def _messages(target: Target, count: Count) -> None:
    frame = frames.build_send(1, 0, pb.Metadata(producer_name="p", sequence_id=0, publish_time=1), b"0123456789")

    async def act() -> None:
        reader, writer = await signed_in(target)
        writer.write(frames.command(pb.Command.PRODUCER, producer=pb.Producer(topic=TOPIC, producer_id=1, request_id=1)))
        await answer(reader)
        await _storm(reader, writer, frame, count)

    await _everywhere(act, count, 4)


@attack("look-ups, thousands in flight")
async def _look_ups(target: Target, count: Count) -> None:
    frame = frames.command(pb.Command.LOOKUP, lookup=pb.Lookup(topic=TOPIC, request_id=1))

    async def act() -> None:
        await _storm(*await signed_in(target), frame, count)

    await _everywhere(act, count)


@attack("listings of topics whose answers are never read")
async def _listings(target: Target, count: Count) -> None:
    body = pb.GetTopicsOfNamespace(request_id=1, namespace="hostile/mob")
    frame = frames.command(pb.Command.GET_TOPICS_OF_NAMESPACE, get_topics_of_namespace=body)

    async def act() -> None:
        _, writer = await signed_in(target)
        try:
            while True:
                writer.write(frame * 100)
                async with asyncio.timeout(1):  # `wait_for` may take a cancellation for the end of what it waits for
                    await writer.drain()
                count.done += 100
        except TimeoutError:
            await asyncio.sleep(3600)  # it reads nothing, and the broker nothing of it
        finally:
            writer.transport.abort()

    await _everywhere(act, count)


@attack("CONNECTs with 60 KB of client version")
async def _long_versions(target: Target, count: Count) -> None:
    version = "eyJ" + "a://b:" * 10_000

    async def act() -> None:
        reader, writer = await opened(target)
        writer.write(connect_frame("nonsense", version))
        await reader.read(1 << 16)
        count.done += 1
        writer.transport.abort()

    await _everywhere(act, count)


@attack("silent connections, as many as there may be")
async def _silence(target: Target, count: Count) -> None:
    async def act() -> None:
        reader, _ = await opened(target)
        count.done += 1
        await reader.read(1)

    await _everywhere(act, count, 600)


@attack("frames of 5 MB that trickle")
async def _trickles(target: Target, count: Count) -> None:
    async def act() -> None:
        _, writer = await signed_in(target)
        try:
            writer.write((5_000_000).to_bytes(4, "big"))
            while True:
                writer.write(b"\0")
                await writer.drain()
                count.done += 1
                await asyncio.sleep(0.2)
        finally:
            writer.transport.abort()

    await _everywhere(act, count, 200)


@attack("half-sent HTTP requests")
async def _half_requests(target: Target, count: Count) -> None:
    async def act() -> None:
        reader, writer = await asyncio.open_connection(target.host, target.ws_port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-")
        count.done += 1
        await reader.read(1)
        writer.transport.abort()

    await _everywhere(act, count, 400)


@attack("garbage")
async def _garbage(target: Target, count: Count) -> None:
    async def act() -> None:
        reader, writer = await opened(target)
        writer.write(os.urandom(4096))
        count.done += 1
        await reader.read(1 << 16)
        writer.transport.abort()

    await _everywhere(act, count)


def _crowd(words: str, act: Callable[[Target, Count], Awaitable[None]]) -> None:
    async def alone(target: Target, count: Count) -> None:
        await _everywhere(lambda: act(target, count), count, 1)

    ATTACKS[act.__name__.replace("_", "-")] = words, alone


_crowd("60 Key_Shared consumers with 1,024 sticky ranges each, the last one comes and goes", crowds.sticky_ranges)
_crowd("3,000 Key_Shared consumers on a connection that closes", crowds.consumers_of_a_connection)
_crowd("20 subscriptions that reject all that they hold, 50,000 each", crowds.rejecting_all)
_crowd("3,000 first chunks at a time to 100 subscriptions", crowds.first_chunks)
_crowd("1,500 topics with 20 delayed messages each, due together", crowds.due_together)
_crowd("2,000 topics whose policies change twice a second", crowds.many_topics)
_crowd("subscriptions made and deleted as fast as they go", crowds.subscribing)
_crowd("a tenant past all its ceilings at once", at_ceilings.exceed_all)
ATTACKS |= schema_attacks.ATTACKS


async def _run(name: str, target: Target, seconds: float) -> Count:
    count = Count()
    attacking = asyncio.ensure_future(ATTACKS[name][1](target, count))
    prepared_s = asyncio.get_running_loop().time() + PREPARED_S
    while not count.done and not attacking.done() and asyncio.get_running_loop().time() < prepared_s:
        await asyncio.wait({attacking}, timeout=LOOK_S)
    print(BEGUN, flush=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(attacking, seconds)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description="Be a hostile peer of a broker on this machine, for some seconds.")
    parser.add_argument("name", choices=sorted(ATTACKS))
    parser.add_argument("host", choices=["127.0.0.1", "::1"])
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--ws-port", type=int, default=0)
    parser.add_argument("--token", default="")
    parser.add_argument("--data-dir", default="")
    chosen = parser.parse_args()
    os.nice(10)  # the broker and the innocent go first on a small machine
    target = Target(chosen.host, chosen.port, chosen.ws_port, chosen.token, chosen.data_dir)
    count = asyncio.run(_run(chosen.name, target, chosen.seconds))
    json.dump({"done": count.done, "cut_off": count.cut_off}, sys.stdout)


if __name__ == "__main__":
    main()
