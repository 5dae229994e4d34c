"""The local store: one append-only segmented log for all ledgers of a directory. Start reading at `store.py`.

store.py        the calls of `LedgerStore`, on the loop; config.py
log.py          the parts of an open log, each with one owner:
                environment, log_thread (whose turn it is), background, segments, ledgers
format/         what is on the disk: records, segments, segment summaries, the snapshot of the index, the directory
write/          queue -> writer (the loop, or the log thread) -> commit, active: the end of the log;
                allocator: space for it; sealer, seal: what gets no more commits
read/           reader -> ledger_state (the index in memory), index, footers (the index on the disk)
recover/        recovery -> snapshot, catalog, replay, commit_scan; snapshot_writer; inspect, verify: `magnetar log`
reclaim/        reclaimer -> rewrite; dead_bytes; rate_limiter
device/         disk: the interface to it; direct: past the page cache, with buffers; aio: without waiting
"""

from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.store import LocalLedgerStore

__all__ = ["Durability", "LocalConfig", "LocalLedgerStore"]
