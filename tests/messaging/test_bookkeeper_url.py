"""The URL of a store on bookies: what it may say, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.bookkeeper_url import BookkeeperUrl
from messaging.settings import ConfigError, Settings


def test_what_is_not_said_has_a_default() -> None:
    assert BookkeeperUrl.parse("bookkeeper://zk") == BookkeeperUrl("zk:2181")
    url = BookkeeperUrl.parse("bookkeeper://zk1:2182,zk2,[::1]:7/pulsar/ledgers/?ensemble=5&write_quorum=4&ack_quorum=3&store=one")
    assert (url.hosts, url.root, url.home) == ("zk1:2182,zk2:2181,[::1]:7", "/pulsar/ledgers", "/pulsar/magnetar")
    assert (url.ensemble, url.write_quorum, url.ack_quorum, url.store) == (5, 4, 3, "one")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("bookkeeper:///ledgers", "no host of a ZooKeeper is named"),
        ("bookkeeper://me:geheim@zk/ledgers", r"\?password_file="),
        ("bookkeeper://zk:x/ledgers", "'zk:x' is not the host:port of a ZooKeeper"),
        ("bookkeeper://zk/led gers", "is not the path of BookKeeper's ledgers"),
        ("bookkeeper://zk/ledgers?quorum=3", "'quorum' is no option of it; these are: ensemble, write_quorum"),
        ("bookkeeper://zk/ledgers?ensemble=many", "ensemble = 'many' is not a number"),
        ("bookkeeper://zk/ledgers?ensemble=2", "ensemble 2, write quorum 3, ack quorum 2"),
        ("bookkeeper://zk/ledgers?store=a/b", "store = 'a/b' is no name"),
        ("bookkeeper://zk/ledgers?frame_bytes_max=1", "frame_bytes_max = 1 is below 65536"),
        ("bookkeeper://zk/ledgers?tls_cert_file=/c", "tls_cert_file and tls_key_file belong together"),
        ("bookkeeper://zk/ledgers?zookeeper_tls_key_file=/k", "zookeeper_tls_cert_file and zookeeper_tls_key_file belong together"),
    ],
)
def test_what_is_wrong_is_said(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"ledger_url: .*{says}") as refused:
        Settings(ledger_url=url)
    assert "geheim" not in str(refused.value)


def test_a_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    url = BookkeeperUrl("zk:2181", password_file=str(file))
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        url.password()
    file.write_text("\nsecond line\n")
    with pytest.raises(ValueError, match="is no password: it is empty"):
        url.password()
    file.write_text("secret \nsecond line\n")
    assert url.password() == b"secret"
    assert BookkeeperUrl("zk:2181").password() == b""
