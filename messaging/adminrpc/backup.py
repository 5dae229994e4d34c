"""Admin RPC: what a backup asks of each broker whose files it copies."""

from __future__ import annotations

from typing import Annotated

import msgspec

from messaging.adminrpc.base import Answer, Request
from messaging.limits.model import Limit

BackupId = Annotated[str, Limit("an id that the backup gave itself", bytes_max=64)]
KEEP_S_MAX = 300


class BackupHold(Request, kw_only=True):
    """Nothing more becomes durable until `backup.keep`, for a few seconds at most; and files that are needed no longer stay."""

    backup_id: BackupId


class BackupKeep(Request, kw_only=True):
    """Ends the hold, and keeps files that are needed no longer for `keep_s` from now on; 0: the backup has ended."""

    backup_id: BackupId
    keep_s: Annotated[int, Limit("seconds", minimum=0, maximum=KEEP_S_MAX)]


class HeldFile(msgspec.Struct, frozen=True):
    """See `messaging/storage/local/image.py`."""

    name: str
    stop_bytes: int
    size_bytes: int
    sealed: bool


class BackupHeld(Answer, kw_only=True):
    """`log`: the directory of the broker's log; empty where its messages are in a database. The files of the log, and the content
    of the small ones."""

    broker_id: str
    version: str
    log: str
    files: list[HeldFile]
    small_files: dict[str, str]


class BackupLedgers(Request, kw_only=True):
    """After `backup.keep`, of a broker whose ledgers are copied from the bookies. `after_ledger_id`: the last of the page before.
    Raises not_ready as `backup.keep` does, and where messages are elsewhere."""

    backup_id: BackupId
    after_ledger_id: Annotated[int, Limit("a ledger's id", minimum=-1, maximum=(1 << 63) - 1)] = -1


class LedgersNoted(Answer, kw_only=True):
    """Ids and last blocks, as in `messaging/storage/noted_ledgers.py`; an empty page is the last one. `scopes`, on the first page:
    in which the broker was writing, and the epoch that it had each in."""

    ends: list[tuple[int, int]]
    scopes: dict[str, int]
