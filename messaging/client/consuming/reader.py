"""Reads a topic from where the caller says, and leaves no trace: no subscription, no acknowledgements."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from messaging.client.consuming.consumer import Consumer
from messaging.client.errors import Closed
from messaging.client.message import EARLIEST, LATEST, Message, MessageId


class Reader:
    """Made by `Client.reader`. Also after a break of the connection each message comes once, in order."""

    def __init__(self, consumer: Consumer, start: MessageId, *, inclusive: bool) -> None:
        self._consumer = consumer
        self._last: dict[str, MessageId] = {}
        self._skip = None if inclusive or start in (EARLIEST, LATEST) else start
        self._from_latest = start == LATEST

    @property
    def topic(self) -> str:
        return self._consumer.topic

    async def read(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `ReceiveTimedOut`, `Closed`."""
        while True:
            message = await self._consumer.receive(timeout_s)
            last = self._last.get(message.topic, self._skip)
            if last is not None and message.id[:3] <= last[:3]:
                continue  # where it began again, or where it was to begin
            self._last[message.topic] = message.id
            return message

    async def has_message(self) -> bool:
        """Whether `read` would return without waiting for a message that is yet to be sent."""
        if self._consumer.queued_messages:
            return True
        for topic, last in (await self._consumer.last_message_ids()).items():
            read = self._last.get(topic, self._skip)
            if last.entry_id >= 0 and not (read is None and self._from_latest):
                if read is None or (last.ledger_id, last.entry_id) > (read.ledger_id, read.entry_id):
                    return True
                if (last.ledger_id, last.entry_id) == (read.ledger_id, read.entry_id) and last.batch_index > read.batch_index:
                    return True
        return False

    async def seek(self, target: MessageId | int) -> None:
        """Continues after a message, or at the first that was published at this time or later (ms since 1970)."""
        self._last.clear()
        self._from_latest = target == LATEST
        self._skip = target if isinstance(target, MessageId) and target not in (EARLIEST, LATEST) else None
        await self._consumer.seek(target, inclusive=True)  # the message itself is skipped here

    async def close(self) -> None:
        await self._consumer.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.read()
        except Closed as closed:
            if closed.__cause__ is not None:
                raise
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
