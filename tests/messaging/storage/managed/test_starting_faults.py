"""A start of a broker's storage, cut off or refused at each of its steps: the log is opened, ownership taken, cursor ledgers are
read and merged, a new one begins. Whatever happens, a start serves all that was durable or says why it does not, and the next one
serves it.
"""

from __future__ import annotations

import asyncio
import errno
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from messaging.storage.ledger_store import WHOLE, DiskFull, StoreError, Unavailable
from messaging.storage.managed import cursor_log
from messaging.storage.managed.cursor_log import cursor_ledgers
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import TopicRecord
from tests.simulation.alone import alone, simulated
from tests.support.storage.damaged_log import append
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.faulty_meta import FaultyMetaStore
from tests.support.storage.managed_world import TenantRef
from tests.support.storage.memory_meta import MemoryMetaStore
from tests.support.storage.storage_lives import DISK_BYTES, MERGED_S, TOPIC, Left, Life, live

LIVES = 2  # each leaves a cursor ledger: the next start merges them
WRITING = ("write", "sync", "allocate", "rename")


@pytest.fixture(autouse=True)
def few_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_log, "LEDGERS_MAX", LIVES)


def lived() -> Left:
    """What killed brokers left."""
    left = Left(FakeDisk(DISK_BYTES), MemoryMetaStore(), [])
    for seed in range(LIVES):
        alone(seed, partial(live, left), left.disk)
    return left


async def check(left: Left) -> None:
    """A start with nothing in its way serves everything."""
    life = Life(left)
    await life.start()
    assert life.cursors.refusing is None
    await life.load()
    assert await life.acknowledge(1000 + len(left.durable)) is None
    await life.stop()


def checked(left: Left, where: str) -> None:
    try:
        alone(2, partial(check, left), left.disk)
    except BaseException as error:
        error.add_note(where)
        raise


async def attempt(left: Left, meta: FaultyMetaStore | None = None) -> None:
    """A start in which something fails. It serves what was durable, or raises `StoreError`."""
    life = Life(left, meta)
    try:
        await life.start()
        await life.load()
        await life.acknowledge(500)
    except StoreError:
        pass
    finally:
        await life.stop()


def tried(left: Left, prepare: Callable[[Left], object]) -> Left:
    """An attempt on a copy that `prepare` changes."""
    made = left.on(left.disk.frozen())
    prepare(made)
    alone(1, partial(attempt, made), made.disk)
    made.disk.heal()
    made.disk.locks.clear()
    return made


def operations_of_an_attempt(left: Left) -> range:
    return range(1, tried(left, lambda made: None).disk.operations + 1)


def test_a_start_merges_the_cursor_ledgers_of_killed_brokers() -> None:
    async def named() -> int:
        return len(await cursor_ledgers(left.meta, WHOLE))

    with simulated():
        left = lived()
        assert alone(1, named) == LIVES
        alone(1, lambda: Life(left).start(), left.disk)
        assert alone(1, named) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_any_operation_of_the_disk_may_fail(code: int) -> None:
    with simulated():
        left = lived()
        for number in operations_of_an_attempt(left):
            made = tried(left, lambda made: made.disk.fail_at(number, code))  # noqa: B023
            power_lost = made.disk.power_loss(Random(number))
            checked(made.on(power_lost if number % 2 else made.disk.frozen()), f"after operation {number}")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_from_any_operation_on_the_disk_may_take_nothing(code: int) -> None:
    with simulated():
        left = lived()
        for number in operations_of_an_attempt(left):

            def fails(kind: str, path: Path, at: int) -> bool | int:
                return code if at >= number and kind in WRITING else False  # noqa: B023

            made = tried(left, lambda made: made.disk.fail(fails, surely=False))
            checked(made, f"from operation {number} on")


