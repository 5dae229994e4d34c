"""Ledgers are copied from real bookies while one is killed and the session with ZooKeeper ends; a broker is killed while held."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from controlplane.backup import take as taking
from controlplane.backup.bookies import BookieLedgers, verify_ledgers
from controlplane.backup.brokers import HeldBrokers, brokers_of_the_fleet, running_brokers
from controlplane.backup.copies import Copies
from controlplane.backup.manifest import BackupManifest, Formats, Kept
from controlplane.backup.restore import restore, verify
from controlplane.backup.take import take
from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.settings import ConfigError
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.ledger_store import Fence
from tests.benchmarks.real_broker import RealBroker
from tests.compat.stock import Stock, receive
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster
from tests.support.bookkeeper.copied_stores import ends_of, held
from tests.support.storage.ledger_entries import Results, read_all
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]
SCOPE = "acme/orders/0x0_0x8"
BLOCKS, BLOCK_BYTES = 400, 20_000


def payload(number: int) -> bytes:
    return b"%06d" % number * (BLOCK_BYTES // 6)


async def filled(store: BookkeeperLedgerStore, ledger_id: int) -> None:
    writer, results = await store.create(Fence(SCOPE, store.epoch), ledger_id, {}), Results()
    for number in range(BLOCKS):
        results.append(writer, [payload(number)])
    await results.wait(BLOCKS)
    assert all(error is None for _, error in results.got)


async def test_a_bookie_is_killed_and_the_session_ends_meanwhile(real_cluster: Cluster, tmp_path: Path) -> None:
    url = f"bookkeeper://{real_cluster.hosts}/ledgers?store=faults"
    store = BookkeeperLedgerStore(BookkeeperUrl.parse(url))
    await store.start()
    await store.take_over(Fence(SCOPE, store.epoch))
    for ledger_id in (1, 2):
        await filled(store, ledger_id)
    await store.seal(Fence(SCOPE, store.epoch), 1)
    await held(store)
    store.resume()
    sessions: list[ZookeeperMetadataStore] = []

    def metadata(parsed: BookkeeperUrl) -> ZookeeperMetadataStore:
        sessions.append(ZookeeperMetadataStore(parsed.hosts, session_timeout_s=6))
        return sessions[-1]

    ledgers = BookieLedgers(url, metadata)
    told = await ends_of(store), store.held_ledgers.scopes
    noted = await ledgers.noted(lambda: told)
    copies = Copies(tmp_path / "backup")
    began_s = time.monotonic()
    copying = asyncio.create_task(ledgers.copied(noted, copies, 4 << 20, again_s=1))
    await eventually(lambda: (tmp_path / "backup" / "bookkeeper").exists(), timeout_s=30)
    killed = real_cluster.bookies[0]
    killed.kill()
    session = sessions[-1].session
    thief = KazooClient(real_cluster.hosts, client_id=session)
    await asyncio.to_thread(thief.start)
    await asyncio.to_thread(thief.stop)  # which ends the session for both
    await asyncio.to_thread(thief.close)
    assert not copying.done(), "nothing was under way any more"
    try:
        await copying
        took_s = time.monotonic() - began_s
        content = BackupManifest(
            "1", "", Formats(), Kept("files", "files", "bookkeeper"), 1, True, 0, 0.0, 0, True, files=copies.files
        )
        verify_ledgers(tmp_path / "backup", content)
        size = sum(file.bytes for file in copies.files)
        print(f"{size / 2**20:.1f} MiB were copied in {took_s:.1f} s, at most 4 MiB/s")
        assert size > 2 * BLOCKS * BLOCK_BYTES * 0.99 and took_s > (size - (8 << 20)) / (4 << 20)
        target = f"bookkeeper://{real_cluster.hosts}/ledgers?store=faults-restored"
        await BookieLedgers(target).restored(tmp_path / "backup", content)
        other = BookkeeperLedgerStore(BookkeeperUrl.parse(target))
        await other.start()
        for ledger_id in (1, 2):
            info = await other.info(ledger_id)
            assert info.sealed and info.last_entry == BLOCKS - 1
            found = await read_all(await other.open(ledger_id), BLOCKS - 1)
            assert found == [payload(number) for number in range(BLOCKS)]
        await other.stop()
    finally:
        killed.start()
        await asyncio.to_thread(killed.wait)
        await store.stop()


def test_a_broker_is_killed_while_it_is_held(real_cluster: Cluster, tmp_path: Path) -> None:
    url = f"bookkeeper://{real_cluster.hosts}/ledgers?store=held"
    broker = RealBroker(tmp_path, ledger_url=url, message_bytes_max=1 << 20)
    brokers = HeldBrokers(broker.settings, running_brokers(broker.settings), "1")
    (said,) = brokers.hold()
    assert said.log == "" and said.files == []
    broker.kill()
    with pytest.raises(ConfigError, match=r"the backup could not be taken: .*; nothing was changed, try again"):
        brokers.go_on()
    brokers.give_up()


def test_brokers_of_other_machines_are_held_as_well(
    real_cluster: Cluster, tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"bookkeeper://{real_cluster.hosts}/ledgers?store=machines"
    brokers: list[RealBroker] = []
    try:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            if brokers:
                shutil.copytree(tmp_path / "one" / "secrets", tmp_path / name / "secrets")
            settings = {"metadata_url": metadata_url, "ledger_url": url, "broker_id": name, "message_bytes_max": 1 << 20}
            brokers.append(RealBroker(tmp_path / name, **settings))
        for number in range(8):
            brokers[0].create_topic(f"persistent://public/default/t{number}")
        made = take(brokers[1].settings, tmp_path / "backups")
        said = verify(made)
        assert said.brokers == 2 and said.held_ms > 0 and said.kept.messages == "bookkeeper"
        known = brokers_of_the_fleet(brokers[1].settings, running_brokers(brokers[1].settings))
        brokers[0].kill()
        monkeypatch.setattr(taking, "brokers_of_the_fleet", lambda *asked: known)  # it is not known yet that one is gone
        with pytest.raises(ConfigError, match="the backup could not be taken"):
            take(brokers[1].settings, tmp_path / "backups")
        assert list((tmp_path / "backups").iterdir()) == [made]
    finally:
        for broker in brokers:
            broker.close()


def test_what_a_broker_that_was_killed_had_answered_is_in_a_backup_taken_then(real_cluster: Cluster, tmp_path: Path) -> None:
    """Nothing runs: the ledgers that it left open are closed as the next start would, and read."""
    topic = "persistent://public/default/kept"
    stores = [f"bookkeeper://{real_cluster.hosts}/ledgers?store={name}" for name in ("killed", "killed-restored")]
    (tmp_path / "data").mkdir()
    broker = RealBroker(tmp_path / "data", ledger_url=stores[0], message_bytes_max=1 << 20)
    stock = Stock(broker.addresses["broker_url"], tmp_path / "client.log")
    stock.client().subscribe(topic, "reading").close()
    producer = stock.client().create_producer(topic)
    ids = [str(producer.send(b"%d" % number)) for number in range(100)]
    broker.kill()
    stock.close()
    made = take(broker.settings, tmp_path / "backups")
    restored = msgspec.structs.replace(broker.settings, data_dir=str(tmp_path / "restored"), ledger_url=stores[1])
    assert not restore(restored, made).running
    broker = RealBroker(tmp_path / "restored", ledger_url=stores[1], message_bytes_max=1 << 20)
    stock = Stock(broker.addresses["broker_url"], tmp_path / "client.log")
    received = receive(stock.client().subscribe(topic, "reading"), 100)
    assert [(str(message.message_id()), message.data()) for message in received] == [
        (message_id, b"%d" % number) for number, message_id in enumerate(ids)
    ]
    stock.close()
    broker.close()
