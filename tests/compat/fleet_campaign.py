"""The fleet campaign: brokers of one machine are killed and stopped in the middle of work, and each keeps its word.

    python -m tests.compat.fleet_campaign --rounds 100 --brokers 3 --seed 7
    python -m tests.compat.fleet_campaign --database postgresql://user@host/database

With a database, which has to be empty, all brokers store there: the others go on with the topics of one that is killed or stopped,
bundles are moved, and brokers drained.

A whole platform with several brokers. Stock producers (Apache's, which send again by themselves) publish numbered messages of a few
keys to partitioned topics and plain ones, half of them in a namespace that drops duplicates; consumers of the SDK acknowledge with
receipts. In each round one of `ROUNDS` happens. Checked in the end: what had a receipt is there, each key's messages are in their
order, nothing is there twice where duplicates are dropped; and no message came again whose acknowledgement was answered.

Measured: how long after a kill each topic of that broker answered a message that was published after the kill.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pulsar

from messaging.client import EARLIEST, Client, Message, connect
from messaging.client import Consumer as Receiver
from messaging.errors import MagnetarError
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

PARTITIONS, PLAIN, KEYS, BUNDLES = 8, 4, 5, 16
ACKNOWLEDGED_AT_ONCE = 100
WAITING_MAX = 50  # messages without a receipt, of a topic
AGAIN_S = 60.0  # within that every topic takes messages again; far above what it takes, for machines that are slow
QUIET_S = 3.0
READ_AT_ONCE = 1_000
# What happens, how often, to each other.
ROUNDS = {"kill": 5, "kill all": 1, "stop": 2, "kill web": 1, "kill the first": 2}
SHARED_ROUNDS = ROUNDS | {"move": 4, "drain": 1}


class Sent(NamedTuple):
    key: str
    number: int

    @classmethod
    def read(cls, payload: bytes) -> Sent:
        key, number = payload.decode().split(":")
        return cls(key, int(number))


class Publisher:
    """To one topic, until it is closed. `receipts`: what is stored."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.topic = topic
        self.receipts = set[Sent]()
        self._since_s, self.first_s = 0.0, 0.0
        self.faults: list[str] = []
        self._producer = client.create_producer(
            topic, "campaign", send_timeout_millis=0, batching_enabled=True, batching_max_publish_delay_ms=5
        )
        self._room = threading.Semaphore(WAITING_MAX)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def watch(self, since_s: float) -> None:
        """`first_s`: the time of the first receipt for a message that was published after `since_s`; 0: there is none yet."""
        self._since_s, self.first_s = since_s, 0.0

    def _run(self) -> None:
        number = 0
        while not self._closed.is_set():
            if not self._room.acquire(timeout=0.2):
                continue
            sent = Sent(f"k{number % KEYS}", number)
            answer = self._answer(sent, time.monotonic())
            self._producer.send_async(f"{sent.key}:{sent.number}".encode(), answer, partition_key=sent.key)
            number += 1
            self._closed.wait(0.05)  # an application with something else to do

    def _answer(self, sent: Sent, published_s: float) -> Callable[[pulsar.Result, object], None]:
        def answered(result: pulsar.Result, message_id: object) -> None:
            if result == pulsar.Result.Ok:
                self.receipts.add(sent)
                if not self.first_s and published_s >= self._since_s:
                    self.first_s = time.monotonic()
            else:
                self.faults.append(f"{self.topic}: {sent} was refused: {result}")
            self._room.release()

        return answered

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()


class Consumer:
    """Of one topic, of the SDK, on a loop of its own. `acknowledged`: those whose acknowledgement was answered."""

    def __init__(self, client: Client, topic: str) -> None:
        self.topic = topic
        self.acknowledged = set[str]()
        self.faults: list[str] = []
        self._client = client
        self._room = asyncio.Semaphore(ACKNOWLEDGED_AT_ONCE)
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with (
            self._client.consumer(self.topic, "work", initial="earliest", ack_receipts=True, kind="key_shared") as consumer,
            asyncio.TaskGroup() as acknowledging,
        ):
            while True:
                message = await consumer.receive()
                if message.id.text in self.acknowledged:
                    self.faults.append(f"{self.topic}: {message.id.text} came again after its acknowledgement was answered")
                await self._room.acquire()
                acknowledging.create_task(self._acknowledge(consumer, message))

    async def _acknowledge(self, consumer: Receiver, message: Message) -> None:
        try:
            await consumer.ack(message)
            self.acknowledged.add(message.id.text)
        except MagnetarError:
            pass  # it may come again
        finally:
            self._room.release()


