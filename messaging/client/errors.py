"""What the SDK raises. Everything is a `MagnetarError`, so that a single `except` catches all; the broker's errors keep their
class.

MagnetarError
├── RequestError          your fault: the same call will never succeed (messaging.errors)
│   ├── InvalidValue, InvalidName, MessageTooLarge, NotAuthorized, AuthenticationFailed, ...
│   ├── InvalidOperation  the object cannot do this, whatever its state
│   └── KeyUnavailable    your function that gives the key failed; `__cause__` is how
├── StateError            a refusal: what the call names is in a state that does not allow it (messaging.errors)
│   ├── TopicNotFound, ProducerBusy, ConsumerBusy, ProducerFenced, TopicTerminated, QuotaExceeded, IncompatibleSchema, ...
├── PlatformError         the broker's fault, or the network's: the same call may succeed later (messaging.errors)
│   ├── NotReady, StorageFailed       the broker
│   └── ConnectionLost, Unreachable   the network
├── SendFailed            the broker refused this message; `__cause__` is its error
├── SendTimedOut          no receipt in time; `__cause__` is why there was no connection, if there was none
├── QueueFull             too much is on its way already (send_nowait, or a producer that does not block)
├── DecryptionFailed      no key fits
├── ReceiveTimedOut       no message in time; also a TimeoutError
└── Closed                you closed it, or it gave up; `__cause__` says why it did

`whose_fault` and `may_be_stored` answer the two questions that a caller has.
"""

from __future__ import annotations

from typing import Literal

from messaging.client.failures import ConnectionLost, Unreachable
from messaging.errors import (
    AuthenticationFailed,
    ChecksumMismatch,
    Conflict,
    ConsumerAssign,
    ConsumerBusy,
    ConsumerNotFound,
    EncryptionRequired,
    IncompatibleSchema,
    InvalidName,
    InvalidValue,
    MagnetarError,
    MessageTooLarge,
    NotAllowed,
    NotAuthorized,
    NotFound,
    NotReady,
    PlatformError,
    ProducerBusy,
    ProducerFenced,
    QuotaExceeded,
    RequestError,
    StateError,
    StorageFailed,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminated,
)

__all__ = [
    "AuthenticationFailed",
    "Closed",
    "Conflict",
    "ConnectionLost",
    "ConsumerBusy",
    "DecryptionFailed",
    "EncryptionRequired",
    "IncompatibleSchema",
    "InvalidName",
    "InvalidOperation",
    "InvalidValue",
    "KeyUnavailable",
    "MagnetarError",
    "MessageTooLarge",
    "NotAuthorized",
    "NotFound",
    "NotReady",
    "ProducerBusy",
    "ProducerFenced",
    "QueueFull",
    "QuotaExceeded",
    "ReceiveTimedOut",
    "SendFailed",
    "SendTimedOut",
    "StorageFailed",
    "SubscriptionNotFound",
    "TopicNotFound",
    "TopicTerminated",
    "Unreachable",
    "from_wire",
    "may_be_stored",
    "whose_fault",
]

Fault = Literal["caller", "refused", "broker", "network"]


class InvalidOperation(RequestError):
    code, http_status = "invalid_operation", 405


class KeyUnavailable(RequestError):
    """The function that gives the key, or a private key, failed. What was open before is tried again."""

    code, http_status = "key_unavailable", 401


class SendFailed(MagnetarError):
    """The message is not stored."""

    code = "send_failed"


class SendTimedOut(MagnetarError, TimeoutError):
    """`written`: it left this process, so that it may be stored. `__cause__`: why there was no connection when its time was
    over."""

    code = "send_timed_out"

    def __init__(self, message: str, *, written: bool = True) -> None:
        super().__init__(message)
        self.written = written


class QueueFull(MagnetarError):
    code = "queue_full"


class DecryptionFailed(MagnetarError):
    code = "decryption_failed"


class ReceiveTimedOut(MagnetarError, TimeoutError):
    code = "receive_timed_out"


class Closed(MagnetarError):
    """`written`: a message that was on its way when it closed had left this process."""

    code = "closed"

    def __init__(self, message: str, *, written: bool = False) -> None:
        super().__init__(message)
        self.written = written


_BY_WIRE_CODE: dict[int, type[MagnetarError]] = {
    2: StorageFailed,
    3: AuthenticationFailed,
    4: NotAuthorized,
    5: ConsumerBusy,
    6: NotReady,
    7: QuotaExceeded,
    8: QuotaExceeded,
    9: ChecksumMismatch,
    11: TopicNotFound,
    12: SubscriptionNotFound,
    13: ConsumerNotFound,
    14: NotReady,
    15: TopicTerminated,
    16: ProducerBusy,
    17: InvalidName,
    18: IncompatibleSchema,
    19: ConsumerAssign,
    22: NotAllowed,
    25: ProducerFenced,
}


def from_wire(code: int, message: str) -> MagnetarError:
    """The error of a number of Pulsar's `ServerError`. Those of no class of their own may pass, so they are tried again."""
    return _BY_WIRE_CODE.get(code, NotReady)(message)


def whose_fault(error: BaseException) -> Fault:
    """Who can do something about it: "caller" change the call; "refused" change the state of what it names, or wait; "broker" and
    "network" try again later."""
    if isinstance(error, SendFailed | Closed) and error.__cause__ is not None:
        return whose_fault(error.__cause__)
    if isinstance(error, SendTimedOut | ConnectionLost) and isinstance(error.__cause__, MagnetarError):
        return whose_fault(error.__cause__)  # why there was no connection
    if isinstance(error, ConnectionLost | Unreachable | SendTimedOut | OSError):
        return "network"
    if isinstance(error, StateError):
        return "refused"
    if isinstance(error, PlatformError):
        return "broker"
    return "caller"


def may_be_stored(error: BaseException) -> bool:
    """Whether a message whose sending ended with `error` may be in the topic nevertheless."""
    return isinstance(error, SendTimedOut | Closed) and error.written
