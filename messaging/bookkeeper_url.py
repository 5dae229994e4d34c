"""The setting `ledger_url` of a store on bookies.

    bookkeeper://zk1:2181,zk2:2181/ledgers?ensemble=3&write_quorum=3&ack_quorum=2&password_file=/etc/magnetar/bookies

The path is the root of BookKeeper's ledgers in ZooKeeper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import parse_qsl

SCHEME = "bookkeeper"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?")
_ROOT = re.compile(r"(/[A-Za-z0-9_.-]+)+")
_STORE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PORT = ":2181"
_PASSWORD_BYTES_MAX = 1024
FRAME_BYTES_MAX = 5 * 1024 * 1024  # what bookies allow unless they are told otherwise


def is_bookkeeper(ledger_url: str) -> bool:
    return ledger_url.startswith(f"{SCHEME}:")


@dataclass(frozen=True, slots=True)
class BookkeeperUrl:
    """`store`: the name of this platform's ledgers in the cluster. `frame_bytes_max` is not above that of the bookies
    (`nettyMaxFrameSizeBytes`). `password_file`: a file whose first line is the password of the ledgers; whoever opens them has to
    know it. With `tls_ca_file` bookies are spoken to over TLS, with `zookeeper_tls_ca_file` ZooKeeper is. `zookeeper_auth_file`: a
    file whose first line is `name:password`, which is shown to ZooKeeper (its scheme `digest`)."""

    hosts: str
    root: str = "/ledgers"
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    store: str = "default"
    frame_bytes_max: int = FRAME_BYTES_MAX
    password_file: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    zookeeper_tls_ca_file: str = ""
    zookeeper_tls_cert_file: str = ""
    zookeeper_tls_key_file: str = ""
    zookeeper_auth_file: str = ""

    @classmethod
    def parse(cls, url: str) -> BookkeeperUrl:
        """Raises `ValueError`, which says what is wrong and does not repeat the whole URL."""
        scheme, _, rest = url.partition("://")
        if scheme != SCHEME:
            raise ValueError(f"{scheme[:40]}://... is not the URL of a BookKeeper: {SCHEME}://zookeeper:2181/ledgers")
        place, _, query = rest.partition("?")
        named, _, path = place.partition("/")
        if "@" in named:
            raise ValueError("no name or password stands before the hosts: name the file of the password, ?password_file=/path")
        hosts = [host for host in named.split(",") if host]
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host[:80]!r} is not the host:port of a ZooKeeper")
        if not hosts:
            raise ValueError("no host of a ZooKeeper is named: bookkeeper://zk1:2181,zk2:2181/ledgers")
        root = f"/{path}".rstrip("/") or "/ledgers"
        if not _ROOT.fullmatch(root):
            raise ValueError(f"{root[:80]!r} is not the path of BookKeeper's ledgers in ZooKeeper, such as /ledgers")
        options: dict[str, str | int] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            options[name] = _option(name, value)
        with_ports = [host if re.search(r":[0-9]+$", host) else host + _PORT for host in hosts]
        made = cls(",".join(with_ports), root, **options)  # type: ignore[arg-type]
        made._check()
        return made

    def _check(self) -> None:
        from messaging.bookkeeper.core.ledger_metadata import check_quorums  # its libraries are loaded only where it is used
        from messaging.bookkeeper.errors import InvalidArgument

        try:
            check_quorums(self.ensemble, self.write_quorum, self.ack_quorum)
        except InvalidArgument as error:
            raise ValueError(str(error)) from None
        if not _STORE.fullmatch(self.store):
            raise ValueError(f"store = {self.store[:80]!r} is no name: up to 64 letters, digits, - and _")
        if self.frame_bytes_max < 1 << 16:
            raise ValueError(f"frame_bytes_max = {self.frame_bytes_max} is below 65536")
        _check_tls("", self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        _check_tls("zookeeper_", self.zookeeper_tls_ca_file, self.zookeeper_tls_cert_file, self.zookeeper_tls_key_file)

    @property
    def home(self) -> str:
        """Where in ZooKeeper the nodes of all our stores are, beside the ledgers."""
        return self.root.rpartition("/")[0] + "/magnetar"

    @property
    def racks_path(self) -> str:
        """Where Pulsar keeps the racks of bookies, beside the ledgers."""
        return self.root.rpartition("/")[0] + "/bookies"

    def password(self) -> bytes:
        """Reads the file. Raises `ValueError`."""
        if not self.password_file:
            return b""
        return _first_line("password_file", self.password_file, "password")

    def zookeeper_auth(self) -> str:
        """`name:password`. Reads the file. Raises `ValueError`."""
        if not self.zookeeper_auth_file:
            return ""
        auth = _first_line("zookeeper_auth_file", self.zookeeper_auth_file, "name:password").decode(errors="replace")
        if not all(auth.partition(":")):
            raise ValueError(f"the first line of zookeeper_auth_file {self.zookeeper_auth_file} is no name:password")
        return auth


def _first_line(option: str, name: str, what: str) -> bytes:
    try:
        line = Path(name).read_bytes()[: _PASSWORD_BYTES_MAX + 1].partition(b"\n")[0].strip()
    except OSError as error:
        raise ValueError(f"{option} {name} cannot be read: {error.strerror}") from None
    if not line or len(line) > _PASSWORD_BYTES_MAX:
        raise ValueError(f"the first line of {option} {name} is no {what}: it is empty, or too long")
    return line


def _check_tls(whose: str, ca_file: str, cert_file: str, key_file: str) -> None:
    if bool(cert_file) != bool(key_file) or (cert_file and not ca_file):
        raise ValueError(f"{whose}tls_cert_file and {whose}tls_key_file belong together, and to {whose}tls_ca_file")


_OPTIONS = {item.name: item.type for item in fields(BookkeeperUrl) if item.name not in ("hosts", "root")}


def _option(name: str, value: str) -> str | int:
    kind = _OPTIONS.get(name)
    if kind is None:
        raise ValueError(f"{name[:40]!r} is no option of it; these are: {', '.join(_OPTIONS)}")
    if kind == "str":
        return value
    if not value.isdigit() or len(value) > 9:
        raise ValueError(f"{name} = {value[:40]!r} is not a number")
    return int(value)
