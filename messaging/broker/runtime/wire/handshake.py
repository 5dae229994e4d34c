"""CONNECT and AUTH_RESPONSE: authentication. Until it succeeds, a connection can do nothing else."""

from __future__ import annotations

from dataclasses import replace

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.dialling import BrokerPlace
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.websocket_proxy import pass_on, place_of_other
from messaging.errors import AuthenticationFailed, MagnetarError
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.version import VERSION

_NO_PROXY = "this broker does not accept connections through a proxy: connect directly"


async def connect(service: Broker, connection: Connection, body: pb.Connect) -> None:
    """Answers CONNECTED; or sends an ERROR without a request id and closes the connection (as Pulsar does). A WebSocket that
    wants another broker is handed over to it, and answered by it."""
    try:
        if body.original_principal:
            principal = await _delegated(service, connection, body)
        elif connection.of_broker:
            raise AuthenticationFailed("this port is for brokers, on behalf of their clients: connect to broker_port")
        else:
            principal = await _principal(service, connection, body.auth_method_name, body.auth_data)
            place = _place_of_other(service, connection, body.proxy_to_broker_url)
            service.peers.signed_in(connection, principal, superuser=service.grants.is_superuser(principal.role))
            if place is not None:
                await pass_on(service, connection, body, replace(principal, address=connection.address), place)
                return
    except MagnetarError as error:
        fail(connection, error)
        return
    connection.supports_auth_refresh = body.feature_flags.supports_auth_refresh
    connection.protocol_version = min(body.protocol_version, frames.PROTOCOL_VERSION)
    connection.endpoints.knows_end_of_topic = connection.endpoints.of_sessions or (
        connection.client_version.startswith("Pulsar-Java") and connection.protocol_version >= 9
    )
    connection.signed_in(principal)
    connected = pb.Connected(
        server_version=f"Magnetar {VERSION}",
        protocol_version=connection.protocol_version,
        max_message_size=service.settings.message_bytes_max,
        feature_flags=pb.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True, supports_topic_watchers=True),
    )
    connection.send(frames.command(pb.Command.CONNECTED, connected=connected))


async def _delegated(service: Broker, connection: Connection, body: pb.Connect) -> Principal:
    """Another broker says who its client is. That broker counts it as a connection."""
    if service.delegations is None:
        raise AuthenticationFailed(_NO_PROXY)
    client = service.delegations.verified(body, service.now_ms(), from_brokers=connection.same_machine or connection.of_broker)
    principal = await service.access.admitted(client.principal, client.address)
    service.peers.signed_in(connection, principal, superuser=service.grants.is_superuser(principal.role), delegated=True)
    connection.stands_for(client.address, client.peer, local=client.local, sessions=client.sessions)
    return principal


def _place_of_other(service: Broker, connection: Connection, wanted: str) -> BrokerPlace | None:
    """None: it wants this broker."""
    if not wanted:
        return None
    if service.delegations is None or not connection.over_websocket:
        raise AuthenticationFailed(_NO_PROXY)
    return place_of_other(service, wanted)


async def authenticate(service: Broker, connection: Connection, body: pb.AuthResponse) -> None:
    """Accepts a new credential on an open connection; it must be for the same role."""
    try:
        principal = await _principal(service, connection, body.response.auth_method_name, body.response.auth_data)
        if connection.principal is None or principal.role != connection.principal.role:
            raise AuthenticationFailed("the new credential has another role: reconnect with it")
    except MagnetarError as error:
        fail(connection, error)
        return
    connection.signed_in(principal)


async def _principal(service: Broker, connection: Connection, method: str, data: bytes) -> Principal:
    if method == "tls":  # its data is empty: the handshake brought what identifies the peer
        return service.authenticate_certificate(connection.transport.get_extra_info("peercert"))
    return await service.authenticate(_token(method, data), connection.local, connection.address)


def _token(method: str, data: bytes) -> str | None:
    if method in ("", "none"):
        return None
    if method != "token":
        raise AuthenticationFailed(f"authentication method {method[:40]!r} is not supported: use token or tls authentication")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise AuthenticationFailed("the token is not valid UTF-8 text") from None


def fail(connection: Connection, error: MagnetarError) -> None:
    if isinstance(error, AuthenticationFailed):
        connection.service.sign_in_failed(error, connection.address)
    connection.send(frames.error(frames.UNSOLICITED, error.wire_code, error.message))
    connection.refuse(error.code, error.message)
