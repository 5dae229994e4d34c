"""How one broker connects to another one on behalf of a client that it has identified.

The CONNECT carries the service token of the brokers and, as `original_principal`, who the client is. It is believed only with a
token that the key of the brokers signed, from a process of this machine or one that has a broker's certificate, and where there are
several brokers; whoever else names an original principal is refused. The broker that is asked checks the client's key again and
ends the connection with it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from messaging.errors import AuthenticationFailed
from messaging.identity import ServiceVerifier, service_token
from messaging.json_types import decoder_of
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.settings import Settings

METHOD = "magnetar-broker"
BROKER_ROLE = "service:broker"

_Text = Annotated[str, msgspec.Meta(max_length=1024)]


class DelegatedClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client, as the broker that it is connected to knows it. `peer` is its address with the port. `local`: it is on this
    machine, and may be anonymous. `sessions`: the other end serves clients of single messages, and knows the end of a topic."""

    role: _Text
    key_id: _Text = ""
    expires_ms: int = 0
    signing_key_id: _Text = ""
    issuer_key: _Text = ""
    address: _Text = ""
    peer: _Text = ""
    local: bool = False
    sessions: bool = False

    @property
    def principal(self) -> Principal:
        return Principal(
            self.role,
            self.key_id,
            expires_ms=self.expires_ms,
            signing_key_id=self.signing_key_id,
            issuer_key=self.issuer_key,
            address=self.address,
        )


def delegated_client(principal: Principal, *, peer: str = "", local: bool = False, sessions: bool = False) -> DelegatedClient:
    return DelegatedClient(
        role=principal.role,
        key_id=principal.key_id,
        expires_ms=principal.expires_ms,
        signing_key_id=principal.signing_key_id,
        issuer_key=principal.issuer_key,
        address=principal.address,
        peer=peer,
        local=local,
        sessions=sessions,
    )


def act_for(settings: Settings, connect: pb.Connect, client: DelegatedClient) -> None:
    """Makes a CONNECT one on behalf of `client`."""
    for name in ("proxy_to_broker_url", "original_auth_data", "original_auth_method"):
        connect.ClearField(name)
    connect.auth_method_name = METHOD
    connect.auth_data = service_token(settings, "broker").encode()
    connect.original_principal = msgspec.json.encode(client).decode()


class DelegationVerifier:
    """Of a broker of a fleet."""

    def __init__(self, settings: Settings) -> None:
        self._verifier = ServiceVerifier.from_settings(settings)

    def verified(self, connect: pb.Connect, now_ms: int, *, from_brokers: bool) -> DelegatedClient:
        """`from_brokers`: it came from this machine, or with a broker's certificate. Raises `AuthenticationFailed`."""
        if not from_brokers:
            raise AuthenticationFailed("only brokers may connect on behalf of clients: connect directly")
        if connect.auth_method_name != METHOD:
            raise AuthenticationFailed("only brokers may connect on behalf of clients: connect directly")
        try:
            token = connect.auth_data.decode("ascii")
        except UnicodeDecodeError:
            raise AuthenticationFailed("the service token is not ASCII text") from None
        if self._verifier.verify(token, now_ms).role != BROKER_ROLE:
            raise AuthenticationFailed("only brokers may connect on behalf of clients")
        try:
            return decoder_of(DelegatedClient).decode(connect.original_principal)
        except msgspec.MsgspecError as error:
            raise AuthenticationFailed(f"the original principal cannot be read: {error}") from None
