"""The life of one campaign: clients are started, rounds of faults pass, and in the end all that they were told must be true."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pulsar

from messaging.client import Client, MessageId, connect
from tests.compat.fleet.faults import LASTS_S, Fault, faults_for
from tests.compat.fleet.platforms import AGAIN_S, Platform
from tests.compat.fleet.programs import Program
from tests.compat.fleet.websocket_clients import WebsocketConsumer, WebsocketPublisher
from tests.compat.python_clients import Consumer, Publisher, messages
from tests.compat.receipts import Deliveries, Receipts, Sent
from tests.support.brokers.standalone import Answer
from tests.support.waiting import eventually_sync

PARTITIONS, PLAIN, BUNDLES = 8, 4, 16
SLOW_S = 5.0  # from that on it is said which topic went on last
QUIET_S = 10.0  # Go's client acknowledges one message at a time, and each waits for a commit
BACKLOG_S = 20
TOO_EARLY = 503
FLEET, ONCE = "persistent://public/fleet", "persistent://public/once"  # the second one drops duplicates
PASSING = "non-persistent://public/fleet/passing"
TYPES = ("Key_Shared", "Failover", "Exclusive")


class Campaign:
    """`programs`: clients of other languages, each a publisher and consumers of every kind of subscription. `stop_s`: how long a
    broker that is stopped stands still. `faults`: what may happen; by default all that the platform allows. `lasts_s`: how long
    what others can do without is away. `pause_s`: of each publisher, after a message."""

    def __init__(
        self,
        platform: Platform,
        folder: Path,
        seed: int,
        *,
        stop_s: float = 60.0,
        programs: Sequence[str] = (),
        faults: dict[Fault, int] | None = None,
        lasts_s: Sequence[float] = LASTS_S,
        pause_s: float = 0.1,
        progress: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.platform, self.folder, self.stop_s = platform, folder, stop_s
        self.chance = random.Random(seed)
        self.rounds = Counter[str]()
        self.again_s: dict[str, list[float]] = defaultdict(list)  # of each topic that something happened to, by what
        self.publishers: list[Receipts] = []
        self.subscriptions: list[Deliveries] = []
        self.programs: list[Program] = []
        self._languages, self._faults, self._lasts_s, self._pause_s, self._progress = programs, faults, lasts_s, pause_s, progress
        self._tasks: list[asyncio.Task[None]] = []
        self._owners: dict[str, set[str]] = {}

    # --- what faults ask

    def a_broker(self) -> str:
        """One with topics, which something can happen to: one that has just started may have none yet."""
        serving = [name for name in self.platform.names if self.topics_of(name)]
        return self.chance.choice(serving or self.platform.names)

    def two_brokers(self) -> list[str]:
        """The first one with topics."""
        one = self.a_broker()
        return [one, self.chance.choice([name for name in self.platform.names if name != one])]

    def a_topic(self) -> str:
        return self.chance.choice(sorted(publisher.topic for publisher in self.publishers if publisher.persistent))

    def lasts_s(self) -> float:
        return self.chance.choice(self._lasts_s)

    def topics_of(self, name: str) -> set[str]:
        return self._owners.get(self.platform.own_url(name), set())

    def a_plain_topic_of(self, name: str) -> str | None:
        """Of those that may have duplicates."""
        chosen = sorted(topic for topic in self.topics_of(name) if topic.startswith(f"{FLEET}/plain"))
        return self.chance.choice(chosen) if chosen else None

    def unload(self, topic: str) -> None:
        self._call("PUT", f"/admin/v2/namespaces/{_namespace(topic)}/{self._bundle(topic)}/unload")

    def split(self, topic: str) -> None:
        self._call("PUT", f"/admin/v2/namespaces/{_namespace(topic)}/{self._bundle(topic)}/split")

    def _bundle(self, topic: str) -> str:
        answer = self.platform.http("GET", f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle")
        assert answer.status == 200, answer.text
        return answer.text.strip('"')

    def _call(self, method: str, path: str, body: object = None) -> None:
        """Again while it is refused as too early: on a machine that is busy a broker may not answer another one in time."""

        def asked() -> Answer | None:
            answer = self.platform.http(method, path, body)
            return None if answer.status == TOO_EARLY else answer

        answer = eventually_sync(asked, AGAIN_S)
        assert answer is not None and answer.status == 204, f"{method} {path}: {answer}"

    @staticmethod
    def wait(seconds: float) -> None:
        threading.Event().wait(max(0.0, seconds))

    def again(
        self, since_s: float, others_than: Collection[str] = (), *, after: str = "", topics: Collection[str] | None = None
    ) -> None:
        """Each topic, but for some, had a receipt for a message that was published since. `after`: what is measured, of these
        `topics`; by default all that went on."""
        waiting = {publisher for publisher in self.publishers if publisher.topic not in others_than}
        for publisher in waiting:
            publisher.watch(since_s)

        def look() -> bool:
            waiting.difference_update([each for each in waiting if each.first_s])
            return not waiting

        try:
            eventually_sync(look, AGAIN_S)
        except AssertionError:
            self.check()
            told = ", ".join(f"{each.topic} ({self._told_to_others(each.topic)})" for each in waiting)
            raise AssertionError(f"no receipt since: {told}") from None
        if after:
            measured = [
                each for each in self.publishers if each.topic not in others_than and (topics is None or each.topic in topics)
            ]
            self.again_s[after] += [each.first_s - since_s for each in measured]
            last = max(measured, key=lambda each: each.first_s, default=None)
            if last is not None and last.first_s - since_s > SLOW_S:
                took_s = sorted(each.first_s - since_s for each in measured)
                self._progress(
                    f"{after}: {last.topic} after {took_s[-1]:.1f} s, half of {len(took_s)} after {took_s[len(took_s) // 2]:.1f} s"
                )

    def _told_to_others(self, topic: str) -> str:
        """Whether it is the topic, or its publisher."""
        options = {"operation_timeout_seconds": 10, "logger": pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)}
        client = pulsar.Client(self.platform.broker_url, pulsar.AuthenticationToken(self.platform.admin_token), **options)
        try:
            client.create_producer(topic, send_timeout_millis=10_000).send(b"another:0")
            return "a new client can publish there"
        except pulsar.PulsarException as error:
            return f"a new client cannot publish there: {error}"
        finally:
            client.close()

    # --- its life

    async def run(self, rounds: int) -> None:
        """Raises `AssertionError` for the first promise that was broken."""
        try:
            await asyncio.to_thread(self._start)
            async with connect(self.platform.broker_url, self.platform.admin_token) as client:
                try:
                    await self._live(client, rounds)
                finally:
                    for task in self._tasks:
                        task.cancel()
                    await asyncio.gather(*self._tasks, return_exceptions=True)
                await self._read_back(client)
            self._stock.close()
        finally:
            for program in self.programs:
                program.end()
            await asyncio.to_thread(self.platform.close)

    async def _live(self, client: Client, rounds: int) -> None:
        await asyncio.to_thread(self._start_publishers)
        self._start_others(client)
        await asyncio.to_thread(self._start_programs)
        await asyncio.to_thread(self.again, time.monotonic())
        await asyncio.to_thread(self._look_up)
        assert len(self._owners) == len(self.platform.names), f"not every broker has topics: {dict(self._owners)}"
        await self._pass_rounds(rounds)
        self._progress("no more faults")
        await asyncio.gather(*(asyncio.to_thread(publisher.close) for publisher in self.publishers))
        await asyncio.gather(*(asyncio.to_thread(program.close) for program in self.programs))
        await self._until_quiet()
        self.check()
        await asyncio.to_thread(self._check_backlogs)

    def _start(self) -> None:
        self.platform.start()
        for prefix in (FLEET, ONCE):
            path = f"/admin/v2/namespaces/{_namespace(f'{prefix}/')}"
            self._call("PUT", path, {"bundles": {"numBundles": BUNDLES}})
            kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}  # to be read back, though all was acknowledged
            self._call("POST", f"{path}/retention", kept)
            if prefix == ONCE:
                self._call("POST", f"{path}/deduplication", True)
            self._call("PUT", f"/admin/v2/{prefix.replace('://', '/')}/parts/partitions", PARTITIONS)

    @property
    def topics(self) -> list[str]:
        """Those of Python; partitioned ones as they are addressed."""
        return [f"{prefix}/{name}" for prefix in (FLEET, ONCE) for name in ["parts", *(f"plain-{n}" for n in range(PLAIN))]]

    def _start_publishers(self) -> None:
        self._stock = pulsar.Client(
            self.platform.broker_url,
            authentication=pulsar.AuthenticationToken(self.platform.admin_token),
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, str(self.folder / "client.log")),
        )
        # Partitions one by one: a publisher of its own tells when each goes on.
        parts = [part for topic in self.topics for part in _parts(topic)]
        self.publishers = [Publisher(self._stock, topic, self._pause_s) for topic in [*parts, PASSING]]

    def _start_others(self, client: Client) -> None:
        consumers = [Consumer(client, topic) for topic in [*self.topics, PASSING]]
        url, token, topic = self.platform.websocket_url, self.platform.admin_token, f"{FLEET}/websocket"
        publisher, consumer = WebsocketPublisher(url, token, topic, self._pause_s), WebsocketConsumer(url, token, topic)
        self.publishers.append(publisher)
        self.subscriptions += [*consumers, consumer]
        self._tasks = [consumer.task, *(each.task for each in consumers)]

    def _start_programs(self) -> None:
        url, token = self.platform.broker_url, self.platform.admin_token
        self.programs = [Program(language, url, token, self.folder / f"{language}.log") for language in self._languages]
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._publish, self.programs))
            list(pool.map(self._consume, self.programs))
        for program in self.programs:
            self.publishers += program.publishers.values()
            self.subscriptions += program.subscriptions.values()

    def _publish(self, program: Program) -> None:
        pause_ms = round(self._pause_s * 1000)
        for prefix in (FLEET, ONCE):
            program.publish(f"{prefix}/{program.language}-batched", batched=True, pause_ms=pause_ms)
            program.publish(f"{prefix}/{program.language}-single", batched=False, pause_ms=pause_ms)

    def _consume(self, program: Program) -> None:
        """Its own messages, and those of the others."""
        for prefix, language, kind in product((FLEET, ONCE), self._languages, TYPES):
            subscription = f"{program.language}-{kind.lower().replace('_', '-')}"
            count = 1 if kind == "Exclusive" else 2
            program.consume(f"{prefix}/{language}-single", subscription, kind, count)
            if kind != "Key_Shared":  # which wants batches of one key, that with deduplication lose messages in Pulsar as well
                program.consume(f"{prefix}/{language}-batched", subscription, kind, count)

    async def _pass_rounds(self, rounds: int) -> None:
        faults = self._faults or faults_for(self.platform)
        order: list[Fault] = []
        for number in range(1, rounds + 1):
            if not order:
                order = self.chance.sample([fault for fault, count in faults.items() for _ in range(count)], sum(faults.values()))
            fault = order.pop()
            name = fault.__name__.replace("_", " ")
            self.rounds[name] += 1
            await asyncio.wait(self._tasks, timeout=self.chance.uniform(0.2, 1.0))  # they do not end by themselves
            await asyncio.to_thread(self.platform.until_all_run)
            await asyncio.to_thread(self._look_up)
            begun_s = time.monotonic()
            try:
                await asyncio.to_thread(fault, self)
                self.check()
            except AssertionError as error:
                raise AssertionError(f"round {number}, {name}: {error}") from None
            last = max(self.publishers, key=lambda publisher: publisher.first_s)
            took = f"{number}: {name}, {time.monotonic() - begun_s:.1f} s, {self.receipts} receipts"
            self._progress(f"{took}; the last one to go on was {last.topic}")

    @property
    def receipts(self) -> int:
        return sum(len(publisher.receipts) for publisher in self.publishers)

    @property
    def acknowledged(self) -> int:
        return sum(len(subscription.acknowledged) for subscription in self.subscriptions)

    def _look_up(self) -> None:
        """Whose the topics are; what no broker answers for is nobody's."""
        owners: dict[str, set[str]] = defaultdict(set)
        for topic in [publisher.topic for publisher in self.publishers]:
            answer = self.platform.http("GET", f"/lookup/v2/topic/{topic.replace('://', '/')}")
            if answer.status == 200:
                owners[answer.json()["brokerUrl"]].add(topic)
        self._owners = owners

    async def _until_quiet(self) -> None:
        """Consumers had everything."""
        before = -1
        while before != (now := sum(len(each.seen) + each.again + len(each.acknowledged) for each in self.subscriptions)):
            before = now
            await asyncio.wait(self._tasks, timeout=QUIET_S)

    # --- what must hold

    def check(self) -> None:
        faults = [fault for publisher in self.publishers for fault in publisher.faults]
        faults += [fault for subscription in self.subscriptions for fault in subscription.faults]
        assert not faults, faults[:5]
        ended = [task.exception() for task in self._tasks if task.done()]
        assert not ended, ended
        for program in self.programs:
            program.check()

    def _check_backlogs(self) -> None:
        """All that came was acknowledged."""
        left = [
            why
            for each in self.subscriptions
            if each.persistent
            for topic in _parts(each.topic)
            if (why := self._why_left(topic, each))
        ]
        assert not left, f"not all that was acknowledged is, at {len(left)} subscriptions: {'; '.join(left[:10])}"

    def _why_left(self, topic: str, subscription: Deliveries) -> str:
        """What the broker does not know of acknowledgements that were answered, or that nobody answered; "": it knows all."""
        try:
            eventually_sync(partial(self._nothing_left, topic, subscription.subscription), BACKLOG_S)
        except AssertionError as error:
            stats = self._get(topic, "internalStats")
            cursor = stats["cursors"][subscription.subscription]
            last = f"{stats['ledgers'][-1]['ledgerId']}" if stats["ledgers"] else "none"
            forgotten = [each for each in sorted(subscription.acknowledged) if not acknowledged_by(cursor, each)]
            unanswered = [each for each in sorted(subscription.unanswered) if not acknowledged_by(cursor, each)]
            return (
                f"{topic}, {subscription.subscription}: {error}; {len(forgotten)} were answered: {forgotten[:5]}, "
                f"{len(unanswered)} were not: {unanswered[:5]}; the cursor is {cursor['markDeletePosition']} "
                f"{cursor['individuallyDeletedMessages'][:100]}, the last ledger {last}"
            )
        return ""

    def _nothing_left(self, topic: str, subscription: str) -> bool:
        backlog = int(self._get(topic, "stats")["subscriptions"][subscription]["msgBacklog"])
        assert not backlog, f"{backlog} left"
        return True

    def _get(self, topic: str, what: str) -> Any:
        answer = self.platform.http("GET", f"/admin/v2/{topic.replace('://', '/')}/{what}")
        assert answer.status == 200, answer.text
        return answer.json()

    async def _read_back(self, client: Client) -> None:
        receipts: dict[str, set[Sent]] = defaultdict(set)
        for publisher in self.publishers:
            if publisher.persistent:
                stored = [Sent.read(message.payload) async for message in messages(client, publisher.topic)]
                check_stored(publisher, stored)
                receipts[publisher.topic] = publisher.receipts
        for subscription in self.subscriptions:
            if subscription.persistent:
                wanted = set[Sent]().union(*(receipts[part] for part in _parts(subscription.topic)))
                missing = wanted - subscription.seen
                what = f"{subscription.topic}, {subscription.subscription}"
                assert not missing, f"{what}: {len(missing)} with a receipt never came, first {min(missing)}"


