"""Acknowledgements whose receipts somebody waits for.

An acknowledgement says the same however often it is sent. One whose connection broke before its receipt came, or which came too
late to a broker that gave the topic away, is therefore sent again on the next, before the broker is asked for messages there, until
the time of those who wait is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from messaging.client.errors import from_wire
from messaging.client.failures import ConnectionLost
from messaging.client.wire.connection import Connection
from messaging.errors import MagnetarError
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

Command = pb.Command


@dataclass(eq=False, slots=True)
class _Group:
    """What was acknowledged in one turn of the loop. `unanswered`: of the commands that say so."""

    timer: asyncio.TimerHandle | None = None
    futures: list[asyncio.Future[None]] = field(default_factory=list)
    unanswered: int = 0
    error: MagnetarError | None = None

    def settle(self, error: MagnetarError | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        for future in self.futures:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                future.exception()  # an application that does not wait is not to be warned


@dataclass(eq=False, slots=True)
class _Sent:
    """`superseded`: the subscription was moved after it, so that it would say something else on another connection."""

    ack: pb.Ack
    group: _Group
    connection: Connection | None = None
    request_id: int = 0
    superseded: bool = False

    def forget(self) -> None:
        if self.connection is not None:
            self.connection.forget(self.request_id)
            self.connection = None


class Receipts:
    def __init__(self, topic: str, timeout_s: float, why: Callable[[], MagnetarError | None]) -> None:
        """`why`: there is no connection now."""
        self._why = why
        self._topic = topic
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._next: _Group | None = None  # not sent yet
        self._sent: dict[_Sent, None] = {}

    def next(self) -> asyncio.Future[None]:
        """The receipt of what is sent next. It raises the broker's error, or `ConnectionLost` after `timeout_s`."""
        if self._next is None:
            self._next = _Group()
            self._next.timer = self._loop.call_later(self._timeout_s, self._expired, self._next)
        future: asyncio.Future[None] = self._loop.create_future()
        self._next.futures.append(future)
        return future

    def send(self, connection: Connection, commands: Sequence[pb.Ack]) -> None:
        """With receipts if somebody waits for them."""
        group, self._next = self._next, None
        if group is None:
            for ack in commands:
                connection.send(frames.command(Command.ACK, ack=ack))
            return
        group.unanswered = len(commands)  # at least one: what the broker is not told of has no receipt
        for ack in commands:
            sent = _Sent(ack, group)
            self._sent[sent] = None
            self._ask(sent, connection)

    def opened(self, connection: Connection) -> None:
        """Sends again what has no receipt."""
        for sent in list(self._sent):
            sent.forget()
            if sent.superseded:
                self._done(sent, ConnectionLost(f"{self._topic}: no receipt before the subscription was moved"))
            else:
                self._ask(sent, connection)

    def moving(self) -> None:
        """The subscription is about to be moved: what was acknowledged before is not acknowledged after."""
        for sent in self._sent:
            sent.superseded = True

    def unsent_lost(self) -> None:
        """What was to be sent next is not."""
        group, self._next = self._next, None
        if group is not None:
            group.settle(ConnectionLost(f"{self._topic}: too much was acknowledged without a connection: it may come again"))

    async def wait(self, timeout_s: float) -> None:
        """Returns when nobody waits any more, or after this time."""
        futures = [future for sent in self._sent for future in sent.group.futures if not future.done()]
        if futures:
            await asyncio.wait(futures, timeout=timeout_s)

    def end(self, error: MagnetarError) -> None:
        """No more receipts come."""
        groups = {sent.group: None for sent in self._sent}
        if self._next is not None:
            groups[self._next] = None
        self._next = None
        for sent in self._sent:
            sent.forget()
        self._sent.clear()
        for group in groups:
            group.settle(error)

    def _ask(self, sent: _Sent, connection: Connection) -> None:
        try:
            sent.request_id = connection.ask(Command.ACK, "ack", sent.ack, partial(self._answered, sent))
            sent.connection = connection
        except ConnectionLost:
            pass  # the next one comes

    def _answered(self, sent: _Sent, answer: pb.Command | MagnetarError) -> None:
        sent.connection = None
        if isinstance(answer, ConnectionLost):
            return  # it is sent again on the next one
        if isinstance(answer, MagnetarError):
            self._done(sent, answer)
        elif answer.ack_response.error == pb.ServiceNotReady:
            pass  # likewise: the broker closes the consumer, or did
        elif answer.ack_response.HasField("error"):
            self._done(sent, from_wire(answer.ack_response.error, answer.ack_response.message))
        else:
            self._done(sent, None)

    def _done(self, sent: _Sent, error: MagnetarError | None) -> None:
        if sent not in self._sent:
            return
        del self._sent[sent]
        group = sent.group
        group.error = group.error or error
        group.unanswered -= 1
        if not group.unanswered:
            group.settle(group.error)

    def _expired(self, group: _Group) -> None:
        if self._next is group:
            self._next = None
        for sent in [sent for sent in self._sent if sent.group is group]:
            sent.forget()
            del self._sent[sent]
        text = f"{self._topic}: no receipt for an acknowledgement within {self._timeout_s:g} s: the message may come again"
        error = ConnectionLost(text)
        error.__cause__ = self._why()
        group.settle(error)
