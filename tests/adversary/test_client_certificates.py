"""Client certificates as identities: whom the broker takes a peer of the TLS listener for, and whom it refuses."""

from __future__ import annotations

import asyncio
import datetime
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pulsar
import pytest
import trustme
import websockets
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from messaging.atomic_files import replace_file
from messaging.errors import AuthenticationFailed
from messaging.identity.certificates import certificate_principal
from messaging.permissions.model import Principal, tenant_of_key_role
from messaging.protocol import pulsar_pb2 as pb
from messaging.settings import ConfigError, Settings
from messaging.tls import server_context
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.raw_client import RawClient

TOPIC = "persistent://acme/orders/t"
NOW_MS = 1_700_000_000_000
ENDS = "Nov 14 22:13:30 2023 GMT"  # ten seconds later


class Trusting:
    """A broker that trusts `authority`, which signs what clients present."""

    def __init__(self, broker: RunningBroker, folder: Path, authority: trustme.CA) -> None:
        self.broker = broker
        self.url = broker.service.addresses.broker_url_tls
        self.folder = folder
        self.authority = authority

    def certificate(self, name: str, authority: trustme.CA | None = None) -> tuple[str, str]:
        """Paths of a certificate with this common name, and of its key."""
        issued = (authority or self.authority).issue_cert("client.example", common_name=name)
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(str(paths[0]))
        issued.private_key_pem.write_to_path(str(paths[1]))
        return str(paths[0]), str(paths[1])

    @property
    def trusted(self) -> str:
        return str(self.folder / "data" / "tls" / "ca.pem")

    async def client(self, *certificate: str) -> RawClient:
        context = ssl.create_default_context(cafile=self.trusted)
        if certificate:
            context.load_cert_chain(*certificate)
        return RawClient(*await asyncio.open_connection("127.0.0.1", urlsplit(self.url).port, ssl=context))


@asynccontextmanager
async def trusting(folder: Path, authority: trustme.CA | None = None, **settings: Any) -> AsyncIterator[Trusting]:
    authority, file = authority or trustme.CA(), folder / "clients.pem"
    authority.cert_pem.write_to_path(str(file))
    async with running_broker(
        folder / "data", tls="self-signed", broker_tls_port=0, tls_client_ca_file=str(file), **settings
    ) as broker:
        yield Trusting(broker, folder, authority)


def present(client: RawClient) -> None:
    client.say(pb.Command.CONNECT, client_version="raw", protocol_version=20, auth_method_name="tls")


async def refusal(client: RawClient) -> str:
    (answer,) = await client.gone()
    await client.close()
    assert (answer.name, answer.body.error) == ("ERROR", pb.AuthenticationError)
    return str(answer.body.message)


async def ended(client: RawClient) -> None:
    assert await client.gone() == [], "the handshake was refused, without a word of the protocol"
    await client.close()


async def test_the_common_name_is_a_role_that_may_what_it_was_granted(tmp_path: Path) -> None:
    async with trusting(tmp_path) as at:
        certificate = at.certificate("billing")
        client = await at.client(*certificate)
        present(client)
        await client.expect("CONNECTED")
        client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1)
        assert (await client.expect("ERROR")).error == pb.AuthorizationError
        await at.broker.say(("namespace", "acme/orders", {"grants": {"certificate:billing": ["produce"]}}))
        await client.producer(TOPIC)
        await client.close()


async def test_a_name_that_a_setting_maps_has_the_role_of_a_key(tmp_path: Path) -> None:
    async with trusting(tmp_path, tls_client_roles=("billing=writer@acme",)) as at:
        client = await at.client(*at.certificate("billing"))
        present(client)
        await client.expect("CONNECTED")
        await client.producer(TOPIC)
        client.say(pb.Command.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=1, sub_type=pb.Subscribe.Shared)
        assert (await client.expect("ERROR")).error == pb.AuthorizationError
        await client.close()


async def test_a_name_like_that_of_a_key_is_not_that_key(tmp_path: Path) -> None:
    """Whoever runs the authority names its certificates: that gives no right of a tenant, nor the platform's."""
    async with trusting(tmp_path) as at:
        for name in ("owner@acme", "admin"):
            client = await at.client(*at.certificate(name))
            present(client)
            await client.expect("CONNECTED")
            client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1)
            assert (await client.expect("ERROR")).error == pb.AuthorizationError
            await client.close()
    assert tenant_of_key_role("certificate:owner@acme") == ""
    assert Principal("certificate:owner@acme").tenant == "certificate:owner@acme"


async def test_without_a_certificate_of_the_authority_nobody_is_known_by_one(tmp_path: Path) -> None:
    async with trusting(tmp_path) as at:
        without = await at.client()
        present(without)
        assert "has no client certificate" in await refusal(without)
        plain = await RawClient.open(at.broker.port)
        present(plain)
        assert "tls_client_ca_file" in await refusal(plain)
        foreign = await at.client(*at.certificate("billing", trustme.CA()))
        present(foreign)
        await ended(foreign)
        by_token = await at.client()
        await by_token.connect(at.broker.token("owner"))
        await by_token.producer(TOPIC)
        await by_token.close()


async def test_without_an_authority_none_is_asked_for(tmp_path: Path) -> None:
    authority = trustme.CA()
    async with running_broker(tmp_path / "data", tls="self-signed", broker_tls_port=0) as broker:
        at = Trusting(broker, tmp_path, authority)
        client = await at.client(*at.certificate("billing"))
        present(client)
        assert "has no client certificate" in await refusal(client)


