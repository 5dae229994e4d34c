"""Delayed messages that wait in a topic: cancelling and rescheduling them. Magnetar only.

Pulsar's protocol has no command for it, so it goes over REST: by the platform's web address, with the same key.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from messaging.client.failures import Unreachable
from messaging.client.message import MessageId
from messaging.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidValue,
    MagnetarError,
    NotAuthorized,
    NotFound,
    NotReady,
    PreconditionFailed,
    QuotaExceeded,
)
from messaging.protocol.names import TopicName

_BY_STATUS: dict[int, type[MagnetarError]] = {
    400: InvalidValue,
    401: AuthenticationFailed,
    403: NotAuthorized,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    429: QuotaExceeded,
}


class DelayedMessage(NamedTuple):
    """`messages`: of a batch. `size_bytes` as stored. `key` is empty for none."""

    id: MessageId
    deliver_at_ms: int
    publish_time_ms: int
    key: str
    messages: int
    size_bytes: int


class DelayedMessages:
    """Of one topic. Made by `Client.delayed`. Each call is one request, in a thread."""

    def __init__(self, topic: TopicName, url: str, tls: ssl.SSLContext | None, token: Callable[[], Awaitable[str | None]]) -> None:
        self._parts = (topic.tenant, topic.namespace_local, topic.local)
        self._url = url
        self._tls = tls
        self._token = token

    async def cancel(self, message_id: MessageId) -> bool:
        """No subscription is sent the message any more. False: it was cancelled before. Raises `NotFound` for one that does not
        wait here, or not any more."""
        changed = await self._call(lambda admin: admin.delayed.delete(*self._parts, _text(message_id)))
        return not changed["already"]

    async def reschedule(
        self, message_id: MessageId, *, deliver_at_ms: int | None = None, deliver_after_s: float | None = None
    ) -> bool:
        """The message keeps its id and comes at this time. False: it already was to come then."""
        if (deliver_at_ms is None) == (deliver_after_s is None):
            raise InvalidValue("give either deliver_at_ms, a time, or deliver_after_s, counted from now")
        body: Any = {"deliver_at_ms": deliver_at_ms} if deliver_after_s is None else {"delay_ms": round(deliver_after_s * 1000)}
        changed = await self._call(lambda admin: admin.delayed.update(*self._parts, _text(message_id), body))
        return not changed["already"]

    async def next(self, count: int = 100) -> list[DelayedMessage]:
        """Those that are due next, at most 1000."""
        page = await self._call(lambda admin: admin.delayed.list(*self._parts, limit=count))
        return [_message(item) for item in page["items"]]

    async def _call(self, work: Callable[[Any], Any]) -> Any:
        """`work` with the admin client, which is loaded here: few producers delay messages."""
        from messaging.client.admin import Admin, ApiError
        from messaging.client.admin import Unreachable as NotReached

        admin = Admin(self._url, await self._token(), tls=self._tls)
        try:
            return await asyncio.to_thread(work, admin)
        except NotReached as error:
            raise Unreachable(str(error)) from None
        except ApiError as error:
            raise _BY_STATUS.get(error.status, NotReady if error.status >= 500 else InvalidValue)(error.detail) from None


def _text(message_id: MessageId) -> str:
    """As /api/v1 writes it."""
    return f"{message_id.ledger_id}:{message_id.entry_id}:{message_id.partition}:{message_id.batch_index}"


def _message(item: Any) -> DelayedMessage:
    numbers = [int(part) for part in item["message_id"].split(":")]
    ledger_id, entry_id, partition, batch_index = [*numbers, -1, -1][:4]
    message_id = MessageId(ledger_id, entry_id, batch_index, partition)
    return DelayedMessage(
        message_id, item["deliver_at_ms"], item["publish_time_ms"], item["key"], item["messages"], item["size_bytes"]
    )
