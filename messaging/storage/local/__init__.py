"""The local store: one append-only segmented log for all ledgers of a directory. Start reading at `store.py`.

store.py        the calls of `LedgerStore`, on the loop
recover/        recovery -> replay, header_page: opens a log; inspect, verify: `magnetar log`
log.py          the parts of an open log, each with one owner
reclaim/        reclaimer -> rewrite; dead_bytes; rate_limiter
write/          queue -> writer (the loop, or the log thread) -> commit, active: the end of the log;
                allocator: space for it; sealer, seal: what gets no more commits
snapshot/       snapshot: of the index; catalog: what it holds; snapshot_writer: when it is written
read/           reader -> index, footers (the index on the disk); commit_scan: a segment commit by commit
*.py            ledgers, segments, ledger_state (the index in memory); log_thread (whose turn it is); background; environment
format/         what is on the disk: records, segments, their summaries, the directory; config.py
device/         disk: the interface to it; direct: past the page cache, with buffers; aio: without waiting

Imports go down this list only, which a contract in `pyproject.toml` holds. What a lower part must tell a higher one, it tells
through a function that it was given.
"""

from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.store import LocalLedgerStore

__all__ = ["Durability", "LocalConfig", "LocalLedgerStore"]
