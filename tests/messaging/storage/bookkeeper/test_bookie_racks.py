"""Changing the table of racks that Pulsar's tools share with us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from messaging.bookkeeper.core.racks import RackTable
from messaging.bookkeeper.metadata.store import CreateNode
from messaging.storage.ledger_store import StoreError
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.opened_stores import OpenedStores

PATH = "/bookies"


async def test_changes_of_several_brokers_are_all_kept(open_store: OpenedStores) -> None:
    stores = [await open_store() for _ in range(3)]

    def adding(number: int) -> Awaitable[RackTable]:
        return stores[number % 3].racks.change(lambda table: table.with_bookie("default", f"b{number}:3181", {"rack": "/r"}))

    await asyncio.gather(*(adding(number) for number in range(12)))
    assert set((await stores[0].racks.table()).groups["default"]) == {f"b{number}:3181" for number in range(12)}


async def test_a_change_returns_what_was_before(open_store: OpenedStores) -> None:
    racks = (await open_store()).racks
    assert (await racks.change(lambda table: table.with_bookie("default", "b1:3181", {"rack": "/r1"}))).info("b1:3181") is None
    before = await racks.change(lambda table: table.without("b1:3181"))
    assert before.info("b1:3181") == {"rack": "/r1"} and (await racks.table()).groups == {}


async def test_a_node_that_is_no_table_is_left_as_it_is(cluster: FakeCluster, open_store: OpenedStores) -> None:
    racks = (await open_store()).racks
    await cluster.store.change([CreateNode(PATH, b"{}")])
    cluster.store.overwrite(PATH, b"something else")
    with pytest.raises(StoreError, match="the node /bookies is not as Pulsar writes it, and was left"):
        await racks.change(lambda _: RackTable())
    node = await cluster.store.node(PATH)
    assert node is not None and node.data == b"something else"
