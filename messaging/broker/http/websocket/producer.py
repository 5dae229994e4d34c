"""The session of a WebSocket producer: each frame is a message and gets a response, in the order of the frames."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from messaging.broker.http.context import EdgeCounters
from messaging.broker.http.websocket.encryption import read_keys
from messaging.broker.http.websocket.frames import (
    UNKNOWN_ERROR,
    InvalidFrame,
    read_outgoing,
    receipt_frame,
    send_error_code,
    send_error_frame,
)
from messaging.broker.http.websocket.link import INTERNAL, Link
from messaging.broker.http.websocket.memory import SessionThrottle
from messaging.broker.http.websocket.parameters import ProducerParameters
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage, ProducerHandle
from messaging.errors import MagnetarError

logger = logging.getLogger(__name__)

PENDING_BYTES_MAX = 8 << 20  # of frames whose answers were not taken, a connection
SLOT_BYTES = 512  # what a frame costs beside its text, until its answer was taken
PENDING_MESSAGES_MAX = 10_000


@dataclass(slots=True)
class _Slot:
    """The place of one frame in the order of answers; `answer` is None until there is one."""

    context: str | None
    size_bytes: int
    answer: str | None = None


Open = Callable[[str | None], Awaitable[ProducerHandle]]
"""Opens the producer behind a session, under a name or under one that the broker chooses."""
_LASTING = (401, 403, 404)  # statuses of errors for which opening again would not help


class ProducerSession:
    """Messages of frames that came together are published together.

    A producer that the broker closes, because its topic is unloaded or terminated, is opened again for the next message. If that is
    refused, the message is, and the connection stays.
    """

    def __init__(
        self,
        link: Link,
        parameters: ProducerParameters,
        counters: EdgeCounters,
        message_bytes_max: int,
        clock_ms: Callable[[], int],
        throttle: SessionThrottle,
        open_producer: Open,
    ) -> None:
        self._throttle = throttle
        self._open = open_producer
        self._name = parameters.producer_name
        self._opening: asyncio.Task[None] | None = None
        self._closed = False
        self._link = link
        self._counters = counters
        self._message_bytes_max = message_bytes_max
        self._clock_ms = clock_ms
        self._keys = read_keys(parameters.encryption_keys)
        self._pending_max = min(max(parameters.max_pending_messages, 1), PENDING_MESSAGES_MAX)
        initial = parameters.initial_sequence_id
        self._next_sequence_id = None if initial is None else initial + 1
        self._handle: ProducerHandle | None = None
        self._slots: deque[_Slot] = deque()
        self._pending_bytes = 0
        self._gathered: list[tuple[OutgoingMessage, _Slot]] = []

    async def open(self) -> None:
        """Raises what the broker refuses with."""
        handle = await self._open(self._name)
        if self._closed:
            handle.close()
            return
        self._handle, self._name = handle, handle.producer_name

    def closed(self, error: MagnetarError | None) -> None:
        """From the broker."""
        self._handle = None
        if error is None or error.http_status in _LASTING:
            self._link.end_for(error)

    def start(self) -> None:
        pass

    def accepting(self) -> bool:
        return len(self._slots) < self._pending_max and self._pending_bytes < PENDING_BYTES_MAX and not self._throttle.paused

    async def on_text(self, text: str) -> None:
        try:
            message, context = read_outgoing(text, self._clock_ms(), self._keys)
            if len(message.payload) > self._message_bytes_max:
                reason = (
                    f"the message has {len(message.payload)} bytes; at most {self._message_bytes_max} are taken: send it in parts"
                )
                raise InvalidFrame(UNKNOWN_ERROR, reason, context)
        except InvalidFrame as error:
            answer = send_error_frame(error.code, str(error), error.context)
            self._hold(_Slot(None, SLOT_BYTES + len(answer), answer))
            self._link.wake()
            return
        if message.sequence_id is None and self._next_sequence_id is not None:
            message.sequence_id = self._next_sequence_id
        if message.sequence_id is not None and self._next_sequence_id is not None:
            self._next_sequence_id = message.sequence_id + 1
        self._counters.messages_in += 1
        slot = _Slot(context, SLOT_BYTES + len(text))  # the text is longer than all that was made of it
        self._hold(slot)
        self._gathered.append((message, slot))
        if len(self._gathered) == 1:
            self._link.soon(self._publish)

    def _hold(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._pending_bytes += slot.size_bytes
        self._throttle.take(slot.size_bytes)

    def next_frame(self) -> str | None:
        if not self._slots or self._slots[0].answer is None:
            return None
        slot = self._slots.popleft()
        self._pending_bytes -= slot.size_bytes
        self._throttle.give(slot.size_bytes)
        self._link.wake()  # the reader may continue
        return slot.answer

    def close(self) -> None:
        """What was read before is still published; its answers have nobody to go to."""
        self._closed = True
        self._publish()
        if self._opening is not None:
            self._opening.cancel()
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        self._throttle.leave()

    def _publish(self) -> None:
        if self._handle is None and self._gathered and not self._closed:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open_again())
            return
        gathered, self._gathered = self._gathered, []
        if not gathered or self._handle is None:
            return
        slots = [slot for _, slot in gathered]

        def on_receipt(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            self._answer(slots, positions, error)

        try:
            self._handle.publish([message for message, _ in gathered], on_receipt)
        except MagnetarError as error:
            self._answer(slots, None, error)

    async def _open_again(self) -> None:
        try:
            await self.open()
        except MagnetarError as error:
            gathered, self._gathered = self._gathered, []
            self._answer([slot for _, slot in gathered], None, error)
            if error.http_status in _LASTING:
                self._link.end_for(error)
        except Exception:
            logger.exception("websocket producer could not be opened again", extra={"producer": self._name})
            self._link.end(INTERNAL, "the broker failed; its log says why")
            self._gathered.clear()
        finally:
            self._opening = None
        self._publish()

    def _answer(self, slots: list[_Slot], positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
        if error is not None or positions is None:
            failed = error or MagnetarError("the broker did not confirm the message: send it again")
            code = send_error_code(failed)
            for slot in slots:
                slot.answer = send_error_frame(code, failed.message, slot.context)
        else:
            for slot, position in zip(slots, positions, strict=True):
                slot.answer = receipt_frame(position, slot.context)
        self._link.wake()
