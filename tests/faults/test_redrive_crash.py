"""kill -9 of a broker in the middle of the steps of a redrive, and a worker that forgets what it was told: each message is in the
target exactly once. `make redrive-campaign` kills the real worker too, with a stock client at the target."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import REDRIVE_MOVE, TOPICS_CREATE
from messaging.adminrpc.topics import TopicCreate
from messaging.errors import MagnetarError
from messaging.identity import service_token
from messaging.protocol import pulsar_pb2 as pb
from tenants.models import Tenant
from tests.benchmarks.real_broker import RealBroker
from tests.support.clients.consuming import texts
from tests.support.clients.raw_client import RawClient, send_frame
from workers.environment import Environment, StoppingWithProgress
from workers.redrive import task
from workers.redrive.models import RedriveJob
from workers.redrive.task import redrive

pytestmark = [pytest.mark.crash, pytest.mark.django_db]
LETTERS, TARGET = "persistent://public/default/letters", "persistent://public/default/again"
MESSAGES, KILLS = 120, 2


class KillingRpc(TypedCalls):
    """Calls of the broker; `kill_at_move`: so many calls of `redrive.move` from now it is killed, some ms after it began."""

    def __init__(self, broker: RealBroker, chance: random.Random, kill_at_move: int) -> None:
        self.broker, self._chance, self._left = broker, chance, kill_at_move
        self._real = AdminRpc(lambda: broker.addresses["rpc_url"], lambda: service_token(broker.settings, "worker"), 30.0)

    def perform(self, method: Method[R, A], request: R) -> A:
        if method.name == REDRIVE_MOVE.name:
            self._left -= 1
            if not self._left:
                killer = threading.Timer(self._chance.uniform(0.0, 0.02), self.broker.process.kill)
                killer.start()
                try:
                    return self._real.perform(method, request)
                finally:
                    killer.join()
        return self._real.perform(method, request)

    def close(self) -> None:
        self._real.close()


def test_each_message_is_in_the_target_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MOVE_ENTRIES", 10)
    chance = random.Random(17)
    Tenant.unscoped.create(name="public", uid="u1", admin_roles=[], allowed_clusters=[])
    job = RedriveJob.unscoped.create(
        idempotency_key="once", tenant="public", tenant_uid="u1", owner="admin", requested_by="x", created_at=datetime.now(UTC),
        topic=LETTERS, target=TARGET, subscription="redrive",
    )  # fmt: skip
    broker = RealBroker(tmp_path)
    try:
        for topic in (LETTERS, TARGET):
            broker.rpc.call(TOPICS_CREATE, TopicCreate(topic=topic))
        asyncio.run(publish(broker))
        for _ in range(KILLS):
            run_until_killed(broker, chance, job.id)
            broker.kill()
            broker = RealBroker(tmp_path)
        run_until_killed(broker, chance, job.id, kill_at_move=0)
        job.refresh_from_db()
        assert (job.state, job.moved, job.left) == ("done", MESSAGES, 0)
        assert sorted(map(int, asyncio.run(everything(broker)))) == list(range(MESSAGES))
    finally:
        broker.close()


def run_until_killed(broker: RealBroker, chance: random.Random, job: str, kill_at_move: int | None = None) -> None:
    rpc = KillingRpc(broker, chance, chance.randint(2, 5) if kill_at_move is None else kill_at_move)
    try:
        list(redrive(Environment(broker.settings, rpc), "r1", renew, job=job))  # all of its steps
        assert not kill_at_move and kill_at_move is not None, "it ended before the broker was killed"
    except (MagnetarError, StoppingWithProgress):
        assert kill_at_move is None
    finally:
        rpc.close()


def renew(**progress: Any) -> None:
    pass


async def connected(broker: RealBroker) -> RawClient:
    client = await RawClient.open(broker.address[1])
    await client.connect(None)
    return client


async def publish(broker: RealBroker) -> None:
    client = await connected(broker)
    await client.producer(LETTERS)
    client.write(*(send_frame(number, b"%d" % number) for number in range(MESSAGES)))
    for _ in range(MESSAGES):
        await client.expect("SEND_RECEIPT")
    await client.close()


async def everything(broker: RealBroker) -> list[bytes]:
    """What the target holds."""
    client = await connected(broker)
    fields = {"durable": False, "sub_type": pb.Subscribe.Exclusive, "initial_position": pb.Subscribe.Earliest}
    await client.subscribe(TARGET, "reader", permits=2 * MESSAGES, **fields)
    payloads = texts(await client.messages(MESSAGES))
    assert await client.quiet() == []
    await client.close()
    return list(payloads)
