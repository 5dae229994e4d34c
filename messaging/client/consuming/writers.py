"""The schemas that messages were written with, by topic and version. The broker is asked once for each."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from messaging.client.consuming.unpacking import UNRESOLVED, value_of
from messaging.client.message import Message
from messaging.client.schemas import Schema
from messaging.client.timing import Timing
from messaging.errors import MagnetarError, PlatformError
from messaging.protocol import pulsar_pb2 as pb

logger = logging.getLogger("messaging.client")

WRITERS_KEPT = 256
RETRY_S = 0.2

# A version -> the schema, from the broker that serves the topic.
Ask = Callable[[bytes], Awaitable[pb.Schema]]


class Writers:
    def __init__(self, schema: Schema[Any], timing: Timing) -> None:
        self._schema = schema
        self._timing = timing
        self._known: OrderedDict[tuple[str, bytes], pb.Schema | MagnetarError] = OrderedDict()

    def missing(self, message: Message) -> bool:
        return message.value is UNRESOLVED and (message.topic, message.schema_version) not in self._known

    async def load(self, message: Message, ask: Ask) -> None:
        """One try: after it the schema is known, or why there is none; or the broker could not be asked, and the next may succeed.
        Cancelled, it changed nothing."""
        schema: pb.Schema | MagnetarError
        try:
            schema = await ask(message.schema_version)
        except PlatformError as error:
            logger.info("%s: the schema of a message could not be read yet: %s", message.topic, error.message)
            await self._timing.sleep(RETRY_S)
            return
        except MagnetarError as error:
            schema = error
        self._known[message.topic, message.schema_version] = schema
        if len(self._known) > WRITERS_KEPT:
            self._known.popitem(last=False)

    def resolved(self, message: Message) -> Message:
        """With its value; that is the error where the schema is gone."""
        if message.value is not UNRESOLVED:
            return message
        writer = self._known.get((message.topic, message.schema_version))
        if writer is None or isinstance(writer, MagnetarError):
            return replace(message, value=writer)
        value = value_of(self._schema, message.payload, message.key, null=message.null_value, writer=writer)
        return replace(message, value=value)
