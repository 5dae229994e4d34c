"""Whether a caller is on this machine: the one decision behind anonymous access on every entrance. Pure.

A reverse proxy on the same machine makes everybody who comes through it look local. So three things must hold: the platform is
bound to loopback only (`host`), which a deployment that serves others is not; both ends of the connection are loopback addresses;
and no header of the request says that it was passed on. The binary protocol has no such header: a CONNECT that names an original
principal or a proxy is refused, and a PROXY protocol line is no frame.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_FORWARDING = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip")
_FORWARDING_PREFIX = "x-forwarded-"


def is_local_caller(host: str, peer: str, own: str | None = None, header_names: Iterable[str] = ()) -> bool:
    """`host`: the setting that says what listeners are bound to; `peer`: the address of the caller; `own`: the address it called,
    where that is known."""
    if not is_loopback(host) or not is_loopback(peer) or (own is not None and not is_loopback(own)):
        return False
    return not any(_says_forwarded(name.lower()) for name in header_names)


def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine alone. What is no address, but for ``localhost``, is not."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _says_forwarded(name: str) -> bool:
    return name in _FORWARDING or name.startswith(_FORWARDING_PREFIX)
