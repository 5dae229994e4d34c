"""Clients of the broker on the web port: the JSON API and the binary protocol, each through its own client, to a real broker."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets

from controlplane import gateway
from messaging import client as magnetar
from messaging.adminrpc.audit import AuditTake
from messaging.adminrpc.finding import BrokerChoice
from messaging.broker.runtime.main import announce
from messaging.client import errors
from messaging.descriptors import of_web, tunnels_fitting
from messaging.settings import ConfigError, Settings
from messaging.tls import ensure_certificate
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.raw_http import get, peers
from tests.support.running_http_server import running
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"
PRODUCER = "/ws/v2/producer/persistent/acme/orders/new"
CONSUMER = "/ws/v2/consumer/persistent/acme/orders/new/billing"


@asynccontextmanager
async def web_port(settings: Settings) -> AsyncIterator[int]:
    async with running(data_dir=settings.data_dir, tls=settings.tls, tunnels=gateway.tunnels(settings, 8)) as here:
        yield here.port


@asynccontextmanager
async def broker_and_web_port(folder: Path, **settings: Any) -> AsyncIterator[tuple[RunningBroker, int]]:
    async with running_broker(folder, **settings) as broker:
        announce(broker.service.settings, broker.service)
        async with web_port(broker.service.settings) as port:
            yield broker, port


async def test_the_binary_protocol_and_the_json_api_pass_through_the_web_port(tmp_path: Path) -> None:
    async with broker_and_web_port(tmp_path) as (broker, port):
        headers = {"Authorization": f"Bearer {broker.token('owner')}"}
        async with (
            magnetar.connect(f"ws://127.0.0.1:{port}", key=broker.token("owner")) as client,
            client.consumer(TOPIC, "s") as consumer,
            client.producer(TOPIC, chunking=True) as producer,
            websockets.connect(f"ws://127.0.0.1:{port}{CONSUMER}", additional_headers=headers, proxy=None) as json_consumer,
            websockets.connect(f"ws://127.0.0.1:{port}{PRODUCER}", additional_headers=headers, proxy=None) as json_producer,
        ):
            large = bytes(range(256)) * 2_000
            await producer.send(large)
            assert (await consumer.receive(timeout_s=20)).payload == large
            assert base64.b64decode(json.loads(await json_consumer.recv())["payload"]) == large
            await json_producer.send(json.dumps({"payload": base64.b64encode(b"by JSON").decode()}))
            assert json.loads(await json_producer.recv())["result"] == "ok"
            assert (await consumer.receive(timeout_s=20)).payload == b"by JSON"


async def test_a_broker_that_restarts_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Its port is another one afterwards."""
    async with AsyncExitStack() as stack:
        async with running_broker(tmp_path) as broker:
            announce(broker.service.settings, broker.service)
            port = await stack.enter_async_context(web_port(broker.service.settings))
            client = await stack.enter_async_context(magnetar.connect(f"ws://127.0.0.1:{port}", key=broker.token("owner")))
            producer = await client.create_producer(TOPIC)
            consumer = await client.subscribe(TOPIC, "s", ack_receipts=True)
            await producer.send(b"before")
            await consumer.ack(await consumer.receive(timeout_s=20))
        sent = producer.send_nowait(b"meanwhile")
        async with running_broker(tmp_path) as again:
            announce(again.service.settings, again.service)
            await sent
            await producer.send(b"after")
            received = [(await consumer.receive(timeout_s=20)).payload for _ in range(2)]
            assert received == [b"meanwhile", b"after"]
            await client.close()


@pytest.mark.parametrize(("trusted", "address"), [((), "127.0.0.1"), (("127.0.0.1",), "192.0.2.7")])
async def test_the_broker_believes_addresses_as_of_any_proxy(tmp_path: Path, trusted: tuple[str, ...], address: str) -> None:
    async with broker_and_web_port(tmp_path, trusted_proxies=trusted) as (broker, port):
        headers = {"Authorization": "Bearer of-nobody", "X-Forwarded-For": "192.0.2.7"}
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(f"ws://127.0.0.1:{port}{CONSUMER}", additional_headers=headers, proxy=None):
                pass
        assert refused.value.response.status_code == 401
        [event] = broker.service.audit.take(AuditTake(boot_id="", acknowledged_sequence=0)).events
        assert event.address == address


async def test_nobody_is_local_who_comes_over_the_web_port(tmp_path: Path) -> None:
    """Anonymous access is for callers on this machine, and the web process is one."""
    topic = "persistent://public/default/t"
    async with broker_and_web_port(tmp_path) as (broker, port):
        async with magnetar.connect(broker.ws_url) as client, client.producer(topic) as producer:
            await producer.send(b"local")
        async with magnetar.connect(f"ws://127.0.0.1:{port}") as client:
            with pytest.raises((errors.AuthenticationFailed, errors.NotAuthorized)):
                await client.create_producer(topic)


async def test_foreign_hosts_and_pages_are_refused_by_the_broker(tmp_path: Path) -> None:
    async with broker_and_web_port(tmp_path) as (_, port), peers(port, 2) as crowd:
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'A' * 22}==")
        host, origin = (get(CONSUMER, *upgrade), get(CONSUMER, *upgrade, "Origin: http://evil.example"))
        for peer, request, status in zip(crowd, (host.replace(b"localhost", b"evil.example"), origin), (421, 403), strict=True):
            peer.say(request)
            assert await peer.status() == status


