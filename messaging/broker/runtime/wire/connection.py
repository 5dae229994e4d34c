"""One connection of the binary protocol: bytes in, blocks and commands out; receipts and messages back.

The fast path is in `reading.py` and `opened.py`, and only there. Every other command goes, decoded, to `commands.py`. No task is
made for a message. States: handshake -> open -> closed.

A peer can only harm itself: before it is known it may send one small command; a frame is never larger than the largest message;
what it sends is not read while the disk is behind; what it does not read ends the connection when too much has piled up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import structlog

from messaging.broker.core.frame_progress import FrameProgress, too_slow
from messaging.broker.core.memory_charge import MemoryCharge
from messaging.broker.runtime.wire.intake import Intake
from messaging.broker.runtime.wire.opened import Opened
from messaging.broker.runtime.wire.outgoing import Outgoing
from messaging.broker.runtime.wire.reading import ENDED, SMALL_ANSWER, Reading
from messaging.broker.runtime.wire.sinks import ReceiptSender
from messaging.local_caller import is_local_caller
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

if TYPE_CHECKING:
    from messaging.broker.runtime.broker import Broker
    from messaging.broker.runtime.peers import Connected
    from messaging.broker.runtime.wire.commands import Commands

log = structlog.get_logger("broker.connection")

REQUESTS_MAX = 500  # pending on one connection; it is read no further until half of them are answered
REQUESTS_BYTES_MAX = 2 << 20  # of them
LINGER_S = 5.0  # a refused peer has this long to read what was said to it


class Connection(Opened, asyncio.Protocol):
    """`arrived_as`: what stood for it in the table of shares while it was shaking hands."""

    def __init__(self, service: Broker, commands: Commands, *, tls: bool, arrived_as: Connected | None = None) -> None:
        super().__init__(service)
        self._arrived_as = arrived_as
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
        self.producer_sink = ReceiptSender(self)
        self.reading: Reading = cast(Reading, None)  # from `connection_made` on
        self.heard = True  # something came since the last keep-alive tick
        self.ping_sent = False
        self.order: dict[Any, asyncio.Task[None]] = {}  # the last command for one producer or consumer: commands.py
        self.waiting = 0  # commands that run as tasks and are not answered yet
        self.waiting_bytes = 0  # of them
        self.closed = False
        self._arriving: FrameProgress | None = None  # at the last look
        self._asked: asyncio.Future[None] | None = None  # it was asked for a sign of life, because others wait for what it holds
        self._asked_until: asyncio.TimerHandle = cast(asyncio.TimerHandle, None)
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
        self.intake = Intake(self.transport, self.service.ingress_limiter, self.reading.go_on)
        self.memory_charge = MemoryCharge(self.service.memory_limiter.sessions, self.address)
        self.out = Outgoing(self.transport, self._does_not_read, self.service.memory_limiter.egress, self.service.peers.unread)
        if self._arrived_as is not None:
            self.service.peers.shares.leave(self._arrived_as)
        self.service.peers.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.out.end()
        if self._abort:
            self._abort.cancel()
        self._leave()
        self.service.peers.left(self)
        # What is left of it is freed when the last of its requests and blocks has ended, without waiting for the collector, which
        # comes rarely: peers that come and go would fill the memory until then.
        self.reading = ENDED
        self.producer_sink = cast(ReceiptSender, None)

    def _leave(self) -> None:
        """Gives back what this connection holds. Idempotent."""
        if self._expiry:
            self._expiry.cancel()
        self._answered()
        self.reading.close()
        self.intake.leave()
        self.memory_charge.change(self.waiting_bytes - self.memory_charge.held_bytes)  # those requests give it back themselves
        producers, self.producers = self.producers, {}
        for topic, producer in producers.values():
            topic.detach_producer(producer)
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
        if self.out.stalled():
            self._does_not_read(self.transport.get_write_buffer_size())
        elif self.heard or not self.intake.reading:  # we do not listen: it may have answered
            self.heard = False
            self.ping_sent = False
        elif self.ping_sent:
            self.refuse("no answer to ping")
        elif self.principal is not None:
            self.ping_sent = True
            self.send(frames.PING)

    def answers(self) -> asyncio.Future[None] | None:
        """Asks the peer for a sign of life: ends when there is one, or when it was refused for giving none in `liveness_ms`."""
        if self.closed or not self.intake.reading:  # while we do not listen it may have answered
            return None
        if self._asked is None:
            loop = asyncio.get_running_loop()
            self._asked = loop.create_future()
            self._asked_until = loop.call_later(
                self.service.settings.liveness_ms / 1000, self.refuse, "no sign of life", "another client asks for what it holds"
            )
            self.send(frames.PING)
        return self._asked

    def _answered(self) -> None:
        if self._asked is not None:
            asked, self._asked = self._asked, None
            self._asked_until.cancel()
            asked.set_result(None)

    def check_arrival(self) -> None:
        """Once a window: a frame that hardly goes on ends the connection."""
        now = self.reading.arriving if self.intake.reading else None
        if too_slow(self._arriving, now):
            self.refuse("a frame came too slowly", f"{now}")
        self._arriving = now

    # --- writing

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
        for topic, subscription, consumer in list(self.consumers.values()):
            topic.consumer_writable(subscription, consumer)
        self.reading.requests_answered()

    # --- reading

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._asked is not None:
            self._answered()
        if not self.closed:
            self.reading.received(data)

    def charge(self, more: int) -> None:
        self.memory_charge.change(more)

    def requests_wait(self, kind: int, size: int) -> bool:
        """Whether a request of `size` bytes has to wait until others are answered, or until the peer reads its answers."""
        if not self.out.writable and kind not in SMALL_ANSWER:
            return True
        if not self.waiting:
            return False
        full = self.waiting >= REQUESTS_MAX or self.waiting_bytes + size > REQUESTS_BYTES_MAX
        return full or not self.memory_charge.allows(size)

    def request_begins(self, size: int) -> None:
        self.waiting += 1
        self.waiting_bytes += size
        self.memory_charge.change(size)

    def request_ended(self, size: int) -> None:
        self.waiting -= 1
        self.waiting_bytes -= size
        self.memory_charge.change(-size)
        if self.waiting <= REQUESTS_MAX // 2:
            self.reading.requests_answered()
