"""One HTTP connection: uvicorn's, with a slot that it may have to give up, deadlines, and limits on what is read ahead.

A peer has `header_s` to send the header of a request, from connecting or from its first byte. Then it must send the body and read
the response at the minimum rate of `transfer_rate.py`. Between requests it may be idle for uvicorn's keep-alive time. What
arrives while a request is processed waits in a small buffer; a peer that sends more gets its response and no other.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from messaging.http_server.bounds import HttpBounds
from messaging.http_server.response_writer import PIECE_BYTES, ResponseWriter
from messaging.http_server.transfer_rate import Transfer, reads_too_slowly
from messaging.http_server.tunnel import Tunnels
from messaging.http_server.websocket import WebSocketProtocol

HEAD_BYTES_MAX = 32 << 10  # request line and headers
HAS_CLOSED = getattr(select, "POLLRDHUP", 0)  # of Linux; elsewhere it is seen only once it is read
READ_BYTES_MAX = 16 << 10  # looked at at once, and of requests that come before the one before them is answered


def _nothing() -> None: ...


class HttpProtocol(H11Protocol):
    bounds: HttpBounds  # of the listener, in a class made for it, as the next
    tunnels: Tunnels | None = None
    arriving: Callable[[], None] = staticmethod(_nothing)  # gives up the place of the handshake before
    _timer: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    _expects = ""  # what the timer waits for: a head, a body, or nothing
    _transfer: Transfer | None = None
    _ahead_bytes = 0
    peer_certificate: dict[str, Any] | None = None  # of a peer that presented one, as `ssl` has it
    deaf = False  # what comes is not looked at: the connection ends with the answer

    # --- life

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PIECE_BYTES)  # with TLS it would be 512 KiB
        self.peer_certificate = transport.get_extra_info("peercert")
        self.response_writer = ResponseWriter(self.app)
        self.app = self.response_writer
        self.arriving()
        leaves = self.bounds.slots.arrive(self, self.client[0] if self.client else "")
        if leaves is not None:
            leaves.give_way()
        self._expect("head")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self.bounds.slots.leave(self)
        self.bounds.unread.leave(self)
        super().connection_lost(exc)

    def peer_left(self) -> bool:
        """Whether the peer has closed its side, also where that is still to be read: a process that stood still reads a request
        and learns only afterwards that nobody waits for the answer any more."""
        if self.transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket"), HAS_CLOSED)
        return bool(poll.poll(0))

    def give_way(self) -> None:
        """Another connection needs the place of this one."""
        self.transport.abort()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_timers()
        if self.tunnels is not None and self.tunnels.serves(event.target):
            self._open_tunnel(self.tunnels, event)
            return
        super().handle_websocket_upgrade(event)
        following = self.transport.get_protocol()
        if isinstance(following, WebSocketProtocol):
            following.bounds = self.bounds
            self.bounds.slots.replace(self, following)
            self.bounds.unread.leave(self)

    def _open_tunnel(self, tunnels: Tunnels, event: h11.Request) -> None:
        peer = self.client[0] if self.client else ""
        if tunnels.open(self.transport, peer, event, self.bounds, self.server_state):
            self.connections.discard(self)
            self.bounds.slots.leave(self)
            self.bounds.unread.leave(self)
        else:
            self.deaf = True

    # --- reading

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), READ_BYTES_MAX):
            if self.deaf or self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            part = bytes(view[start : start + READ_BYTES_MAX])
            if self.conn.their_state is h11.SEND_BODY and self._transfer is not None:
                self._transfer.moved_bytes += len(part)
            elif self._expects == "" and not self._may_read_ahead(len(part)):
                return
            super().data_received(part)

    def _may_read_ahead(self, size: int) -> bool:
        self._ahead_bytes += size
        if self._ahead_bytes <= READ_BYTES_MAX:
            return True
        self.deaf = True
        self.flow.pause_reading()
        self.cycle.keep_alive = False
        return False

    def send_400_response(self, msg: str) -> None:
        """The peer broke the protocol, perhaps within a request that is worked on: whoever works on it hears that its peer is gone,
        and what it answers goes nowhere, since the connection has its answer."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # an answer is under way already: nothing else can be said
            self.transport.close()

    def handle_events(self) -> None:
        state = self.app_state
        state["full"] = self.bounds.slots.full
        state["peer_certificate"] = self.peer_certificate  # copied into the scope of each request, as the next
        state["peer_left"] = self.peer_left
        super().handle_events()
        del state["peer_left"]  # all connections share it, and it would keep this one
        self._look()

    def on_response_complete(self) -> None:
        self._ahead_bytes = 0
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self.transport.close()  # it was answered before it sent all: what is left may not end
        super().on_response_complete()
        self._look()
        self._watch_writing()

    def _look(self) -> None:
        """What is expected of the peer now."""
        if self.transport.get_protocol() is not self or self.transport.is_closing():
            if not self._unread_bytes:
                self.bounds.slots.silent(self)  # over TLS closing waits for the peer's answer
            self._watch_writing()
            return
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._expect("body")
        elif state is h11.IDLE:
            rests = self.timeout_keep_alive_task is not None  # else the first bytes of a head have come
            self._expect("rest" if rests else "head")
        else:
            self._expect("")

    def _expect(self, what: str) -> None:
        if what == self._expects:
            return
        self._expects = what
        self._cancel("_timer")
        if what == "":
            self.bounds.slots.busy(self)
            return
        self.bounds.slots.silent(self)
        if what == "head":
            self._timer = self.loop.call_later(self.bounds.header_s, self._late)
        elif what == "body":
            self._transfer = Transfer(self.loop.time(), self.bounds.transfer_s)
            self._timer = self.loop.call_later(self.bounds.transfer_s, self._body_due)

    def _body_due(self) -> None:
        assert self._transfer is not None
        due_s = self._transfer.due_s()
        if self.flow.read_paused:  # we do not read: it is not the peer who is late
            self._transfer = Transfer(self.loop.time(), self.bounds.transfer_s)
            due_s = self._transfer.due_s()
        if due_s > self.loop.time():
            self._timer = self.loop.call_at(due_s, self._body_due)
        else:
            self._late()

    def _late(self) -> None:
        self.transport.abort()

    # --- writing

    def pause_writing(self) -> None:
        super().pause_writing()
        self._count_unread()
        self._watch_writing()

    @property
    def _unread_bytes(self) -> int:
        """What waits for this peer: with the transport, and of the answer that is handed to it."""
        return self.transport.get_write_buffer_size() + self.response_writer.left_bytes

    @property
    def _read_bytes(self) -> int:
        """What left for the peer so far."""
        return self.response_writer.handed_bytes - self.transport.get_write_buffer_size()

    def _count_unread(self) -> None:
        """Nothing more is handed to the peer before it has read nearly all of what the transport has."""
        for peer in self.bounds.unread.waits(self, self.client[0] if self.client else "", self._unread_bytes):
            self.loop.call_soon(peer.give_way)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_writing()

    def _watch_writing(self) -> None:
        """While something waits for the peer to read it, it has to read on. Also when we closed: that waits for the peer too."""
        waiting = self._unread_bytes
        if self._writing is None and (waiting or self.transport.is_closing()):
            self._writing = self.loop.call_later(self.bounds.transfer_s, self._read_enough, waiting, self._read_bytes)

    def _read_enough(self, waiting_before: int, read_before: int) -> None:
        self._writing = None
        waiting = self._unread_bytes
        if self.flow.write_paused:
            self._count_unread()
        late = reads_too_slowly(waiting_before, self._read_bytes - read_before, self.bounds.transfer_s)
        if late if waiting else self.transport.is_closing():
            self.transport.abort()
        else:
            self._watch_writing()

    def resume_writing(self) -> None:
        self.bounds.unread.leave(self)
        super().resume_writing()

    def _stop_timers(self) -> None:
        self._cancel("_timer")
        self._cancel("_writing")

    def _cancel(self, name: str) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)


def protocol_of(bounds: HttpBounds, tunnels: Tunnels | None = None) -> Callable[..., HttpProtocol]:
    return type("BoundedHttpProtocol", (HttpProtocol,), {"bounds": bounds, "tunnels": tunnels})
