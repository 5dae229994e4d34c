"""Whose request it is: the peer, unless the peer is a proxy of ours, and never what the client writes itself."""

from __future__ import annotations

import pytest

from messaging.client_address import HEADER_BYTES_MAX, client_address, networks, place_of

PROXIES = ("10.0.0.0/8", "fd00::1")


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),  # a client that writes the header itself
        ("10.1.1.1", "", "10.1.1.1"),
        ("10.1.1.1", "203.0.113.9", "203.0.113.9"),
        ("10.1.1.1", "198.51.100.7, 203.0.113.9", "203.0.113.9"),  # the left one is the client's own invention
        ("10.1.1.1", "203.0.113.9, 10.2.2.2", "203.0.113.9"),  # two proxies of ours
        ("10.1.1.1", "nonsense, 10.2.2.2", "10.2.2.2"),
        ("10.1.1.1", "203.0.113.9:4711", "203.0.113.9"),
        ("fd00::1", "[2001:db8::7]:443", "2001:db8::7"),
        ("::ffff:10.1.1.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("", "203.0.113.9", ""),  # a Unix socket
        ("10.1.1.1", ",,,", "10.1.1.1"),
    ],
)
def test_the_first_address_from_the_right_that_is_no_proxy_of_ours(peer: str, forwarded_for: str, client: str) -> None:
    assert client_address(peer, forwarded_for, PROXIES) == client


def test_without_trusted_proxies_the_header_says_nothing() -> None:
    assert client_address("127.0.0.1", "203.0.113.9", ()) == "127.0.0.1"


def test_a_long_header_is_read_at_its_end_only() -> None:
    header = "203.0.113.9, " + "10.0.0.1, " * HEADER_BYTES_MAX
    assert client_address("10.1.1.1", header.rstrip(", "), PROXIES) == "10.0.0.1"


def test_a_malformed_network_is_named() -> None:
    with pytest.raises(ValueError, match=r"proxy\.example"):
        networks(("10.0.0.0/8", "proxy.example"))


@pytest.mark.parametrize(
    ("address", "place"),
    [("203.0.113.9", "203.0.113.9"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("::ffff:203.0.113.9", "203.0.113.9"), ("", "")],
)
def test_a_network_of_ipv6_is_one_place(address: str, place: str) -> None:
    assert place_of(address) == place
