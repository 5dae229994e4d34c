"""What the application changes or observes as messages pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from messaging.client.message import Message, MessageId

logger = logging.getLogger("messaging.client")


# (topic or partition, whether this consumer gets its messages)
ActiveChanged = Callable[[str, bool], None]


class ConsumerInterceptor(Protocol):
    """All are called in the event loop and must not block. What they raise is logged."""

    def before_receive(self, message: Message) -> Message:
        """The message that the application gets; its id must stay."""

    def on_ack(self, message_id: MessageId, *, cumulative: bool) -> None: ...

    def on_nack(self, message_id: MessageId) -> None: ...


def before_receive(interceptors: Sequence[ConsumerInterceptor], message: Message) -> Message:
    for interceptor in interceptors:
        try:
            message = interceptor.before_receive(message)
        except Exception:
            logger.exception("an interceptor failed before a message was received")
    return message


def on_ack(interceptors: Sequence[ConsumerInterceptor], message_id: MessageId, *, cumulative: bool) -> None:
    for interceptor in interceptors:
        try:
            interceptor.on_ack(message_id, cumulative=cumulative)
        except Exception:
            logger.exception("an interceptor failed on an acknowledgement")


def on_nack(interceptors: Sequence[ConsumerInterceptor], message_id: MessageId) -> None:
    for interceptor in interceptors:
        try:
            interceptor.on_nack(message_id)
        except Exception:
            logger.exception("an interceptor failed on a negative acknowledgement")


def active_changed(callback: ActiveChanged, topic: str, *, active: bool) -> None:
    try:
        callback(topic, active)
    except Exception:
        logger.exception("the callback of a change of the active consumer failed")
