"""The local store: one append-only segmented log for all ledgers of a directory. Start reading at `store.py`.

calls       store.py: the interface's, on the loop; config.py; directory.py: lock, format, epoch
appending   writer.py -> commit_queue.py -> log_writer.py (the loop, or the log thread) -> layout.py, active.py: the segment
reading     reader.py -> state.py: the index in memory; locate.py, footers.py: the index on the disk, by threads; intact.py
the format  records.py: commits; segment.py: files; digest.py: checkpoints and footers
files       log.py: all of them, and maintenance aside from commits; segment_files.py; sealing.py
the disk    disk.py: the interface to it; direct.py: past the page cache, from and into io_memory.py; completions.py: without
waiting
opening     recovery.py -> snapshot.py, catalog.py, replay.py; hints.py: the last checkpoint; snapshots.py: when one is written
damage      scan.py: judges it
space       reclaim.py -> rewrite.py; burials.py: what a deleted ledger leaves; pace.py: how fast
tools       inspect.py, verify.py: `magnetar log`
"""

from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.store import LocalLedgerStore

__all__ = ["Durability", "LocalConfig", "LocalLedgerStore"]
