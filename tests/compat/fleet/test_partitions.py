"""A seeded part of the fleet campaign that runs everywhere: brokers in this process, each of which reaches PostgreSQL through a
proxy that is cut (`tests.support.cuttable_proxy`). Leases are short, so that some cuts are longer than one.

What `make fleet` does with network namespaces, whole processes and all clients takes root, and minutes.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pulsar
import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.main import start
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.storage_opening import StorageUnreachable
from messaging.client import Client, connect
from messaging.errors import PlatformError
from messaging.identity import create_secrets, issue_token
from messaging.settings import Settings
from tests.compat.fleet.campaign import check_stored
from tests.compat.python_clients import Consumer, Publisher, messages
from tests.compat.receipts import Sent
from tests.support.bookkeeper.cluster import free_port
from tests.support.brokers.short_leases import shorten_leases
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.crash

NAMES = ("machine-1", "machine-2")
TOPICS = [f"persistent://acme/{namespace}/t{number}" for namespace in ("orders", "once") for number in range(3)]
LEASE_S = 2.0
SHORT_S = LEASE_S / 2  # of a cut, or until the system gives connections up
AGAIN_S = 40.0
STOP_S = 5.0


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_leases(monkeypatch, LEASE_S)


class Machine:
    """A broker that is started again whenever others took it for gone, as systemd does. `starts`: how often."""

    def __init__(self, folder: Path, name: str, proxy: CuttableProxy, url: str) -> None:
        self.proxy, self.starts = proxy, 0
        through = urlunsplit(urlsplit(url)._replace(netloc=f"{urlsplit(url).username}@127.0.0.1:{proxy.port}"))
        self.settings = Settings(
            data_dir=str(folder), broker_id=name, broker_port=free_port(), ws_port=0, metadata_url=through, ledger_url=through,
            broker_rpc_port=free_port(),  # of its own at each start, the other would not hear of it that is cut off meanwhile
        )  # fmt: skip
        self.url = f"pulsar://127.0.0.1:{self.settings.broker_port}"
        self.service: Broker | None = None

    async def live(self) -> None:
        while True:
            async with AsyncExitStack() as stack:
                try:
                    service = await start(self.settings, stack)
                except StorageUnreachable:
                    continue
                stack.push_async_callback(_stopped, service)
                if not service.access.view.version:
                    await _tell(service)
                assert isinstance(service.owners, SharedMember)
                self.service = service
                self.starts += 1
                await service.owners.lost.wait()
                self.service = None


async def _stopped(service: Broker) -> None:
    await asyncio.wait([asyncio.ensure_future(service.stop())], timeout=STOP_S)


async def _tell(service: Broker) -> None:
    grants = {"user@acme": ["produce", "consume"]}
    states: dict[tuple[str, str], dict[str, Any]] = {
        ("tenant", "acme"): {"admin_roles": []},
        ("namespace", "acme/orders"): {"grants": grants},
        ("namespace", "acme/once"): {"grants": grants, "policies": {"deduplication": True}},
        ("key", "user"): {"role": "user@acme", "tenant": "acme", "revoked": False},
    }
    changes = [FeedChange(version=1, kind=kind, key=key, state=state) for (kind, key), state in states.items()]
    await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=changes))


class Campaign:
    def __init__(self, machines: list[Machine], seed: int) -> None:
        self.machines, self.chance = machines, Random(seed)
        self.url = "pulsar://" + ",".join(urlsplit(machine.url).netloc for machine in machines)
        self.token = issue_token(machines[0].settings, "user@acme", "user", int(time.time()))

    async def run(self, kinds: list[str]) -> None:
        await eventually(lambda: all(machine.service for machine in self.machines), AGAIN_S)
        async with connect(self.url, self.token) as client:
            consumers = [Consumer(client, topic) for topic in TOPICS]
            stock = pulsar.Client(
                self.url, pulsar.AuthenticationToken(self.token), logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
            )
            self.publishers = await asyncio.gather(*(asyncio.to_thread(Publisher, stock, topic) for topic in TOPICS))
            await self._until_all_go_on()
            for kind in self.chance.sample(kinds, len(kinds)):
                await self._cut(kind)
            await asyncio.gather(*(asyncio.to_thread(publisher.close) for publisher in self.publishers))
            await asyncio.to_thread(stock.close)
            for publisher, consumer in zip(self.publishers, consumers, strict=True):
                assert not publisher.faults + consumer.faults
                await eventually(partial(_has_all, publisher, consumer), AGAIN_S)
                async with asyncio.timeout(AGAIN_S):
                    check_stored(publisher, await _stored(client, publisher.topic))
            for consumer in consumers:
                consumer.task.cancel()
            await asyncio.wait([consumer.task for consumer in consumers])

    async def _cut(self, kind: str) -> None:
        """A broker from its database. While that lasts longer than a lease, others serve its topics."""
        machine = self.chance.choice(self.machines)
        machine.proxy.cut(requests=kind == "no answers", answers=kind == "no requests")
        begun_s = time.monotonic()
        await _pass_s(SHORT_S)
        if kind != "short":
            if kind != "kept":  # else what is between keeps its connections, and nobody is told anything
                machine.proxy.drop()
            await self._until_all_go_on(begun_s)
        machine.proxy.heal()
        await self._until_all_go_on()
        await eventually(lambda: machine.service is not None, AGAIN_S)

    async def _until_all_go_on(self, since_s: float | None = None) -> None:
        for publisher in self.publishers:
            publisher.watch(since_s or time.monotonic())
        await eventually(lambda: all(publisher.first_s for publisher in self.publishers), AGAIN_S)


async def _pass_s(seconds: float) -> None:
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=seconds)


async def _stored(client: Client, topic: str) -> list[Sent]:
    """A broker may learn only now that it was taken for gone."""
    while True:
        try:
            return [Sent.read(message.payload) async for message in messages(client, topic)]
        except PlatformError:
            await _pass_s(0.5)


def _has_all(publisher: Publisher, consumer: Consumer) -> bool:
    assert publisher.receipts <= consumer.seen, f"{publisher.topic}: {len(publisher.receipts - consumer.seen)} did not come"
    assert not consumer.unanswered, f"{publisher.topic}: {len(consumer.unanswered)} acknowledgements were not answered"
    return True


@pytest.mark.usefixtures("short_leases")
async def test_brokers_that_are_cut_from_their_database_keep_their_word(tmp_path: Path, metadata_url: str) -> None:
    address = urlsplit(metadata_url)
    place = address.hostname or "", address.port or 5432
    create_secrets(Settings(data_dir=str(tmp_path)))
    with CuttableProxy(*place) as one, CuttableProxy(*place) as other:
        machines = []
        for name, proxy in zip(NAMES, (one, other), strict=True):
            (tmp_path / name).mkdir()
            (tmp_path / name / "secrets").symlink_to(tmp_path / "secrets")
            machines.append(Machine(tmp_path / name, name, proxy, metadata_url))
        living = [asyncio.create_task(machine.live()) for machine in machines]
        try:
            campaign = Campaign(machines, 3)
            await campaign.run(["both ways", "no answers", "kept", "short"])
            assert sum(machine.starts for machine in machines) > len(machines), "or no cut was longer than a lease"
        finally:
            for proxy in (one, other):
                proxy.heal()
            for task in living:
                task.cancel()
            await asyncio.wait(living)
