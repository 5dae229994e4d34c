"""Our client on real bookies that die and stand still, beside Apache's own: each reads, recovers and closes the ledgers of both."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trustme
from kazoo.client import KazooClient

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core.entries import DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState
from messaging.bookkeeper.errors import (
    EntryTooLarge,
    Fenced,
    LedgerExists,
    NoSuchLedger,
    Unavailable,
    UnsupportedLayout,
    WrongPassword,
)
from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster, Peer, PeerError
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]
DIGESTS = [(DigestType.CRC32C, "-"), (DigestType.CRC32, "-"), (DigestType.HMAC, "foobar"), (DigestType.DUMMY, "-")]
JAVA_NAMES = {DigestType.HMAC: "MAC"}


Connect = Callable[..., Awaitable[BookkeeperClient]]


@pytest.fixture
async def connect(real_cluster: Cluster) -> AsyncIterator[Connect]:
    """Makes clients that know all bookies; they are stopped at the end of the test."""
    async with AsyncExitStack() as clients:

        async def connected(**settings: Any) -> BookkeeperClient:
            store = ZookeeperMetadataStore(real_cluster.hosts, session_timeout_s=6)
            client = await clients.enter_async_context(BookkeeperClient(store, Config(**settings)))
            await eventually(
                lambda: {bookie.bookie for bookie in client.bookies() if not bookie.problem} == set(real_cluster.names), 30
            )
            return client

        yield connected


@pytest.fixture
async def client(connect: Connect) -> BookkeeperClient:
    return await connect()


async def ask(peer: Peer, *words: object) -> list[str]:
    return await asyncio.to_thread(peer.ask, *words)


def test_p11_the_bookies_are_of_a_release_without_known_losses() -> None:
    """Before 4.17.4 two handles of one ledger could race past its fence."""
    match = re.search(
        r"<artifactId>bookkeeper-server</artifactId>\s*<version>(\d+)\.(\d+)\.(\d+)", (install.SOURCES / "pom.xml").read_text()
    )
    assert match is not None and tuple(int(part) for part in match.groups()) >= (4, 17, 4)


@pytest.mark.parametrize(("digest_type", "password"), DIGESTS)
async def test_what_one_client_writes_the_other_reads(
    client: BookkeeperClient, peer: Peer, digest_type: DigestType, password: str
) -> None:
    secret = b"" if password == "-" else password.encode()
    java = JAVA_NAMES.get(digest_type, digest_type.name)
    writer = await client.create(digest_type=digest_type, password=secret, custom={"application": b"magnetar"})
    await asyncio.gather(*(writer.append(b"ours%d" % number) for number in range(20)))
    await writer.close()
    last, payloads = await ask(peer, "read", writer.ledger_id, java, password)
    assert (last, payloads.split(",")) == ("19", [f"ours{number}" for number in range(20)])
    (ledger,) = await ask(peer, "create", java, password, 3, 2, 2)
    await ask(peer, "write", ledger, 20, "theirs")
    assert await ask(peer, "close", ledger) == ["19", str(20 * 6 + 10 + 20)]
    reader = await client.open(int(ledger), password=secret)
    assert [entry.payload for entry in await reader.read(0, 19)] == [b"theirs%d" % number for number in range(20)]
    stored = reader.metadata
    assert LedgerMetadata.decode(stored.ledger_id, stored.encode()).same_content(LedgerMetadata(**_fields(stored)))


def _fields(metadata: LedgerMetadata) -> dict[str, Any]:
    return {name: getattr(metadata, name) for name in metadata.__dataclass_fields__}


async def test_apaches_client_recovers_what_ours_writes(client: BookkeeperClient, peer: Peer) -> None:
    writer = await client.create()
    for number in range(10):
        await writer.append(b"ours%d" % number)
    assert await ask(peer, "recover", writer.ledger_id, "CRC32C", "-") == ["9", str(10 * 5)]
    with pytest.raises(Fenced):
        await writer.append(b"late")
    closed = await client.metadata(writer.ledger_id)
    assert (closed.state, closed.last_entry_id, closed.length) == (LedgerState.CLOSED, 9, 50)


async def test_ours_recovers_what_apaches_client_writes(client: BookkeeperClient, peer: Peer) -> None:
    (ledger,) = await ask(peer, "create", "CRC32C", "-", 3, 3, 2)
    await ask(peer, "write", ledger, 30, "x")
    reader = await client.recover(int(ledger))
    assert (reader.last_entry_id, reader.length) == (29, 30 + 10 + 2 * 20)
    with pytest.raises(PeerError, match="Fenced"):
        await ask(peer, "write", ledger, 1, "late")
    assert await ask(peer, "recover", ledger, "CRC32C", "-") == ["29", "80"], "both agree on what it is"


async def test_a_wrong_password_is_refused_by_both(client: BookkeeperClient, peer: Peer) -> None:
    writer = await client.create(password=b"right")
    await writer.append(b"x")
    with pytest.raises(WrongPassword):
        await client.recover(writer.ledger_id, password=b"wrong")
    with pytest.raises(PeerError):
        await ask(peer, "recover", writer.ledger_id, "CRC32C", "wrong")
    assert await writer.append(b"y") == 1
    await writer.close()


async def test_entries_of_any_size_up_to_the_limit(client: BookkeeperClient) -> None:
    writer = await client.create()
    limit = client.config.entry_bytes_max - 36
    sizes = (0, 1, 100, 70_000, 1_000_000, limit)
    for size in sizes:
        await writer.append(bytes([size % 251]) * size)
    with pytest.raises(EntryTooLarge):
        writer.append(bytes(limit + 1))
    closed = await writer.close()
    assert closed.length == sum(sizes)
    reader = await client.open(writer.ledger_id)
    for number, size in enumerate(sizes):
        (entry,) = await reader.read(number, number)
        assert entry.payload == bytes([size % 251]) * size


async def test_a_bookie_is_killed_under_load_and_apaches_client_reads_everything(
    real_cluster: Cluster, client: BookkeeperClient, peer: Peer
) -> None:
    writer = await client.create()
    victim = real_cluster.bookie_named(writer.metadata.last_segment.ensemble[1])
    futures = []
    for number in range(600):
        await writer.writable()
        futures.append(writer.append(b"m%d" % number))
        if number == 300:
            victim.kill()
        if number % 50 == 0:
            await asyncio.sleep(0)
    assert await asyncio.gather(*futures) == list(range(600))
    closed = await writer.close()
    assert closed.last_entry_id == 599 and not writer.degraded
    last, payloads = await ask(peer, "read", writer.ledger_id, "CRC32C", "-")
    assert (last, payloads.split(",")) == ("599", [f"m{number}" for number in range(600)])


async def test_a_ledger_of_several_segments_of_apaches_client_is_read(
    real_cluster: Cluster, client: BookkeeperClient, peer: Peer
) -> None:
    (ledger,) = await ask(peer, "create", "CRC32C", "-", 3, 3, 2)
    await ask(peer, "write", ledger, 10, "x")
    victim = real_cluster.bookie_named((await client.metadata(int(ledger))).last_segment.ensemble[0])
    victim.kill()
    expected = [b"x%d" % number for number in range(10)]

    async def changed() -> bool:
        """Two of three are enough for an entry: the client changes the ensemble at one which it writes once it has noticed."""
        await ask(peer, "write", ledger, 10, "y")
        expected.extend(b"y%d" % number for number in range(10))
        return len((await client.metadata(int(ledger))).segments) > 1

    await eventually(changed, timeout_s=30)
    reader = await client.recover(int(ledger))
    assert [entry.payload for entry in await reader.read(0, reader.last_entry_id)] == expected


async def test_a_bookie_that_stands_still_costs_no_append_and_no_read(real_cluster: Cluster, connect: Connect) -> None:
    """Within 10 s on the busiest machine, where whoever waited for that bookie would wait for 30."""
    client = await connect(request_timeout_s=30, speculative_read_s=0.1)
    writer = await client.create(ensemble=3, write_quorum=3, ack_quorum=2)
    await writer.append(b"before")
    stopped = real_cluster.bookie_named(writer.metadata.last_segment.ensemble[0])
    stopped.stop()
    try:
        async with asyncio.timeout(10):
            assert await asyncio.gather(*(writer.append(b"%d" % number) for number in range(100))) == list(range(1, 101))
        async with asyncio.timeout(10):
            assert await writer.read(0, 0) == [b"before"]
    finally:
        stopped.go_on()
    await writer.close()


async def test_a_second_client_takes_a_ledger_over_from_one_that_stands_still(client: BookkeeperClient, connect: Connect) -> None:
    other = await connect()
    writer = await client.create()
    futures = [writer.append(b"%d" % number) for number in range(50)]
    reader = await other.recover(writer.ledger_id)
    results = await asyncio.gather(*futures, return_exceptions=True)
    confirmed = [result for result in results if isinstance(result, int)]
    assert confirmed == list(range(len(confirmed))) and len(confirmed) <= reader.last_entry_id + 1
    with pytest.raises(Fenced):
        await writer.append(b"late")


async def test_ledgers_are_listed_and_deleted_and_bookies_forget_them(client: BookkeeperClient) -> None:
    writer = await client.create(ledger_id=1 << 33)
    await writer.append(b"x")
    await writer.close()
    assert writer.ledger_id in [ledger_id async for ledger_id in client.ledgers()]
    with pytest.raises(LedgerExists):
        await client.create(ledger_id=1 << 33)
    await client.delete(writer.ledger_id)
    await client.delete(writer.ledger_id)
    assert writer.ledger_id not in [ledger_id async for ledger_id in client.ledgers()]
    with pytest.raises(NoSuchLedger):
        await client.open(writer.ledger_id)


async def test_tls_with_certificates_of_both_sides(real_cluster: Cluster, connect: Connect, peer: Peer) -> None:
    context = ssl.create_default_context(cafile=str(real_cluster.folder / "authority.pem"))
    real_cluster.authority.issue_cert("client").configure_cert(context)
    client = await connect(ssl_context=context)
    writer = await client.create()
    assert await asyncio.gather(*(writer.append(b"t%d" % number) for number in range(50))) == list(range(50))
    await writer.close()
    assert (await ask(peer, "read", writer.ledger_id, "CRC32C", "-"))[0] == "49"
    context = ssl.create_default_context(cafile=str(real_cluster.folder / "authority.pem"))
    trustme.CA().issue_cert("stranger").configure_cert(context)
    stranger = await connect(ssl_context=context, request_timeout_s=2)
    with pytest.raises(Unavailable):
        await (await stranger.open(writer.ledger_id)).read(0, 0)


async def test_ids_of_both_clients_do_not_meet(client: BookkeeperClient, peer: Peer) -> None:
    ids = []
    for _ in range(3):
        ids.append((await client.create()).ledger_id)
        ids.append(int((await ask(peer, "create", "CRC32C", "-", 1, 1, 1))[0]))
    assert ids == sorted(set(ids))


async def test_long_ids_of_both_clients_do_not_meet(real_cluster: Cluster, client: BookkeeperClient) -> None:
    """Once short ones are used up, which the node says. Another process of Apache's client: it looks once."""
    kazoo = KazooClient(real_cluster.hosts)
    await asyncio.to_thread(kazoo.start)
    kazoo.ensure_path("/ledgers/idgen-long")
    newer = await asyncio.to_thread(Peer, real_cluster.uri)
    try:
        ids = []
        for _ in range(3):
            writer = await client.create()
            await writer.append(b"long")
            ids += [writer.ledger_id, int((await ask(newer, "create", "CRC32C", "-", 1, 1, 1))[0])]
            await writer.close()
        assert ids == [(1 << 32) + number for number in range(6)]
        assert (await ask(newer, "read", ids[0], "CRC32C", "-"))[1] == "long"
    finally:
        newer.kill()
        kazoo.delete("/ledgers/idgen-long", recursive=True)
        await asyncio.to_thread(kazoo.stop)
        await asyncio.to_thread(kazoo.close)


