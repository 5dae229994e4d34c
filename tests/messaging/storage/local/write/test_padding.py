"""Zeros written ahead of small commits: whole pages, within the segment, no more than they are worth, and nothing to a reader."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import PAGE_BYTES, Segment, name_of
from messaging.storage.local.write.active import PADDED_COMMIT_BYTES_MAX, PADDING_BYTES, ActiveSegment
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.ledger_entries import Results, read_all
from tests.support.storage.owning import started

SIZE = 4 << 20


def fresh(size_bytes: int = SIZE) -> ActiveSegment:
    path = Path("/log") / name_of(1, 0)
    return ActiveSegment(Segment(1, 0, path, 7, size_bytes), FakeDisk().open(path, create=True), 64)


@given(st.lists(st.integers(1, 3 * PADDED_COMMIT_BYTES_MAX), max_size=60), st.integers(200_000, SIZE))
def test_every_page_is_written_whole_and_nothing_past_the_end(commits: list[int], size_bytes: int) -> None:
    active, written = fresh(size_bytes), PAGE_BYTES
    for commit_bytes in commits:
        stop = active.offset + commit_bytes
        if stop > size_bytes:
            break
        zeros = active.padding(stop, commit_bytes)
        until = stop + zeros
        assert until <= size_bytes
        assert bool(zeros) == (stop > written and until > stop)  # what was written ahead is not written again
        written = max(written, until)
        assert written % PAGE_BYTES == 0 or written == size_bytes
        if commit_bytes > PADDED_COMMIT_BYTES_MAX:
            assert zeros < PAGE_BYTES
        active.offset = stop


def test_small_commits_write_no_more_zeros_than_they_fill() -> None:
    active, random, zeros = fresh(), Random(5), 0
    for _ in range(400):
        commit_bytes = random.randint(1, 8000)
        active.offset += commit_bytes
        zeros += active.padding(active.offset, commit_bytes)
    assert zeros <= active.offset + PADDING_BYTES + PAGE_BYTES


async def test_a_log_with_zeros_behind_it_opens_as_it_was_and_reports_nothing() -> None:
    disk, config = FakeDisk(), LocalConfig(segment_bytes=1 << 20, reserved_bytes=1 << 20)
    written: list[bytes] = []
    for round_ in range(3):
        store = LocalLedgerStore("/log", config, disk=disk)
        fence = await started(store)
        assert store.damage == []
        for ledger_id in range(1, round_ + 1):
            assert await read_all(await store.open(ledger_id), 39) == written[40 * (ledger_id - 1) : 40 * ledger_id]
        writer, results = await store.create(fence, round_ + 1, {}), Results()
        for number in range(40):
            payload = b"%d-%d" % (round_, number)
            written.append(payload)
            results.append(writer, [payload])
            await results.wait(number + 1)
        left = disk.power_loss(Random(round_))
        await store.stop()
        disk = left
