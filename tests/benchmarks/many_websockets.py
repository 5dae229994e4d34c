"""`make websockets`: ten thousand WebSockets at once, each with a client of the SDK: nothing lost, out of order or twice.

Each client has a WebSocket, a producer and a subscription of its own on one of many topics. When all are open, all send at the same
time; then a tenth of them, by chance, leave and come back; then all send again. Every client has to receive what all clients of its
topic sent. The clients live in processes of their own: python -m tests.benchmarks.many_websockets --websockets 10000 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, NamedTuple

from messaging import client as magnetar
from messaging import descriptors
from messaging.identity import issue_token
from messaging.settings import Settings
from tests.benchmarks.processes import cost
from tests.benchmarks.real_broker import RealBroker

CLIENTS_OF_A_TOPIC = 4
PROCESSES = 4
OPENING_AT_ONCE = 20  # of each process: with more a busy machine is too late for the ten seconds that connecting may take
PATIENCE_S = 600.0
KEEP_ALIVE_S = 120.0  # of both sides: where the processes of the clients share two cores, they are late to answer
SPARE = 64  # connections: those that leave and come back may be counted twice for a moment


class Crowd(NamedTuple):
    """`prefix` of its topics: crowds share none."""

    url: str
    prefix: str
    websockets: int
    messages: int  # of each client, in each of both rounds
    seed: int
    key: str | None = None


class Member:
    def __init__(self, crowd: Crowd, number: int) -> None:
        self.name = f"c{number}"
        self.topic = f"{crowd.prefix}-{number // CLIENTS_OF_A_TOPIC}"
        self._crowd = crowd
        self._sent = 0
        self.received: list[str] = []
        self.unreachable = 0  # times that it had to try again

    async def open(self) -> None:
        self._client = magnetar.connect(
            self._crowd.url,
            key=self._crowd.key,
            open_timeout_s=PATIENCE_S,
            request_timeout_s=PATIENCE_S,
            keep_alive_s=KEEP_ALIVE_S,
        )
        # A broker that is asked by so many at once takes its time: nobody is cut off for it.
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    self._consumer = await self._client.consumer(self.topic, self.name, initial="earliest", ack_receipts=True)
                    break
                except (magnetar.errors.Unreachable, magnetar.errors.ConnectionLost):
                    self.unreachable += 1
        self._producer = await self._client.create_producer(self.topic, send_timeout_s=0)

    async def close(self) -> None:
        await self._client.close()

    async def send(self) -> None:
        messages = [f"{self.name} {self._sent + number}".encode() for number in range(self._crowd.messages)]
        self._sent += len(messages)
        await asyncio.gather(*(self._producer.send(message) for message in messages))

    async def receive(self, count: int) -> None:
        while len(self.received) < count:
            message = await self._consumer.receive(PATIENCE_S)
            self.received.append(message.payload.decode())
            await self._consumer.ack(message)

    async def receives_no_more(self) -> None:
        try:
            self.received.append((await self._consumer.receive(0.05)).payload.decode())
        except magnetar.errors.ReceiveTimedOut:
            pass


class Result(NamedTuple):
    websockets: int
    received: int
    unreachable: int
    opening_s: float
    rounds_s: float


async def live(crowd: Crowd) -> Result:
    """Raises `AssertionError` naming a client that received something else than was sent."""
    chance = Random(crowd.seed)
    members = [Member(crowd, number) for number in range(crowd.websockets)]
    shuffled = chance.sample(members, len(members))
    began_s = time.monotonic()
    await _each(shuffled, Member.open)
    opened_s = time.monotonic()
    clients = defaultdict(list)
    for member in members:
        clients[member.topic].append(member.name)
    for round_ in (1, 2):
        await asyncio.gather(*(member.send() for member in members))
        await asyncio.gather(*(member.receive(round_ * crowd.messages * len(clients[member.topic])) for member in members))
        if round_ == 1:
            leaving = chance.sample(members, max(1, len(members) // 10))
            await _each(leaving, Member.close)
            await _each(leaving, Member.open)
    await asyncio.gather(*(member.receives_no_more() for member in members))
    ended_s = time.monotonic()
    for member in members:
        by_sender: dict[str, list[int]] = defaultdict(list)
        for text in member.received:
            sender, _, number = text.partition(" ")
            by_sender[sender].append(int(number))
        wanted = {name: list(range(2 * crowd.messages)) for name in clients[member.topic]}
        assert by_sender == wanted, f"{member.name} of {member.topic} (seed {crowd.seed}) received {dict(by_sender)}"
    await _each(members, Member.close)
    return Result(
        len(members),
        sum(len(member.received) for member in members),
        sum(member.unreachable for member in members),
        opened_s - began_s,
        ended_s - opened_s,
    )


async def _each(members: list[Member], call: Any) -> None:
    places = asyncio.Semaphore(OPENING_AT_ONCE)

    async def in_turn(member: Member) -> None:
        async with places:
            await call(member)

    await asyncio.gather(*(in_turn(member) for member in members))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make websockets", description=__doc__)
    parser.add_argument("--websockets", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=3, help="of each client in each of two rounds")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--crowd", default="", help="for the processes of the clients: a Crowd as JSON")
    options = parser.parse_args(arguments)
    settings = Settings(connections_max=options.websockets + SPARE)
    files = descriptors.of_broker(settings)
    limit = raise_limit(files)
    if (fitting := descriptors.fitting(settings, limit).connections_max) < settings.connections_max:
        print(
            f"the limit of open files is {limit}, which this process may not raise, and enough for {fitting - SPARE} WebSockets. "
            f"{files} are needed: ulimit -Hn {files} by a root with CAP_SYS_RESOURCE, LimitNOFILE, or fewer --websockets"
        )
        return 2
    if options.crowd:
        print(json.dumps(asyncio.run(live(Crowd(*json.loads(options.crowd))))))
        return 0
    print(f"{files} open files may be needed, and the limit is {limit}")
    seed = SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="websockets-") as folder:
        patience_ms = int(KEEP_ALIVE_S * 1000)
        broker = RealBroker(
            Path(folder), connections_max=settings.connections_max, keep_alive_ms=patience_ms, handshake_ms=patience_ms
        )
        try:
            return _run(broker, options.websockets, options.messages, seed)
        finally:
            broker.close()


def raise_limit(wanted: int) -> int:
    """Of open files of this process and its children: the hard limit too, where the system permits that. Returns the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (OSError, ValueError):
            pass  # not root, or a root that may not; or more than fs.nr_open
        else:
            return wanted
    return descriptors.raise_limit(wanted)


