"""Whether a caller is on this machine, which decides about anonymous access on every listener. Pure.

A reverse proxy on the same machine makes all its clients look local. Three things must therefore hold: the platform listens on
loopback only (`host`), which a deployment for other machines does not; both ends of the connection are loopback addresses; and no
header says that the request was forwarded. The binary protocol has no such header, but a CONNECT that names an original principal
or a proxy is refused (but of another broker of the platform, which says whether its client is local), and a PROXY protocol line is
not a valid frame.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_FORWARDING = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip")
_FORWARDING_PREFIX = "x-forwarded-"


def is_local_caller(host: str, peer: str, own: str | None = None, header_names: Iterable[str] = ()) -> bool:
    """`host`: the setting that says where listeners bind; `peer`: the address of the caller; `own`: the address that it connected
    to, if known."""
    if not is_loopback(host) or not is_loopback(peer) or (own is not None and not is_loopback(own)):
        return False
    return not any(_says_forwarded(name.lower()) for name in header_names)


def is_loopback(host: str) -> bool:
    """Whether a name or address is reachable from this machine only. Names other than ``localhost`` are not."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def own_address(host: str) -> str:
    """How a listener bound to `host` is reached from this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if not address.is_unspecified:
        return host
    return "::1" if address.version == 6 else "127.0.0.1"


def _says_forwarded(name: str) -> bool:
    return name in _FORWARDING or name.startswith(_FORWARDING_PREFIX)
