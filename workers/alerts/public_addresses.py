"""Which addresses of the Internet a webhook may be at. Pure.

None of a special-purpose registry of IANA, whatever it says of their reach (RFC 6890; the tables below are the registries of 2025),
no multicast, and of IPv6 only what is given out for global unicast, 2000::/3. An IPv6 address that a router translates to IPv4 is
judged as that.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SPECIAL_IPV4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private use
            "100.64.0.0/10",  # shared by the customers of a carrier
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link local
            "172.16.0.0/12",  # private use
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # multicast tunnels (AMT)
            "192.88.99.0/24",  # former relays of 6to4
            "192.168.0.0/16",  # private use
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_UNICAST_IPV6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_IPV6 = tuple(  # of those within 2000::/3: all others are outside it
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID, AMT, anycast
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # to IPv4, by NAT64


def meant(address: Address) -> Address:
    """Where packets to it end up: of an IPv6 address that stands for one of IPv4, that one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _TRANSLATED:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address
    return address


def is_public(address: Address) -> bool:
    """Of an address as `meant` gives it."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    return address in _UNICAST_IPV6 and not any(address in network for network in _SPECIAL_IPV6)
