"""Listings of all brokers, while one of them does not answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.base import Method, Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.methods import PROBLEMS_LIST, STATUS, TOPICS_LIST
from messaging.adminrpc.problems import ProblemsList
from messaging.adminrpc.topics import TopicsList
from messaging.broker.runtime.ownership.other_brokers import TIMEOUT_S
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.ownership.silence import FORGOTTEN_S, GIVEN_UP_S, SILENT_S, Silence
from messaging.errors import NotReady
from messaging.storage.sql.meta_store import SqlMetaStore
from tests.support.brokers.fleet import shared_broker
from tests.support.brokers.running_broker import RunningBroker

SOON_S = SILENT_S + 3.0  # for a busy machine; a call gives up after 7 s
EVERYTHING = ProblemsList(of_tenants=[], of_namespaces=[], everywhere=True, problems_max=1)


async def ask(broker: RunningBroker, method: Method[Any, Any], request: Request) -> Any:
    return await asyncio.wait_for(broker.admin.methods[method.name](request), SOON_S)


@asynccontextmanager
async def beside_one_that_hangs(tmp_path: Path, metadata_url: str) -> AsyncIterator[tuple[RunningBroker, socket.socket]]:
    """It takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hanging:
        async with shared_broker(tmp_path, metadata_url, 1) as broker:
            member, meta = broker.service.owners, broker.service.storage.meta
            assert isinstance(member, SharedMember) and isinstance(meta, SqlMetaStore)
            (own,) = member.owners.sessions.values()
            await meta.ownership.open_session(
                "hanging", own.addresses | {"rpc_url": f"http://127.0.0.1:{hanging.getsockname()[1]}"}
            )
            await member.look()
            yield broker, hanging


async def test_a_broker_that_hangs_costs_a_listing_a_second_and_is_named(tmp_path: Path, metadata_url: str) -> None:
    async with beside_one_that_hangs(tmp_path, metadata_url) as (broker, _):
        found = await ask(broker, PROBLEMS_LIST, EVERYTHING)
        assert found.unreachable == ["hanging"]
        with pytest.raises(NotReady, match="hanging did not answer"):
            found.whole()
        with pytest.raises(NotReady, match="broker hanging does not answer"):
            await ask(broker, TOPICS_LIST, TopicsList(namespace="acme/orders"))
        for request in (BrokerAsked(broker_id="hanging"), BrokerAsked(broker_id="hanging")):
            with pytest.raises(NotReady, match="broker hanging does not answer"):
                await ask(broker, STATUS, request)


async def test_what_was_given_up_is_ended(tmp_path: Path, metadata_url: str) -> None:
    """So that a broker which goes on sees that nobody waits for it any more. It kept the connection for as long as a call takes."""

    def heard(hanging: socket.socket) -> bytes:
        connection, _ = hanging.accept()
        with connection:
            connection.settimeout(TIMEOUT_S - GIVEN_UP_S - 1)
            return b"".join(iter(partial(connection.recv, 1 << 16), b""))

    async with beside_one_that_hangs(tmp_path, metadata_url) as (broker, hanging):
        with pytest.raises(NotReady, match="broker hanging does not answer"):
            await ask(broker, STATUS, BrokerAsked(broker_id="hanging"))
        assert b"POST /rpc/v1/status" in await asyncio.to_thread(heard, hanging)


def test_whoever_answers_anything_is_not_silent() -> None:
    now_s = 100.0
    silence = Silence(lambda: now_s)
    silence.asked("a")
    now_s += SILENT_S - 0.1
    silence.asked("a")
    assert not silence.is_silent("a") and not silence.is_silent("b")
    now_s += 0.2
    assert silence.is_silent("a") and silence.silent(SILENT_S) == {"a"} and not silence.silent(GIVEN_UP_S)
    assert not silence.is_silent("a", GIVEN_UP_S), "it has a little longer for what cannot be answered without it"
    silence.answered("a")
    assert not silence.is_silent("a")
    silence.asked("a")
    assert not silence.is_silent("a")


def test_addresses_that_nobody_asks_any_more_are_forgotten() -> None:
    """A broker may have another port after each start: the addresses of all its former ones were kept for good."""
    now_s = 100.0
    silence = Silence(lambda: now_s)
    for number in range(1_000):
        silence.asked("one that hangs")
        silence.asked(f"port {number}")
        now_s += 1.0
    remembered = silence.silent(-1.0)
    assert "one that hangs" in remembered and FORGOTTEN_S <= len(remembered) <= FORGOTTEN_S + 2
    assert silence.is_silent("one that hangs", 999.0), "however long ago it was asked first"
