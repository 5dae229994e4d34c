"""Admin RPC: holds the log still for a moment, while a backup notes what there is of it, and keeps its files while they are copied.

Several brokers, and the databases beside them, are of one moment if all are held at it. Clients notice a pause of some
milliseconds: what they publish waits, and so do acknowledgements that are to be answered.
"""

from __future__ import annotations

import asyncio

from messaging import logs
from messaging.adminrpc.backup import BackupHeld, BackupHold, BackupKeep, BackupLedgers, HeldFile, LedgersNoted
from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import BACKUP_HOLD, BACKUP_KEEP, BACKUP_LEDGERS
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.errors import Conflict, NotReady, StorageFailed
from messaging.storage.held_store import HeldStore, NotingStore
from messaging.storage.ledger_store import StoreError
from messaging.version import VERSION

HOLD_S_MAX = 5.0  # a backup that is killed meanwhile holds clients up no longer
FIRST_KEEP_S = 60.0
PAGE_ENDS_MAX = 20_000

log = logs.get_logger("broker")


class BackupHandlers:
    """One backup at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store: HeldStore | None = None  # of the backup that is under way
        self._backup_id = ""
        self._holds = False
        self._ran_out = False  # it held for too long: what came meanwhile need not belong together
        self._end_of_hold: asyncio.TimerHandle | None = None
        self._end_of_keep: asyncio.TimerHandle | None = None

    @answers(BACKUP_HOLD)
    async def hold(self, request: BackupHold) -> BackupHeld:
        if self._backup_id:
            raise Conflict("another backup is under way: wait for its end, or two minutes if it was killed")
        store = self._broker.storage.ledgers
        if not isinstance(store, HeldStore):
            raise NotReady("where this broker keeps its messages cannot be copied while it runs: docs/backup.md says what can be")
        loop = asyncio.get_running_loop()
        self._store = store
        self._backup_id, self._holds, self._ran_out = request.backup_id, True, False
        self._end_of_hold = loop.call_later(HOLD_S_MAX, self._run_out)
        self._keep(FIRST_KEEP_S)
        try:
            store.keep_files(True)
            await store.hold()
            image = await store.image()
        except StoreError as error:
            self._end()
            raise StorageFailed(f"the log cannot be held for a backup: {error}") from error
        except BaseException:
            self._end()
            raise
        files = [HeldFile(file.name, file.stop_bytes, file.size_bytes, file.sealed) for file in image.files] if image else []
        return BackupHeld(
            broker_id=self._broker.settings.broker_id,
            version=VERSION,
            log=str(self._broker.settings.broker_path / "log") if image else "",
            files=files,
            small_files=image.small_files if image else {},
        )

    @answers(BACKUP_KEEP)
    async def keep(self, request: BackupKeep) -> Empty:
        self._require(request.backup_id)
        ran_out, self._ran_out = self._ran_out, False
        self._resume()
        if request.keep_s:
            self._keep(request.keep_s)
        else:
            self._end()
        if ran_out:
            raise NotReady(
                f"the broker was to be held for more than {HOLD_S_MAX:g} s, and went on: try again when less is going on"
            )
        return Empty()

    @answers(BACKUP_LEDGERS)
    async def ledgers(self, request: BackupLedgers) -> LedgersNoted:
        self._require(request.backup_id)
        if not isinstance(self._store, NotingStore):
            raise NotReady("this broker has no messages on bookies: take the backup with the settings of the brokers")
        noted = self._store.held_ledgers
        ends = [(end.ledger_id, end.last_block) for end in await noted.ends(request.after_ledger_id, PAGE_ENDS_MAX)]
        self._require(request.backup_id)  # what was noted may be gone, or of another backup by now
        return LedgersNoted(ends=ends, scopes=noted.scopes if request.after_ledger_id < 0 else {})

    def _require(self, backup_id: str) -> None:
        if backup_id != self._backup_id:
            raise NotReady("the backup is not known here any more: the broker was restarted, or did not hear of it for too long")

    def _keep(self, keep_s: float) -> None:
        if self._end_of_keep is not None:
            self._end_of_keep.cancel()
        self._end_of_keep = asyncio.get_running_loop().call_later(keep_s, self._end)

    def _run_out(self) -> None:
        log.warning("backup.hold_ran_out", seconds=HOLD_S_MAX)
        self._ran_out = True
        self._resume()

    def _resume(self) -> None:
        if self._end_of_hold is not None:
            self._end_of_hold.cancel()
            self._end_of_hold = None
        if self._holds and self._store is not None:
            self._holds = False
            self._store.resume()

    def _end(self) -> None:
        self._resume()
        if self._end_of_keep is not None:
            self._end_of_keep.cancel()
            self._end_of_keep = None
        self._backup_id = ""
        if self._store is not None:
            self._store.keep_files(False)
            self._store = None
