"""The client over sockets: bookies that are fast, slow, full, broken or not there, and metadata that does not answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trustme

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core.entries import DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState, Segment
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.errors import (
    CorruptEntry,
    EntryTooLarge,
    Fenced,
    InvalidArgument,
    LedgerClosed,
    LedgerExists,
    NoSuchEntry,
    NoSuchLedger,
    NotEnoughBookies,
    Unavailable,
    WrongDigest,
    WrongPassword,
)
from messaging.bookkeeper.metadata.memory import MemoryMetadataStore
from messaging.bookkeeper.metadata.store import BookieAddress, MetadataConflict, NodeChange, UnknownOutcome
from tests.support.bookkeeper.fake_bookie import FakeBookie, FakeCluster
from tests.support.waiting import eventually

QUICK: dict[str, Any] = {"request_timeout_s": 0.3, "speculative_read_s": 0.05, "metadata_timeout_s": 0.5}


async def test_what_is_appended_is_read(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create(custom={"application": b"test"})
    payloads = [b"%d" % number * (number % 5) for number in range(200)]
    futures = [writer.append(payload) for payload in payloads]
    assert await asyncio.gather(*futures) == list(range(200))
    assert await writer.read(3, 5) == payloads[3:6]
    closed = await writer.close()
    assert (closed.last_entry_id, closed.length) == (199, sum(map(len, payloads)))
    reader = await client.open(writer.ledger_id)
    assert [entry.payload for entry in await reader.read(0, 199)] == payloads
    assert (await client.metadata(writer.ledger_id)).custom == {"application": b"test"}
    assert all(len(bookie.entries[writer.ledger_id]) == 200 for bookie in cluster.bookies.values())


@pytest.mark.parametrize("digest_type", list(DigestType))
async def test_every_digest_can_be_written_and_read(cluster: FakeCluster, digest_type: DigestType) -> None:
    client = await cluster.client()
    writer = await client.create(digest_type=digest_type, password=b"secret")
    await writer.append(b"hello")
    reader = await client.recover(writer.ledger_id, password=b"secret")
    assert [entry.payload for entry in await reader.read(0, 0)] == [b"hello"]


async def test_ledgers_are_listed_and_deleted(cluster: FakeCluster) -> None:
    client = await cluster.client()
    ids = [(await client.create()).ledger_id for _ in range(3)]
    assert sorted([ledger_id async for ledger_id in client.ledgers()]) == ids
    await client.delete(ids[1])
    await client.delete(ids[1])
    assert sorted([ledger_id async for ledger_id in client.ledgers()]) == [ids[0], ids[2]]
    with pytest.raises(NoSuchLedger, match="there is no ledger 1"):
        await client.open(ids[1])


async def test_a_read_ends_with_the_bytes_that_it_may_have(cluster: FakeCluster) -> None:
    client = await cluster.client(reads_at_once=4)
    writer = await client.create()
    for _ in range(10):
        await writer.append(b"12345")
    await writer.close()
    reader = await client.open(writer.ledger_id)
    assert [len(await reader.read(0, 9, bytes_max=limit)) for limit in (1, 5, 6, 1000)] == [1, 1, 2, 10]
    with pytest.raises(NoSuchEntry, match="behind the last one, 9"):
        await reader.read(9, 10)
    with pytest.raises(InvalidArgument, match="no range"):
        await reader.read(3, 2)


async def test_a_closed_ledger_is_asked_at_once_for_what_a_read_may_have(cluster: FakeCluster) -> None:
    """Its entries' mean is known: reading some first to see how large they are would take twice as long."""
    client = await cluster.client()
    writer = await client.create()
    await asyncio.gather(*(writer.append(b"12345") for _ in range(20)))
    await writer.close()
    reader = await client.open(writer.ledger_id)
    for bookie in cluster.bookies.values():
        bookie.requests.clear()
        bookie.silent = True
    reading = asyncio.ensure_future(reader.read(0, 19, bytes_max=50))
    await eventually(lambda: sum(len(bookie.requests) for bookie in cluster.bookies.values()) == 11)
    reading.cancel()


