"""Which bookies are suspected, and for how long."""

from __future__ import annotations

from functools import partial

from messaging.bookkeeper.shell.ledger_writer import LedgerWriter
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.waiting import eventually


def replaced(writer: LedgerWriter, bookie: str) -> bool:
    return bookie not in writer.metadata.last_segment.ensemble


async def test_a_bookie_that_answers_again_is_used_again(cluster: FakeCluster) -> None:
    """A ledger whose bookies had failed one after the other, long ago and not at once, had none left."""
    await cluster.add()
    client = await cluster.client(request_timeout_s=0.2, ask_failed_s=0.05)
    writer = await client.create()
    at_first = set(writer.metadata.last_segment.ensemble)
    (spare,) = set(cluster.bookies) - at_first
    for name in [*sorted(at_first), spare, *sorted(at_first)]:
        out = cluster.bookies[name]
        out.silent = True
        before = writer.metadata.last_segment.ensemble
        await writer.append(b"goes on with the others")
        if name in before:
            await eventually(partial(replaced, writer, name))
        out.silent = False
        await eventually(lambda: not client.suspects())
        assert not writer.degraded
    assert (await writer.close()).last_entry_id == 6
    await client.stop()


async def test_ledgers_with_too_few_bookies_are_told_until_they_have_enough_again(cluster: FakeCluster) -> None:
    """Of three bookies one is silent, and there is no other one: what is appended has two copies. Nobody was told."""
    client = await cluster.client(request_timeout_s=0.2, ask_failed_s=0.05)
    writer, other = await client.create(), await client.create()
    name = writer.metadata.last_segment.ensemble[1]
    cluster.bookies[name].silent = True
    await writer.append(b"of two")
    await eventually(lambda: client.degraded() == {writer.ledger_id})
    await other.append(b"of two")
    await eventually(lambda: client.degraded() == {writer.ledger_id, other.ledger_id})
    await other.close()
    assert client.degraded() == {writer.ledger_id}, "a ledger that is closed is not written any more"
    cluster.bookies[name].silent = False
    await eventually(lambda: not client.degraded())
    await writer.append(b"of three")
    await eventually(lambda: len(cluster.bookies[name].entries.get(writer.ledger_id, ())) > 0)
    cluster.bookies[name].silent = True
    await cluster.add()
    await writer.append(b"of three others")
    await eventually(partial(replaced, writer, name))
    await eventually(lambda: not client.degraded())
    await writer.abandon()
    await client.stop()