async def test_p13_zookeeper_is_killed_in_the_middle(real_cluster: Cluster, connect: Connect) -> None:
    client = await connect(metadata_timeout_s=60)
    writer = await client.create()
    await writer.append(b"before")
    real_cluster.zookeeper.kill()
    assert await writer.append(b"meanwhile") == 1, "appends need no metadata"
    creating = asyncio.ensure_future(client.create(ledger_id=1 << 34))
    closing = asyncio.ensure_future(writer.close())
    await asyncio.sleep(0)
    real_cluster.zookeeper.start()
    await asyncio.to_thread(real_cluster.zookeeper.wait)
    assert (await closing).last_entry_id == 1
    created = await creating
    assert await created.append(b"after") == 0
    await created.close()


async def test_p13_a_session_that_expires_loses_no_watch(real_cluster: Cluster, connect: Connect) -> None:
    store = ZookeeperMetadataStore(real_cluster.hosts, session_timeout_s=6)
    client, other = BookkeeperClient(store), await connect()
    await client.start()
    writer = await client.create()
    await writer.append(b"x")
    session = store.session
    thief = KazooClient(real_cluster.hosts, client_id=session)
    await asyncio.to_thread(thief.start)
    await asyncio.to_thread(thief.stop)  # which ends the session for both
    await asyncio.to_thread(thief.close)
    created = await client.create(ledger_id=1 << 35)
    await eventually(lambda: store.session not in (None, session), timeout_s=30)
    await other.recover(writer.ledger_id)
    await eventually(lambda: writer.error, timeout_s=30)
    with pytest.raises(Fenced, match="somebody else changed its metadata"):
        await writer.close()
    await created.close()
    await client.stop()


