"""Stage: what the application changes or observes in passing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from messaging.client.message import MessageId, OutgoingMessage

logger = logging.getLogger("messaging.client")


class ProducerInterceptor(Protocol):
    """Both are called in the event loop and must not block."""

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        """The message to send. What it raises is raised by `send`, and nothing is sent."""

    def after_receipt(self, message: OutgoingMessage, message_id: MessageId | None, error: BaseException | None) -> None:
        """With the id, or with the error. What it raises is logged."""


def before_send(interceptors: Sequence[ProducerInterceptor], message: OutgoingMessage) -> OutgoingMessage:
    for interceptor in interceptors:
        message = interceptor.before_send(message)
    return message


def after_receipt(
    interceptors: Sequence[ProducerInterceptor], message: OutgoingMessage, message_id: MessageId | None, error: BaseException | None
) -> None:
    for interceptor in interceptors:
        try:
            interceptor.after_receipt(message, message_id, error)
        except Exception:
            logger.exception("an interceptor failed after a receipt")
