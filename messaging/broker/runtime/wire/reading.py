"""The bytes of one connection between the socket and the work they ask for: whole frames are handled, in slices; the rest waits.

What a read brought is handled at once as far as the turn of the loop allows (`core/turns.py`). What is left waits here, in the
memory of its tenant, and nothing more is read meanwhile. It goes on
  - in a later turn, where it was the turn's budget that ended;
  - when the gate reads on, where the disk is behind;
  - when requests were answered, or answers were read, where too many of them are pending: a connection is never cut for those.
Commands of one connection are handled in the order in which they came, whatever holds them up.

Before a peer is known it may send a handful of small commands, and nothing that has to wait.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

import structlog

from messaging.broker.core.command_costs import SEND_BYTES_A_UNIT, cost_of
from messaging.broker.core.frame_progress import FrameProgress
from messaging.broker.core.turn_budget import TurnUsage
from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError
from messaging.protocol.hot import SendFrame

if TYPE_CHECKING:
    from messaging.broker.runtime.wire.connection import Connection

log = structlog.get_logger("broker.connection")

EARLY_COMMANDS_MAX = 8  # before sign-in: CONNECT, an answer to a challenge, and a few PINGs of a client that waits
EARLY_BYTES_MAX = frames.COMMAND_BYTES_MAX + 1024
PIECES_MAX = 1024  # of a frame that comes in tiny reads: each is an object of its own
MANY_PRODUCERS = 64  # of one connection: from here on a read may be as many blocks as messages
MANY_AT_ONCE = 512  # messages, or acknowledgements, that are then handled before the cost is looked at again
# What is handled while requests are pending or answers pile up: it takes nothing that would be kept, and may be what ends the wait.
SEND, ACK = int(pb.Command.SEND), int(pb.Command.ACK)  # looked up for each read, and protobuf takes its time
NOT_A_REQUEST = frozenset({pb.Command.SEND, pb.Command.FLOW, pb.Command.PONG, pb.Command.CONNECT})
SMALL_ANSWER = frozenset({pb.Command.ACK})  # handled while answers pile up: acknowledging is what a consumer that reads slowly does


class Stop(Enum):
    """Why no further frame was handled."""

    INCOMPLETE = auto()  # the next one is not here yet, or there is none
    TURN = auto()  # the slice, or the turn, is used up
    REQUESTS = auto()  # too many requests are pending, or too many answers unread


INCOMPLETE, TURN, REQUESTS = Stop.INCOMPLETE, Stop.TURN, Stop.REQUESTS  # looked up for each read


class Reading:
    __slots__ = (
        "_charged_bytes",
        "_connection",
        "_early_bytes",
        "_early_commands",
        "_frames_begun",
        "_have",
        "_need",
        "_pieces",
        "_rest",
        "_rest_at",
        "_stop",
        "_turn_loop",
        "_turns",
        "_used",
    )

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turn_loop = connection.service.peers.turn_loop
        self._turns = self._turn_loop.turns
        self._used = TurnUsage()
        self._early_commands = 0
        self._early_bytes = 0
        self._pieces: list[bytes] = []  # of a frame that is still coming
        self._have = 0
        self._need = 0
        self._frames_begun = 0
        self._rest: bytes | None = None  # what was read and not handled, from `_rest_at` on
        self._rest_at = 0
        self._stop = INCOMPLETE
        self._charged_bytes = 0

    @property
    def tenant(self) -> str:
        """Whose turn it is when this goes on: of those who are not known, their address."""
        return self._connection.intake.quota.tenant or self._connection.address

    @property
    def arriving(self) -> FrameProgress | None:
        """The frame that is still coming, if there is one."""
        return FrameProgress(self._frames_begun, self._have, self._need) if self._pieces else None

    def received(self, data: bytes) -> None:
        if self._connection.principal is None:
            self._early_bytes += len(data)
            if self._early_bytes > EARLY_BYTES_MAX:
                self._connection.refuse("too much before sign-in", f"more than {EARLY_BYTES_MAX} bytes")
                return
        if self._rest is not None:  # it was on its way when reading was paused
            self._wait(self._rest[self._rest_at :] + data, 0, self._stop)
            return
        if self._pieces:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._need:
                if len(self._pieces) > PIECES_MAX:
                    self._pieces = [b"".join(self._pieces)]
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._connection.intake.frame_came()
        self._handle(data, 0)

    def go_on(self) -> None:
        """What kept the rest waiting is over, perhaps."""
        if self._rest is not None and not self._connection.closed:
            self._turn_loop.wait(self.tenant, self)

    def requests_answered(self) -> None:
        if self._stop is REQUESTS:
            self.go_on()

    def work(self) -> str | None:
        """Its turn has come. Returns the tenant whose turn it has to wait for again."""
        if self._rest is None or self._connection.closed or self._connection.intake.paused:
            return None
        self._handle(self._rest, self._rest_at)
        return self.tenant if self._rest is not None and self._stop is TURN else None

    def close(self) -> None:
        self._pieces.clear()
        self._rest = None
        self._stop = INCOMPLETE
        self._charge(0)

    # --- handling

    def _handle(self, buf: bytes, position: int) -> None:
        connection, turns = self._connection, self._turns
        again = self._rest is not None
        allowance = turns.allowance_of_waiting(self._used) if again else turns.allowance(self._used)
        stop = TURN
        if allowance > 0:
            try:
                position, left, stop = self._take(buf, position, allowance)
                if turns.spend(self._used, allowance - left):
                    self._turn_loop.due()
            except ProtocolError as error:
                connection.refuse(error.reason, str(error))
            except Exception:  # a fault of ours ends this connection, as a fault of the peer does
                log.exception("connection.failed", peer=connection.peer, client=connection.client_version)
                connection.refuse("broker fault")
            finally:
                connection.intake.read_done()
        if connection.closed:
            return
        if stop is not INCOMPLETE:
            self._wait(buf, position, stop)
            if stop is TURN and not again:
                self.go_on()
            return
        if again:
            self._rest = None
            self._charge(0)
            connection.intake.release()
        if position < len(buf):
            self._keep(buf[position:] if position else buf)

    def _take(self, buf: bytes, position: int, left: int) -> tuple[int, int, Stop]:
        """Handles whole frames of `buf` for about `left` units: where it stopped, what is left of them, and why it stopped."""
        connection = self._connection
        end = len(buf)
        sent: list[SendFrame] = []
        stop = INCOMPLETE
        while position < end and not connection.closed:
            kind = buf[position + 9] if end - position >= 10 and buf[position + 8] == 8 else 0
            if kind == SEND and left > 0 and connection.principal is not None:
                begin, before = position, len(sent)
                many = len(connection.producers) > MANY_PRODUCERS
                position = hot.scan(buf, position, end, sent, False, before + (min(left, MANY_AT_ONCE) if many else left))
                left -= len(sent) - before + (position - begin) // SEND_BYTES_A_UNIT
                if many and sent:
                    left -= connection.publish(buf, sent)
                    sent = []
                if position > begin:
                    continue
            elif kind == ACK and left > 0 and connection.principal is not None:
                acked: list[tuple[int, int, int]] = []
                position = hot.scan_acks(buf, position, end, acked, MANY_AT_ONCE)
                if acked:
                    left -= len(acked) + connection.acknowledge_all(acked)
                    continue
            if end - position < 8:
                break
            total = int.from_bytes(buf[position : position + 4], "big")
            if total <= 6:
                kind = 0
            self.check_size(total, kind)
            if position + 4 + total > end:
                break
            if left <= 0:
                stop = TURN
                break
            if kind not in NOT_A_REQUEST and connection.principal is not None and connection.requests_wait(kind, total):
                stop = REQUESTS
                break
            # What was sent before a command is handed on before it: a close waits for the receipts.
            if sent:
                left -= connection.publish(buf, sent)
                sent = []
            left -= cost_of(self._command(buf, position, total), total)
            position += 4 + total
        if sent:
            left -= connection.publish(buf, sent)
        return position, left, stop

    def _command(self, buf: bytes, position: int, total: int) -> int:
        """Returns its type."""
        connection = self._connection
        if connection.principal is None:
            self._early_commands += 1
            if self._early_commands > EARLY_COMMANDS_MAX:
                raise ProtocolError(f"more than {EARLY_COMMANDS_MAX} commands before sign-in")
        command = frames.decode(memoryview(buf)[position + 4 : position + 4 + total])
        connection.commands.handle(connection, command, total)
        return command.type

    def check_size(self, total: int, kind: int) -> None:
        """Raises `ProtocolError`."""
        connection = self._connection
        limit = connection.service.settings.message_bytes_max + frames.FRAME_PADDING_BYTES
        if connection.principal is None:
            limit = frames.COMMAND_BYTES_MAX
        elif kind and kind != SEND:
            limit = min(limit, frames.OPEN_COMMAND_BYTES_MAX)
        if total > limit:
            raise ProtocolError(f"a frame of {total} bytes is larger than the {limit} that are allowed here")
        if total < 6:
            raise ProtocolError(f"a frame of {total} bytes holds no command")

    # --- what waits

    def _wait(self, buf: bytes, position: int, stop: Stop) -> None:
        """From `position` on `buf` is handled later, and nothing is read meanwhile."""
        self._rest, self._rest_at, self._stop = buf, position, stop
        self._charge(len(buf))
        self._connection.intake.hold()

    def _keep(self, rest: bytes) -> None:
        """The beginning of a frame."""
        self._pieces.append(rest)
        self._have = len(rest)
        self._need = 8
        self._frames_begun += 1
        if len(rest) >= 4:
            total = int.from_bytes(rest[:4], "big")
            try:
                self.check_size(total, rest[9] if len(rest) >= 10 and rest[8] == 8 else 0)
            except ProtocolError as error:
                self._connection.refuse(error.reason, str(error))
                return
            self._need = 4 + total
            self._connection.intake.frame_begins(self._need)

    def _charge(self, size: int) -> None:
        before, self._charged_bytes = self._charged_bytes, size
        if size != before:
            self._connection.charge(size - before)


class Ended(Reading):
    """Of a connection that is gone: nothing is read, and nothing leads back to the connection."""

    __slots__ = ()

    def __init__(self) -> None:
        self._pieces = []

    def close(self) -> None:
        pass

    def received(self, data: bytes) -> None:
        pass

    def go_on(self) -> None:
        pass

    def requests_answered(self) -> None:
        pass


ENDED = Ended()
