"""One connection of the binary protocol: bytes in, blocks and commands out; receipts and messages back.

The fast path is here and in `reading.py`, and only there: all whole SEND frames of one read become one block a producer, all plain
ACKs one call a consumer. Every other command goes, decoded, to `commands.py`. No task is made for a message. States: handshake ->
open -> closed.

A peer can only harm itself: before it is known it may send one small command; a frame is never larger than the largest message;
what it sends is not read while the disk is behind; what it does not read ends the connection when too much has piled up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import structlog

from messaging.broker.core.command_costs import ACK_RUN, BLOCK
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.holding import Holding
from messaging.broker.core.producers import Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire import refused
from messaging.broker.runtime.wire.intake import Intake
from messaging.broker.runtime.wire.outgoing import Outgoing
from messaging.broker.runtime.wire.reading import Reading
from messaging.broker.runtime.wire.sinks import BinaryProducerSink
from messaging.errors import NotReady
from messaging.local_caller import is_local_caller
from messaging.permissions.model import Principal
from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import FrameError
from messaging.protocol.hot import Measured, Sent
from messaging.storage.seam import StoreError

if TYPE_CHECKING:
    from messaging.broker.runtime.broker import Broker
    from messaging.broker.runtime.wire.commands import Commands

log = structlog.get_logger("broker.connection")

CLOSED_IDS_KEPT = 1000
REQUESTS_MAX = 500  # pending on one connection; it is read no further until half of them are answered
REQUESTS_BYTES_MAX = 2 << 20  # of them
LINGER_S = 5.0  # a refused peer has this long to read what was said to it


class Connection(asyncio.Protocol):
    def __init__(self, service: Broker, commands: Commands, *, tls: bool) -> None:
        self.service = service
        self.commands = commands
        self.tls = tls
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.peer = ""
        self.address = ""
        self.local = False  # its peer is on this machine: it may be nobody
        self.principal: Principal | None = None
        self.client_version = ""
        self.protocol_version = 0
        self.supports_auth_refresh = False
        self.producer_sink = BinaryProducerSink(self)
        self.producers: dict[int, tuple[Topic, Producer]] = {}
        self.consumers: dict[int, tuple[Topic, Subscription, Consumer]] = {}
        self.ended_producers: dict[int, None] = {}  # closed by the broker: frames still on their way are passed over
        self.out: Outgoing = cast(Outgoing, None)  # from `connection_made` on, as the next three
        self.intake: Intake = cast(Intake, None)
        self.heard = True  # something came since the last keep-alive tick
        self.ping_sent = False
        self.reading: Reading = cast(Reading, None)
        self.holding: Holding = cast(Holding, None)
        self.order: dict[Any, asyncio.Task[None]] = {}  # the last command for one producer or consumer: commands.py
        self.waiting = 0  # commands that run as tasks and are not answered yet
        self.waiting_bytes = 0  # of them
        self.closed = False
        self._expiry: asyncio.TimerHandle | None = None
        self._abort: asyncio.TimerHandle | None = None

    # --- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self.address = str(peer[0]) if peer else "?"
        own = transport.get_extra_info("sockname")
        self.local = bool(peer and own and is_local_caller(self.service.settings.host, peer[0], own[0]))
        self.reading = Reading(self)
        self.intake = Intake(self.transport, self.service.gate, self.reading.go_on)
        self.holding = Holding(self.service.accountant.sessions, self.address)
        self.out = Outgoing(self.transport, self._does_not_read, self.service.accountant.egress, self.service.peers.unread)
        self.service.peers.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.out.end()
        if self._abort:
            self._abort.cancel()
        self._leave()
        self.service.peers.left(self)

    def _leave(self) -> None:
        """Gives back what this connection holds. Idempotent."""
        if self._expiry:
            self._expiry.cancel()
        self.reading.close()
        self.intake.leave()
        self.holding.change(self.waiting_bytes - self.holding.held_bytes)  # those requests give it back themselves
        producers, self.producers = self.producers, {}
        for topic, producer in producers.values():
            producer.closed = True
            topic.producers.detach(producer)
        consumers, self.consumers = self.consumers, {}
        for topic, subscription, consumer in consumers.values():
            topic.detach(subscription, consumer)

    def refuse(self, reason: str, detail: str = "") -> None:
        """Ends the connection from our side; what is in the send buffer still goes out, if the peer reads it soon."""
        if not self.closed:
            log.info("connection.refused", peer=self.peer, reason=reason, detail=detail, client=self.client_version)
            self.service.peers.refused[reason] += 1
            self.out.close()
            self.closed = True
            # Closing waits for the send buffer, and a peer that does not read would keep for ever what others could have.
            self._leave()
            self.transport.close()
            self._abort = asyncio.get_running_loop().call_later(LINGER_S, self.transport.abort)

    def expire_at(self, expires_ms: int) -> None:
        """The credential ends then: the client is asked for a new one, and cut off if it has none."""
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None
        if expires_ms:
            delay_s = max(0.0, (expires_ms - self.service.now_ms()) / 1000)
            self._expiry = asyncio.get_running_loop().call_later(delay_s, self._expired)

    def _expired(self) -> None:
        if self.supports_auth_refresh and self.principal is not None:
            challenge = pb.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
            self.send(
                frames.command(
                    pb.Command.AUTH_CHALLENGE,
                    auth_challenge=pb.AuthChallenge(challenge=challenge, protocol_version=self.protocol_version),
                )
            )
            self._expiry = asyncio.get_running_loop().call_later(
                self.service.settings.keep_alive_ms / 1000, self.refuse, "token expired", "no new token came"
            )
        else:
            self.refuse("token expired")

    def keep_alive(self) -> None:
        """Called every keep-alive interval: a peer that was silent is asked, one that does not answer is gone."""
        if self.heard or not self.intake.reading:  # we do not listen: it may have answered
            self.heard = False
            self.ping_sent = False
        elif self.ping_sent:
            self.refuse("no answer to ping")
        elif self.principal is not None:
            self.ping_sent = True
            self.send(frames.PING)

    # --- writing

    def send(self, data: bytes) -> None:
        self.out.send(data)

    def _does_not_read(self, unread_bytes: int) -> None:
        log.warning("connection.does_not_read", peer=self.peer, unread_bytes=unread_bytes)
        self.service.peers.refused["peer does not read"] += 1
        self.closed = True
        self.out.end()
        self.transport.abort()

    def pause_writing(self) -> None:
        self.out.pause()

    def resume_writing(self) -> None:
        self.out.resume()
        for topic, subscription, _ in list(self.consumers.values()):
            topic.outlet.dispatch_soon(subscription)
        self.reading.requests_answered()

    # --- reading

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if not self.closed:
            self.reading.received(data)

    def charge(self, more: int) -> None:
        self.holding.change(more)

    def requests_wait(self, size: int) -> bool:
        """Whether a request of `size` bytes has to wait until others are answered, or until the peer reads its answers."""
        if not self.out.writable:
            return True
        if not self.waiting:
            return False
        full = self.waiting >= REQUESTS_MAX or self.waiting_bytes + size > REQUESTS_BYTES_MAX
        return full or not self.holding.allows(size)

    def request_begins(self, size: int) -> None:
        self.waiting += 1
        self.waiting_bytes += size
        self.holding.change(size)

    def request_ended(self, size: int) -> None:
        self.waiting -= 1
        self.waiting_bytes -= size
        self.holding.change(-size)
        if self.waiting <= REQUESTS_MAX // 2:
            self.reading.requests_answered()

    # --- the fast path

    def publish(self, buf: bytes, sent: list[Sent]) -> int:
        """One block a producer; nearly always there is one. Returns what that costs beside the messages."""
        parts = hot.parted(sent)
        for part in parts:
            held = self.producers.get(part[0][0])
            if held is None or held[1].closed:
                if part[0][0] not in self.ended_producers:
                    raise FrameError(f"messages for producer {part[0][0]}, which is not open on this connection")
                continue
            measured = hot.measured(part)
            if measured[0] & ~hot.CHUNK:
                refused.publish(self, *held, buf, part)
            else:
                self.append(*held, buf, part, measured)
        return BLOCK * len(parts)

    def append(self, topic: Topic, producer: Producer, buf: bytes, sent: list[Sent], measured: Measured) -> None:
        try:
            size = topic.inlet.publish(producer, buf, sent, measured)
        except StoreError:
            self.service.topic_failed(topic, NotReady(f"topic {topic.text} is being opened again"))
            return
        self.intake.appended(size)

    def acknowledge_all(self, acked: list[tuple[int, int, int]]) -> int:
        """Plain individual acknowledgements: one call for each consumer and ledger. Returns what that costs beside them."""
        runs: dict[tuple[int, int], list[int]] = {}
        for consumer_id, ledger_id, entry_id in acked:
            run = runs.get((consumer_id, ledger_id))
            if run is None:
                runs[consumer_id, ledger_id] = [entry_id]
            else:
                run.append(entry_id)
        for (consumer_id, ledger_id), entries in runs.items():
            held = self.consumers.get(consumer_id)
            if held is not None:
                self.acknowledge(held, ledger_id, entries)
        return ACK_RUN * len(runs)

    def acknowledge(self, held: tuple[Topic, Subscription, Consumer], ledger_id: int, entries: list[int]) -> bytes:
        topic, subscription, consumer = held
        delta = subscription.acknowledge(consumer, ledger_id, entries, self.service.now_ms())
        topic.store(subscription, delta)
        self.service.acknowledgements += len(entries)
        topic.outlet.dispatch_soon(subscription)  # any consumer may have been held at its bound
        return delta

    def end_producer(self, producer_id: int) -> None:
        """The broker closed it: what its client sent meanwhile is passed over."""
        self.producers.pop(producer_id, None)
        self.ended_producers[producer_id] = None
        if len(self.ended_producers) > CLOSED_IDS_KEPT:
            del self.ended_producers[next(iter(self.ended_producers))]