async def test_the_next_entry_is_asked_for_as_soon_as_one_is_there(cluster: FakeCluster) -> None:
    """As many are on their way all the time, not one lot after the other."""
    client = await cluster.client(reads_at_once=4, speculative_read_s=60)
    writer = await client.create()
    await asyncio.gather(*(writer.append(b"12345") for _ in range(20)))
    await writer.close()
    reader = await client.open(writer.ledger_id)
    for bookie in cluster.bookies.values():
        bookie.requests.clear()
        bookie.unanswered.add(5)
    reading = asyncio.ensure_future(reader.read(0, 19))
    asked: list[int] = []

    def all_before_it_came() -> bool:
        asked[:] = [request.readRequest.entryId for bookie in cluster.bookies.values() for request in bookie.requests]
        return max(asked, default=0) == 8

    await eventually(all_before_it_came)
    assert sorted(asked) == list(range(9)) and not reading.done()
    reading.cancel()


async def test_p7_no_bookie_gets_an_entry_before_the_metadata_is_stored(cluster: FakeCluster) -> None:
    class Refusing(MemoryMetadataStore):
        async def create(self, metadata: LedgerMetadata, along: Sequence[NodeChange] = ()) -> LedgerMetadata:
            raise Unavailable("not now")

    store = Refusing()
    for address in await cluster.store.bookies():
        store.register(address)
    client = await cluster.client(store)
    with pytest.raises(Unavailable):
        await client.create()
    assert not any(bookie.entries for bookie in cluster.bookies.values())


async def test_a_bookie_that_breaks_is_replaced_and_nothing_is_lost(cluster: FakeCluster) -> None:
    spare = await cluster.add()
    client = await cluster.client()
    writer = await client.create()
    await writer.append(b"0")
    broken = cluster.bookies[writer.metadata.last_segment.ensemble[1]]
    spare = next(bookie for name, bookie in cluster.bookies.items() if name not in writer.metadata.last_segment.ensemble)
    await broken.stop()
    await asyncio.gather(*(writer.append(b"%d" % number) for number in range(1, 50)))
    await eventually(lambda: spare.name in writer.metadata.last_segment.ensemble)
    closed = await writer.close()
    assert len(closed.segments) == 2 and not writer.degraded
    reader = await client.open(writer.ledger_id)
    assert len(await reader.read(0, closed.last_entry_id)) == 50


async def test_without_another_bookie_two_of_three_are_enough_and_one_is_not(cluster: FakeCluster) -> None:
    client = await cluster.client(**QUICK)
    writer = await client.create()
    first, second, third = (cluster.bookies[name] for name in writer.metadata.last_segment.ensemble)
    await first.stop()
    assert await writer.append(b"x") == 0
    await eventually(lambda: writer.degraded)
    second.refuses = Status.READ_ONLY
    with pytest.raises(NotEnoughBookies, match="needs 2 bookies for an entry and has 1"):
        await writer.append(b"y")
    with pytest.raises(NotEnoughBookies):
        writer.append(b"z")
    with pytest.raises(NotEnoughBookies):
        await writer.close()
    del third


