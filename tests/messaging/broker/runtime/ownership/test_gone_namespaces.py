"""Rows of ownership of namespaces that are gone, and of those that come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from messaging.broker.core.ownership.lookup import There, answer
from messaging.broker.runtime.ownership.gone_namespaces import GoneNamespaces
from messaging.broker.runtime.ownership.shared_member import EndsSessions, SharedMember
from messaging.protocol.bundles import equal_bundles
from messaging.storage.meta_store import MetaStore
from messaging.storage.ownership import SERVES, NamespaceBundle
from messaging.storage.sql.ownership import SqlOwnershipStore
from messaging.storage.sqlite.meta_store import SqliteMetaStore

NAMESPACE = "acme/orders"
LOWER, UPPER = (NamespaceBundle(NAMESPACE, *ends) for ends in ((0, 0x80000000), (0x80000000, 0xFFFFFFFF)))


class Topics:
    def __init__(self) -> None:
        self.names: list[str] = []

    async def list_topics(self, namespace: str, *, limit: int) -> list[str]:
        return self.names


class Broker:
    """One of those that share a database; each hears of namespaces by itself."""

    def __init__(self, store: SqlOwnershipStore, broker_id: str) -> None:
        self.exists, self.topics, self.store = True, Topics(), store
        self.member = SharedMember(store, broker_id, lambda namespace: equal_bundles(2), cast(EndsSessions, None))
        self.gone = GoneNamespaces(self.member, store, cast(MetaStore, self.topics), lambda namespace: self.exists)

    async def start(self, *bundles: NamespaceBundle) -> Broker:
        await self.member.resume(await self.store.open_session(self.member.broker_id, {}))
        await self.member.serve({SERVES: f"pulsar://{self.member.broker_id}"})
        for bundle in bundles:
            await self.store.acquire_bundle(bundle, self.member.broker_id, self.member.session)
        return self

    @property
    def known(self) -> list[tuple[NamespaceBundle, str]]:
        return [(row.bundle, row.broker_id) for row in self.member.owners.rows_of(NAMESPACE)]

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.member.look()
            await self.gone.look()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlOwnershipStore]:
    meta = SqliteMetaStore(tmp_path / "meta.sqlite3")
    await meta.start()
    yield meta.ownership
    await meta.stop()


async def test_the_rows_of_a_namespace_that_is_gone_are_removed(store: SqlOwnershipStore) -> None:
    broker = await Broker(store, "b1").start(LOWER)
    await broker.look(2)
    (row,) = await store.bundles_of(NAMESPACE)
    broker.exists = False
    await broker.look()
    assert await store.bundles_of(NAMESPACE), "it may only not be known here yet"
    broker.topics.names = [f"persistent://{NAMESPACE}/t"]
    await broker.look()
    assert await store.bundles_of(NAMESPACE), "its topics are being deleted"
    broker.topics.names = []
    await broker.look()
    assert not await store.bundles_of(NAMESPACE)
    assert not broker.member.owners.owned_by("b1") and not list(broker.member.owners.namespaces)
    again = await store.acquire_bundle(LOWER, "b1", broker.member.session)
    assert again.epoch > row.epoch


async def test_a_namespace_that_comes_back_has_the_owners_that_had_not_removed_it(store: SqlOwnershipStore) -> None:
    """One broker forgot it with all its rows, those included that a live one kept: it sent clients anywhere, and would not have
    seen that nobody serves those topics once that broker is gone."""
    first, second = await Broker(store, "b1").start(LOWER), await Broker(store, "b2").start(UPPER)
    await first.look()
    assert list(first.member.owners.brokers_of(NAMESPACE)) == ["b1", "b2"]
    first.exists = False
    await first.look(2)
    assert first.known == [(UPPER, "b2")]
    first.exists = True
    await second.look(2)
    await first.look()
    assert first.known == [(UPPER, "b2")]
    owners = first.member.owners
    assert owners.bundles_of["b2"] == 1 and list(owners.brokers_of(NAMESPACE)) == ["b2"]
    there = answer(owners, "b1", first.member.session, UPPER, UPPER.lower, sent=False)
    assert isinstance(there, There) and (there.broker.broker_id, there.owner) == ("b2", True)


async def test_what_a_live_broker_removed_is_forgotten_by_the_others(store: SqlOwnershipStore) -> None:
    first, second = await Broker(store, "b1").start(LOWER), await Broker(store, "b2").start(UPPER)
    first.exists = second.exists = False
    await first.look(3)
    assert first.known == [(UPPER, "b2")], "a live broker removes its own"
    await second.look(2)
    await first.look()
    for broker in (first, second):
        owners = broker.member.owners
        assert not list(owners.namespaces) and not owners.brokers_of(NAMESPACE)
        assert (owners.bundles_of["b1"], owners.bundles_of["b2"]) == (0, 0)
