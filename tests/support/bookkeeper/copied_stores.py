"""Ledgers of fake bookies that are copied into packs, and restored from them, as `magnetar backup` does with real ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.metadata.store import MetadataStore
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.backup.copying import LedgerCopying
from messaging.storage.bookkeeper.backup.nodes import BackedUpNodes, RestoredNodes
from messaging.storage.bookkeeper.backup.pace import Pace
from messaging.storage.bookkeeper.backup.packs import Pack, StoreContent
from messaging.storage.bookkeeper.backup.restoring import LedgerRestoring
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from tests.support.bookkeeper.fake_bookie import FakeCluster

URL = BookkeeperUrl("zookeeper:2181")
UNBOUNDED = 1e12


class PackOnDisk:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.finished = False

    def write(self, parts: Sequence[bytes]) -> None:
        with self._path.open("ab") as file:
            file.write(b"".join(parts))

    def finish(self) -> None:
        self.finished = True

    def abandon(self) -> None:
        pass


class CopiedStore:
    """`begin` is right after the moment, `end` copies."""

    def __init__(
        self,
        cluster: FakeCluster,
        folder: Path,
        url: BookkeeperUrl = URL,
        metadata: MetadataStore | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.packs: dict[str, PackOnDisk] = {}
        self.listed: set[int] = set()
        self._cluster = cluster
        self._metadata = metadata or cluster.store
        self._url = url
        self._config = config or {}

    async def begin(self) -> None:
        self.client: BookkeeperClient = await self._cluster.client(self._metadata, **self._config)
        self.nodes = BackedUpNodes(self._metadata, self._url)
        await self.nodes.look()
        self.listed = await self.nodes.listed_ids()

    async def end(self, ends: Mapping[int, int], bytes_per_s: float = UNBOUNDED) -> StoreContent:
        copying = LedgerCopying(self.client, self.nodes, self._url.password(), again_s=0.01)
        try:
            return await copying.copy(self.listed, ends, self._new, Pace(bytes_per_s, bytes_per_s))
        finally:
            await self.client.stop()

    def paths(self, content: StoreContent) -> list[Path]:
        assert all(self.packs[name].finished for name in content.packs)
        return [self.folder / name for name in content.packs]

    def _new(self, name: str) -> PackOnDisk:
        made = self.packs[name] = PackOnDisk(self.folder / name)
        return made


async def held(store: BookkeeperLedgerStore) -> None:
    """As `backup.hold` does; `ends_of` is to be asked before `let_go`."""
    store.keep_files(True)
    await store.hold()


async def ends_of(store: BookkeeperLedgerStore) -> dict[int, int]:
    return dict(await store.held_ledgers.ends(-1, 1_000_000))


def packs_of(paths: Sequence[Path]) -> list[Pack]:
    """As their backup has noted them."""
    return [Pack(path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]


async def restored(
    cluster: FakeCluster, paths: Sequence[Path], content: StoreContent, url: BookkeeperUrl = URL, **config: Any
) -> None:
    client = await cluster.client(**config)
    try:
        restoring = LedgerRestoring(client, RestoredNodes(cluster.store, url), url)
        await restoring.run("a backup", packs_of(paths))
        await restoring.end(content)
    finally:
        await client.stop()
