"""Processes the bytes received on one connection: in slices, with the rest waiting for its turn.

A read is processed immediately as far as the budget of this turn of the event loop allows (`core/turns/turn_budget.py`). The rest
is charged to its tenant's memory, and reading pauses until it is processed. Processing continues in a later turn if the turn's
budget was used up; when the read throttle permits if the disk is behind; and when requests were answered or responses read if too
many are pending, which never closes a connection.

Commands of one connection are processed in the order in which they arrived, whatever delays them.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from messaging.broker.core.turns.command_costs import SEND_BYTES_A_UNIT, cost_of
from messaging.broker.core.turns.frame_progress import FrameProgress
from messaging.broker.core.turns.turn_budget import TurnUsage
from messaging.broker.runtime.turn_loop import TurnLoop, Worker
from messaging.broker.runtime.wire.endpoints import Endpoints
from messaging.broker.runtime.wire.gathered_reads import GatheredReads
from messaging.protocol.events import Acks, Command, SendBlock
from messaging.protocol.frames import ProtocolError
from messaging.protocol.inbound import BUDGET, HELD, INCOMPLETE, Inbound
from messaging.storage.next_commit import NextCommit

log = structlog.get_logger("broker.connection")

MANY_PRODUCERS = 64  # per connection: above this a read may contain as many blocks as messages
MANY_AT_ONCE = 512  # messages or acknowledgements processed before the cost is checked again


class CommandHandler(Protocol):
    """Handles everything but messages and plain acknowledgements, and learns how the connection ends."""

    peer: str

    def command(self, command: Command) -> None:
        """Raises `ProtocolError`."""

    def refuse(self, reason: str, detail: str = "") -> None: ...


class Receiver:
    __slots__ = (
        "_charged_bytes",
        "_counts_frame",
        "_endpoints",
        "_further_cost",
        "_gathered_reads",
        "_handler",
        "_next_commit",
        "_turn_loop",
        "_usage",
        "_waits",
        "inbound",
    )

    def __init__(
        self,
        inbound: Inbound,
        endpoints: Endpoints,
        handler: CommandHandler,
        turn_loop: TurnLoop[Worker],
        next_commit: NextCommit,
        gathered_reads: GatheredReads,
    ) -> None:
        self.inbound = inbound
        self._endpoints = endpoints
        self._handler: CommandHandler | None = handler  # None: the connection is gone
        self._turn_loop = turn_loop
        self._next_commit = next_commit
        self._gathered_reads = gathered_reads
        self._usage = TurnUsage()
        self._waits = False  # part of a read is unprocessed, and reading is paused
        self._counts_frame = False  # the read throttle counts the incomplete frame
        self._charged_bytes = 0
        self._further_cost = 0  # of the command that is being handled

    @property
    def tenant(self) -> str:
        """The tenant under which it waits for its turn; the address of a peer that is not authenticated."""
        return self._endpoints.throttle.quota.tenant or self._endpoints.memory_charge.tenant

    @property
    def reading(self) -> bool:
        """Whether reading is enabled."""
        return self._endpoints.throttle.reading

    @property
    def progress(self) -> FrameProgress | None:
        """The progress of the incomplete frame, if there is one."""
        inbound = self.inbound
        if not inbound.needed_bytes:
            return None
        return FrameProgress(inbound.frames_begun, inbound.received_bytes, inbound.needed_bytes)

    def received(self, data: bytes) -> None:
        handler = self._handler
        if handler is None:
            return
        try:
            complete = self.inbound.receive(data)
        except ProtocolError as error:
            handler.refuse(error.reason, str(error))
            return
        if self._waits:  # received before reading was paused
            self._charge(self.inbound.buffered_bytes)
        elif complete:
            if self._counts_frame:
                self._counts_frame = False
                self._endpoints.throttle.frame_arrived()
            self._handle(handler)

    def go_on(self) -> None:
        """Called when a reason for waiting may be over."""
        if self._waits:
            self._turn_loop.wait(self.tenant, self)

    def requests_answered(self) -> None:
        if self.inbound.stop is HELD:
            self.go_on()

    def costs_more(self, cost: int) -> None:
        """A command turned out to be more work than its row in `command_costs` and its size say."""
        self._further_cost += cost

    def work(self) -> str | None:
        """Processes a slice when it is this connection's turn. Returns the tenant under which to wait for the next, or None."""
        if not self._waits or self._handler is None or self._endpoints.throttle.paused:
            return None
        self._handle(self._handler)
        return self.tenant if self._waits and self.inbound.stop is BUDGET else None

    def close(self) -> None:
        """Stops processing and removes all references to the connection. Idempotent."""
        self._handler = None
        self._waits = False
        self.inbound.close()
        self._gathered_reads.close()
        self._charge(0)

    def _handle(self, handler: CommandHandler) -> None:
        """Processes what was received, as far as this turn's budget allows."""
        inbound, endpoints, turns, waited = self.inbound, self._endpoints, self._turn_loop.turns, self._waits
        left = allowance = turns.allowance_of_waiting(self._usage) if waited else turns.allowance(self._usage)
        try:
            sent = acked = 0
            many = len(endpoints.producers) > MANY_PRODUCERS
            while inbound.more:
                event = inbound.next_event(left if not many or left < MANY_AT_ONCE else MANY_AT_ONCE)
                if event is None:
                    break
                if isinstance(event, SendBlock):
                    sent += len(event.frames)
                    cost = endpoints.publish(event.data, event.frames)
                    left -= cost + len(event.frames) + event.size_bytes // SEND_BYTES_A_UNIT
                elif isinstance(event, Acks):
                    acked += len(event.ids)
                    left -= len(event.ids) + endpoints.acknowledge_all(event.ids)
                else:
                    handler.command(event)
                    left -= cost_of(event.kind, event.size) + self._further_cost
                    self._further_cost = 0
            if turns.spend(self._usage, allowance - left):
                self._turn_loop.due()
            if self._next_commit.delayed:
                self._gathered_reads.read(sent, acked, endpoints.consumers)
        except ProtocolError as error:
            handler.refuse(error.reason, str(error))
        except Exception:  # a bug here closes this connection, like a fault of the peer
            log.exception("connection.failed", peer=handler.peer)
            handler.refuse("broker fault")
        finally:
            endpoints.throttle.read_done()
        if self._handler is None:
            return
        if inbound.stop is not INCOMPLETE:
            self._waits = True
            self._charge(inbound.buffered_bytes)
            endpoints.throttle.hold()
            if inbound.stop is BUDGET and not waited:
                self.go_on()
            return
        if waited:
            self._waits = False
            self._charge(0)
            endpoints.throttle.release()
        if inbound.needed_bytes:
            self._counts_frame = endpoints.throttle.frame_begins(inbound.needed_bytes)

    def _charge(self, size: int) -> None:
        before, self._charged_bytes = self._charged_bytes, size
        if size != before:
            self._endpoints.memory_charge.change(size - before)
