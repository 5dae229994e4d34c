"""Reads a topic from where the caller says, and leaves no trace: no subscription, no acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from messaging.client.consuming.consumer import Consumer
from messaging.client.consuming.partition import Sought
from messaging.client.errors import Closed
from messaging.client.message import EARLIEST, LATEST, Message, MessageId


class Reader:
    """Made by `Client.reader`. Also after a break of the connection each message comes once, in order."""

    def __init__(self, consumer: Consumer, start: MessageId, *, inclusive: bool) -> None:
        self._consumer = consumer
        self._start = start
        self._inclusive = inclusive
        self._last: dict[str, tuple[Sought | None, MessageId]] = {}  # since which seek it was read

    @property
    def topic(self) -> str:
        return self._consumer.topic

    @property
    def of_parent(self) -> bool:
        """This process was forked after it was made."""
        return self._consumer.of_parent

    async def read(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `ReceiveTimedOut`, `Closed`."""
        while True:
            message = await self._consumer.receive(timeout_s)
            if self._is_old(message):
                continue  # where it began again, or where it was to begin
            self._last[message.topic] = self._consumer.sought(message.topic), message.id
            return message

    async def has_message(self) -> bool:
        """Whether `read` would return without waiting for a message that is yet to be sent."""
        while not await self._has_queued():
            lasts = await self._consumer.last_message_ids()
            if self._consumer.queued_messages:
                continue  # it arrived meanwhile
            return self._any_is_ahead(lasts)
        return True

    async def _has_queued(self) -> bool:
        while (message := self._consumer.next_message) is not None:
            if not self._is_old(message):
                return True
            await self._consumer.receive()  # here it begins again
        return False

    def _is_old(self, message: Message) -> bool:
        last = self._position(message.topic)
        return last is not None and message.id[:3] <= last[:3]

    def _position(self, topic: str) -> MessageId | None:
        """Everything up to this message was read, or is left out."""
        sought = self._consumer.sought(topic)
        since, last = self._last.get(topic, (None, None))
        if last is not None and since is sought:
            return last
        target = self._target(topic)
        if isinstance(target, int) or target in (EARLIEST, LATEST) or (sought is None and self._inclusive):
            return None
        return target

    def _target(self, topic: str) -> MessageId | int:
        """Where it began there last."""
        sought = self._consumer.sought(topic)
        return self._start if sought is None else sought.target

    def _any_is_ahead(self, lasts: Mapping[str, MessageId]) -> bool:
        """`lasts`: of each topic or partition. Nothing is queued."""
        arrived = self._consumer.arrived_last
        for topic, last in lasts.items():
            read = self._position(topic)
            if topic in arrived and arrived[topic] >= last[:2]:
                continue  # what is left of it is no message that can be read
            if last.entry_id >= 0 and not (read is None and self._target(topic) == LATEST):
                if read is None or (last.ledger_id, last.entry_id) > (read.ledger_id, read.entry_id):
                    return True
                if (last.ledger_id, last.entry_id) == (read.ledger_id, read.entry_id) and last.batch_index > read.batch_index:
                    return True
        return False

    async def seek(self, target: MessageId | int) -> None:
        """Continues after a message, or at the first that was published at this time or later (ms since 1970). Where the broker was
        not asked, or refused, it continues where it was: of several partitions, in those."""
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
