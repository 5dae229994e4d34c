"""The receiving side of a connection without a socket: bytes in, events out, and the state of the session. Pure.

Pass the bytes of a read to `receive`, then call `next_event` until it returns None; `stop` then holds the reason. All complete
messages and plain acknowledgements up to the next command are scanned in one pass and returned as one event each. Nothing blocks,
and no received bytes are lost: unused ones are kept. Both methods raise `ProtocolError` if the peer violates the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.events import Acks, Command, Event, SendBlock
from messaging.protocol.field_limits import over_limit
from messaging.protocol.frames import ProtocolError
from messaging.protocol.hot import SendFrame
from messaging.protocol.session import ALWAYS, RULES, State, TooMuchBeforeSignIn, following

PIECES_MAX = 1024  # limit for a frame that arrives in tiny reads: each read is an object of its own
ACKS_MAX = 512  # in one event: each may be for a different consumer
# Looked up for each read, and protobuf enums are slow.
SEND, ACK, CONNECT = int(pb.Command.SEND), int(pb.Command.ACK), int(pb.Command.CONNECT)


class Stop(Enum):
    """The reason why there is no further event."""

    INCOMPLETE = auto()  # the next frame is incomplete or there is none
    BUDGET = auto()  # the requested number of messages was returned
    HELD = auto()  # the next command is not admitted for now


INCOMPLETE, BUDGET, HELD = Stop.INCOMPLETE, Stop.BUDGET, Stop.HELD  # looked up for each read


class Inbound:
    """`admits`: whether a command of this type and size is admitted now; called once the peer is authenticated. Messages and plain
    acknowledgements are always admitted."""

    __slots__ = (
        "_admits",
        "_buffer",
        "_early_bytes",
        "_early_commands",
        "_have",
        "_message_bytes_max",
        "_next",
        "_pieces",
        "_position",
        "_ready",
        "_rules",
        "frames_begun",
        "more",
        "needed_bytes",
        "state",
        "stop",
    )

    def __init__(self, message_bytes_max: int, admits: Callable[[int, int], bool]) -> None:
        self.state = State.CONNECTING
        self.stop = INCOMPLETE
        self.more = False  # there may be another event; False: none until more bytes arrive
        self.needed_bytes = 0  # size of the incomplete frame; 0: there is none
        self.frames_begun = 0  # a frame that did not arrive in one read
        self._rules = RULES[self.state]
        self._ready = False  # messages are allowed in this state
        self._admits = admits
        self._message_bytes_max = message_bytes_max + frames.FRAME_PADDING_BYTES
        self._buffer = b""  # received bytes, processed up to `_position`
        self._position = 0
        self._next: Event | None = None  # parsed but not returned yet
        self._pieces: list[bytes] = []  # of the incomplete frame; `_buffer` is then empty
        self._have = 0
        self._early_commands = 0
        self._early_bytes = 0

    # --- the session

    def accepted(self) -> None:
        """The broker authenticated the peer."""
        if self.state is State.AUTHENTICATING:
            self._enter(State.READY)

    def close(self) -> None:
        """There are no events any more."""
        self._enter(State.CLOSED)
        self._buffer, self._next, self.more = b"", None, False
        self._position = 0
        self._pieces.clear()
        self.needed_bytes = 0
        self._admits = _nothing  # it refers back to the object that created this one

    def _enter(self, state: State) -> None:
        self.state = state
        self._rules = RULES[state]
        self._ready = self._rules.messages

    # --- bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the read that are not processed yet."""
        return len(self._buffer)

    @property
    def received_bytes(self) -> int:
        """Received bytes of the incomplete frame."""
        return self._have if self._pieces else 0

    @property
    def pieces(self) -> int:
        """The number of parts in which they are kept."""
        return len(self._pieces)

    def receive(self, data: bytes) -> bool:
        """Returns whether there may be events: none while a frame is incomplete."""
        if not self._ready:
            self._count_early(data)
        if self._pieces:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self.needed_bytes:
                if len(self._pieces) > PIECES_MAX:
                    self._pieces = [b"".join(self._pieces)]
                return False
            data = b"".join(self._pieces)
            self._pieces.clear()
            self.needed_bytes = 0
        elif self._buffer:
            data = self._buffer[self._position :] + data
        self._buffer = data
        self._position = 0
        self.more = True
        return True

    def _count_early(self, data: bytes) -> None:
        self._early_bytes += len(data)
        if self._rules.bytes_max is not None and self._early_bytes > self._rules.bytes_max:
            raise TooMuchBeforeSignIn(f"more than {self._rules.bytes_max} bytes")

    def next_event(self, messages_max: int) -> Event | None:
        """Returns the next event, with about this many messages and acknowledgements at most; None if there is none."""
        if self._next is not None:
            taken, self._next = self._next, None
            self.more = bool(self._buffer)
            return taken
        self.stop = INCOMPLETE
        buf, begun, ready = self._buffer, self._position, self._ready
        position, end = begun, len(buf)
        sent: list[SendFrame] = []
        acked: list[tuple[int, int, int]] = []
        left = messages_max
        while position < end:
            kind = buf[position + 9] if end - position >= 10 and buf[position + 8] == 8 else 0
            if ready and left > 0:
                begin = position
                if kind == SEND:
                    position = hot.scan(buf, position, end, sent, False, len(sent) + left)
                elif kind == ACK and len(acked) < ACKS_MAX:
                    position = hot.scan_acks(buf, position, end, acked, min(len(acked) + left, ACKS_MAX))
                if position > begin:
                    left = messages_max - len(sent) - len(acked)
                    continue
            if end - position < 8:
                break
            total = int.from_bytes(buf[position : position + 4], "big")
            self._check_size(total, kind)
            if position + 4 + total > end:
                break
            if left <= 0:
                self.stop = BUDGET
                break
            if sent or acked:
                self._position = position
                return self._block(buf, sent, acked, position - begun)
            if ready and not self._admits(kind, total):
                self.stop = HELD
                break
            self._position = position + 4 + total
            return self._command(buf, position, total)
        if self.stop is not INCOMPLETE:
            self._position = position
        elif position < end:
            self._keep(buf[position:] if position else buf)
        else:
            self._buffer = b""
            self.more = False
        if acked or not sent:
            return self._block(buf, sent, acked, position - begun) if acked else None
        return SendBlock(buf, sent, position - begun)

    def _block(self, buf: bytes, sent: list[SendFrame], acked: list[tuple[int, int, int]], size: int) -> Event:
        """Acknowledgements first: they may unblock other producers' or consumers' messages."""
        if not acked:
            return SendBlock(buf, sent, size)
        if sent:
            self._next, self.more = SendBlock(buf, sent, size), True
        return Acks(acked)

    def _command(self, buf: bytes, position: int, total: int) -> Command:
        if self._rules.commands_max is not None:
            self._early_commands += 1
            if self._early_commands > self._rules.commands_max:
                raise ProtocolError(f"more than {self._rules.commands_max} commands before authentication")
        message = frames.decode(memoryview(buf)[position + 4 : position + 4 + total])
        kind = message.type
        violation = None if kind in ALWAYS else over_limit(message)
        if violation is None and (kind == CONNECT or kind not in self._rules.accepts):
            self._enter(following(self.state, kind))
        return Command(kind, message, total, violation)

    def _check_size(self, total: int, kind: int) -> None:
        limit = self._message_bytes_max
        if not self._rules.messages or (kind and kind != SEND and total > 6):
            limit = min(limit, self._rules.command_bytes_max)
        if total > limit:
            raise ProtocolError(f"a frame of {total} bytes is larger than the limit of {limit}")
        if total < 6:
            raise ProtocolError(f"a frame of {total} bytes contains no command")

    def _keep(self, rest: bytes) -> None:
        """All whole frames are processed; `rest` is the beginning of the next one."""
        self._buffer = b""
        self.more = False
        self._pieces.append(rest)
        self._have = len(rest)
        self.needed_bytes = 8
        self.frames_begun += 1
        if len(rest) >= 4:
            total = int.from_bytes(rest[:4], "big")
            self._check_size(total, rest[9] if len(rest) >= 10 and rest[8] == 8 else 0)
            self.needed_bytes = 4 + total


def _nothing(kind: int, size: int) -> bool:
    return False
