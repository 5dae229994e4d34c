"""What all machines of a fleet have in common: secrets, and certificates that our processes accept from each other."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest

from messaging.identity.fleet_files import AUTHORITY_FILE, AUTHORITY_KEY_FILE, LIFE_DAYS, create_fleet_files
from messaging.identity.service import SERVICE_NAMES
from messaging.settings import ConfigError, load

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return create_fleet_files(load({}, data_dir=str(tmp_path / "fleet")), NOW)


def test_they_are_there_and_for_their_owner_alone(folder: Path) -> None:
    expected = {f"{name}.{kind}" for name in SERVICE_NAMES for kind in ("pem", "key")} | {AUTHORITY_FILE, AUTHORITY_KEY_FILE}
    assert {path.name for path in folder.iterdir()} == expected
    secrets = folder.parent / "secrets"
    assert (secrets / "superuser.token").exists() and (secrets / "identity" / "broker.key").exists()
    for path in (*folder.iterdir(), *secrets.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[str, str]:
    """The common names that the server and the client see of each other."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    open_ends = [asking, answering]
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
                open_ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not open_ends
    seen = [end.getpeercert() for end in (answering, asking)]
    names = [value for each in seen if each for part in each["subject"] for key, value in part if key == "commonName"]  # type: ignore[str-unpack]
    return names[0], names[1]


def context(folder: Path, name: str, protocol: int) -> ssl.SSLContext:
    made = ssl.SSLContext(protocol)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    made.load_verify_locations(folder / AUTHORITY_FILE)
    return made


@pytest.mark.parametrize("name", SERVICE_NAMES)
def test_each_process_is_accepted_as_client_and_as_server(folder: Path, name: str) -> None:
    client = context(folder, name, ssl.PROTOCOL_TLS_CLIENT)
    assert handshake(client, context(folder, "broker", ssl.PROTOCOL_TLS_SERVER)) == (name, "broker")
    other = context(folder, "web", ssl.PROTOCOL_TLS_CLIENT)
    assert handshake(other, context(folder, name, ssl.PROTOCOL_TLS_SERVER)) == ("web", name)


def test_those_of_another_authority_are_refused(folder: Path, tmp_path: Path) -> None:
    strangers = create_fleet_files(load({}, data_dir=str(tmp_path / "other")), NOW)
    with pytest.raises(ssl.SSLError, match=r"certificate verify failed|unknown ca"):
        handshake(context(strangers, "web", ssl.PROTOCOL_TLS_CLIENT), context(folder, "broker", ssl.PROTOCOL_TLS_SERVER))


def test_they_end_before_the_authority_does(tmp_path: Path) -> None:
    long_ago = NOW - datetime.timedelta(days=LIFE_DAYS + 1)
    folder = create_fleet_files(load({}, data_dir=str(tmp_path / "old")), long_ago)
    with pytest.raises(ssl.SSLError, match="expired"):
        handshake(context(folder, "web", ssl.PROTOCOL_TLS_CLIENT), context(folder, "broker", ssl.PROTOCOL_TLS_SERVER))


def test_another_authority_does_not_replace_the_first(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigError, match=r"authority.pem exists: choose an empty directory, or use what is there"):
        create_fleet_files(load({}, data_dir=str(folder.parent)), NOW)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
