"""Stores of several brokers on the same bookies, which are in the test's event loop."""

from __future__ import annotations

from typing import Any

from messaging.bookkeeper.config import Config
from messaging.bookkeeper.metadata.store import MetadataStore
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from tests.support.bookkeeper.fake_bookie import FakeCluster

QUICK: dict[str, Any] = {
    "request_timeout_s": 0.3,
    "speculative_read_s": 0.05,
    "metadata_timeout_s": 0.5,
    "reconnect_pause_s": 0.01,
    "failed_bookie_s": 0.1,
}


class OpenedStores:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._stores: list[BookkeeperLedgerStore] = []

    async def __call__(
        self, metadata: MetadataStore | None = None, config: dict[str, Any] | None = None, **options: Any
    ) -> BookkeeperLedgerStore:
        """A store that was started; `options` are those of its URL, `config` the settings of the client."""
        url = BookkeeperUrl("zookeeper:2181", **options)
        store = BookkeeperLedgerStore(
            url, metadata_store=lambda _: metadata or self._cluster.store, config=Config(**(config or {}))
        )
        await store.start()
        self._stores.append(store)
        return store

    async def stop(self) -> None:
        for store in self._stores:
            await store.stop()