async def test_a_new_file_of_authorities_counts_from_the_next_handshake_on(tmp_path: Path) -> None:
    async with trusting(tmp_path) as at:
        before, successor = at.certificate("before"), trustme.CA()
        after = at.certificate("after", successor)
        successor.cert_pem.write_to_path(str(tmp_path / "successor.pem"))
        shutil.move(tmp_path / "successor.pem", tmp_path / "clients.pem")
        client = await at.client(*after)
        present(client)
        await client.expect("CONNECTED")
        await client.close()
        client = await at.client(*before)
        present(client)
        await ended(client)


def revoked(authority: trustme.CA, *certificates: tuple[str, str]) -> bytes:
    """A revocation list of the authority, as PEM."""
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    signing = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    begins, ends = now - datetime.timedelta(hours=1), now + datetime.timedelta(days=1)
    made = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject).last_update(begins).next_update(ends)
    for path, _ in certificates:
        serial = x509.load_pem_x509_certificate(Path(path).read_bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(begins).build()
        made = made.add_revoked_certificate(entry)
    return made.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]


async def test_a_certificate_that_was_revoked_is_refused_from_the_next_connection_on(tmp_path: Path) -> None:
    lists, authority = tmp_path / "revoked.pem", trustme.CA()
    lists.write_bytes(revoked(authority))
    async with trusting(tmp_path, authority, tls_client_crl_file=str(lists)) as at:
        stolen, other = at.certificate("stolen"), at.certificate("other")
        client = await at.client(*stolen)
        present(client)
        await client.expect("CONNECTED")
        await client.close()
        replace_file(lists, revoked(authority, stolen), durable=False)
        client = await at.client(*stolen)
        present(client)
        await ended(client)
        client = await at.client(*other)
        present(client)
        await client.expect("CONNECTED")
        await client.close()
        replace_file(lists, b"half a list", durable=False)  # changes nothing
        client = await at.client(*stolen)
        present(client)
        await ended(client)


async def test_websockets_identify_themselves_by_a_certificate_as_the_binary_protocol_does(tmp_path: Path) -> None:
    async with trusting(tmp_path, tls_client_roles=("billing=writer@acme",), anonymous_public=False) as at:
        port = urlsplit(at.broker.service.addresses.ws_url).port

        async def status(kind: str, *certificate: str, token: str = "") -> int:
            context = ssl.create_default_context(cafile=at.trusted)
            if certificate:
                context.load_cert_chain(*certificate)
            url = f"wss://127.0.0.1:{port}/ws/v2/{kind}/persistent/acme/orders/t" + ("/s" if kind == "consumer" else "")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            try:
                async with websockets.connect(url, ssl=context, additional_headers=headers, proxy=None):
                    return 101
            except websockets.InvalidStatus as error:
                return error.response.status_code

        known, unknown = at.certificate("billing"), at.certificate("nobody")
        assert [await status(kind, *known) for kind in ("producer", "consumer")] == [101, 403]
        assert await status("producer", *unknown) == 403  # certificate:nobody was granted nothing
        assert await status("producer") == 401
        assert await status("producer", *known, token="wrong") == 401  # whoever shows a token is known by it alone


async def test_a_stock_client_comes_in_by_its_certificate(tmp_path: Path) -> None:
    async with trusting(tmp_path, tls_client_roles=("billing=writer@acme",)) as at:
        certificate = at.certificate("billing")

        def publish() -> pulsar.MessageId:
            client = pulsar.Client(
                at.url,
                authentication=pulsar.AuthenticationTLS(*certificate),
                tls_trust_certs_file_path=at.trusted,
                logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            )
            try:
                return client.create_producer(TOPIC).send(b"by certificate")
            finally:
                client.close()

        assert (await asyncio.to_thread(publish)).entry_id() == 0


def certified(*names: str, ends: str = ENDS) -> dict[str, object]:
    return {"subject": ((("organizationName", "acme"),), *((("commonName", name),) for name in names)), "notAfter": ends}


def test_a_certificate_counts_until_it_ends() -> None:
    assert certificate_principal(certified("app"), {}, NOW_MS) == Principal("certificate:app", expires_ms=NOW_MS + 10_000)
    with pytest.raises(AuthenticationFailed, match="ended at Nov 14"):
        certificate_principal(certified("app"), {}, NOW_MS + 10_000)


@pytest.mark.parametrize(
    ("certificate", "roles", "reason"),
    [
        (None, {}, "no client certificate"),
        ({}, {}, "no client certificate"),
        (certified(), {}, "0 common names"),
        (certified("a", "b"), {}, "2 common names"),
        (certified("a" * 600), {}, "600 are allowed"),
        (certified("app"), {"app": "service:web"}, "reserved"),
    ],
)
def test_a_certificate_that_names_no_role_is_refused(
    certificate: dict[str, object] | None, roles: dict[str, str], reason: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        certificate_principal(certificate, roles, NOW_MS)


def test_settings_that_could_identify_nobody_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set tls to"):
        Settings(data_dir=str(tmp_path), tls_client_ca_file="ca.pem")
    with pytest.raises(ConfigError, match="NAME=ROLE"):
        Settings(data_dir=str(tmp_path), tls_client_roles=("billing",))
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for file in (empty, tmp_path / "missing.pem"):
        settings = Settings(data_dir=str(tmp_path), tls="self-signed", tls_client_ca_file=str(file))
        with pytest.raises(ConfigError, match="tls_client_ca_file"):
            server_context(settings, identifies_clients=True)
    authority = tmp_path / "authority.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    for file in (empty, authority):
        lists = {"tls_client_ca_file": str(authority), "tls_client_crl_file": str(file)}
        settings = Settings(data_dir=str(tmp_path), tls="self-signed", **lists)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="tls_client_crl_file"):
            server_context(settings, identifies_clients=True)
