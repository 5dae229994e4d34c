"""The settings of a local store. The only job of this object is to be self-consistent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from messaging.settings import Settings

METADATA_BYTES_MAX = 64 << 10  # bytes of a message's metadata, on top of its payload


class Durability(Enum):
    """When `done` is called; each value is named after what a failure can lose."""

    SYNC = "sync"  # after fdatasync: nothing confirmed is lost
    LOSE_ON_POWER_LOSS = "lose-on-power-loss"  # after write: the kernel has it; a killed process loses nothing, a power loss may
    LOSE_ON_CRASH = "lose-on-crash"  # before write: only the process has it


@dataclass(frozen=True, slots=True)
class LocalConfig:
    durability: Durability = Durability.SYNC
    segment_bytes: int = 128 << 20  # bytes of a preallocated file; a commit that needs more gets a larger file
    commit_bytes_max: int = 8 << 20  # bytes of one commit; above it, tenants share
    commit_delay_us_max: int = 0  # how long a commit may wait for more messages where they come one by one; 0: never
    reserved_bytes: int = 64 << 20  # bytes reserved for ledgers created with properties {"reserved": ...}, for seals and deletes
    entry_bytes_max: int = (5 << 20) + METADATA_BYTES_MAX
    checkpoint_bytes: int = 16 << 20  # at most this much log is replayed after a crash
    extent_bytes_max: int = 64 << 10  # log covered by one extent of the index
    snapshot_pairs: int = 100_000  # (ledger, segment) pairs that opening the log may read; never fewer than the number of ledgers
    files_open_max: int = 64  # file descriptors kept open for reading
    rewrite_bytes_per_s: int = 16 << 20  # maximum copy rate, unless space is short
    rewrite_live_share: float = 0.5  # a sealed segment whose live share is smaller is rewritten
    reclaim_retry_s: float = 30.0  # until something that the disk refused to reclaim is tried again

    def __post_init__(self) -> None:
        if self.segment_bytes < 64 << 10:
            raise ValueError(f"segment_bytes = {self.segment_bytes} is below 65536")
        if self.segment_bytes > 1 << 31:
            raise ValueError(f"segment_bytes = {self.segment_bytes} is above 2 GiB: offsets in a segment have 32 bits")
        if self.commit_bytes_max > 1 << 30 or self.entry_bytes_max > 1 << 30:
            raise ValueError("commit_bytes_max and entry_bytes_max must not pass 1 GiB")

    @classmethod
    def from_settings(cls, settings: Settings) -> LocalConfig:
        return cls(
            durability=Durability(settings.durability),
            segment_bytes=settings.segment_bytes,
            commit_bytes_max=settings.commit_bytes_max,
            commit_delay_us_max=settings.commit_delay_us_max,
            reserved_bytes=settings.reserved_bytes,
            entry_bytes_max=settings.message_bytes_max + METADATA_BYTES_MAX,
        )
