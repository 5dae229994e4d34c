"""What the SDK raises. Everything is a `MagnetarError`, so one `except` catches all; the broker's own errors keep their class.

MagnetarError
├── AuthenticationFailed, NotAuthorized, TopicNotFound, ...   the broker refused (messaging.errors)
├── NotReady              the broker could not be reached in time
├── SendFailed            the broker refused this message
├── SendTimedOut          no receipt in time: it may or may not be stored
├── QueueFull             too much is on its way already (send_nowait)
├── MessageTooLarge       this message will never be taken
├── ReceiveTimedOut       no message in time; also a TimeoutError
└── Closed                you closed it, or it gave up; `__cause__` says why it did
"""

from __future__ import annotations

from messaging.errors import (
    AuthenticationFailed,
    Conflict,
    ConsumerBusy,
    InvalidName,
    InvalidValue,
    MagnetarError,
    MessageTooLarge,
    NotAuthorized,
    NotFound,
    NotReady,
    ProducerBusy,
    QuotaExceeded,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminated,
)

__all__ = [
    "AuthenticationFailed",
    "Closed",
    "Conflict",
    "ConsumerBusy",
    "InvalidName",
    "InvalidValue",
    "MagnetarError",
    "MessageTooLarge",
    "NotAuthorized",
    "NotFound",
    "NotReady",
    "ProducerBusy",
    "QueueFull",
    "QuotaExceeded",
    "ReceiveTimedOut",
    "SendFailed",
    "SendTimedOut",
    "SubscriptionNotFound",
    "TopicNotFound",
    "TopicTerminated",
]


class SendFailed(MagnetarError):
    """`reason_code` is a number of Pulsar's WebSocket API: 3 bad frame, 5 authentication, 6 not authorised, 7 payload, 8 other."""

    code = "send_failed"

    def __init__(self, message: str, reason_code: int = 8) -> None:
        super().__init__(message)
        self.reason_code = reason_code


class SendTimedOut(MagnetarError, TimeoutError):
    code = "send_timed_out"


class QueueFull(MagnetarError):
    code = "queue_full"


class ReceiveTimedOut(MagnetarError, TimeoutError):
    code = "receive_timed_out"


class Closed(MagnetarError):
    code = "closed"
