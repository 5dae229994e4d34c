"""The cursors that a broker has in memory, and saving them to MetaStore, so that one failure does not affect others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from messaging.storage.ledger_store import Fence, Position, StoreError
from messaging.storage.meta_store import MetaStore

SAVED_TOGETHER_MAX = 200  # cursors packed per turn of the event loop
SAVED_BYTES_MAX = 1 << 20  # bytes of their snapshots, or one larger snapshot

State = tuple[int, Position, bytes]  # subscription id, mark-delete, snapshot


class StoredCursor(Protocol):
    mark_delete: Position

    def snapshot(self) -> bytes: ...


class CursorSnapshots:
    """`cursors`, by subscription id, are those of loaded topics, and those that could not be saved when their topic was unloaded:
    the next load or checkpoint takes them from here. `unsaved` are those that could not be saved at the last attempt."""

    def __init__(self, meta: MetaStore, fence: Fence) -> None:
        self.cursors: dict[int, StoredCursor] = {}
        self.unsaved: set[int] = set()
        self._meta = meta
        self._fence = fence

    def forget(self, subscription_id: int) -> None:
        self.cursors.pop(subscription_id, None)
        self.unsaved.discard(subscription_id)

    async def save(self, ids: Iterable[int]) -> dict[int, Exception]:
        """Saves those of `ids` that are in memory; returns those that could not be saved, and why. Raises `StoreError` if the store
        accepts nothing at all.

        A snapshot is submitted in the same step in which it is taken, so a later save is always newer."""
        failed: dict[int, Exception] = {}
        saved = 0
        for states in self._slices(sorted(ids), failed):
            errors = await self._save(states)
            failed |= errors
            saved += len(states) - len(errors)
            if not saved and len(errors) > 1:
                break
        refused = next((error for error in failed.values() if isinstance(error, StoreError)), None)
        if refused is not None and not saved:
            raise refused
        self.unsaved |= failed.keys()
        return failed

    def _slices(self, ids: list[int], failed: dict[int, Exception]) -> Iterator[list[State]]:
        """Yields snapshots, as many at a time as one turn of the event loop may produce."""
        states: list[State] = []
        size = 0
        for subscription_id in ids:
            cursor = self.cursors.get(subscription_id)
            if cursor is None:
                continue
            try:
                snapshot = cursor.snapshot()
            except Exception as error:
                failed[subscription_id] = error
                continue
            states.append((subscription_id, cursor.mark_delete, snapshot))
            size += len(snapshot)
            if len(states) == SAVED_TOGETHER_MAX or size >= SAVED_BYTES_MAX:
                yield states
                states, size = [], 0
        if states:
            yield states

    async def _save(self, states: list[State]) -> dict[int, Exception]:
        """Saves them together; if the store refuses, one by one, each with its current state."""
        try:
            await self._meta.save_cursors(self._fence, states)
            self.unsaved.difference_update(subscription_id for subscription_id, _, _ in states)
            return {}
        except Exception as error:
            if len(states) == 1:
                return {subscription_id: error for subscription_id, _, _ in states}
        failed: dict[int, Exception] = {}
        for subscription_id, _, _ in states:
            cursor = self.cursors.get(subscription_id)
            if cursor is None:
                continue  # saved and dropped meanwhile
            try:
                await self._meta.save_cursors(self._fence, [(subscription_id, cursor.mark_delete, cursor.snapshot())])
                self.unsaved.discard(subscription_id)
            except Exception as error:
                failed[subscription_id] = error
        return failed