def _run(broker: RealBroker, websockets: int, messages: int, seed: int) -> int:
    before = broker.cost()
    share = websockets // PROCESSES
    # Superusers have no shares: a tenant may have half of all connections.
    broker.tell([("key", "crowd", {"role": "admin", "tenant": "", "revoked": False})])
    key = issue_token(broker.settings, "admin", "crowd", int(time.time()))
    crowds = [
        Crowd(broker.addresses["ws_url"], f"persistent://public/default/p{part}", share, messages, seed + part, key)
        for part in range(PROCESSES)
    ]
    command = [sys.executable, "-m", "tests.benchmarks.many_websockets", "--websockets", str(websockets), "--crowd"]
    clients = [subprocess.Popen([*command, json.dumps(crowd)], stdout=subprocess.PIPE) for crowd in crowds]
    highest = before.resident_bytes
    while any(client.poll() is None for client in clients):
        time.sleep(0.5)
        highest = max(highest, cost(broker.process.pid).resident_bytes)
    answers = [client.communicate()[0] for client in clients]
    if any(client.returncode for client in clients):
        print(f"FAILED: again with --websockets {websockets} --messages {messages} --seed {seed}")
        return 1
    results = [Result(*json.loads(answer)) for answer in answers]
    after = broker.cost()
    opened, received = sum(result.websockets for result in results), sum(result.received for result in results)
    opening_s, rounds_s = max(result.opening_s for result in results), max(result.rounds_s for result in results)
    tries = sum(result.unreachable for result in results)
    print(f"{opened} WebSockets open within {opening_s:.0f} s; {tries} times connecting took too long")
    print(f"{received} messages received within {rounds_s:.0f} s: none lost, out of order or twice; seed {seed}")
    print(
        f"broker: {(highest - before.resident_bytes) / websockets / 1024:.0f} KiB a WebSocket at most, "
        f"{after.cpu_s - before.cpu_s:.0f} s of CPU"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
