"""The latest value of each key of a topic, kept up to date in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from messaging.client.consuming.reader import Reader
from messaging.client.message import Key, Message
from messaging.errors import MagnetarError

logger = logging.getLogger("messaging.client")

Listener = Callable[[Key, Any], None]


class TableView(Mapping[Key, Any]):
    """A mapping from key to value; a message without a value removes its key, one without a key is left out. Made by
    `Client.table_view`, which returns when everything that is in the topic was read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._values: dict[Key, Any] = {}
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None

    def __getitem__(self, key: Key) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def listen(self, listener: Listener) -> None:
        """Called in the event loop with each change; the value is None for a key that was removed."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Returns when everything that was in the topic at the time of the call is in here."""
        await self._stop()
        try:
            while await self._reader.has_message():
                self._apply(await self._reader.read())
        finally:
            self._task = asyncio.create_task(self._follow(), name=f"magnetar table view of {self._reader.topic}")

    async def close(self) -> None:
        if self._reader.of_parent:
            return
        await self._stop()
        await self._reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _follow(self) -> None:
        try:
            while True:
                self._apply(await self._reader.read())
        except MagnetarError as error:
            logger.warning("the table view of %s ended: %s", self._reader.topic, error.message)

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _apply(self, message: Message) -> None:
        if message.key is None:
            return
        if message.null_value or (not message.payload and message.encryption is None):
            self._values.pop(message.key, None)
            value = None
        else:
            value = self._values[message.key] = message.value
        for listener in self._listeners:
            try:
                listener(message.key, value)
            except Exception:
                logger.exception("a listener of a table view failed")
