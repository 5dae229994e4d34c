"""What threads do for the index of delayed messages. They import numpy when they are first called, so that a broker which has few
delayed messages never does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.run_jobs import Directory, Head, RunBytes, Seal

Fed = tuple[int, Sequence[bytes], bool]  # a source, its next blocks, and whether they are its last


class OpenMerge(Protocol):
    """See `run_merge.py`."""

    @property
    def hungry(self) -> list[int]: ...
    def feed(self, source: int, blocks: Sequence[bytes]) -> None: ...
    def end_of(self, source: int) -> None: ...
    def take(self) -> list[bytes]: ...
    def end(self) -> tuple[list[bytes], Directory]: ...


def directory_of(parts: Sequence[bytes]) -> Directory:
    """Raises `ValueError`."""
    from messaging.broker.core.delayed.run_format import decode_directory

    return decode_directory(b"".join(parts))


def packed(directory: Directory) -> bytes:
    from messaging.broker.core.delayed.run_format import encode_directory

    return encode_directory(directory)


def head_of(data: bytes) -> Head:
    """Raises `ValueError`."""
    from messaging.broker.core.delayed.run_head import RunHead

    return RunHead.of_block(data)


def entries_of(*blocks: bytes) -> EntrySets:
    """Those of some blocks, at least one. Raises `ValueError`."""
    from messaging.broker.core.delayed.run_format import bitmaps_of, decode_block, joined

    return bitmaps_of(joined([decode_block(block) for block in blocks]).positions)


def check(blocks: Sequence[bytes]) -> None:
    """Raises `ValueError`."""
    from messaging.broker.core.delayed.run_format import decode_block

    for data in blocks:
        decode_block(data)


def sealed(job: Seal) -> RunBytes:
    from messaging.broker.core.delayed.run_format import encode_run, of_arrays, of_slot

    return encode_run([*(of_arrays(chunk.times, chunk.positions) for chunk in job.chunks), *(of_slot(slot) for slot in job.slots)])


def merge_of(sources: int, after_ms: int, first_ledger_id: int) -> OpenMerge:
    from messaging.broker.core.delayed.run_merge import RunMerge

    return RunMerge(sources, after_ms, first_ledger_id)


def fed(merge: OpenMerge, sources: Sequence[Fed]) -> list[bytes]:
    """The blocks that are ready now. Raises `ValueError`."""
    for source, blocks, ended in sources:
        if blocks:
            merge.feed(source, blocks)
        if ended:
            merge.end_of(source)
    return [] if merge.hungry else merge.take()