async def test_over_tls_both_ways(tmp_path: Path) -> None:
    async with broker_and_web_port(tmp_path, tls="self-signed", broker_tls_port=0) as (broker, port):
        trusted = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
        async with (
            magnetar.connect(f"wss://localhost:{port}", key=broker.token("owner"), tls=trusted) as client,
            client.producer(TOPIC) as producer,
        ):
            await producer.send(b"x")


async def test_no_certificate_but_the_brokers_own_is_believed(tmp_path: Path) -> None:
    """Whoever else listens there would be handed the keys of clients."""
    ours = Settings(data_dir=str(tmp_path / "ours"), tls="self-signed")
    ensure_certificate(ours)
    async with running(data_dir=str(tmp_path / "theirs"), tls="self-signed") as other:
        run = tmp_path / "ours" / "run"
        run.mkdir()
        (run / "broker.json").write_text(json.dumps({"ws_url": f"wss://127.0.0.1:{other.port}"}))
        async with web_port(ours) as port:
            trusted = ssl.create_default_context(cafile=str(tmp_path / "ours" / "tls" / "ca.pem"))
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with websockets.connect(f"wss://localhost:{port}{CONSUMER}", ssl=trusted, proxy=None):
                    pass
            assert refused.value.response.status_code == 503
        await eventually(lambda: other.app.asked == [])


# --- where the broker is -----------------------------------------------------------------------------------------------------


def written(folder: Path, text: str) -> None:
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "broker.json").write_text(text)


def first_target(settings: Settings) -> gateway.Target:
    return next(iter(gateway.targets(settings, BrokerChoice(settings)).values()))


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.5", "10.0.0.5")]
)
def test_the_broker_of_this_data_directory_is_on_this_machine(tmp_path: Path, host: str, own: str) -> None:
    written(tmp_path, '{"ws_url": "ws://broker.example.com:9081"}')
    target = first_target(Settings(data_dir=str(tmp_path), host=host, advertised_host="broker.example.com"))
    assert target == (own, 9081, None, "")


def test_the_setting_comes_first(tmp_path: Path) -> None:
    written(tmp_path, '{"ws_url": "ws://127.0.0.1:9081"}')
    assert first_target(Settings(data_dir=str(tmp_path), broker_ws_url="ws://broker:81")) == ("broker", 81, None, "broker")
    target = first_target(Settings(data_dir=str(tmp_path), broker_ws_url="wss://broker.example.com"))
    assert (target.host, target.port, target.name) == ("broker.example.com", 443, "broker.example.com")
    assert target.tls is not None and target.tls.verify_mode is ssl.CERT_REQUIRED and target.tls.check_hostname


async def test_of_several_brokers_the_first_that_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = closed.getsockname()[1]
    async with running_broker(tmp_path) as broker:
        named = broker.service.settings.__class__(
            data_dir=str(tmp_path), broker_ws_url=f"ws://127.0.0.1:{away}, {broker.ws_url.removesuffix('/')}"
        )
        async with web_port(named) as port, magnetar.connect(f"ws://127.0.0.1:{port}", key=broker.token("owner")) as client:
            await (await client.create_producer(TOPIC)).send(b"by the second")


class _Asked(asyncio.Protocol):
    port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.port = transport.get_extra_info("peername")[1]
        transport.close()


async def test_a_broker_that_turned_somebody_away_is_asked_last_for_a_while(tmp_path: Path) -> None:
    """It may be cut off from the broker that serves the topic."""
    async with running(data_dir=str(tmp_path)) as first, running(data_dir=str(tmp_path)) as second:
        settings = Settings(data_dir=str(tmp_path), broker_ws_url=f"ws://127.0.0.1:{first.port},ws://127.0.0.1:{second.port}")
        passing_on = gateway.tunnels(settings, 8)
        assert passing_on is not None
        made: list[_Asked] = []

        def make() -> asyncio.BaseProtocol:
            made.append(_Asked())
            return made[-1]

        for _ in range(2):
            turned_away = await passing_on.dial(make)
        turned_away()
        await passing_on.dial(make)
        assert [each.port for each in made] == [first.port, first.port, second.port]


@pytest.mark.parametrize("url", ["http://broker:81", "ws://broker:81/path", "broker", "ws://"])
def test_a_setting_that_is_no_such_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="broker_ws_url"):
        Settings(broker_ws_url=url)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ws_url": "ws://[::1:1"}', '{"ws_url": "http://127.0.0.1"}'])
def test_a_broker_that_is_not_there_is_an_error_of_the_network(tmp_path: Path, text: str) -> None:
    with pytest.raises(OSError, match=r"run/broker\.json"):
        first_target(Settings(data_dir=str(tmp_path)))
    written(tmp_path, text)
    with pytest.raises(OSError, match=r"run/broker\.json"):
        first_target(Settings(data_dir=str(tmp_path)))


def test_none_are_passed_on_where_that_is_said_or_files_are_few() -> None:
    settings = Settings(web_websockets_max=100)
    assert gateway.tunnels(settings, 0) is None
    assert tunnels_fitting(settings, of_web(settings)) == 100
    assert tunnels_fitting(settings, of_web(settings) - 20) == 90
    assert tunnels_fitting(settings, 300) == 0
