"""Our own processes over mutual TLS: who is let in, who is not, and certificates that are renewed while calls go on."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import trustme

from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.compaction import CompactionsDue
from messaging.adminrpc.methods import COMPACTION_DUE, FEED_VERSION, STATUS
from messaging.errors import AuthenticationFailed, NotAuthorized, NotReady
from messaging.identity import service_token
from messaging.identity.certificates import check_process_certificate
from messaging.internal_tls import internal_client_tls
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings
from tests.support.brokers.http_edge import NOW_MS, Edge, running_edge
from tests.support.process_certificates import ProcessCertificates
from tests.support.waiting import eventually

STATUS_CALLS = 25  # of each thread, while certificates change


class Processes:
    def __init__(self, edge: Edge, certificates: ProcessCertificates) -> None:
        self.edge = edge
        self.certificates = certificates
        self.url = f"https://127.0.0.1:{edge.listeners.rpc_port}"

    def client(self, name: str, *, token_of: str = "", url: str = "") -> AdminRpc:
        """What process `name` calls the broker with."""
        settings = self.edge.settings
        tls = internal_client_tls(settings, name)
        return AdminRpc(lambda: url or self.url, lambda: service_token(settings, token_of or name), 10.0, tls)


@asynccontextmanager
async def processes(folder: Path) -> AsyncIterator[Processes]:
    certificates = ProcessCertificates(folder)
    settings: dict[str, Any] = {**certificates.settings}
    async with running_edge(**settings) as edge:
        yield Processes(edge, certificates)


async def call(client: AdminRpc, work: Callable[[AdminRpc], object] = lambda rpc: rpc.call(STATUS, BrokerAsked())) -> object:
    def run() -> object:
        with closing(client):
            return work(client)

    return await asyncio.to_thread(run)


async def test_each_process_is_known_by_its_certificate_and_its_token(tmp_path: Path) -> None:
    async with processes(tmp_path) as at:
        for name in ("web", "worker", "cli"):
            await call(at.client(name))
        with pytest.raises(NotAuthorized, match=r"service:web may not call compaction\.due: only worker and broker may"):
            await call(at.client("web"), lambda rpc: rpc.call(COMPACTION_DUE, CompactionsDue(limit=1)))
        with pytest.raises(NotAuthorized, match="service:broker may not call"):
            await call(at.client("broker"), lambda rpc: rpc.call(FEED_VERSION, Request()))


async def test_a_stolen_certificate_is_of_no_use_without_the_key_nor_a_key_without_the_certificate(tmp_path: Path) -> None:
    async with processes(tmp_path) as at:
        with pytest.raises(AuthenticationFailed, match="token is of 'worker' but the certificate of this connection of web"):
            await call(at.client("web", token_of="worker"))
        at.certificates.issue("web", common_name="web.example")
        with pytest.raises(AuthenticationFailed, match=r"of web\.example"):
            await call(at.client("web"))


async def test_certificates_of_another_authority_and_those_that_ended_are_refused(tmp_path: Path) -> None:
    async with processes(tmp_path) as at:
        at.certificates.issue("web", authority=trustme.CA())
        with pytest.raises(NotReady):
            await call(at.client("web"))
        at.certificates.issue("web", ends=datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1))
        with pytest.raises(NotReady):
            await call(at.client("web"))
        at.certificates.issue("web")
        await call(at.client("web"))


async def test_without_a_certificate_or_without_tls_nobody_is_heard(tmp_path: Path) -> None:
    async with processes(tmp_path) as at:
        port = at.edge.listeners.rpc_port
        trusting = ssl.create_default_context(cafile=at.certificates.settings["internal_tls_ca_file"])
        trusting.check_hostname = False

        def ask(connection: http.client.HTTPConnection) -> None:
            with closing(connection):
                connection.request("POST", "/rpc/v1/status", b"{}", {"Authorization": f"Bearer {at.edge.identity}"})
                connection.getresponse()

        for connection in (
            http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=trusting),
            http.client.HTTPConnection("127.0.0.1", port, timeout=10),
        ):
            with pytest.raises((OSError, http.client.HTTPException)):
                await asyncio.to_thread(ask, connection)
        await call(at.client("web"))


async def test_nobody_else_can_stand_in_for_the_broker(tmp_path: Path) -> None:
    async with processes(tmp_path) as at:
        at.certificates.issue("broker", common_name="web")  # the next handshake shows it
        with pytest.raises(NotReady, match="is of web and not of 'broker'"):
            await call(at.client("worker"))
        at.certificates.issue("broker", authority=trustme.CA())
        with pytest.raises(NotReady, match="certificate verify failed"):
            await call(at.client("worker"))
        with pytest.raises(NotReady, match="do not agree about TLS"):
            await call(at.client("worker", url=at.url.replace("https", "http")))


async def test_without_certificates_no_other_machine_is_called(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="internal_tls_cert_file"):
        await call(AdminRpc(lambda: "http://192.0.2.1:7000", lambda: "token"))
    with pytest.raises(NotReady, match="internal_tls_cert_file"):
        await call(AdminRpc(lambda: "https://127.0.0.1:7000", lambda: "token"))


async def test_certificates_and_their_authority_are_renewed_while_calls_go_on(tmp_path: Path) -> None:
    """Old and new authority are trusted for a while; each process has its new certificate meanwhile."""
    async with processes(tmp_path) as at:
        failures: list[Exception] = []
        stop = threading.Event()
        calls = [0, 0]

        def load(number: int, client: AdminRpc) -> None:
            while not stop.is_set() or calls[number] < STATUS_CALLS:
                try:
                    client.call(STATUS, BrokerAsked())
                    calls[number] += 1
                except Exception as error:
                    failures.append(error)
                    return
                client.close()  # each call makes a handshake

        async def more() -> None:
            target = [count + 3 for count in calls]
            await eventually(lambda: failures or all(count >= least for count, least in zip(calls, target, strict=True)), 60)

        loads = [
            asyncio.create_task(asyncio.to_thread(load, number, at.client(name))) for number, name in enumerate(("web", "worker"))
        ]
        successor = trustme.CA()
        await more()
        at.certificates.trust(at.certificates.authority, successor)
        await more()
        for name in ("web", "broker", "worker"):
            at.certificates.issue(name, authority=successor)
            await more()
        at.certificates.trust(successor)
        await more()
        stop.set()
        await asyncio.gather(*loads)
        assert failures == []
        at.certificates.issue("cli", authority=at.certificates.authority)
        with pytest.raises(NotReady):  # the former authority counts no more
            await call(at.client("cli"))


def test_a_certificate_that_ends_on_an_open_connection_counts_no_more() -> None:
    web = Principal("service:web", service=True)
    ends = "Nov 14 22:13:30 2023 GMT"  # ten seconds after NOW_MS
    certificate = {"subject": ((("commonName", "web"),),), "notAfter": ends}
    check_process_certificate(web, certificate, NOW_MS)
    with pytest.raises(AuthenticationFailed, match="ended at Nov 14"):
        check_process_certificate(web, certificate, NOW_MS + 10_000)
    with pytest.raises(AuthenticationFailed, match="of nobody"):
        check_process_certificate(web, None, NOW_MS)


def test_a_process_does_not_start_without_its_certificate(tmp_path: Path) -> None:
    certificates = ProcessCertificates(tmp_path)
    (tmp_path / "worker.pem").unlink()
    settings = Settings(data_dir=str(tmp_path), **certificates.settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"worker\.pem .*set internal_tls_cert_file and internal_tls_key_file"):
        internal_client_tls(settings, "worker")
