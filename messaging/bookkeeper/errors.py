"""Every error of the package, by who can do something about it.

BookkeeperError
├── InvalidArgument          the caller: the same call will never succeed
│   └── EntryTooLarge
├── LedgerError              the ledger is not in a state that allows the call
│   ├── NoSuchLedger         deleted, or never made
│   ├── NoSuchEntry          behind the last entry
│   ├── LedgerExists         somebody else made it
│   ├── ConditionFailed      a node of the caller's is not as the call demands; nothing was changed
│   ├── LedgerClosed         this writer was closed, or failed before
│   ├── Fenced               somebody else recovered the ledger, or changed it
│   ├── WrongPassword
│   ├── WrongDigest          the ledger was written with another digest
│   └── CorruptEntry         no replica passed its digest
├── ClusterError             an operator: the cluster is not one that this client may use
│   ├── UnsupportedLayout
│   ├── MalformedMetadata
│   └── ProtocolViolation    a peer broke the protocol
└── TemporaryError           nobody: the same call may succeed later
    ├── NotEnoughBookies
    └── Unavailable          bookies or metadata did not answer; what an append became is unknown until the ledger is recovered
"""

from __future__ import annotations


class BookkeeperError(Exception):
    """`ledger_id` is None where the error is of no single ledger; `retryable`: the same call may succeed later."""

    retryable = False

    def __init__(self, message: str, ledger_id: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.ledger_id = ledger_id


class InvalidArgument(BookkeeperError):
    pass


class EntryTooLarge(InvalidArgument):
    pass


class LedgerError(BookkeeperError):
    pass


class NoSuchLedger(LedgerError):
    pass


class NoSuchEntry(LedgerError):
    pass


class LedgerExists(LedgerError):
    pass


class ConditionFailed(LedgerError):
    """`path` is that of the node."""

    def __init__(self, message: str, ledger_id: int | None, path: str) -> None:
        super().__init__(message, ledger_id)
        self.path = path


class LedgerClosed(LedgerError):
    pass


class Fenced(LedgerError):
    pass


class WrongPassword(LedgerError):
    pass


class WrongDigest(LedgerError):
    pass


class CorruptEntry(LedgerError):
    pass


class ClusterError(BookkeeperError):
    pass


class UnsupportedLayout(ClusterError):
    pass


class MalformedMetadata(ClusterError):
    pass


class AccessRefused(ClusterError):
    pass


class ProtocolViolation(ClusterError):
    pass


class TemporaryError(BookkeeperError):
    retryable = True


class NotEnoughBookies(TemporaryError):
    pass


class Unavailable(TemporaryError):
    pass
