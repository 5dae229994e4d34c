"""Messages on bookies in a backup: what is copied and put back, and what is refused before anything is written."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from controlplane import datadir
from controlplane.backup import bookies, manifest
from controlplane.backup.bookies import CONTENT, BookieLedgers, verify_ledgers
from controlplane.backup.copies import Copies, GrowingFile
from controlplane.backup.drafts import UNFINISHED
from controlplane.backup.manifest import BackupManifest, CopiedFile, Formats, Kept
from controlplane.backup.restore import restore
from controlplane.backup.take import take
from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
from messaging.settings import ConfigError, Settings
from messaging.storage.bookkeeper.backup.packs import CONTENT_FORMAT, StoreContent
from messaging.storage.ledger_store import WHOLE, Fence, StoreError
from tests.support.bookkeeper.copied_stores import ends_of, held
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.made_packs import adds, ledger, pack
from tests.support.bookkeeper.opened_stores import OpenedStores
from tests.support.storage.ledger_entries import append_all, read_all
from tests.support.storage.owning import started

URL = "bookkeeper://zookeeper:2181/ledgers"
NOBODY = "bookkeeper://127.0.0.1:1/ledgers"
FAST = 1e12


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    made = FakeCluster()
    for _ in range(3):
        await made.add()
    yield made
    for bookie in made.bookies.values():
        await bookie.stop()


def manifest_of(copies: Copies) -> BackupManifest:
    return BackupManifest(
        magnetar_backup="1",
        release="0.1.0",
        formats=Formats(),
        kept=Kept("files", "files", "bookkeeper"),
        brokers=1,
        running=True,
        moment_ms=0,
        held_ms=1.0,
        took_ms=1,
        with_secrets=True,
        files=copies.files,
    )


async def test_they_are_copied_checked_and_put_into_another_store(cluster: FakeCluster, tmp_path: Path) -> None:
    opened = OpenedStores(cluster)
    store = await opened()
    writer = await store.create(await started(store), 7, {})
    await append_all(writer, b"one", b"two")
    ledgers = BookieLedgers(URL, lambda url: cluster.store)
    await held(store)
    store.resume()
    told = await ends_of(store), store.held_ledgers.scopes
    noted = await ledgers.noted(lambda: told)
    await append_all(writer, b"later")
    copies = Copies(tmp_path / "backup")
    await ledgers.copied(noted, copies, FAST)
    assert {file.path for file in copies.files} == {CONTENT, "bookkeeper/ledgers-000000.pack"}
    content = manifest_of(copies)
    assert list(manifest.problems(tmp_path / "backup", content)) == []
    verify_ledgers(tmp_path / "backup", content)
    with pytest.raises(StoreError, match="has a store of this name"):
        await ledgers.restored(tmp_path / "backup", content)
    await BookieLedgers(f"{URL}?store=other", lambda url: cluster.store).restored(tmp_path / "backup", content)
    other = await opened(store="other")
    assert (await other.info(7)).last_entry == 1 and await read_all(await other.open(7), 1) == [b"one", b"two"]
    await opened.stop()


async def test_a_broker_that_started_at_the_moment_may_have_deleted_what_is_not_listed(cluster: FakeCluster) -> None:
    opened = OpenedStores(cluster)
    store = await opened()
    fence = await started(store)
    for ledger_id in (7, 8):
        await (await store.create(fence, ledger_id, {})).close()
    ledgers = BookieLedgers(URL, lambda url: cluster.store)
    await ledgers.checked()
    await held(store)
    store.resume()
    newer = await opened()
    await newer.take_over(Fence(WHOLE, newer.epoch))
    await newer.delete(Fence(WHOLE, newer.epoch), 7)
    told = await ends_of(store), store.held_ledgers.scopes
    with pytest.raises(StoreError, match="a broker started at the moment of the backup, and may have deleted ledgers"):
        await ledgers.noted(lambda: told)
    await ledgers.checked()
    assert (await ledgers.noted(lambda: ({}, {}))).listed == {8}
    await opened.stop()


@pytest.fixture
def backup(tmp_path: Path) -> tuple[Path, BackupManifest]:
    """Its ledgers alone."""
    made = tmp_path / "made"
    made.mkdir()
    copies = Copies(tmp_path / "backup")
    copies.write("bookkeeper/ledgers-000000.pack", pack(made, ledger(7, adds(2)), ledger(8, adds(1))).read_bytes())
    content = StoreContent(CONTENT_FORMAT, "1", 1, ["ledgers-000000.pack"], 2, 3, [])
    copies.write(CONTENT, msgspec.json.encode(content))
    return tmp_path / "backup", manifest_of(copies)


def change(folder: Path, manifest: BackupManifest, **values: object) -> None:
    """And its checksum: whoever can write one can write the other."""
    content = msgspec.json.decode((folder / CONTENT).read_bytes(), type=StoreContent)
    replaced(folder, manifest, msgspec.json.encode(msgspec.structs.replace(content, **values)))


def replaced(folder: Path, manifest: BackupManifest, data: bytes) -> None:
    (folder / CONTENT).write_bytes(data)
    at = next(at for at, file in enumerate(manifest.files) if file.path == CONTENT)
    manifest.files[at] = CopiedFile(CONTENT, len(data), len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ledgers": 3}, "has 2 ledgers with 3 blocks, and was made with 3 and 3"),
        ({"adds": 4}, "and was made with 2 and 4"),
        ({"packs": ["ledgers-000000.pack", "ledgers-000001.pack"]}, r"bookkeeper/ledgers-000001\.pack is not part of it"),
        ({"packs": ["ledgers-000000.pack"] * 2}, "has ledger 7 twice"),
        ({"format": 9}, "made by a later release: its ledgers have format 9"),
    ],
)
def test_ledgers_that_are_missing(backup: tuple[Path, BackupManifest], values: dict[str, object], says: str) -> None:
    folder, content = backup
    verify_ledgers(folder, content)
    change(folder, content, **values)
    with pytest.raises(ConfigError, match=says):
        verify_ledgers(folder, content)


def test_what_it_has_of_a_store_is_damaged(backup: tuple[Path, BackupManifest]) -> None:
    folder, content = backup
    for damage in (b"{}", b"\xff", b""):
        replaced(folder, content, damage)
        with pytest.raises(ConfigError, match=r"store\.json cannot be read"):
            verify_ledgers(folder, content)
    (folder / CONTENT).write_bytes(b" ")
    with pytest.raises(ConfigError, match=r"store\.json does not match its checksum"):
        verify_ledgers(folder, content)
    (folder / CONTENT).unlink()
    with pytest.raises(ConfigError, match=r"store\.json cannot be read"):
        verify_ledgers(folder, content)


def test_what_the_manifest_does_not_have_is_no_part_of_it(backup: tuple[Path, BackupManifest], tmp_path: Path) -> None:
    """A file that somebody put there has no checksum, and a name with a path may lead to anything."""
    folder, content = backup
    without = msgspec.structs.replace(content, files=[file for file in content.files if file.path != CONTENT])
    with pytest.raises(ConfigError, match=r"bookkeeper/store\.json is not part of it"):
        verify_ledgers(folder, without)
    copied = content.files[0]
    for name in ("../outside", "below/ledgers-000000.pack", ""):
        named = msgspec.structs.replace(content, files=[*content.files, msgspec.structs.replace(copied, path=f"bookkeeper/{name}")])
        change(folder, named, packs=[name])
        with pytest.raises(ConfigError, match=rf"bookkeeper/{name} is not part of it"):
            verify_ledgers(folder, named)


async def test_a_disk_that_is_full(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenedStores(cluster)
    store = await opened()
    await append_all(await store.create(await started(store), 7, {}), b"one")
    await store.stop()

    def full(self: GrowingFile, parts: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(GrowingFile, "write", full)
    ledgers = BookieLedgers(URL, lambda url: cluster.store)
    noted = await ledgers.noted(lambda: ({}, {}))
    copies = Copies(tmp_path / "backup")
    with pytest.raises(OSError, match="No space left"):
        await ledgers.copied(noted, copies, FAST)
    assert copies.files == []


async def test_a_cluster_that_has_no_such_store(cluster: FakeCluster) -> None:
    with pytest.raises(StoreError, match="has no store of this name"):
        await BookieLedgers(URL, lambda url: cluster.store).noted(lambda: ({}, {}))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no ZooKeeper is, that is known at once."""
    monkeypatch.setattr(bookies, "in_zookeeper", lambda url, options: ZookeeperMetadataStore(url.hosts, call_timeout_s=0.2))


