"""Bookies and metadata of a simulation: what they store, what a crash takes, and what they check whenever somebody changes
something.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from messaging.bookkeeper.core.entries import NO_ENTRY
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState
from messaging.bookkeeper.core.packets import Status
from tests.simulation.checker import Violated


@dataclass
class Bookie:
    """`volatile` are entries that reads see and a crash takes: their journal is not on the disk yet, and nobody was told that
    they are.

    In `limbo` it was emptied and knows that there was something: it cannot say that it does not have an entry.
    """

    name: str
    entries: dict[int, bytes] = field(default_factory=dict)
    volatile: dict[int, bytes] = field(default_factory=dict)
    ever_stored: set[int] = field(default_factory=set)
    fenced: bool = False
    limbo: bool = False
    read_only: bool = False
    key: bytes | None = None
    life: int = 0  # counts starts: what was under way before does not go on
    up: bool = True
    paused: bool = False

    def crash(self) -> None:
        self.up, self.paused = False, False
        self.volatile.clear()
        self.life += 1

    def empty(self) -> None:
        self.entries.clear()
        self.limbo = self.fenced = True  # as bookies do that find their disks empty and look up what they should have

    def add(self, entry_id: int, body: bytes, key: bytes, recovery: bool) -> Status:
        """OK: it is volatile. The answer is to wait for `sync`."""
        if self.key not in (None, key):
            return Status.UNAUTHORIZED
        self.key = key
        if self.fenced and not recovery:
            return Status.FENCED
        if self.read_only:
            return Status.READ_ONLY
        self.volatile[entry_id] = body
        return Status.OK

    def sync(self, entry_id: int) -> None:
        if entry_id in self.volatile:
            self.entries[entry_id] = self.volatile.pop(entry_id)
        self.ever_stored.add(entry_id)

    def read(self, entry_id: int, fence_key: bytes | None) -> tuple[Status, bytes]:
        if fence_key is not None:
            if self.key not in (None, fence_key):
                return Status.UNAUTHORIZED, b""
            self.key, self.fenced = fence_key, True
        if entry_id == NO_ENTRY:
            entry_id = max([*self.entries, *self.volatile], default=NO_ENTRY)
        body = self.volatile.get(entry_id) or self.entries.get(entry_id)
        if body is not None:
            return Status.OK, body
        if self.limbo:
            return Status.UNKNOWN_LEDGER_STATE, b""
        return (Status.NO_ENTRY if self.entries or self.volatile or self.fenced else Status.NO_LEDGER), b""


class Metadata:
    """One ledger's, changed by compare and set. Closed is final."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.stored = replace(metadata, version=0)

    def write(self, metadata: LedgerMetadata) -> LedgerMetadata | None:
        """What is stored now, or None if the version was another one."""
        before = self.stored
        if metadata.version != before.version:
            return None
        if before.is_closed:
            raise Violated(f"a closed ledger was changed: {before} to {metadata}")
        if before.state is LedgerState.IN_RECOVERY and metadata.state is LedgerState.OPEN:
            raise Violated("a ledger that was in recovery was opened again")
        decoded = LedgerMetadata.decode(metadata.ledger_id, metadata.encode())
        if any(len(set(segment.ensemble)) < metadata.ensemble_size for segment in decoded.segments):
            raise Violated(f"a bookie is in an ensemble twice: {decoded.segments}")
        if decoded.segments[: len(before.segments) - 1] != before.segments[:-1]:
            raise Violated(f"segments that are complete were changed: {before.segments} to {decoded.segments}")
        self.stored = replace(decoded, version=(before.version or 0) + 1)
        return self.stored
