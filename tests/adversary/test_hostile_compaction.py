"""Topics that are made to be hard to compact: the worker compacts those of every tenant, one after another."""

from __future__ import annotations

import tracemalloc
from array import array
from pathlib import Path

import pytest

from messaging.broker.core.compaction import passes
from messaging.broker.core.compaction.last_values import LastValues, PartFile, RecordBuffer
from messaging.broker.core.compaction.passes import CompactionRules, FirstPass, SecondPass
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from tests.support.compacting import compact, keyed, publish, read_all
from tests.support.worlds.broker_world import BrokerWorld

RULES = CompactionRules(retain_null_key=False, unpacked_bytes_max=1 << 20)
MIB = 1 << 20


def first_pass() -> FirstPass:
    def no_file(index: int = 0) -> PartFile:
        raise AssertionError("so few keys are not written to files")

    return FirstPass(LastValues(no_file, b"salt"), RecordBuffer(no_file), RULES)


def chunk(number: int, uuid: str, chunk_id: int = 0) -> bytes:
    metadata = pb.Metadata(
        producer_name="p",
        sequence_id=number,
        publish_time=1,
        partition_key="k",
        uuid=uuid,
        chunk_id=chunk_id,
        num_chunks_from_msg=3,
    )
    return build_send(1, number, metadata, b"x", is_chunk=True)


def test_long_names_of_chunked_messages_take_no_memory() -> None:
    """Seen: 10,000 names of up to a whole message each were kept, tens of GiB."""
    looking = first_pass()
    looking.see(chunk(0, "first"))
    tracemalloc.start()
    try:
        for number in range(1, 300):
            looking.see(chunk(number, f"{number:0100000}"))
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used_bytes < MIB
    assert list(looking.surviving()) == list(range(300))


def test_a_first_chunk_without_end_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are followed no longer stay, as chunks of a message that is not complete do."""
    monkeypatch.setattr(passes, "OPEN_CHUNKS_MAX", 10)
    looking = first_pass()
    for number in range(100):
        looking.see(chunk(number, "one"))
    looking.see(chunk(100, "other"))
    looking.see(chunk(101, "other", 2))
    assert array("Q", looking.surviving()) == array("Q", range(102))


@pytest.mark.parametrize("count", [2**31 - 1, -(2**31), 0])
async def test_a_count_that_nobody_checked_is_not_told(world: BrokerWorld, tmp_path: Path, count: int) -> None:
    """What an encrypted batch says of its size is metadata, which the broker does not read on arrival; the broker refuses to store
    a compaction with an index that no batch has."""
    metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=count)
    metadata.encryption_keys.add(key="k", value=b"v")
    frame = build_send(1, 0, metadata, b"secret")
    looking = first_pass()
    looking.see(frame)
    second = SecondPass(looking.surviving(), RULES)
    assert (second.keep(frame), second.last_batch_index) == (frame, -1)
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"), frame)
    assert await compact(world.service, tmp_path) == 1
    assert [message.value for message in await read_all(world.service)] == [b"2", b"secret"]
