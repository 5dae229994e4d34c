"""Sessions of WebSocket consumers and readers: they push a window of messages and receive acknowledgements and commands."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Literal

from messaging.broker.http.context import EdgeCounters
from messaging.broker.http.websocket.dead_letters import MOVING_MAX, WebSocketDeadLetters, is_lasting
from messaging.broker.http.websocket.frames import (
    BAD_JSON,
    ConsumerCommand,
    InvalidFrame,
    end_of_topic_frame,
    message_frame,
    read_command,
    read_position,
)
from messaging.broker.http.websocket.link import POLICY, Link
from messaging.broker.http.websocket.memory import MemoryReservation, TenantMemory
from messaging.broker.http.websocket.message_queue import MessageQueue
from messaging.broker.http.websocket.window import QUEUED_BYTES_MAX, PushWindow, TimedPositions
from messaging.broker.runtime.local.messages import ConsumerHandle, DeliveredMessage, MessagePosition
from messaging.errors import InvalidValue, MagnetarError

logger = logging.getLogger(__name__)

CryptoFailureAction = Literal["FAIL", "DISCARD", "CONSUME"]
"""What becomes of an encrypted message: it is not sent and stays unacknowledged, or is acknowledged; or it is sent as it is."""

PAIR_OVERHEAD_BYTES = 128  # of a property, beside its texts
MESSAGE_OVERHEAD_BYTES = 256  # what a queued message costs beside its payload
TIMED_POSITIONS_MAX = 50_000  # a connection's positions that wait for a time
POSITION_BYTES = 256  # what one of them costs
MOVE_AGAIN_S = 1.0  # a dead letter that was not stored stays away as long at least, twice as long each time that it is not
MOVE_AGAIN_DOUBLINGS = 6


class _Receiving:
    """What consumers and readers share: messages queue up here until the peer takes them."""

    def __init__(
        self, link: Link, window: PushWindow, counters: EdgeCounters, memory: TenantMemory, encrypted: CryptoFailureAction
    ) -> None:
        self._link = link
        self._encrypted = encrypted
        self._memory = memory
        self._window = window
        self._counters = counters
        self._handle: ConsumerHandle | None = None
        self._queue = MessageQueue()
        self._answers: deque[str] = deque()
        self._ended = False
        self._acknowledged: list[MessagePosition] = []
        self._flushing = False

    # From the broker

    def attach(self, handle: ConsumerHandle) -> None:
        self._handle = handle

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        if any(message.encryption is not None for message in messages):
            messages = self._without_encrypted(messages)
        self._queue.extend(messages)
        sizes = [_size_bytes(message) for message in messages]
        self._window.arrived(sizes)
        self._memory.take(sum(sizes))
        self._link.wake()

    def _without_encrypted(self, messages: Sequence[DeliveredMessage]) -> list[DeliveredMessage]:
        """The broker has no keys: an encrypted message is a failure to decrypt, and the client has said what that means."""
        if self._encrypted == "CONSUME":
            return list(messages)
        kept = [message for message in messages if message.encryption is None]
        self._window.passed_over(len(messages) - len(kept))
        if self._encrypted == "DISCARD":
            self._acknowledged += [message.position for message in messages if message.encryption is not None]
        self._flush_soon()
        return kept

    def end_of_topic(self) -> None:
        self._ended = True

    def closed(self, error: MagnetarError | None) -> None:
        self._handle = None
        self._link.end_for(error)

    def topic_added(self) -> None:
        self._ended = False

    def withdraw(self, partition: int, topic: str = "") -> int:
        gone = self._queue.take_out(partition, topic)
        if gone:
            sizes = [_size_bytes(message) for message in gone]
            self._window.withdrawn(sizes)
            self._memory.give(sum(sizes))
        return len(gone)

    # From the link

    def start(self) -> None:
        self._ask()

    def accepting(self) -> bool:
        return len(self._answers) < self._window.limit

    def close(self) -> None:
        self._send_acknowledgements()
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        self._memory.give(sum(map(_size_bytes, self._queue)))
        self._queue.clear()

    def _take(self) -> DeliveredMessage | None:
        if not self._queue or not self._window.may_send:
            return None
        message = self._queue.popleft()
        size = _size_bytes(message)
        self._window.sent(size)
        self._memory.give(size)
        self._counters.messages_out += 1
        self._ask()
        return message

    def _ask(self) -> None:
        if self._handle is not None:
            permits = self._window.to_ask(self._room_bytes)
            if permits:
                self._handle.flow(permits)

    @property
    def _room_bytes(self) -> int:
        return self._memory.share

    def _flush_soon(self) -> None:
        """Acknowledges and asks for more once the frames that came together have all been read: one block, not one by one."""
        if not self._flushing:
            self._flushing = True
            self._link.soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._send_acknowledgements()
        self._ask()
        self._link.wake()  # there is room for what waits

    def _send_acknowledgements(self) -> None:
        positions, self._acknowledged = self._acknowledged, []
        if positions and self._handle is not None:
            asyncio.ensure_future(self._handle.ack(positions)).add_done_callback(_log_failure)

    def _next_answer(self) -> str:
        self._link.wake()  # the reader may continue
        return self._answers.popleft()

    def _answer_end_of_topic(self) -> None:
        self._answers.append(end_of_topic_frame(self._ended and not self._queue))
        self._link.wake()


class ConsumerSession(_Receiving):
    """`nack_delay_s` is how long a negatively acknowledged message stays away; `ack_timeout_s` 0 for none."""

    def __init__(
        self,
        link: Link,
        window: PushWindow,
        counters: EdgeCounters,
        memory: TenantMemory,
        encrypted: CryptoFailureAction,
        *,
        positions: MemoryReservation,
        nack_delay_s: float,
        ack_timeout_s: float = 0,
        dead_letters: WebSocketDeadLetters | None = None,
    ) -> None:
        super().__init__(link, window, counters, memory, encrypted)
        self._dead_letters = dead_letters
        self._moving_bytes = 0
        if dead_letters is not None:
            dead_letters.owner = self
        self._positions = positions
        self._nacked = TimedPositions(nack_delay_s)
        self._put_off: dict[float, TimedPositions] = {}  # dead letters that were not stored, by how long they stay away
        self._unacknowledged = TimedPositions(ack_timeout_s) if ack_timeout_s > 0 else None

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        if self._dead_letters is not None:
            messages, dead = self._dead_letters.split(messages)
            if dead:
                sizes = [_size_bytes(message) for message in dead]
                self._window.passed_over(len(dead), max(sizes))
                self._hold(sum(sizes))
                self._dead_letters.move(dead)
                self._flush_soon()
        super().deliver(messages)

    def _hold(self, change_bytes: int) -> None:
        """Of the messages that are on their way to the dead letter topic."""
        self._moving_bytes += change_bytes
        self._memory.take(max(0, change_bytes))
        self._memory.give(max(0, -change_bytes))

    def moved(self, messages: Sequence[DeliveredMessage]) -> None:
        self._hold(-sum(map(_size_bytes, messages)))
        self._acknowledged += [message.position for message in messages]
        self._flush_soon()

    def not_moved(self, messages: Sequence[DeliveredMessage], error: MagnetarError) -> None:
        self._hold(-sum(map(_size_bytes, messages)))
        if is_lasting(error):  # the client has to know: it does not get them
            self._link.end(POLICY, f"the dead letter topic: {error.message}")
            return
        for message in messages:
            self._move_again_later(message)
        self._flush_soon()

    def _move_again_later(self, message: DeliveredMessage) -> None:
        """The delay of negative acknowledgements may be 0, and nobody would wait for the other side here."""
        assert self._dead_letters is not None
        doublings = min(self._dead_letters.refused_times(message), MOVE_AGAIN_DOUBLINGS)
        delay_s = max(self._nacked.delay_s, MOVE_AGAIN_S * 2**doublings)
        self._remember(self._put_off.setdefault(delay_s, TimedPositions(delay_s)), message.position)

    def next_frame(self) -> str | None:
        if self._answers:
            return self._next_answer()
        message = self._take()
        if message is None:
            return None
        if self._unacknowledged is not None:
            if message.position in self._unacknowledged:  # sent before its topic was unloaded: the two have one place
                self._window.acknowledged()
                self._flush_soon()
            self._remember(self._unacknowledged, message.position)
        return message_frame(message)

    async def on_text(self, text: str) -> None:
        command = read_command(text)
        match command.type:
            case "permit":
                self._permit(command)
            case "unsubscribe":
                if self._handle is not None:
                    await self._handle.unsubscribe()
            case "isEndOfTopic":
                self._answer_end_of_topic()
            case "negativeAcknowledge":
                self._redeliver_later(self._released(command))
            case _:
                position = self._released(command)
                for timed in (self._nacked, *self._put_off.values()):
                    timed.discard(position)
                self._acknowledged.append(position)

    def _ask(self) -> None:
        self._count_positions()
        if self._moves_enough:
            return
        count = self._put_off_count + (len(self._unacknowledged) if self._unacknowledged is not None else 0)
        if not count or (count < TIMED_POSITIONS_MAX and self._may_keep_positions):
            super()._ask()

    @property
    def _moves_enough(self) -> bool:
        """Whether others have to wait until some of the dead letters that are on their way are stored."""
        moving = self._dead_letters.moving if self._dead_letters is not None else 0
        return moving > 0 and (moving >= MOVING_MAX or self._room_bytes <= 0)

    @property
    def _room_bytes(self) -> int:
        return min(self._memory.share, QUEUED_BYTES_MAX - self._moving_bytes)

    @property
    def _put_off_count(self) -> int:
        return sum(map(len, self._put_off.values()))

    @property
    def _may_keep_positions(self) -> bool:
        """One block of messages may always be out: those that wait are what makes room."""
        return self._positions.room or self._positions.size_bytes < self._window.limit * POSITION_BYTES

    def _count_positions(self) -> None:
        count = len(self._nacked) + (len(self._unacknowledged) if self._unacknowledged is not None else 0) + self._put_off_count
        self._positions.set(count * POSITION_BYTES)

    def close(self) -> None:
        super().close()
        if self._dead_letters is not None:
            self._dead_letters.close()
        self._hold(-self._moving_bytes)
        self._positions.set(0)

    def _redeliver_later(self, position: MessagePosition) -> None:
        if len(self._nacked) < TIMED_POSITIONS_MAX and self._positions.room:
            self._remember(self._nacked, position)
        elif self._handle is not None:
            self._handle.nack([position])

    def _permit(self, command: ConsumerCommand) -> None:
        if command.permit_messages is None:
            raise InvalidFrame(BAD_JSON, "permitMessages is missing: send the number of permits")
        self._window.granted(max(0, command.permit_messages))
        self._flush_soon()

    def _released(self, command: ConsumerCommand) -> MessagePosition:
        """The message that the client is done with for now, which makes room for another."""
        position = read_position(command.message_id)
        if self._unacknowledged is not None:
            self._unacknowledged.discard(position)
        self._window.acknowledged()
        self._flush_soon()
        return position

    def _remember(self, timed: TimedPositions, position: MessagePosition) -> None:
        now_s = self._link.now_s()
        timed.add(position, now_s)
        self._count_positions()
        if len(timed) == 1:
            self._wait_for(timed, now_s)

    def _wait_for(self, timed: TimedPositions, now_s: float) -> None:
        if timed.next_due_s is not None:
            self._link.after(max(0.0, timed.next_due_s - now_s), lambda: self._redeliver_due(timed))

    def _redeliver_due(self, timed: TimedPositions) -> None:
        now_s = self._link.now_s()
        due = timed.take_due(now_s)
        if due and self._handle is not None:
            self._handle.nack(due)
            if timed is self._unacknowledged:
                self._window.acknowledged(len(due))  # they come again, and need room to
            self._flush_soon()
        self._wait_for(timed, now_s)


class ReaderSession(_Receiving):
    """A reader has no durable subscription: messages are acknowledged when they are sent, and each command from the client,
    whatever it says, allows another message."""

    def next_frame(self) -> str | None:
        if self._answers:
            return self._next_answer()
        message = self._take()
        if message is None:
            return None
        self._acknowledged.append(message.position)
        self._flush_soon()
        return message_frame(message)

    async def on_text(self, text: str) -> None:
        command = read_command(text)
        if command.type == "isEndOfTopic":
            self._answer_end_of_topic()
            return
        self._window.acknowledged()
        self._flush_soon()


def _size_bytes(message: DeliveredMessage) -> int:
    size = len(message.payload) + MESSAGE_OVERHEAD_BYTES
    if message.properties:
        size += sum(len(key) + len(value) + PAIR_OVERHEAD_BYTES for key, value in message.properties.items())
    return size + len(message.key) if message.key else size


def _log_failure(done: asyncio.Future[None]) -> None:
    error = None if done.cancelled() else done.exception()
    if isinstance(error, InvalidValue):
        logger.info("acknowledgement refused", extra={"reason": str(error)})
    elif error is not None:
        logger.warning("acknowledgement failed, the messages will be redelivered", extra={"reason": str(error)})