async def test_p16_a_store_is_not_used_after_a_fork(real_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ZookeeperMetadataStore(real_cluster.hosts)
    await store.start()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    with pytest.raises(RuntimeError, match="forked after its connection"):
        await store.read(1)
    monkeypatch.undo()
    await store.stop()


async def test_p8_what_is_no_cluster_is_refused(real_cluster: Cluster) -> None:
    with pytest.raises(UnsupportedLayout, match="its node LAYOUT is missing"):
        await BookkeeperClient(ZookeeperMetadataStore(real_cluster.hosts, root="/elsewhere")).start()
    with pytest.raises(Unavailable, match="no ZooKeeper at 127"):
        await BookkeeperClient(ZookeeperMetadataStore("127.0.0.1:1", call_timeout_s=0.5)).start()


async def test_a_bookie_with_the_cookie_of_another_cluster_is_not_used(real_cluster: Cluster, connect: Connect) -> None:
    kazoo = KazooClient(real_cluster.hosts)
    await asyncio.to_thread(kazoo.start)
    try:
        kazoo.create("/ledgers/cookies/127.0.0.1:1", b'4\nbookieHost: "127.0.0.1:1"\ninstanceId: "another"\n')
        kazoo.create("/ledgers/available/127.0.0.1:1", b"", ephemeral=True)
        kazoo.create("/ledgers/available/127.0.0.1:2", b"", ephemeral=True)
        client = await connect()
        problems = {bookie.bookie: bookie.problem or "" for bookie in client.bookies()}
        assert "its cookie is of the cluster another" in problems["127.0.0.1:1"]
        assert "it has no cookie" in problems["127.0.0.1:2"]
        for _ in range(5):
            assert not {"127.0.0.1:1", "127.0.0.1:2"} & set((await client.create()).metadata.last_segment.ensemble)
        kazoo.delete("/ledgers/cookies/127.0.0.1:1")
    finally:
        await asyncio.to_thread(kazoo.stop)
        await asyncio.to_thread(kazoo.close)
