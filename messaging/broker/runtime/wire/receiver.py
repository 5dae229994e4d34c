"""The bytes of one connection between the socket and the work they ask for: what was read is handled in slices; the rest waits.

What a read brought is handled at once as far as the turn of the loop allows (`core/turn_budget.py`). What is left waits, charged to
its tenant's memory, and nothing more is read in the meantime. It continues
  - in a later turn, where it was the turn's budget that ended;
  - when the read throttle lets it, where the disk is behind;
  - when requests were answered, or answers were read, where too many of them are pending: a connection is never cut for those.
Commands of one connection are handled in the order in which they came, whatever holds them up.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from messaging.broker.core.command_costs import SEND_BYTES_A_UNIT, cost_of
from messaging.broker.core.frame_progress import FrameProgress
from messaging.broker.core.turn_budget import TurnUsage
from messaging.broker.runtime.turn_loop import TurnLoop, Worker
from messaging.broker.runtime.wire.endpoints import Endpoints
from messaging.protocol.events import Acks, Command, SendBlock
from messaging.protocol.frames import ProtocolError
from messaging.protocol.inbound import BUDGET, HELD, INCOMPLETE, Inbound

log = structlog.get_logger("broker.connection")

MANY_PRODUCERS = 64  # of one connection: from here on a read may be as many blocks as messages
MANY_AT_ONCE = 512  # messages, or acknowledgements, that are then handled before the cost is looked at again


class CommandHandler(Protocol):
    """What acts on everything but messages and plain acknowledgements, and is told how the connection ends."""

    peer: str

    def command(self, command: Command) -> None:
        """Raises `ProtocolError`."""

    def refuse(self, reason: str, detail: str = "") -> None: ...


class Receiver:
    __slots__ = (
        "_charged_bytes",
        "_counts_frame",
        "_endpoints",
        "_handler",
        "_turn_loop",
        "_usage",
        "_waits",
        "inbound",
    )

    def __init__(self, inbound: Inbound, endpoints: Endpoints, handler: CommandHandler, turn_loop: TurnLoop[Worker]) -> None:
        self.inbound = inbound
        self._endpoints = endpoints
        self._handler: CommandHandler | None = handler  # None: the connection has ended
        self._turn_loop = turn_loop
        self._usage = TurnUsage()
        self._waits = False  # something that was read is left, and nothing more is read
        self._counts_frame = False  # the read throttle counts the frame that is still coming
        self._charged_bytes = 0

    @property
    def tenant(self) -> str:
        """Whose turn it is when this continues: of those who are not known, their address."""
        return self._endpoints.throttle.quota.tenant or self._endpoints.memory_charge.tenant

    @property
    def reading(self) -> bool:
        """Whether the peer is listened to."""
        return self._endpoints.throttle.reading

    @property
    def progress(self) -> FrameProgress | None:
        """The frame that is still coming, if there is one."""
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
        if self._waits:  # it was on its way when reading was paused
            self._charge(self.inbound.buffered_bytes)
        elif complete:
            if self._counts_frame:
                self._counts_frame = False
                self._endpoints.throttle.frame_arrived()
            self._handle(handler)

    def go_on(self) -> None:
        """What kept the rest waiting is over, perhaps."""
        if self._waits:
            self._turn_loop.wait(self.tenant, self)

    def requests_answered(self) -> None:
        if self.inbound.stop is HELD:
            self.go_on()

    def work(self) -> str | None:
        """Its turn has come. Returns the tenant whose turn it has to wait for again."""
        if not self._waits or self._handler is None or self._endpoints.throttle.paused:
            return None
        self._handle(self._handler)
        return self.tenant if self._waits and self.inbound.stop is BUDGET else None

    def close(self) -> None:
        """Nothing is handled any more, and nothing leads from here to the connection. Idempotent."""
        self._handler = None
        self._waits = False
        self.inbound.close()
        self._charge(0)

    def _handle(self, handler: CommandHandler) -> None:
        """What is there, as far as the turn allows."""
        inbound, endpoints, turns, waited = self.inbound, self._endpoints, self._turn_loop.turns, self._waits
        left = allowance = turns.allowance_of_waiting(self._usage) if waited else turns.allowance(self._usage)
        try:
            many = len(endpoints.producers) > MANY_PRODUCERS
            while inbound.more:
                event = inbound.next_event(left if not many or left < MANY_AT_ONCE else MANY_AT_ONCE)
                if event is None:
                    break
                if isinstance(event, SendBlock):
                    cost = endpoints.publish(event.data, event.frames)
                    left -= cost + len(event.frames) + event.size_bytes // SEND_BYTES_A_UNIT
                elif isinstance(event, Acks):
                    left -= len(event.ids) + endpoints.acknowledge_all(event.ids)
                else:
                    handler.command(event)
                    left -= cost_of(event.kind, event.size)
            if turns.spend(self._usage, allowance - left):
                self._turn_loop.due()
        except ProtocolError as error:
            handler.refuse(error.reason, str(error))
        except Exception:  # a bug ends this connection, as a fault of the peer does
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