def test_it_may_be_killed_before_any_operation() -> None:
    with simulated():
        left = lived()
        for number in operations_of_an_attempt(left):
            killed: list[Left] = []

            def prepare(made: Left) -> None:
                made.disk.image_at = number  # noqa: B023
                made.disk.on_image = lambda: killed.append(made.on(made.disk))  # noqa: B023

            image = tried(left, prepare).disk.image
            assert image is not None
            after = image.power_loss(Random(number)) if number % 2 else image.frozen()
            checked(killed[0].on(after), f"before operation {number}")


@pytest.mark.parametrize("after_doing", [False, True])
@pytest.mark.parametrize("error", [Unavailable("away"), DiskFull("full")])
def test_any_call_of_the_metadata_may_fail(error: StoreError, after_doing: bool) -> None:
    with simulated():
        left = lived()
        calls, number = 1, 0
        while number < calls:
            made = left.on(left.disk.frozen())
            meta = FaultyMetaStore(made.meta)
            meta.begin(number, error, after_doing=after_doing)
            alone(1, partial(attempt, made, meta), made.disk)
            calls = calls if number else meta.calls
            checked(made.on(made.disk.frozen()), f"after call {number}")
            number += 1


async def fill(left: Left) -> None:
    """Uses up the disk, and what is kept of it for cursors, to the last record."""
    life = Life(left)
    await life.start()
    left.disk.capacity_bytes -= left.disk.free()
    fence = life.cursors.storage.fence
    writers = [await life.store.create(fence, await left.meta.next_ledger_id(fence), {"reserved": "test"}) for _ in range(3)]
    for writer, size in zip(writers, (4000, 100, 0), strict=True):
        with suppress(StoreError):
            while True:
                await append(writer, bytes(size))
    left.disk = left.disk.frozen()


def test_a_disk_may_be_full_with_nothing_kept() -> None:
    """Everything durable is served; acknowledgements are refused until there is space."""

    async def run() -> None:
        life = Life(left)
        await life.start()
        await life.load()
        assert isinstance(life.cursors.refusing, DiskFull)
        assert await life.acknowledge(500) is not None
        left.disk.capacity_bytes = DISK_BYTES
        assert life.cursors.checkpointing is not None
        await asyncio.wait([life.cursors.checkpointing], timeout=MERGED_S)
        assert life.cursors.refusing is None
        assert await life.acknowledge(501) is None
        await life.stop()

    with simulated():
        left = lived()
        alone(1, partial(fill, left), left.disk)
        alone(1, run, left.disk)
        checked(left, "there is space again")


def test_messages_are_read_from_a_disk_with_nothing_kept() -> None:
    """Where the ledger that a killed broker wrote to ends is known, although there is no room to note it."""
    payloads = [b"one", b"two", b"three"]

    async def publish() -> None:
        life = Life(left)
        await life.start()
        topic = await opened(life)
        await topic.writable()
        outcomes: list[tuple[str, StoreError | None]] = []
        for payload in payloads:
            topic.append(b"header", payload, array("I", [len(payload)]), TenantRef(payload.decode(), outcomes))
        await topic.drained()
        assert outcomes == [(payload.decode(), None) for payload in payloads]
        left.disk = left.disk.frozen()

    async def read() -> None:
        life = Life(left)
        await life.start()
        topic = await opened(life)
        assert topic.ledger_list.entries == 3
        blocks = await topic.read(topic.ledger_list.first, entries_max=10, bytes_max=1000)
        assert [bytes(block.data) for block in blocks] == payloads
        with pytest.raises(DiskFull):
            await topic.writable()
        left.disk.capacity_bytes = DISK_BYTES
        await topic.close()
        await life.stop()

    with simulated():
        left = lived()
        for work in (publish, partial(fill, left), read):
            alone(1, work, left.disk)
        checked(left, "there is space again")


async def opened(life: Life) -> ManagedLedger:
    storage = life.cursors.storage
    record = await storage.meta.get_topic(TOPIC) or await storage.meta.cas_topic(storage.fence, TopicRecord(TOPIC))
    return await ManagedLedger.open(storage, record, {"tenant": "a"})
