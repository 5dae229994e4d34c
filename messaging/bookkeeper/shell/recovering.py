"""Carrying out a recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set

from messaging.bookkeeper.core.actions import Finished, RecoveryAction, SendAdd, SendRead, WriteMetadata
from messaging.bookkeeper.core.entries import Digest
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.packets import Answer
from messaging.bookkeeper.core.recovery import Recovery
from messaging.bookkeeper.metadata.store import MetadataStore
from messaging.bookkeeper.shell.bookies import Bookies
from messaging.bookkeeper.shell.metadata_writes import write_for


class LedgerRecovery:
    """One run. Cancelling it leaves the ledger as it is then; run another one."""

    def __init__(self, metadata: LedgerMetadata, digest: Digest, bookies: Bookies, store: MetadataStore) -> None:
        self._digest = digest
        self._bookies = bookies
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._machine = Recovery(metadata, digest, self._choose)
        self._done: asyncio.Future[LedgerMetadata] = self._loop.create_future()
        self._writing: asyncio.Task[None] | None = None

    async def run(self) -> LedgerMetadata:
        """The metadata of the closed ledger. Raises `Unavailable` (try again), `WrongPassword`, `NoSuchLedger`."""
        self._take(self._machine.start())
        try:
            return await self._done
        finally:
            if self._writing is not None:
                self._writing.cancel()

    def _choose(self, ensemble: tuple[str, ...], slots: Set[int], avoid: Set[str]) -> dict[int, str]:
        return self._bookies.replacements(ensemble, slots, avoid, self._machine.metadata.write_quorum)

    def _take(self, actions: Iterable[RecoveryAction]) -> None:
        generation = self._machine.generation
        for action in actions:
            if self._done.done():
                return
            if isinstance(action, SendRead):
                self._send_read(generation, action)
            elif isinstance(action, SendAdd):
                self._send_add(generation, action)
            elif isinstance(action, WriteMetadata):
                self._writing = self._loop.create_task(self._write_metadata(action.metadata))
            elif isinstance(action, Finished):
                self._done.set_result(action.metadata)
            else:
                self._done.set_exception(action.error)

    def _send_read(self, generation: int, action: SendRead) -> None:
        """Always with the fence: without it on the reads of entries, a writer could still complete one that was taken for
        absent.
        """

        def answered(answer: Answer) -> None:
            arguments = (generation, action.slot, action.bookie, action.entry_id, answer.status, answer.body)
            # Later: an answer that is there at once must not reach the machine before it has sent the rest.
            self._loop.call_soon(lambda: self._take(self._machine.answered(*arguments)))

        self._bookies.read(action.bookie, self._machine.metadata.ledger_id, action.entry_id, self._digest.master_key, answered)

    def _send_add(self, generation: int, action: SendAdd) -> None:
        def answered(answer: Answer) -> None:
            arguments = (generation, action.slot, action.bookie, action.entry_id, answer.status)
            self._loop.call_soon(lambda: self._take(self._machine.added(*arguments)))

        key = self._digest.master_key
        self._bookies.add(action.bookie, self._machine.metadata.ledger_id, action.entry_id, key, action.body, True, answered)

    async def _write_metadata(self, metadata: LedgerMetadata) -> None:
        self._take(await write_for(self._machine, self._store, metadata, self._bookies.config.metadata_timeout_s))
