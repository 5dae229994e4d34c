"""The trace context of OpenTelemetry in the properties of messages, as W3C writes it: `traceparent`, `tracestate` and `baggage`.

::

    producer = await client.create_producer(topic, interceptors=[TraceContext()])
    with tracer.start_as_current_span("handle", context=context_of(message)):
        ...

Needs the `opentelemetry-api` library.
"""

from __future__ import annotations

from typing import Any

from messaging.client.message import Message, MessageId, OutgoingMessage
from messaging.errors import InvalidValue


class TraceContext:
    """An interceptor of a producer: each message carries the context of the span in which it was sent. Properties that the message
    has already are kept."""

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate
        except ImportError:
            raise InvalidValue("trace contexts need OpenTelemetry: pip install opentelemetry-api") from None
        self._inject = propagate.inject

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        carrier: dict[str, str] = {}
        self._inject(carrier)
        if carrier:
            message.properties = {**carrier, **message.properties}
        return message

    def after_receipt(self, message: OutgoingMessage, message_id: MessageId | None, error: BaseException | None) -> None:
        pass


def context_of(message: Message) -> Any:
    """The `opentelemetry.context.Context` that the message was sent in; an empty one if it carries none."""
    from opentelemetry import propagate
    from opentelemetry.context import Context

    return propagate.extract(message.properties, Context())
