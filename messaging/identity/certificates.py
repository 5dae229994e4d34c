"""Client certificates: who a peer of the TLS listener is by the certificate that it presented.

The handshake has verified the certificate against the authority of `tls_client_ca_file`. As in Pulsar, the common name of its
subject is the role; it never becomes a role that tokens of ours have, unless a setting says so.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from messaging.errors import AuthenticationFailed
from messaging.identity.tokens import check_role
from messaging.permissions.model import CERTIFICATE_ROLE_PREFIX, Principal

EXPECTED = "connect to the TLS port with a certificate of the authority in tls_client_ca_file"


def certificate_principal(certificate: Mapping[str, Any] | None, roles: Mapping[str, str], now_ms: int) -> Principal:
    """`certificate`: as `ssl.SSLSocket.getpeercert` has it; None or empty if the peer presented none. `roles`: by common name.

    Raises `AuthenticationFailed`, which says what to do.
    """
    if not certificate:
        raise AuthenticationFailed(f"this connection has no client certificate: {EXPECTED}, or use token authentication")
    names = [value for pairs in certificate.get("subject", ()) for key, value in pairs if key == "commonName"]
    if len(names) != 1 or not names[0]:
        raise AuthenticationFailed(f"the client certificate has {len(names)} common names: its subject needs exactly one, the role")
    role = roles.get(names[0], CERTIFICATE_ROLE_PREFIX + names[0])
    check_role(role, "a client certificate")
    expires_ms = int(ssl.cert_time_to_seconds(certificate["notAfter"])) * 1000
    if expires_ms <= now_ms:  # it ended while the connection was open
        raise AuthenticationFailed(f"the client certificate ended at {certificate['notAfter']}: connect again with a new one").of(
            role, ""
        )
    return Principal(role, expires_ms=expires_ms)
