"""A crowd of producers, each of which behaves as a stock client's does when its broker goes away: it looks its topic up again after
a backoff that doubles, and opens where it is told to. One thread; a connection to each broker, since only brokers are measured.
"""

from __future__ import annotations

import heapq
import random
import select
import socket
import time
from collections import Counter
from collections.abc import Callable

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send, command, decode
from tests.benchmarks import wire
from tests.benchmarks.load import Stalled

BACKOFF_S, BACKOFF_S_MAX, JITTER = 0.1, 60.0, 0.1  # Pulsar's
_READ_BYTES = 1 << 20
_CONNECT_S = 5.0

Address = tuple[str, int]


class _Link:
    """`asked`: the topic of each request without an answer."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.socket = socket.create_connection(address, timeout=_CONNECT_S)
        self.socket.sendall(wire.connect())
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connected = False
        self.unsent = bytearray()
        self.received = bytearray()
        self.asked: dict[int, int] = {}
        self.topics: set[int] = set()  # with a producer here


class Crowd:
    """`topics`: a producer for each. `service`: where topics are looked up, in turn among those that can be reached."""

    def __init__(self, topics: list[str], service: Callable[[], list[Address]], window: int) -> None:
        self.topics = topics
        self.served_at: dict[int, float] = {}
        self.looked_up: dict[Address, Counter[int]] = {}  # by tenths of a second, of `time.monotonic`
        self._service, self._window = service, window
        self._links: dict[Address, _Link] = {}
        self._due = [(0.0, index) for index in range(len(topics))]
        self._failures: Counter[int] = Counter()  # of a topic, one after the other
        self._random = random.Random(1)
        self._requests = 0
        self.receipts = 0

    @property
    def under_way(self) -> int:
        return sum(len(link.asked) for link in self._links.values())

    def run(self, patience_s: float, *, until: Callable[[], bool] | None = None) -> None:
        """Until every topic has its producer and `until` holds. Raises `Stalled`."""
        ends = time.monotonic() + patience_s
        while len(self.served_at) < len(self.topics) or (until is not None and not until()):
            if time.monotonic() > ends:
                raise Stalled(f"{len(self.served_at)} of {len(self.topics)} producers are open after {patience_s:g} s")
            self.turn()

    def turn(self) -> None:
        """What is due, and what comes within a few milliseconds."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now and self.under_way < self._window:
            self._look_up(heapq.heappop(self._due)[1], None)
        for link in list(self._links.values()):
            self._write(link)
        links = {link.socket.fileno(): link for link in self._links.values()}
        waiting = [number for number, link in links.items() if link.unsent and link.connected]
        readable, writable, _ = select.select(list(links), waiting, [], 0.01)
        for number in writable:
            self._write(links[number])
        for number in readable:
            if links[number].address in self._links:
                self._read(links[number])

    def unbounded(self) -> None:
        """From now on whatever is due is asked for at once: a client knows nothing of the others."""
        self._window = len(self.topics)

    def publish(self, patience_s: float) -> None:
        """A message to each topic, until all are stored. Raises `Stalled`."""
        self.receipts = 0
        for link in self._links.values():
            for topic in link.topics:
                metadata = pb.Metadata(producer_name="crowd", sequence_id=0, publish_time=1)
                link.unsent += build_send(topic, 0, metadata, b"x" * 100)
        ends = time.monotonic() + patience_s
        while self.receipts < len(self.topics):
            if time.monotonic() > ends:
                raise Stalled(f"{self.receipts} of {len(self.topics)} messages are stored after {patience_s:g} s")
            self.turn()

    def close(self) -> None:
        for link in self._links.values():
            link.socket.close()

    # --- what a client does

    def _look_up(self, topic: int, at: Address | None) -> None:
        """`at`: who it was sent to; None: anybody."""
        addresses = self._service() if at is None else [at]
        start = topic % len(addresses)
        link = next((link for address in addresses[start:] + addresses[:start] if (link := self._link(address))), None)
        if link is None:
            self._later(topic)
            return
        self.looked_up.setdefault(link.address, Counter())[int(time.monotonic() * 10)] += 1
        lookup = pb.Lookup(topic=self.topics[topic], request_id=self._number(link, topic), authoritative=at is not None)
        link.unsent += command(pb.Command.LOOKUP, lookup=lookup)

    def _open(self, topic: int, address: Address) -> None:
        link = self._link(address)
        if link is None:
            self._later(topic)
            return
        producer = pb.Producer(topic=self.topics[topic], producer_id=topic, request_id=self._number(link, topic))
        link.unsent += command(pb.Command.PRODUCER, producer=producer)

    def _later(self, topic: int) -> None:
        delay_s = min(BACKOFF_S_MAX, BACKOFF_S * 2 ** min(20, self._failures[topic])) * (1 - JITTER * self._random.random())
        self._failures[topic] += 1
        heapq.heappush(self._due, (time.monotonic() + delay_s, topic))

    def _number(self, link: _Link, topic: int) -> int:
        self._requests += 1
        link.asked[self._requests] = topic
        return self._requests

    # --- connections

    def _link(self, address: Address) -> _Link | None:
        link = self._links.get(address)
        if link is None:
            try:
                link = self._links[address] = _Link(address)
            except OSError:
                return None
        return link

    def _write(self, link: _Link) -> None:
        try:
            while link.unsent and link.connected:
                del link.unsent[: link.socket.send(link.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._broke(link)

    def _read(self, link: _Link) -> None:
        try:
            data = link.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._broke(link)
            return
        link.received += data
        for kind, frame in wire.split(link.received):
            if kind == wire.PING:
                link.unsent += wire.pong()
            elif kind == wire.CONNECTED:
                link.connected = True
            else:
                self._answered(link, decode(bytes(frame)))

    def _broke(self, link: _Link) -> None:
        del self._links[link.address]
        link.socket.close()
        for topic in (*link.topics, *link.asked.values()):
            self.served_at.pop(topic, None)
            self._later(topic)

    def _answered(self, link: _Link, answer: pb.Command) -> None:
        if answer.HasField("lookup_response"):
            found = answer.lookup_response
            topic = link.asked.pop(found.request_id)
            if found.response == pb.LookupResponse.Failed:
                self._later(topic)
                return
            host, _, port = found.broker_service_url.partition("://")[2].strip("/").rpartition(":")
            then = self._open if found.response == pb.LookupResponse.Connect else self._look_up
            then(topic, (host, int(port)))
        elif answer.HasField("producer_success"):
            topic = link.asked.pop(answer.producer_success.request_id)
            self._failures.pop(topic, None)
            link.topics.add(topic)
            self.served_at[topic] = time.monotonic()
        elif answer.HasField("send_receipt"):
            self.receipts += 1
        elif answer.HasField("close_producer"):
            topic = answer.close_producer.producer_id
            link.topics.discard(topic)
            self.served_at.pop(topic, None)
            self._later(topic)
        elif answer.HasField("error"):
            topic = link.asked.pop(answer.error.request_id, -1)
            if topic < 0:
                raise Stalled(f"a broker refused: {answer.error.message}")
            self._later(topic)
