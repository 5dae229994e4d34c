from __future__ import annotations

from dataclasses import dataclass

import pytest

from messaging.http_guard import check_host, check_origin, refusal
from messaging.settings import Settings


@dataclass(frozen=True)
class View:
    host: str = "127.0.0.1"
    client_host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.:8081", "127.0.0.1", "127.0.0.1:8081", "127.8.9.1", "[::1]:8081"])
def test_loopback_is_always_known(host: str) -> None:
    assert check_host(host, View()) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.nip.example", "10.0.0.5", "0.0.0.0:8081", "169.254.169.254", "[::]"],
)
def test_a_loopback_listener_knows_no_other_name(host: str) -> None:
    reason = check_host(host, View())
    assert reason is not None and "allowed_hosts" in reason


@pytest.mark.parametrize(
    "host",
    [None, "", " ", "a b", "localhost@evil.example", "localhost/x", "localhost,evil.example", "local\nhost", "[::1", "a:b", "é"],
)
def test_a_malformed_host_header_is_refused(host: str | None) -> None:
    reason = check_host(host, View())
    assert reason is not None and "Host header" in reason


def test_names_come_from_settings() -> None:
    view = Settings(
        data_dir="unused",
        host="0.0.0.0",
        advertised_host="Broker.Example",
        allowed_hosts=("proxy.example:443", ".cloud.example", "2001:db8::1"),
    )
    for host in ("broker.example:8081", "proxy.example", "cloud.example", "a.b.cloud.example:1", "[2001:db8::1]:8080"):
        assert check_host(host, view) is None, host
    for host in ("evilcloud.example", "other.example", "xbroker.example"):
        assert check_host(host, view) is not None, host


def test_a_listener_open_to_others_answers_to_addresses_but_not_to_unknown_names() -> None:
    view = View(host="0.0.0.0")
    assert check_host("192.168.1.7:8080", view) is None
    assert check_host("[fe80::1]", view) is None
    assert check_host("0.0.0.0", view) is not None
    assert check_host("rebinding.example", view) is not None


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "127.0.0.1"),
        ("http://127.0.0.1:8080", "127.0.0.1:8081"),
        ("http://localhost:8080", "127.0.0.1:8081"),
        ("https://[::1]", "localhost"),
        ("https://console.example", "127.0.0.1"),
    ],
)
def test_an_origin_of_the_same_host_or_an_allowed_one_passes(origin: str | None, host: str) -> None:
    assert check_origin(origin, host, View(allowed_hosts=("console.example",))) is None


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "https://127.0.0.1.evil.example",
        "file://",
        "chrome-extension://abc",
        "http://[",
        "127.0.0.1",
    ],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert refusal("127.0.0.1:8081", origin, View()) is not None
    status, reason = refusal("127.0.0.1:8081", origin, View()) or (0, "")
    assert status == 403 and "is not allowed" in reason


def test_a_foreign_host_is_refused_even_where_origin_agrees_with_it() -> None:
    status, reason = refusal("rebinding.example", "http://rebinding.example", View()) or (0, "")
    assert status == 421 and "rebinding.example" in reason
    assert refusal("127.0.0.1", None, View()) is None
