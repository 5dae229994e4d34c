"""The racks of bookies that Pulsar keeps in a node, and placement by them."""

from __future__ import annotations

from functools import partial

import pytest

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.core.placement import DEFAULT_RACK
from messaging.bookkeeper.core.racks import TABLE_BYTES_MAX, RackTable
from messaging.bookkeeper.errors import InvalidArgument, MalformedMetadata
from messaging.bookkeeper.metadata.store import CreateNode, SetNode
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.waiting import eventually

AS_PULSAR_WRITES_IT = (
    b'{"default":{"b1:3181":{"rack":"/r1","hostname":"b1"},"b2:3181":{"rack":"r2"}},"east":{"b3:3181":{"rack":"/"}}}'
)


def test_a_rack_is_of_a_bookie_whatever_its_group() -> None:
    table = RackTable.parse(AS_PULSAR_WRITES_IT)
    found = [table.rack_of(f"b{number}:3181", "10.0.0.1:3181") for number in (1, 2, 3, 4)]
    assert found == ["/r1", "/r2", DEFAULT_RACK, DEFAULT_RACK]
    assert table.rack_of("an-id", "b1:3181") == "/r1", "by its address, where its id is another one"
    assert RackTable.parse(b"").rack_of("b1:3181", "b1:3181") == DEFAULT_RACK


def test_a_bookie_is_in_one_group_and_a_group_goes_with_its_last_one() -> None:
    table = RackTable.parse(b'{"east":{"b1:3181":{"rack":"/r1"}},"west":{"b2:3181":{"rack":"/r2","ours":7}}}')
    moved = table.with_bookie("west", "b1:3181", {"rack": "/r9"})
    assert moved.groups == {"west": {"b2:3181": {"rack": "/r2", "ours": 7}, "b1:3181": {"rack": "/r9"}}}
    assert RackTable.parse(moved.encode()).groups == moved.groups, "what somebody else added stays"
    assert moved.without("b1:3181").without("b2:3181").groups == {} and moved.without("absent:1").groups == moved.groups


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"default":[]}', b'{"default":{"b1:3181":"/r1"}}', b"\xff"])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetadata, match="racks of bookies"):
        RackTable.parse(data)


def test_a_table_that_zookeeper_would_not_take_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=f"the limit is {TABLE_BYTES_MAX}"):
        RackTable().with_bookie("default", "b1:3181", {"rack": "x" * TABLE_BYTES_MAX}).encode()


def test_a_table_that_would_take_the_loop_too_long_is_not_read() -> None:
    """A megabyte that somebody else wrote was read in one turn of the loop."""
    entry = b'"b%06d:3181":{"rack":"/rack-1","hostname":"bookie"}'
    bookies = [entry % number for number in range(TABLE_BYTES_MAX // len(entry % 0))]  # and a comma each
    with pytest.raises(MalformedMetadata, match=f"the limit is {TABLE_BYTES_MAX}: remove bookies that are gone"):
        RackTable.parse(b'{"default":{' + b",".join(bookies) + b"}}")
    assert RackTable.parse(b'{"default":{' + b",".join(bookies[:-100]) + b"}}").info("b000000:3181") is not None


def only_one_in_r2(client: BookkeeperClient, alone: str) -> bool:
    return [bookie.bookie for bookie in client.bookies() if bookie.rack == "/r2"] == [alone]


async def test_a_change_of_racks_places_the_next_ledger_without_a_restart(cluster: FakeCluster) -> None:
    """Three bookies in one rack and a fourth in another: each ledger of two is in both, and in no other once that is changed."""
    await cluster.add()
    client = await cluster.client()
    names = [bookie.bookie for bookie in client.bookies()]

    def racks(alone: str) -> bytes:
        table = RackTable()
        for name in names:
            table = table.with_bookie("default", name, {"rack": "/r2" if name == alone else "/r1"})
        return table.encode()

    for version, alone in enumerate((names[3], names[0])):
        node = CreateNode("/bookies", racks(alone)) if version == 0 else SetNode("/bookies", racks(alone), version - 1)
        await cluster.store.change([node])
        await eventually(partial(only_one_in_r2, client, alone))
        for _ in range(20):
            writer = await client.create(ensemble=2, write_quorum=2, ack_quorum=1)
            assert alone in writer.metadata.last_segment.ensemble
            await writer.abandon()
    await client.stop()


@pytest.mark.parametrize(
    "data",
    [b"[" * 200_000, b'{"a":' * 200_000, b'{"default":{"b1:3181":{"rack":"\\ud800"}}}'],
    ids=["lists", "objects", "half a character"],
)
def test_what_is_nested_too_deeply_or_no_text_is_no_table(data: bytes) -> None:
    """Another error would end what follows the list of bookies, and keep brokers from starting."""
    with pytest.raises(MalformedMetadata):
        RackTable.parse(data)
