"""Direct I/O compared with a model of the file, and buffered I/O where a file system has no direct I/O."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messaging.storage.ledger_store import Buffer
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.device import direct, disk
from messaging.storage.local.device.aio import AioContext, Done
from messaging.storage.local.device.buffers import BufferPool
from messaging.storage.local.device.direct import PAGE_BYTES, DirectWriter, open_direct
from messaging.storage.local.device.disk import DiskFile, OsDisk, OsFile
from tests.support.examples import examples
from tests.support.storage.ledger_entries import Results, read_all
from tests.support.storage.owning import started

FILE_BYTES = 64 * PAGE_BYTES
STAGING_BYTES = 2 * PAGE_BYTES  # of the tests: most writes take several pieces


@pytest.fixture
def file(tmp_path: Path) -> Iterator[DiskFile]:
    made = OsDisk(STAGING_BYTES).open(tmp_path / "file", create=True)
    made.allocate(FILE_BYTES)
    yield made
    made.close()


CYCLE = bytes(range(1, 256))  # no zeros


def pattern(size: int, seed: int) -> bytes:
    start = seed % len(CYCLE)
    return (CYCLE * (size // len(CYCLE) + 2))[start : start + size]


def parts_of(data: bytes, cuts: list[int]) -> list[Buffer]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parts = [data[start:stop] for start, stop in pairwise(places)]
    return [memoryview(part) if index % 2 else part for index, part in enumerate(parts)]


writes = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "begun", "begun", "jump", "cached"]),
        st.integers(0, FILE_BYTES),
        st.integers(0, 3 * STAGING_BYTES),
        st.lists(st.integers(0, 3 * STAGING_BYTES), max_size=3),
        st.sampled_from([0, 0, 10, STAGING_BYTES]),
    ),
    max_size=12,
)


class AtOnce(AioContext):
    """What is begun has ended when `write` returns."""

    def __init__(self) -> None:
        """Without the kernel's queue."""

    def write(self, descriptor: int, address: int, size: int, offset: int, done: Done) -> None:
        assert address % PAGE_BYTES == size % PAGE_BYTES == offset % PAGE_BYTES == 0
        os.pwritev(descriptor, [(ctypes.c_char * size).from_address(address)], offset)
        done(None)

    def read(self, descriptor: int, address: int, size: int, offset: int, done: Done) -> None:
        assert address % PAGE_BYTES == size % PAGE_BYTES == offset % PAGE_BYTES == 0
        os.preadv(descriptor, [(ctypes.c_char * size).from_address(address)], offset)
        done(None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150), deadline=None)
