"""Every error the data plane answers with, once: its stable code, its HTTP status and its Pulsar wire code.

    MagnetarError
    ├── InvalidName              a tenant, namespace, topic or subscription name that cannot be
    ├── AuthenticationFailed     who are you?
    ├── NotAuthorized            you may not
    ├── NotFound                 ├── TopicNotFound ├── SubscriptionNotFound ├── ConsumerNotFound
    ├── Conflict                 exists already, or is in use
    │   ├── ProducerBusy ├── ConsumerBusy
    ├── PreconditionFailed       the state does not allow it (active clients, wrong value)
    │   └── PolicyNotEnforced    this release does not enforce the policy, so it does not accept it
    ├── NotAcceptable            fields of one request contradict each other
    ├── NotAllowed               this kind of thing is not done here
    │   └── ProducerFenced ├── MessageTooLarge
    ├── TopicTerminated
    ├── QuotaExceeded            the backlog quota of the topic is passed
    ├── IncompatibleSchema
    ├── ChecksumMismatch         the bytes are not those that the client sent
    ├── NotReady                 not yet; try again
    └── StorageFailed            the disk did not do it; nothing was acknowledged

`message` says what was wrong and what to do. Wire codes are the numbers of `ServerError` in Pulsar's protocol.
"""

from __future__ import annotations


class MagnetarError(Exception):
    code = "internal"
    http_status = 500
    wire_code = 0  # UnknownError

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidName(MagnetarError):
    code, http_status, wire_code = "invalid_name", 412, 17


class InvalidValue(MagnetarError):
    code, http_status, wire_code = "invalid_value", 400, 22


class AuthenticationFailed(MagnetarError):
    """`role` and `key_id`: of a token that we made and that holds no longer; empty for whatever anybody could have sent."""

    code, http_status, wire_code = "authentication_failed", 401, 3
    role = key_id = ""

    def of(self, role: str, key_id: str) -> AuthenticationFailed:
        self.role, self.key_id = role, key_id
        return self


class NotAuthorized(MagnetarError):
    code, http_status, wire_code = "not_authorized", 403, 4


class NotFound(MagnetarError):
    code, http_status, wire_code = "not_found", 404, 11


class TopicNotFound(NotFound):
    code, wire_code = "topic_not_found", 11


class SubscriptionNotFound(NotFound):
    code, wire_code = "subscription_not_found", 12


class ConsumerNotFound(NotFound):
    code, wire_code = "consumer_not_found", 1  # MetadataError, which clients try again


class Conflict(MagnetarError):
    code, http_status, wire_code = "conflict", 409, 22


class ProducerBusy(Conflict):
    code, wire_code = "producer_busy", 16


class ConsumerBusy(Conflict):
    code, wire_code = "consumer_busy", 5


class PreconditionFailed(MagnetarError):
    code, http_status, wire_code = "precondition_failed", 412, 22


class PolicyNotEnforced(PreconditionFailed):
    code = "policy_not_enforced"


class NotAcceptable(MagnetarError):
    code, http_status, wire_code = "not_acceptable", 406, 22


class NotAllowed(MagnetarError):
    code, http_status, wire_code = "not_allowed", 405, 22


class ProducerFenced(NotAllowed):
    code, http_status, wire_code = "producer_fenced", 409, 25


class MessageTooLarge(NotAllowed):
    code, http_status, wire_code = "message_too_large", 413, 22


class TopicTerminated(MagnetarError):
    code, http_status, wire_code = "topic_terminated", 409, 15


class QuotaExceeded(MagnetarError):
    code, http_status, wire_code = "quota_exceeded", 429, 8


class IncompatibleSchema(MagnetarError):
    code, http_status, wire_code = "incompatible_schema", 409, 18


class ChecksumMismatch(MagnetarError):
    code, http_status, wire_code = "checksum_mismatch", 400, 9


class NotReady(MagnetarError):
    code, http_status, wire_code = "not_ready", 503, 6


class StorageFailed(MagnetarError):
    code, http_status, wire_code = "storage_failed", 500, 2


def _tree(root: type[MagnetarError]) -> dict[str, type[MagnetarError]]:
    found = {root.code: root}
    for sub in root.__subclasses__():
        found.update(_tree(sub))
    return found


def from_code(code: str, message: str) -> MagnetarError:
    """The error of a stable code, as it crosses the admin RPC; an unknown code becomes `MagnetarError`."""
    return _tree(MagnetarError).get(code, MagnetarError)(message)
