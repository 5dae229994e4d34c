"""A proxy between the SDK and the gateway that cuts connections on which nothing passes, as proxies do."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from messaging import client as magnetar
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
TOPIC = "persistent://acme/orders/new"
IDLE_S = 1  # nginx counts in seconds

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx")

CONFIGURATION = """
daemon off; master_process off; worker_processes 1;
pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location /ws/ {{
      proxy_pass http://127.0.0.1:{broker_port};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_read_timeout {idle_s}s; proxy_send_timeout {idle_s}s;
    }}
  }}
}}
"""


class Nginx:
    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self._log = log

    @property
    def ended(self) -> int:
        """WebSockets that are over: each has its line then."""
        return self._log.read_text().count("\n") if self._log.exists() else 0

    def ended_at_least(self, count: int) -> bool:
        return self.ended >= count


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def configure(folder: Path, port: int, broker_port: int) -> None:
    folder.mkdir()
    text = CONFIGURATION.format(folder=folder, port=port, broker_port=broker_port, idle_s=IDLE_S)
    (folder / "nginx.conf").write_text(text)


@asynccontextmanager
async def nginx(folder: Path, broker_port: int) -> AsyncIterator[Nginx]:
    assert NGINX is not None
    port = free_port()
    configure(folder, port, broker_port)
    process = await asyncio.create_subprocess_exec(
        NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")
    )
    try:
        await eventually(lambda: listens(port))
        yield Nginx(port, folder / "access.log")
    finally:
        process.terminate()
        await process.wait()


async def test_a_proxy_that_cuts_idle_connections_costs_no_message(broker: RunningBroker, tmp_path: Path) -> None:
    """Longer than most tests: nginx counts idle time in whole seconds."""
    async with nginx(tmp_path / "nginx", broker.ws_port) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}"
        async with (
            magnetar.connect(url, key=broker.token("owner")) as client,
            client.consumer(TOPIC, "s", ack_receipts=True) as consumer,
            client.producer(TOPIC) as producer,
        ):
            received: list[int] = []
            for round_ in range(3):
                futures = [producer.send_nowait(b"%d" % (10 * round_ + number)) for number in range(10)]
                await producer.flush()
                assert all(future.exception() is None for future in futures)
                while len(received) < 10 * (round_ + 1):
                    message = await consumer.receive(timeout_s=30)
                    received.append(int(message.payload))
                    await consumer.ack(message)
                if round_ < 2:
                    await eventually(partial(proxy.ended_at_least, round_ + 1), timeout_s=20)
            assert received == list(range(30))


async def test_keep_alives_of_the_client_keep_an_idle_connection(broker: RunningBroker, tmp_path: Path) -> None:
    async with nginx(tmp_path / "nginx", broker.ws_port) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}"
        async with (
            magnetar.connect(url, key=broker.token("owner"), keep_alive_s=IDLE_S / 5) as client,
            client.producer(TOPIC) as producer,
        ):
            await producer.send(b"x")
            async with magnetar.connect(url, key=broker.token("owner")) as idle, idle.producer(TOPIC):
                await eventually(lambda: proxy.ended == 1, timeout_s=20)
            assert producer.statistics.partitions_connected == 1
            await producer.send(b"y")
            assert proxy.ended <= 2, "those of the idle client"