@given(writes)
def test_a_direct_write_ends_with_zeros_to_the_end_of_the_page(
    file: OsFile, steps: list[tuple[str, int, int, list[int], int]]
) -> None:
    file.write([pattern(FILE_BYTES, 200)], 0)  # of an earlier life
    model = bytearray(pattern(FILE_BYTES, 200))
    stop = 0
    began: list[OSError | None] = []
    for number, (kind, place, size, cuts, padding_bytes) in enumerate(steps):
        offset = stop if kind in ("next", "begun") else place
        size = min(size, FILE_BYTES - offset)
        data = pattern(size, number)
        if kind == "cached":  # as footers and seals are written, elsewhere than the log's end
            file.write([data], offset)
            file.sync()
            model[offset : offset + size] = data
            stop = max(stop, offset + size)  # a commit follows what stands there
            continue
        stop = offset + size
        zeros = -stop % PAGE_BYTES
        if padding_bytes:  # so many whole pages, where the file has them
            zeros = min(zeros + padding_bytes - padding_bytes % PAGE_BYTES, FILE_BYTES - stop)
        write = (parts_of(data, cuts), offset, zeros if padding_bytes else 0)
        if not (kind == "begun" and file.begin_synced(*write, AtOnce(), began.append)):
            file.write_synced(*write)
        model[offset:stop] = data
        model[stop : stop + -stop % PAGE_BYTES] = bytes(-stop % PAGE_BYTES)
        for page in range(stop + -stop % PAGE_BYTES, stop + zeros, PAGE_BYTES):  # as many of these as fit into one write
            if not any(file.read(PAGE_BYTES, page)):
                model[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
        assert file.read(FILE_BYTES, 0) == model
    assert file.read(FILE_BYTES, 0) == model
    assert file.size() == FILE_BYTES
    assert not any(began)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
@given(st.integers(0, FILE_BYTES - 1), st.integers(1, FILE_BYTES))
def test_a_read_past_the_page_cache_returns_what_stands_there(file: OsFile, offset: int, size: int) -> None:
    file.write([pattern(FILE_BYTES, 7)], 0)
    size = min(size, FILE_BYTES - offset)
    read: list[memoryview | None] = []
    if file.begin_read(size, offset, AtOnce(), read.append):
        assert read == [pattern(FILE_BYTES, 7)[offset : offset + size]]
        assert read[0] is not None
        assert read[0].readonly


def test_a_file_opened_again_goes_on_within_a_page(tmp_path: Path) -> None:
    for number in range(3):
        file = OsDisk().open(tmp_path / "file", create=True)
        file.allocate(FILE_BYTES)
        file.write_synced([pattern(1000, number)], 1000 * number)
        file.close()
    file = OsDisk().open(tmp_path / "file")
    assert file.read(PAGE_BYTES, 0) == b"".join(pattern(1000, number) for number in range(3)) + bytes(PAGE_BYTES - 3000)
    file.close()


def pages_in_memory(descriptor: int) -> int:
    view = mmap.mmap(descriptor, FILE_BYTES)
    here = (ctypes.c_ubyte * (FILE_BYTES // PAGE_BYTES))()
    begin = ctypes.c_char.from_buffer(view)
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(begin)), ctypes.c_size_t(FILE_BYTES), here) == 0
    return sum(page & 1 for page in here)


def test_nothing_of_it_stays_in_the_page_cache(tmp_path: Path) -> None:
    if os.major(tmp_path.stat().st_dev) == 0:
        pytest.skip(f"{tmp_path} is on no block device: its file system may keep everything in memory")
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, FILE_BYTES)
    writer = open_direct(descriptor, BufferPool(STAGING_BYTES))
    if writer is None:
        pytest.skip(f"the file system of {tmp_path} has no writing past the page cache")
    writer.write_synced([pattern(FILE_BYTES - 100, 1)], 0, 0)
    assert not pages_in_memory(descriptor)
    os.pread(descriptor, 1, 0)
    assert pages_in_memory(descriptor)  # it can be seen
    writer.close()
    os.close(descriptor)


async def test_a_log_reads_nothing_back_to_go_on_within_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    recall = DirectWriter.recall
    monkeypatch.setattr(DirectWriter, "recall", lambda writer, page: read.append(page) or recall(writer, page))
    store = LocalLedgerStore(tmp_path, LocalConfig(segment_bytes=4 << 20, reserved_bytes=1 << 20))
    writer, results = await store.create(await started(store), 1, {}), Results()
    payloads = [pattern(size, size) for size in [10, 5000, 100, 40_000, 7, 2 << 20, 3, 60_000, 1 << 20, 900]]
    for number, payload in enumerate(payloads):
        results.append(writer, [payload])
        await results.wait(number + 1)
    assert await read_all(await store.open(1), len(payloads) - 1) == payloads
    await store.stop()
    assert read == []


def test_where_it_cannot_be_had_the_file_is_written_the_ordinary_way(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(disk, "open_direct", lambda descriptor, _: asked.append(descriptor))
    file.write_synced([pattern(5000, 1), pattern(10, 2)], 100)
    file.write_synced([pattern(100, 3)], 5110)
    assert file.read(5110, 100) == pattern(5000, 1) + pattern(10, 2) + pattern(100, 3)
    assert len(asked) == 1


class Refusing(DirectWriter):
    code = errno.EINVAL
    calls = 0

    def write_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int) -> None:
        Refusing.calls += 1
        raise OSError(self.code, os.strerror(self.code))


def test_a_file_system_that_lets_one_open_and_then_takes_nothing(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "DirectWriter", Refusing)
    monkeypatch.setattr(Refusing, "calls", 0)
    file.write_synced([pattern(5000, 1)], 100)
    file.write_synced([pattern(10, 2)], 5100)
    assert file.read(5010, 100) == pattern(5000, 1) + pattern(10, 2)
    assert Refusing.calls == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_is_not_asked_a_second_time(file: OsFile, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(direct, "DirectWriter", Refusing)
    monkeypatch.setattr(Refusing, "code", code)
    with pytest.raises(OSError, match=os.strerror(code)) as raised:
        file.write_synced([pattern(5000, 1)], 100)
    assert raised.value.errno == code
    assert not any(file.read(5000, 100))


def test_a_short_write_is_an_error(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_synced([pattern(10, 1)], 0)
    monkeypatch.setattr(os, "pwritev", lambda *_: 512)
    with pytest.raises(OSError, match="only 512 of 8192 bytes"):
        file.write_synced([pattern(5000, 1)], 10)
