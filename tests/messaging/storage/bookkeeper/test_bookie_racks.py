"""Changing the table of racks that Pulsar's tools share with us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from messaging.bookkeeper.core.racks import RackTable
from messaging.bookkeeper.metadata.memory import MemoryMetadataStore
from messaging.bookkeeper.metadata.store import CreateNode, NodeChange, UnknownOutcome
from messaging.storage.bookkeeper.bookie_racks import BookieRacks
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
    with pytest.raises(StoreError, match="the node /bookies cannot be used, and was left as it is"):
        await racks.change(lambda _: RackTable())
    node = await cluster.store.node(PATH)
    assert node is not None and node.data == b"something else"


class LosingOneAnswer(MemoryMetadataStore):
    loses = False

    async def change(self, changes: Sequence[NodeChange]) -> None:
        await super().change(changes)
        if self.loses:
            self.loses = False
            raise UnknownOutcome


async def test_a_change_whose_answer_was_lost_still_returns_what_was_before() -> None:
    """A deletion would find nothing to delete, and be told to have failed, and be in no audit log."""
    metadata = LosingOneAnswer()
    racks = BookieRacks(metadata, PATH)
    await racks.change(lambda table: table.with_bookie("default", "b1:3181", {"rack": "/r1"}))

    def without(table: RackTable) -> RackTable:
        assert table.info("b1:3181") is not None, "it is asked to delete what it deleted"
        return table.without("b1:3181")

    metadata.loses = True
    assert (await racks.change(without)).info("b1:3181") == {"rack": "/r1"}
    assert (await racks.table()).groups == {}
