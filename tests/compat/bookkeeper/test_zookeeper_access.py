"""A real ZooKeeper that speaks TLS, and whose nodes are for those alone who know a password."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from messaging.bookkeeper.errors import AccessRefused, Unavailable
from messaging.bookkeeper.metadata.store import CreateNode
from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.access import zookeeper_options
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import free_port, pkcs8, zookeeper_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"


class Guarded(NamedTuple):
    plain: str
    tls: str
    folder: Path

    def url(self, **options: str) -> BookkeeperUrl:
        files = {name: str(self.folder / file) for name, file in options.items()}
        return BookkeeperUrl(self.tls if "zookeeper_tls_ca_file" in files else self.plain, **files)  # type: ignore[arg-type]

    def store(self, **options: str) -> ZookeeperMetadataStore:
        url = self.url(**options)
        return ZookeeperMetadataStore(url.hosts, root=url.root, call_timeout_s=10, **zookeeper_options(url))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority, secure = trustme.CA(), free_port()
    certificate = authority.issue_cert("localhost")
    (folder / "server.pem").write_bytes(pkcs8(certificate) + certificate.cert_chain_pems[0].bytes())
    authority.issue_cert("magnetar").private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "another.pem"))
    (folder / "auth").write_text("magnetar:secret\n")
    (folder / "wrong").write_text("magnetar:guessed\n")
    server = zookeeper_server(
        folder / "zookeeper",
        settings=f"secureClientPort={secure}\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"ssl.keyStore.location={folder}/server.pem\nssl.trustStore.location={folder}/authority.pem\n",
    )
    server.start()
    try:
        server.wait()
        kazoo = KazooClient(f"127.0.0.1:{server.port}", auth_data=[("digest", "magnetar:secret")])
        kazoo.start()
        kazoo.create("/ledgers/LAYOUT", LAYOUT, makepath=True)
        kazoo.set_acls("/ledgers", [make_digest_acl("magnetar", "secret", all=True)])
        kazoo.stop()
        kazoo.close()
        yield Guarded(f"127.0.0.1:{server.port}", f"localhost:{secure}", folder)
    finally:
        server.kill()


async def test_over_tls_and_with_a_password_all_nodes_are_guarded_as_the_ledgers_are(guarded: Guarded) -> None:
    tls = {
        "zookeeper_tls_ca_file": "authority.pem",
        "zookeeper_tls_cert_file": "client.pem",
        "zookeeper_tls_key_file": "client.pem",
    }
    store = guarded.store(**tls, zookeeper_auth_file="auth")
    await store.start()
    await store.change([CreateNode("/magnetar/stores/default", b"ours")])
    node = await store.node("/magnetar/stores/default")
    assert node is not None and node.data == b"ours"
    await store.stop()
    stranger = KazooClient(guarded.plain)
    await asyncio.to_thread(stranger.start)
    try:
        for path in ("/magnetar", "/magnetar/stores", "/magnetar/stores/default", "/ledgers"):
            with pytest.raises(NoAuthError):
                stranger.get(path)
    finally:
        await asyncio.to_thread(stranger.stop)
        await asyncio.to_thread(stranger.close)


@pytest.mark.parametrize("auth", [{}, {"zookeeper_auth_file": "wrong"}], ids=["none", "wrong"])
async def test_without_the_password_access_is_refused(guarded: Guarded, auth: dict[str, str]) -> None:
    with pytest.raises(AccessRefused, match="ZooKeeper refuses access to /ledgers"):
        await guarded.store(**auth).start()


async def test_a_server_of_another_authority_is_refused_with_the_reason(guarded: Guarded) -> None:
    url = guarded.url(zookeeper_tls_ca_file="another.pem")
    store = ZookeeperMetadataStore(url.hosts, call_timeout_s=2, **zookeeper_options(url))
    with pytest.raises(Unavailable, match=r"no ZooKeeper at localhost:.*certificate verify failed"):
        await store.start()
