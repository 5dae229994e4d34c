"""What the machines of this package ask their shell to do. Each names the event that answers it."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple, TypeAlias

from messaging.bookkeeper.core.entries import Body, Entry
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import BookkeeperError

# (ensemble, slots to fill anew, bookies that are out of the question) -> slot -> bookie, for as many slots as there are bookies.
ChooseReplacements: TypeAlias = Callable[[tuple[str, ...], Set[int], Set[str]], dict[int, str]]


class SendAdd(NamedTuple):
    """Store an entry; answered by `added`. `body` is the stored entry and is not changed. `attempt`: how often this slot's bookie
    was asked again before."""

    slot: int
    bookie: str
    entry_id: int
    body: Body
    attempt: int = 0


class SendRead(NamedTuple):
    """Read an entry, or with NO_ENTRY the last one that the bookie has; answered by `answered`. A recovery's reads fence."""

    slot: int
    bookie: str
    entry_id: int


class WriteMetadata(NamedTuple):
    """Store this if the stored version is still `metadata.version`.

    Answered by `metadata_written` with the new version; if it was changed meanwhile, or nobody knows whether it was stored, by
    `metadata_present` with what was read afterwards; by `metadata_failed` if neither could be had.
    """

    metadata: LedgerMetadata


class Confirmed(NamedTuple):
    """Every entry up to and with this one is acknowledged."""

    entry_id: int


class Finished(NamedTuple):
    """The ledger is closed, as this metadata says."""

    metadata: LedgerMetadata


class Failed(NamedTuple):
    """Nothing more comes of this machine."""

    error: BookkeeperError


class Arrived(NamedTuple):
    """The entry that was asked for, and which bookie had it."""

    entry: Entry
    bookie: str


WriterAction: TypeAlias = SendAdd | WriteMetadata | Confirmed | Finished | Failed
RecoveryAction: TypeAlias = SendAdd | SendRead | WriteMetadata | Finished | Failed
ReadAction: TypeAlias = SendRead | Arrived | Failed