class Campaign:
    """`database`: where all brokers store; "": each has a log of its own."""

    def __init__(self, folder: Path, brokers: int, seed: int, database: str = "") -> None:
        self.chance = random.Random(seed)
        self.names = ["broker" if number == 1 else f"broker-{number}" for number in range(1, brokers + 1)]
        urls = {"MAGNETAR_METADATA_URL": database, "MAGNETAR_LEDGER_URL": database} if database else {}
        self.platform = Standalone(folder, "--brokers", str(brokers), MAGNETAR_LOG_LEVEL="warning", **urls)
        self.shared = bool(database)
        self.rounds = Counter[str]()
        self.again_s: list[float] = []  # of each topic of a broker that was killed
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self.moved_s: list[float] = []  # the same of each topic that moved
        self.owners: dict[str, set[str]] = {}  # the topics of each broker, by its own address

    # --- the platform

    def _start(self) -> None:
        self.platform.start()
        token = self.platform.admin_token
        for namespace, once in (("fleet", False), ("once", True)):
            path = f"/admin/v2/namespaces/public/{namespace}"
            bundles = {"bundles": {"numBundles": BUNDLES}}
            assert self.platform.http("PUT", path, bundles, token).status == 204
            kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}  # to be read back, though all was acknowledged
            assert self.platform.http("POST", f"{path}/retention", kept, token).status == 204
            if once:
                assert self.platform.http("POST", f"{path}/deduplication", True, token).status == 204
            made = self.platform.http("PUT", f"/admin/v2/persistent/public/{namespace}/parts/partitions", PARTITIONS, token)
            assert made.status == 204, made.text

    @property
    def _consuming(self) -> list[asyncio.Task[None]]:
        return [consumer.task for consumer in self.consumers]

    @property
    def topics(self) -> list[str]:
        """Partitioned ones as they are addressed."""
        plain = [f"plain-{number}" for number in range(PLAIN)]
        return [f"persistent://public/{namespace}/{name}" for namespace in ("fleet", "once") for name in ["parts", *plain]]

    @staticmethod
    def _parts(topic: str) -> list[str]:
        return [f"{topic}-partition-{index}" for index in range(PARTITIONS)] if topic.endswith("/parts") else [topic]

    def _look_up(self) -> None:
        self.owners = defaultdict(set)
        for part in (part for topic in self.topics for part in self._parts(topic)):
            path = f"/lookup/v2/topic/{part.replace('://', '/')}"
            self.owners[self.platform.http("GET", path, token=self.platform.admin_token).json()["brokerUrl"]].add(part)

    def _own_url(self, name: str) -> str:
        return str(json.loads((self.platform.folder / "run" / f"{name}.json").read_bytes())["own_url"])

    # --- what happens

    async def run(self, rounds: int, stop_s: float, *, progress: bool = False) -> None:
        """Raises `AssertionError` for the first promise that was broken."""
        await asyncio.to_thread(self._start)
        try:
            token = self.platform.admin_token
            stock = pulsar.Client(
                self.platform.ready["broker_url"],
                authentication=pulsar.AuthenticationToken(token),
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(self.platform.folder / "client.log")),
            )
            # Partitions one by one: a publisher of its own tells when each goes on.
            parts = [part for topic in self.topics for part in self._parts(topic)]
            self.publishers = [await asyncio.to_thread(Publisher, stock, part) for part in parts]
            async with connect(self.platform.ready["broker_url"], token) as client:
                self.consumers = [Consumer(client, topic) for topic in self.topics]
                await asyncio.to_thread(self._look_up)
                assert len(self.owners) == len(self.names), f"not every broker has topics: {dict(self.owners)}"
                await self._live(rounds, stop_s, progress)
                await asyncio.to_thread(self._close_publishers)
                await self._until_quiet()
                self._check()
                for task in self._consuming:
                    task.cancel()
                await asyncio.gather(*self._consuming, return_exceptions=True)
                await self._read_back(client)
            stock.close()
        finally:
            await asyncio.to_thread(self.platform.close)

    async def _live(self, rounds: int, stop_s: float, progress: bool) -> None:
        order: list[str] = []
        for number in range(rounds):
            if not order:
                kinds = SHARED_ROUNDS if self.shared else ROUNDS
                order = self.chance.sample([kind for kind, share in kinds.items() for _ in range(share)], sum(kinds.values()))
            kind = order.pop()
            self.rounds[kind] += 1
            await asyncio.wait(self._consuming, timeout=self.chance.uniform(0.2, 1.0))  # they do not end by themselves
            before, before_moved = len(self.again_s), len(self.moved_s)
            await asyncio.to_thread(self._until_all_run)
            await asyncio.to_thread(self._round, kind, stop_s)
            self._check()
            if progress:
                took = self.again_s[before:] + self.moved_s[before_moved:]
                receipts = sum(len(publisher.receipts) for publisher in self.publishers)
                print(f"{number + 1}: {kind}, {receipts} receipts, again after {max(took, default=0):.2f} s at most", flush=True)

    def _until_all_run(self) -> None:
        """Those that were killed, drained or taken for gone are started again by the supervisor."""
        files = [self.platform.folder / "run" / f"{name}.json" for name in self.names]
        eventually_sync(lambda: all(file.exists() for file in files), AGAIN_S)

    def _round(self, kind: str, stop_s: float) -> None:
        if self.shared:
            self._look_up()
        if kind == "stop":
            name = self.chance.choice(self.names)
            pid, own = self.platform.child(name)["pid"], self.owners[self._own_url(name)]
            os.kill(pid, signal.SIGSTOP)
            stopped_s = time.monotonic()
            others = [publisher for publisher in self.publishers if publisher.topic not in own]
            self._again(stopped_s, self.publishers if self.shared else others)
            threading.Event().wait(stopped_s + stop_s - time.monotonic())
            os.kill(pid, signal.SIGCONT)
            self._again(time.monotonic())
        elif kind in ("move", "drain"):
            self._move(kind)
        elif kind == "kill web":
            self.platform.kill_child("web")
            self._again(time.monotonic())
        else:
            chosen = {"kill all": self.names, "kill the first": self.names[:1]}
            killed = chosen.get(kind, [self.chance.choice(self.names)])
            topics = {topic for name in killed for topic in self.owners[self._own_url(name)]}
            pids = [self.platform.child(name)["pid"] for name in killed]
            killed_s = time.monotonic()
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            self._again(killed_s)
            self.again_s += [publisher.first_s - killed_s for publisher in self.publishers if publisher.topic in topics]

    def _move(self, kind: str) -> None:
        """A bundle of some topic, or all of a broker, which starts again then."""
        token = self.platform.admin_token
        if kind == "drain":
            name = self.chance.choice(self.names)
            moved = self.owners[self._own_url(name)]
            begun_s = time.monotonic()
            os.kill(self.platform.child(name)["pid"], signal.SIGTERM)
        else:
            topic = self.chance.choice(sorted(publisher.topic for publisher in self.publishers))
            bundle = self.platform.http("GET", f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle", token=token).text.strip('"')
            moved = {topic}
            begun_s = time.monotonic()
            namespace = topic.split("://")[1].rsplit("/", 1)[0]
            answer = self.platform.http("PUT", f"/admin/v2/namespaces/{namespace}/{bundle}/unload", token=token)
            assert answer.status == 204, answer.text
        self._again(begun_s)
        self.moved_s += [publisher.first_s - begun_s for publisher in self.publishers if publisher.topic in moved]

    def _again(self, since_s: float, publishers: Sequence[Publisher] | None = None) -> None:
        """Each of these, by default all, had a receipt for a message that it published since."""
        waiting = set(self.publishers if publishers is None else publishers)
        for publisher in waiting:
            publisher.watch(since_s)
        try:
            eventually_sync(lambda: waiting.difference_update([each for each in waiting if each.first_s]) or not waiting, AGAIN_S)
        except AssertionError:
            raise AssertionError(f"no receipt since: {sorted(publisher.topic for publisher in waiting)}") from None

    def _close_publishers(self) -> None:
        for publisher in self.publishers:
            publisher.close()

    async def _until_quiet(self) -> None:
        """Consumers had everything."""
        before = -1
        while before != (now := sum(len(consumer.acknowledged) for consumer in self.consumers)):
            before = now
            await asyncio.wait(self._consuming, timeout=QUIET_S)

    # --- what must hold

    def _check(self) -> None:
        faults = [fault for publisher in self.publishers for fault in publisher.faults]
        faults += [fault for consumer in self.consumers for fault in consumer.faults]
        assert not faults, faults[:5]
        ended = [task.exception() for task in self._consuming if task.done()]
        assert not ended, ended

    async def _read_back(self, client: Client) -> None:
        for publisher in self.publishers:
            stored = [Sent.read(message.payload) async for message in messages(client, publisher.topic)]
            lost = publisher.receipts - set(stored)
            assert not lost, f"{publisher.topic}: {len(lost)} with a receipt are gone, first {min(lost)}"
            firsts: dict[Sent, None] = dict.fromkeys(stored)
            for key in {sent.key for sent in firsts}:
                numbers = [sent.number for sent in firsts if sent.key == key]
                assert numbers == sorted(numbers), f"{publisher.topic}: {key} is out of order"
            if "/once/" in publisher.topic:
                twice = [sent for sent, count in Counter(stored).items() if count > 1]
                assert not twice, f"{publisher.topic}: {len(twice)} are there twice, first {twice[0]}"
        for consumer, topic in zip(self.consumers, self.topics, strict=True):
            receipts = sum(len(publisher.receipts) for publisher in self.publishers if publisher.topic in self._parts(topic))
            assert len(consumer.acknowledged) >= receipts, f"{topic}: {receipts} with a receipt, {len(consumer.acknowledged)} came"


async def messages(client: Client, topic: str) -> AsyncIterator[Message]:
    """All that are there, while nobody publishes."""
    async with client.reader(topic, EARLIEST) as reader:
        while await reader.has_message():
            for _ in range(READ_AT_ONCE):  # asking costs a round trip
                try:
                    yield await reader.read(timeout_s=0.3)
                except TimeoutError:
                    break


def share(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill and stop brokers under stock clients, and see that they keep their word.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--stop-s", type=float, default=60.0, help="how long a stopped broker is stopped")
    parser.add_argument("--database", default="", help="URL of an empty PostgreSQL database, where all brokers are to store")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    print(f"{chosen.rounds} rounds with {chosen.brokers} brokers, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder, "data"), chosen.brokers, chosen.seed, chosen.database)
        asyncio.run(campaign.run(chosen.rounds, chosen.stop_s, progress=True))
    receipts = sum(len(publisher.receipts) for publisher in campaign.publishers)
    acknowledged = sum(len(consumer.acknowledged) for consumer in campaign.consumers)
    rounds = ", ".join(f"{count} {kind}" for kind, count in sorted(campaign.rounds.items()))
    print(f"kept: {receipts} receipts and {acknowledged} answered acknowledgements (seed {chosen.seed}; {rounds})")
    if campaign.again_s:
        median, p99 = statistics.median(campaign.again_s), share(campaign.again_s, 0.99)
        print(f"first receipt after a kill: median {median:.2f} s, p99 {p99:.2f} s, of {len(campaign.again_s)} topics")
    if campaign.moved_s:
        median, p99 = statistics.median(campaign.moved_s), share(campaign.moved_s, 0.99)
        print(f"first receipt after a move: median {median:.2f} s, p99 {p99:.2f} s, of {len(campaign.moved_s)} topics")
    return 0


if __name__ == "__main__":
    sys.exit(main())