def check_stored(publisher: Receipts, stored: Iterable[Sent]) -> None:
    counts = Counter(stored)
    lost = publisher.receipts - set(counts)
    assert not lost, f"{publisher.topic}: {len(lost)} with a receipt are gone, first {min(lost)}"
    highest: dict[str, int] = {}
    for sent in counts:  # the first of each, in the order of the log
        assert sent.number > highest.get(sent.key, -1), f"{publisher.topic}: {sent} is out of order, after {highest[sent.key]}"
        highest[sent.key] = sent.number
    if publisher.deduplicated:
        twice = [sent for sent, count in counts.items() if count > 1]
        assert not twice, f"{publisher.topic}: {len(twice)} are there twice, first {twice[0]}"


def acknowledged_by(cursor: dict[str, Any], message_id: str) -> bool:
    """Whether a cursor, as Pulsar's internal statistics show it, has the whole entry. `message_id`: as clients tell it."""
    if ":" in message_id:
        ledger, entry = map(int, message_id.split(":")[:2])
    else:
        parsed = MessageId.parse(message_id)
        ledger, entry = parsed.ledger_id, parsed.entry_id
    mark = tuple(map(int, cursor["markDeletePosition"].split(":")))
    ranges = re.findall(r"[(](-?\d+):(-?\d+)..(-?\d+):(-?\d+)\]", cursor["individuallyDeletedMessages"])
    deleted = (tuple(map(int, found)) for found in ranges)
    return (ledger, entry) <= mark or any((first, after) < (ledger, entry) <= (last, to) for first, after, last, to in deleted)


def _parts(topic: str) -> list[str]:
    return [f"{topic}-partition-{index}" for index in range(PARTITIONS)] if topic.endswith("/parts") else [topic]


def _namespace(topic: str) -> str:
    return topic.split("://")[1].rpartition("/")[0]
