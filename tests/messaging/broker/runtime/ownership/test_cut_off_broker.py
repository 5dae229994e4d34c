"""A broker whose database does not answer, between a proxy and clients that stay connected. What happens where another broker says
that its session is over is in `tests/compat/fleet/test_partitions.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from messaging.broker.core.ownership import letting_go
from messaging.broker.core.ownership.letting_go import Go, Heard, LettingGo
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.storage.ownership import MACHINE, BrokerSession
from messaging.storage.sql.meta_store import SqlMetaStore
from tests.support.bookkeeper.cluster import free_port
from tests.support.brokers.fleet import shared_broker
from tests.support.brokers.short_leases import shorten_leases
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/t"
LEASE_S = 2.0
LOOKS = 4


class World:
    """`looks`: when the broker, which cannot renew its session, looked at the others."""

    def __init__(self, client: RawClient, looks: list[float]) -> None:
        self.client, self._looks = client, looks

    async def look_on(self) -> list[str]:
        """What the client was told until the broker looked at the others a few times."""
        seen = len(self._looks)
        await eventually(lambda: len(self._looks) >= seen + LOOKS)
        return await self.client.quiet()


@asynccontextmanager
async def cut(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, *, closed: bool) -> AsyncIterator[World]:
    """Its database is there again at the end. `closed`: the only other broker ended before; else nothing is heard of it, and nobody
    knows why."""
    shorten_leases(monkeypatch, LEASE_S)
    monkeypatch.setattr(letting_go, "GAP_S", 600.0)
    decide, looks = LettingGo.decide, list[float]()

    def decide_noted(self: LettingGo, heard: Collection[tuple[BrokerSession, Heard]], now_s: float) -> Go | None:
        looks.append(now_s)
        return decide(self, heard, now_s)

    monkeypatch.setattr(LettingGo, "decide", decide_noted)
    address = urlsplit(url)
    with CuttableProxy(address.hostname or "", address.port or 5432) as proxy:
        through = urlunsplit(address._replace(netloc=f"{address.username}@127.0.0.1:{proxy.port}"))
        async with shared_broker(folder, through, 1) as broker:
            member, meta = broker.service.owners, broker.service.storage.meta
            assert isinstance(member, SharedMember) and isinstance(meta, SqlMetaStore)
            other = {"rpc_url": f"http://127.0.0.1:{free_port()}", MACHINE: "another"}
            session = await meta.ownership.open_session("machine-2", other)
            if closed:
                await meta.ownership.close_session("machine-2", session)
            await member.look()
            client = await RawClient.open(broker.port)
            await client.connect(broker.token("owner"))
            await client.producer(TOPIC)
            proxy.cut()
            try:
                yield World(client, looks)
            finally:
                proxy.heal()
            await eventually(lambda: member.renews)
            client.write(send_frame(0, b"after the cut"))
            await client.expect("SEND_RECEIPT")
            await client.close()


async def test_clients_of_a_fleet_that_was_made_smaller_stay_through_an_outage_of_the_metadata(
    tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cut(tmp_path, metadata_url, monkeypatch, closed=True) as world:
        assert not await world.look_on()


async def test_clients_of_a_broker_that_reaches_nobody_are_let_go_and_those_that_come_back_are_not_at_once(
    tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cut(tmp_path, metadata_url, monkeypatch, closed=False) as world:
        assert await world.look_on() == ["CLOSE_PRODUCER"]
        await world.client.producer(TOPIC)
        assert not await world.look_on()