@pytest.mark.usefixtures("impatient")
def test_a_backup_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), ledger_url=NOBODY)
    datadir.prepare(settings)
    with pytest.raises(ConfigError, match=r"ledgers on bookies cannot be copied: the BookKeeper of ledger_url: no ZooKeeper"):
        take(settings, tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == []
    assert not list(tmp_path.glob(f"**/{UNFINISHED}*"))


def whole(folder: Path, content: BackupManifest) -> None:
    manifest.write(folder, msgspec.structs.replace(content, formats=Formats(backup=manifest.BACKUP_FORMAT)))


@pytest.mark.usefixtures("impatient")
def test_a_restore_that_names_something_else(backup: tuple[Path, BackupManifest], tmp_path: Path) -> None:
    folder, content = backup
    whole(folder, content)
    for url, says in (
        ("", "messages of bookies: set MAGNETAR_LEDGER_URL"),
        ("postgresql://127.0.0.1:1/none", "messages of bookies: set MAGNETAR_LEDGER_URL"),
        (NOBODY, "the backup cannot be restored: the BookKeeper of ledger_url: no ZooKeeper"),
    ):
        with pytest.raises(ConfigError, match=says):
            restore(Settings(data_dir=str(tmp_path / "target"), ledger_url=url), folder)
        assert not (tmp_path / "target").exists()
    whole(folder, msgspec.structs.replace(content, kept=Kept("files", "files", "files")))
    with pytest.raises(ConfigError, match="restore it with ledger_url empty"):
        restore(Settings(data_dir=str(tmp_path / "target"), ledger_url=NOBODY), folder)


def test_a_url_that_is_wrong() -> None:
    with pytest.raises(ConfigError, match="ledger_url: password_file /nowhere cannot be read"):
        BookieLedgers(f"{URL}?password_file=/nowhere")


def test_a_file_that_grows_has_its_checksum(tmp_path: Path) -> None:
    copies = Copies(tmp_path / "backup")
    growing = copies.growing("bookkeeper/one")
    growing.write((b"a" * 100_000, b"b"))
    asyncio.run(asyncio.to_thread(growing.write, (b"c",)))
    assert copies.files == []
    growing.finish()
    (file,) = copies.files
    path = tmp_path / "backup" / "bookkeeper" / "one"
    assert (file.bytes, file.size, path.stat().st_mode & 0o777) == (100_002, 100_002, 0o600)
    assert file.sha256 == manifest.checksum(path, 100_002)
