"""The address of a client behind proxies: the only place that decides whether to trust `X-Forwarded-For`. Pure.

A peer may write anything into that header. Each proxy appends the address that it was called from, so that the list is true from
its right end on, for as long as each entry was written by a proxy of ours: the client is the first address from the right that is
none of `trusted_proxies`. Without trusted proxies the peer of the connection is the client, whatever the header says.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

HEADER_BYTES_MAX = 1024  # of the header, its right end; more proxies than fit in there stand in no chain of ours
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def networks(trusted_proxies: Sequence[str]) -> tuple[_Network, ...]:
    """Raises `ValueError` naming the entry that is neither an address nor a network."""
    return tuple(ipaddress.ip_network(text.strip(), strict=False) for text in trusted_proxies)


def client_address(peer: str, forwarded_for: str, trusted_proxies: Sequence[str]) -> str:
    """The address that a request came from, in its canonical form. `peer`: who the connection is with; `forwarded_for`: the header
    `X-Forwarded-For`, several of them joined by commas."""
    trusted = _networks(tuple(trusted_proxies))
    address = _parsed(peer)
    if address is None:
        return peer
    for text in reversed(forwarded_for[-HEADER_BYTES_MAX:].split(",")):
        if not any(address in network for network in trusted):
            break
        further = _parsed(text)
        if further is None:  # no proxy writes this: what stands further left is not believed either
            break
        address = further
    return str(address)


def within(address: str, allowed: Sequence[str]) -> bool:
    """Whether `address` is in one of the networks `allowed`; without any, every address is. One that cannot be read is in none."""
    if not allowed:
        return True
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in _networks(tuple(allowed)))


@lru_cache(maxsize=4096)
def place_of(address: str) -> str:
    """What one customer of a provider holds: an IPv4 address, or a /64 of IPv6. Bounds by address are bounds by this."""
    parsed = _parsed(address)
    if parsed is None:
        return address
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))


@lru_cache(maxsize=8)
def _networks(trusted_proxies: tuple[str, ...]) -> tuple[_Network, ...]:
    return networks(trusted_proxies)


def _parsed(text: str) -> _Address | None:
    """An address, perhaps with a port (``[::1]:80``, ``192.0.2.1:80``); IPv4 inside IPv6 counts as IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
