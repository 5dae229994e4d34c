"""Webhooks and mail addresses of a tenant who means harm: no worker is held, and no address inside is reached by another name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from messaging.errors import InvalidValue, NotAllowed, NotReady
from messaging.settings import Settings
from workers import mail
from workers.alerts import webhooks
from workers.alerts.actions import check_target
from workers.alerts.webhooks import address_of, networks, post

PIECES = 300


def drip(piece: bytes) -> tuple[int, list[bytes], threading.Thread]:
    """A server that reads a request and sends `piece` again and again, `PIECES` times at most."""
    listener = socket.create_server(("127.0.0.1", 0))
    sent: list[bytes] = []

    def serve() -> None:
        with listener, listener.accept()[0] as peer:
            peer.recv(65536)
            gone = threading.Event()
            while len(sent) < PIECES and not gone.wait(0.02):
                try:
                    peer.sendall(piece)
                except OSError:
                    gone.set()
                sent.append(piece)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener.getsockname()[1], sent, thread


@pytest.mark.parametrize("piece", [b"x", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: y\r\n"])
def test_a_webhook_that_goes_on_answering_holds_no_worker(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 1.0)
    port, sent, thread = drip(piece)

    def send() -> int:
        return post(f"http://hook.example:{port}/", "s", "n", b"{}", 1, networks("127.0.0.0/8"), lambda host, port: ["127.0.0.1"])

    if b"200" in piece:
        assert send() == 200
    else:
        with pytest.raises(NotReady):
            send()
    thread.join(60)
    assert not thread.is_alive() and len(sent) < PIECES


@pytest.mark.parametrize(
    "address",
    [
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "::7f00:1",
        "::ffff:0:7f00:1",
        "fec0::1",
        "64:ff9b:1::1",
        "ff0e::1",
        "5f00::1",
        "3fff::1",
        "100::1",
        "100:0:0:1::1",
        "4000::1",
        "2001::1",
        "2001:2::1",
        "2001:db8::1",
        "2620:4f:8000::1",
        "192.88.99.1",
        "192.0.0.9",
        "192.31.196.1",
        "192.52.193.1",
        "192.175.48.1",
        "198.19.255.255",
        "203.0.113.9",
        "255.255.255.255",
    ],
)
def test_an_address_of_a_special_purpose_is_not_reached_in_any_form(address: str) -> None:
    with pytest.raises(NotAllowed, match="not public"):
        address_of("hook.example", 443, [], lambda host, port: [address])


@pytest.mark.parametrize("url", ["http://[::1", "http://h:port/", "http://h:99999/", "http://h:0/", "ftp://h/", "http://"])
def test_a_malformed_url_is_refused_in_words(url: str) -> None:
    with pytest.raises(InvalidValue, match="is not the URL of a webhook"):
        webhooks.check_url(url)


@pytest.mark.parametrize("address", ["a@b.example,c@d.example", "a@b.example c@d.example", "<a@b.example>", "a", "a@b@c.example"])
def test_an_address_is_that_of_one_mailbox(address: str) -> None:
    with pytest.raises(InvalidValue, match="is not a mail address"):
        check_target("", [address])
    check_target("", ["a@b.example", "c@d.example"])


def test_public_addresses_of_ipv6_are_reached() -> None:
    addresses = ["2606:4700::1111", "2001:4860:4860::8888", "64:ff9b::5db8:d70e", "93.184.215.14"]
    assert address_of("hook.example", 443, [], lambda host, port: addresses) == addresses[0]


@pytest.mark.parametrize("address", ["a@b,c@d", "a@" + "\u00fc" * 80, "@", "a@b@c", '"a@b', "\u00fc@\u00fc..de"])
def test_a_mail_to_a_malformed_address_fails_in_words(address: str, settings_of: Callable[..., Settings]) -> None:
    settings = settings_of(smtp_url="smtp://127.0.0.1:1")
    assert mail.send(settings, [address], "s", "t").startswith("mail failed: ")
