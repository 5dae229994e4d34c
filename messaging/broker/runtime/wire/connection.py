"""One connection of the binary protocol: bytes in, blocks and commands out; receipts and messages back.

The fast path is here and only here: all whole SEND frames of one read become one block a producer, all plain ACKs one call a
consumer. Every other command goes, decoded, to `commands.py`. No task is made for a message. States: handshake -> open -> closed.

A peer can only harm itself: before it is known it may send one small command; a frame is never larger than the largest message;
what it sends is not read while the disk is behind; what it does not read ends the connection when too much has piled up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import structlog

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.producers import Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire import refused
from messaging.broker.runtime.wire.intake import Intake
from messaging.broker.runtime.wire.outgoing import Outgoing
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
        self.out: Outgoing = cast(Outgoing, None)  # from `connection_made` on, as is `intake`
        self.intake: Intake = cast(Intake, None)
        self.heard = True  # something came since the last keep-alive tick
        self.ping_sent = False
        self.order: dict[Any, asyncio.Task[None]] = {}  # the last command for one producer or consumer: commands.py
        self.waiting = 0  # commands that run as tasks and are not answered yet
        self.closed = False
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = 0
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
        self.intake = Intake(self.transport, self.service.gate)
        self.out = Outgoing(self.transport, self._does_not_read, self.service.accountant.egress, self.service.peers.unread)
        self.service.peers.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.out.end()
        if self._abort:
            self._abort.cancel()
        self._leave()
        self._pieces.clear()
        self.service.peers.left(self)

    def _leave(self) -> None:
        """Gives back what this connection holds. Idempotent."""
        if self._expiry:
            self._expiry.cancel()
        self.intake.leave()
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
        if self.heard or self.intake.paused:  # we do not listen: it may have answered
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
            topic.outlet.dispatch(subscription)

    # --- reading

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self.closed:
            return
        if self._pieces:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
            self.intake.frame_came()
        try:
            rest = self._take(data)
        except FrameError as error:
            self.refuse("bad frame", str(error))
            return
        except Exception:  # a fault of ours ends this connection, as a fault of the peer does
            log.exception("connection.failed", peer=self.peer, client=self.client_version)
            self.refuse("broker fault")
            return
        finally:
            self.intake.read_done()
        if rest < len(data) and not self.closed:
            self._keep(data[rest:] if rest else data)

    def _take(self, buf: bytes) -> int:
        """Handles every whole frame of `buf`; returns where the incomplete one begins."""
        position, end = 0, len(buf)
        sent: list[Sent] = []
        while not self.closed:
            if self.principal is not None:
                position = hot.scan(buf, position, end, sent)
                acked: list[tuple[int, int, int]] = []
                position = hot.acks(buf, position, end, acked)
                if acked:
                    self._acknowledge(acked)
                    continue
            if end - position < 8:
                break
            total = int.from_bytes(buf[position : position + 4], "big")
            self._check_size(total)
            if position + 4 + total > end:
                break
            kind = buf[position + 9] if total > 6 else 0
            if kind == pb.Command.SEND and self.principal is not None and buf[position + 8] == 8 and total >= 8:
                continue  # it came after acknowledgements: for the scan above
            # What was sent before a command is handed on before it: a close waits for the receipts.
            if sent:
                self._publish(buf, sent)
                sent = []
            self.commands.handle(self, frames.decode(memoryview(buf)[position + 4 : position + 4 + total]))
            position += 4 + total
        if sent:
            self._publish(buf, sent)
        return position

    def _check_size(self, total: int) -> None:
        limit = self.service.settings.message_bytes_max + frames.FRAME_PADDING_BYTES
        if self.principal is None:
            limit = frames.COMMAND_BYTES_MAX
        if total > limit:
            raise FrameError(f"a frame of {total} bytes is larger than the {limit} that are allowed here")
        if total < 6:
            raise FrameError(f"a frame of {total} bytes holds no command")

    def _keep(self, rest: bytes) -> None:
        self._pieces.append(rest)
        self._have = len(rest)
        self._need = 8
        if len(rest) >= 4:
            total = int.from_bytes(rest[:4], "big")
            try:
                self._check_size(total)
            except FrameError as error:
                self.refuse("bad frame", str(error))
                return
            self._need = 4 + total
            self.intake.frame_begins(self._need)

    # --- the fast path

    def _publish(self, buf: bytes, sent: list[Sent]) -> None:
        """One block a producer; nearly always there is one."""
        for part in hot.parted(sent):
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

    def append(self, topic: Topic, producer: Producer, buf: bytes, sent: list[Sent], measured: Measured) -> None:
        try:
            size = topic.inlet.publish(producer, buf, sent, measured)
        except StoreError:
            self.service.topic_failed(topic, NotReady(f"topic {topic.text} is being opened again"))
            return
        self.intake.appended(size)

    def _acknowledge(self, acked: list[tuple[int, int, int]]) -> None:
        """Plain individual acknowledgements: one call for each run of one consumer and ledger."""
        start = 0
        count = len(acked)
        while start < count:
            consumer_id, ledger_id, _ = acked[start]
            stop = start + 1
            while stop < count and acked[stop][0] == consumer_id and acked[stop][1] == ledger_id:
                stop += 1
            held = self.consumers.get(consumer_id)
            if held is not None:
                self.acknowledge(held, ledger_id, [acked[index][2] for index in range(start, stop)])
            start = stop

    def acknowledge(self, held: tuple[Topic, Subscription, Consumer], ledger_id: int, entries: list[int]) -> bytes:
        topic, subscription, consumer = held
        delta = subscription.acknowledge(consumer, ledger_id, entries, self.service.now_ms())
        topic.store(subscription, delta)
        self.service.acknowledgements += len(entries)
        topic.outlet.dispatch(subscription)  # any consumer may have been held at its bound
        return delta

    def end_producer(self, producer_id: int) -> None:
        """The broker closed it: what its client sent meanwhile is passed over."""
        self.producers.pop(producer_id, None)
        self.ended_producers[producer_id] = None
        if len(self.ended_producers) > CLOSED_IDS_KEPT:
            del self.ended_producers[next(iter(self.ended_producers))]
