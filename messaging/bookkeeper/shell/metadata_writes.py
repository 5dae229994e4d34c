"""Carrying out `WriteMetadata`: what is stored afterwards, also where the answer was lost."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import BookkeeperError, Unavailable
from messaging.bookkeeper.metadata.store import MetadataConflict, MetadataStore, UnknownOutcome

_PAUSE_S = 0.2

A = TypeVar("A")


async def write_metadata(store: MetadataStore, metadata: LedgerMetadata, timeout_s: float) -> tuple[bool, LedgerMetadata]:
    """(whether this was written, what is stored). Raises `NoSuchLedger`, and `Unavailable` after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            try:
                return True, await store.write(metadata)
            except (MetadataConflict, UnknownOutcome, Unavailable):
                pass
            while True:
                try:
                    return False, await store.read(metadata.ledger_id)
                except Unavailable:
                    await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        problem = f"the metadata of ledger {metadata.ledger_id} could not be written or read within {timeout_s:g} s"
        raise Unavailable(problem, metadata.ledger_id) from None


class MetadataMachine(Protocol[A]):
    """A writer or a recovery, as far as its writes of metadata are concerned."""

    def metadata_written(self, metadata: LedgerMetadata) -> list[A]: ...

    def metadata_present(self, metadata: LedgerMetadata) -> list[A]: ...

    def metadata_failed(self, error: BookkeeperError) -> list[A]: ...


async def write_for(machine: MetadataMachine[A], store: MetadataStore, metadata: LedgerMetadata, timeout_s: float) -> list[A]:
    """Writes it and tells the machine what came of that. Returns what the machine wants next."""
    try:
        written, stored = await write_metadata(store, metadata, timeout_s)
    except BookkeeperError as error:
        return machine.metadata_failed(error)
    return machine.metadata_written(stored) if written else machine.metadata_present(stored)