async def test_a_slot_without_a_bookie_gets_the_next_that_registers(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    await cluster.bookies[writer.metadata.last_segment.ensemble[0]].stop()
    await writer.append(b"x")
    await eventually(lambda: writer.degraded)
    added = await cluster.add()
    await eventually(lambda: added.name in writer.metadata.last_segment.ensemble)
    assert not writer.degraded


async def test_p12_a_bookie_that_takes_nothing_does_not_fill_the_memory(cluster: FakeCluster) -> None:
    spare = await cluster.add()
    client = await cluster.client(bookie_bytes_max=100_000, request_timeout_s=60)
    writer = await client.create()
    ensemble = writer.metadata.last_segment.ensemble
    spare = next(bookie for name, bookie in cluster.bookies.items() if name not in ensemble)
    cluster.bookies[ensemble[2]].silent = True
    for _ in range(20):
        await writer.append(bytes(10_000))
    await eventually(lambda: writer.metadata.last_segment.ensemble[2] == spare.name)


async def test_appends_wait_where_too_much_is_not_confirmed(cluster: FakeCluster) -> None:
    client = await cluster.client(ledger_bytes_max=1000)
    writer = await client.create()
    for bookie in cluster.bookies.values():
        bookie.silent = True
    writer.append(bytes(1000))
    waiting = asyncio.ensure_future(writer.writable())
    await asyncio.sleep(0)
    assert not waiting.done() and writer.pending_bytes == 1000
    await writer.abandon()
    await waiting
    assert writer.pending_bytes == 0


async def test_p18_a_wrong_password_is_found_before_any_bookie_is_asked(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create(password=b"right")
    before = {name: len(bookie.requests) for name, bookie in cluster.bookies.items()}
    with pytest.raises(WrongPassword, match="not that of ledger 0"):
        await client.recover(writer.ledger_id, password=b"wrong")
    reads = [r for name, b in cluster.bookies.items() for r in b.requests[before[name] :] if r.header.operation == pb.READ_ENTRY]
    assert reads == []
    assert await writer.append(b"goes on") == 0


async def test_a_ledger_with_another_digest_is_not_opened(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create(digest_type=DigestType.CRC32)
    with pytest.raises(WrongDigest, match="the digest CRC32, not CRC32C"):
        await client.open(writer.ledger_id, digest_type=DigestType.CRC32C)
    assert await writer.append(b"goes on") == 0


async def test_p3_every_read_of_a_recovery_fences(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    await asyncio.gather(*(writer.append(b"x") for _ in range(5)))
    await client.recover(writer.ledger_id)
    reads = [r.readRequest for b in cluster.bookies.values() for r in b.requests if r.header.operation == pb.READ_ENTRY]
    assert {read.entryId for read in reads} > {-1, 5} and all(read.flag == 1 and read.masterKey for read in reads)


async def test_a_fenced_writer_confirms_nothing_and_the_ledger_stays_as_it_was_closed(cluster: FakeCluster) -> None:
    client, other = await cluster.client(), await cluster.client()
    writer = await client.create()
    await writer.append(b"mine")
    reader = await other.recover(writer.ledger_id)
    with pytest.raises(Fenced):
        await writer.append(b"late")
    with pytest.raises(Fenced):
        await writer.close()
    assert reader.last_entry_id == 0 and (await client.metadata(writer.ledger_id)).last_entry_id == 0


async def test_p9_p10_a_writer_learns_from_the_metadata_that_it_lost_its_ledger(cluster: FakeCluster) -> None:
    """Also where every bookie forgot the fence."""
    client, other = await cluster.client(), await cluster.client()
    writer = await client.create()
    await writer.append(b"mine")
    await other.recover(writer.ledger_id)
    for bookie in cluster.bookies.values():
        bookie.fenced.clear()
    await eventually(lambda: writer.error)
    with pytest.raises(Fenced, match="somebody else changed its metadata"):
        writer.append(b"late")


async def test_two_recoveries_at_once_agree(cluster: FakeCluster) -> None:
    client, other = await cluster.client(), await cluster.client()
    writer = await client.create()
    await asyncio.gather(*(writer.append(b"x") for _ in range(20)))
    readers = await asyncio.gather(*(who.recover(writer.ledger_id) for who in (client, other, client)))
    assert {reader.last_entry_id for reader in readers} == {19}
    assert {reader.metadata.state for reader in readers} == {LedgerState.CLOSED}


async def test_a_recovery_without_enough_bookies_leaves_the_ledger_for_later(cluster: FakeCluster) -> None:
    client = await cluster.client(**QUICK)
    writer = await client.create()
    await writer.append(b"x")
    first, second, _ = (cluster.bookies[name] for name in writer.metadata.last_segment.ensemble)
    first.silent = second.silent = True
    with pytest.raises(Unavailable, match="too few bookies could be told") as raised:
        await client.recover(writer.ledger_id)
    assert raised.value.retryable
    first.silent = second.silent = False
    assert (await client.recover(writer.ledger_id)).last_entry_id == 0


async def test_a_bookie_that_answers_slowly_for_ever_is_not_waited_for(cluster: FakeCluster) -> None:
    client = await cluster.client(request_timeout_s=60, speculative_read_s=0.05)
    writer = await client.create()
    await writer.append(b"x")
    await writer.close()
    reader = await client.open(writer.ledger_id)
    cluster.bookies[reader.metadata.last_segment.ensemble[0]].silent = True
    assert [entry.payload for entry in await reader.read(0, 0)] == [b"x"]


async def test_a_damaged_entry_is_read_from_another_bookie_and_never_served(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    await writer.append(b"hello")
    await writer.close()
    reader = await client.open(writer.ledger_id)
    bodies = [bookie.entries[writer.ledger_id] for bookie in cluster.bookies.values()]
    for damaged in bodies:
        assert [entry.payload for entry in await reader.read(0, 0)] == [b"hello"]
        damaged[0] = damaged[0][:-1] + b"x"
    with pytest.raises(CorruptEntry, match="no bookie that should have it has it undamaged"):
        await reader.read(0, 0)


async def test_a_reader_of_an_open_ledger_sees_what_is_confirmed(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    for number in range(3):
        await writer.append(b"%d" % number)
    reader = await (await cluster.client()).open(writer.ledger_id)
    assert reader.last_entry_id == 1, "the last entry's confirmation goes with the next one"
    assert len(await reader.read(0, 1)) == 2
    assert await writer.append(b"goes on") == 3


async def test_entries_above_the_limit_are_refused_with_it(cluster: FakeCluster) -> None:
    client = await cluster.client(frame_bytes_max=2000)
    writer = await client.create()
    with pytest.raises(EntryTooLarge, match="an entry of 1837 bytes is above the limit of 1836"):
        writer.append(bytes(1837))
    assert await writer.append(bytes(1836)) == 0
    assert len((await writer.read(0, 0))[0]) == 1836


async def test_a_closed_writer_says_so(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    assert (await writer.close()).last_entry_id == -1
    assert await writer.close() == writer.metadata
    with pytest.raises(LedgerClosed, match="ledger 0 was closed"):
        writer.append(b"x")


async def test_a_client_that_stops_leaves_its_ledgers_to_be_recovered(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    await writer.append(b"x")
    await client.stop()
    with pytest.raises(LedgerClosed, match="was abandoned; recover the ledger"):
        writer.append(b"y")
    cluster.clients.clear()
    assert (await (await cluster.client()).recover(writer.ledger_id)).last_entry_id == 0


async def test_a_deleted_ledger_ends_its_writer(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    await client.delete(writer.ledger_id)
    await eventually(lambda: writer.error)
    with pytest.raises(NoSuchLedger):
        writer.append(b"x")


async def test_ledgers_are_spread_over_racks_and_read_only_bookies_get_none(cluster: FakeCluster) -> None:
    elsewhere = await cluster.add(rack="/other")
    cluster.store.register(BookieAddress("full", "127.0.0.1", 1, read_only=True))
    cluster.store.register(BookieAddress("foreign", "127.0.0.1", 1, problem="its cookie is of another cluster"))
    client = await cluster.client(require_racks=2)
    for _ in range(5):
        writer = await client.create(ensemble=2, write_quorum=2, ack_quorum=2)
        assert elsewhere.name in writer.metadata.last_segment.ensemble
    with pytest.raises(NotEnoughBookies, match="needs 5 bookies that take writes; there are 4"):
        await client.create(ensemble=5)


# --- metadata ----------------------------------------------------------------------------------------------------


class LosingAnswers(MemoryMetadataStore):
    """The next change is stored or not, and its answer is lost."""

    def __init__(self, other: MemoryMetadataStore) -> None:
        super().__init__()
        self.lose: list[bool] = []
        self.inner = other

    async def bookies(self) -> list[BookieAddress]:
        return await self.inner.bookies()

    async def create(self, metadata: LedgerMetadata, along: Sequence[NodeChange] = ()) -> LedgerMetadata:
        if not self.lose:
            return await super().create(metadata, along)
        if self.lose.pop():
            await super().create(metadata, along)
        raise UnknownOutcome

    async def write(self, metadata: LedgerMetadata) -> LedgerMetadata:
        if not self.lose:
            return await super().write(metadata)
        if self.lose.pop():
            await super().write(metadata)
        raise UnknownOutcome


@pytest.mark.parametrize("stored", [True, False])
async def test_p13_a_change_whose_answer_was_lost_is_made_once(cluster: FakeCluster, stored: bool) -> None:
    store = LosingAnswers(cluster.store)
    client = await cluster.client(store)
    store.lose = [stored]
    writer = await client.create(ledger_id=9)
    await writer.append(b"x")
    store.lose = [stored]
    assert (await writer.close()).last_entry_id == 0
    writer = await client.create(ledger_id=10)
    store.lose = [stored, stored]
    assert (await client.recover(10)).metadata.state is LedgerState.CLOSED


async def test_a_ledger_of_somebody_else_is_not_taken_for_ours(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create(ledger_id=4)
    with pytest.raises(LedgerExists, match="somebody else made it"):
        await client.create(ledger_id=4)
    assert await writer.append(b"goes on") == 0


async def test_metadata_that_does_not_answer_is_said(cluster: FakeCluster) -> None:
    store = LosingAnswers(cluster.store)
    client = await cluster.client(store, **QUICK)
    store.lose = [False] * 1000
    with pytest.raises(Unavailable, match="whether ledger 5 was created is not known"):
        await client.create(ledger_id=5)


async def test_the_memory_store_compares_versions() -> None:
    store = MemoryMetadataStore()
    metadata = await store.create(LedgerMetadata.decode(1, (await _some_metadata()).encode()))
    await store.write(metadata)
    with pytest.raises(MetadataConflict):
        await store.write(metadata)


async def _some_metadata() -> LedgerMetadata:
    return replace(LedgerMetadata(1, 1, 1, 1, (Segment(0, ("a",)),)), version=None)


async def test_p4_what_fences_or_recovers_never_goes_the_plain_way(cluster: FakeCluster) -> None:
    client = await cluster.client()
    writer = await client.create()
    await asyncio.gather(*(writer.append(b"x") for _ in range(5)))
    reader = await client.recover(writer.ledger_id)
    await reader.read(0, 4)
    requests = [request for bookie in cluster.bookies.values() for request in bookie.requests]
    versions = {
        (request.header.version, request.readRequest.flag == 1 or request.addRequest.flag == 1, request.header.operation)
        for request in requests
        if request.header.operation in (pb.ADD_ENTRY, pb.READ_ENTRY)
    }
    assert versions >= {(2, False, pb.ADD_ENTRY), (2, False, pb.READ_ENTRY), (3, True, pb.READ_ENTRY), (3, True, pb.ADD_ENTRY)}
    assert not any(version == 2 and special for version, special, _ in versions)


async def test_tls_is_started_on_the_same_connection(cluster: FakeCluster) -> None:
    authority = trustme.CA()
    server, client_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client_context)
    cluster.store = MemoryMetadataStore()
    for _ in range(3):
        await cluster.add(FakeBookie(server))
    client = await cluster.client(ssl_context=client_context)
    writer = await client.create()
    assert await writer.append(b"secret") == 0
    assert (await writer.read(0, 0)) == [b"secret"]
    untrusting = await cluster.client(ssl_context=ssl.create_default_context(), **QUICK)
    with pytest.raises(Unavailable):
        await untrusting.recover(writer.ledger_id)


async def test_a_bookie_without_tls_is_not_spoken_to_in_clear(cluster: FakeCluster) -> None:
    client = await cluster.client(ssl_context=ssl.create_default_context(), **QUICK)
    writer = await client.create()
    with pytest.raises(NotEnoughBookies):
        await writer.append(b"secret")
    assert not any(bookie.entries for bookie in cluster.bookies.values())


@pytest.mark.parametrize("setting", [{"request_timeout_s": 0}, {"reads_at_once": -1}, {"frame_bytes_max": 10}])
def test_settings_of_no_use_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(setting))):
        Config(**setting)  # type: ignore[arg-type]
