"""Every error the data plane answers with, once: its stable code, its HTTP status and its Pulsar wire code.

Grouped by who is at fault, and so by who can do something about it:

    MagnetarError
    ├── RequestError             the caller: the same request will never succeed
    │   ├── InvalidName          a tenant, namespace or topic name that is not valid
    │   │   └── InvalidSubscriptionName
    │   ├── InvalidValue         a field that is not valid
    │   ├── NotAcceptable        fields of one request contradict each other
    │   ├── ClusterNotAllowed    a cluster that is not there
    │   ├── EncryptionRequired   the namespace takes only encrypted messages
    │   ├── NotAllowed           this operation does not exist for this kind of thing
    │   │   └── MessageTooLarge
    │   ├── ChecksumMismatch     the bytes are not those that the client sent
    │   ├── AuthenticationFailed who the caller is could not be established
    │   └── NotAuthorized        the caller is known and may not do this
    ├── StateError               nobody: what the request names is not in a state that allows it
    │   ├── NotFound             ├── TopicNotFound ├── SubscriptionNotFound ├── ConsumerNotFound
    │   ├── Conflict             it exists already, or is in use ├── ProducerBusy ├── ConsumerBusy ├── SubscriptionInUse
    │   │                                                   ├── ConsumerAssign the keys of a Key_Shared subscription that it wants
    │   ├── ProducerFenced       another producer owns the topic, or took it over
    │   ├── PreconditionFailed   clients are connected, or values contradict what is stored
    │   │   ├── DeletionProtected  a policy protects it, or something in it, against deletion
    │   │   ├── PolicyNotEnforced  this release does not enforce the policy, so it does not accept it
    │   │   ├── FewerPartitions  than the topic has
    │   │   ├── InvalidRetention of which one limit is 0 and the other is not
    │   │   └── InvalidPersistence of which the quorums contradict each other
    │   ├── TopicTerminated
    │   ├── QuotaExceeded        the quota of the topic or tenant is used up
    │   │   └── BacklogHold      the backlog quota is used up, and clients are to wait
    │   └── IncompatibleSchema ├── InvalidSchema
    └── PlatformError            the platform: the same request may succeed later
        ├── NotReady             not yet: try again
        ├── UnderWay             a long change was begun and goes on
        └── StorageFailed        the disk failed; nothing was acknowledged

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


class RequestError(MagnetarError):
    """The caller has to change the request."""


class StateError(MagnetarError):
    """The request is valid; the state of what it names has to change first."""


class PlatformError(MagnetarError):
    """The caller may repeat the request."""


# --- the caller is at fault ---------------------------------------------------------------------------------------------------


class InvalidName(RequestError):
    code, http_status, wire_code = "invalid_name", 412, 17


class InvalidSubscriptionName(InvalidName):
    code, wire_code = "invalid_subscription_name", 16  # ProducerBusy, as by Pulsar: 17 is tried again by clients


class InvalidValue(RequestError):
    code, http_status, wire_code = "invalid_value", 400, 22


class NotAcceptable(RequestError):
    code, http_status, wire_code = "not_acceptable", 406, 22


class ClusterNotAllowed(RequestError):
    code, http_status, wire_code = "cluster_not_allowed", 403, 22


class EncryptionRequired(RequestError):
    code, http_status, wire_code = "encryption_required", 412, 1  # MetadataError, as by Pulsar


class NotAllowed(RequestError):
    code, http_status, wire_code = "not_allowed", 405, 22


class MessageTooLarge(NotAllowed):
    code, http_status, wire_code = "message_too_large", 413, 22


class ChecksumMismatch(RequestError):
    code, http_status, wire_code = "checksum_mismatch", 400, 9


class AuthenticationFailed(RequestError):
    """`role` and `key_id`: of a token that we made and that holds no longer; empty for whatever anybody could have sent."""

    code, http_status, wire_code = "authentication_failed", 401, 3
    role = key_id = ""

    def of(self, role: str, key_id: str) -> AuthenticationFailed:
        self.role, self.key_id = role, key_id
        return self


class NotAuthorized(RequestError):
    code, http_status, wire_code = "not_authorized", 403, 4


# --- the state does not allow it ------------------------------------------------------------------------------------------------


class NotFound(StateError):
    code, http_status, wire_code = "not_found", 404, 11


class TopicNotFound(NotFound):
    code, wire_code = "topic_not_found", 11


class SubscriptionNotFound(NotFound):
    code, wire_code = "subscription_not_found", 12


class ConsumerNotFound(NotFound):
    code, wire_code = "consumer_not_found", 1  # MetadataError, which clients try again


class Conflict(StateError):
    code, http_status, wire_code = "conflict", 409, 22


class ProducerBusy(Conflict):
    code, wire_code = "producer_busy", 16


class ConsumerBusy(Conflict):
    code, wire_code = "consumer_busy", 5


class SubscriptionInUse(Conflict):
    code, wire_code = "subscription_in_use", 1  # MetadataError, as Pulsar answers


class ConsumerAssign(Conflict):
    code, wire_code = "consumer_assign", 19


class ProducerFenced(StateError):
    code, http_status, wire_code = "producer_fenced", 409, 25


class PreconditionFailed(StateError):
    code, http_status, wire_code = "precondition_failed", 412, 22


class PolicyNotEnforced(PreconditionFailed):
    code = "policy_not_enforced"


class DeletionProtected(PreconditionFailed):
    code = "deletion_protected"


class FewerPartitions(PreconditionFailed):
    code, http_status = "fewer_partitions", 422


class InvalidRetention(PreconditionFailed):
    code, http_status = "invalid_retention", 400  # as by Pulsar, unlike other policies


class InvalidPersistence(PreconditionFailed):
    code, http_status = "invalid_persistence", 400  # the same


class TopicTerminated(StateError):
    code, http_status, wire_code = "topic_terminated", 409, 15


class QuotaExceeded(StateError):
    code, http_status, wire_code = "quota_exceeded", 429, 8


class BacklogHold(QuotaExceeded):
    """As `QuotaExceeded`, for a client that is to wait rather than fail."""

    code, http_status, wire_code = "backlog_hold", 429, 7


class IncompatibleSchema(StateError):
    code, http_status, wire_code = "incompatible_schema", 409, 18


class InvalidSchema(IncompatibleSchema):
    code, http_status, wire_code = "invalid_schema", 422, 18


# --- the platform is at fault ----------------------------------------------------------------------------------------------------


class NotReady(PlatformError):
    code, http_status, wire_code = "not_ready", 503, 6


class UnderWay(PlatformError):
    """`change`: the id under which its progress is shown."""

    code, http_status, wire_code = "under_way", 503, 6
    change = ""

    def of(self, change: str) -> UnderWay:
        self.change = change
        return self


class StorageFailed(PlatformError):
    code, http_status, wire_code = "storage_failed", 500, 2


def _tree(root: type[MagnetarError]) -> dict[str, type[MagnetarError]]:
    """Code -> class. A group has no code of its own."""
    classes = {root.code: root} if "code" in vars(root) else {}
    for sub in root.__subclasses__():
        classes.update(_tree(sub))
    return classes


def from_code(code: str, message: str) -> MagnetarError:
    """The error of a stable code, as it crosses the admin RPC; an unknown code becomes `MagnetarError`."""
    return _tree(MagnetarError).get(code, MagnetarError)(message)
