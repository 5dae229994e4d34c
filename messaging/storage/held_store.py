"""A ledger store that can be held still for a moment, so that a backup of it and of the metadata beside it are of that moment.

A store that keeps what it confirms elsewhere, and whose content is copied there, has no image: to be held is all that it is asked
for. If nothing there tells what it was at the moment, it says where its ledgers ended (`NotingStore`). One that cannot be held is
backed up with its broker stopped.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from messaging.storage.local.image import LogImage
from messaging.storage.noted_ledgers import NotedLedgers


@runtime_checkable
class HeldStore(Protocol):
    async def hold(self) -> None:
        """Returns when nothing is being made durable, and nothing will be until `resume`; what is asked for waits. Raises
        `StoreError`."""

    def resume(self) -> None:
        """Does nothing to a store that is not held."""

    async def image(self) -> LogImage | None:
        """Which files the held store consists of; None: none of its own. Raises `StoreError`."""

    def keep_files(self, kept: bool) -> None:
        """Whether files that are needed no longer stay as they are, since they are being copied."""


@runtime_checkable
class NotingStore(HeldStore, Protocol):
    @property
    def held_ledgers(self) -> NotedLedgers: ...
