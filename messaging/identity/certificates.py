"""Certificates of peers: who a client of a TLS listener is by the certificate that it presented, and which process of ours.

The handshake has verified the certificate against the authority of `tls_client_ca_file`. As in Pulsar, the common name of its
subject is the role; it never becomes a role that tokens of ours have, unless a setting says so.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from messaging.errors import AuthenticationFailed
from messaging.identity.tokens import check_role
from messaging.permissions.model import CERTIFICATE_ROLE_PREFIX, SERVICE_ROLE_PREFIX, Principal

Certificate = Mapping[str, Any]  # as `ssl.SSLSocket.getpeercert` has it
EXPECTED = "connect to the TLS port with a certificate of the authority in tls_client_ca_file"


def certificate_principal(certificate: Certificate | None, roles: Mapping[str, str], now_ms: int) -> Principal:
    """`certificate`: None or empty if the peer presented none. `roles`: by common name.

    Raises `AuthenticationFailed`, which says what to do.
    """
    if not certificate:
        raise AuthenticationFailed(f"this connection has no client certificate: {EXPECTED}, or use token authentication")
    names = common_names(certificate)
    if len(names) != 1 or not names[0]:
        raise AuthenticationFailed(f"the client certificate has {len(names)} common names: its subject needs exactly one, the role")
    role = roles.get(names[0], CERTIFICATE_ROLE_PREFIX + names[0])
    check_role(role, "a client certificate")
    expires_ms = _expires_ms(certificate)
    if expires_ms <= now_ms:  # it ended while the connection was open
        raise AuthenticationFailed(f"the client certificate ended at {certificate['notAfter']}: connect again with a new one").of(
            role, ""
        )
    return Principal(role, expires_ms=expires_ms)


def common_names(certificate: Certificate | None) -> list[str]:
    return [value for pairs in (certificate or {}).get("subject", ()) for key, value in pairs if key == "commonName"]


def check_process_certificate(principal: Principal, certificate: Certificate | None, now_ms: int) -> None:
    """That a process of ours shows a token and a certificate of the same name: neither is of use to whoever has only one of them.

    Raises `AuthenticationFailed`."""
    names = common_names(certificate)
    name = principal.role.removeprefix(SERVICE_ROLE_PREFIX)
    if certificate is None or names != [name]:
        raise AuthenticationFailed(
            f"the service token is of {name!r} but the certificate of this connection of {', '.join(names) or 'nobody'}: set "
            f"internal_tls_cert_file to a certificate whose common name is {name!r}"
        )
    if _expires_ms(certificate) <= now_ms:
        raise AuthenticationFailed(f"the certificate of {name!r} ended at {certificate['notAfter']}: connect again with a new one")


def _expires_ms(certificate: Certificate) -> int:
    return int(ssl.cert_time_to_seconds(certificate["notAfter"])) * 1000
